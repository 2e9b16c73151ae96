"""A real OpenSSH server on loopback with its own keys."""

import asyncio
import contextlib
import getpass
import os
import shutil
import socket
import subprocess
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.clock import PATIENCE
from tests.support.inventories import inventory
from tools.inventory.inventory import Inventory

SSHD = shutil.which("sshd") or ("/usr/sbin/sshd" if Path("/usr/sbin/sshd").exists() else None)
needs_sshd = pytest.mark.skipif(SSHD is None, reason="openssh-server is not installed: apt-get install openssh-server (make setup-system)")


@dataclass(frozen=True)
class Sshd:
    port: int
    directory: Path

    def inventory(self, name: str = "n1", **reach: object) -> Inventory:
        row: dict[str, object] = {"address": "127.0.0.1", "port": self.port, "user": getpass.getuser()}
        row |= {"key": str(self.directory / "client"), "known_hosts": str(self.directory / "known_hosts")}
        return inventory(defaults={}, groups={"g": {"hosts": name}}, hosts={name: row | reach}, channels=[])


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


def keygen(path: Path, *options: str) -> None:
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(path), *options], check=True)


@contextlib.asynccontextmanager
async def sshd(directory: Path, *lines: str, port: int | None = None) -> AsyncIterator[Sshd]:
    """Run sshd with `lines` added to its configuration."""
    assert SSHD is not None
    port = port or free_port()
    for name in ("host", "client"):
        if not (directory / name).exists():
            keygen(directory / name)
    shutil.copy(directory / "client.pub", directory / "authorized_keys")
    host_key = (directory / "host.pub").read_text().split()
    (directory / "known_hosts").write_text(f"[127.0.0.1]:{port} {host_key[0]} {host_key[1]}\n")
    config = directory / "sshd_config"
    config.write_text(
        f"ListenAddress 127.0.0.1\nPort {port}\nHostKey {directory / 'host'}\nPidFile none\nStrictModes no\nUsePAM no\n"
        f"AuthorizedKeysFile {directory / 'authorized_keys'}\nPasswordAuthentication no\nPermitRootLogin yes\nMaxStartups 200\nAcceptEnv LC_*\n"
        + "".join(f"{line}\n" for line in lines)
    )
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(exist_ok=True)
    server = await asyncio.create_subprocess_exec(SSHD, "-D", "-e", "-f", str(config), stderr=asyncio.subprocess.PIPE)
    try:
        assert server.stderr is not None
        while b"Server listening" not in (line := await asyncio.wait_for(server.stderr.readline(), PATIENCE)):
            assert line, "sshd ended before it listened"
        drain = asyncio.create_task(server.stderr.read())
        yield Sshd(port, directory)
    finally:
        server.terminate()
        await server.wait()
        drain.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await drain
