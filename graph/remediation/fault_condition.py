"""The fault as a precondition of its remedies: what the diagnosis rests on, which steps need it, what contradicts it."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from graph.engine.assessment import Assessment
from graph.engine.fact_history import EVENT_KEY_PREFIXES
from graph.engine.reference_data import is_tenant_writable
from graph.remediation.cause_presence import CausePresence, assess_presence, can_concern_devices
from graph.state import Remediation, RemediationStep
from kb.taxonomy.taxonomy import Leaf
from tools.action import FaultCondition, FaultPersistence
from tools.fact import Fact
from tools.remedies import REMEDIES

# Readings without the fault after which it counts as gone: an intermittent fault can be missed. As many as a diagnosis
# needs before it calls machines healthy.
MIN_CLEAN_READS = 3
REACHABILITY_KEY = "host.reachable"  # The key of a fault that consists in not answering.
# Remedies that need no present fault, and why.
FAULT_INDEPENDENT_REMEDIES: Mapping[str, str] = {
    "resume_node": "it takes a drain back; it is offered where the fault no longer shows",
    "run_check": "it only looks",
}


def get_step_precondition(remediation: Remediation) -> FaultCondition | None:
    """Return what must still be present for the present step; None for nothing."""
    step = remediation.current_step
    if step is None or remediation.fault is None or step.remedy in FAULT_INDEPENDENT_REMEDIES or is_target_treated(remediation):
        return None
    own_devices = tuple(name for name in step.devices if name in remediation.fault.devices)
    return replace(remediation.fault, devices=own_devices) if own_devices else remediation.fault


def is_target_treated(remediation: Remediation) -> bool:
    """An earlier step changed the target: the proof decided to continue, and what shows no longer counts."""
    step = remediation.current_step
    return step is not None and any(
        _has_taken_effect(remediation_step, remediation) and can_concern_devices(step.devices, remediation_step.devices)
        for remediation_step in remediation.rungs[: remediation.rung]
    )


def _has_taken_effect(step: RemediationStep, remediation: Remediation) -> bool:
    """A fix counts once claimed, a preparation with a later effect once passed."""
    return (step.part == "fix" and remediation.since is not None) or (step.part == "prepare" and bool(REMEDIES[step.remedy].then))


def build_fault_condition(remediation: Remediation, host_assessment: Assessment, facts: Sequence[Fact]) -> FaultCondition:
    """Return what the cause rests on. `host_assessment` assesses these `facts` of its host only."""
    leaf = host_assessment.reference.taxonomy.leaves[remediation.label]
    beliefs = [
        belief
        for belief in host_assessment.by_label.get(remediation.label, ())
        if can_concern_devices(remediation.devices, belief.subject.named_devices)
    ]
    matches = [
        match
        for belief in beliefs
        for match in belief.deciding
        if match.fact.host == remediation.target and not is_tenant_writable(match.fact.key)
    ]
    passive = [match for match in matches if (check := host_assessment.reference.checks.get(match.fact.check)) and not check.exclusive]
    states = [match for match in passive if not match.fact.key.startswith(EVENT_KEY_PREFIXES)]
    decided = states or passive or matches
    telling = [match.fact for match in decided]
    boot = next((str(fact.value) for fact in reversed(facts) if fact.key == "host.boot_id" and fact.value), "")
    lasts: FaultPersistence = "proved"
    if _is_unreachable_fault(host_assessment, leaf):
        lasts = "silence"
    elif states:
        lasts = "read"
    elif passive and boot:
        lasts = "boot"
    return FaultCondition(
        label=remediation.label,
        host=remediation.target,
        says=decided[0].says if decided else leaf.title,
        keys=tuple(dict.fromkeys(fact.key for fact in telling)),
        devices=remediation.devices,
        checks=tuple(dict.fromkeys(fact.check for fact in telling)),
        boot_id="" if lasts == "read" else boot,  # a state is read again in any boot; the action records its host's boot id
        lasts=lasts,
        reads=MIN_CLEAN_READS if states else 1,
    )


def _is_unreachable_fault(host_assessment: Assessment, leaf: Leaf) -> bool:
    return REACHABILITY_KEY in host_assessment.reference.list_decisive_keys(leaf) and not host_assessment.coverage.observed_keys


def is_contradicted(remediation: Remediation, host_assessment: Assessment) -> bool:
    """Return whether present facts deny the cause; a failed observation never does."""
    return remediation.fault is not None and judge_fault(remediation.fault, host_assessment).answer == "gone"


def judge_fault(fault: FaultCondition, host_assessment: Assessment) -> CausePresence:
    """Judge by the host's facts. It is not gone if a check that showed it could not run."""
    leaf = host_assessment.reference.taxonomy.leaves.get(fault.label)
    if leaf is None:
        return CausePresence("unseen", f"the taxonomy knows no {fault.label}")
    presence = assess_presence(leaf, fault.devices, host_assessment)
    unobserved_reason = next(
        (
            f"{check}: {host_assessment.coverage.unobserved[fault.host, check]}"
            for check in fault.checks
            if (fault.host, check) in host_assessment.coverage.unobserved
        ),
        "",
    )
    return CausePresence("unseen", unobserved_reason) if presence.answer == "gone" and unobserved_reason else presence
