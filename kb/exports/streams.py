"""Bytes of unknown encoding as text, and the values of a JSON document one by one, so that no file is ever held whole."""

import codecs
import io
import json
import re
from collections.abc import Iterator
from typing import IO, Any, Final

MAX_ROW_CHARS: Final = 8 << 20
"""Characters of one row. What is longer is skipped and told."""
CHUNK_CHARS: Final = 1 << 18
_BOMS: Final = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))
_TELLING_PATTERN = re.compile(r'["{}\[\]]')
_STRING_ENDS_PATTERN = re.compile(r'["\\]')


def _decode_as_latin1(why: UnicodeError) -> tuple[str, int]:
    """What is not UTF-8 was written by a system of Western Europe: each such byte stands for its letter there."""
    if isinstance(why, UnicodeDecodeError):
        return bytes(why.object[why.start : why.end]).decode("latin-1"), why.end
    raise why


codecs.register_error("rackmedic_latin", _decode_as_latin1)


def open_text(raw: IO[bytes]) -> io.TextIOWrapper:
    """By its mark, else UTF-8, in which bytes that are none are read as Latin-1."""
    held = io.BufferedReader(raw) if isinstance(raw, io.RawIOBase) else raw
    start = held.peek(4)[:4] if isinstance(held, io.BufferedReader) else b""
    encoding = next((name for mark, name in _BOMS if start.startswith(mark)), "utf-8")
    errors = "rackmedic_latin" if encoding.startswith("utf-8") else "replace"
    return io.TextIOWrapper(held, encoding=encoding, errors=errors, newline="")


def iter_lines(text: IO[str]) -> Iterator[tuple[int, str | None]]:
    """Every line with its number; None for one that is longer than a row may be."""
    number = 0
    while line := text.readline(MAX_ROW_CHARS):
        number += 1
        whole = line.endswith("\n") or len(line) < MAX_ROW_CHARS
        while not whole and (more := text.readline(MAX_ROW_CHARS)):
            whole = more.endswith("\n")
            line = ""
        yield number, line or None


class _ObjectSplitter:
    """Finds where an object begins and ends, seeing each character once."""

    def __init__(self, level: int) -> None:
        self.level, self.open, self.line = level, 0, 1
        self.in_string = self.escaped = False
        self._held: list[str] = []
        self._size = 0
        self._inside = False
        self.began = 1

    def feed(self, chunk: str) -> Iterator[tuple[int, str | None]]:
        """Objects that ended within this piece: the line on which each began and its text, None for one that is too long."""
        at = counted = 0
        for place, sign in self._iter_brackets(chunk):
            if sign in "{[":
                if sign == "{" and self.open == self.level and not self._inside:
                    self.line += chunk.count("\n", counted, place)
                    self._inside, at, counted, self.began = True, place, place, self.line
                self.open += 1
            else:
                self.open = max(0, self.open - 1)
                if self._inside and self.open == self.level:
                    self._append_piece(chunk[at : place + 1])
                    yield self.began, "".join(self._held) if self._size <= MAX_ROW_CHARS else None
                    self._held, self._size, self._inside = [], 0, False
        if self._inside:
            self._append_piece(chunk[at:])
        self.line += chunk.count("\n", counted)

    def _append_piece(self, piece: str) -> None:
        self._size += len(piece)
        if self._size <= MAX_ROW_CHARS:
            self._held.append(piece)
        else:
            self._held.clear()

    def _iter_brackets(self, chunk: str) -> Iterator[tuple[int, str]]:
        """Brackets that stand in no string."""
        at = 0
        if self.escaped and chunk:
            at, self.escaped = 1, False
        while found := (_STRING_ENDS_PATTERN if self.in_string else _TELLING_PATTERN).search(chunk, at):
            at = found.end()
            if found[0] == "\\":
                self.escaped = at >= len(chunk)
                at += 1
            elif found[0] == '"':
                self.in_string = not self.in_string
            else:
                yield found.start(), found[0]

    @property
    def is_unfinished(self) -> bool:
        """Whether the document ended in the middle of an object."""
        return self._inside


def iter_json_values(text: IO[str]) -> Iterator[tuple[int, Any]]:
    """The objects of an array, of the array that a first object holds (`{"issues": […]}`), or one after the other, each with the line on which it
    begins; ValueError as the value of one that cannot be read."""
    first = text.read(CHUNK_CHARS)
    if (start := first.removeprefix("\ufeff").lstrip()) and start[0] not in "[{":
        yield 1, ValueError(f"it is not JSON: it begins with {start[:20]!r}")
        return
    objects = _ObjectSplitter(_get_object_level(first))
    chunk = first
    while chunk:
        for line, found in objects.feed(chunk):
            yield line, parse_json_value(found)
        chunk = text.read(CHUNK_CHARS)
    if objects.is_unfinished:
        yield objects.began, ValueError("the file ends in the middle of it")


_ENVELOPE_PATTERN = re.compile(
    r'\s*\{(?:\s*"[^"\\]{0,60}"\s*:\s*(?:"[^"\\]{0,300}"|[-\d.eE+]{1,30}|true|false|null)\s*,){0,20}\s*"(?P<name>[^"\\]{1,60})"\s*:\s*\['
)
ENVELOPE_NAMES: Final = frozenset({"issues", "items", "result", "results", "records", "incidents", "data", "rows", "values"})
"""What exports call the list of all that they tell."""


def _get_object_level(start: str) -> int:
    start = start.removeprefix("\ufeff").lstrip()
    if start.startswith("["):
        return 1
    around = _ENVELOPE_PATTERN.match(start)
    return 2 if around and around["name"].lower() in ENVELOPE_NAMES else 0


def parse_json_value(found: str | None) -> Any:
    """What a piece of JSON says, ValueError where it cannot be read; None is one that was too long."""
    if found is None:
        return ValueError(f"it is longer than {MAX_ROW_CHARS >> 20} MiB")
    try:
        return json.loads(found)
    except (ValueError, RecursionError) as why:
        return ValueError(f"it is not JSON: {str(why)[:120]}")
