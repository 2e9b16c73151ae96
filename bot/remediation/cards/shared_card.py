"""One card for several actions of one remedy: the common parts once, a row per action, buttons for all.

"Approve all" carries every pending action with its digest and casts one vote for each. Nothing else is shared.
"""

from collections import Counter
from collections.abc import Iterable, Sequence

from bot.cards import blocks
from bot.cards.blocks import Block, Card
from bot.cards.text import (
    Line,
    Part,
    bold,
    clip_text,
    code,
    count_utf16_units,
    escape_ambiguous,
    exact_code,
    format_slack_date,
    format_utc_time,
    strip_markup,
)
from bot.remediation.cards import action_text, approval_card, card_parts, queued_hosts
from bot.remediation.cards.action_row import has_met_conditions, render_action_row
from bot.remediation.cards.approval_card import APPROVE_ALL_ACTION_ID, SHOW_ALL_ACTION_ID, ApprovalCardView
from tools.ledger.brakes import Brakes
from tools.ledger.record import ActionRecord, list_requesters
from tools.ledger.states import OPEN_STATES, State

MAX_HOSTS_CHARS = 400  # Longer host lists are left to the rows.
MAX_CONDITIONS_CHARS = 500
MAX_PROOF_CHARS = 200
MAX_WARNING_CHARS = 300
# The action ended without changing the host.
_UNCHANGED_STATES = frozenset({State.DENIED, State.EXPIRED, State.REVOKED, State.SUPERSEDED})


def render_shared_card(shown: Sequence[ApprovalCardView], brakes: Brakes) -> Card:
    """Render the card; all actions are of one remedy and cause."""
    records = [one.record for one in shown]
    command = _render_command(records)
    rows = [block for one in shown for block in render_action_row(one, told_above=bool(command))]
    core = [*command, *rows]
    head = _format_short_headline(records)
    card = blocks.build_card(
        head,
        [
            blocks.header(head),
            *_render_decision_request(records, shown[0].group),
            *queued_hosts.render_queue(shown[0].queued, len(shown), approval_card.encode_action(records[0])),
            _render_targets(shown),
            *card_parts.render_warning(shown[0].warning[:MAX_WARNING_CHARS]),
            *_render_brake_warnings(records, brakes),
            *core,
            blocks.divider(),
            *_render_conditions(shown),
            _render_small_print(records, shown[0], brakes),
            *_render_buttons(records),
        ],
    )
    return card if all(block in card.blocks for block in core) else _render_too_large(records)


def format_headline(records: Sequence[ActionRecord]) -> str:
    mark, begins = summarize_states(records)
    actions = [record.action for record in records]
    hosts = action_text.fold_hosts_exactly([action.target for action in actions])
    return f"{mark} {begins} {action_text.describe_actions(actions)} · {escape_ambiguous(hosts)} · {actions[0].risk}"


def summarize_states(records: Sequence[ActionRecord]) -> tuple[str, str]:
    """Return (mark, headline start) for the state most in need of attention, or the count of successes."""
    states = Counter(record.state for record in records)
    if states[State.PENDING]:
        return action_text.STATE_MARKS[State.PENDING], f"Approve {states[State.PENDING]}?"
    if states[State.UNKNOWN]:
        return action_text.STATE_MARKS[State.UNKNOWN], f"{states[State.UNKNOWN]} in doubt:"
    for state, begins in ((State.EXECUTING, "Running"), (State.APPROVED, "Approved")):
        if states[state]:
            return action_text.STATE_MARKS[state], f"{begins} {states[state]} of {len(records)}:"
    if any(record.state is State.DONE and not record.outcome for record in records):
        return action_text.STATE_MARKS[State.DONE], action_text.STATE_HEADLINES[State.DONE]
    return _summarize_ended(records)


def _summarize_ended(records: Sequence[ActionRecord]) -> tuple[str, str]:
    well = [record for record in records if is_well(record)]
    if not well:
        return _summarize_none_well(records)
    state_words = {action_text.get_state_word(record)[1] for record in well}
    word = {"passes now": "pass now", "cured": "cured", "done": "done"}.get(state_words.pop(), "well") if len(state_words) == 1 else "well"
    return ("✅", f"All {len(records)} {word}:") if len(well) == len(records) else ("🟡", f"{len(well)} of {len(records)} {word}:")


def _summarize_none_well(records: Sequence[ActionRecord]) -> tuple[str, str]:
    """Return the common ending, or whether anything ran at all."""
    ends = {action_text.get_state_word(record) for record in records}
    if len(ends) == 1:
        mark, word = ends.pop()
        if len(records) == 1:
            return mark, f"{word.capitalize()}:"
        everyone = "Both" if len(records) == 2 else f"All {len(records)}"
        return mark, f"{everyone} {word}:"
    has_begun = any(record.state in (State.DONE, State.FAILED) and not action_text.is_refused(record) for record in records)
    return ("❌", f"None of {len(records)} worked:") if has_begun else ("🚫", f"None of {len(records)} was run:")


