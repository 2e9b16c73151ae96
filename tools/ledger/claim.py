"""A claim: the only thing that lets a remedy run. Nothing outside the ledger can make one."""

from dataclasses import InitVar, dataclass
from typing import NoReturn

from tools.action import Action

_MINT = object()


@dataclass(frozen=True, slots=True)
class Claim:
    """Held by one worker for one action; `token` fences everybody who held it before.

    `may_start` is false for a claim adopted from a dead worker: it may only find out what happened, never begin.
    """

    action: Action
    token: int
    worker: str
    may_start: bool
    mint: InitVar[object]

    def __post_init__(self, mint: object) -> None:
        if mint is not _MINT:
            raise TypeError("claims are issued by the ledger alone")

    def __reduce__(self) -> NoReturn:
        """A copy, or a claim that waited in a file, would outlive its fence."""
        raise TypeError("a claim cannot be copied or stored; ask the ledger again")


def issue_claim(action: Action, token: int, worker: str, *, may_start: bool) -> Claim:
    """For `tools.ledger.ledger` only; a test holds the rest of the product off this function."""
    return Claim(action, token, worker, may_start, _MINT)
