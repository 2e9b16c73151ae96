"""The files of a folder or of an archive, by name, each opened as bytes. Links are not followed, and an archive says beforehand how much it holds."""

import os
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final, Protocol

MAX_FILES, MAX_UNPACKED_BYTES, MAX_COMPRESSION_RATIO = 100_000, 8 << 30, 200
"""Files of a tree; bytes that an archive may unpack to; how often larger than packed one of its files may be."""
UNCHECKED_RATIO_BYTES: Final = 64 << 20
"""Bytes up to which it does not matter how well a file is packed."""
READ_ERRORS: Final = (OSError, zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, NotImplementedError)
"""What reading such a file may raise: RuntimeError for one with a password, NotImplementedError for a packing nobody knows."""


class UnreadableExport(Exception):
    """Why a path cannot be read at all."""


class FileTree(Protocol):
    """Files by name."""

    def iter_names(self) -> Iterator[str]:
        """In the order of their names."""
        ...

    def open_file(self, name: str) -> IO[bytes]:
        """One of them. Raises one of UNREADABLE."""
        ...


@dataclass(frozen=True, slots=True)
class FolderTree:
    """A folder, or one file of it."""

    path: Path

    def iter_names(self) -> Iterator[str]:
        if self.path.is_file():
            yield self.path.name
            return
        found = [
            str((Path(at) / name).relative_to(self.path))
            for at, _, names in os.walk(self.path)
            for name in names
            if (Path(at) / name).is_file() and not (Path(at) / name).is_symlink()
        ]
        if len(found) > MAX_FILES:
            raise UnreadableExport(f"{self.path} holds more than {MAX_FILES} files")
        yield from sorted(name for name in found if not any(part.startswith(".") for part in Path(name).parts))

    def open_file(self, name: str) -> IO[bytes]:
        return (self.path if self.path.is_file() else self.path / name).open("rb")


@dataclass(frozen=True, slots=True)
class ZipTree:
    """A zip."""

    path: Path
    zip: zipfile.ZipFile

    def iter_names(self) -> Iterator[str]:
        yield from sorted(one.filename for one in self.zip.infolist() if not one.is_dir())

    def open_file(self, name: str) -> IO[bytes]:
        return self.zip.open(name)


def open_file_tree(path: Path) -> FileTree:
    """What lies at a path. Raises NoExport."""
    if not path.exists():
        raise UnreadableExport(f"{path} is not there")
    if not path.is_dir() and not path.is_file():
        raise UnreadableExport(f"{path} is neither a file nor a folder")
    return _open_zip(path) if path.is_file() and path.suffix.lower() == ".zip" else FolderTree(path)


def _open_zip(path: Path) -> ZipTree:
    try:
        opened = zipfile.ZipFile(path)
    except READ_ERRORS as why:
        raise UnreadableExport(f"{path} is no zip that can be read: {why}") from why
    inside = opened.infolist()
    if len(inside) > MAX_FILES or sum(one.file_size for one in inside) > MAX_UNPACKED_BYTES:
        raise UnreadableExport(f"{path} unpacks to more than {MAX_FILES} files or {MAX_UNPACKED_BYTES >> 30} GiB")
    bomb = next((one for one in inside if one.file_size > max(UNCHECKED_RATIO_BYTES, MAX_COMPRESSION_RATIO * one.compress_size)), None)
    if bomb:
        raise UnreadableExport(f"{path} holds {bomb.filename[:80]!r}, which unpacks to more than {MAX_COMPRESSION_RATIO} times its size")
    return ZipTree(path, opened)
