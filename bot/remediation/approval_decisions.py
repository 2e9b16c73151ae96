"""What people may decide about actions, which decisions are open, and which arguments may be changed."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from bot.policy.approvals import ApprovalRights
from bot.refusal import Refusal
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
from tools.fact import Fact, Status
from tools.ledger.ledger import Ledger
from tools.ledger.reader import BrakeHeadroom, LedgerReader, compute_headroom
from tools.ledger.record import ActionRecord, NotAnApprover, NotFound, NotOpen, Refused, VoteResult, WrongDigest, list_requesters
from tools.ledger.states import State, Transition
from tools.remedies import REMEDIES
from tools.remedies.remedy import BadArgument, check_args
from tools.transport import Transport

# Which arguments of an action people may change: values that affect only its target.

# Every valid value affects only the target.
FREE_ARGUMENT_KINDS = frozenset({"watts", "signal", "check", "hours", "service"})
# The target must show the value: an incident changes no other host's GPU, job or process.
SHOWN_VALUE_READERS: Mapping[str, Callable[[Fact], str]] = {
    "bdf": lambda fact: str(fact.value).lower() if fact.key == "gpu.bdf" else "",
    "job": lambda fact: str(fact.attrs.get("job") or "") if fact.key == "proc.gpu_memory" else "",
    "container": lambda fact: str(fact.attrs.get("id") or "") if fact.key == "container.nvml" else "",
    "pid": lambda fact: str(fact.attrs.get("pid") or "") if fact.key in ("proc.gpu_memory", "proc.orphan") else "",
}


def build_edited_step(action: Action, args: Mapping[str, str], facts: Sequence[Fact]) -> RemediationStep:
    """Return the step with other arguments. Raise BadArgument that names every field that may not change so."""
    remedy = REMEDIES[action.remedy]
    checked = check_args(remedy, {**action.args, **args})
    own = [fact for fact in facts if fact.host == action.target and fact.status is Status.OK and not fact.stale]
    changed = {name: value for name, value in checked.items() if value != action.args.get(name)}
    problems = [
        problem for name, value in changed.items() if (problem := _find_edit_problem(name, remedy.args[name], value, own, action.target))
    ]
    if problems:
        raise BadArgument("; ".join(problems))
    if not changed:
        raise BadArgument("nothing was changed")
    keep = {name: value for name, value in checked.items() if remedy.args[name] != "approval"}
    return RemediationStep(remedy=remedy.id, args=keep, devices=_get_edited_devices(action, changed, own))


def _find_edit_problem(name: str, kind: str, value: str, own: Sequence[Fact], target: str) -> str:
    if kind in FREE_ARGUMENT_KINDS or kind == "ticks":  # the start of a process is read again when it is proposed
        return ""
    if kind in SHOWN_VALUE_READERS and value in {SHOWN_VALUE_READERS[kind](fact) for fact in own}:
        return ""
    return f"{name}={value!r}: {target} shows no such {kind}" if kind in SHOWN_VALUE_READERS else f"{name}: cannot be edited"


def _get_edited_devices(action: Action, changed: Mapping[str, str], own: Sequence[Fact]) -> tuple[str, ...]:
    if "bdf" not in changed:
        return action.devices
    return tuple(f"{action.target}/{fact.device}" for fact in own if SHOWN_VALUE_READERS["bdf"](fact) == changed["bdf"] and fact.device)


# The open decisions of an incident: approvers, quorum, votes, deadline.

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


# What people may decide about actions.
#
# Every method raises a `Refused` or Refusal and then has changed nothing. Every method checks the person anew, changes
# only the ledger, and wakes the worker. People are `TEAM:USER`, from Slack's own payload.

VoteVerdict = Literal["approve", "deny"]
CANNOT_PROPOSE_TEXT = "It cannot be proposed now"


class CannotPropose(Refusal):
    """It cannot be proposed (again); the text says why."""


class HostRecordContradiction(Refusal):
    """The host's own record says otherwise; nothing was changed."""


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
        facts_of: FactsLoader,
        state_of: IncidentStateLoader,
        wake: Callable[[str], Awaitable[None]],
    ) -> None:
        self._ledger, self._reconciler, self._index, self._rights = ledger, reconciler, index, rights
        self._deliver, self._transport, self._facts_of, self._state_of, self._wake = deliver, transport, facts_of, state_of, wake

    async def cast_vote(
        self, approval: str, digest: str, voter: str, verdict: VoteVerdict, *, delivery: str, reason: str = ""
    ) -> ActionRecord:
        """Count one vote; wake the runner, which starts an approved action."""
        record = await self._get_current_record(approval, digest)
        await self._rights.require_full_member(voter)
        if voter not in await self._rights.list_record_approvers(record):
            raise NotAnApprover(NotAnApprover.__doc__)
        await self._index.schedule_check(approval)
        after = await self._ledger.vote(approval, digest, voter, verdict, delivery, reason)
        await self._wake(approval)
        return after

    async def approve_actions(self, each: Sequence[tuple[str, str]], voter: str, *, delivery: str) -> list[VoteResult]:
        """Approve several actions of one incident, checking the voter in Slack once."""
        await self._rights.require_full_member(voter)
        first = await self._ledger.get_record(each[0][0])
        incident = first.action.incident
        if voter not in await self._rights.list_record_approvers(first):
            raise NotAnApprover(NotAnApprover.__doc__)
        return [await self._count_vote(approval, digest, voter, f"{delivery}.{approval}", incident) for approval, digest in each]

    async def _count_vote(self, approval: str, digest: str, voter: str, delivery: str, incident: str) -> VoteResult:
        """Cast one vote. A refusal does not affect the others."""
        record: ActionRecord | None = None
        try:
            record = await self._get_current_record(approval, digest)
            if record.action.incident != incident:
                raise WrongDigest(WrongDigest.__doc__)
            if record.terms.sets and voter not in await self._rights.list_record_approvers(record):
                raise NotAnApprover(NotAnApprover.__doc__)
            await self._index.schedule_check(approval)
            record = await self._ledger.vote(approval, digest, voter, "approve", delivery)
        except NotOpen as error:
            return VoteResult(approval, await self._ledger.get_record(approval), error)
        except Refused as error:
            return VoteResult(approval, record, error)
        await self._wake(approval)
        return VoteResult(approval, record)

    async def propose_again(self, approval: str, digest: str, asker: str) -> ActionRecord:
        """Propose an unapproved action's step again, as RackMedic. Idempotent."""
        record = await self._get_current_record(approval, digest)
        await self._rights.require_full_member(asker)
        if record.state not in (State.EXPIRED, State.SUPERSEDED, State.DENIED, State.REVOKED):
            raise NotOpen(f"{NotOpen.__doc__} It is {record.state}.")
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

    async def propose_return(self, incident: str, remediation: str, asker: str) -> ActionRecord:
        """Propose to return a drained node, even of a closed incident. Idempotent. Raise CannotPropose."""
        await self._rights.require_full_member(asker)
        remediations = IncidentView(await self._state_of(incident)).remediations
        drained = next((row for row in remediations if row.id == remediation), None)
        if drained is None:
            raise CannotPropose("That node is not held by this incident.")
        if blocker := get_return_blocker(drained, remediations):
            raise CannotPropose(f"{drained.target} is not returned: {blocker}.")
        if back := await self._reconciler.find_returned_node(incident, drained):
            raise CannotPropose(f"{back}: I no longer hold it.")
        return_remediation = propose_return(incident, drained)
        for row in list_unresolved_on_host(drained, remediations):
            await self._require_fault_gone(incident, row)
        proposal = await self._propose_step(incident, return_remediation)
        await self._deliver.send_event(incident, f"return:{return_remediation.approval}", {"event": RETURN_EVENT, "ladder": remediation})
        return proposal

    async def release_next_wave(self, approval: str, digest: str, human: str) -> ActionRecord:
        """Let the next wave be proposed although an earlier host failed. Only an approver may."""
        record = await self._get_current_record(approval, digest)
        incident = record.action.incident
        await self._rights.require_full_member(human)
        if human not in await self._rights.list_record_approvers(record):
            raise NotAnApprover(NotAnApprover.__doc__)
        remediations = IncidentView(await self._state_of(incident)).remediations
        await self._reconciler.wave_scheduler.release_next_wave(incident, record.action.proves, remediations, human)
        await self._index.schedule_check(incident)
        await self._wake(incident)
        return record

    async def edit_action(self, approval: str, digest: str, editor: str, args: Mapping[str, str]) -> ActionRecord:
        """Supersede a pending action by one with other arguments, which the editor may not approve."""
        record = await self._get_current_record(approval, digest)
        await self._rights.require_full_member(editor)
        if record.state is not State.PENDING:
            raise NotOpen(f"{NotOpen.__doc__} It is {record.state}.")
        facts = await self._facts_of(record.action.incident)
        return await self._replace_action(record, build_edited_step(record.action, args, facts), editor, f"edited by {editor}")

    async def revoke_action(self, approval: str, digest: str, by: str, why: str) -> ActionRecord:
        await self._get_current_record(approval, digest)
        await self._rights.require_full_member(by)
        await self._index.schedule_check(approval)
        after = await self._ledger.end_action(approval, Transition.REVOKE, by, why)
        await self._wake(approval)
        return after

    async def resolve_unknown_outcome(self, approval: str, digest: str, human: str, ran: bool, note: str) -> ActionRecord:
        """Record what an approver saw of an unknown action. If the host answers, it must agree."""
        record = await self._get_current_record(approval, digest)
        await self._rights.require_full_member(human)
        if human not in await self._rights.list_record_approvers(record):
            raise NotAnApprover(NotAnApprover.__doc__)
        if record.state is not State.UNKNOWN:
            raise NotOpen(f"{NotOpen.__doc__} It is {record.state}.")
        result = await settle_action(record.action, self._transport)
        _require_host_agreement(result, ran)
        await self._index.schedule_check(approval)
        after = await self._ledger.reconcile(approval, human, ran, f"{note} (the host says: {result.word} {result.says})".strip())
        await self._wake(approval)
        return after

    async def get_change_allowance(self, incidents: Sequence[str]) -> BrakeHeadroom:
        """Return how much the brakes still allow."""
        return await compute_headroom(self._ledger, self._reconciler.proposer.inventory.groups, incidents)

    # -- inside -----------------------------------------------------------------------------------------------------

    async def _get_current_record(self, approval: str, digest: str) -> ActionRecord:
        record = await self._ledger.get_record(approval)
        if record.digest != digest:
            raise WrongDigest(WrongDigest.__doc__)
        return record

    async def _find_remediation(self, record: ActionRecord) -> Remediation:
        """Return the remediation that this action is or was a step of."""
        rows = IncidentView(await self._state_of(record.action.incident))
        if rows.lifecycle == "closed" and not any(row.approval == record.approval and row.drained for row in rows.remediations):
            raise CannotPropose("The incident is closed. Mention me again if the fault is back.")
        for row in rows.remediations:
            same = (row.label, row.target) == (record.action.proves, record.action.target)
            if row.approval == record.approval or (
                same and row.current_step is not None and row.current_step.remedy == record.action.remedy
            ):
                return row
        raise CannotPropose("This step is no longer needed. Say `status` in the thread to see where the fix stands.")

    async def _replace_action(self, record: ActionRecord, step: RemediationStep, by: str, says: str) -> ActionRecord:
        """Propose a replacement; `by` counts as its requester."""
        requesters = ",".join(sorted(list_requesters(record.action) | {by}))
        remediation = Remediation(
            id="edit", label=record.action.proves, target=record.action.target, rungs=(step,), fault=record.action.fault
        )
        remediation = remediation.model_copy(update={"approval": new_approval_id()})
        proposal = await self._propose_step(record.action.incident, remediation, requested_by=requesters)
        try:
            says = f"{says}: {proposal.approval}"
            await self._ledger.end_action(record.approval, Transition.SUPERSEDE, by, says, replaced_by=proposal.approval)
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
    book: LedgerReader
    cards: ActionCardPublisher
    always: frozenset[str] = frozenset()  # User ids from the settings that may approve in every channel.
    patience: float = STORE_TIMEOUT_SECONDS  # Seconds until a running click is acknowledged and continues in the background.


def _require_host_agreement(answer: KitAnswer, ran: bool) -> None:
    if answer.word == "running":
        raise HostRecordContradiction("The host says that it still runs. Wait until it has ended.")
    if answer.word in ("done", "lost") and not ran:
        raise HostRecordContradiction("The host's own record says that it ran. Confirm that it ran, or correct the host's record first.")
    if answer.word in ("never", "refused") and ran:
        raise HostRecordContradiction("The host's own record says that it never ran. Say that it did not run.")
