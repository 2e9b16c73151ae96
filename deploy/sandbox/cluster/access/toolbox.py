"""A folder per machine in which the real node kit runs: its generated scripts, records, a fake /proc, and a PATH whose
relevant tools are stubs that ask the cluster over a unix socket. Nothing on that PATH can change the host.
"""

import asyncio
import os
import shlex
import shutil
import socket
import struct
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from deploy.sandbox.cluster.access.cluster import Cluster
from deploy.sandbox.cluster.access.kit_processes import find_kit_process, kill_sessions
from deploy.sandbox.cluster.answer import ShellAnswer
from deploy.sandbox.cluster.grammar import recognise_command
from deploy.sandbox.cluster.machines.state import NodeState
from deploy.sandbox.cluster.render.kernel import add_dashes
from deploy.sandbox.cluster.render.modules import format_proc_modules
from deploy.sandbox.cluster.render.procfs import build_environments, format_stat_line
from tools.checks import CHECKS
from tools.nodekit.generate import KitPaths, build_kit_files
from tools.remedies import REMEDIES

BOOT_SECONDS = 900.0  # virtual duration of a reboot

# Real seconds between `systemctl reboot` and power loss; as on real machines, enough for the kit to record the
# command's result.
POWER_LOSS_DELAY_SECONDS = 0.15

# Stubbed tools. The last ones belong to no remedy; calls of them are counted.
STUBBED_TOOLS = (
    "nvidia-smi", "systemctl", "modprobe", "kill", "scontrol", "sinfo", "squeue", "scancel", "kubectl",
    "rmmod", "dkms", "lsmod", "docker", "nvidia-ctk", "chronyc", "cpupower", "find", "df", "ipmitool",
    "dmesg", "journalctl", "lspci", "sminfo", "iblinkinfo",
    "reboot", "shutdown", "poweroff", "halt", "insmod", "pkill", "killall", "mount", "umount", "ip", "service",
)  # fmt: skip

# host tools the kit may use: they only touch files in its folder
HOST_TOOLS = (
    "sh", "cat", "cut", "date", "dd", "env", "false", "flock", "grep", "head", "id", "ls", "mkdir", "mv", "printf", "rm", "setsid", "sleep", "sort",
    "stat", "sync", "tail", "test", "timeout", "touch", "tr", "true", "uniq", "wc",
)  # fmt: skip

# The stub's program, run without `site`: about 11 ms a call.
STUB_CLIENT = """\
import sys
from _socket import AF_UNIX, SOCK_STREAM, socket
s = socket(AF_UNIX, SOCK_STREAM)
s.connect(sys.argv[1])
words = "\\0".join(sys.argv[2:]).encode("utf-8", "surrogateescape")
s.sendall(b"%d\\n%b" % (len(words), words))
answer = b""
while True:
    part = s.recv(1 << 16)
    if not part:
        break
    answer += part
head, _, rest = answer.partition(b"\\n")
if not head:
    sys.exit(137)
status, size = map(int, head.split())
sys.stdout.buffer.write(rest[:size])
sys.stdout.buffer.flush()
sys.stderr.buffer.write(rest[size:])
sys.exit(status)
"""


