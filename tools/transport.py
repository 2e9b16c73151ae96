"""The interface through which commands reach hosts. `tools.ssh.client` implements it; the sandbox has its own."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from tools.fact import Status


@dataclass(frozen=True, slots=True)
class CommandResult:
    """A command's output.

    `exit_status` is None if the connection was lost before the command ended, `truncated` is True if the cap cut stdout.
    `seconds` is on the transport's clock (virtual in the sandbox).
    """

    stdout: bytes
    stderr: bytes = b""
    exit_status: int | None = 0
    seconds: float = 0.0
    truncated: bool = False
    timed_out: bool = False

    @property
    def text(self) -> str:
        """stdout as text; invalid UTF-8 becomes U+FFFD."""
        return self.stdout.decode("utf-8", "replace")


class AccessBarrier(StrEnum):
    """Why a host cannot be reached, by what would solve it."""

    LOGIN = "login"
    UNLISTED_KEY = "unlisted key"
    CHANGED_KEY = "changed key"
    REFUSED = "refused"  # nothing listens on its SSH port, or sshd rejects every connection
    SITE = "site"  # the cause is in the inventory, known_hosts, the bastion or name resolution
    SILENT = "silent"  # no answer in time
    OTHER = "other"


class Unreachable(Exception):
    """A host gives no answer.

    `status` says how that counts as evidence, `why` tells an operator what to do about it.
    """

    def __init__(self, host: str, why: str, status: Status = Status.UNREACHABLE, barrier: AccessBarrier = AccessBarrier.OTHER) -> None:
        super().__init__(f"{host}: {why}")
        self.host = host
        self.why = why
        self.status = status
        self.barrier = barrier


class Transport(Protocol):
    """Runs one argv on one host; never a shell string, because the transport quotes each word once."""

    async def run(self, host: str, argv: Sequence[str], *, timeout: float, cap: int) -> CommandResult:
        """Run `argv` for at most `timeout` seconds and keep at most `cap` bytes of stdout.

        Raises Unreachable if no session opens; a lost, timed-out or failed command is a `CommandResult`.
        """
        ...

    async def aclose(self) -> None:
        """Close every connection."""
        ...
