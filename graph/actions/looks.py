"""Looking at an action's target again, outside its thread and in it: whether it helped, and whether its fault is there."""

from dataclasses import dataclass
from datetime import datetime

from graph.actions.carry_out import ActionPorts
from graph.actions.fault import fault_now
from graph.actions.proof import Proof, asked_of_scheduler, checks_for
from graph.actions.proof import prove as verdict
from graph.engine.shown import Presence
from graph.incident.case import lens_of
from tools.acting.conditions import job_forgotten, see
from tools.action import FaultCondition
from tools.fact import Fact
from tools.fleet.answers import Ask
from tools.ledger.record import Record


async def proof_of(seen: Record, since: datetime, ports: ActionPorts) -> tuple[Proof, list[Fact]]:
    """The verdict on the action's target as it is now, and what was seen."""
    action = seen.action
    if action.remedy == "run_check":
        return Proof("passes_now", "the check has answered"), await _check_facts(seen, ports)
    if asked := asked_of_scheduler(action):
        answer = await see(asked, action.via, ports.transport)
        if job_forgotten(answer):
            return Proof("passes_now", "the scheduler does not know the job any more"), []
        saw = f"the scheduler says {answer.saw or 'nothing'}" if answer.ok is not None else f"could not be proved: {answer.saw}"
        return Proof("passes_now" if answer.ok else "unchanged", saw), []
    before = await ports.facts_of(action.incident)
    lens = lens_of(ports.reading, before)
    ports.reading.fleet.forget(action.target)
    wave = await ports.reading.fleet.look(
        action.incident, [Ask(action.target, check) for check in checks_for(action, lens)], fresh=True, permitted=True
    )
    facts = wave.facts
    return verdict(action, before, facts, lens_of(ports.reading, [*before, *facts]), since), facts


async def _check_facts(seen: Record, ports: ActionPorts) -> list[Fact]:
    return await ports.reading.evidence.facts(seen.output) if seen.output else []


@dataclass(frozen=True, slots=True)
class Looks:
    """For those who tend what actions wait for, and need none of their threads."""

    ports: ActionPorts

    async def again(self, seen: Record, since: datetime) -> tuple[Proof, list[Fact]]:
        """Prove a finished action once more, outside its thread."""
        return await proof_of(seen, since, self.ports)

    async def fault_now(self, fault: FaultCondition, incident: str, since: datetime, *, changed: bool = False) -> Presence:
        """What a fault is at this moment, as a claim would see it."""
        known = await self.ports.facts_of(incident)
        return await fault_now(fault, incident, since, known, self.ports.reading, self.ports.transport, changed=changed)
