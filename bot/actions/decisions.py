"""What people may decide about actions, and the refusals that they hear. The ledger is the book; the Slack side only carries clicks here.

Everything raises a `Refused` of the ledger or a Refusal (its text is what the clicker is told) and then has changed nothing. Every entry
checks who it is anew, changes nothing but the ledger, and wakes whoever goes on. People are `TEAM:USER`, taken from Slack's own payload.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from bot.actions.driver import Delivery, Show, StateOf
from bot.actions.due import ActionIndex
from bot.actions.edits import edited
from bot.actions.ladders import Tender
from bot.actions.proposer import FactsOf, Withheld
from bot.policy.approvals import Rights
from bot.refusal import Refusal
from graph.ladders.build import approval_of
from graph.ladders.held import beside, no_return, returning
from graph.ladders.moves import RETURN
from graph.rows import IncidentRows
from graph.state import Ladder, Rung
from tools.acting.kit import KitAnswer
from tools.acting.run import settle
from tools.action import new_approval_id
from tools.ledger.book import Book
from tools.ledger.ledger import Ledger
from tools.ledger.record import Counted, NotAnApprover, NotFound, NotOpen, Record, Refused, WrongDigest, requesters_of
from tools.ledger.room import Room, room_of
from tools.ledger.states import State, Transition
from tools.transport import Transport

Verdict = Literal["approve", "deny"]


NOT_NOW = "It cannot be proposed now"


class CannotAsk(Refusal):
    """It cannot be proposed (again); the text says why."""


class Contradiction(Refusal):
    """The host's own record says otherwise; nothing was changed."""


