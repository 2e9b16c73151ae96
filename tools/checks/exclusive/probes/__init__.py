"""Small programs for the GPU nodes, as constants of a check's argv: `python3 -c WORD`. They need no package, change nothing and clean up.

Each is a module of its own, so that it is read, typed and tested like any other; its text is what travels. They keep to Python 3.6.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tools.checks.check_types import encode_program
from tools.checks.output_values import parse_json_lines


def load_probe(name: str) -> str:
    """A probe as one word without a line break or a character that any shell or argv template reads."""
    return encode_program(Path(__file__).parent / f"{name}.py")


def parse_probe_rows(text: str, probe: str) -> list[Mapping[str, Any]]:
    """What that probe printed: one object a line. A longer line than any of ours is somebody else's."""
    return [row for row in parse_json_lines(text, longest=2000) if row.get("probe") == probe]
