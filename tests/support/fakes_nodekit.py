"""A node as the kit sees it: the generated scripts under a real shell, stub tools on PATH, a /proc of plain files.

Stubs wait on FIFOs instead of sleeping and record each call, so a test sees exactly what ran.
"""

import contextlib
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from tests.support.clock import PATIENCE
from tools.checks import CHECKS
from tools.checks.check_types import Check
from tools.nodekit.generate import KitPaths, build_kit_files
from tools.remedies import REMEDIES
from tools.remedies.remedy import Remedy

# dash and bash serve as /bin/sh on servers; busybox is tested if installed
SHELLS = {"dash": ("dash",), "bash": ("bash", "--posix")} | ({"busybox": ("busybox", "sh")} if shutil.which("busybox") else {})

# all tools a remedy calls; no test may reach the real ones
TOOLS = (
    *("nvidia-smi", "systemctl", "scontrol", "scancel", "squeue", "modprobe", "rmmod", "lsmod", "kill", "find", "df", "dkms"),
    *("chronyc", "cpupower", "docker", "nvidia-ctk", "ipmitool", "kubectl"),
)

BOOT = "0f2c6a4e-8b1d-4c3a-9e5f-7a6b5c4d3e2f"
OTHER_BOOT = "11111111-2222-3333-4444-555555555555"
REAL_FLOCK = shutil.which("flock")


@dataclass(frozen=True)
class Said:
    """The output of one call."""

    first: str
    rest: str
    stderr: str
    status: int

    @property
    def word(self) -> str:
        return self.first.partition(" ")[0]


@dataclass
class Node:
    """One fake node in its own directory."""

    root: Path
    shell: tuple[str, ...] = ("dash",)
    checks: Mapping[str, Check] = field(default_factory=lambda: CHECKS)
    remedies: Mapping[str, Remedy] = field(default_factory=lambda: REMEDIES)
    account: str = "rackmedic"

    def __post_init__(self) -> None:
        for name in ("sbin", "bin", "gates", "proc/sys/kernel/random"):
            (self.root / name).mkdir(parents=True, exist_ok=True)
        (self.root / "proc/modules").write_text("nvidia 56717312 2 nvidia_uvm, Live 0x0\nnvidia_peermem_not 1 0 - Live 0x0\n")
        self.boot(BOOT)
        for name, text in build_kit_files(self.checks, self.remedies, self.paths).items():
            (self.root / "sbin" / name).write_text(text)
        for tool in TOOLS:
            self.stub(tool)

    @property
    def paths(self) -> KitPaths:
        return KitPaths(
            directory=str(self.root / "sbin"),
            state=str(self.root / "state"),
            search=f"{self.root / 'bin'}:/usr/sbin:/usr/bin:/sbin:/bin",
            proc=str(self.root / "proc"),
            user=self.account,
            keys=str(self.root / "keys"),
        )

    # -- the world around the kit -----------------------------------------------------------------------------------

    def boot(self, boot_id: str) -> None:
        (self.root / "proc/sys/kernel/random/boot_id").write_text(boot_id + "\n")

    def stub(self, tool: str, does: str = ":") -> None:
        """Install a stub that records its call and then runs the shell code `does`."""
        path = self.root / "bin" / tool
        path.write_text(f'#!/bin/sh\nprintf "%s\\n" "{tool} $*" >>{self.root}/calls\n{does}\n')
        path.chmod(0o755)

    def gate(self, name: str) -> str:
        """Create a FIFO and return the sh code that waits for it."""
        path = self.root / "gates" / name
        if not path.exists():
            os.mkfifo(path)
        return f"read _ <{path}"

    def open_gate(self, name: str) -> None:
        """Release the waiter; returns after one took it."""
        (self.root / "gates" / name).write_text("go\n")

    def stop_at(self, name: str) -> str:
        """Return sh code that announces the point, then waits at the gate."""
        self.gate(f"{name}-reached")
        return f"echo here >{self.root}/gates/{name}-reached; {self.gate(name)}"

    def reached(self, name: str) -> None:
        """Wait until a stub has reached that gate."""
        assert (self.root / "gates" / f"{name}-reached").read_text() == "here\n"

    def short_waits(self) -> None:
        """Shorten `flock -w` to 0.3 s; the kit waits half a minute."""
        path = self.root / "bin/flock"
        path.write_text(f'#!/bin/sh\n[ "$2" = -w ] && exec {REAL_FLOCK} -s -w 0.3 "$4" true\nexec {REAL_FLOCK} "$@"\n')
        path.chmod(0o755)

    @property
    def calls(self) -> list[str]:
        path = self.root / "calls"
        return path.read_text().splitlines() if path.exists() else []

    # -- the kit ----------------------------------------------------------------------------------------------------

    def argv(self, *words: str) -> list[str]:
        return [*self.shell, str(self.root / "sbin/rackmedic-act"), *words]

    def act(self, *words: str, **env: str) -> Said:
        return self._call([*self.argv(), *words], env)

    def look(self, *words: str, **env: str) -> Said:
        return self._call([*self.shell, str(self.root / "sbin/rackmedic-look"), *words], env)

    def _call(self, argv: list[str], env: Mapping[str, str]) -> Said:
        ran = subprocess.run(argv, capture_output=True, timeout=PATIENCE, env={"PATH": "/usr/bin:/bin", **env}, check=False)
        first, _, rest = ran.stdout.decode("utf-8", "replace").partition("\n")
        return Said(first, rest, ran.stderr.decode("utf-8", "replace"), ran.returncode)

    def popen(self, *words: str) -> subprocess.Popen[bytes]:
        """Start a call in the background, in its own process group."""
        return subprocess.Popen(self.argv(*words), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True)

    def start(self, digest: str, *words: str, boot: str = BOOT) -> Said:
        return self.act("start", digest, boot, *words)

    def settle(self, digest: str) -> Said:
        return self.act("settle", digest)

    def ended(self, digest: str) -> Said:
        """Wait until the action released its record and the host, then settle. Its process releases the record first."""
        self._wait_for_lock(self.root / "state/actions" / digest / "lock")
        self.idle()
        return self.settle(digest)

    def idle(self) -> None:
        """Wait until no action holds the host lock."""
        self._wait_for_lock(self.root / "state/lock")

    def _wait_for_lock(self, lock: Path) -> None:
        """Wait until the lock is free. Raises TimeoutError after 30 seconds."""
        try:
            subprocess.run([REAL_FLOCK or "flock", "-s", "-w", "30", str(lock), "true"], check=True)
        except subprocess.CalledProcessError as error:
            raise TimeoutError(f"{lock} is still held") from error

    def holders(self) -> list[int]:
        """Return pids that have a file of the state directory open."""
        found = []
        for process in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if any(os.readlink(fd).startswith(str(self.root / "state")) for fd in (process / "fd").iterdir()):
                    found.append(int(process.name))
        return [pid for pid in found if pid != os.getpid()]

    def kill_all(self) -> None:
        """Kill all processes of actions, as a power loss would."""
        while holders := self.holders():
            for pid in holders:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)


def digest(n: int) -> str:
    return f"{n:064x}"


def kinds_of(text: str) -> str:
    """Return the argument-kind functions of rackmedic-act without the code that runs."""
    found = re.search(r"^is_digest\(\).*?(?=^# --- what a condition)", text, re.DOTALL | re.MULTILINE)
    assert found
    return found[0]


def limited(remedy: str, seconds: int) -> dict[str, Remedy]:
    """Return the catalogue with another time limit for one remedy."""
    return dict(REMEDIES) | {remedy: replace(REMEDIES[remedy], limit_seconds=seconds)}
