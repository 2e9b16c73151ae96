"""What a remedy changed: the engine's view of the target before and after. Pure.

`passes_now` needs that what decides for the label was looked at and does not show it. Not being able to look is never a pass.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from graph.engine.after_repairs import after_repairs, skews_of
from graph.engine.assess import Assessment, assess
from graph.engine.reference import Lens
from graph.engine.shown import shown
from graph.ladders.build import SCOPES
from tools.acting.conditions import filled
from tools.action import Action, Condition
from tools.fact import Fact
from tools.ledger.record import Outcome
from tools.remedies import REMEDIES, WAYS
from tools.remedies.readings import KUBE_CORDONED, KUBE_EMPTY, KUBE_SCHEDULABLE


@dataclass(frozen=True, slots=True)
class Proof:
    """The outcome and the reason in one sentence. `new` are labels proven now that were not before."""

    outcome: Outcome
    says: str
    new: tuple[str, ...] = ()
    looked: bool = True
    """False where nobody could look: that is no proof of anything."""


IN_SERVICE = "idle*|mixed*|allocated*|completing*|planned*|reserved*"
SCHEDULER: Mapping[str, Condition] = {
    "drain_node": Condition("controller", "the node takes no new jobs", ("sinfo", "-h", "-N", "-n", "{node}", "-o", "%T"), "drain*|inval*"),
    "resume_node": Condition("controller", "the node is in service", ("sinfo", "-h", "-N", "-n", "{node}", "-o", "%T"), IN_SERVICE),
    "cancel_job": Condition("controller", "the job has ended", ("squeue", "-h", "-j", "{job}", "-o", "%T"), "|COMPLETING|CANCELLED"),
    "cordon_node": KUBE_CORDONED,
    "uncordon_node": KUBE_SCHEDULABLE,
    "evict_pods": KUBE_EMPTY,
}
"""What the scheduler must say after a remedy that it carries out, by the row that was carried out."""

ANSWERS: Mapping[str, str] = {"restart_container": "container.nvml"}
"""What each treated device itself must have told afterwards: of many containers only some are asked, and one that ended says nothing."""


def asked_of_scheduler(action: Action) -> Condition | None:
    """The reading that proves the action, where a scheduler proves it."""
    way = action.argv[0] if action.argv and action.argv[0] in WAYS else action.remedy
    row = SCHEDULER.get(way)
    return filled(row, action.args) if row else None


def checks_for(action: Action, lens: Lens) -> tuple[str, ...]:
    """What is looked at: the proof that was approved, and every passive check that can decide for the label."""
    leaf = lens.taxonomy.leaves.get(action.proves)
    deciding = [check.id for check in lens.deciding(leaf)] if leaf else []
    return tuple(dict.fromkeys(name for name in (*action.proof, *deciding) if name in lens.checks))


def prove(action: Action, before: Sequence[Fact], after: Sequence[Fact], lens: Lens, since: datetime) -> Proof:
    """The verdict on the action's label on its target. Only what happened after `since` counts."""
    target = action.target
    seen = [fact for fact in after_repairs(after, {target: since}, skews_of([*before, *after])) if fact.host == target]
    if not any(not fact.status.blind for fact in seen):
        return Proof("worse", f"{target} does not answer: {seen[0].line if seen else 'nothing could be looked at'}", looked=False)
    was = assess([fact for fact in before if fact.host == target], lens, [target])
    now = assess(seen, lens, [target])
    if lost := _fewer_gpus(before, seen, target):
        return Proof("worse", lost)
    if new := _new_roots(action, was, now, lens):
        return Proof("worse", f"new on {target}: {', '.join(lens.taxonomy.title(label) for label in new)}", new)
    if silent := _silent(action, seen):
        return Proof("unchanged", f"could not be proved: {silent} gave no answer", looked=False)
    return _label(action, now, lens)


def _silent(action: Action, seen: Sequence[Fact]) -> str:
    """The first treated device that should have answered, and did not."""
    key = ANSWERS.get(action.remedy, "")
    told = {f"{fact.host}/{fact.device}" for fact in seen if fact.key == key and not fact.status.blind}
    return next((device for device in action.devices if key and device not in told), "")


def _fewer_gpus(before: Sequence[Fact], after: Sequence[Fact], target: str) -> str:
    had, has = (_gpus(rows, target) for rows in (before, after))
    return f"nvidia-smi sees {has} GPUs of {target}, it saw {had}" if had is not None and has is not None and has < had else ""


def _gpus(facts: Sequence[Fact], target: str) -> int | None:
    counts = [fact.value for fact in facts if fact.host == target and fact.key == "gpu.count" and isinstance(fact.value, int)]
    return counts[-1] if counts else None


def _new_roots(action: Action, was: Assessment, now: Assessment, lens: Lens) -> tuple[str, ...]:
    """Proven of the host now and not before. What was proven then, though another cause explained it, is not new; our own label is judged by
    itself; and what is wrong with a job, a switch or the storage, no remedy of a host has done: the next run of the job meets it again."""
    known = {(row.label, row.subject) for row in was.rows if row.proven} | {(action.proves, row.subject) for row in now.roots}
    own = [row for row in now.roots if lens.taxonomy.leaves[row.label].scope in SCOPES]
    return tuple(dict.fromkeys(row.label for row in own if (row.label, row.subject) not in known))


def _label(action: Action, now: Assessment, lens: Lens) -> Proof:
    leaf = lens.taxonomy.leaves.get(action.proves)
    if leaf is None:
        return Proof("passes_now", "the command succeeded")
    seen = shown(leaf, action.devices, now)
    match seen.answer:
        case "shown":
            later = REMEDIES[action.remedy].then if action.remedy in REMEDIES else ""
            return Proof("unchanged", f"as expected, it counts from {later} on" if later else f"still there: {seen.says}")
        case "likely":
            return Proof("unchanged", seen.says)
        case "unseen":
            return Proof("unchanged", f"could not be proved: {seen.says}", looked=False)
        case "gone":
            return Proof("passes_now", seen.says)
