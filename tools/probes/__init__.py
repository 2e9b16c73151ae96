"""Small programs for the GPU nodes, as constants of a check's argv: `python3 -c SOURCE`. They need no package, change nothing and clean up.

Each is a module of its own, so that it is read, typed and tested like any other; its text is what travels. They keep to Python 3.6.
"""

from pathlib import Path


def source(name: str) -> str:
    """The text of a probe, without its first docstring: what a reader of the host's process table sees."""
    text = (Path(__file__).parent / f"{name}.py").read_text(encoding="utf-8")
    return text.partition('"""\n')[2].partition('"""\n')[2] if text.startswith('"""\n') else text.partition("\n")[2]
