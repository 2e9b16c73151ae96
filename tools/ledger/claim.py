"""The claim, without which no remedy runs. Only the ledger issues it."""

from dataclasses import InitVar, dataclass
from typing import NoReturn

from tools.action import Action

_MINT = object()


@dataclass(frozen=True, slots=True)
class Claim:
    """One worker's right to one action; `token` fences off earlier holders.

    Without `may_start` (adopted from a dead worker) it may only find out what happened.
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
        """Refuse to be copied or pickled: a copy would outlive its fence."""
        raise TypeError("a claim cannot be copied or stored; ask the ledger again")


def issue_claim(action: Action, token: int, worker: str, *, may_start: bool) -> Claim:
    """Issue a claim, for `tools.ledger.ledger` only; a test enforces it."""
    return Claim(action, token, worker, may_start, _MINT)
