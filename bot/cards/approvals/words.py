"""An action in words, all of them ours: from the catalogue of remedies, its checked arguments and the ledger's record. Nothing a model wrote."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from bot.cards.text import Line, Part, bold, exact, exact_code
from tools.action import Action, FaultCondition
from tools.inventory.ranges import BadRange, expand, fold
from tools.ledger.record import Record, targets_of
from tools.ledger.states import OPEN, State
from tools.remedies import REMEDIES, carried_out
from tools.remedies.row import Remedy, fill

MARKS: Mapping[State, str] = {
    State.PENDING: "✋",
    State.APPROVED: "⏳",
    State.EXECUTING: "🔧",
    State.DONE: "🔎",
    State.FAILED: "❌",
    State.UNKNOWN: "❓",
    State.DENIED: "🚫",
    State.EXPIRED: "⌛",
    State.SUPERSEDED: "🔁",
    State.REVOKED: "🚫",
}
HEADS: Mapping[State, str] = {
    State.PENDING: "Approve?",
    State.APPROVED: "Approved:",
    State.EXECUTING: "Running:",
    State.DONE: "Ran, being proved:",
    State.FAILED: "Did not work:",
    State.UNKNOWN: "Nobody knows whether it ran:",
    State.DENIED: "Rejected:",
    State.EXPIRED: "Expired:",
    State.SUPERSEDED: "Superseded:",
    State.REVOKED: "Revoked:",
}


class Ended(NamedTuple):
    """How an action that ran is told: its mark, how the headline begins, and what its row among others says."""

    mark: str
    head: str
    row: str


DONE = Ended("✅", "Done:", "done")
REFUSED = Ended("⛔", "Refused, nothing was run:", "refused")
ENDINGS: Mapping[tuple[State, str], Ended] = {
    (State.DONE, "passes_now"): Ended("✅", "Passes now:", "passes now"),
    (State.DONE, "unchanged"): Ended("🟡", "Ran, unchanged:", "unchanged"),
    (State.DONE, "worse"): Ended("🔴", "Ran, worse:", "worse"),
    (State.DONE, "cured"): Ended("✅", "Cured:", "cured"),
    (State.DONE, "recurred"): Ended("🔴", "Recurred:", "recurred"),
    (State.FAILED, "passes_now"): Ended("🟡", "Failed, and passes now:", "failed, passes now"),
    (State.FAILED, "unchanged"): Ended("❌", "Failed, unchanged:", "failed, unchanged"),
    (State.FAILED, "worse"): Ended("🔴", "Failed, worse:", "failed, worse"),
    (State.FAILED, "cured"): Ended("✅", "Failed, and yet cured:", "failed, cured"),
    (State.FAILED, "recurred"): Ended("🔴", "Recurred:", "recurred"),
}
"""What the command and its proof say together, told alike by headline, row and count: one card has one truth."""

LOST = ("📡", "Lost contact:")
"""Of a running action whose host does not answer."""
WORDS: Mapping[State, str] = {
    **{state: state.value for state in State},
    State.EXECUTING: "running",
    State.DONE: "ran, being proved",
    State.DENIED: "rejected",
    State.REVOKED: "taken back",
}
"""Where an action stands, for a row among others."""

PROOFS: Mapping[str, str] = {
    "passes_now": "The checks that found the fault find it no more. It is looked at again after the next job or some hours.",
    "unchanged": "The fault is still there.",
    "worse": "There is more wrong than before. The target is not returned to service.",
    "cured": "Looked at again later: the fault has not come back.",
    "recurred": "Looked at again later: the fault came back.",
}
SCHEDULED: Mapping[str, str] = {"passes_now": "The scheduler shows it.", "unchanged": "The scheduler does not show it."}
"""Where the proof is what the scheduler says."""


def _row(action: Action) -> Remedy | None:
    """What is carried out; None where the catalogue has no such remedy any more."""
    return carried_out(action.argv, action.remedy) if action.remedy in REMEDIES else None


def does(action: Action) -> str:
    """What the catalogue says that it does, with this action's arguments."""
    remedy = _row(action)
    if remedy is None:
        return exact(action.remedy)
    values = {name: exact(action.args.get(name, "")) for name in remedy.args} | {"target": exact(action.target)}
    return fill(remedy.does, values)


