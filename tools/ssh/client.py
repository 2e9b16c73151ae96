"""SSH client, the only opener of connections.

Verifies host keys always; ignores ~/.ssh/config and agents; quotes every word once.

Adds to asyncssh: lost connections told from ended commands, output caps while reading, time limits that end the remote
process too, and back-off when sshd drops connections (MaxStartups) or refuses sessions (MaxSessions).
"""

import asyncio
import contextlib
import random
import shlex
import socket
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from time import monotonic
from typing import Any, TypeVar

import asyncssh

from tools.fact import Status
from tools.inventory.inventory import Host, Inventory
from tools.limiter import AdmissionControl
from tools.ssh.batch import BatchCommand, BatchOutputParser, build_batch_command, create_delimiter
from tools.ssh.session import (
    TIMEOUT_STATUSES,
    CommandCallback,
    RemoteProcess,
    SessionEnd,
    collect_batch_output,
    end_process,
    read_capped,
    read_remaining_stderr,
)
from tools.transport import AccessBarrier, CommandResult, Unreachable

T = TypeVar("T")
Connection = asyncssh.SSHClientConnection
# Tried first, before asyncssh's defaults: ChaCha20-Poly1305 costs asyncssh three times the CPU per packet of AES-GCM.
PREFERRED_CIPHERS = "^aes128-gcm@openssh.com,aes256-gcm@openssh.com"
# Refusals until the caller gets an error. Each refusal lowers the concurrency, so it soon is not the cause.
MAX_SESSION_REFUSALS = 10
MAX_HANDSHAKES = 50  # connections being opened at once
SESSION_GAIN = 0.1  # MaxSessions is fixed, so a wider limit is probed after tens of commands, not after a few.
# Prefix of every command, for any account shell. Debian's sshd sets no sbin, where ibstat, modinfo and dkms are. The
# site's own PATH comes first.
SET_PATH_SCRIPT = 'export PATH="$PATH:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"; exec "$@"'
SINGLE_SESSION_OPTIONS: Mapping[str, Any] = {"stdin": asyncssh.DEVNULL, "env": {"LC_ALL": "C"}}
BATCH_SESSION_OPTIONS: Mapping[str, Any] = {"stdin": asyncssh.PIPE}  # without env: the batch script sets LC_ALL itself


@dataclass(frozen=True, slots=True)
class SshLimits:
    """Limits to tune for the site's sshd and bastions.

    `sessions`: concurrent commands per connection. OpenSSH's MaxSessions is 10 and frees a session one loop turn late,
    so five ending plus five starting stay within it; a stricter sshd lowers the number.
    `handshakes`, `per_bastion`: connections being opened, in total and per bastion (OpenSSH drops at random from
    MaxStartups 10 on); drops lower them.
    """

    sessions: int = 5
    handshakes: int = MAX_HANDSHAKES
    per_bastion: int = 10
    connect_seconds: float = 10.0
    login_seconds: float = 20.0
    keepalive_seconds: float = 5.0
    attempts: int = 6
    grace_seconds: float = 5.0


@dataclass(slots=True)
class _HostConnection:
    """One host's connection, opened on demand, and its session slots.

    Callers share one attempt and its outcome: a dead host costs one wait, not one per command.
    """

    sessions: AdmissionControl
    opening: asyncio.Task[Connection] | None = None
    connection: Connection | None = None

    async def get_connection(self, dial: Callable[[], Coroutine[Any, Any, Connection]]) -> Connection:
        """Return the open connection, or open one with `dial`."""
        if self.connection is not None and not self.connection.is_closed():
            return self.connection
        if self.opening is None or self.opening.done():
            self.opening = asyncio.create_task(dial())
            self.opening.add_done_callback(self._record_opened)
        return await asyncio.shield(self.opening)

    async def cancel_opening(self) -> None:
        if self.opening is not None:
            self.opening.cancel()
            await asyncio.gather(self.opening, return_exceptions=True)

    def _record_opened(self, task: asyncio.Task[Connection]) -> None:
        if not task.cancelled() and task.exception() is None:
            self.connection = task.result()


