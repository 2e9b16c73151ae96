"""Describe an action in fixed words from the catalogue, its checked arguments and the record. No model text."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from bot.cards.text import Line, Part, bold, escape_ambiguous, exact_code
from tools.action import Action, FaultCondition
from tools.inventory.host_ranges import BadRange, expand_host_range, fold_host_names
from tools.ledger.record import ActionRecord, list_targets
from tools.ledger.states import OPEN_STATES, State
from tools.remedies import REMEDIES, get_executed_remedy
from tools.remedies.remedy import Remedy, fill_slots

STATE_MARKS: Mapping[State, str] = {
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
STATE_HEADLINES: Mapping[State, str] = {
    State.PENDING: "Approve?",
    State.APPROVED: "Approved:",
    State.EXECUTING: "Running:",
    State.DONE: "Ran, being verified:",
    State.FAILED: "Did not work:",
    State.UNKNOWN: "Unknown whether it ran:",
    State.DENIED: "Rejected:",
    State.EXPIRED: "Expired:",
    State.SUPERSEDED: "Superseded:",
    State.REVOKED: "Revoked:",
}


class EndingText(NamedTuple):
    """Mark, headline start and row word of an ended action."""

    mark: str
    head: str
    row: str


DONE_TEXT = EndingText("✅", "Done:", "done")
REFUSED_TEXT = EndingText("⛔", "Refused, nothing was run:", "refused")
# Headline, row and count share these, so that one card never contradicts itself.
ENDING_TEXTS: Mapping[tuple[State, str], EndingText] = {
    (State.DONE, "passes_now"): EndingText("✅", "Passes now:", "passes now"),
    (State.DONE, "unchanged"): EndingText("🟡", "Ran, unchanged:", "unchanged"),
    (State.DONE, "worse"): EndingText("🔴", "Ran, worse:", "worse"),
    (State.DONE, "cured"): EndingText("✅", "Cured:", "cured"),
    (State.DONE, "recurred"): EndingText("🔴", "Recurred:", "recurred"),
    (State.FAILED, "passes_now"): EndingText("🟡", "Failed, and passes now:", "failed, passes now"),
    (State.FAILED, "unchanged"): EndingText("❌", "Failed, unchanged:", "failed, unchanged"),
    (State.FAILED, "worse"): EndingText("🔴", "Failed, worse:", "failed, worse"),
    (State.FAILED, "cured"): EndingText("✅", "Failed, and yet cured:", "failed, cured"),
    (State.FAILED, "recurred"): EndingText("🔴", "Recurred:", "recurred"),
}

LOST_CONTACT_TEXT = ("📡", "Lost contact:")  # For a running action whose host does not answer.
# For a row among others.
STATE_WORDS: Mapping[State, str] = {
    **{state: state.value for state in State},
    State.EXECUTING: "running",
    State.DONE: "ran, being verified",
    State.DENIED: "rejected",
    State.REVOKED: "revoked",
}

PROOF_TEXTS: Mapping[str, str] = {
    "passes_now": "The checks that found the fault no longer report it. Re-check after the next job or in some hours.",
    "unchanged": "The fault is still there.",
    "worse": "More is wrong than before. The target stays out of service.",
    "cured": "Re-checked later: the fault has not come back.",
    "recurred": "Re-checked later: the fault came back.",
}
# For actions proved by the scheduler.
SCHEDULER_PROOF_TEXTS: Mapping[str, str] = {"passes_now": "The scheduler shows it.", "unchanged": "The scheduler does not show it."}


def _find_remedy(action: Action) -> Remedy | None:
    """Return the executed remedy; None if the catalogue no longer has it."""
    return get_executed_remedy(action.argv, action.remedy) if action.remedy in REMEDIES else None


def describe_action(action: Action) -> str:
    """Return the catalogue's sentence with this action's arguments."""
    remedy = _find_remedy(action)
    if remedy is None:
        return escape_ambiguous(action.remedy)
    values = {name: escape_ambiguous(action.args.get(name, "")) for name in remedy.args} | {"target": escape_ambiguous(action.target)}
    return fill_slots(remedy.does, values)


def get_action_title(action: Action) -> str:
    """Return the catalogue's sentence without arguments."""
    remedy = _find_remedy(action)
    if remedy is None:
        return escape_ambiguous(action.remedy)
    return fill_slots(
        remedy.does, {"target": "the node"} | dict.fromkeys(remedy.args, "…") | ({"node": "the node"} if "node" in remedy.args else {})
    )