def title(action: Action) -> str:
    """Return what the catalogue calls it, without this action's arguments."""
    remedy = _row(action)
    if remedy is None:
        return exact(action.remedy)
    return fill(
        remedy.does, {"target": "the node"} | dict.fromkeys(remedy.args, "…") | ({"node": "the node"} if "node" in remedy.args else {})
    )


def impact(record: Record) -> list[Line]:
    """The expected outage, and what goes on as long as the action is not approved. Nothing for an action that has ended."""
    remedy = _row(record.action)
    if remedy is None or record.state not in OPEN:
        return []
    waits: list[Line] = [(bold("Until it is approved:"), f" {remedy.waiting}.")] if record.state is State.PENDING else []
    return [(bold("Outage:"), f" {remedy.outage}."), *waits]


def time_limit(action: Action) -> str:
    """`60 s`; for what restarts the node, how long it may stay away after that: `60 s, then back within 15 min`."""
    remedy = _row(action)
    back = remedy.completion.seconds if remedy is not None and remedy.completion.kind == "new_boot" else 0
    return f"{action.limit_seconds} s" + (f", then back within {back // 60} min" if back else "")


def does_each(actions: Sequence[Action]) -> str:
    """The same for several actions of one remedy: the hosts folded, and `…` where an argument is each one's own."""
    remedy = _row(actions[0])
    if remedy is None or len({action.argv[:1] for action in actions}) > 1:
        remedy = REMEDIES.get(actions[0].remedy)
    if remedy is None or len(actions) == 1:
        return does(actions[0])
    said = {name: {exact(action.args.get(name, "")) for action in actions} for name in remedy.args}
    values = {name: found.pop() if len(found) == 1 else "…" for name, found in said.items()}
    hosts = exact(folded([action.target for action in actions]))
    return fill(remedy.does, values | {"target": hosts} | ({"node": hosts} if "node" in values else {}))


def blast(action: Action) -> str:
    """Whom it disturbs."""
    remedy = _row(action)
    return remedy.blast if remedy else "not known: the catalogue has no such remedy any more"


def targets(action: Action) -> str:
    """The host, or its hosts folded."""
    return folded(targets_of(action)) or action.target


def folded(names: Sequence[str]) -> str:
    """Hosts in a few characters where that says exactly the same, else one after the other."""
    try:
        short = fold(names)
        return short if len(names) > 1 and set(expand(short)) == set(names) else ",".join(names)
    except BadRange:
        return ",".join(names)


def place(action: Action) -> Line:
    """`gpu-017` · `gpu-017/gpu5` · via `slurm-1`, whole."""
    count = len(targets_of(action))
    parts: list[Part] = [f"{count} hosts: " if count > 1 else "", exact_code(targets(action))]
    for device in action.devices:
        parts += [" · ", exact_code(device)]
    if action.via != action.target:
        parts += [" · runs via ", exact_code(action.via)]
    return tuple(parts)


def state_of(record: Record, held: str = "") -> tuple[str, str]:
    """(mark, how the headline begins). `held`: why it waits, or that its host does not answer."""
    if record.state is State.EXECUTING and held:
        return LOST
    ended = ending(record)
    return (ended.mark, ended.head) if ended else (MARKS[record.state], HEADS[record.state])


def ending(record: Record) -> Ended | None:
    """How it ended, where that is told by more than its state."""
    if is_refused(record):
        return REFUSED
    if (record.state, record.outcome) == (State.DONE, "passes_now") and not mends(record.action):
        return DONE
    return ENDINGS.get((record.state, record.outcome))