class SshTransport:
    """`Transport` over asyncssh, one persistent connection per host."""

    clock = "real"

    def __init__(self, inventory: Inventory, limits: SshLimits | None = None) -> None:
        self._inventory = inventory
        self._limits = limits or SshLimits()
        self._connections: dict[str, _HostConnection] = {}
        self._bastions: dict[str, _HostConnection] = {}
        self._handshakes = asyncio.Semaphore(self._limits.handshakes)
        self._admissions: dict[str, AdmissionControl] = {}

    @property
    def sessions(self) -> int:
        return self._limits.sessions

    def reached(self, host: str) -> bool:
        """Return whether the host is connected."""
        host_connection = self._connections.get(host)
        return host_connection is not None and host_connection.connection is not None and not host_connection.connection.is_closed()

    async def run(self, host: str, argv: Sequence[str], *, timeout: float, cap: int) -> CommandResult:
        """Run one command. A host outside the inventory is refused, not resolved."""
        command = build_remote_command(argv, timeout)
        return await self._run_in_session(host, command, lambda process: self._collect_output(process, timeout, cap))

    async def run_batch(self, host: str, commands: Sequence[BatchCommand], on_result: CommandCallback) -> SessionEnd:
        """Run read-only commands in one session. Raises Unreachable if there is no connection.

        Each command's result goes to the callback; commands without a result did not begin.
        """
        delimiter = create_delimiter()

        async def collect_results(process: RemoteProcess) -> SessionEnd:
            process.stdin.write(f"{delimiter}\n".encode())
            return await collect_batch_output(process, BatchOutputParser(delimiter), commands, self._limits.grace_seconds, on_result)

        return await self._run_in_session(host, build_batch_command(commands), collect_results, BATCH_SESSION_OPTIONS)

    async def _run_in_session(
        self, host: str, command: str, watch: Callable[[RemoteProcess], Awaitable[T]], options: Mapping[str, Any] = SINGLE_SESSION_OPTIONS
    ) -> T:
        """Run a command in a new session and return what `watch` makes of it. Refused sessions are retried."""
        known_host = self._inventory.hosts.get(host)
        if known_host is None:
            raise Unreachable(host, "not in the inventory", barrier=AccessBarrier.SITE)
        host_connection = self._get_host_connection(host)
        await self._connect_host(known_host, host_connection)
        for attempt in range(MAX_SESSION_REFUSALS):
            if attempt:
                await asyncio.sleep(random.uniform(0.005, 0.015) * 2**attempt)  # noqa: S311  # jitter, not a secret
            async with host_connection.sessions.slot() as slot:
                connection = await self._connect_host(known_host, host_connection)  # it may have been lost while we waited for a slot
                process = await _open_session(connection, known_host.name, command, options)
                if process is not None:
                    return await watch(process)
                slot.dropped = True
        raise Unreachable(
            known_host.name,
            f"sshd refused a session {MAX_SESSION_REFUSALS} times; is its MaxSessions at least 1?",
            barrier=AccessBarrier.REFUSED,
        )

    async def aclose(self) -> None:
        """Close every connection, bastions last."""
        all_connections = (*self._connections.values(), *self._bastions.values())
        await asyncio.gather(*(host_connection.cancel_opening() for host_connection in all_connections))
        for host_connections in (self._connections, self._bastions):
            opened = [entry.connection for entry in host_connections.values() if entry.connection is not None]
            for connection in opened:
                connection.close()
            await asyncio.gather(*(_wait_closed(connection) for connection in opened))
        self._connections.clear()
        self._bastions.clear()

    async def fingerprint(self, host: str) -> str:
        """Return the SHA-256 fingerprint of the verified host key."""
        known_host = self._inventory.hosts[host]
        host_connection = self._get_host_connection(host)
        key = (await self._connect_host(known_host, host_connection)).get_server_host_key()
        return key.get_fingerprint() if key else ""

    def _get_host_connection(self, host: str) -> _HostConnection:
        return self._connections.setdefault(host, _HostConnection(AdmissionControl(self._limits.sessions, SESSION_GAIN)))

    async def _connect_host(self, host: Host, host_connection: _HostConnection) -> Connection:
        async def dial() -> Connection:
            tunnel = await self._connect_bastion_of(host) if host.jump else None
            return await self._open_connection(
                host.name, host.address, host.port, _build_options(host, self._limits), tunnel, self._get_admission(host)
            )

        return await host_connection.get_connection(dial)

    async def _connect_bastion_of(self, host: Host) -> Connection:
        """Connect to the host's bastion. Its failure says nothing about the hosts behind it, hence SITE."""
        try:
            return await self._connect_bastion(host)
        except Unreachable as error:
            raise Unreachable(host.name, f"{error.host}: {error.why}", error.status, AccessBarrier.SITE) from error

    async def _connect_bastion(self, host: Host) -> Connection:
        host_connection = self._bastions.setdefault(host.jump, _HostConnection(AdmissionControl(1)))
        user, _, jump_address = host.jump.rpartition("@")
        address, _, port = jump_address.partition(":")

        async def dial() -> Connection:
            options = _build_options(host, self._limits) | {"username": user or host.user, "host_key_alias": ()}
            return await self._open_connection(f"bastion {address}", address, int(port or 22), options, None, AdmissionControl(1))

        return await host_connection.get_connection(dial)

    def _get_admission(self, host: Host) -> AdmissionControl:
        """Return the limit of the bastion, else of the sshd, shared by all its names."""
        access_point = host.jump or f"{host.address}:{host.port}"
        max_connections = self._limits.per_bastion if host.jump else self._limits.handshakes
        return self._admissions.setdefault(access_point, AdmissionControl(max_connections))

    async def _open_connection(
        self, name: str, address: str, port: int, options: Mapping[str, object], tunnel: Connection | None, admission: AdmissionControl
    ) -> Connection:
        """Open a connection. sshd's early drops are retried with growing, jittered pauses, refusals are not."""
        for attempt in range(1, self._limits.attempts + 1):
            async with admission.slot() as slot, self._handshakes:
                try:
                    return await asyncssh.connect(address, port, tunnel=tunnel, config=None, **options)
                except (asyncssh.ConnectionLost, ConnectionResetError) as error:
                    slot.dropped = True
                    if attempt == self._limits.attempts:
                        raise Unreachable(
                            name,
                            f"sshd dropped the connection {attempt} times ({error or 'reset'}); is MaxStartups too low?",
                            barrier=AccessBarrier.REFUSED,
                        ) from error
                except asyncssh.HostKeyNotVerifiable as error:
                    raise _explain_untrusted_key(name, address, port, options, error) from error
                except (OSError, asyncssh.Error, TimeoutError) as error:
                    raise _explain_unreachable(name, port, error) from error
            await asyncio.sleep(random.uniform(0.1, 0.4) * 2**attempt)  # noqa: S311  # jitter, not a secret
        raise AssertionError("unreachable: the last attempt returned or raised")

    async def _collect_output(self, process: RemoteProcess, limit: float, cap: int) -> CommandResult:
        started_at = monotonic()
        errors = asyncio.create_task(read_capped(process.stderr, 64 * 1024))
        out, cut, timed_out = b"", False, False
        try:
            async with asyncio.timeout(limit + self._limits.grace_seconds):
                out, cut = await read_capped(process.stdout, cap)
                if not cut:
                    await process.wait_closed()
        except TimeoutError:
            timed_out = True
        finally:
            if process.exit_status is None:
                await end_process(process)
            err = await read_remaining_stderr(errors)
        status = process.exit_status
        return CommandResult(out, err, status, monotonic() - started_at, truncated=cut, timed_out=timed_out or status in TIMEOUT_STATUSES)


