"""Nodes that we hold and whose fix rests: whether the scheduler still has them out of service. Somebody may have returned one by hand.

Only a state in which jobs may run counts as returned; a scheduler that could not be asked changes nothing but that this is said.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from bot.actions.driver import Delivery
from bot.actions.proposer import Proposer
from graph.actions.carry_out import claimed_at, ran
from graph.ladders.held import on_the_way_back
from graph.ladders.moves import ASKED, IN_SERVICE, UNASKED
from graph.state import Incident, Ladder
from tools.acting.conditions import ConditionSeen
from tools.acting.scheduled import drained
from tools.clock import Clock
from tools.ledger.ledger import Ledger
from tools.ledger.record import Record
from tools.ledger.states import State

RUNS_JOBS = frozenset({"idle", "mixed", "allocated", "completing", "planned", "reserved", "schedulable"})
"""States of `sinfo -o %T`, and of a node of Kubernetes that is not cordoned. What is down, drained, in maintenance, or does not answer (`*`) is
no node in service."""


def rests(ladder: Ladder) -> bool:
    """Whether its node is held and nothing of its fix is to run but the way back."""
    return ladder.drained and (not ladder.open or on_the_way_back(ladder))


@dataclass(frozen=True, slots=True)
class HeldNodes:
    """`look` may be called at any time; what it finds goes to the incident's inbox once a turn."""

    ledger: Ledger
    deliver: Delivery
    proposer: Proposer
    clock: Clock

    async def look(self, incident: str, state: Incident, ladders: Sequence[Ladder], records: Iterable[Record]) -> None:
        """Ask the scheduler about each held node whose fix rests. One that we return ourselves is left to that action's result."""
        known = list(records)
        for ladder in ladders:
            if rests(ladder) and not any(_returns(row, ladder, self.clock) for row in known):
                await self.look_at(incident, state, ladder)

    async def look_at(self, incident: str, state: Incident, ladder: Ladder) -> str:
        """The same of one node. What is said where it is in service by now, so that it is held no more; empty where it is not known to be."""
        states = await self._states(ladder.target)
        if states is None:
            if ladder.unasked is None:
                await self._hear(incident, state, ladder, UNASKED)
        elif states and states <= RUNS_JOBS:
            word = "+".join(sorted(states))
            await self.ledger.seen_in_service(incident, ladder.target, word)
            says = f"{ladder.target} is back in service since {self.clock.now():%Y-%m-%d %H:%M} UTC at the latest, not by us ({word})"
            await self._hear(incident, state, ladder, IN_SERVICE, says=says)
            return says
        elif ladder.unasked is not None:
            await self._hear(incident, state, ladder, ASKED)
        return ""

    async def _states(self, name: str) -> frozenset[str] | None:
        """As the scheduler has it, one for each partition; None where it could not be asked."""
        host = self.proposer.inventory.hosts.get(name)
        if host is None or not host.controller:
            return None
        seen = await drained(host, self.proposer.transport)
        return None if seen.ok is None else frozenset(seen.saw.lower().split())

    async def _hear(self, incident: str, state: Incident, ladder: Ladder, event: str, **more: Any) -> None:
        """Once a turn: the next one finds what this one made of it."""
        key = f"hold:{ladder.id}:{event}:{state.get('turns', 0)}"
        at = self.clock.now().isoformat()
        await self.deliver.send(incident, key, {"event": event, "ladder": ladder.id, "seen": at, **more})


def runs_jobs(seen: ConditionSeen) -> str:
    """The state that a scheduler gave for a node, where jobs may run in it in every partition; else nothing."""
    states = frozenset(seen.saw.lower().split()) if seen.ok is not None else frozenset()
    return "+".join(sorted(states)) if states and states <= RUNS_JOBS else ""


def _returns(record: Record, ladder: Ladder, clock: Clock) -> bool:
    """Whether an action of ours returns the node, or has since it was drained."""
    if record.action.remedy != "resume_node" or record.action.target != ladder.target:
        return False
    if record.state is State.EXECUTING or record.state is State.UNKNOWN:
        return True
    return ran(record) and (ladder.drained_at is None or claimed_at(record, clock.now()) > ladder.drained_at)