def standing(record: Record, held: str = "") -> tuple[str, str]:
    """(mark, one or two words) for a row among others."""
    ended = ending(record)
    if ended:
        return ended.mark, ended.row
    if record.state is State.EXECUTING and held:
        return LOST[0], "lost contact"
    return MARKS[record.state], "waits" if record.state is State.APPROVED and held else WORDS[record.state]


def is_refused(record: Record) -> bool:
    """Approved, and not run all the same: something had changed when it was to start. Nobody needs to look at the host for that."""
    kit = record.state is State.FAILED and record.exit_status is None and not record.ended_by
    return kit or (record.state is State.SUPERSEDED and record.start_by is not None)


def proved(record: Record) -> str:
    """What the proof found, in a sentence; empty while there is none."""
    if record.action.remedy == "run_check" and record.outcome:
        return "The check has answered; what it says goes into the diagnosis."
    return (PROOFS if mends(record.action) else {**PROOFS, **SCHEDULED})[record.outcome] if record.outcome else ""


def proof(action: Action) -> str:
    """What will count as proof."""
    if not action.proof:
        return "none: what it prints is the answer"
    if not mends(action):
        return "the scheduler must show it"
    return f"{', '.join(action.proof)}{' without the fault' if action.proves else ''}"


def mends(action: Action) -> bool:
    """Whether it is to make a fault go away: it neither only looks nor only tells the scheduler something."""
    return action.remedy != "run_check" and action.proof != ("sched",)


def headline(record: Record, held: str = "") -> str:
    """What is read in five seconds. Cut by whoever shows it, so the card repeats it whole."""
    mark, begins = state_of(record, held)
    return f"{mark} {begins} {what(record.action)}"


def short_headline(record: Record, held: str = "") -> str:
    """The same without the risk, which stands beside it."""
    mark, begins = state_of(record, held)
    said, where = does(record.action), exact(targets(record.action))
    return f"{mark} {begins} {said}" if where in said else f"{mark} {begins} {said}, {where}"


def what(action: Action) -> str:
    """What it does, on which host and device, how risky."""
    names = [exact(name.removeprefix(f"{action.target}/")) for name in action.devices]
    devices = f" {', '.join(names[:4])}{' …' if len(names) > 4 else ''}" if names else ""
    return f"{does(action)} · {exact(targets(action))}{devices} · {action.risk}"


def fault(action: Action) -> str:
    """What it is for, as the condition that it is: what decided, and how it is looked for again. Empty where nothing is asked of it."""
    found = action.fault
    if found is None:
        return ""
    return f"the fault is still there: {found.says} ({_how(found)})"


def still(action: Action) -> str:
    """The same in short, where nothing else is asked."""
    return f"{action.fault.says} ({_how(replace(action.fault, reads=1))})" if action.fault else ""


def _how(found: FaultCondition) -> str:
    """How it is looked for again."""
    told = f" by {', '.join(map(exact, found.checks))}" if found.checks else ""
    return {
        "read": f"read again{told}" + (f", up to {found.reads} times" if found.reads > 1 else ""),
        "boot": f"told{told}; stands for boot {exact(found.boot_id[:8])}",
        "silence": f"{exact(found.host)} still does not answer",
        "proved": f"as it was proved{told}",
    }[found.lasts]


def _undo_title(action: Action, host: str) -> str:
    """The title of the remedy that takes it back."""
    remedy = REMEDIES.get(action.undo)
    if remedy is None:
        return exact(action.undo)
    return fill(remedy.does, {"target": host} | dict.fromkeys(remedy.args, "…") | ({"node": host} if "node" in remedy.args else {}))


def undo(action: Action, *, each: bool = False) -> str:
    """What takes it back: a remedy of its own, or what a person would do by hand, or nothing."""
    if action.undo:
        return f"{_undo_title(action, 'each node' if each else exact(targets(action)))} (proposed automatically after the repair)"
    remedy = REMEDIES.get(action.remedy)
    back = remedy.back.replace("`", "") if remedy else ""
    if not back:
        return "none"
    return back if back.startswith("nothing") else f"by hand: {back}"
