"""`rackmedic node-kit`: write the node kit to a folder.

If signed, it has SHA256SUMS with an OpenSSH signature, which `install.sh` verifies before it writes anything.
"""

import hashlib
import subprocess
from collections.abc import Sequence
from pathlib import Path

from bot.refusal import Refusal
from tools.checks import CHECKS
from tools.nodekit.generate import build_kit_files
from tools.remedies import REMEDIES

EXECUTABLE_FILES = ("rackmedic-look", "rackmedic-act", "install.sh")
# signer in allowed_signers and signature namespace: signatures made with the same key for other purposes are rejected
SIGNER_IDENTITY = "rackmedic-kit"

CHECKSUM_FILE = "SHA256SUMS"
SIGNATURE_FILE = f"{CHECKSUM_FILE}.sig"


def write_kit(directory: Path, sign: Path | None = None) -> list[Path]:
    """Write the kit, signed if a key is given; return the paths. Raises Refusal."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for stale in (CHECKSUM_FILE, SIGNATURE_FILE):
            (directory / stale).unlink(missing_ok=True)
        paths = [_write_file(directory / name, text) for name, text in build_kit_files(CHECKS, REMEDIES).items()]
    except OSError as error:
        raise Refusal(f"--out {directory}: cannot be written ({error.strerror}); name a folder that is yours", 2) from error
    return [*paths, *sign_kit(directory, paths, sign)] if sign else paths


def _write_file(path: Path, text: str) -> Path:
    path.write_text(text)
    path.chmod(0o755 if path.name in EXECUTABLE_FILES else 0o644)
    return path


def sign_kit(directory: Path, paths: Sequence[Path], key: Path) -> list[Path]:
    """Write checksums and signature; ssh-keygen may prompt. Raises Refusal."""
    if other_files := sorted({path.name for path in directory.iterdir()} - {path.name for path in paths}):
        raise Refusal(
            f"--out {directory}: holds {other_files[0]}, which is no part of the kit, and no node would install it; name an empty folder", 2
        )
    rows = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in paths]
    listed = _write_file(directory / CHECKSUM_FILE, "".join(rows))
    try:
        words = ["ssh-keygen", "-Y", "sign", "-f", str(key), "-n", SIGNER_IDENTITY, str(listed)]
        signing = subprocess.run(words, stderr=subprocess.PIPE, text=True, check=False)  # noqa: S603  # words of ours and one path; no shell
    except OSError as error:
        raise Refusal(f"--sign: ssh-keygen cannot be run ({error.strerror}); install OpenSSH's client") from error
    if signing.returncode:
        raise Refusal(f"--sign {key}: {' '.join(signing.stderr.split())[:200] or 'ssh-keygen did not sign'}", 2)
    return [listed, directory / SIGNATURE_FILE]
