"""The fault as a condition of its remedies: what a diagnosis rests on, which rungs need it to be there still, and what contradicts it. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from graph.engine.age import EVENTS
from graph.engine.assess import Assessment
from graph.engine.reference import is_text
from graph.engine.shown import Presence, concerns, shown
from graph.state import Ladder, Rung
from kb.taxonomy.labels import Leaf
from tools.action import FaultCondition, Lasts
from tools.fact import Fact
from tools.remedies import REMEDIES

CLEAN_READS = 3
"""Readings without it after which a fault is gone. Whether one comes and goes cannot be told by a look that showed it; a diagnosis looks
three times before it calls machines healthy, and what was found is not called gone on less."""

SILENCE = "host.reachable"
"""The key of a fault that consists in not answering."""

NEEDS_NO_FAULT: Mapping[str, str] = {
    "resume_node": "it takes a drain back; it is offered where the fault shows no more",
    "run_check": "it only looks",
}
"""Remedies that are right without a fault, and why."""


def guard_of(ladder: Ladder) -> FaultCondition | None:
    """What must still be there for the present rung to start; None where that is not asked of it."""
    rung = ladder.now
    if rung is None or ladder.fault is None or rung.remedy in NEEDS_NO_FAULT or treated(ladder):
        return None
    own = tuple(name for name in rung.devices if name in ladder.fault.devices)
    return replace(ladder.fault, devices=own) if own else ladder.fault


def treated(ladder: Ladder) -> bool:
    """Whether an earlier rung has changed what the present one is about: then what shows is no measure, and the proof has decided to go on."""
    rung = ladder.now
    return rung is not None and any(_touched(row, ladder) and concerns(rung.devices, row.devices) for row in ladder.rungs[: ladder.rung])


def _touched(rung: Rung, ladder: Ladder) -> bool:
    """A fix counts once one was claimed; a step that only counts from a later one on, by having been passed."""
    return (rung.part == "fix" and ladder.since is not None) or (rung.part == "prepare" and bool(REMEDIES[rung.remedy].then))


def rests_on(ladder: Ladder, alone: Assessment, facts: Sequence[Fact]) -> FaultCondition:
    """What the ladder's cause rests on, by all that its host says: `alone` is the assessment of these `facts` and no other host's."""
    leaf = alone.lens.taxonomy.leaves[ladder.label]
    rows = [row for row in alone.by_label.get(ladder.label, ()) if concerns(ladder.devices, row.subject.named)]
    matches = [match for row in rows for match in row.deciding if match.fact.host == ladder.target and not is_text(match.fact.key)]
    passive = [match for match in matches if (check := alone.lens.checks.get(match.fact.check)) and not check.exclusive]
    states = [match for match in passive if not match.fact.key.startswith(EVENTS)]
    decided = states or passive or matches
    telling = [match.fact for match in decided]
    boot = next((str(fact.value) for fact in reversed(facts) if fact.key == "host.boot_id" and fact.value), "")
    lasts: Lasts = "silence" if _silent(alone, leaf) else "read" if states else "boot" if passive and boot else "proved"
    return FaultCondition(
        label=ladder.label,
        host=ladder.target,
        says=decided[0].says if decided else leaf.title,
        keys=tuple(dict.fromkeys(fact.key for fact in telling)),
        devices=ladder.devices,
        checks=tuple(dict.fromkeys(fact.check for fact in telling)),
        boot_id="" if lasts == "read" else boot,  # a state is read anew in whatever boot; the action names the boot of its host
        lasts=lasts,
        reads=CLEAN_READS if states else 1,
    )


def _silent(alone: Assessment, leaf: Leaf) -> bool:
    """Whether not answering is itself the fault, and the host does not."""
    return SILENCE in alone.lens.decisive_keys(leaf) and not alone.coverage.observed


def contradicted(ladder: Ladder, alone: Assessment) -> bool:
    """Whether what the host says now denies the cause. Not having been able to look never does."""
    return ladder.fault is not None and judged(ladder.fault, alone).answer == "gone"


def judged(fault: FaultCondition, alone: Assessment) -> Presence:
    """The verdict on a fault by all that its host says. Where a check that told it could not look, it is not gone."""
    leaf = alone.lens.taxonomy.leaves.get(fault.label)
    if leaf is None:
        return Presence("unseen", f"the taxonomy knows no {fault.label}")
    seen = shown(leaf, fault.devices, alone)
    blind = next(
        (f"{check}: {alone.coverage.blind[fault.host, check]}" for check in fault.checks if (fault.host, check) in alone.coverage.blind), ""
    )
    return Presence("unseen", blind) if seen.answer == "gone" and blind else seen
