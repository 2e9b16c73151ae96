"""Tab-separated tables beside the code, loaded on first use."""

from functools import cache
from pathlib import Path

_FOLDER = Path(__file__).parent / "tables"


@cache
def load_table(name: str) -> tuple[dict[str, str], ...]:
    """Return the rows of `tables/<name>.tsv` by column name."""
    head, *lines = (_FOLDER / f"{name}.tsv").read_text(encoding="utf-8").splitlines()
    columns = head.split("\t")
    return tuple(dict(zip(columns, line.split("\t"), strict=True)) for line in lines)
