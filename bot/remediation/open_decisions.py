"""The open decisions of an incident: approvers, quorum, votes, deadline."""

from collections.abc import Sequence

from bot.policy.approvals import ApprovalRights
from bot.remediation.cards.action_text import describe_action
from graph.context import ApprovalStatus
from tools.ledger.ledger import Ledger
from tools.ledger.record import ActionRecord, list_requesters
from tools.ledger.states import State

MAX_NAMED_APPROVERS = 12


class OpenDecisionLookup:
    """Built before the ledger; returns None until `bind_ledger`."""

    def __init__(self) -> None:
        self._ledger: Ledger | None = None
        self._rights: ApprovalRights | None = None

    def bind_ledger(self, ledger: Ledger, rights: ApprovalRights) -> None:
        self._ledger, self._rights = ledger, rights

    async def __call__(self, incident: str) -> Sequence[ApprovalStatus] | None:
        """Return the pending actions; None before the ledger is bound."""
        if self._ledger is None or self._rights is None:
            return None
        pending = [record for record in await self._ledger.list_incident_records(incident) if record.state is State.PENDING]
        return [await _build_decision(record, self._rights) for record in pending]


async def _build_decision(record: ActionRecord, rights: ApprovalRights) -> ApprovalStatus:
    may = sorted(record.terms.approvers - list_requesters(record.action))
    did = dict.fromkeys(vote.voter for vote in record.votes if vote.verdict == "approve")
    names = [await rights.get_person_name(person) for person in may[:MAX_NAMED_APPROVERS]] + [f"{len(may) - MAX_NAMED_APPROVERS} more"] * (
        len(may) > MAX_NAMED_APPROVERS
    )
    return ApprovalStatus(
        approval=record.approval,
        does=describe_action(record.action),
        approvers=tuple(names),
        quorum=record.terms.quorum,
        approved_by=tuple([await rights.get_person_name(voter) for voter in did]),
        until=record.decide_by,
    )
