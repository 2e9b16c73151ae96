"""The fault as a precondition of its remedies: what the diagnosis rests on, which steps need it, what contradicts it.
Pure.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from graph.engine.assessment import Assessment
from graph.engine.belief import Belief
from graph.engine.fact_history import EVENT_KEY_PREFIXES
from graph.engine.reference_data import is_tenant_writable
from graph.engine.verdict import MIN_SUSPICION_POSTERIOR
from graph.state import Remediation, RemediationStep
from kb.taxonomy.taxonomy import Leaf
from tools.action import FaultCondition, FaultPersistence
from tools.fact import Fact
from tools.remedies import REMEDIES

# Whether a host shows a cause, is rid of it, or is unobserved; used by proofs and before a claim.


@dataclass(frozen=True, slots=True)
class CausePresence:
    """The answer and its reason in words.

    `shown`: a fact decides for it; `likely`: facts support it; `gone`: observed, and nothing shows it; `unseen`:
    unobserved.
    """

    answer: Literal["shown", "likely", "gone", "unseen"]
    says: str


def assess_presence(leaf: Leaf, devices: Sequence[str], assessment: Assessment) -> CausePresence:
    """Return the presence on the given devices (`host/gpuN`) of one host; without devices, on the whole host."""
    rows = [row for row in assessment.by_label.get(leaf.label, ()) if can_concern_devices(devices, row.subject.named_devices)]
    still = next((row for row in rows if row in assessment.roots), None) or next(
        (row for row in rows if row.proven or is_stated_by_host(row)), None
    )
    if still is not None:
        return CausePresence("shown", still.deciding[0].says)
    unobserved, _ = assessment.coverage.find_gaps(leaf)
    if unobserved:
        return CausePresence("unseen", unobserved[0])
    if not assessment.coverage.is_decidable(leaf):
        return CausePresence("unseen", "no check that was run can decide it")
    likely = next((row for row in rows if row.posterior >= MIN_SUSPICION_POSTERIOR and row.support), None)
    if likely is not None:
        return CausePresence("likely", f"still likely: {likely.support[0].says}")
    return CausePresence("gone", f"{leaf.title} no longer shows on {', '.join(devices) or ', '.join(assessment.hosts)}")


def is_stated_by_host(row: Belief) -> bool:
    """Ignore the posterior if the host itself reports a deciding fact: a lone host has no peers."""
    return any(not is_tenant_writable(match.fact.key) for match in row.deciding)


def can_concern_devices(devices: Sequence[str], named: Sequence[str]) -> bool:
    """Return whether two sets of devices overlap; an empty set is the whole host."""
    return not devices or not named or bool(set(named) & set(devices))


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
    own = tuple(name for name in step.devices if name in remediation.fault.devices)
    return replace(remediation.fault, devices=own) if own else remediation.fault


def is_target_treated(remediation: Remediation) -> bool:
    """An earlier step changed the target: the proof decided to continue, and what shows no longer counts."""
    step = remediation.current_step
    return step is not None and any(
        _has_taken_effect(row, remediation) and can_concern_devices(step.devices, row.devices)
        for row in remediation.rungs[: remediation.rung]
    )


def _has_taken_effect(step: RemediationStep, remediation: Remediation) -> bool:
    """A fix counts once claimed, a preparation with a later effect once passed."""
    return (step.part == "fix" and remediation.since is not None) or (step.part == "prepare" and bool(REMEDIES[step.remedy].then))


def build_fault_condition(remediation: Remediation, alone: Assessment, facts: Sequence[Fact]) -> FaultCondition:
    """Return what the cause rests on. `alone` assesses these `facts` of its host only."""
    leaf = alone.reference.taxonomy.leaves[remediation.label]
    rows = [row for row in alone.by_label.get(remediation.label, ()) if can_concern_devices(remediation.devices, row.subject.named_devices)]
    matches = [
        match for row in rows for match in row.deciding if match.fact.host == remediation.target and not is_tenant_writable(match.fact.key)
    ]
    passive = [match for match in matches if (check := alone.reference.checks.get(match.fact.check)) and not check.exclusive]
    states = [match for match in passive if not match.fact.key.startswith(EVENT_KEY_PREFIXES)]
    decided = states or passive or matches
    telling = [match.fact for match in decided]
    boot = next((str(fact.value) for fact in reversed(facts) if fact.key == "host.boot_id" and fact.value), "")
    lasts: FaultPersistence = (
        "silence" if _is_unreachable_fault(alone, leaf) else "read" if states else "boot" if passive and boot else "proved"
    )
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


def _is_unreachable_fault(alone: Assessment, leaf: Leaf) -> bool:
    return REACHABILITY_KEY in alone.reference.list_decisive_keys(leaf) and not alone.coverage.observed


def is_contradicted(remediation: Remediation, alone: Assessment) -> bool:
    """Return whether present facts deny the cause; a failed observation never does."""
    return remediation.fault is not None and judge_fault(remediation.fault, alone).answer == "gone"


def judge_fault(fault: FaultCondition, alone: Assessment) -> CausePresence:
    """Judge by the host's facts. It is not gone where a check that showed it could not look."""
    leaf = alone.reference.taxonomy.leaves.get(fault.label)
    if leaf is None:
        return CausePresence("unseen", f"the taxonomy knows no {fault.label}")
    presence = assess_presence(leaf, fault.devices, alone)
    unobserved_reason = next(
        (
            f"{check}: {alone.coverage.unobserved[fault.host, check]}"
            for check in fault.checks
            if (fault.host, check) in alone.coverage.unobserved
        ),
        "",
    )
    return CausePresence("unseen", unobserved_reason) if presence.answer == "gone" and unobserved_reason else presence
