"""The parts of an approval card around its core: approvers, status, conditions, votes. Long texts are cut."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from bot.cards import blocks
from bot.cards.blocks import Block
from bot.cards.text import (
    BadId,
    Line,
    Part,
    bold,
    clip_text,
    code,
    escape_ambiguous,
    exact_code,
    format_slack_date,
    format_utc_time,
    italic,
    mention_group,
)
from bot.remediation.cards import action_text
from tools.checks import CHECKS
from tools.execution.conditions import ConditionResult
from tools.ledger.record import ActionRecord, list_requesters
from tools.ledger.states import OPEN_STATES, State

# The hosts that wait behind a card, and the button that releases the next wave after a failure.

LET_GO_ACTION_ID = "approval.let_go"
MAX_NAMED_HOSTS = 5
MAX_QUEUE_LINE_CHARS = 300


@dataclass(frozen=True, slots=True)
class QueuedHosts:
    """Hosts of the same cause that wait; the numbers are hosts."""

    waits: int
    begun: int  # Proposed so far.
    next: int  # Size of the next wave.
    # `wave`: the last one is not over. `allowance`: the brakes leave too little. `failed`: a person must look first.
    why: str
    failed: tuple[str, ...] = ()
    at: datetime | None = None  # When the allowance is back.


def parse_queue_note(text: str) -> QueuedHosts | None:
    """Parse a note of `WaveQueue.format_note`; None if nothing waits."""
    if not text:
        return None
    row = json.loads(text)
    at = datetime.fromisoformat(row["at"]) if row["at"] else None
    return QueuedHosts(row["waits"], row["begun"], row["next"], row["why"], tuple(row["failed"]), at)


def render_queue(queued: QueuedHosts | None, host_count: int, value: str) -> list[Block]:
    """Render `3 of 60 now · 57 wait` and the reason. `host_count`: hosts of the card; `value`: the button's value."""
    if queued is None:
        return []
    head = bold(f"{host_count} of {queued.begun + queued.waits} now · {queued.waits} wait{'s' if queued.waits == 1 else ''}")
    queue_block = blocks.clipped_section(("⏸ ", head, *_format_wait_reason(queued)), room=MAX_QUEUE_LINE_CHARS)
    return [queue_block, blocks.actions(_render_let_go_button(queued, value))] if queued.why == "failed" else [queue_block]


def _format_wait_reason(queued: QueuedHosts) -> Line:
    following = "the next" if queued.next == 1 else f"the next {queued.next}"
    if queued.why == "failed":
        return (f": needs a human, {len(queued.failed)} of the first {queued.begun} did not pass ({_format_failed_hosts(queued)})",)
    if queued.why == "wave":
        return (f": {following} when these are verified",)
    if queued.at is None:
        return (f": {following} when the brakes leave room",)
    return (f": {following} at {queued.at.astimezone(UTC):%H:%M} UTC, when the brakes leave room",)


def _format_failed_hosts(queued: QueuedHosts) -> str:
    rest = len(queued.failed) - MAX_NAMED_HOSTS
    return ", ".join(map(escape_ambiguous, queued.failed[:MAX_NAMED_HOSTS])) + (f" and {rest} more" if rest > 0 else "")


def _render_let_go_button(queued: QueuedHosts, value: str) -> Block:
    dialog_text = f"You checked {_format_failed_hosts(queued)} and want the same fix proposed on more hosts. Nothing runs yet: each host still needs approval."
    sure = blocks.confirm("Did you check the hosts?", dialog_text[:300], f"Propose {queued.next}", "Not now")
    return blocks.button(f"Propose the next {queued.next}", LET_GO_ACTION_ID, value, ask=sure)


NOBODY_MAY_APPROVE_TEXT = "No approver is configured for this action"
PeopleNames = Mapping[str, str]
MAX_CONDITIONS = 10
MAX_VOTES = 8
MAX_NAMED_PEOPLE = 5
MAX_LINE_CHARS = 400
CONDITION_MARKS: Mapping[bool | None, str] = {True: "✓", False: "✗", None: "?"}


def mention_approvers(group: str) -> tuple[Part, ...]:
    try:
        return (mention_group(group), " ") if group else ()
    except BadId:
        return ()


def render_decision_request(record: ActionRecord, group: str) -> Line:
    """Render the mention, deadline and quorum; empty unless pending."""
    if record.state is not State.PENDING:
        return ()
    if not record.terms.approvers:
        return (f"{NOBODY_MAY_APPROVE_TEXT}: the channel names no `approvers:` group in the inventory, or the group is empty.",)
    until: Line = ("decide by ", format_slack_date(record.decide_by), f" ({format_utc_time(record.decide_by)}) · ")
    return (*mention_approvers(group), *until, bold(format_approval_count(record)))


