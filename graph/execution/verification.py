"""Verify an action's target, inside and outside its thread."""

from dataclasses import dataclass
from datetime import datetime

from graph.engine.cause_presence import CausePresence
from graph.execution.execution import ActionGraphContext
from graph.execution.fault_check import check_fault
from graph.execution.proof import Proof, get_scheduler_proof, judge_outcome, list_proof_checks
from graph.incident.context import build_reference_data
from tools.action import FaultCondition
from tools.execution.conditions import is_job_forgotten, read_condition
from tools.fact import Fact
from tools.fleet.answers import CheckRequest
from tools.ledger.record import ActionRecord


async def verify_outcome(record: ActionRecord, since: datetime, ports: ActionGraphContext) -> tuple[Proof, list[Fact]]:
    """Return the verdict on the target as it is now, and its facts."""
    action = record.action
    if action.remedy == "run_check":
        return Proof("passes_now", "the check has answered"), await _load_check_facts(record, ports)
    if scheduler_proof := get_scheduler_proof(action):
        answer = await read_condition(scheduler_proof, action.via, ports.transport)
        if is_job_forgotten(answer):
            return Proof("passes_now", "the scheduler no longer knows the job"), []
        saw = f"the scheduler says {answer.saw or 'nothing'}" if answer.ok is not None else f"could not be proved: {answer.saw}"
        return Proof("passes_now" if answer.ok else "unchanged", saw), []
    before = await ports.facts_of(action.incident)
    reference = build_reference_data(ports.reading, before)
    ports.reading.fleet.forget_host(action.target)
    wave = await ports.reading.fleet.run_checks(
        action.incident, [CheckRequest(action.target, check) for check in list_proof_checks(action, reference)], fresh=True, permitted=True
    )
    facts = wave.facts
    return judge_outcome(action, before, facts, build_reference_data(ports.reading, [*before, *facts]), since), facts


async def _load_check_facts(record: ActionRecord, ports: ActionGraphContext) -> list[Fact]:
    return await ports.reading.evidence.get_facts(record.output) if record.output else []


@dataclass(frozen=True, slots=True)
class ActionVerifier:
    """Verification for callers that need no action thread."""

    ports: ActionGraphContext

    async def verify_again(self, record: ActionRecord, since: datetime) -> tuple[Proof, list[Fact]]:
        return await verify_outcome(record, since, self.ports)

    async def check_fault(self, fault: FaultCondition, incident: str, since: datetime, *, changed: bool = False) -> CausePresence:
        """Judge a fault as a claim would."""
        known_facts = await self.ports.facts_of(incident)
        return await check_fault(fault, incident, since, known_facts, self.ports.reading, self.ports.transport, changed=changed)
