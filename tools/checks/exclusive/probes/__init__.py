"""Small programs for the GPU nodes, as constants of a check's argv: `python3 -c WORD`. They need no package, change nothing and clean up.

Each is a module of its own, so that it is read, typed and tested like any other; its text is what travels. They keep to Python 3.6.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tools.checks.lines import objects
from tools.checks.program import as_word


def source(name: str) -> str:
    """A probe as one word without a line break or a character that any shell or argv template reads."""
    return as_word(Path(__file__).parent / f"{name}.py")


def rows(text: str, probe: str) -> list[Mapping[str, Any]]:
    """What that probe printed: one object a line. A longer line than any of ours is somebody else's."""
    return [row for row in objects(text, longest=2000) if row.get("probe") == probe]
