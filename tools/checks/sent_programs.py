"""Programs sent to a host: a module's text as one argv word, `python3 -c WORD`."""

import re
from pathlib import Path

_SHELL_CHARS_PATTERN = re.compile("[|;&$`<>{}]")


def encode_program(module: Path) -> str:
    """Return the module as one word without line breaks and characters that a shell or argv template reads.

    Drops the first line, blank lines and one-line docstrings, and indents by one blank: hosts need not accept more than
    32 KiB at once (RFC 4253).
    """
    text = module.read_text(encoding="utf-8").partition("\n")[2].strip() + "\n"
    text = re.sub(r'(?m)^(?: +"{3}.*"{3})?\n', "", text)
    text = re.sub(r"(?m)^(?: {4})+", lambda indent: " " * (len(indent[0]) // 4), text)
    literal = _SHELL_CHARS_PATTERN.sub(lambda char: rf"\x{ord(char[0]):02x}", repr(text))
    return f"exec({literal})"