class Decisions:
    """One entry for each thing that a card's buttons and forms can ask for."""

    def __init__(
        self,
        ledger: Ledger,
        tender: Tender,
        index: ActionIndex,
        rights: Rights,
        deliver: Delivery,
        transport: Transport,
        facts_of: FactsOf,
        state_of: StateOf,
        wake: Callable[[str], Awaitable[None]],
    ) -> None:
        self._ledger, self._tender, self._index, self._rights = ledger, tender, index, rights
        self._deliver, self._transport, self._facts_of, self._state_of, self._wake = deliver, transport, facts_of, state_of, wake

    async def vote(self, approval: str, digest: str, voter: str, verdict: Verdict, *, delivery: str, reason: str = "") -> Record:
        """Count one person's word; when it was the last that was needed, start."""
        seen = await self._current(approval, digest)
        await self._rights.admit(voter)
        if voter not in await self._rights.of(seen):
            raise NotAnApprover(NotAnApprover.__doc__)
        await self._index.look_at(approval)
        after = await self._ledger.vote(approval, digest, voter, verdict, delivery, reason)
        await self._wake(approval)
        return after

    async def approve_each(self, each: Sequence[tuple[str, str]], voter: str, *, delivery: str) -> list[Counted]:
        """A vote for each of several actions of one incident. Slack is asked once who clicked; the ledger is asked for each."""
        await self._rights.admit(voter)
        first = await self._ledger.record(each[0][0])
        incident = first.action.incident
        if voter not in await self._rights.of(first):
            raise NotAnApprover(NotAnApprover.__doc__)
        return [await self._counted(approval, digest, voter, f"{delivery}.{approval}", incident) for approval, digest in each]

    async def _counted(self, approval: str, digest: str, voter: str, delivery: str, incident: str) -> Counted:
        """One of them. What the ledger refuses keeps the others from nothing."""
        seen: Record | None = None
        try:
            seen = await self._current(approval, digest)
            if seen.action.incident != incident:
                raise WrongDigest(WrongDigest.__doc__)
            if seen.terms.sets and voter not in await self._rights.of(seen):
                raise NotAnApprover(NotAnApprover.__doc__)
            await self._index.look_at(approval)
            seen = await self._ledger.vote(approval, digest, voter, "approve", delivery)
        except NotOpen as no:
            return Counted(approval, await self._ledger.record(approval), no)
        except Refused as no:
            return Counted(approval, seen, no)
        await self._wake(approval)
        return Counted(approval, seen)

    async def ask_again(self, approval: str, digest: str, asker: str) -> Record:
        """RackMedic proposes the rung of an action that was not decided once more; asking twice gives the same one."""
        seen = await self._current(approval, digest)
        await self._rights.admit(asker)
        if seen.state not in (State.EXPIRED, State.SUPERSEDED, State.DENIED, State.REVOKED):
            raise NotOpen(f"{NotOpen.__doc__} It is {seen.state}.")
        ladder = await self._ladder(seen)
        if ladder.approval != approval:
            return await self._proposed(seen.action.incident, ladder)
        again = ladder.model_copy(update={"attempt": ladder.attempt + 1})
        again = again.model_copy(update={"approval": approval_of(seen.action.incident, again)})
        found = await self._proposed(seen.action.incident, again)
        await self._deliver.send(seen.action.incident, f"again:{approval}", {"event": "again", "approval": approval, "ladder": ladder.id})
        return found

    async def ask_return(self, incident: str, ladder: str, asker: str) -> Record:
        """RackMedic proposes to return a node that it holds, of whatever became of its incident; asking twice gives the same one. CannotAsk
        says why it is not returned."""
        await self._rights.admit(asker)
        ladders = IncidentRows(await self._state_of(incident)).ladders
        held = next((row for row in ladders if row.id == ladder), None)
        if held is None:
            raise CannotAsk("That node is not held by this incident.")
        if why := no_return(held, ladders):
            raise CannotAsk(f"{held.target} is not returned: {why}.")
        if back := await self._tender.in_service(incident, held):
            raise CannotAsk(f"{back}: I hold it no more.")
        again = returning(incident, held)
        for row in beside(held, ladders):
            await self._gone(incident, row)
        found = await self._proposed(incident, again)
        await self._deliver.send(incident, f"return:{again.approval}", {"event": RETURN, "ladder": ladder})
        return found

    async def let_go(self, approval: str, digest: str, human: str) -> Record:
        """The next wave of the same cause may be put up though a host of an earlier one did not pass: an approver has looked."""
        seen = await self._current(approval, digest)
        incident = seen.action.incident
        await self._rights.admit(human)
        if human not in await self._rights.of(seen):
            raise NotAnApprover(NotAnApprover.__doc__)
        ladders = IncidentRows(await self._state_of(incident)).ladders
        await self._tender.queues.let_go(incident, seen.action.proves, ladders, human)
        await self._index.look_at(incident)
        await self._wake(incident)
        return seen

    async def edit(self, approval: str, digest: str, editor: str, args: Mapping[str, str]) -> Record:
        """The same remedy with other arguments as a new action, which the editor may not approve; the old one is superseded."""
        seen = await self._current(approval, digest)
        await self._rights.admit(editor)
        if seen.state is not State.PENDING:
            raise NotOpen(f"{NotOpen.__doc__} It is {seen.state}.")
        facts = await self._facts_of(seen.action.incident)
        return await self._replaced(seen, edited(seen.action, args, facts), editor, f"edited by {editor}")

    async def revoke(self, approval: str, digest: str, by: str, why: str) -> Record:
        """Take back what has not begun."""
        await self._current(approval, digest)
        await self._rights.admit(by)
        await self._index.look_at(approval)
        after = await self._ledger.end(approval, Transition.REVOKE, by, why)
        await self._wake(approval)
        return after

    async def reconcile(self, approval: str, digest: str, human: str, ran: bool, note: str) -> Record:
        """A human looked at the host and says what became of an action in doubt. Where the host can answer by now, it must agree."""
        seen = await self._current(approval, digest)
        await self._rights.admit(human)
        if human not in await self._rights.of(seen):
            raise NotAnApprover(NotAnApprover.__doc__)
        if seen.state is not State.UNKNOWN:
            raise NotOpen(f"{NotOpen.__doc__} It is {seen.state}.")
        said = await settle(seen.action, self._transport)
        _agrees(said, ran)
        await self._index.look_at(approval)
        after = await self._ledger.reconcile(approval, human, ran, f"{note} (the host says: {said.word} {said.says})".strip())
        await self._wake(approval)
        return after

    async def room(self, incidents: Sequence[str]) -> Room:
        """How much the brakes leave now."""
        return await room_of(self._ledger, self._tender.proposer.inventory.groups, incidents)

    # -- inside -----------------------------------------------------------------------------------------------------

    async def _current(self, approval: str, digest: str) -> Record:
        seen = await self._ledger.record(approval)
        if seen.digest != digest:
            raise WrongDigest(WrongDigest.__doc__)
        return seen

    async def _ladder(self, seen: Record) -> Ladder:
        """The ladder that this action is, or was, a rung of."""
        rows = IncidentRows(await self._state_of(seen.action.incident))
        if rows.lifecycle == "closed" and not any(row.approval == seen.approval and row.drained for row in rows.ladders):
            raise CannotAsk("The incident is closed. Mention me again if the fault is back.")
        for row in rows.ladders:
            same = (row.label, row.target) == (seen.action.proves, seen.action.target)
            if row.approval == seen.approval or (same and row.now is not None and row.now.remedy == seen.action.remedy):
                return row
        raise CannotAsk("This step is not wanted any more. Say `status` in the thread to see where the fix stands.")

    async def _replaced(self, seen: Record, rung: Rung, by: str, says: str) -> Record:
        """A new action in the place of one that waits; `by` is one of those who asked for it."""
        asked = ",".join(sorted(requesters_of(seen.action) | {by}))
        ladder = Ladder(id="edit", label=seen.action.proves, target=seen.action.target, rungs=(rung,), fault=seen.action.fault)
        ladder = ladder.model_copy(update={"approval": new_approval_id()})
        found = await self._proposed(seen.action.incident, ladder, requested_by=asked)
        try:
            says = f"{says}: {found.approval}"
            await self._ledger.end(seen.approval, Transition.SUPERSEDE, by, says, replaced_by=found.approval)
        except NotOpen:
            await self._ledger.end(found.approval, Transition.SUPERSEDE, "rackmedic", "the action that was edited had begun already")
            raise
        await self._wake(seen.approval)
        return found

    async def _gone(self, incident: str, ladder: Ladder) -> None:
        """CannotAsk where a fresh look does not show a fault to be gone."""
        try:
            await self._tender.must_be_gone(incident, ladder)
        except Withheld as why:
            raise CannotAsk(f"{NOT_NOW}: {why}.") from why

    async def _proposed(self, incident: str, ladder: Ladder, *, requested_by: str = "") -> Record:
        try:
            return await self._ledger.record(ladder.approval)
        except NotFound:
            pass
        try:
            found = await self._tender.put_up(incident, ladder, requested_by=requested_by, ahead=True)
        except Withheld as why:
            raise CannotAsk(f"{NOT_NOW}: {why}.") from why
        await self._wake(found.approval)
        return found


@dataclass(frozen=True, slots=True)
class Approvals:
    """Handed to the Slack side by the composition root where remedies may be approved at all."""

    decisions: Decisions
    book: Book
    cards: Show
    always: frozenset[str] = frozenset()
    """User ids from the settings that are approvers everywhere."""


def _agrees(said: KitAnswer, ran: bool) -> None:
    if said.word == "running":
        raise Contradiction("The host says that it still runs. Wait until it has ended.")
    if said.word in ("done", "lost") and not ran:
        raise Contradiction("The host's own record says that it ran. Say that it ran, or mend the host's record first.")
    if said.word in ("never", "refused") and ran:
        raise Contradiction("The host's own record says that it never ran. Say that it did not run.")
