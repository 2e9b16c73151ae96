"""The cluster behind real SSH: one server and host key per machine on loopback; exec and public keys only. /bin/sh runs
node kit commands in the machine's own folder.
"""

import asyncio
import contextlib
from collections.abc import Sequence
from pathlib import Path
from time import monotonic
from types import TracebackType
from typing import Any

import asyncssh
import yaml

from deploy.sandbox.cluster.access.cluster import Cluster
from deploy.sandbox.cluster.access.in_process import AGE_STEP_SECONDS
from deploy.sandbox.cluster.access.toolbox import Toolbox
from deploy.sandbox.cluster.answer import ShellAnswer
from deploy.sandbox.cluster.grammar import SITE_SERVICES, TimedCommand, get_kit_words, parse_batch, unwrap_command

USER = "rackmedic"
KEY_TYPE = "ssh-ed25519"
CONTROL_GROUP = "control"
SIGPIPE_STATUS = 141  # exit status of a program killed by SIGPIPE
Process = asyncssh.SSHServerProcess[bytes]


class SshCluster:
    """Async context manager. `directory` receives inventory.yaml, known_hosts and the client's key."""

    def __init__(
        self,
        cluster: Cluster,
        directory: Path,
        *,
        group: str = "demo",
        channels: Sequence[dict[str, Any]] = (),
        seconds: bool = False,
        scheduler: str = "slurm",
    ) -> None:
        self.cluster = cluster
        self.directory = directory
        self.toolbox = Toolbox(cluster)
        self._group = group
        self._channels = list(channels)
        self._takes_time = seconds
        self._scheduler = scheduler
        self._keys: dict[str, asyncssh.SSHKey] = {}
        self._servers: dict[str, asyncssh.SSHAcceptor] = {}
        self._relays: dict[str, _TcpRelay] = {}
        self._garbage: dict[str, bytes] = {}
        self._no_sudo: set[str] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._scripts: set[asyncio.Task[ShellAnswer]] = set()
        self._following = asyncio.Lock()
        self._began = monotonic()
        self.running = 0  # commands that are running now, on all nodes

    async def __aenter__(self) -> "SshCluster":
        self.directory.mkdir(parents=True, exist_ok=True)
        self._write_client_key()
        await self.toolbox.open()
        for host in self.cluster.machines:
            self._keys[host] = asyncssh.generate_private_key(KEY_TYPE)
            self._servers[host] = await self._listen(host)
            self._relays[host] = _TcpRelay(self._servers[host].get_port())
            await self._relays[host].open()
        self._write_files()
        await self._follow_power()
        self.cluster.watch(self._start_following_power)
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for task in list(self._tasks):
            await task
        await self.toolbox.close()
        await asyncio.gather(*self._scripts, return_exceptions=True)
        for relay in self._relays.values():
            await relay.close()
        for server in self._servers.values():
            server.close()
        for server in self._servers.values():
            with contextlib.suppress(OSError, asyncssh.Error):
                await server.wait_closed()

    def inventory(self) -> dict[str, Any]:
        """Return the inventory as plain data."""
        data: dict[str, Any] = {
            "defaults": {
                "user": USER,
                "key": str(self.directory / "client_key"),
                "known_hosts": str(self.directory / "known_hosts"),
                "kit": True,
                **SITE_SERVICES,
                "job_logs": "/var/log/jobs",
                "nccl_tests": "/usr/local/nccl-tests/build",
            },
            "groups": self._build_groups(),
            "hosts": {host: {"address": "127.0.0.1", "port": relay.port} for host, relay in self._relays.items()},
        }
        return data | ({"channels": self._channels} if self._channels else {})

    def _build_groups(self) -> dict[str, Any]:
        nodes = {"hosts": ",".join(self.cluster.hosts), "sku": self.cluster.profile}
        if not self.cluster.controller:
            return {self._group: nodes}
        scheduler = {"controller": self.cluster.controller, "scheduler": self._scheduler}
        return {self._group: nodes | scheduler, CONTROL_GROUP: {"hosts": self.cluster.controller}}

    async def drop(self, host: str) -> None:
        """Cut every connection to a node."""
        await self._relays[host].cut()

    def freeze(self, host: str) -> None:
        """Make the node silent: connections stay open, no data passes."""
        self._relays[host].freeze()

    def thaw(self, host: str) -> None:
        self._relays[host].thaw()

    async def change_host_key(self, host: str) -> None:
        """Restart the node's server with a new host key; known_hosts keeps the old one."""
        self._keys[host] = asyncssh.generate_private_key(KEY_TYPE)
        self._servers[host].close()
        self._servers[host] = await self._listen(host)
        self._relays[host].target = self._servers[host].get_port()
        await self._relays[host].cut()

    async def reinstall(self, host: str) -> None:
        """Simulate a reinstallation: new boot id, new host key, no node kit records."""
        self.toolbox.lose_power(host)
        self.toolbox.wipe(host)
        await self.change_host_key(host)
        self.toolbox.boot(host)

    def refuse_sudo(self, host: str) -> None:
        """Make sudo ask for a password from now on."""
        self._no_sudo.add(host)

    def emit(self, host: str, stdout: bytes) -> None:
        """Make every command on the node print these raw bytes."""
        self._garbage[host] = stdout

    def _write_client_key(self) -> None:
        key = asyncssh.generate_private_key(KEY_TYPE)
        private = self.directory / "client_key"
        key.write_private_key(str(private))
        private.chmod(0o600)
        key.write_public_key(str(self.directory / "client_key.pub"))

    def _write_files(self) -> None:
        known_hosts = []
        for host, relay in self._relays.items():
            key = self._keys[host].export_public_key().decode().strip()
            known_hosts.append(f"[127.0.0.1]:{relay.port} {key}\n")
        (self.directory / "known_hosts").write_text("".join(known_hosts))
        (self.directory / "inventory.yaml").write_text(yaml.safe_dump(self.inventory(), sort_keys=False))

    async def _listen(self, host: str) -> asyncssh.SSHAcceptor:
        async def handle(process: Process) -> None:
            await self._run(host, process)

        return await asyncssh.listen(
            "127.0.0.1",
            0,
            server_host_keys=[self._keys[host]],
            authorized_client_keys=str(self.directory / "client_key.pub"),
            process_factory=handle,
            encoding=None,
            password_auth=False,
            kbdint_auth=False,
            gss_host=None,
            allow_pty=False,
            x11_forwarding=False,
            agent_forwarding=False,
            sftp_factory=None,
            line_editor=False,
        )

    async def _run(self, host: str, process: Process) -> None:
        """Run one exec request. A hanging command ends with its `timeout` wrapper, or never."""
        if process.command is None:
            process.stderr.write(b"this account runs single commands only\n")
            process.exit(1)
            return
        if not self.cluster.reachable(host):
            process.close()  # it just went down and its connection is about to be cut
            return
        self.running += 1
        try:
            process.exit(await self._write_output(host, process, process.command))
        except (OSError, asyncssh.Error):
            process.close()  # the client is gone
        finally:
            self.running -= 1

    async def _write_output(self, host: str, process: Process, command: str) -> int:
        """Write a command line's output and return its exit status."""
        commands = parse_batch(command)
        if commands:
            return await self._answer_batch(host, process, commands)
        answer = await self._answer_in_time(host, *unwrap_command(command))
        process.stdout.write(answer.stdout)
        process.stderr.write(answer.stderr)
        await process.stdout.drain()
        return answer.status

    async def _answer_batch(self, host: str, process: Process, commands: Sequence[TimedCommand]) -> int:
        """Answer the script that runs several commands (`tools.ssh.batch`)."""
        delimiter = (await process.stdin.readline()).strip()
        process.stdout.write(delimiter + b"\n")
        for command in commands:
            answer = await self._answer_in_time(host, command.argv, command.limit)
            status = answer.status if len(answer.stdout) < command.max_bytes else SIGPIPE_STATUS
            process.stdout.write(
                b"%b\n%b\n%b\n%b %d\n%b.\n" % (answer.stdout[: command.max_bytes], delimiter, answer.stderr, delimiter, status, delimiter)
            )
            await process.stdout.drain()
        return 0

    async def _answer_in_time(self, host: str, argv: Sequence[str], limit: float | None) -> ShellAnswer:
        """Return the answer after its simulated duration."""
        answer = await self._answer(host, argv, limit)
        self.cluster.command_log.append(host, argv, answer)
        if answer.hangs:
            await asyncio.sleep(limit if limit is not None else 86400)
        elif self._takes_time:
            await asyncio.sleep(answer.seconds)
        return answer

    async def _answer(self, host: str, argv: Sequence[str], limit: float | None) -> ShellAnswer:
        elapsed = 0.0 if self.cluster.live else (monotonic() - self._began) // AGE_STEP_SECONDS * AGE_STEP_SECONDS
        words = get_kit_words(argv)
        refused = host in self._no_sudo and argv[:1] == ("sudo",)
        answer = ShellAnswer() if words else self.cluster.answer(host, argv, elapsed)
        if host in self._garbage:
            return ShellAnswer(self._garbage[host])
        if refused:
            return ShellAnswer(b"", b"sudo: a password is required\n", 1)
        return await self._run_kit(host, words, limit, elapsed) if words else answer

    async def _run_kit(self, host: str, words: tuple[str, ...], limit: float | None, at: float) -> ShellAnswer:
        """Run the script shielded: as on a real machine, it continues when the connection breaks."""
        task = asyncio.get_running_loop().create_task(self.toolbox.run(host, words, limit, at))
        self._scripts.add(task)
        task.add_done_callback(self._scripts.discard)
        return await asyncio.shield(task)

    def _start_following_power(self) -> None:
        task = asyncio.get_running_loop().create_task(self._follow_power())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _follow_power(self) -> None:
        """Close the ports of nodes that are down. Serialised, because two tasks opening one port would fail."""
        async with self._following:
            for host, relay in self._relays.items():
                if self.cluster.reachable(host):
                    await relay.open()
                else:
                    await relay.close()


