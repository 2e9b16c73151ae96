"""Files of a folder or zip, opened as bytes, decoded and streamed. Links are not followed; sizes are checked first."""

import codecs
import io
import json
import os
import re
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final, Protocol

# Files of a folder or zip, opened as bytes. Links are not followed; archive sizes are checked first.

MAX_FILES = 100_000  # files per tree
MAX_UNPACKED_BYTES = 8 << 30  # unpacked bytes per archive
MAX_COMPRESSION_RATIO = 200  # compression ratio per file
UNCHECKED_RATIO_BYTES: Final = 64 << 20  # smaller files may have any ratio
# RuntimeError: a password is needed; NotImplementedError: unknown compression
READ_ERRORS: Final = (OSError, zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, NotImplementedError)


class UnreadableExport(Exception):
    """Why a path cannot be read at all."""


class FileTree(Protocol):
    """Files by name."""

    def iter_names(self) -> Iterator[str]: ...

    def open_file(self, name: str) -> IO[bytes]:
        """Open a file. Raises READ_ERRORS."""
        ...


@dataclass(frozen=True, slots=True)
class FolderTree:
    """A folder or a single file."""

    path: Path

    def iter_names(self) -> Iterator[str]:
        if self.path.is_file():
            yield self.path.name
            return
        names = [
            str((Path(at) / name).relative_to(self.path))
            for at, _, names in os.walk(self.path)
            for name in names
            if (Path(at) / name).is_file() and not (Path(at) / name).is_symlink()
        ]
        if len(names) > MAX_FILES:
            raise UnreadableExport(f"{self.path} holds more than {MAX_FILES} files")
        yield from sorted(name for name in names if not any(part.startswith(".") for part in Path(name).parts))

    def open_file(self, name: str) -> IO[bytes]:
        return (self.path if self.path.is_file() else self.path / name).open("rb")


@dataclass(frozen=True, slots=True)
class ZipTree:
    """A zip archive."""

    path: Path
    zip: zipfile.ZipFile

    def iter_names(self) -> Iterator[str]:
        yield from sorted(one.filename for one in self.zip.infolist() if not one.is_dir())

    def open_file(self, name: str) -> IO[bytes]:
        return self.zip.open(name)


def open_file_tree(path: Path) -> FileTree:
    """Open a folder, file or zip. Raises UnreadableExport."""
    if not path.exists():
        raise UnreadableExport(f"{path} is not there")
    if not path.is_dir() and not path.is_file():
        raise UnreadableExport(f"{path} is neither a file nor a folder")
    return _open_zip(path) if path.is_file() and path.suffix.lower() == ".zip" else FolderTree(path)


def _open_zip(path: Path) -> ZipTree:
    try:
        opened = zipfile.ZipFile(path)
    except READ_ERRORS as error:
        raise UnreadableExport(f"{path} is no zip that can be read: {error}") from error
    inside = opened.infolist()
    if len(inside) > MAX_FILES or sum(one.file_size for one in inside) > MAX_UNPACKED_BYTES:
        raise UnreadableExport(f"{path} unpacks to more than {MAX_FILES} files or {MAX_UNPACKED_BYTES >> 30} GiB")
    bomb = next((one for one in inside if one.file_size > max(UNCHECKED_RATIO_BYTES, MAX_COMPRESSION_RATIO * one.compress_size)), None)
    if bomb:
        raise UnreadableExport(f"{path} holds {bomb.filename[:80]!r}, which unpacks to more than {MAX_COMPRESSION_RATIO} times its size")
    return ZipTree(path, opened)


# Decode unknown encodings and stream JSON values, without holding a whole file.

MAX_ROW_CHARS: Final = 8 << 20  # longer rows are skipped and reported
CHUNK_CHARS: Final = 1 << 18
_BOMS: Final = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))
_TELLING_PATTERN = re.compile(r'["{}\[\]]')
_STRING_ENDS_PATTERN = re.compile(r'["\\]')


def _decode_as_latin1(why: UnicodeError) -> tuple[str, int]:
    if isinstance(why, UnicodeDecodeError):
        return bytes(why.object[why.start : why.end]).decode("latin-1"), why.end
    raise why


codecs.register_error("rackmedic_latin", _decode_as_latin1)


def open_text(raw: IO[bytes]) -> io.TextIOWrapper:
    """Decode by BOM, else UTF-8 with Latin-1 for invalid bytes."""
    buffered_reader = io.BufferedReader(raw) if isinstance(raw, io.RawIOBase) else raw
    start = buffered_reader.peek(4)[:4] if isinstance(buffered_reader, io.BufferedReader) else b""
    encoding = next((name for mark, name in _BOMS if start.startswith(mark)), "utf-8")
    errors = "rackmedic_latin" if encoding.startswith("utf-8") else "replace"
    return io.TextIOWrapper(buffered_reader, encoding=encoding, errors=errors, newline="")


