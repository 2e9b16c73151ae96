"""Answers on disk, one per line, so that none is asked twice. The head names code and cases; other ones invalidate it.
One writer at a time.
"""

import fcntl
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Self

from bot.refusal import Refusal

SCHEMA = 1
Key = tuple[str, str, int]


class Journal:
    """The file's answers and additions. `kept`: answers found in the file."""

    def __init__(self, path: Path, digest: str) -> None:
        self.path, self.rows = path, dict[Key, dict[str, Any]]()
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("a+")
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self._file.close()
            raise Refusal(f"{path}: another run writes these results; wait for it, or give another --json", 2) from error
        self._read({"journal": SCHEMA, "digest": digest})
        self.kept = len(self.rows)

    def _read(self, head: dict[str, Any]) -> None:
        self._file.seek(0)
        text = self._file.read()
        lines = text.splitlines()
        if lines and _json(lines[0]) == head:
            for row in filter(None, map(_json, lines[1:])):
                self.rows[key_of(row)] = row
            if not text.endswith("\n"):
                self._write("\n")  # after a line truncated by a crash
        else:
            self._file.truncate(0)
            self._write(json.dumps(head) + "\n")

    def add(self, rows: Iterable[dict[str, Any]]) -> None:
        """Store rows; a failure is not stored, so it is retried next time."""
        for row in rows:
            self.rows[key_of(row)] = row
            if "failed" not in row:
                self._write(json.dumps(row) + "\n")

    def answer(self, case: str, arm: str, attempt: int) -> dict[str, Any] | None:
        """Return the row with an arm's answer, if any."""
        row = self.rows.get((case, arm, attempt), {})
        return row if "answer" in row else None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def _write(self, text: str) -> None:
        self._file.write(text)
        self._file.flush()


def key_of(row: dict[str, Any]) -> Key:
    return row["case"], row["arm"], row["attempt"]


def _json(line: str) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except ValueError:
        return {}  # truncated by a crash
    return found if isinstance(found, dict) else {}