class _TcpRelay:
    """A relay in front of a machine's SSH server that simulates network faults: cut connections, silence, a closed port.

    It forwards bytes between a fixed port and the current `target` port.
    """

    def __init__(self, target: int) -> None:
        self.target = target
        self.port = 0
        self._flowing = asyncio.Event()
        self._flowing.set()
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()

    async def open(self) -> None:
        """Listen, on the same port as before if there was one."""
        if self._server is None:
            self._server = await asyncio.start_server(self._relay_connection, "127.0.0.1", self.port)
            self.port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        """Refuse new connections and cut existing ones."""
        if self._server is not None:
            self._server.close()
            self._server = None
        await self.cut()

    async def cut(self) -> None:
        """Cut every connection, as a crashed machine would."""
        connections = list(self._connections)
        for connection in connections:
            connection.cancel()
        await asyncio.gather(*connections, return_exceptions=True)

    def freeze(self) -> None:
        """Stop forwarding without closing connections."""
        self._flowing.clear()

    def thaw(self) -> None:
        self._flowing.set()

    async def _relay_connection(self, from_client: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None  # a connection's callback always runs in a task
        self._connections.add(task)
        with contextlib.suppress(OSError, asyncio.CancelledError):
            from_server, to_server = await asyncio.open_connection("127.0.0.1", self.target)
            try:
                async with asyncio.TaskGroup() as directions:
                    directions.create_task(self._pump(from_client, to_server))
                    directions.create_task(self._pump(from_server, to_client))
            except* OSError:
                pass
            finally:
                to_server.transport.abort()
        self._connections.discard(task)
        to_client.transport.abort()

    async def _pump(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        while data := await source.read(1 << 16):
            await self._flowing.wait()
            sink.write(data)
            await sink.drain()
        await self._flowing.wait()
        if sink.can_write_eof():
            sink.write_eof()
