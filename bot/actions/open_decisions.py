"""What is up for decision in an incident, as the thread is told of it: who may, how many it takes, who did, until when."""

from collections.abc import Sequence

from bot.cards.approvals.words import does
from bot.policy.approvals import Rights
from graph.ports import Decision
from tools.ledger.ledger import Ledger
from tools.ledger.record import Record, requesters_of
from tools.ledger.states import State

MOST_NAMED = 12


class OpenDecisions:
    """Built before the ledger is; `reads` tells it which. Until then nothing is known to be decided here."""

    def __init__(self) -> None:
        self._ledger: Ledger | None = None
        self._rights: Rights | None = None

    def reads(self, ledger: Ledger, rights: Rights) -> None:
        self._ledger, self._rights = ledger, rights

    async def __call__(self, incident: str) -> Sequence[Decision] | None:
        """Those that votes still count for. None before anything can be decided."""
        if self._ledger is None or self._rights is None:
            return None
        pending = [seen for seen in await self._ledger.of_incident(incident) if seen.state is State.PENDING]
        return [await _told(seen, self._rights) for seen in pending]


async def _told(seen: Record, rights: Rights) -> Decision:
    may = sorted(seen.terms.approvers - requesters_of(seen.action))
    did = dict.fromkeys(vote.voter for vote in seen.votes if vote.verdict == "approve")
    names = [await rights.name(who) for who in may[:MOST_NAMED]] + [f"{len(may) - MOST_NAMED} more"] * (len(may) > MOST_NAMED)
    return Decision(
        approval=seen.approval,
        does=does(seen.action),
        approvers=tuple(names),
        quorum=seen.terms.quorum,
        approved_by=tuple([await rights.name(who) for who in did]),
        until=seen.decide_by,
    )
