"""Files of a folder or zip, opened as bytes. Links are not followed; archive sizes are checked first."""

import codecs
import os
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final, Protocol

from kb.exports.json_stream import _decode_as_latin1

MAX_FILES = 100_000  # files per tree
MAX_UNPACKED_BYTES = 8 << 30  # unpacked bytes per archive
MAX_COMPRESSION_RATIO = 200  # compression ratio per file
UNCHECKED_RATIO_BYTES: Final = 64 << 20  # smaller files may have any ratio
# `zipfile` raises RuntimeError for an encrypted member, and NotImplementedError for an unknown compression.
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


codecs.register_error("rackmedic_latin", _decode_as_latin1)