def format_approval_count(record: ActionRecord) -> str:
    """Return `1 of 2 approvals`."""
    return f"{record.approvals} of {record.terms.quorum} approval{'s' if record.terms.quorum != 1 else ''}"


def render_warning(warning: str) -> list[Block]:
    return [blocks.line_section("⚠ ", bold(warning))] if warning else []


def render_status(record: ActionRecord, names: PeopleNames, began: datetime | None, held: str) -> list[Block]:
    lines = render_status_lines(record, names, began, held)
    return [blocks.section(*lines)] if lines else []


def render_status_lines(record: ActionRecord, names: PeopleNames, began: datetime | None, held: str) -> list[Line]:
    """Render what happens next, or how the action ended."""
    sentence = replace_user_ids(record.says, names)
    state_lines: list[Line] = [(f"No longer true: {sentence}" if _is_condition_failure(record) else sentence,)] if sentence else []
    person_name = get_person_name(record.ended_by, names) if record.ended_by else ""
    match record.state:
        case State.APPROVED:
            start = record.start_by or record.decide_by
            waiting_lines: list[Line] = [("Waiting: ", held)] if held else []
            return [("Starts automatically, or expires at ", format_slack_date(start), f" ({format_utc_time(start)})."), *waiting_lines]
        case State.EXECUTING:
            since: Line = ("Running since ", format_slack_date(began), f" ({format_utc_time(began)}), ") if began else ("Running, ",)
            return [("📡 ", held)] if held else [(*since, f"for {action_text.format_time_limit(record.action)} at most.")]
        case State.DONE | State.FAILED:
            return [*_render_ended_lines(record, person_name), *state_lines]
        case State.UNKNOWN:
            return [*state_lines, *_render_host_check_lines(record)]
        case State.DENIED | State.REVOKED:
            verb = "rejected it" if record.state is State.DENIED else "revoked it"
            return [(bold(person_name or "A person"), f" {verb}{': ' + sentence if sentence else '.'}")]
        case State.EXPIRED | State.SUPERSEDED:
            return [*state_lines, ("Nothing was run.",)]
        case _:
            return []


def _is_condition_failure(record: ActionRecord) -> bool:
    """Return whether the host's kit refused because a precondition did not hold."""
    never_ran = record.state is State.FAILED and record.exit_status is None
    return never_ran and any(record.says.startswith(f"{condition.says}:") for condition in record.action.conditions)


def _render_ended_lines(record: ActionRecord, who: str) -> list[Line]:
    if who:
        outcome = "ran" if record.state is State.DONE else "did not run"
        return [(bold(who), f" checked the host and confirmed that it {outcome}.")]
    status = "" if record.exit_status is None else f" with exit status {record.exit_status}"
    has_run = record.state is State.DONE or record.exit_status is not None or record.outcome
    proof = action_text.describe_outcome(record) or ("Verification is running." if record.state is State.DONE else "")
    return [(f"The command ended{status}. " if has_run else "The command did not run. ", proof)]


def _render_host_check_lines(record: ActionRecord) -> list[Line]:
    host = exact_code(action_text.format_targets(record.action))
    return [
        (host, " stays locked until someone checks it and presses “It ran” or “It did not run” on its card."),
        ("The host's own record: ", code(f"sudo rackmedic-act settle {record.digest}")),
    ]


def render_output(tail: Sequence[str]) -> list[Block]:
    return [blocks.code_section(tail, width=200, limit=1800)] if tail else []


def render_conditions(record: ActionRecord, seen: Sequence[ConditionResult]) -> list[Block]:
    """Render the fault, then the conditions not known to hold. Met conditions are in the small print."""
    if record.state not in OPEN_STATES:
        return []
    fault = action_text.describe_fault_condition(record.action)
    still: list[Line] = [(f"• {fault}",)] if fault else []
    unmet = [render_condition(one) for one in seen if one.ok is not True]
    unseen = [] if seen else [(f"• {condition.says}",) for condition in record.action.conditions]
    lines = [*still, *unmet, *unseen]
    if not lines:
        return _render_check_commands(record)
    rest = len(lines) - MAX_CONDITIONS
    more: list[Line] = [(f"… and {rest} more",)] if rest > 0 else []
    if lines == still:
        return [
            *_render_check_commands(record),
            blocks.line_section(bold("Re-checked before running:"), f" {action_text.describe_fault_briefly(record.action)}"),
        ]
    title: Line = (bold("Re-checked before running"), ":")
    return [*_render_check_commands(record), blocks.section(title, *lines[:MAX_CONDITIONS], *more)]


