"""Small programs for the GPU nodes, as constants of a check's argv: `python3 -c WORD`. They need no package, change nothing and clean up.

Each is a module of its own, so that it is read, typed and tested like any other; its text is what travels. They keep to Python 3.6.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tools.checks.output_values import parse_json_lines
from tools.checks.sent_programs import encode_program


def load_probe(name: str) -> str:
    """Return the probe as one word without line breaks and characters that a shell or argv template reads."""
    return encode_program(Path(__file__).parent / f"{name}.py")


def parse_probe_rows(text: str, probe: str) -> list[Mapping[str, Any]]:
    """Return the objects that the probe printed, one a line. No probe prints lines of 2000 characters."""
    return [record for record in parse_json_lines(text, max_chars=2000) if record.get("probe") == probe]