def render_impact(record: ActionRecord) -> list[Line]:
    """Render the expected outage and the cost of waiting; empty for an ended action."""
    remedy = _find_remedy(record.action)
    if remedy is None or record.state not in OPEN_STATES:
        return []
    waiting_lines: list[Line] = [(bold("Until it is approved:"), f" {remedy.waiting}.")] if record.state is State.PENDING else []
    return [(bold("Outage:"), f" {remedy.outage}."), *waiting_lines]


def format_time_limit(action: Action) -> str:
    """Return `60 s`, or `60 s, then back within 15 min` for a reboot."""
    remedy = _find_remedy(action)
    back = remedy.completion.seconds if remedy is not None and remedy.completion.kind == "new_boot" else 0
    return f"{action.limit_seconds} s" + (f", then back within {back // 60} min" if back else "")


def describe_actions(actions: Sequence[Action]) -> str:
    """Describe several actions of one remedy: hosts folded, `…` for differing arguments."""
    remedy = _find_remedy(actions[0])
    if remedy is None or len({action.argv[:1] for action in actions}) > 1:
        remedy = REMEDIES.get(actions[0].remedy)
    if remedy is None or len(actions) == 1:
        return describe_action(actions[0])
    values_by_name = {name: {escape_ambiguous(action.args.get(name, "")) for action in actions} for name in remedy.args}
    values = {name: values.pop() if len(values) == 1 else "…" for name, values in values_by_name.items()}
    hosts = escape_ambiguous(fold_hosts_exactly([action.target for action in actions]))
    return fill_slots(remedy.does, values | {"target": hosts} | ({"node": hosts} if "node" in values else {}))


def describe_blast_radius(action: Action) -> str:
    remedy = _find_remedy(action)
    return remedy.blast if remedy else "unknown: this remedy is no longer in the catalogue"


def format_targets(action: Action) -> str:
    return fold_hosts_exactly(list_targets(action)) or action.target


def fold_hosts_exactly(names: Sequence[str]) -> str:
    """Fold host names if that unfolds to exactly the same set; else join them."""
    try:
        short = fold_host_names(names)
        return short if len(names) > 1 and set(expand_host_range(short)) == set(names) else ",".join(names)
    except BadRange:
        return ",".join(names)


def render_place(action: Action) -> Line:
    """Render hosts, devices and `via`, whole."""
    count = len(list_targets(action))
    parts: list[Part] = [f"{count} hosts: " if count > 1 else "", exact_code(format_targets(action))]
    for device in action.devices:
        parts += [" · ", exact_code(device)]
    if action.via != action.target:
        parts += [" · runs via ", exact_code(action.via)]
    return tuple(parts)


def get_state_headline(record: ActionRecord, held: str = "") -> tuple[str, str]:
    """Return (mark, headline start). `held`: why it waits, or that its host does not answer."""
    if record.state is State.EXECUTING and held:
        return LOST_CONTACT_TEXT
    ended = find_ending(record)
    return (ended.mark, ended.head) if ended else (STATE_MARKS[record.state], STATE_HEADLINES[record.state])


def find_ending(record: ActionRecord) -> EndingText | None:
    """Return the ending text where the state alone does not say it."""
    if is_refused(record):
        return REFUSED_TEXT
    if (record.state, record.outcome) == (State.DONE, "passes_now") and not is_repair(record.action):
        return DONE_TEXT
    return ENDING_TEXTS.get((record.state, record.outcome))


def get_state_word(record: ActionRecord, held: str = "") -> tuple[str, str]:
    """Return (mark, one or two words) for a row."""
    ended = find_ending(record)
    if ended:
        return ended.mark, ended.row
    if record.state is State.EXECUTING and held:
        return LOST_CONTACT_TEXT[0], "lost contact"
    return STATE_MARKS[record.state], "waits" if record.state is State.APPROVED and held else STATE_WORDS[record.state]