async def _open_session(connection: Connection, host: str, command: str, options: Mapping[str, Any]) -> RemoteProcess | None:
    """Return None if sshd refused the session: nothing ran, so a retry is safe."""
    try:
        return await connection.create_process(command, encoding=None, **options)
    except asyncssh.ChannelOpenError as error:
        if error.code == asyncssh.OPEN_CONNECT_FAILED and not connection.is_closed():
            return None
        raise Unreachable(host, f"no session: {error}") from error
    except (asyncssh.Error, OSError) as error:
        raise Unreachable(host, f"no session: {error}") from error


def build_remote_command(argv: Sequence[str], limit: float) -> str:
    """Return sshd's command line: time limit, full PATH, quoted argv."""
    return shlex.join(("timeout", "-k", "2", f"{limit:g}", "sh", "-c", SET_PATH_SCRIPT, "sh", *argv))


def _load_known_hosts(host: Host) -> asyncssh.SSHKnownHosts:
    """Read known_hosts, cached until the file changes: a thousand connections would parse it a thousand times."""
    path = Path(host.known_hosts or Path.home() / ".ssh" / "known_hosts")
    try:
        status = path.stat()
        return _read_known_hosts(path, status.st_mtime_ns, status.st_size)
    except (OSError, ValueError) as error:
        raise Unreachable(
            host.name, f"known_hosts cannot be read, so no host key can be verified: {path}: {error}", barrier=AccessBarrier.SITE
        ) from error


