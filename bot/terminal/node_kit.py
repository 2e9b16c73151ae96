"""`rackmedic node-kit`: the kit's files in a folder, to be copied to the nodes and installed there by a human."""

from pathlib import Path

from tools.checks import CHECKS
from tools.nodekit.generate import kit_files
from tools.remedies import REMEDIES

RUNNABLE = ("rackmedic-look", "rackmedic-act", "install.sh")


def write_kit(directory: Path) -> list[Path]:
    """Write the kit of today's catalogues into `directory`, made if it is not there. The files' paths, scripts first; OSError where it cannot."""
    directory.mkdir(parents=True, exist_ok=True)
    written = []
    for name, text in kit_files(CHECKS, REMEDIES).items():
        path = directory / name
        path.write_text(text)
        path.chmod(0o755 if name in RUNNABLE else 0o644)
        written.append(path)
    return written