def is_refused(record: ActionRecord) -> bool:
    """Return whether an approved action did not run because something had changed. The host needs no check."""
    kit = record.state is State.FAILED and record.exit_status is None and not record.ended_by
    return kit or (record.state is State.SUPERSEDED and record.start_by is not None)


def describe_outcome(record: ActionRecord) -> str:
    """Return the proof's result as a sentence; empty without one."""
    if record.action.remedy == "run_check" and record.outcome:
        return "The check has answered; the diagnosis uses its output."
    return (PROOF_TEXTS if is_repair(record.action) else {**PROOF_TEXTS, **SCHEDULER_PROOF_TEXTS})[record.outcome] if record.outcome else ""


def describe_proof(action: Action) -> str:
    if not action.proof:
        return "not applicable, its output is the answer"
    if not is_repair(action):
        return "the scheduler shows the change"
    checks = ", ".join(action.proof)
    return f"{checks} without the fault" if action.proves else checks


def is_repair(action: Action) -> bool:
    """Return whether the action is to remove a fault: not a check, not a scheduler change."""
    return action.remedy != "run_check" and action.proof != ("sched",)


def format_headline(record: ActionRecord, held: str = "") -> str:
    """Return the headline. It may be cut, so the card repeats it whole."""
    mark, begins = get_state_headline(record, held)
    return f"{mark} {begins} {summarize_action(record.action)}"


def format_short_headline(record: ActionRecord, held: str = "") -> str:
    """Return the headline without the risk."""
    mark, begins = get_state_headline(record, held)
    description, place = describe_action(record.action), escape_ambiguous(format_targets(record.action))
    return f"{mark} {begins} {description}" if place in description else f"{mark} {begins} {description}, {place}"


def summarize_action(action: Action) -> str:
    """Return what it does, on which host and device, and its risk."""
    names = [escape_ambiguous(name.removeprefix(f"{action.target}/")) for name in action.devices]
    devices = f" {', '.join(names[:4])}{' …' if len(names) > 4 else ''}" if names else ""
    return f"{describe_action(action)} · {escape_ambiguous(format_targets(action))}{devices} · {action.risk}"


def describe_fault_condition(action: Action) -> str:
    """Return the fault as a condition, with its recheck; empty without a fault."""
    fault = action.fault
    if fault is None:
        return ""
    return f"the fault is still there: {fault.says} ({_describe_recheck(fault)})"


def describe_fault_briefly(action: Action) -> str:
    """Return the fault and its recheck, without the condition's words."""
    return f"{action.fault.says} ({_describe_recheck(replace(action.fault, reads=1))})" if action.fault else ""


def _describe_recheck(found: FaultCondition) -> str:
    checks_note = f" by {', '.join(map(escape_ambiguous, found.checks))}" if found.checks else ""
    return {
        "read": (checks_note.strip() or "read again") + (f", up to {found.reads} times" if found.reads > 1 else ""),
        "boot": f"reported{checks_note}; valid for boot {escape_ambiguous(found.boot_id[:8])}",
        "silence": f"{escape_ambiguous(found.host)} still does not answer",
        "proved": f"proved{checks_note}; read again only if the host has changed",
    }[found.lasts]


def _get_undo_title(action: Action, host: str) -> str:
    remedy = REMEDIES.get(action.undo)
    if remedy is None:
        return escape_ambiguous(action.undo)
    return fill_slots(remedy.does, {"target": host} | dict.fromkeys(remedy.args, "…") | ({"node": host} if "node" in remedy.args else {}))


def describe_undo(action: Action, *, each: bool = False) -> str:
    """Return the undo remedy, the manual undo, or `none`."""
    if action.undo:
        return f"{_get_undo_title(action, 'each node' if each else escape_ambiguous(format_targets(action)))} (proposed automatically after the repair)"
    remedy = REMEDIES.get(action.remedy)
    back = remedy.back.replace("`", "") if remedy else ""
    if not back:
        return "none"
    return back if back.startswith("nothing") else f"by hand: {back}"
