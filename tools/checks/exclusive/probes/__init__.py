"""Small programs for the GPU nodes, as constants of a check's argv: `python3 -c WORD`. They need no package, change nothing and clean up.

Each is a module of its own, so that it is read, typed and tested like any other; its text is what travels. They keep to Python 3.6.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tools.checks.lines import objects


def source(name: str) -> str:
    """A probe of this folder as one word."""
    return one_word(Path(__file__).parent / f"{name}.py")


def one_word(path: Path) -> str:
    """A program without its docstring as one word without a line break or a character that any shell or argv template reads, its indents one
    blank each: hosts need not take more than 32 KiB at once (RFC 4253)."""
    text = path.read_text(encoding="utf-8").partition("\n")[2].strip() + "\n"
    text = re.sub(r"(?m)^(?: {4})+", lambda found: " " * (len(found[0]) // 4), text)
    return f"exec({re.sub('[|;&$`<>{}]', lambda found: f'{chr(92)}x{ord(found[0]):02x}', repr(text))})"


def rows(text: str, probe: str) -> list[Mapping[str, Any]]:
    """What that probe printed: one object a line. A longer line than any of ours is somebody else's."""
    return [row for row in objects(text, longest=2000) if row.get("probe") == probe]
