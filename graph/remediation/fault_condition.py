"""The fault as a condition of its remedies: what a diagnosis rests on, which rungs need it to be there still, and what contradicts it. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from graph.engine.assessment import Assessment
from graph.engine.cause_presence import CausePresence, assess_presence, can_concern_devices
from graph.engine.event_age import EVENT_KEY_PREFIXES
from graph.engine.reference_data import is_tenant_writable
from graph.state import Remediation, RemediationStep
from kb.taxonomy.taxonomy import Leaf
from tools.action import FaultCondition, FaultPersistence
from tools.fact import Fact
from tools.remedies import REMEDIES

MIN_CLEAN_READS = 3
"""Readings without it after which a fault is gone. Whether one comes and goes cannot be told by a look that showed it; a diagnosis looks
three times before it calls machines healthy, and what was found is not called gone on less."""

REACHABILITY_KEY = "host.reachable"
"""The key of a fault that consists in not answering."""

FAULT_INDEPENDENT_REMEDIES: Mapping[str, str] = {
    "resume_node": "it takes a drain back; it is offered where the fault shows no more",
    "run_check": "it only looks",
}
"""Remedies that are right without a fault, and why."""


def get_step_precondition(ladder: Remediation) -> FaultCondition | None:
    """What must still be there for the present rung to start; None where that is not asked of it."""
    rung = ladder.current_step
    if rung is None or ladder.fault is None or rung.remedy in FAULT_INDEPENDENT_REMEDIES or is_target_treated(ladder):
        return None
    own = tuple(name for name in rung.devices if name in ladder.fault.devices)
    return replace(ladder.fault, devices=own) if own else ladder.fault


def is_target_treated(ladder: Remediation) -> bool:
    """Whether an earlier rung has changed what the present one is about: then what shows is no measure, and the proof has decided to go on."""
    rung = ladder.current_step
    return rung is not None and any(
        _has_taken_effect(row, ladder) and can_concern_devices(rung.devices, row.devices) for row in ladder.rungs[: ladder.rung]
    )


def _has_taken_effect(rung: RemediationStep, ladder: Remediation) -> bool:
    """A fix counts once one was claimed; a step that only counts from a later one on, by having been passed."""
    return (rung.part == "fix" and ladder.since is not None) or (rung.part == "prepare" and bool(REMEDIES[rung.remedy].then))


def build_fault_condition(ladder: Remediation, alone: Assessment, facts: Sequence[Fact]) -> FaultCondition:
    """What the ladder's cause rests on, by all that its host says: `alone` is the assessment of these `facts` and no other host's."""
    leaf = alone.lens.taxonomy.leaves[ladder.label]
    rows = [row for row in alone.by_label.get(ladder.label, ()) if can_concern_devices(ladder.devices, row.subject.named_devices)]
    matches = [
        match for row in rows for match in row.deciding if match.fact.host == ladder.target and not is_tenant_writable(match.fact.key)
    ]
    passive = [match for match in matches if (check := alone.lens.checks.get(match.fact.check)) and not check.exclusive]
    states = [match for match in passive if not match.fact.key.startswith(EVENT_KEY_PREFIXES)]
    decided = states or passive or matches
    telling = [match.fact for match in decided]
    boot = next((str(fact.value) for fact in reversed(facts) if fact.key == "host.boot_id" and fact.value), "")
    lasts: FaultPersistence = (
        "silence" if _is_unreachable_fault(alone, leaf) else "read" if states else "boot" if passive and boot else "proved"
    )
    return FaultCondition(
        label=ladder.label,
        host=ladder.target,
        says=decided[0].says if decided else leaf.title,
        keys=tuple(dict.fromkeys(fact.key for fact in telling)),
        devices=ladder.devices,
        checks=tuple(dict.fromkeys(fact.check for fact in telling)),
        boot_id="" if lasts == "read" else boot,  # a state is read anew in whatever boot; the action names the boot of its host
        lasts=lasts,
        reads=MIN_CLEAN_READS if states else 1,
    )


def _is_unreachable_fault(alone: Assessment, leaf: Leaf) -> bool:
    """Whether not answering is itself the fault, and the host does not."""
    return REACHABILITY_KEY in alone.lens.list_decisive_keys(leaf) and not alone.coverage.observed


def is_contradicted(ladder: Remediation, alone: Assessment) -> bool:
    """Whether what the host says now denies the cause. Not having been able to look never does."""
    return ladder.fault is not None and judge_fault(ladder.fault, alone).answer == "gone"


def judge_fault(fault: FaultCondition, alone: Assessment) -> CausePresence:
    """The verdict on a fault by all that its host says. Where a check that told it could not look, it is not gone."""
    leaf = alone.lens.taxonomy.leaves.get(fault.label)
    if leaf is None:
        return CausePresence("unseen", f"the taxonomy knows no {fault.label}")
    seen = assess_presence(leaf, fault.devices, alone)
    blind = next(
        (f"{check}: {alone.coverage.blind[fault.host, check]}" for check in fault.checks if (fault.host, check) in alone.coverage.blind), ""
    )
    return CausePresence("unseen", blind) if seen.answer == "gone" and blind else seen