def render_met_conditions(record: ActionRecord, seen: Sequence[ConditionResult], at: datetime | None) -> Line:
    """Render the conditions that a dry run saw hold."""
    good = [one.says for one in seen if one.ok is True] if record.state in OPEN_STATES else []
    shown_conditions = " · ".join(good[:MAX_CONDITIONS])
    rest = f" · and {len(good) - MAX_CONDITIONS} more" if len(good) > MAX_CONDITIONS else ""
    return (clip_text(f"✓ {shown_conditions}{rest}{f' ({at:%H:%M} UTC)' if at else ''}", 2 * MAX_LINE_CHARS),) if good else ()


def render_condition(one: ConditionResult) -> Line:
    printed = one.saw.strip()[:160]
    printed_parts: tuple[Part, ...] = (" · ", code(printed)) if printed else (" · printed nothing",)
    return (
        f"{CONDITION_MARKS[one.ok]} {one.says}",
        *(printed_parts if one.ok is not None else (" · could not look: ", printed or "no answer")),
    )


def _render_check_commands(record: ActionRecord) -> list[Block]:
    check = CHECKS.get(record.action.args.get("check", "")) if record.action.remedy == "run_check" else None
    if check is None:
        return []
    return [blocks.section((bold("The check asks"), f" {check.asks}"), *((code(" ".join(row.argv)),) for row in check.commands[:3]))]


def render_requesters(record: ActionRecord, names: PeopleNames) -> list[Block]:
    """Render the requesters, who cannot approve, and the deciders of the policy."""
    asked_by = ", ".join(get_person_name(requester, names) for requester in sorted(list_requesters(record.action)))
    requester_blocks = [blocks.line_section(bold("Requested by"), f" {asked_by}, who cannot approve it")] if asked_by else []
    return [*requester_blocks, *_render_policy_deciders(record, names)]


def list_policy_deciders(record: ActionRecord) -> list[str]:
    """Return the approvers from policy sets while pending; empty if the channel's own approvers decide."""
    terms = record.terms
    if record.state is not State.PENDING or not terms.sets:
        return []
    return sorted(terms.approvers - list_requesters(record.action))


def _render_policy_deciders(record: ActionRecord, names: PeopleNames) -> list[Block]:
    """Render deciders that the mentioned user group may not include."""
    people = _join_some_names([get_person_name(decider, names) for decider in list_policy_deciders(record)])
    line: Line = (bold(f"For {' and '.join(record.terms.sets)} to decide"), f": {people}")
    return [blocks.clipped_section(line, room=2 * MAX_LINE_CHARS)] if people else []


def _join_some_names(rows: Sequence[str]) -> str:
    rest = len(rows) - MAX_NAMED_PEOPLE
    return ", ".join(rows[:MAX_NAMED_PEOPLE]) + (f" and {rest} more" if rest > 0 else "")


def render_small_print(record: ActionRecord, seen: Sequence[ConditionResult] = (), at: datetime | None = None) -> Block:
    """Render met conditions, proof, undo and time limit. Raise TooLong if they do not fit."""
    action = record.action
    return blocks.exact_context(
        *([holding] if (holding := render_met_conditions(record, seen, at)) else []),
        (
            clip_text(f"Proof: {action_text.describe_proof(action)}", MAX_LINE_CHARS),
            f" · {clip_text(f'Undo: {action_text.describe_undo(action)}', MAX_LINE_CHARS)} · Time limit: {action_text.format_time_limit(action)}",
        ),
    )


def render_identity(record: ActionRecord) -> Block:
    """Render the ids and the whole digest. Raise TooLong if they do not fit."""
    action = record.action
    return blocks.exact_context((italic(f"{action.approval} · {action.incident}"),), ("digest ", exact_code(action.digest)))


def render_votes(record: ActionRecord, names: PeopleNames) -> list[Block]:
    lines = render_vote_lines(record, names)
    return [blocks.section(*lines)] if lines else []


def render_vote_lines(record: ActionRecord, names: PeopleNames) -> list[Line]:
    """Render the latest votes, oldest first."""
    lines: list[Line] = []
    for vote in sorted(record.votes, key=lambda one: one.at)[-MAX_VOTES:]:
        mark, verb = ("✓", "approved") if vote.verdict == "approve" else ("✗", "rejected")
        at = format_utc_time(datetime.fromisoformat(vote.at))
        lines.append((f"{mark} ", bold(get_person_name(vote.voter, names)), f" {verb} at {at}{': ' + vote.reason if vote.reason else ''}"))
    return lines


def replace_user_ids(text: str, names: PeopleNames) -> str:
    for user_id in names:
        text = text.replace(user_id, get_person_name(user_id, names))
    return text


def get_person_name(who: str, names: PeopleNames) -> str:
    """Return the name, without a mention."""
    return names.get(who) or who.rpartition(":")[2] or who
