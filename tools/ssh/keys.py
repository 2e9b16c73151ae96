"""RackMedic's SSH key, created once, readable by its owner only."""

import os
from pathlib import Path

import asyncssh

COMMENT = "rackmedic"


def get_public_key_line(key: Path) -> str:
    """Return the `authorized_keys` line; create an Ed25519 key if missing. Raises OSError, ValueError."""
    if not key.exists():
        _create_key(key)
    try:
        return asyncssh.read_private_key(str(key)).export_public_key("openssh").decode().strip()
    except asyncssh.KeyImportError as error:
        raise ValueError(str(error)) from error


def _create_key(key: Path) -> None:
    private_key = asyncssh.generate_private_key("ssh-ed25519", comment=COMMENT)
    key.parent.mkdir(parents=True, exist_ok=True)
    with os.fdopen(os.open(key, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(private_key.export_private_key("openssh"))
    key.with_name(key.name + ".pub").write_bytes(private_key.export_public_key("openssh"))