def is_well(record: ActionRecord) -> bool:
    """Return whether the action ran and its proof passed."""
    return record.state in (State.DONE, State.FAILED) and record.outcome in ("passes_now", "cured")


def render_state_counts(shown: Iterable[ApprovalCardView]) -> Line:
    """Render `✋ 2 pending · 🔧 1 running`."""
    state_counts = Counter(action_text.get_state_word(one.record, one.waiting_note) for one in shown)
    rows: list[Part] = []
    for (mark, word), count in state_counts.items():
        state_text = {"passes now": "pass now", "waits": "wait"}.get(word, word) if count > 1 else word
        rows += [" · " if rows else "", f"{mark} ", bold(f"{count} {state_text}")]
    return tuple(rows)


def _format_short_headline(records: Sequence[ActionRecord]) -> str:
    """Replace hosts by their number if they do not fit: a cut host name would be another host."""
    line = format_headline(records)
    if count_utf16_units(strip_markup(line)) <= blocks.MAX_HEADER_CHARS:
        return line
    mark, begins = summarize_states(records)
    return f"{mark} {begins} {action_text.get_action_title(records[0].action)} · {len(records)} hosts · {records[0].action.risk}"


def _render_decision_request(records: Sequence[ActionRecord], group: str) -> list[Block]:
    pending = [record for record in records if record.state is State.PENDING]
    if not pending:
        return []
    if not any(record.terms.approvers for record in pending):
        return [blocks.section(card_parts.render_decision_request(pending[0], ""))]
    decide_by = min(record.decide_by for record in pending)
    votes = {record.terms.quorum for record in pending}
    each = f"{len(pending)} action{'s' if len(pending) > 1 else ''}" + (
        f", {votes.pop()} approvals each" if votes not in ({1}, set()) else ""
    )
    return [
        blocks.section(
            (
                *card_parts.mention_approvers(group),
                "please decide by ",
                format_slack_date(decide_by),
                f" ({format_utc_time(decide_by)}): ",
                bold(each),
            )
        )
    ]


def _render_command(records: Sequence[ActionRecord]) -> list[Block]:
    """Render the command once if it is the same for all; else nothing."""
    commands = {approval_card.format_command(record.action) for record in records}
    return [blocks.exact_code_section(commands.pop())] if len(commands) == 1 else []


def _render_targets(shown: Sequence[ApprovalCardView]) -> Block:
    """Render hosts, blast radius, and the states once they differ."""
    actions = [one.record.action for one in shown]
    hosts = action_text.fold_hosts_exactly([action.target for action in actions])
    hosts_parts: tuple[Part, ...] = (": ", exact_code(hosts)) if len(hosts) <= MAX_HOSTS_CHARS else (", each named below",)
    via = {action.via for action in actions if action.via != action.target}
    runs: tuple[Part, ...] = (" · runs via ", exact_code(via.pop())) if len(via) == 1 else ()
    return blocks.section(
        (bold("On"), f" {len(actions)} hosts", *hosts_parts, *runs),
        (bold(escape_ambiguous(actions[0].risk)), f" on each: {action_text.describe_blast_radius(actions[0])}"),
        *action_text.render_impact(next((one.record for one in shown if one.record.state is State.PENDING), shown[0].record)),
        *([render_state_counts(shown)] if len({action_text.get_state_word(one.record, one.waiting_note) for one in shown}) > 1 else []),
    )


def _render_brake_warnings(records: Sequence[ActionRecord], brakes: Brakes) -> list[Block]:
    """Warn of brake limits before "Approve all". Actions that ran already count."""
    coming = [
        record
        for record in records
        if record.terms.changes and record.state not in _UNCHANGED_STATES and not action_text.is_refused(record)
    ]
    if not any(record.state in OPEN_STATES for record in coming):
        return []
    terms, warnings = coming[0].terms, list[Line]()
    if len(coming) > (window := brakes.get_max_in_window(terms.group_size)):
        trips = f"More than {window} hosts of {escape_ambiguous(terms.group) if terms.group else 'a group'} changed in {brakes.window_seconds // 60} min trip its breaker."
        warnings.append(("⚠ ", bold(trips), " After that nothing starts in this group until an approver resets the breaker."))
    if len(coming) > (max_hosts := brakes.blast_hosts):
        within = f"One incident may change {max_hosts} hosts in {brakes.blast_seconds // 60} min."
        warnings.append(("⚠ ", bold(within), " The others wait, expire, and are proposed again."))
    return [blocks.section(*warnings)] if warnings else []


