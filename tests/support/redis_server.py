"""A redis-server for tests."""

import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path

from redis import Redis as BlockingRedis
from redis.exceptions import RedisError

from tests.support.clock import PATIENCE


@dataclass
class RealServer:
    """A server that can be killed and restarted on the same data."""

    directory: Path
    fsync: str = "no"
    process: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    @property
    def socket(self) -> Path:
        return self.directory / "r.sock"

    @property
    def url(self) -> str:
        return f"unix://{self.socket}?db=0"

    def start(self) -> None:
        words = f"--port 0 --unixsocket {self.socket} --dir {self.directory} --appendonly yes --appendfsync {self.fsync}".split()
        log = self.directory / "redis.log"
        self.process = subprocess.Popen(["redis-server", *words, "--save", "", "--logfile", str(log)], stdin=subprocess.DEVNULL)
        deadline = time.monotonic() + PATIENCE
        while not self._answers():
            if time.monotonic() > deadline:
                raise RuntimeError(f"redis-server did not start; see {log}")
            time.sleep(0.01)

    def kill(self) -> None:
        """Send SIGKILL, as a power cut would."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def _answers(self) -> bool:
        with BlockingRedis(unix_socket_path=str(self.socket)) as redis:
            try:
                return bool(redis.ping())
            except RedisError:
                return False
