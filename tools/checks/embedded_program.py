"""Programs that a check carries to a host: the text of a module becomes one word of an argv, `python3 -c WORD`."""

import re
from pathlib import Path

_SHELL_CHARS_PATTERN = re.compile("[|;&$`<>{}]")


def encode_program(module: Path) -> str:
    """Return the module's text as one word. It holds no line break and no character that a shell or an argv template reads.

    The first line, blank lines and docstrings of one line are left out, and indents are one blank each: hosts need not take more than 32 KiB at
    once (RFC 4253).
    """
    text = module.read_text(encoding="utf-8").partition("\n")[2].strip() + "\n"
    text = re.sub(r'(?m)^(?: +"{3}.*"{3})?\n', "", text)
    text = re.sub(r"(?m)^(?: {4})+", lambda found: " " * (len(found[0]) // 4), text)
    return f"exec({_SHELL_CHARS_PATTERN.sub(lambda found: f'{chr(92)}x{ord(found[0]):02x}', repr(text))})"
