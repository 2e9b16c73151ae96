"""What people may do with actions, and the loop that looks after all of them. The Slack side's `Decisions` (see `bot.actions.decisions`).

Every entry checks who it is anew, changes nothing but the ledger, and wakes whoever goes on. Refusals say what to do instead.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import timedelta

import structlog
from redis.exceptions import RedisError

from bot.actions.decisions import Verdict
from bot.actions.driver import Driver, StateOf
from bot.actions.due import ActionIndex
from bot.actions.edits import edited
from bot.actions.ladders import Tender
from bot.actions.proposer import Withheld
from bot.desk.wakeups import Wakeups
from bot.policy.approvals import Rights
from bot.refusal import Refusal
from bot.tasks import end
from graph.actions.carry_out import ActionPorts
from graph.ladders.build import approval_of, read_ladders
from graph.state import Ladder
from tools.acting.kit import KitAnswer
from tools.acting.run import settle
from tools.action import new_approval_id
from tools.ledger.ledger import Ledger
from tools.ledger.record import Counted, NotAnApprover, NotFound, NotOpen, Record, Refused, WrongDigest, requesters_of
from tools.ledger.states import State, Transition

log = structlog.get_logger()
SWEEP_SECONDS = 5.0
PATIENCE = timedelta(seconds=60)


class CannotAsk(Refusal):
    """It cannot be proposed (again); the text says why."""


class Contradiction(Refusal):
    """The host's own record says otherwise; nothing was changed."""


