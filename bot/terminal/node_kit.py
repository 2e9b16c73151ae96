"""`rackmedic node-kit`: the kit's files in a folder, to be copied to the nodes and installed there by a human."""

from pathlib import Path

from bot.refusal import Refusal
from tools.checks import CHECKS
from tools.nodekit.generate import kit_files
from tools.remedies import REMEDIES

RUNNABLE = ("rackmedic-look", "rackmedic-act", "install.sh")


def write_kit(directory: Path) -> list[Path]:
    """Write the kit of today's catalogues into `directory`, made if it is not there. The files' paths, scripts first. Raises Refusal."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        return [_write(directory / name, text) for name, text in kit_files(CHECKS, REMEDIES).items()]
    except OSError as why:
        raise Refusal(f"--out {directory}: cannot be written ({why.strerror}); name a folder that is yours", 2) from why


def _write(path: Path, text: str) -> Path:
    path.write_text(text)
    path.chmod(0o755 if path.name in RUNNABLE else 0o644)
    return path
