"""A claim: the only thing that lets a remedy run. Nothing outside the ledger can make one."""

from dataclasses import dataclass

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
    mint: object

    def __post_init__(self) -> None:
        if self.mint is not _MINT:
            raise TypeError("claims are issued by the ledger alone")


def issue(action: Action, token: int, worker: str, *, may_start: bool) -> Claim:
    """For `tools.ledger.ledger` only; import-linter holds everybody else off this module."""
    return Claim(action, token, worker, may_start, _MINT)
