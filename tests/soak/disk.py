"""A small disk for the evidence folder that can be filled. Without the right to mount, a file replaces the folder
instead.
"""

import contextlib
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

SIZE = 96 << 20
BALLAST = "ballast"


@dataclass
class SmallDisk:
    """`mounted`: it is a separate file system."""

    folder: Path
    mounted: bool

    @property
    def how(self) -> str:
        return "a file system with no room left" if self.mounted else "a file in the place of the folder"

    def fill(self) -> None:
        if not self.mounted:
            self._aside().unlink(missing_ok=True)
            self.folder.rename(self._aside())
            self.folder.write_text("")
            return
        with contextlib.suppress(OSError), (self.folder / BALLAST).open("wb", buffering=0) as ballast:
            while ballast.write(bytes(1 << 20)):
                pass
        with contextlib.suppress(OSError), (self.folder / BALLAST).open("ab", buffering=0) as ballast:
            while ballast.write(bytes(1 << 8)):
                pass

    def empty(self) -> None:
        if self.mounted:
            (self.folder / BALLAST).unlink(missing_ok=True)
            return
        if self.folder.is_file():
            self.folder.unlink()
        self._aside().rename(self.folder)

    def _aside(self) -> Path:
        return self.folder.with_name(f"{self.folder.name}-aside")


@contextlib.contextmanager
def small_disk(folder: Path) -> Iterator[SmallDisk]:
    """Mount at `folder` until the block ends."""
    folder.mkdir(parents=True, exist_ok=True)
    mount, umount = shutil.which("mount"), shutil.which("umount")
    words = [mount or "", "-t", "tmpfs", "-o", f"size={SIZE},mode=700", "soak", str(folder)]
    mounted = bool(mount and umount) and subprocess.run(words, capture_output=True, check=False).returncode == 0
    try:
        yield SmallDisk(folder, mounted)
    finally:
        if mounted:
            subprocess.run([umount or "", "-l", str(folder)], capture_output=True, check=False)
