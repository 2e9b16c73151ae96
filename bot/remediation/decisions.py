"""What people may decide about actions.

Every method raises a `Refused` or Refusal and then has changed nothing. Every method checks the person anew, changes
only the ledger, and wakes the worker. People are `TEAM:USER`, from Slack's own payload.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from bot.policy.approvals import ApprovalRights
from bot.refusal import Refusal
from bot.remediation.action_index import ActionIndex
from bot.remediation.action_runner import ActionCardPublisher, EventDelivery, IncidentStateLoader
from bot.remediation.edits import build_edited_step
from bot.remediation.proposer import FactsLoader, ProposalDeferred
from bot.remediation.reconciler import RemediationReconciler
from bot.store.unreachable import STORE_TIMEOUT_SECONDS
from graph.incident_view import IncidentView
from graph.remediation.build import build_approval_id
from graph.remediation.drained_nodes import get_return_blocker, list_unresolved_on_host, propose_return
from graph.remediation.transitions import RETURN_EVENT
from graph.state import Remediation, RemediationStep
from tools.action import new_approval_id
from tools.execution.kit import KitAnswer
from tools.execution.runner import settle_action
from tools.ledger.headroom import BrakeHeadroom, compute_headroom
from tools.ledger.ledger import Ledger
from tools.ledger.reader import LedgerReader
from tools.ledger.record import ActionRecord, NotAnApprover, NotFound, NotOpen, Refused, VoteResult, WrongDigest, list_requesters
from tools.ledger.states import State, Transition
from tools.transport import Transport

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
        self._ledger, self._tender, self._index, self._rights = ledger, reconciler, index, rights
        self._deliver, self._transport, self._facts_of, self._state_of, self._wake = deliver, transport, facts_of, state_of, wake

    async def cast_vote(
        self, approval: str, digest: str, voter: str, verdict: VoteVerdict, *, delivery: str, reason: str = ""
    ) -> ActionRecord:
        """Count one vote; wake the runner, which starts an approved action."""
        seen = await self._get_current_record(approval, digest)
        await self._rights.require_full_member(voter)
        if voter not in await self._rights.list_record_approvers(seen):
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
        seen: ActionRecord | None = None
        try:
            seen = await self._get_current_record(approval, digest)
            if seen.action.incident != incident:
                raise WrongDigest(WrongDigest.__doc__)
            if seen.terms.sets and voter not in await self._rights.list_record_approvers(seen):
                raise NotAnApprover(NotAnApprover.__doc__)
            await self._index.schedule_check(approval)
            seen = await self._ledger.vote(approval, digest, voter, "approve", delivery)
        except NotOpen as no:
            return VoteResult(approval, await self._ledger.get_record(approval), no)
        except Refused as no:
            return VoteResult(approval, seen, no)
        await self._wake(approval)
        return VoteResult(approval, seen)

    async def propose_again(self, approval: str, digest: str, asker: str) -> ActionRecord:
        """Propose an unapproved action's step again, as RackMedic. Idempotent."""
        seen = await self._get_current_record(approval, digest)
        await self._rights.require_full_member(asker)
        if seen.state not in (State.EXPIRED, State.SUPERSEDED, State.DENIED, State.REVOKED):
            raise NotOpen(f"{NotOpen.__doc__} It is {seen.state}.")
        remediation = await self._find_remediation(seen)
        if remediation.approval != approval:
            return await self._propose_step(seen.action.incident, remediation)
        again = remediation.model_copy(update={"attempt": remediation.attempt + 1})
        again = again.model_copy(update={"approval": build_approval_id(seen.action.incident, again)})
        found = await self._propose_step(seen.action.incident, again)
        await self._deliver.send_event(
            seen.action.incident, f"again:{approval}", {"event": "again", "approval": approval, "ladder": remediation.id}
        )
        return found

    async def propose_return(self, incident: str, remediation: str, asker: str) -> ActionRecord:
        """Propose to return a drained node, even of a closed incident. Idempotent. Raise CannotPropose."""
        await self._rights.require_full_member(asker)
        remediations = IncidentView(await self._state_of(incident)).remediations
        held = next((row for row in remediations if row.id == remediation), None)
        if held is None:
            raise CannotPropose("That node is not held by this incident.")
        if why := get_return_blocker(held, remediations):
            raise CannotPropose(f"{held.target} is not returned: {why}.")
        if back := await self._tender.find_returned_node(incident, held):
            raise CannotPropose(f"{back}: I hold it no more.")
        again = propose_return(incident, held)
        for row in list_unresolved_on_host(held, remediations):
            await self._require_fault_gone(incident, row)
        found = await self._propose_step(incident, again)
        await self._deliver.send_event(incident, f"return:{again.approval}", {"event": RETURN_EVENT, "ladder": remediation})
        return found

    async def release_next_wave(self, approval: str, digest: str, human: str) -> ActionRecord:
        """Let the next wave be proposed although an earlier host failed. Only an approver may."""
        seen = await self._get_current_record(approval, digest)
        incident = seen.action.incident
        await self._rights.require_full_member(human)
        if human not in await self._rights.list_record_approvers(seen):
            raise NotAnApprover(NotAnApprover.__doc__)
        remediations = IncidentView(await self._state_of(incident)).remediations
        await self._tender.wave_scheduler.release_next_wave(incident, seen.action.proves, remediations, human)
        await self._index.schedule_check(incident)
        await self._wake(incident)
        return seen

    async def edit_action(self, approval: str, digest: str, editor: str, args: Mapping[str, str]) -> ActionRecord:
        """Supersede a pending action by one with other arguments, which the editor may not approve."""
        seen = await self._get_current_record(approval, digest)
        await self._rights.require_full_member(editor)
        if seen.state is not State.PENDING:
            raise NotOpen(f"{NotOpen.__doc__} It is {seen.state}.")
        facts = await self._facts_of(seen.action.incident)
        return await self._replace_action(seen, build_edited_step(seen.action, args, facts), editor, f"edited by {editor}")

    async def revoke_action(self, approval: str, digest: str, by: str, why: str) -> ActionRecord:
        await self._get_current_record(approval, digest)
        await self._rights.require_full_member(by)
        await self._index.schedule_check(approval)
        after = await self._ledger.end_action(approval, Transition.REVOKE, by, why)
        await self._wake(approval)
        return after

    async def resolve_unknown_outcome(self, approval: str, digest: str, human: str, ran: bool, note: str) -> ActionRecord:
        """Record what an approver saw of an unknown action. If the host answers, it must agree."""
        seen = await self._get_current_record(approval, digest)
        await self._rights.require_full_member(human)
        if human not in await self._rights.list_record_approvers(seen):
            raise NotAnApprover(NotAnApprover.__doc__)
        if seen.state is not State.UNKNOWN:
            raise NotOpen(f"{NotOpen.__doc__} It is {seen.state}.")
        said = await settle_action(seen.action, self._transport)
        _require_host_agreement(said, ran)
        await self._index.schedule_check(approval)
        after = await self._ledger.reconcile(approval, human, ran, f"{note} (the host says: {said.word} {said.says})".strip())
        await self._wake(approval)
        return after

    async def get_change_allowance(self, incidents: Sequence[str]) -> BrakeHeadroom:
        """Return how much the brakes still allow."""
        return await compute_headroom(self._ledger, self._tender.proposer.inventory.groups, incidents)

    # -- inside -----------------------------------------------------------------------------------------------------

    async def _get_current_record(self, approval: str, digest: str) -> ActionRecord:
        seen = await self._ledger.get_record(approval)
        if seen.digest != digest:
            raise WrongDigest(WrongDigest.__doc__)
        return seen

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
        raise CannotPropose("This step is not wanted any more. Say `status` in the thread to see where the fix stands.")

    async def _replace_action(self, record: ActionRecord, step: RemediationStep, by: str, says: str) -> ActionRecord:
        """Propose a replacement; `by` counts as its requester."""
        asked = ",".join(sorted(list_requesters(record.action) | {by}))
        remediation = Remediation(
            id="edit", label=record.action.proves, target=record.action.target, rungs=(step,), fault=record.action.fault
        )
        remediation = remediation.model_copy(update={"approval": new_approval_id()})
        found = await self._propose_step(record.action.incident, remediation, requested_by=asked)
        try:
            says = f"{says}: {found.approval}"
            await self._ledger.end_action(record.approval, Transition.SUPERSEDE, by, says, replaced_by=found.approval)
        except NotOpen:
            await self._ledger.end_action(found.approval, Transition.SUPERSEDE, "rackmedic", "the action that was edited had begun already")
            raise
        await self._wake(record.approval)
        return found

    async def _require_fault_gone(self, incident: str, remediation: Remediation) -> None:
        try:
            await self._tender.require_fault_gone(incident, remediation)
        except ProposalDeferred as why:
            raise CannotPropose(f"{CANNOT_PROPOSE_TEXT}: {why}.") from why

    async def _propose_step(self, incident: str, remediation: Remediation, *, requested_by: str = "") -> ActionRecord:
        try:
            return await self._ledger.get_record(remediation.approval)
        except NotFound:
            pass
        try:
            found = await self._tender.create_proposal(incident, remediation, requested_by=requested_by, ahead=True)
        except ProposalDeferred as why:
            raise CannotPropose(f"{CANNOT_PROPOSE_TEXT}: {why}.") from why
        await self._wake(found.approval)
        return found


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
        raise HostRecordContradiction("The host's own record says that it ran. Say that it ran, or mend the host's record first.")
    if answer.word in ("never", "refused") and ran:
        raise HostRecordContradiction("The host's own record says that it never ran. Say that it did not run.")