def _render_conditions(shown: Sequence[ApprovalCardView]) -> list[Block]:
    """Name the preconditions that the rows only count."""
    waiting = [one for one in shown if one.record.state in OPEN_STATES]
    if not waiting:
        return []
    condition_texts = dict.fromkeys(condition.says for one in waiting for condition in one.condition_results)
    sentences = condition_texts or dict.fromkeys(condition.says for one in waiting for condition in one.record.action.conditions)
    sentences = dict.fromkeys(filter(None, (action_text.describe_fault_condition(one.record.action) for one in waiting))) | sentences
    if not sentences:
        return []
    when = next((f" (dry run at {format_utc_time(one.seen_at)})" for one in waiting if one.seen_at), "")
    hold = {condition.says for condition in waiting[0].condition_results} if all(map(has_met_conditions, waiting)) else set()
    recheck_note = "If a condition fails on a host, nothing runs on that host."
    rows = ((f"{'✓' if sentence in hold else '•'} {sentence}",) for sentence in sentences)
    return [
        blocks.clipped_section((bold("Re-checked on each host before running"), when), *rows, (recheck_note,), room=MAX_CONDITIONS_CHARS)
    ]


def _render_small_print(records: Sequence[ActionRecord], first: ApprovalCardView, brakes: Brakes) -> Block:
    action = records[0].action
    asked_by = sorted(
        {card_parts.get_person_name(requester, first.names) for record in records for requester in list_requesters(record.action)}
    )
    requesters_text = ", ".join(asked_by) + ", who cannot approve it" if asked_by else "RackMedic, from its diagnosis"
    return blocks.context(
        (
            bold("Proof"),
            f": {action_text.describe_proof(action)}"[:MAX_PROOF_CHARS],
            " · ",
            bold("Undo"),
            f": {action_text.describe_undo(action, each=len(records) > 1)}"[:MAX_PROOF_CHARS],
            " · ",
            bold("Requested by"),
            f": {requesters_text}",
        ),
        *_render_brake_limits(records, brakes),
    )


def _render_brake_limits(records: Sequence[ActionRecord], brakes: Brakes) -> list[Line]:
    """Say why the actions do not all start at once."""
    coming = [record for record in records if record.state in OPEN_STATES and record.terms.changes]
    if len(coming) < 2:
        return []
    terms = coming[0].terms
    at_once = brakes.get_max_at_once(terms.group_size)
    limit_text = f"{at_once} host{'s' if at_once > 1 else ''} of "
    late = f" at once; the others wait and show why. An approved action that has not started after {terms.start_seconds // 60} min expires."
    return [(bold("Limit"), ": ", limit_text, code(terms.group) if terms.group else "the group", late)]


def _render_buttons(records: Sequence[ActionRecord]) -> list[Block]:
    """Render buttons for all actions; only pending ones can be approved together."""
    pending = [record for record in records if record.state is State.PENDING and record.terms.approvers]
    all_of = [_render_approve_all_button(pending)] if len(pending) > 1 else []
    return [blocks.actions(*all_of, blocks.button("Show all", SHOW_ALL_ACTION_ID, approval_card.encode_actions(records)))]


def _render_approve_all_button(pending: Sequence[ActionRecord]) -> Block:
    sure = blocks.confirm(
        clip_text(f"{action_text.get_action_title(pending[0].action)} on {len(pending)} hosts?", 100),
        _format_dialog_text(pending),
        f"Approve {len(pending)}",
        "Not now",
    )
    return blocks.button(
        f"Approve all {len(pending)}", APPROVE_ALL_ACTION_ID, approval_card.encode_actions(pending), style="primary", ask=sure
    )


def _format_dialog_text(pending: Sequence[ActionRecord]) -> str:
    """Return the confirmation text: hosts whole, and the command if it is common and fits."""
    hosts = [record.action.target for record in pending]
    commands = {approval_card.format_command(record.action) for record in pending}
    same = f" {escape_ambiguous(commands.pop())}" if len(commands) == 1 else " each command as its row shows it."
    votes = f"One vote for each of {len(hosts)} actions; each runs once and is verified separately."
    for command_note in (same, " each command as its row shows it."):
        for names in (", ".join(hosts), action_text.fold_hosts_exactly(hosts)):
            dialog_text = f"On {escape_ambiguous(names)}:{command_note}\n{votes}"
            if count_utf16_units(strip_markup(dialog_text)) <= approval_card.MAX_CONFIRM_CHARS:
                return dialog_text
    return f"The {len(hosts)} hosts are too long for this dialog; read them on the card. {votes}"


def _render_too_large(records: Sequence[ActionRecord]) -> Card:
    """Render a card without approval: what cannot be read whole must not be approved."""
    head = "🚫 Too large to approve together"
    notice = ("The card must show all hosts and commands in full, and they do not fit. Nothing runs; say `stop` to withdraw them.",)
    return blocks.build_card(
        head, [blocks.header(head), blocks.section(notice), blocks.context(*((record.approval,) for record in records))]
    )