class Toolbox:
    """Async context manager: the machines' folders, created on first use, and the socket behind their stubs."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._root = Path()
        self._server: asyncio.Server | None = None
        self._written: dict[Path, str] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._counted_processes: set[tuple[str, str]] = set()
        self._at: dict[str, float] = {}
        self.virtual_seconds: dict[str, float] = {}  # time that tools have taken on the virtual clock, by machine
        self.booted = asyncio.Event()  # set whenever a machine has come back

    async def __aenter__(self) -> "Toolbox":
        await self.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def open(self) -> None:
        """Listen for stubs. Idempotent."""
        if self._server is not None:
            return
        self._root = Path(tempfile.mkdtemp(prefix="rackmedic-nodes-"))
        (self._root / "client.py").write_text(STUB_CLIENT)
        self._server = await asyncio.start_unix_server(self._serve, self._socket)

    async def close(self) -> None:
        """End the kit's processes and remove the folders."""
        if self._server is None:
            return
        self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        kill_sessions(self._root)
        shutil.rmtree(self._root, ignore_errors=True)

    async def run(self, host: str, words: Sequence[str], limit: float | None, at: float = 0.0) -> ShellAnswer:
        """Run a script of the kit as sudo would. It survives its caller; past `limit` seconds it is killed with status
        124.
        """
        folder = self._get_folder(host)
        self._at[host] = at
        self.refresh(host)
        child = await asyncio.create_subprocess_exec(
            "/bin/sh", str(folder / "sbin" / words[0]), *words[1:], stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE, env={"PATH": "/nonexistent"}, start_new_session=True,
        )  # fmt: skip
        try:
            out, err = await asyncio.wait_for(child.communicate(), limit)
        except TimeoutError:
            os.killpg(child.pid, 9)
            out, err = await child.communicate()
            return ShellAnswer(out, err, 124)
        status = child.returncode or 0
        return ShellAnswer(out, err, 128 - status if status < 0 else status)

    def records(self, host: str) -> Path:
        """Return the folder of the kit's records on a machine."""
        return self._get_folder(host) / "state"

    def wipe(self, host: str) -> None:
        """Simulate a reinstallation: the kit stays, its records are removed."""
        kill_sessions(self._get_folder(host))
        shutil.rmtree(self.records(host))
        self.records(host).mkdir(mode=0o700)

    def lose_power(self, host: str, why: str = "off") -> None:
        """Stop the machine and everything the kit runs on it."""
        self._cluster.go_down(host, why, self._at.get(host, 0.0))
        if (self._root / host).exists():
            kill_sessions(self._root / host)

    def boot(self, host: str) -> None:
        """Bring the machine up with a new boot id."""
        self._cluster.come_up(host, self._at.get(host, 0.0))
        self.refresh(host)
        self.booted.set()

    async def reboot(self, host: str) -> None:
        self.lose_power(host, "rebooting")
        await self._spend_time(host, BOOT_SECONDS)
        self.boot(host)

    def refresh(self, host: str) -> None:
        """Rewrite the machine's fake /proc where the simulated state has changed."""
        proc_folder = self._get_folder(host) / "proc"
        outdated = {path for path in self._written if path.is_relative_to(proc_folder)}
        for name, text in self._build_proc_files(host).items():
            path = proc_folder / name
            outdated.discard(path)
            if self._written.get(path) != text:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
                self._written[path] = text
        for path in outdated:
            path.unlink()
            del self._written[path]

    @property
    def _socket(self) -> str:
        return str(self._root / "socket")

    def _get_folder(self, host: str) -> Path:
        folder = self._root / host
        if not folder.exists():
            self._install(folder, host)
        return folder

    def _install(self, folder: Path, host: str) -> None:
        for name in ("sbin", "bin", "proc"):
            (folder / name).mkdir(parents=True)
        (folder / "state").mkdir(mode=0o700)
        paths = KitPaths(str(folder / "sbin"), str(folder / "state"), str(folder / "bin"), str(folder / "proc"))
        for name, text in build_kit_files(CHECKS, REMEDIES, paths).items():
            (folder / "sbin" / name).write_text(text)
        for tool in HOST_TOOLS:
            path = shutil.which(tool)
            if path:
                (folder / "bin" / tool).symlink_to(path)
        client = shlex.join([sys.executable, "-IS", str(self._root / "client.py"), self._socket, host])
        for tool in STUBBED_TOOLS:
            stub = folder / "bin" / tool
            stub.write_text(f'#!/bin/sh\nexec {client} {tool} "$@"\n')
            stub.chmod(0o755)

    def _build_proc_files(self, host: str) -> dict[str, str]:
        world = self._cluster.world(self._at.get(host, 0.0))
        if world.controller and host == world.controller.name:
            return {"sys/kernel/random/boot_id": add_dashes(world.controller.boot_id) + "\n", "modules": ""}
        node: NodeState = world.nodes[host]
        files = {"sys/kernel/random/boot_id": add_dashes(node.boot_id) + "\n", "modules": format_proc_modules(node)}
        files |= {f"{proc.pid}/stat": format_stat_line(node, proc) for proc in node.procs}
        return files | {f"{pid}/environ": text for pid, text in build_environments(node, world.job).items()}

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one stub call. A hanging command, or one whose machine goes down, gets no answer."""
        task = asyncio.current_task()
        assert task is not None  # a connection's callback always runs in a task
        self._tasks.add(task)
        try:
            await self._reply(reader, writer)
        except (OSError, asyncio.IncompleteReadError):
            pass  # the stub was killed
        finally:
            self._tasks.discard(task)
            writer.close()

    async def _reply(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = await reader.readexactly(int(await reader.readline()))
        host, *argv = request.decode("utf-8", "surrogateescape").split("\0")
        self._count_execution(host, writer.get_extra_info("socket"))
        answer = await self._answer_stub(host, argv)
        if answer.hangs:
            await reader.read()  # until the stub gives up
        elif self._cluster.reachable(host, self._at.get(host, 0.0)):
            writer.write(b"%d %d\n%b%b" % (answer.status, len(answer.stdout), answer.stdout, answer.stderr))
            await writer.drain()

    async def _answer_stub(self, host: str, argv: Sequence[str]) -> ShellAnswer:
        at = self._at.get(host, 0.0)
        expected_outcome = self._cluster.foresee(host, argv, at)
        if expected_outcome is None:
            return self._cluster.answer_root(host, argv, at) if recognise_command(argv) else self._cluster.refuse(host, argv)
        await self._spend_time(host, expected_outcome.seconds)
        outcome = self._cluster.carry_out(host, argv, at)
        assert outcome is not None  # foresee() just recognised it
        if outcome.reboots:
            task = asyncio.get_running_loop().create_task(self._reboot_soon(host))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return outcome.answer

    async def _reboot_soon(self, host: str) -> None:
        await asyncio.sleep(POWER_LOSS_DELAY_SECONDS)
        await self.reboot(host)

    async def _spend_time(self, host: str, seconds: float) -> None:
        self.virtual_seconds[host] = self.virtual_seconds.get(host, 0.0) + seconds
        await asyncio.sleep(seconds * self._cluster.pace)

    def _count_execution(self, host: str, client: socket.socket) -> None:
        """Count a detached command as one execution, however many tools it calls."""
        if not hasattr(socket, "SO_PEERCRED"):
            return
        pid, _, _ = struct.unpack("3i", client.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i")))
        kit_process = find_kit_process(pid)
        if kit_process is not None and (host, kit_process.session) not in self._counted_processes:
            self._counted_processes.add((host, kit_process.session))
            self._cluster.executions[host, kit_process.remedy, kit_process.digest] += 1
