"""The files of a folder or of an archive, by name, each opened as bytes. Links are not followed, and an archive says beforehand how much it holds."""

import os
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final, Protocol

MOST_FILES, MOST_BYTES, MOST_TIMES = 100_000, 8 << 30, 200
"""Files of a tree; bytes that an archive may unpack to; how often larger than packed one of its files may be."""
HARMLESS: Final = 64 << 20
"""Bytes up to which it does not matter how well a file is packed."""
UNREADABLE: Final = (OSError, zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, NotImplementedError)
"""What reading such a file may raise: RuntimeError for one with a password, NotImplementedError for a packing nobody knows."""


class NoExport(Exception):
    """Why a path cannot be read at all."""


class FileTree(Protocol):
    """Files by name."""

    def names(self) -> Iterator[str]:
        """In the order of their names."""
        ...

    def open(self, name: str) -> IO[bytes]:
        """One of them. Raises one of UNREADABLE."""
        ...


@dataclass(frozen=True, slots=True)
class FolderTree:
    """A folder, or one file of it."""

    path: Path

    def names(self) -> Iterator[str]:
        if self.path.is_file():
            yield self.path.name
            return
        found = [
            str((Path(at) / name).relative_to(self.path))
            for at, _, names in os.walk(self.path)
            for name in names
            if (Path(at) / name).is_file() and not (Path(at) / name).is_symlink()
        ]
        if len(found) > MOST_FILES:
            raise NoExport(f"{self.path} holds more than {MOST_FILES} files")
        yield from sorted(name for name in found if not any(part.startswith(".") for part in Path(name).parts))

    def open(self, name: str) -> IO[bytes]:
        return (self.path if self.path.is_file() else self.path / name).open("rb")


@dataclass(frozen=True, slots=True)
class ZipTree:
    """A zip."""

    path: Path
    zip: zipfile.ZipFile

    def names(self) -> Iterator[str]:
        yield from sorted(one.filename for one in self.zip.infolist() if not one.is_dir())

    def open(self, name: str) -> IO[bytes]:
        return self.zip.open(name)


def tree_of(path: Path) -> FileTree:
    """What lies at a path. Raises NoExport."""
    if not path.exists():
        raise NoExport(f"{path} is not there")
    if not path.is_dir() and not path.is_file():
        raise NoExport(f"{path} is neither a file nor a folder")
    return _archive(path) if path.is_file() and path.suffix.lower() == ".zip" else FolderTree(path)


def _archive(path: Path) -> ZipTree:
    try:
        opened = zipfile.ZipFile(path)
    except UNREADABLE as why:
        raise NoExport(f"{path} is no zip that can be read: {why}") from why
    inside = opened.infolist()
    if len(inside) > MOST_FILES or sum(one.file_size for one in inside) > MOST_BYTES:
        raise NoExport(f"{path} unpacks to more than {MOST_FILES} files or {MOST_BYTES >> 30} GiB")
    bomb = next((one for one in inside if one.file_size > max(HARMLESS, MOST_TIMES * one.compress_size)), None)
    if bomb:
        raise NoExport(f"{path} holds {bomb.filename[:80]!r}, which unpacks to more than {MOST_TIMES} times its size")
    return ZipTree(path, opened)
