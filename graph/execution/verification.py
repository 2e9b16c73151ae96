"""Verify an action's target, inside and outside its thread, and judge what the remedy changed.

`passes_now` requires that what decides for the label was observed and does not show it. A failed observation is never a
pass.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from graph.engine.assessment import Assessment, assess_facts
from graph.engine.reference_data import ReferenceData
from graph.engine.stale_facts import find_clock_skews, mark_stale_after_repairs
from graph.execution.action_effects import ActionGraphContext
from graph.execution.fault_check import check_fault
from graph.incident.context import build_reference_data
from graph.remediation.build import HOST_SCOPES
from graph.remediation.cause_presence import CausePresence, assess_presence
from tools.action import Action, Condition, FaultCondition
from tools.execution.conditions import fill_condition, is_job_forgotten, read_condition
from tools.fact import Fact
from tools.fleet.answers import CheckRequest
from tools.ledger.record import ActionRecord, Outcome
from tools.remedies import REMEDIES, REMEDY_VARIANTS
from tools.remedies.conditions import KUBE_CORDONED, KUBE_EMPTY, KUBE_SCHEDULABLE

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


@dataclass(frozen=True, slots=True)
class Proof:
    """The outcome of an action and its reason in one sentence. `new` lists labels that are proven now and were not before."""

    outcome: Outcome
    says: str
    new: tuple[str, ...] = ()
    looked: bool = True  # False where nothing could be observed: then the outcome proves nothing.


def get_scheduler_proof(action: Action) -> Condition | None:
    """Return the scheduler's condition that proves the action, if any."""
    variant = action.argv[0] if action.argv and action.argv[0] in REMEDY_VARIANTS else action.remedy
    condition = SCHEDULER_PROOFS.get(variant)
    return fill_condition(condition, action.args) if condition else None


def list_proof_checks(action: Action, reference: ReferenceData) -> tuple[str, ...]:
    """Return the approved proof and every check that can decide for the label."""
    leaf = reference.taxonomy.leaves.get(action.proves)
    deciding = [check.id for check in reference.list_deciding_checks(leaf)] if leaf else []
    return tuple(dict.fromkeys(name for name in (*action.proof, *deciding) if name in reference.checks))


def judge_outcome(
    action: Action, previous_facts: Sequence[Fact], after: Sequence[Fact], reference: ReferenceData, since: datetime
) -> Proof:
    """Judge the action's label on its target by events after `since`."""
    target = action.target
    current_facts = [
        fact
        for fact in mark_stale_after_repairs(after, {target: since}, find_clock_skews([*previous_facts, *after]))
        if fact.host == target
    ]
    if all(fact.status.blind for fact in current_facts):
        reason = current_facts[0].line if current_facts else "nothing could be looked at"
        return Proof("worse", f"{target} does not answer: {reason}", looked=False)
    previous_assessment = assess_facts([fact for fact in previous_facts if fact.host == target], reference, [target])
    assessment = assess_facts(current_facts, reference, [target])
    if lost_gpus := _describe_lost_gpus(previous_facts, current_facts, target):
        return Proof("worse", lost_gpus)
    if new_labels := _list_new_root_causes(action, previous_assessment, assessment, reference):
        titles = ", ".join(reference.taxonomy.get_title(label) for label in new_labels)
        return Proof("worse", f"new on {target}: {titles}", new_labels)
    if unobserved_device := _find_unobserved_device(action, current_facts):
        return Proof("unchanged", f"could not be proved: {unobserved_device} gave no answer", looked=False)
    return _judge_label(action, assessment, reference)


def _find_unobserved_device(action: Action, facts: Sequence[Fact]) -> str:
    key = DEVICE_PROOF_KEYS.get(action.remedy, "")
    if not key:
        return ""
    observed_devices = {f"{fact.host}/{fact.device}" for fact in facts if fact.key == key and not fact.status.blind}
    for device in action.devices:
        if device not in observed_devices:
            return device
    return ""


def _describe_lost_gpus(previous_facts: Sequence[Fact], current_facts: Sequence[Fact], target: str) -> str:
    previous_count, current_count = _count_gpus(previous_facts, target), _count_gpus(current_facts, target)
    if previous_count is None or current_count is None or current_count >= previous_count:
        return ""
    return f"nvidia-smi sees {current_count} GPUs of {target}, it saw {previous_count}"


def _count_gpus(facts: Sequence[Fact], target: str) -> int | None:
    counts = [fact.value for fact in facts if fact.host == target and fact.key == "gpu.count" and isinstance(fact.value, int)]
    return counts[-1] if counts else None


def _list_new_root_causes(
    action: Action, previous_assessment: Assessment, assessment: Assessment, reference: ReferenceData
) -> tuple[str, ...]:
    """Return labels proven of the host now and not before.

    Excluded: labels proven before though explained by another cause; the action's own label, which is judged
    separately; and causes of a job, a switch or storage, which no host remedy can bring about.
    """
    known_causes = {(belief.label, belief.subject) for belief in previous_assessment.beliefs if belief.proven} | {
        (action.proves, belief.subject) for belief in assessment.roots
    }
    own_beliefs = [belief for belief in assessment.roots if reference.taxonomy.leaves[belief.label].scope in HOST_SCOPES]
    return tuple(dict.fromkeys(belief.label for belief in own_beliefs if (belief.label, belief.subject) not in known_causes))


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


async def verify_outcome(record: ActionRecord, since: datetime, action_context: ActionGraphContext) -> tuple[Proof, list[Fact]]:
    """Return the verdict on the target as it is now, and its facts."""
    action = record.action
    if action.remedy == "run_check":
        return Proof("passes_now", "the check has answered"), await _load_check_facts(record, action_context)
    if scheduler_proof := get_scheduler_proof(action):
        answer = await read_condition(scheduler_proof, action.via, action_context.transport)
        if is_job_forgotten(answer):
            return Proof("passes_now", "the scheduler no longer knows the job"), []
        saw = f"the scheduler says {answer.saw or 'nothing'}" if answer.ok is not None else f"could not be proved: {answer.saw}"
        return Proof("passes_now" if answer.ok else "unchanged", saw), []
    previous_facts = await action_context.facts_of(action.incident)
    reference = build_reference_data(action_context.reading, previous_facts)
    action_context.reading.fleet.forget_host(action.target)
    wave = await action_context.reading.fleet.run_checks(
        action.incident, [CheckRequest(action.target, check) for check in list_proof_checks(action, reference)], fresh=True, permitted=True
    )
    facts = wave.facts
    return judge_outcome(
        action, previous_facts, facts, build_reference_data(action_context.reading, [*previous_facts, *facts]), since
    ), facts


async def _load_check_facts(record: ActionRecord, action_context: ActionGraphContext) -> list[Fact]:
    return await action_context.reading.evidence.get_facts(record.output) if record.output else []


@dataclass(frozen=True, slots=True)
class ActionVerifier:
    """Verification for callers that need no action thread."""

    action_context: ActionGraphContext

    async def verify_again(self, record: ActionRecord, since: datetime) -> tuple[Proof, list[Fact]]:
        return await verify_outcome(record, since, self.action_context)

    async def check_fault(self, fault: FaultCondition, incident: str, since: datetime, *, changed: bool = False) -> CausePresence:
        """Judge a fault as a claim would."""
        known_facts = await self.action_context.facts_of(incident)
        return await check_fault(
            fault, incident, since, known_facts, self.action_context.reading, self.action_context.transport, changed=changed
        )