@lru_cache(maxsize=64)
def _read_known_hosts(path: Path, changed: int, size: int) -> asyncssh.SSHKnownHosts:
    return asyncssh.read_known_hosts(str(path))


def _build_options(host: Host, limits: SshLimits) -> dict[str, object]:
    keys: list[object] = []
    if host.certificate:
        keys = [(host.key, host.certificate)]
    elif host.key:
        keys = [host.key]
    return {
        "username": host.user,
        "client_keys": keys or None,
        "known_hosts": _load_known_hosts(host),
        "host_key_alias": host.host_key_alias or (),
        "agent_path": None,
        "agent_forwarding": False,
        "preferred_auth": ("publickey",),
        "encryption_algs": PREFERRED_CIPHERS,
        "connect_timeout": limits.connect_seconds,
        "login_timeout": limits.login_seconds,
        "keepalive_interval": limits.keepalive_seconds,
        "keepalive_count_max": 2,
    }


async def _wait_closed(connection: Connection) -> None:
    """Wait at most 2 s: the peer may not answer."""
    with contextlib.suppress(Exception):
        await asyncio.wait_for(connection.wait_closed(), 2)


def _explain_untrusted_key(name: str, address: str, port: int, options: Mapping[str, object], error: Exception) -> Unreachable:
    """Explain whether the key is unlisted (an omission) or has changed (possibly an attack)."""
    known_keys = options["known_hosts"]
    host_key_name = str(options["host_key_alias"] or address)
    assert isinstance(known_keys, asyncssh.SSHKnownHosts)
    if any(known_keys.match(host_key_name, address, port)):
        barrier, advice = AccessBarrier.CHANGED_KEY, "the host was re-installed or something answers in its place; fix known_hosts by hand"
    else:
        key_source = f"the host's own console or `ssh-keyscan -p {port} {address}`"
        barrier, advice = (
            AccessBarrier.UNLISTED_KEY,
            f"known_hosts has no key of {host_key_name}: take it from {key_source}, compare it, and add it",
        )
    return Unreachable(name, f"host key not verified ({error}): {advice}", barrier=barrier)


def _explain_unreachable(name: str, port: int, error: Exception) -> Unreachable:
    match error:
        case asyncssh.PermissionDenied():
            return Unreachable(
                name, f"login refused ({error}): check user, key and certificate in the inventory", Status.DENIED, AccessBarrier.LOGIN
            )
        case asyncssh.KeyImportError():
            return Unreachable(name, f"our key cannot be read: {error}", Status.DENIED, AccessBarrier.SITE)
        case TimeoutError():
            return Unreachable(name, f"no answer on port {port} in time", Status.TIMEOUT, AccessBarrier.SILENT)
        case ConnectionRefusedError():
            return Unreachable(name, f"connection refused: nothing listens on port {port}", barrier=AccessBarrier.REFUSED)
        case socket.gaierror():
            return Unreachable(name, f"its address has no name that can be resolved: {error}", barrier=AccessBarrier.SITE)
        case _:
            return Unreachable(name, f"port {port}: {error or type(error).__name__}")
