"""The fault as a precondition of its remedies: the facts that show it, the steps that need it, and what contradicts it."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from graph.engine.assessment import Assessment
from graph.engine.belief import ClueMatch
from graph.engine.fact_history import EVENT_KEY_PREFIXES
from graph.engine.reference_data import is_tenant_writable
from graph.remediation.cause_presence import CausePresence, assess_presence, can_concern_devices
from graph.state import Remediation, RemediationStep
from kb.taxonomy.taxonomy import Leaf
from tools.action import FaultCondition, FaultPersistence
from tools.fact import Fact
from tools.remedies import REMEDIES

# Readings without the fault after which it counts as gone, because one reading can miss an intermittent fault. A diagnosis
# needs as many before it calls machines healthy.
MIN_CLEAN_READS = 3
REACHABILITY_KEY = "host.reachable"  # key of the fault that a host does not answer
# Remedies that do not need the fault to be present, and why.
FAULT_INDEPENDENT_REMEDIES: Mapping[str, str] = {
    "resume_node": "it takes a drain back; it is offered where the fault no longer shows",
    "run_check": "it only looks",
}


def get_step_precondition(remediation: Remediation) -> FaultCondition | None:
    """Return the fault that must still be present before the current step runs, or None."""
    step = remediation.current_step
    if step is None or remediation.fault is None:
        return None
    if step.remedy in FAULT_INDEPENDENT_REMEDIES or is_target_treated(remediation):
        return None
    step_devices = tuple(name for name in step.devices if name in remediation.fault.devices)
    return replace(remediation.fault, devices=step_devices) if step_devices else remediation.fault


def is_target_treated(remediation: Remediation) -> bool:
    """Return whether an earlier step changed the target.

    The proof of that step decided to continue, so the fault need no longer be present.
    """
    current_step = remediation.current_step
    if current_step is None:
        return False
    return any(
        _has_taken_effect(step, remediation) and can_concern_devices(current_step.devices, step.devices)
        for step in remediation.rungs[: remediation.rung]
    )


def _has_taken_effect(step: RemediationStep, remediation: Remediation) -> bool:
    """Return whether a step may have changed its target: a fix since its claim, a preparation if it has a later effect."""
    if step.part == "fix":
        return remediation.since is not None
    return step.part == "prepare" and bool(REMEDIES[step.remedy].then)


def build_fault_condition(remediation: Remediation, host_assessment: Assessment, facts: Sequence[Fact]) -> FaultCondition:
    """Return the facts that show the cause, as a condition. `host_assessment` assesses only `facts`, all of its host."""
    leaf = host_assessment.reference.taxonomy.leaves[remediation.label]
    matches = _list_deciding_matches(remediation, host_assessment)
    passive_matches = [match for match in matches if _is_from_passive_check(match, host_assessment)]
    state_matches = [match for match in passive_matches if not match.fact.key.startswith(EVENT_KEY_PREFIXES)]
    # What can be read again most easily comes first: states, then events, then results of exclusive checks.
    chosen_matches = state_matches or passive_matches or matches
    boot_id = _find_boot_id(facts)
    persistence: FaultPersistence = "proved"
    if _is_unreachable_fault(host_assessment, leaf):
        persistence = "silence"
    elif state_matches:
        persistence = "read"
    elif passive_matches and boot_id:
        persistence = "boot"
    return FaultCondition(
        label=remediation.label,
        host=remediation.target,
        says=chosen_matches[0].says if chosen_matches else leaf.title,
        keys=tuple(dict.fromkeys(match.fact.key for match in chosen_matches)),
        devices=remediation.devices,
        checks=tuple(dict.fromkeys(match.fact.check for match in chosen_matches)),
        boot_id="" if persistence == "read" else boot_id,  # a state is read again in any boot; the action records its host's boot id
        lasts=persistence,
        reads=MIN_CLEAN_READS if state_matches else 1,
    )


def _list_deciding_matches(remediation: Remediation, host_assessment: Assessment) -> list[ClueMatch]:
    """Return the matches that prove the cause on the target, without those of facts that a tenant could forge."""
    matches: list[ClueMatch] = []
    for belief in host_assessment.by_label.get(remediation.label, ()):
        if not can_concern_devices(remediation.devices, belief.subject.named_devices):
            continue
        for match in belief.deciding:
            if match.fact.host == remediation.target and not is_tenant_writable(match.fact.key):
                matches.append(match)
    return matches


def _is_from_passive_check(match: ClueMatch, host_assessment: Assessment) -> bool:
    check = host_assessment.reference.checks.get(match.fact.check)
    return check is not None and not check.exclusive


def _find_boot_id(facts: Sequence[Fact]) -> str:
    for fact in reversed(facts):
        if fact.key == "host.boot_id" and fact.value:
            return str(fact.value)
    return ""


def _is_unreachable_fault(host_assessment: Assessment, leaf: Leaf) -> bool:
    return REACHABILITY_KEY in host_assessment.reference.list_decisive_keys(leaf) and not host_assessment.coverage.observed_keys


def is_contradicted(remediation: Remediation, host_assessment: Assessment) -> bool:
    """Return whether facts deny the cause. A failed observation never does."""
    return remediation.fault is not None and judge_fault(remediation.fault, host_assessment).answer == "gone"


def judge_fault(fault: FaultCondition, host_assessment: Assessment) -> CausePresence:
    """Judge a fault by the facts of its host. It does not count as gone if a check that showed it could not run."""
    leaf = host_assessment.reference.taxonomy.leaves.get(fault.label)
    if leaf is None:
        return CausePresence("unseen", f"the taxonomy knows no {fault.label}")
    presence = assess_presence(leaf, fault.devices, host_assessment)
    if presence.answer != "gone":
        return presence
    unobserved_checks = host_assessment.coverage.unobserved
    for check in fault.checks:
        if (fault.host, check) in unobserved_checks:
            return CausePresence("unseen", f"{check}: {unobserved_checks[fault.host, check]}")
    return presence
