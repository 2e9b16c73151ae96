"""What people may decide about actions, and which decisions are open.

A method that raises `Refused` or `Refusal` has changed nothing. Each decision checks the person again, changes only the
ledger and wakes the worker. People are `TEAM:USER`, as Slack's own payload names them.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from bot.policy.approvals import ApprovalRights
from bot.refusal import Refusal
from bot.remediation.action_edits import build_edited_step
from bot.remediation.action_index import ActionIndex
from bot.remediation.action_runner import ActionCardPublisher, EventDelivery, IncidentStateLoader
from bot.remediation.cards.action_text import describe_action
from bot.remediation.proposer import FactsLoader, ProposalDeferred
from bot.remediation.reconciler import RemediationReconciler
from bot.store.unreachable import STORE_TIMEOUT_SECONDS
from graph.context import ApprovalStatus
from graph.incident_view import IncidentView
from graph.remediation.build import build_approval_id
from graph.remediation.drained_nodes import get_return_blocker, list_unresolved_on_host, propose_return
from graph.remediation.state_machine import RETURN_EVENT
from graph.state import Remediation, RemediationStep
from tools.action import Action, new_approval_id
from tools.execution.kit import KitAnswer
from tools.execution.runner import settle_action
from tools.ledger.headroom import BrakeHeadroom, compute_headroom
from tools.ledger.ledger import Ledger
from tools.ledger.manual_brakes import LedgerBrakes
from tools.ledger.reader import LedgerReader
from tools.ledger.record import ActionRecord, Vote, VoteResult, list_requesters
from tools.ledger.refusals import NotAnApprover, NotFound, NotOpen, Refused, WrongDigest
from tools.ledger.states import State, Transition
from tools.transport import Transport

MAX_NAMED_APPROVERS = 12
MAX_APPROVED = 5  # newest approved actions of an incident
VoteVerdict = Literal["approve", "deny"]
CANNOT_PROPOSE_TEXT = "It cannot be proposed now"


@dataclass(frozen=True, slots=True)
class DecisionLookup:
    """Returns the pending and the approved actions of an incident."""

    ledger: LedgerReader
    rights: ApprovalRights

    async def __call__(self, incident: str) -> Sequence[ApprovalStatus]:
        records = await self.ledger.list_incident_records(incident)
        pending = [record for record in records if record.state is State.PENDING]
        approved = [record for record in records if record.state is not State.PENDING and _list_approvals(record)]
        return [await _build_decision(record, self.rights) for record in (*pending, *approved[-MAX_APPROVED:])]


def _list_approvals(record: ActionRecord) -> list[Vote]:
    return [vote for vote in record.votes if vote.verdict == "approve"]


async def _build_decision(record: ActionRecord, rights: ApprovalRights) -> ApprovalStatus:
    is_pending = record.state is State.PENDING
    eligible = sorted(record.terms.approvers - list_requesters(record.action)) if is_pending else []
    names = [await rights.get_person_name(person) for person in eligible[:MAX_NAMED_APPROVERS]]
    if len(eligible) > MAX_NAMED_APPROVERS:
        names.append(f"{len(eligible) - MAX_NAMED_APPROVERS} more")
    approvals = _list_approvals(record)
    approved_by = dict.fromkeys(vote.voter for vote in approvals)
    return ApprovalStatus(
        approval=record.approval,
        does=describe_action(record.action),
        approvers=tuple(names),
        quorum=record.terms.quorum,
        approved_by=tuple([await rights.get_person_name(person) for person in approved_by]),
        until=record.decide_by,
        open=is_pending,
        approved_at=max((datetime.fromisoformat(vote.at) for vote in approvals), default=None),
    )


class CannotPropose(Refusal):
    """An action cannot be proposed, or not again; the text says why."""


class HostRecordContradiction(Refusal):
    """The host's own record contradicts the person; nothing was changed."""


