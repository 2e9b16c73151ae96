"""The parts of an approval card around its core: who is asked, where it stands, what must hold, who voted. Their texts are cut where long."""

from collections.abc import Mapping, Sequence
from datetime import datetime

from bot.cards import blocks
from bot.cards.blocks import Block
from bot.cards.text import BadId, Line, Part, bold, clip_text, code, exact_code, format_slack_date, format_utc_time, italic, mention_group
from bot.remediation.cards import action_text
from tools.checks import CHECKS
from tools.execution.conditions import ConditionResult
from tools.ledger.record import ActionRecord, list_requesters
from tools.ledger.states import OPEN_STATES, State

NOBODY_MAY_APPROVE_TEXT = "Nobody may approve this"

PeopleNames = Mapping[str, str]
MAX_CONDITIONS, MAX_VOTES, MAX_NAMED_PEOPLE, MAX_LINE_CHARS = 10, 8, 5, 400
CONDITION_MARKS: Mapping[bool | None, str] = {True: "✓", False: "✗", None: "?"}


def mention_approvers(group: str) -> tuple[Part, ...]:
    """The approver group, where there is one."""
    try:
        return (mention_group(group), " ") if group else ()
    except BadId:
        return ()


def render_decision_request(record: ActionRecord, group: str) -> Line:
    """Who is to decide until when: the one line that calls somebody. Empty where there is nothing to decide."""
    if record.state is not State.PENDING:
        return ()
    if not record.terms.approvers:
        return (f"{NOBODY_MAY_APPROVE_TEXT}: the channel names no `approvers:` group in the inventory, or the group is empty.",)
    until: Line = ("decide until ", format_slack_date(record.decide_by), f" ({format_utc_time(record.decide_by)}) · ")
    return (*mention_approvers(group), *until, bold(format_approval_count(record)))


def format_approval_count(record: ActionRecord) -> str:
    """`1 of 2 approvals`."""
    return f"{record.approvals} of {record.terms.quorum} approval{'s' if record.terms.quorum != 1 else ''}"


def render_warning(warning: str) -> list[Block]:
    """What everybody must know before deciding."""
    return [blocks.line_section("⚠ ", bold(warning))] if warning else []


def render_status(record: ActionRecord, names: PeopleNames, began: datetime | None, held: str) -> list[Block]:
    """How it goes on, or how it ended."""
    lines = render_status_lines(record, names, began, held)
    return [blocks.section(*lines)] if lines else []


def render_status_lines(record: ActionRecord, names: PeopleNames, began: datetime | None, held: str) -> list[Line]:
    """The same as lines."""
    says = replace_user_ids(record.says, names)
    said: list[Line] = [(f"Not so any more: {says}" if _is_condition_failure(record) else says,)] if says else []
    who = get_person_name(record.ended_by, names) if record.ended_by else ""
    match record.state:
        case State.APPROVED:
            start = record.start_by or record.decide_by
            waits: list[Line] = [("Waits: ", held)] if held else []
            return [("It starts by itself, or expires ", format_slack_date(start), f" ({format_utc_time(start)})."), *waits]
        case State.EXECUTING:
            since: Line = (
                ("Running since ", format_slack_date(began), f" ({format_utc_time(began)}), " if began else "") if began else ("Running, ",)
            )
            return [("📡 ", held)] if held else [(*since, f"for {action_text.format_time_limit(record.action)} at most.")]
        case State.DONE | State.FAILED:
            return [*_render_ended_lines(record, who), *said]
        case State.UNKNOWN:
            return [*said, *_render_host_check_lines(record)]
        case State.DENIED | State.REVOKED:
            verb = "rejected it" if record.state is State.DENIED else "took it back"
            return [(bold(who or "Somebody"), f" {verb}{': ' + says if says else '.'}")]
        case State.EXPIRED | State.SUPERSEDED:
            return [*said, ("Nothing was run.",)]
        case _:
            return []


def _is_condition_failure(record: ActionRecord) -> bool:
    """Whether what the host's kit said is a precondition that it found otherwise."""
    refused = record.state is State.FAILED and record.exit_status is None
    return refused and any(record.says.startswith(f"{condition.says}:") for condition in record.action.conditions)


def _render_ended_lines(record: ActionRecord, who: str) -> list[Line]:
    """Exit status, and what the proof says."""
    if who:
        told = "ran" if record.state is State.DONE else "did not run"
        return [(bold(who), f" looked at the host and says that it {told}.")]
    status = "" if record.exit_status is None else f" with exit status {record.exit_status}"
    ran = record.state is State.DONE or record.exit_status is not None or record.outcome
    proof = action_text.describe_outcome(record) or ("The proof runs now." if record.state is State.DONE else "")
    return [(f"The command ended{status}. " if ran else "The command did not run. ", proof)]


def _render_host_check_lines(record: ActionRecord) -> list[Line]:
    host = exact_code(action_text.format_targets(record.action))
    return [
        (host, " stays locked until somebody looks there and says on its card whether it ran."),
        ("The host's own record: ", code(f"sudo rackmedic-act settle {record.digest}")),
    ]


def render_output(tail: Sequence[str]) -> list[Block]:
    """The end of what the command printed."""
    return [blocks.code_section(tail, width=200, limit=1800)] if tail else []


