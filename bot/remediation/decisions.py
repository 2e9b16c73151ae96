"""What people may decide about actions, and the refusals that they hear. The ledger is the book; the Slack side only carries clicks here.

Everything raises a `Refused` of the ledger or a Refusal (its text is what the clicker is told) and then has changed nothing. Every entry
checks who it is anew, changes nothing but the ledger, and wakes whoever goes on. People are `TEAM:USER`, taken from Slack's own payload.
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
    """One entry for each thing that a card's buttons and forms can ask for."""

    def __init__(
        self,
        ledger: Ledger,
        tender: RemediationReconciler,
        index: ActionIndex,
        rights: ApprovalRights,
        deliver: EventDelivery,
        transport: Transport,
        facts_of: FactsLoader,
        state_of: IncidentStateLoader,
        wake: Callable[[str], Awaitable[None]],
    ) -> None:
        self._ledger, self._tender, self._index, self._rights = ledger, tender, index, rights
        self._deliver, self._transport, self._facts_of, self._state_of, self._wake = deliver, transport, facts_of, state_of, wake

    async def cast_vote(
        self, approval: str, digest: str, voter: str, verdict: VoteVerdict, *, delivery: str, reason: str = ""
    ) -> ActionRecord:
        """Count one person's word; when it was the last that was needed, start."""
        seen = await self._get_current_record(approval, digest)
        await self._rights.require_full_member(voter)
        if voter not in await self._rights.list_record_approvers(seen):
            raise NotAnApprover(NotAnApprover.__doc__)
        await self._index.schedule_check(approval)
        after = await self._ledger.vote(approval, digest, voter, verdict, delivery, reason)
        await self._wake(approval)
        return after

    async def approve_actions(self, each: Sequence[tuple[str, str]], voter: str, *, delivery: str) -> list[VoteResult]:
        """A vote for each of several actions of one incident. Slack is asked once who clicked; the ledger is asked for each."""
        await self._rights.require_full_member(voter)
        first = await self._ledger.get_record(each[0][0])
        incident = first.action.incident
        if voter not in await self._rights.list_record_approvers(first):
            raise NotAnApprover(NotAnApprover.__doc__)
        return [await self._count_vote(approval, digest, voter, f"{delivery}.{approval}", incident) for approval, digest in each]

    async def _count_vote(self, approval: str, digest: str, voter: str, delivery: str, incident: str) -> VoteResult:
        """One of them. What the ledger refuses keeps the others from nothing."""
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
        """RackMedic proposes the rung of an action that was not decided once more; asking twice gives the same one."""
        seen = await self._get_current_record(approval, digest)
        await self._rights.require_full_member(asker)
        if seen.state not in (State.EXPIRED, State.SUPERSEDED, State.DENIED, State.REVOKED):
            raise NotOpen(f"{NotOpen.__doc__} It is {seen.state}.")
        ladder = await self._find_remediation(seen)
        if ladder.approval != approval:
            return await self._propose_step(seen.action.incident, ladder)
        again = ladder.model_copy(update={"attempt": ladder.attempt + 1})
        again = again.model_copy(update={"approval": build_approval_id(seen.action.incident, again)})
        found = await self._propose_step(seen.action.incident, again)
        await self._deliver.send_event(
            seen.action.incident, f"again:{approval}", {"event": "again", "approval": approval, "ladder": ladder.id}
        )
        return found

    async def propose_return(self, incident: str, ladder: str, asker: str) -> ActionRecord:
        """RackMedic proposes to return a node that it holds, of whatever became of its incident; asking twice gives the same one. CannotAsk
        says why it is not returned."""
        await self._rights.require_full_member(asker)
        ladders = IncidentView(await self._state_of(incident)).remediations
        held = next((row for row in ladders if row.id == ladder), None)
        if held is None:
            raise CannotPropose("That node is not held by this incident.")
        if why := get_return_blocker(held, ladders):
            raise CannotPropose(f"{held.target} is not returned: {why}.")
        if back := await self._tender.find_returned_node(incident, held):
            raise CannotPropose(f"{back}: I hold it no more.")
        again = propose_return(incident, held)
        for row in list_unresolved_on_host(held, ladders):
            await self._require_fault_gone(incident, row)
        found = await self._propose_step(incident, again)
        await self._deliver.send_event(incident, f"return:{again.approval}", {"event": RETURN_EVENT, "ladder": ladder})
        return found

    async def release_next_wave(self, approval: str, digest: str, human: str) -> ActionRecord:
        """The next wave of the same cause may be put up though a host of an earlier one did not pass: an approver has looked."""
        seen = await self._get_current_record(approval, digest)
        incident = seen.action.incident
        await self._rights.require_full_member(human)
        if human not in await self._rights.list_record_approvers(seen):
            raise NotAnApprover(NotAnApprover.__doc__)
        ladders = IncidentView(await self._state_of(incident)).remediations
        await self._tender.wave_scheduler.release_next_wave(incident, seen.action.proves, ladders, human)
        await self._index.schedule_check(incident)
        await self._wake(incident)
        return seen

    async def edit_action(self, approval: str, digest: str, editor: str, args: Mapping[str, str]) -> ActionRecord:
        """The same remedy with other arguments as a new action, which the editor may not approve; the old one is superseded."""
        seen = await self._get_current_record(approval, digest)
        await self._rights.require_full_member(editor)
        if seen.state is not State.PENDING:
            raise NotOpen(f"{NotOpen.__doc__} It is {seen.state}.")
        facts = await self._facts_of(seen.action.incident)
        return await self._replace_action(seen, build_edited_step(seen.action, args, facts), editor, f"edited by {editor}")

    async def revoke_action(self, approval: str, digest: str, by: str, why: str) -> ActionRecord:
        """Take back what has not begun."""
        await self._get_current_record(approval, digest)
        await self._rights.require_full_member(by)
        await self._index.schedule_check(approval)
        after = await self._ledger.end_action(approval, Transition.REVOKE, by, why)
        await self._wake(approval)
        return after

    async def resolve_unknown_outcome(self, approval: str, digest: str, human: str, ran: bool, note: str) -> ActionRecord:
        """A human looked at the host and says what became of an action in doubt. Where the host can answer by now, it must agree."""
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
        """How much the brakes leave now."""
        return await compute_headroom(self._ledger, self._tender.proposer.inventory.groups, incidents)

    # -- inside -----------------------------------------------------------------------------------------------------

    async def _get_current_record(self, approval: str, digest: str) -> ActionRecord:
        seen = await self._ledger.get_record(approval)
        if seen.digest != digest:
            raise WrongDigest(WrongDigest.__doc__)
        return seen

    async def _find_remediation(self, seen: ActionRecord) -> Remediation:
        """The ladder that this action is, or was, a rung of."""
        rows = IncidentView(await self._state_of(seen.action.incident))
        if rows.lifecycle == "closed" and not any(row.approval == seen.approval and row.drained for row in rows.remediations):
            raise CannotPropose("The incident is closed. Mention me again if the fault is back.")
        for row in rows.remediations:
            same = (row.label, row.target) == (seen.action.proves, seen.action.target)
            if row.approval == seen.approval or (same and row.current_step is not None and row.current_step.remedy == seen.action.remedy):
                return row
        raise CannotPropose("This step is not wanted any more. Say `status` in the thread to see where the fix stands.")

    async def _replace_action(self, seen: ActionRecord, rung: RemediationStep, by: str, says: str) -> ActionRecord:
        """A new action in the place of one that waits; `by` is one of those who asked for it."""
        asked = ",".join(sorted(list_requesters(seen.action) | {by}))
        ladder = Remediation(id="edit", label=seen.action.proves, target=seen.action.target, rungs=(rung,), fault=seen.action.fault)
        ladder = ladder.model_copy(update={"approval": new_approval_id()})
        found = await self._propose_step(seen.action.incident, ladder, requested_by=asked)
        try:
            says = f"{says}: {found.approval}"
            await self._ledger.end_action(seen.approval, Transition.SUPERSEDE, by, says, replaced_by=found.approval)
        except NotOpen:
            await self._ledger.end_action(found.approval, Transition.SUPERSEDE, "rackmedic", "the action that was edited had begun already")
            raise
        await self._wake(seen.approval)
        return found

    async def _require_fault_gone(self, incident: str, ladder: Remediation) -> None:
        """CannotAsk where a fresh look does not show a fault to be gone."""
        try:
            await self._tender.require_fault_gone(incident, ladder)
        except ProposalDeferred as why:
            raise CannotPropose(f"{CANNOT_PROPOSE_TEXT}: {why}.") from why

    async def _propose_step(self, incident: str, ladder: Remediation, *, requested_by: str = "") -> ActionRecord:
        try:
            return await self._ledger.get_record(ladder.approval)
        except NotFound:
            pass
        try:
            found = await self._tender.create_proposal(incident, ladder, requested_by=requested_by, ahead=True)
        except ProposalDeferred as why:
            raise CannotPropose(f"{CANNOT_PROPOSE_TEXT}: {why}.") from why
        await self._wake(found.approval)
        return found


@dataclass(frozen=True, slots=True)
class ApprovalServices:
    """Handed to the Slack side by the composition root where remedies may be approved at all."""

    decisions: ApprovalDecisions
    book: LedgerReader
    cards: ActionCardPublisher
    always: frozenset[str] = frozenset()
    """User ids from the settings that are approvers everywhere."""


def _require_host_agreement(said: KitAnswer, ran: bool) -> None:
    if said.word == "running":
        raise HostRecordContradiction("The host says that it still runs. Wait until it has ended.")
    if said.word in ("done", "lost") and not ran:
        raise HostRecordContradiction("The host's own record says that it ran. Say that it ran, or mend the host's record first.")
    if said.word in ("never", "refused") and ran:
        raise HostRecordContradiction("The host's own record says that it never ran. Say that it did not run.")
