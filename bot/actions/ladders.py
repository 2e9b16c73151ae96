"""Tending an incident's ladders between turns: proposing what waits for a decision, looking whether a wait is over, proving again.

The stored ladders say what is wanted; this makes ledger and world agree with it and sends what it finds to the inbox. It moves no ladder
itself, and doing it twice does nothing more.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

import structlog

from bot.actions.driver import Delivery, StateOf
from bot.actions.due import ActionIndex
from bot.actions.holds import HeldNodes, rests, runs_jobs
from bot.actions.proposer import OURS, Proposer, Withheld
from bot.actions.queue import Queues
from bot.desk.lease import Leases
from bot.refusal import Refusal
from graph.actions.carry_out import claimed_at, ran
from graph.actions.looks import Looks
from graph.incident.fixes import QUIET
from graph.incident.lifecycle import all_cured
from graph.ladders.build import EMPTIES
from graph.ladders.fault import guard_of
from graph.ladders.held import on_the_way_back
from graph.memory.fence import LostLease
from graph.rows import IncidentRows
from graph.state import Incident, Ladder
from tools.acting.identity import boot_id
from tools.acting.scheduled import drained, drained_for
from tools.clock import Clock
from tools.evidence import EvidenceStore
from tools.ledger.ledger import Ledger
from tools.ledger.record import NotFound, NotOpen, Record, Refused, Twin, WrongDigest
from tools.ledger.states import OPEN, TERMINAL, Transition
from tools.transport import Unreachable

log = structlog.get_logger()
PATIENCE = timedelta(seconds=60)
LATER = "later"
"""Withheld, and nobody needs to hear of it: it is tried again."""
EVERY: Mapping[str, timedelta] = {
    "approval": timedelta(minutes=1),
    "idle": timedelta(seconds=30),
    "node_back": timedelta(seconds=30),
    "proof": timedelta(minutes=10),
    "none": timedelta(minutes=10),
}
"""How often a wait is looked at."""


@dataclass(frozen=True, slots=True)
class Tender:
    """`tend` may be called by anybody at any time."""

    ledger: Ledger
    looks: Looks
    leases: Leases
    index: ActionIndex
    deliver: Delivery
    proposer: Proposer
    evidence: EvidenceStore
    state_of: StateOf
    wake: Callable[[str], Awaitable[None]]
    clock: Clock

    @property
    def queues(self) -> Queues:
        """Whose turn it is."""
        return Queues(self.ledger, self.index, self.proposer.inventory, self.clock)

    async def tend(self, incident: str) -> None:
        """Look after everything that this incident's fixes wait for."""
        lease = await self.leases.take(incident)
        if lease is None:
            await self.index.look_at(incident)
            return
        with structlog.contextvars.bound_contextvars(incident=incident):
            try:
                await lease.guard(self._tend(incident))
            except LostLease as why:
                log.info("ladders.left", why=str(why))
            finally:
                if lease.held:
                    await lease.release()

    async def _tend(self, incident: str) -> None:
        mark = await self.index.begin(incident, PATIENCE)
        state = await self.state_of(incident)
        ladders = IncidentRows(state).ladders
        records = {row.approval: row for row in await self.ledger.of_incident(incident)}
        await self._withdraw(state, ladders, records.values())
        late = await self.queues.late(incident, ladders, records.values())
        going = [row for row in wanted_of(state, ladders) if row.id not in late]
        paused = IncidentRows(state).paused(self.clock.now())
        stirred = [await self._carefully(incident, ladder, records, paused=paused) for ladder in going]
        told = await self.queues.note(incident, ladders)
        for approval in dict.fromkeys(
            filter(None, (*stirred, *told))
        ):  # only now, so that the first to be shown finds the others beside it
            await self.wake(approval)
        await self._held.look(incident, state, ladders, records.values())
        await self._quiet(incident, state, ladders)
        await self.index.settle(incident, mark, next_look(state, ladders, self.clock.now()))

    async def _withdraw(self, state: Incident, ladders: Sequence[Ladder], records: Any) -> None:
        """What no ladder waits for is taken back."""
        wanted = {row.approval for row in wanted_of(state, ladders)}
        for seen in records:
            wanted |= {seen.replaced_by} if seen.approval in wanted else set()
            if seen.state in OPEN and seen.approval not in wanted and seen.terms.turn <= state.get("turns", 0):
                await self.index.look_at(seen.approval)  # before, for who dies in between: its card keeps no live button
                try:
                    await self.ledger.end(
                        seen.approval, Transition.SUPERSEDE, "rackmedic", "no longer wanted: the incident went on without it"
                    )
                except NotOpen:
                    continue
                await self.wake(seen.approval)

    async def _carefully(self, incident: str, ladder: Ladder, records: Mapping[str, Record], *, paused: bool) -> str:
        """One ladder's trouble must not keep the others from being looked at. The approval that somebody must drive now, if there is one."""
        try:
            return await self._look(incident, ladder, records, paused=paused)
        except (Refusal, Refused, Unreachable) as why:
            log.warning("ladder.not_tended", ladder=ladder.id, error=f"{type(why).__name__}: {why}"[:300])
            return ""

    async def _look(self, incident: str, ladder: Ladder, records: Mapping[str, Record], *, paused: bool) -> str:
        """`paused`: people asked for quiet, so nobody is reminded of a wait, nor asked again by us for what they let pass. What is over and
        still waited for was ended by somebody who told nobody (a change of the ledger's key, a clock set back): its driver tells of it."""
        match ladder.waiting_for:
            case "approval":
                waits = paused and ladder.attempt > 1 and not ladder.asked_by
                if own := records.get(ladder.approval):
                    return own.approval if own.state in TERMINAL else ""
                return "" if waits else await self._ask(incident, ladder)
            case "idle":
                await self._idle(incident, ladder, paused=paused)
            case "node_back":
                await self._back(incident, ladder, records, paused=paused)
            case "proof":
                await self._reprove(incident, ladder, records)
        return ""

    async def _ask(self, incident: str, ladder: Ladder) -> str:
        """Put it up, unless the fault has gone by itself since it was found: nobody is called for what is not there."""
        if gone := await self._gone(incident, ladder):
            await self._hear(incident, ladder, "needless", says=gone)
            return ""
        return await self.propose(incident, ladder)

    async def _gone(self, incident: str, ladder: Ladder) -> str:
        """What a look at the host says where it shows the fault no more. The turn that built the ladder has just looked."""
        guard = guard_of(ladder)
        if guard is None or (ladder.rung == 0 and ladder.attempt == 1):
            return ""
        found = await self.looks.fault_now(guard, incident, self.clock.now())
        return found.says if found.answer == "gone" else ""

    async def propose(self, incident: str, ladder: Ladder) -> str:
        """Put the present rung up for decision, its approval id; where it is withheld the ladder hears why."""
        try:
            return (await self.put_up(incident, ladder)).approval
        except Twin as other:
            await self._hear(incident, ladder, "joined", says="the same is decided in another incident", replaced_by=other.approval)
            return ""
        except Withheld as why:
            log.info("action.withheld", ladder=ladder.id, hears=why.event, why=str(why))
            if why.event != LATER:
                says = await self._who_holds(ladder, str(why)) if why.event == "held" else str(why)
                await self._hear(incident, ladder, why.event, says=says)
            return ""

    async def _who_holds(self, ladder: Ladder, says: str) -> str:
        """The same with whom it is held by, where the scheduler's reason is our drain of this node. Anyone may write a reason: what it names must fit."""
        host = self.proposer.inventory.hosts.get(ladder.target)
        reason = await drained_for(host, self.proposer.transport) if host and host.controller else ""
        try:
            other = await self._elsewhere(reason.removeprefix(OURS)) if reason.startswith(OURS) else None
        except Refused:
            other = None
        if other is None or (other.action.remedy, other.action.target) != ("drain_node", ladder.target) or not ran(other):
            return says
        fault = f" for {other.action.fault.says}" if other.action.fault else ""
        return f"{ladder.target} is out of service already: RackMedic drained it in another thread{fault}, and returns it there"

    async def _may_go_back(self, incident: str, ladder: Ladder) -> None:
        """A node is offered back only while a fresh look shows the fault no more. Withheld says why it is not."""
        if ladder.now is not None and ladder.now.part == "restore":
            await self.must_be_gone(incident, ladder)

    async def in_service(self, incident: str, ladder: Ladder) -> str:
        """What is said of a held node that somebody else has returned, and the incident hears; empty of one that is out of service."""
        return await self._held.look_at(incident, await self.state_of(incident), ladder)

    @property
    def _held(self) -> HeldNodes:
        return HeldNodes(self.ledger, self.deliver, self.proposer, self.clock)

    async def must_be_gone(self, incident: str, ladder: Ladder) -> None:
        """Withheld unless a fresh look shows the ladder's fault no more. What only a test under load shows went by the proof of its remedy,
        which ran that test."""
        fault = ladder.fault
        if fault is None or (fault.lasts == "proved" and ladder.since):
            return
        found = await self.looks.fault_now(fault, incident, ladder.since or self.clock.now(), changed=ladder.since is not None)
        if found.answer == "unseen":
            raise Withheld(LATER, f"could not see whether the fault is gone: {found.says}")
        if found.answer != "gone":
            raise Withheld("shows", f"the fault is there: {found.says}")

    async def put_up(self, incident: str, ladder: Ladder, *, requested_by: str = "", ahead: bool = False) -> Record:
        """The present rung as the ledger has it, proposed unless it was. Whoever asks wakes its driver. Raises Withheld.

        `ahead`: the incident has yet to hear of it, in the turn after all that wait."""
        turn = (await self.state_of(incident)).get("turns", 0) + (1 + await self.deliver.waiting(incident) if ahead else 0)
        await self.index.look_at(ladder.approval, self.clock.now() + timedelta(seconds=15))
        await self._may_go_back(incident, ladder)
        asked = requested_by or ladder.asked_by
        made = await self.proposer.make(incident, ladder, ladder.approval, requested_by=asked)
        try:
            seen = await self.ledger.propose(made.action, replace(made.terms, turn=turn), single=True)
        except WrongDigest:  # somebody proposed it at the same moment, and saw something else live
            seen = await self.ledger.record(ladder.approval)
        log.info("action.proposed", approval=seen.approval, remedy=seen.action.remedy, target=seen.action.target)
        return seen

    async def _idle(self, incident: str, ladder: Ladder, *, paused: bool) -> None:
        host = self.proposer.inventory.hosts.get(ladder.target)
        seen = await drained(host, self.proposer.transport) if host and host.controller else None
        if seen is None or seen.ok:
            await self._hear(incident, ladder, "idle")
        elif ladder.drained and (word := runs_jobs(seen)):
            await self._given_back(incident, ladder, word)
        elif self._past(ladder) and not (paused and ladder.now and ladder.now.remedy not in EMPTIES):
            await self._hear(incident, ladder, "busy", says=seen.saw[:100])

    async def _given_back(self, incident: str, ladder: Ladder, word: str) -> None:
        """Somebody returned the node: the ladder hears of it with what the host shows. Where nobody could look, later."""
        guard = guard_of(ladder)
        found = await self.looks.fault_now(guard, incident, self.clock.now()) if guard else None
        if found is not None and found.answer == "unseen":
            return
        await self.ledger.seen_in_service(incident, ladder.target, word)
        gone = found is not None and found.answer == "gone"
        shows = "the fault shows no more" if gone else f"the fault is there{f': {found.says}' if found else ''}"
        says = f"somebody returned {ladder.target} to service, and {shows}"
        await self._hear(incident, ladder, "given_back", says=says, outcome="gone" if gone else "")

    async def _back(self, incident: str, ladder: Ladder, records: Mapping[str, Record], *, paused: bool) -> None:
        """After another action covered ours, when that one is over; otherwise when the host answers again."""
        own = records.get(ladder.approval)
        if own is None and (joined := await self._elsewhere(ladder.approval)):
            await self._after(incident, ladder, joined)
            return
        if own and own.covered_by:
            covering = await self.ledger.record(own.covered_by)
            if covering.state not in TERMINAL:
                return
            since = ladder.since or covering.proposed_at
            proof, facts = await self.looks.again(own, since)
            if proof.looked:
                sha = await self.evidence.put_facts(incident, facts) if facts else ""
                await self._hear(incident, ladder, "back", outcome=proof.outcome, says=proof.says, facts=sha)
            return
        try:
            await boot_id(ladder.target, self.proposer.transport)
        except Unreachable as why:
            if self._past(ladder) and not paused:
                await self._hear(incident, ladder, "unreachable", says=str(why))
            return
        await self._hear(incident, ladder, "back")

    async def _after(self, incident: str, ladder: Ladder, other: Record) -> None:
        """Another incident decided about the same: once that is over, what the host shows says whether anything is left to do."""
        if other.state not in TERMINAL:
            return
        did = ran(other)
        since = claimed_at(other, self.clock.now()) if did else self.clock.now()
        found = await self.looks.fault_now(ladder.fault, incident, since, changed=did) if ladder.fault else None
        if found is None or found.answer in ("shown", "likely"):
            await self._hear(incident, ladder, "back")
        elif found.answer == "gone" and did and ladder.now and ladder.now.part == "fix":
            await self._hear(incident, ladder, "back", outcome="passes_now", says=found.says)
        elif found.answer == "gone":
            await self._hear(incident, ladder, "needless", says=found.says)

    async def _elsewhere(self, approval: str) -> Record | None:
        """An action of another incident, where the ladder goes by one."""
        try:
            return await self.ledger.record(approval) if approval else None
        except NotFound:
            return None

    async def _reprove(self, incident: str, ladder: Ladder, records: Mapping[str, Record]) -> None:
        """The second proof. Where nobody could look it is tried again later."""
        name = ladder.proven or ladder.approval
        own = records.get(name) or await self._elsewhere(name)
        if own is None or not self._past(ladder):
            return
        proof, facts = await self.looks.again(own, ladder.since or own.proposed_at)
        if not proof.looked:
            log.info("ladder.not_proved_yet", ladder=ladder.id, why=proof.says)
            return
        good = proof.outcome == "passes_now"
        await self.ledger.judge(own.approval, "cured" if good else "recurred")
        sha = await self.evidence.put_facts(incident, facts) if facts else ""
        await self._hear(incident, ladder, "cured" if good else "recurred", says="" if good else proof.says, facts=sha)
        await self.index.look_at(own.approval)
        await self.wake(own.approval)

    async def _quiet(self, incident: str, state: Incident, ladders: Sequence[Ladder]) -> None:
        over = [row.due for row in ladders if row.outcome == "cured" and row.due]
        if state.get("lifecycle") == "watching" and over and all_cured(ladders) and max(over) <= self.clock.now():
            await self.deliver.send(incident, f"quiet:{incident}:{max(over).isoformat()}", {"event": QUIET})

    async def _hear(self, incident: str, ladder: Ladder, event: str, **more: str) -> None:
        """The ladder hears of it once, as it stands now."""
        stands = f"{ladder.id}:{ladder.rung}:{ladder.attempt}:{ladder.waiting_for}:{ladder.due.isoformat() if ladder.due else ''}"
        await self.deliver.send(incident, f"ladder:{stands}:{event}", {"event": event, "ladder": ladder.id, **more})

    def _past(self, ladder: Ladder) -> bool:
        return ladder.due is not None and ladder.due <= self.clock.now()


def wanted_of(state: Incident, ladders: Sequence[Ladder]) -> list[Ladder]:
    """Those that go on. A closed incident wants nothing but to give back the nodes that it holds."""
    closed = state.get("lifecycle") == "closed"
    return [row for row in ladders if row.open and (on_the_way_back(row) or not closed)]


def next_look(state: Incident, ladders: Sequence[Ladder], now: datetime) -> datetime | None:
    """When an incident's ladders want to be looked at again; None when they wait for nothing."""
    times = [_next(row, now) for row in wanted_of(state, ladders)]
    if state.get("lifecycle") != "closed":
        times += [max(row.due, now + EVERY["none"]) for row in ladders if row.outcome == "cured" and row.due]
    times += [now + EVERY["none"] for row in ladders if rests(row)]
    return min(times, default=None)


def _next(ladder: Ladder, now: datetime) -> datetime:
    soon = now + EVERY[ladder.waiting_for]
    return max(soon, ladder.due) if ladder.waiting_for == "proof" and ladder.due else soon
