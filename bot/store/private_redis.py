"""A private `redis-server` or `valkey-server` on one directory and one Unix socket.

Invariants: every write is on disk before it is answered; one directory never has two servers (lock file; a server left
by a killed process is taken over); the server has its own session, so Ctrl-C reaches RackMedic first; a dead server is
restarted; it stops with its owner.
"""

import asyncio
import fcntl
import hashlib
import os
import shutil
import tempfile
from pathlib import Path
from typing import IO

import structlog
from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import BusyLoadingError, RedisError

from bot.tasks import cancel_tasks

log = structlog.get_logger()

LOG_FILE_NAME = "redis.log"
SERVER_BINARIES = ("redis-server", "valkey-server")
NO_RETRY = Retry(NoBackoff(), 0)
READY_TIMEOUT_SECONDS = 60.0  # a long append-only file takes time to load
RESTART_DELAYS_SECONDS = (0.2, 1.0, 5.0, 10.0, 30.0)  # before each restart of a server that died, until one answers
MAX_SOCKET_PATH_BYTES = 100  # the kernel's limit is 107


class PrivateRedisFailed(Exception):
    """The private server did not come up. Says where its log is."""


MAX_LOG_BYTES = 16 << 20


def rotate_log(directory: Path) -> bool:
    """Rename a log over MAX_LOG_BYTES; return whether it was. The server reopens the file for each line."""
    log = directory / LOG_FILE_NAME
    if not log.exists() or log.stat().st_size <= MAX_LOG_BYTES:
        return False
    log.replace(log.with_suffix(".log.1"))
    return True


def find_server(path: str | None = None) -> str | None:
    return next((server_path for name in SERVER_BINARIES if (server_path := shutil.which(name, path=path))), None)


class PrivateRedis:
    """A server that this process owns, or one of another RackMedic process in the same directory (guest)."""

    def __init__(
        self, directory: Path, socket: Path, lock: IO[str] | None, process: asyncio.subprocess.Process | None, binary: str = ""
    ) -> None:
        self.directory = directory
        self.socket = socket
        self._lock = lock
        self._process = process
        self._keeping = asyncio.create_task(self._restart_when_dead(_build_argv(binary, directory, socket))) if process else None

    @property
    def url(self) -> str:
        return f"unix://{self.socket}?db=0"

    @property
    def is_owner(self) -> bool:
        return self._lock is not None

    async def stop(self) -> None:
        """Stop an owned server without saving: all writes are on disk."""
        if self._lock is None:
            return
        if self._keeping is not None:
            await cancel_tasks(self._keeping)
        redis = Redis(unix_socket_path=str(self.socket), retry=NO_RETRY)
        try:
            await redis.shutdown(nosave=True)
        except RedisError:
            pass  # it may be gone already
        finally:
            await redis.aclose()
        if self._process is not None:
            await self._process.wait()
        self._lock.close()
        self._lock = None

    async def _restart_when_dead(self, argv: list[str]) -> None:
        failed = 0
        while self._process is not None:
            log.error("private_redis.died", code=await self._process.wait(), log=str(self.directory / LOG_FILE_NAME))
            await asyncio.sleep(RESTART_DELAYS_SECONDS[min(failed, len(RESTART_DELAYS_SECONDS) - 1)])
            try:
                self._process = await _spawn_server(argv)
                await _wait_until_ready(self.socket, self._process, self.directory)
            except (PrivateRedisFailed, OSError) as error:
                failed += 1
                log.warning("private_redis.not_started", times=failed, why=str(error))
            else:
                failed = 0
                log.info("private_redis.started_again")


async def start_private_redis(binary: str, directory: Path) -> PrivateRedis:
    """Start a server on `directory`, or take over or share the running one. Raises PrivateRedisFailed."""
    socket, lock = _claim_directory(directory)
    if lock is None:
        await _wait_until_ready(socket, None, directory)
        return PrivateRedis(directory, socket, None, None)
    try:
        process = None if await _is_answering(socket) else await _spawn_server(_build_argv(binary, directory, socket))
        await _wait_until_ready(socket, process, directory)
    except BaseException:
        lock.close()
        raise
    return PrivateRedis(directory, socket, lock, process, binary)


def _claim_directory(directory: Path) -> tuple[Path, IO[str] | None]:
    """Return the socket path, and the lock unless another process holds it."""
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    return _get_socket_path(directory), _try_lock(directory / "lock")


def _get_socket_path(directory: Path) -> Path:
    """Return the socket beside the data, or one in a private temporary directory where that path is too long."""
    socket_path = directory.resolve() / "redis.sock"
    if len(os.fsencode(socket_path)) <= MAX_SOCKET_PATH_BYTES:
        return socket_path
    home = Path(tempfile.gettempdir()) / f"rackmedic-{os.getuid()}"
    home.mkdir(mode=0o700, exist_ok=True)
    if home.stat().st_uid != os.getuid() or home.stat().st_mode & 0o077:
        raise PrivateRedisFailed(f"{home} is not only ours: remove it, or give a data directory with a shorter path")
    return home / f"{hashlib.sha256(os.fsencode(socket_path)).hexdigest()[:16]}.sock"


def _try_lock(path: Path) -> IO[str] | None:
    handle = path.open("w")
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        handle.close()
        return None
    return handle


def _build_argv(binary: str, directory: Path, socket: Path) -> list[str]:
    settings = {
        "port": "0",
        "unixsocket": str(socket),
        "unixsocketperm": "700",
        "dir": str(directory.resolve()),
        "appendonly": "yes",
        "appendfsync": "always",
        "maxmemory-policy": "noeviction",
        "save": "",
        "daemonize": "no",
        "logfile": str(directory.resolve() / LOG_FILE_NAME),
    }
    return [binary, *(word for key, value in settings.items() for word in (f"--{key}", value))]


async def _spawn_server(argv: list[str]) -> asyncio.subprocess.Process:
    quiet = asyncio.subprocess.DEVNULL
    return await asyncio.create_subprocess_exec(*argv, stdin=quiet, stdout=quiet, stderr=quiet, start_new_session=True)


async def _is_answering(socket: Path) -> bool:
    redis = Redis(unix_socket_path=str(socket), socket_timeout=5, retry=NO_RETRY)
    try:
        await redis.ping()
    except BusyLoadingError:
        return True
    except (RedisError, OSError):
        return False
    finally:
        await redis.aclose()
    return True


async def _wait_until_ready(socket: Path, process: asyncio.subprocess.Process | None, directory: Path) -> None:
    redis = Redis(unix_socket_path=str(socket), retry=NO_RETRY)
    try:
        async with asyncio.timeout(READY_TIMEOUT_SECONDS):
            while not await _is_ready(redis):
                if process is not None and process.returncode is not None:
                    raise PrivateRedisFailed(f"the private Redis stopped at once; see {directory / LOG_FILE_NAME}")
                await asyncio.sleep(0.02)
    except TimeoutError:
        raise PrivateRedisFailed(f"the private Redis in {directory} does not answer; see {directory / LOG_FILE_NAME}") from None
    finally:
        await redis.aclose()


async def _is_ready(redis: Redis) -> bool:
    try:
        await redis.ping()
    except (RedisError, OSError):
        return False
    return True