def render_conditions(record: ActionRecord, seen: Sequence[ConditionResult]) -> list[Block]:
    """What must hold: the fault first, then what a dry run did not find so, or all where there was none. What it found so stands below."""
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
            blocks.line_section(bold("Must still hold:"), f" {action_text.describe_fault_briefly(record.action)}"),
        ]
    title: Line = (bold("Must hold"), " when it starts:")
    return [*_render_check_commands(record), blocks.section(title, *lines[:MAX_CONDITIONS], *more)]


def render_met_conditions(record: ActionRecord, seen: Sequence[ConditionResult], at: datetime | None) -> Line:
    """What a dry run found so, each condition by name."""
    good = [one.says for one in seen if one.ok is True] if record.state in OPEN_STATES else []
    shown = " · ".join(good[:MAX_CONDITIONS])
    rest = f" · and {len(good) - MAX_CONDITIONS} more" if len(good) > MAX_CONDITIONS else ""
    return (clip_text(f"✓ {shown}{rest}{f' ({at:%H:%M} UTC)' if at else ''}", 2 * MAX_LINE_CHARS),) if good else ()


def render_condition(one: ConditionResult) -> Line:
    """A condition and what was seen of it."""
    printed = one.saw.strip()[:160]
    found: tuple[Part, ...] = (" · ", code(printed)) if printed else (" · printed nothing",)
    return (f"{CONDITION_MARKS[one.ok]} {one.says}", *(found if one.ok is not None else (" · could not look: ", printed or "no answer")))


def _render_check_commands(record: ActionRecord) -> list[Block]:
    """What an exclusive check runs on each host."""
    check = CHECKS.get(record.action.args.get("check", "")) if record.action.remedy == "run_check" else None
    if check is None:
        return []
    return [blocks.section((bold("The check asks"), f" {check.asks}"), *((code(" ".join(row.argv)),) for row in check.commands[:3]))]


def render_requesters(record: ActionRecord, names: PeopleNames) -> list[Block]:
    """Who wished for it, where that was a person: they cannot approve it."""
    asked_by = ", ".join(get_person_name(who, names) for who in sorted(list_requesters(record.action)))
    said = [blocks.line_section(bold("Asked for by"), f" {asked_by}, who therefore cannot approve it")] if asked_by else []
    return [*said, *_render_policy_deciders(record, names)]


def list_policy_deciders(record: ActionRecord) -> list[str]:
    """Whom sets of the policy name, while there is something to decide; none where the channel's own approvers do."""
    terms = record.terms
    if record.state is not State.PENDING or not terms.sets:
        return []
    return sorted(terms.approvers - list_requesters(record.action))


def _render_policy_deciders(record: ActionRecord, names: PeopleNames) -> list[Block]:
    """Who decides and is not called by the channel's user group: sets of the policy."""
    people = _join_some_names([get_person_name(who, names) for who in list_policy_deciders(record)])
    line: Line = (bold(f"For {' and '.join(record.terms.sets)} to decide"), f": {people}")
    return [blocks.clipped_section(line, room=2 * MAX_LINE_CHARS)] if people else []


def _join_some_names(rows: Sequence[str]) -> str:
    rest = len(rows) - MAX_NAMED_PEOPLE
    return ", ".join(rows[:MAX_NAMED_PEOPLE]) + (f" and {rest} more" if rest > 0 else "")


def render_small_print(record: ActionRecord, seen: Sequence[ConditionResult] = (), at: datetime | None = None) -> Block:
    """What a dry run found so, proof, undo and time limit. TooLong where that does not fit."""
    action = record.action
    return blocks.exact_context(
        *([holding] if (holding := render_met_conditions(record, seen, at)) else []),
        (
            clip_text(f"Proof: {action_text.describe_proof(action)}", MAX_LINE_CHARS),
            f" · {clip_text(f'Undo: {action_text.describe_undo(action)}', MAX_LINE_CHARS)} · Time limit: {action_text.format_time_limit(action)}",
        ),
    )


def render_identity(record: ActionRecord) -> Block:
    """Return the ids by which an action is approved and found again, the digest whole. TooLong where they do not fit."""
    action = record.action
    return blocks.exact_context((italic(f"{action.approval} · {action.incident}"),), ("digest ", exact_code(action.digest)))


def render_votes(record: ActionRecord, names: PeopleNames) -> list[Block]:
    """Who said what when."""
    lines = render_vote_lines(record, names)
    return [blocks.section(*lines)] if lines else []


def render_vote_lines(record: ActionRecord, names: PeopleNames) -> list[Line]:
    """The same as lines, the latest last."""
    lines: list[Line] = []
    for vote in sorted(record.votes, key=lambda one: one.at)[-MAX_VOTES:]:
        mark, verb = ("✓", "approved") if vote.verdict == "approve" else ("✗", "rejected")
        at = format_utc_time(datetime.fromisoformat(vote.at))
        lines.append((f"{mark} ", bold(get_person_name(vote.voter, names)), f" {verb} at {at}{': ' + vote.reason if vote.reason else ''}"))
    return lines


def replace_user_ids(text: str, names: PeopleNames) -> str:
    """A text of ours with people's names where their ids stand."""
    for who in names:
        text = text.replace(who, get_person_name(who, names))
    return text


def get_person_name(who: str, names: PeopleNames) -> str:
    """A person by name, without mentioning them."""
    return names.get(who) or who.rpartition(":")[2] or who
