"""Verify an action's target, inside and outside its thread, and judge what the remedy changed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from graph.engine.assessment import Assessment, assess_facts
from graph.engine.fact_history import find_clock_skews, mark_stale_after_repairs
from graph.engine.reference_data import ReferenceData
from graph.execution.action_effects import ActionGraphContext, check_fault
from graph.incident.context import build_reference_data
from graph.remediation.build import HOST_SCOPES
from graph.remediation.fault_condition import CausePresence, assess_presence
from tools.action import Action, Condition, FaultCondition
from tools.execution.conditions import fill_condition, is_job_forgotten, read_condition
from tools.fact import Fact
from tools.fleet.answers import CheckRequest
from tools.ledger.record import ActionRecord, Outcome
from tools.remedies import REMEDIES, REMEDY_VARIANTS
from tools.remedies.conditions import KUBE_CORDONED, KUBE_EMPTY, KUBE_SCHEDULABLE

# Judge what a remedy changed, from the engine's view of the target before and after. Pure.
#
# `passes_now` requires that what decides for the label was observed and does not show it. A failed observation is never a
# pass.


@dataclass(frozen=True, slots=True)
class Proof:
    """The outcome and its reason in one sentence. `new` are labels proven now and not before."""

    outcome: Outcome
    says: str
    new: tuple[str, ...] = ()
    looked: bool = True  # False where nothing could be observed: then the outcome proves nothing.


SLURM_IN_SERVICE_STATES = "idle*|mixed*|allocated*|completing*|planned*|reserved*"
# What the scheduler must say after a remedy that it carries out, by the catalogue row that ran.
SCHEDULER_PROOFS: Mapping[str, Condition] = {
    "drain_node": Condition("controller", "the node takes no new jobs", ("sinfo", "-h", "-N", "-n", "{node}", "-o", "%T"), "drain*|inval*"),
    "resume_node": Condition(
        "controller", "the node is in service", ("sinfo", "-h", "-N", "-n", "{node}", "-o", "%T"), SLURM_IN_SERVICE_STATES
    ),
    "cancel_job": Condition("controller", "the job has ended", ("squeue", "-h", "-j", "{job}", "-o", "%T"), "|COMPLETING|CANCELLED"),
    "cordon_node": KUBE_CORDONED,
    "uncordon_node": KUBE_SCHEDULABLE,
    "evict_pods": KUBE_EMPTY,
}
# The key that each treated device must report afterwards: only some of many containers are asked, and an ended one
# reports nothing.
DEVICE_PROOF_KEYS: Mapping[str, str] = {"restart_container": "container.nvml"}


def get_scheduler_proof(action: Action) -> Condition | None:
    """Return the scheduler's condition that proves the action, if any."""
    way = action.argv[0] if action.argv and action.argv[0] in REMEDY_VARIANTS else action.remedy
    row = SCHEDULER_PROOFS.get(way)
    return fill_condition(row, action.args) if row else None


def list_proof_checks(action: Action, reference: ReferenceData) -> tuple[str, ...]:
    """Return the approved proof and every check that can decide for the label."""
    leaf = reference.taxonomy.leaves.get(action.proves)
    deciding = [check.id for check in reference.list_deciding_checks(leaf)] if leaf else []
    return tuple(dict.fromkeys(name for name in (*action.proof, *deciding) if name in reference.checks))


def judge_outcome(action: Action, before: Sequence[Fact], after: Sequence[Fact], reference: ReferenceData, since: datetime) -> Proof:
    """Judge the action's label on its target by events after `since`."""
    target = action.target
    current_facts = [
        fact for fact in mark_stale_after_repairs(after, {target: since}, find_clock_skews([*before, *after])) if fact.host == target
    ]
    if not any(not fact.status.blind for fact in current_facts):
        return Proof(
            "worse", f"{target} does not answer: {current_facts[0].line if current_facts else 'nothing could be looked at'}", looked=False
        )
    was = assess_facts([fact for fact in before if fact.host == target], reference, [target])
    now = assess_facts(current_facts, reference, [target])
    if lost := _describe_lost_gpus(before, current_facts, target):
        return Proof("worse", lost)
    if new := _list_new_root_causes(action, was, now, reference):
        return Proof("worse", f"new on {target}: {', '.join(reference.taxonomy.get_title(label) for label in new)}", new)
    if silent := _find_unobserved_device(action, current_facts):
        return Proof("unchanged", f"could not be proved: {silent} gave no answer", looked=False)
    return _judge_label(action, now, reference)


def _find_unobserved_device(action: Action, seen: Sequence[Fact]) -> str:
    key = DEVICE_PROOF_KEYS.get(action.remedy, "")
    devices_read = {f"{fact.host}/{fact.device}" for fact in seen if fact.key == key and not fact.status.blind}
    return next((device for device in action.devices if key and device not in devices_read), "")


def _describe_lost_gpus(before: Sequence[Fact], after: Sequence[Fact], target: str) -> str:
    had, has = (_count_gpus(rows, target) for rows in (before, after))
    return f"nvidia-smi sees {has} GPUs of {target}, it saw {had}" if had is not None and has is not None and has < had else ""


def _count_gpus(facts: Sequence[Fact], target: str) -> int | None:
    counts = [fact.value for fact in facts if fact.host == target and fact.key == "gpu.count" and isinstance(fact.value, int)]
    return counts[-1] if counts else None


def _list_new_root_causes(action: Action, was: Assessment, assessment: Assessment, reference: ReferenceData) -> tuple[str, ...]:
    """Return labels proven of the host now and not before.

    Excluded: labels proven before though explained by another cause; the action's own label, which is judged
    separately; and causes of a job, a switch or storage, which no host remedy can bring about.
    """
    known_causes = {(row.label, row.subject) for row in was.beliefs if row.proven} | {
        (action.proves, row.subject) for row in assessment.roots
    }
    own = [row for row in assessment.roots if reference.taxonomy.leaves[row.label].scope in HOST_SCOPES]
    return tuple(dict.fromkeys(row.label for row in own if (row.label, row.subject) not in known_causes))


def _judge_label(action: Action, assessment: Assessment, reference: ReferenceData) -> Proof:
    leaf = reference.taxonomy.leaves.get(action.proves)
    if leaf is None:
        return Proof("passes_now", "the command succeeded")
    presence = assess_presence(leaf, action.devices, assessment)
    match presence.answer:
        case "shown":
            later = REMEDIES[action.remedy].then if action.remedy in REMEDIES else ""
            return Proof("unchanged", f"as expected, it counts from {later} on" if later else f"still there: {presence.says}")
        case "likely":
            return Proof("unchanged", presence.says)
        case "unseen":
            return Proof("unchanged", f"could not be proved: {presence.says}", looked=False)
        case "gone":
            return Proof("passes_now", presence.says)


# Verify an action's target, inside and outside its thread.


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