def iter_lines(text: IO[str]) -> Iterator[tuple[int, str | None]]:
    """Yield numbered lines; None for one longer than MAX_ROW_CHARS."""
    number = 0
    while line := text.readline(MAX_ROW_CHARS):
        number += 1
        is_complete_line = line.endswith("\n") or len(line) < MAX_ROW_CHARS
        while not is_complete_line and (more := text.readline(MAX_ROW_CHARS)):
            is_complete_line = more.endswith("\n")
            line = ""
        yield number, line or None


class _ObjectSplitter:
    """One-pass finder of JSON objects' bounds."""

    def __init__(self, level: int) -> None:
        self.level, self.open, self.line = level, 0, 1
        self.in_string = self.escaped = False
        self._held: list[str] = []
        self._size = 0
        self._inside = False
        self.began = 1

    def feed(self, chunk: str) -> Iterator[tuple[int, str | None]]:
        """Yield first line and text of each complete object; None if too long."""
        at = counted_to = 0
        for place, sign in self._iter_brackets(chunk):
            if sign in "{[":
                if sign == "{" and self.open == self.level and not self._inside:
                    self.line += chunk.count("\n", counted_to, place)
                    self._inside, at, counted_to, self.began = True, place, place, self.line
                self.open += 1
            else:
                self.open = max(0, self.open - 1)
                if self._inside and self.open == self.level:
                    self._append_piece(chunk[at : place + 1])
                    yield self.began, "".join(self._held) if self._size <= MAX_ROW_CHARS else None
                    self._held, self._size, self._inside = [], 0, False
        if self._inside:
            self._append_piece(chunk[at:])
        self.line += chunk.count("\n", counted_to)

    def _append_piece(self, piece: str) -> None:
        self._size += len(piece)
        if self._size <= MAX_ROW_CHARS:
            self._held.append(piece)
        else:
            self._held.clear()

    def _iter_brackets(self, chunk: str) -> Iterator[tuple[int, str]]:
        """Outside strings."""
        at = 0
        if self.escaped and chunk:
            at, self.escaped = 1, False
        while match := (_STRING_ENDS_PATTERN if self.in_string else _TELLING_PATTERN).search(chunk, at):
            at = match.end()
            if match[0] == "\\":
                self.escaped = at >= len(chunk)
                at += 1
            elif match[0] == '"':
                self.in_string = not self.in_string
            else:
                yield match.start(), match[0]

    @property
    def is_unfinished(self) -> bool:
        return self._inside


def iter_json_values(text: IO[str]) -> Iterator[tuple[int, Any]]:
    """Yield objects with their line: of an array, an enclosed array (`{"issues": […]}`) or a sequence.

    A bad object yields a ValueError.
    """
    first = text.read(CHUNK_CHARS)
    if (start := first.removeprefix("\ufeff").lstrip()) and start[0] not in "[{":
        yield 1, ValueError(f"it is not JSON: it begins with {start[:20]!r}")
        return
    objects = _ObjectSplitter(_get_object_level(first))
    chunk = first
    while chunk:
        for line, value in objects.feed(chunk):
            yield line, parse_json_value(value)
        chunk = text.read(CHUNK_CHARS)
    if objects.is_unfinished:
        yield objects.began, ValueError("the file ends in the middle of it")


_ENVELOPE_PATTERN = re.compile(
    r'\s*\{(?:\s*"[^"\\]{0,60}"\s*:\s*(?:"[^"\\]{0,300}"|[-\d.eE+]{1,30}|true|false|null)\s*,){0,20}\s*"(?P<name>[^"\\]{1,60})"\s*:\s*\['
)
# names of the enclosed array in exports
ENVELOPE_NAMES: Final = frozenset({"issues", "items", "result", "results", "records", "incidents", "data", "rows", "values"})


def _get_object_level(start: str) -> int:
    start = start.removeprefix("\ufeff").lstrip()
    if start.startswith("["):
        return 1
    around = _ENVELOPE_PATTERN.match(start)
    return 2 if around and around["name"].lower() in ENVELOPE_NAMES else 0


def parse_json_value(found: str | None) -> Any:
    """Return the value or a ValueError; None means too long."""
    if found is None:
        return ValueError(f"it is longer than {MAX_ROW_CHARS >> 20} MiB")
    try:
        return json.loads(found)
    except (ValueError, RecursionError) as error:
        return ValueError(f"it is not JSON: {str(error)[:120]}")