class ApprovalDecisions:
    """One method per button or form."""

    def __init__(
        self,
        ledger: Ledger,
        reconciler: RemediationReconciler,
        index: ActionIndex,
        rights: ApprovalRights,
        deliver: EventDelivery,
        transport: Transport,
        load_facts: FactsLoader,
        load_state: IncidentStateLoader,
        wake: Callable[[str], Awaitable[None]],
    ) -> None:
        self._ledger = ledger
        self._reconciler = reconciler
        self._index = index
        self._rights = rights
        self._deliver = deliver
        self._transport = transport
        self._load_facts = load_facts
        self._load_state = load_state
        self._wake = wake

    async def cast_vote(
        self, approval: str, digest: str, person: str, verdict: VoteVerdict, *, delivery: str, reason: str = ""
    ) -> ActionRecord:
        """Count one vote; wake the runner, which starts an approved action."""
        record = await self._get_current_record(approval, digest)
        await self._rights.require_full_member(person)
        if person not in await self._rights.list_record_approvers(record):
            raise NotAnApprover
        await self._index.schedule_check(approval)
        after = await self._ledger.vote(approval, digest, person, verdict, delivery, reason)
        await self._wake(approval)
        return after

    async def approve_actions(self, each: Sequence[tuple[str, str]], person: str, *, delivery: str) -> list[VoteResult]:
        """Approve several actions of one incident, checking the person in Slack once."""
        await self._rights.require_full_member(person)
        first = await self._ledger.get_record(each[0][0])
        incident = first.action.incident
        if person not in await self._rights.list_record_approvers(first):
            raise NotAnApprover
        return [await self._count_vote(approval, digest, person, f"{delivery}.{approval}", incident) for approval, digest in each]

    async def _count_vote(self, approval: str, digest: str, person: str, delivery: str, incident: str) -> VoteResult:
        """Cast one vote. A refusal does not affect the others."""
        record: ActionRecord | None = None
        try:
            record = await self._get_current_record(approval, digest)
            if record.action.incident != incident:
                raise WrongDigest
            if record.terms.sets and person not in await self._rights.list_record_approvers(record):
                raise NotAnApprover
            await self._index.schedule_check(approval)
            record = await self._ledger.vote(approval, digest, person, "approve", delivery)
        except NotOpen as error:
            return VoteResult(approval, await self._ledger.get_record(approval), error)
        except Refused as error:
            return VoteResult(approval, record, error)
        await self._wake(approval)
        return VoteResult(approval, record)

    async def propose_again(self, approval: str, digest: str, person: str) -> ActionRecord:
        """Propose an unapproved action's step again, as RackMedic. Idempotent."""
        record = await self._get_current_record(approval, digest)
        await self._rights.require_full_member(person)
        if record.state not in (State.EXPIRED, State.SUPERSEDED, State.DENIED, State.REVOKED):
            raise NotOpen(f"{NotOpen.message} It is {record.state}.")
        remediation = await self._find_remediation(record)
        if remediation.approval != approval:
            return await self._propose_step(record.action.incident, remediation)
        next_attempt = remediation.model_copy(update={"attempt": remediation.attempt + 1})
        next_attempt = next_attempt.model_copy(update={"approval": build_approval_id(record.action.incident, next_attempt)})
        proposal = await self._propose_step(record.action.incident, next_attempt)
        await self._deliver.send_event(
            record.action.incident, f"again:{approval}", {"event": "again", "approval": approval, "ladder": remediation.id}
        )
        return proposal

    async def propose_return(self, incident: str, remediation: str, person: str) -> ActionRecord:
        """Propose to return a drained node, even of a closed incident. Idempotent. Raise CannotPropose."""
        await self._rights.require_full_member(person)
        remediations = IncidentView(await self._load_state(incident)).remediations
        drained = next((row for row in remediations if row.id == remediation), None)
        if drained is None:
            raise CannotPropose("That node is not held by this incident.")
        if blocker := get_return_blocker(drained, remediations):
            raise CannotPropose(f"{drained.target} is not returned: {blocker}.")
        if returned_text := await self._reconciler.find_returned_node(incident, drained):
            raise CannotPropose(f"{returned_text}: I no longer hold it.")
        return_remediation = propose_return(incident, drained)
        for row in list_unresolved_on_host(drained, remediations):
            await self._require_fault_gone(incident, row)
        proposal = await self._propose_step(incident, return_remediation)
        await self._deliver.send_event(incident, f"return:{return_remediation.approval}", {"event": RETURN_EVENT, "ladder": remediation})
        return proposal

    async def release_next_wave(self, approval: str, digest: str, person: str) -> ActionRecord:
        """Let the next wave be proposed although an earlier host failed. Only an approver may."""
        record = await self._get_current_record(approval, digest)
        incident = record.action.incident
        await self._rights.require_full_member(person)
        if person not in await self._rights.list_record_approvers(record):
            raise NotAnApprover
        remediations = IncidentView(await self._load_state(incident)).remediations
        await self._reconciler.wave_scheduler.release_next_wave(incident, record.action.proves, remediations, person)
        await self._index.schedule_check(incident)
        await self._wake(incident)
        return record

    async def edit_action(self, approval: str, digest: str, person: str, args: Mapping[str, str]) -> ActionRecord:
        """Supersede a pending action by one with other arguments, which this person may not approve."""
        record = await self._get_current_record(approval, digest)
        await self._rights.require_full_member(person)
        if record.state is not State.PENDING:
            raise NotOpen(f"{NotOpen.message} It is {record.state}.")
        facts = await self._load_facts(record.action.incident)
        return await self._replace_action(record, build_edited_step(record.action, args, facts), person, f"edited by {person}")

    async def revoke_action(self, approval: str, digest: str, person: str, reason: str) -> ActionRecord:
        await self._get_current_record(approval, digest)
        await self._rights.require_full_member(person)
        await self._index.schedule_check(approval)
        after = await self._ledger.end_action(approval, Transition.REVOKE, person, reason)
        await self._wake(approval)
        return after

    async def resolve_unknown_outcome(self, approval: str, digest: str, person: str, ran: bool, note: str) -> ActionRecord:
        """Record what an approver saw of an unknown action. If the host answers, it must agree."""
        record = await self._get_current_record(approval, digest)
        await self._rights.require_full_member(person)
        if person not in await self._rights.list_record_approvers(record):
            raise NotAnApprover
        if record.state is not State.UNKNOWN:
            raise NotOpen(f"{NotOpen.message} It is {record.state}.")
        result = await settle_action(record.action, self._transport)
        _require_host_agreement(result, ran)
        await self._index.schedule_check(approval)
        after = await self._ledger.reconcile(approval, person, ran, f"{note} (the host says: {result.word} {result.says})".strip())
        await self._wake(approval)
        return after

    async def get_change_allowance(self, incidents: Sequence[str]) -> BrakeHeadroom:
        """Return how much the brakes still allow."""
        return await compute_headroom(self._ledger, self._reconciler.proposer.inventory.groups, incidents)

    # -- inside -----------------------------------------------------------------------------------------------------

    async def _get_current_record(self, approval: str, digest: str) -> ActionRecord:
        record = await self._ledger.get_record(approval)
        if record.digest != digest:
            raise WrongDigest
        return record

    async def _find_remediation(self, record: ActionRecord) -> Remediation:
        """Return the remediation that this action is or was a step of."""
        view = IncidentView(await self._load_state(record.action.incident))
        if view.lifecycle == "closed" and not any(
            remediation.approval == record.approval and remediation.drained for remediation in view.remediations
        ):
            raise CannotPropose("The incident is closed. Mention me again if the fault is back.")
        for remediation in view.remediations:
            if remediation.approval == record.approval or _is_same_step(remediation, record.action):
                return remediation
        raise CannotPropose("This step is no longer needed. Say `status` in the thread to see where the fix stands.")

    async def _replace_action(self, record: ActionRecord, step: RemediationStep, person: str, note: str) -> ActionRecord:
        """Propose a replacement, of which `person` counts as a requester."""
        requesters = ",".join(sorted(list_requesters(record.action) | {person}))
        remediation = Remediation(
            id="edit", label=record.action.proves, target=record.action.target, rungs=(step,), fault=record.action.fault
        )
        remediation = remediation.model_copy(update={"approval": new_approval_id()})
        proposal = await self._propose_step(record.action.incident, remediation, requested_by=requesters)
        try:
            note = f"{note}: {proposal.approval}"
            await self._ledger.end_action(record.approval, Transition.SUPERSEDE, person, note, replaced_by=proposal.approval)
        except NotOpen:
            await self._ledger.end_action(proposal.approval, Transition.SUPERSEDE, "rackmedic", "the edited action had already started")
            raise
        await self._wake(record.approval)
        return proposal

    async def _require_fault_gone(self, incident: str, remediation: Remediation) -> None:
        try:
            await self._reconciler.require_fault_gone(incident, remediation)
        except ProposalDeferred as error:
            raise CannotPropose(f"{CANNOT_PROPOSE_TEXT}: {error}.") from error

    async def _propose_step(self, incident: str, remediation: Remediation, *, requested_by: str = "") -> ActionRecord:
        try:
            return await self._ledger.get_record(remediation.approval)
        except NotFound:
            pass
        try:
            proposal = await self._reconciler.create_proposal(incident, remediation, requested_by=requested_by, ahead=True)
        except ProposalDeferred as error:
            raise CannotPropose(f"{CANNOT_PROPOSE_TEXT}: {error}.") from error
        await self._wake(proposal.approval)
        return proposal


@dataclass(frozen=True, slots=True)
class ApprovalServices:
    """What the Slack handlers need when approvals are enabled."""

    decisions: ApprovalDecisions
    brakes: LedgerBrakes
    cards: ActionCardPublisher
    always_approvers: frozenset[str] = frozenset()  # user ids from the settings; they may approve in every channel
    ack_timeout_seconds: float = STORE_TIMEOUT_SECONDS  # a click that takes longer is acknowledged and continues in the background


def _is_same_step(remediation: Remediation, action: Action) -> bool:
    if remediation.current_step is None:
        return False
    current = (remediation.label, remediation.target, remediation.current_step.remedy)
    return current == (action.proves, action.target, action.remedy)


def _require_host_agreement(answer: KitAnswer, ran: bool) -> None:
    if answer.word == "running":
        raise HostRecordContradiction("The host says that it still runs. Wait until it has ended.")
    if answer.word in ("done", "lost") and not ran:
        raise HostRecordContradiction("The host's own record says that it ran. Confirm that it ran, or correct the host's record first.")
    if answer.word in ("never", "refused") and ran:
        raise HostRecordContradiction("The host's own record says that it never ran. Say that it did not run.")
