"""A disposable copy of this machine: an overlay of its files with own processes, network and a real sshd."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.clock import PATIENCE

ROOT = Path(__file__).parents[2]
PATH = f"{Path(sys.executable).parent}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
NEEDED = ("unshare", "nsenter", "chroot", "ip", "sshd", "ssh", "ssh-keygen", "sudo", "runuser", "useradd", "pkill")
ENTER = r"""
set -e
mount -t tmpfs -o mode=0755 overlaid "$1"
mkdir "$1/upper" "$1/work" "$1/root"
mount -t overlay overlay -o "lowerdir=/,upperdir=$1/upper,workdir=$1/work" "$1/root"
mount -t proc proc "$1/root/proc"
mount --rbind /dev "$1/root/dev"
for folder in "$2" "$3" "$4"; do mkdir -p "$1/root$folder"; mount --bind "$folder" "$1/root$folder"; done
ip link set lo up
exec chroot "$1/root" sh -c 'trap "" CHLD; echo up; exec cat'
"""
SYSTEMCTL = """#!/bin/sh
case "$1 $2 $3" in
  'is-active --quiet ssh.service') exit 0 ;;
  'reload ssh.service '*) kill -HUP "$(cat /run/sshd.pid)" ;;
  *) exit 1 ;;
esac
"""


@dataclass(frozen=True)
class Overlaid:
    """The machine. `process` is its first process; `folder` is the same path inside and outside."""

    process: int
    folder: Path

    def run(self, *argv: str, stdin: str = "", seconds: float = PATIENCE, **env: str) -> subprocess.CompletedProcess[str]:
        enter = ("nsenter", "--target", str(self.process), "--mount", "--net", "--pid", "--root", "--wd")
        environment = {"PATH": PATH, "HOME": "/root", "LC_ALL": "C.UTF-8", **env}
        return subprocess.run([*enter, *argv], input=stdin, capture_output=True, text=True, timeout=seconds, env=environment, check=False)

    def done(self, *argv: str, stdin: str = "", seconds: float = PATIENCE, **env: str) -> str:
        """Run a command that must succeed and return its stdout."""
        ran = self.run(*argv, stdin=stdin, seconds=seconds, **env)
        assert ran.returncode == 0, (argv, ran.stdout[-3000:], ran.stderr[-3000:])
        return ran.stdout

    def sh(self, line: str, *words: str) -> str:
        return self.done("sh", "-ec", line, "sh", *words)

    def key(self, name: str) -> str:
        """Create a key pair in `folder` and return the public key."""
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", str(self.folder / name)], check=True)
        return (self.folder / f"{name}.pub").read_text().strip()

    def reload_sshd(self) -> None:
        """Reload sshd and wait until it listens again."""
        self.sh("pid=$(cat /run/sshd.pid); rm /run/sshd.pid; kill -HUP $pid; until [ -s /run/sshd.pid ]; do :; done")

    def lets_in(self, account: str, key: str) -> bool:
        """Return whether sshd accepts the key for the account."""
        options = ("-F", "/dev/null", "-o", "BatchMode=yes", "-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null")
        return self.run("ssh", *options, "-i", str(self.folder / key), f"{account}@127.0.0.1", "true").returncode == 0


def missing() -> str:
    """Return why this machine cannot be overlaid, or ""."""
    if os.geteuid() != 0:
        return "run as root"
    absent = [tool for tool in NEEDED if not shutil.which(tool, path=PATH)]
    return f"{', '.join(absent)} missing: make setup-system setup-rack" if absent else ""


@contextmanager
def overlaid(folder: Path) -> Iterator[Overlaid]:
    """Start the machine with sshd on port 22; end all its processes afterwards."""
    (folder / "mnt").mkdir()
    unshare = ("unshare", "--mount", "--net", "--pid", "--fork", "--kill-child", "sh", "-c", ENTER, "sh")
    argv = [*unshare, str(folder / "mnt"), str(ROOT), sys.base_prefix, str(folder)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as first:
        try:
            assert first.stdout is not None
            assert first.stderr is not None
            if first.stdout.readline() != "up\n":
                pytest.skip(f"no real rack can stand here: no overlay of / ({first.stderr.read()[-200:].strip()})")
            child = int(Path(f"/proc/{first.pid}/task/{first.pid}/children").read_text())
            machine = Overlaid(child, folder)
            machine.done("sh", "-c", "cat >/usr/bin/systemctl && chmod 755 /usr/bin/systemctl", stdin=SYSTEMCTL)
            machine.sh("mkdir -p /run/sshd; ssh-keygen -q -A; /usr/sbin/sshd -o PidFile=/run/sshd.pid")
            machine.sh("until [ -s /run/sshd.pid ]; do :; done")
            yield machine
        finally:
            first.kill()