class Actions:
    """One for each process. `advance` is what wake-ups call, with an approval id or an incident id."""

    def __init__(
        self,
        ledger: Ledger,
        driver: Driver,
        tender: Tender,
        index: ActionIndex,
        rights: Rights,
        ports: ActionPorts,
        state_of: StateOf,
        *,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._ledger, self._driver, self._tender, self._index = ledger, driver, tender, index
        self._rights, self._ports, self._state_of, self._pause = rights, ports, state_of, pause
        self._wakeups: Wakeups | None = None
        self._running: set[asyncio.Task[None]] = set()

    # -- working ----------------------------------------------------------------------------------------------------

    def use(self, wakeups: Wakeups) -> None:
        """How others are woken; they call `advance`."""
        self._wakeups = wakeups

    async def wake(self, name: str) -> None:
        """Soon, somewhere, `advance(name)`."""
        if self._wakeups is not None:
            await self._wakeups.wake(name)

    async def advance(self, name: str) -> None:
        """Drive an action or tend an incident. Nothing new is begun while stopping."""
        if self._driver.stopping.is_set():
            return
        task = asyncio.create_task(self.drive(name) if name.startswith("apr-") else self.propose_due(name))
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        await task

    async def drive(self, approval: str) -> None:
        """Bring one action as far as it goes now."""
        await self._driver.drive(approval)

    async def propose_due(self, incident: str) -> None:
        """Propose what the incident's ladders wait to have decided, and look after what else they wait for."""
        await self._tender.tend(incident)

    async def note(self, incident: str) -> None:
        """A turn ended: its ladders may want something."""
        await self._index.look_at(incident)
        await self.wake(incident)

    async def sweep(self) -> int:
        """Wake everything that is due, here and in the ledger; how many."""
        names = dict.fromkeys([*await self._index.due(PATIENCE), *await self._ledger.due()])
        for name in names:
            await self.wake(name)
        return len(names)

    async def run(self) -> None:
        """Sweep until cancelled. The first look is at once: a restart finds what the last process left."""
        while True:
            try:
                await self.sweep()
            except (RedisError, Refused) as why:
                log.warning("actions.store_away", error=str(why))
            except Exception:
                log.exception("actions.sweep_failed")  # whatever it was, the next look is the net under every lost wake-up
            await self._pause(SWEEP_SECONDS)

    async def drain(self, grace: float = 20.0) -> None:
        """Begin nothing more; what runs stops at its next stored step. Whoever comes next finds out what became of it."""
        self._driver.stopping.set()
        if self._running:
            _, late = await asyncio.wait(set(self._running), timeout=grace)
            await end(*late)

    # -- deciding ---------------------------------------------------------------------------------------------------

    async def vote(self, approval: str, digest: str, voter: str, verdict: Verdict, *, delivery: str, reason: str = "") -> Record:
        """Count one person's word; when it was the last that was needed, start."""
        seen = await self._current(approval, digest)
        await self._rights.admit(voter)
        if voter not in await self._rights.approvers(seen.action.incident, fresh=True):
            raise NotAnApprover(NotAnApprover.__doc__)
        await self._index.look_at(approval)
        after = await self._ledger.vote(approval, digest, voter, verdict, delivery, reason)
        await self.wake(approval)
        return after

    async def approve_each(self, each: Sequence[tuple[str, str]], voter: str, *, delivery: str) -> list[Counted]:
        """A vote for each of several actions of one incident. Slack is asked once who clicked; the ledger is asked for each."""
        await self._rights.admit(voter)
        incident = (await self._ledger.record(each[0][0])).action.incident
        if voter not in await self._rights.approvers(incident, fresh=True):
            raise NotAnApprover(NotAnApprover.__doc__)
        return [await self._counted(approval, digest, voter, f"{delivery}.{approval}", incident) for approval, digest in each]

    async def _counted(self, approval: str, digest: str, voter: str, delivery: str, incident: str) -> Counted:
        """One of them. What the ledger refuses keeps the others from nothing."""
        seen: Record | None = None
        try:
            seen = await self._current(approval, digest)
            if seen.action.incident != incident:
                raise WrongDigest(WrongDigest.__doc__)
            await self._index.look_at(approval)
            seen = await self._ledger.vote(approval, digest, voter, "approve", delivery)
        except NotOpen as no:
            return Counted(approval, await self._ledger.record(approval), no)
        except Refused as no:
            return Counted(approval, seen, no)
        await self.wake(approval)
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
        await self._driver.deliver.send(
            seen.action.incident, f"again:{approval}", {"event": "again", "approval": approval, "ladder": ladder.id}
        )
        return found

    async def edit(self, approval: str, digest: str, editor: str, args: Mapping[str, str]) -> Record:
        """The same remedy with other arguments as a new action, which the editor may not approve; the old one is superseded."""
        seen = await self._current(approval, digest)
        await self._rights.admit(editor)
        if seen.state is not State.PENDING:
            raise NotOpen(f"{NotOpen.__doc__} It is {seen.state}.")
        facts = await self._ports.facts_of(seen.action.incident)
        rung = edited(seen.action, args, facts)
        asked = ",".join(sorted(requesters_of(seen.action) | {editor}))
        ladder = Ladder(id="edit", label=seen.action.proves, target=seen.action.target, rungs=(rung,), approval=new_approval_id())
        found = await self._proposed(seen.action.incident, ladder, requested_by=asked)
        try:
            says = f"edited by {editor}: {found.approval}"
            await self._ledger.end(approval, Transition.SUPERSEDE, editor, says, replaced_by=found.approval)
        except NotOpen:
            await self._ledger.end(found.approval, Transition.SUPERSEDE, "rackmedic", "the action that was edited had begun already")
            raise
        await self.wake(approval)
        return found

    async def revoke(self, approval: str, digest: str, by: str, why: str) -> Record:
        """Take back what has not begun."""
        await self._current(approval, digest)
        await self._rights.admit(by)
        await self._index.look_at(approval)
        after = await self._ledger.end(approval, Transition.REVOKE, by, why)
        await self.wake(approval)
        return after

    async def reconcile(self, approval: str, digest: str, human: str, ran: bool, note: str) -> Record:
        """A human looked at the host and says what became of an action in doubt. Where the host can answer by now, it must agree."""
        seen = await self._current(approval, digest)
        await self._rights.admit(human)
        if human not in await self._rights.approvers(seen.action.incident, fresh=True):
            raise NotAnApprover(NotAnApprover.__doc__)
        if seen.state is not State.UNKNOWN:
            raise NotOpen(f"{NotOpen.__doc__} It is {seen.state}.")
        said = await settle(seen.action, self._ports.transport)
        _agrees(said, ran)
        await self._index.look_at(approval)
        after = await self._ledger.reconcile(approval, human, ran, f"{note} (the host says: {said.word} {said.says})".strip())
        await self.wake(approval)
        return after

    # -- inside -----------------------------------------------------------------------------------------------------

    async def _current(self, approval: str, digest: str) -> Record:
        seen = await self._ledger.record(approval)
        if seen.digest != digest:
            raise WrongDigest(WrongDigest.__doc__)
        return seen

    async def _ladder(self, seen: Record) -> Ladder:
        """The ladder that this action is, or was, a rung of."""
        state = await self._state_of(seen.action.incident)
        if state.get("lifecycle") == "closed":
            raise CannotAsk("The incident is closed. Mention me again if the fault is back.")
        for row in read_ladders(state.get("ladders", [])):
            same = (row.label, row.target) == (seen.action.proves, seen.action.target)
            if row.approval == seen.approval or (same and row.now is not None and row.now.remedy == seen.action.remedy):
                return row
        raise CannotAsk("This step is not wanted any more. Say `status` in the thread to see where the fix stands.")

    async def _proposed(self, incident: str, ladder: Ladder, *, requested_by: str = "") -> Record:
        try:
            return await self._ledger.record(ladder.approval)
        except NotFound:
            pass
        try:
            found = await self._tender.put_up(incident, ladder, requested_by=requested_by)
        except Withheld as why:
            raise CannotAsk(f"It cannot be proposed now: {why}.") from why
        await self.wake(found.approval)
        return found


def _agrees(said: KitAnswer, ran: bool) -> None:
    if said.word == "running":
        raise Contradiction("The host says that it still runs. Wait until it has ended.")
    if said.word in ("done", "lost") and not ran:
        raise Contradiction("The host's own record says that it ran. Say that it ran, or mend the host's record first.")
    if said.word in ("never", "refused") and ran:
        raise Contradiction("The host's own record says that it never ran. Say that it did not run.")
