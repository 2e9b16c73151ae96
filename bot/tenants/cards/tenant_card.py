"""The one message in a tenant's thread: the cause, its owner, what to do, the status. Edited as the incident changes."""

from collections.abc import Mapping, Sequence
from typing import Any

from bot.cards import blocks
from bot.cards.blocks import Block, Card
from bot.cards.buttons import ButtonClick, encode_button_value, parse_button_click
from bot.cards.text import Line, bold, code
from bot.tenants.cards.phrases import get_phrase
from bot.tenants.cards.view import TenantCause, TenantView
from kb.needle_search import split_lines
from tools.inventory.host_ranges import fold_host_names

BROKEN_ACTION_ID = "customer.broken"
WORKS_ACTION_ID = "customer.works"
PERSON_ACTION_ID = "customer.person"
WITHDRAW_ACTION_ID = "customer.withdraw"
BUTTONS = {BROKEN_ACTION_ID: "broken", WORKS_ACTION_ID: "works", PERSON_ACTION_ID: "person", WITHDRAW_ACTION_ID: "withdraw"}
STAGE_MARKS: Mapping[str, str] = {
    "received": "🔎",
    "yours": "🛠",
    "ours": "🔴",
    "both": "🔴",
    "healthy": "✅",
    "asked": "❓",
    "people": "🎫",
    "proved": "✅",
    "closed": "✅",
}
FINISHED_STATES = ("proved", "closed")  # no further change is expected
MAX_HOSTS_CHARS = 300  # of a list of hosts
MAX_NAMES_CHARS = 300  # of a list of file, job or host names that the tenant gave
MAX_EXCLUDE_LINE_CHARS = 2100  # characters per piece of the `--exclude` line
MAX_EXCLUDE_LINES = 4  # pieces


def render_tenant_card(view: TenantView) -> Card:
    head = _format_headline(view)
    return blocks.build_card(
        head,
        [
            blocks.header(head),
            *_render_state(view),
            *_render_clear_hosts(view),
            *_render_causes(view),
            *_render_hosts_to_avoid(view),
            *_render_rest(view),
            *_render_buttons(view),
        ],
    )


def parse_tenant_click(payload: Mapping[str, Any]) -> ButtonClick:
    return parse_button_click(payload, BUTTONS)


def render_update(view: TenantView) -> Card:
    """Render a short message for news, because an edit notifies no one."""
    words = get_phrase(f"state_{view.state}", view.language) if view.state else get_phrase(view.stage, view.language)
    if has_open_reminder(view):
        head = f"{_get_mark(view)} {get_phrase('reminded', view.language)}"
        return blocks.build_card(head, [blocks.section((head,), *_format_questions(view))])
    if view.unanswered and view.state == "received":
        return render_text_card(f"{_get_mark(view)} {get_phrase('unanswered', view.language)}", words)
    return blocks.build_card(words, [blocks.section((f"{_get_mark(view)} {words}",), *_format_unread_files(view))])


def should_announce(view: TenantView, status: str, last_announced_status: str, *, tenant_reports_failure: bool) -> bool:
    """Return whether the tenant has to be told the status.

    A status that did not change is not announced, nor is the first one while the report is only received. If the tenant
    reports a failure after the end was announced, the same end is not announced again.
    """
    if status == last_announced_status:
        return False
    if status == "received/" and not last_announced_status:
        return False
    was_end_announced = view.state in FINISHED_STATES and last_announced_status.endswith(f"/{view.state}")
    return not (tenant_reports_failure and was_end_announced)


def render_recheck_result(view: TenantView, *, tenant_reports_failure: bool) -> Card:
    """Render that a recheck changed nothing. Offer a person if the tenant reports a failure and nothing was found."""
    if tenant_reports_failure and (view.state in FINISHED_STATES or (view.stage == "healthy" and not view.state)):
        words = get_phrase("again_nothing", view.language)
        person = blocks.button(get_phrase("button_person", view.language), PERSON_ACTION_ID, encode_button_value(view.incident))
        return blocks.build_card(
            words, [blocks.section((f"{STAGE_MARKS['received']} {words}",), *_format_unread_files(view)), blocks.actions(person)]
        )
    words = get_phrase("again_before", view.language)
    questions = _format_questions(view) if view.stage == "asked" else []
    return blocks.build_card(
        words,
        [blocks.section((f"{STAGE_MARKS['received']} {words}",), (_format_progress(view)[0],), *questions, *_format_unread_files(view))],
    )


def has_open_reminder(view: TenantView) -> bool:
    return view.stage == "asked" and view.reminded


def render_progress_answer(view: TenantView, *lines_above: str) -> Card:
    """Render the status, and that the duration is unknown while it is unfinished."""
    first, *more = _format_progress(view)
    return render_text_card(*lines_above, f"{_get_mark(view)} {first}", *more)


def _format_progress(view: TenantView) -> list[str]:
    lines = [get_phrase(f"state_{view.state}" if view.state else view.stage, view.language)]
    if view.state and view.state not in FINISHED_STATES:
        lines.append(get_phrase("how_long", view.language))
    return lines


def render_text_card(*lines: str) -> Card:
    return blocks.build_card(" ".join(lines), [blocks.section(*((line,) for line in lines))])


def render_explanation(view: TenantView, *, include_duration: bool = False) -> Card:
    """Render causes with the job's own lines, or the stage without causes. `include_duration`: also say how long it takes."""
    head = get_phrase("why", view.language) if view.causes else get_phrase(view.stage, view.language)
    rows: list[Block] = []
    for cause in view.causes:
        location = f" ({fold_host_names(cause.hosts)[:MAX_HOSTS_CHARS]})" if cause.hosts else ""
        rows.append(blocks.section((bold(cause.said.title), location), (cause.said.words,)))
        if cause.shows:
            rows += [blocks.section((bold(get_phrase("shows", view.language)),)), blocks.code_section(cause.shows)]
    duration_lines = _format_duration_answer(view) if include_duration else []
    if duration_lines:
        rows.append(blocks.section(*((line,) for line in duration_lines)))
    return blocks.build_card(" ".join((head, *duration_lines)), [blocks.line_section(head), *rows])


def _format_duration_answer(view: TenantView) -> list[str]:
    progress = _format_progress(view)
    return (progress if view.causes else progress[1:]) or [get_phrase("how_long", view.language)]


def render_operator_message(words: str, language: str) -> Card:
    """Render an operator's message in RackMedic's name: no person is named."""
    head = get_phrase("from_people", language)
    return blocks.build_card(f"{head} {words}", [blocks.section((bold(head),), *((line,) for line in split_lines(words) if line.strip()))])


def build_operator_draft(view: TenantView) -> str:
    """Return a draft from what the tenant's card says; empty if it says nothing."""
    lines = [line for cause in view.causes for line in _build_cause_draft(cause)]
    if view.causes and view.state:
        lines.append(get_phrase(f"state_{view.state}", view.language))
    return "\n".join(lines)


def _build_cause_draft(cause: TenantCause) -> list[str]:
    location = f" ({fold_host_names(cause.hosts)[:MAX_HOSTS_CHARS]})" if cause.hosts else ""
    fix = None if cause.ours else cause.said.fix
    lines = [f"{cause.said.words}{location}"]
    if fix:
        lines.append(fix.change)
        if cause.block:
            lines.append(cause.block)
        lines.append(fix.works)
    return lines


def _get_mark(view: TenantView) -> str:
    return STAGE_MARKS[view.state if view.state in FINISHED_STATES else view.stage]


def _format_headline(view: TenantView) -> str:
    if view.stage == "yours" and len(view.causes) == 1:
        return f"{_get_mark(view)} {view.causes[0].said.title}"
    return f"{_get_mark(view)} {get_phrase(view.stage, view.language)}"


def _render_state(view: TenantView) -> list[Block]:
    lines: list[Line] = [(bold(get_phrase(f"state_{view.state}", view.language)),)] if view.state else []
    if view.withdrawn:
        lines.append((get_phrase("withdrawn", view.language),))
    return [blocks.section(*lines)] if lines else []


def _render_clear_hosts(view: TenantView) -> list[Block]:
    """Answer about the hosts asked for, if the fault is elsewhere."""
    names = fold_host_names(view.clear)[:MAX_HOSTS_CHARS]
    return [blocks.section((get_phrase("host_clear", view.language, names=names),))] if view.causes and view.clear else []


def _render_causes(view: TenantView) -> list[Block]:
    return [block for cause in view.causes for block in render_cause(cause, view.language)]


def render_cause(cause: TenantCause, language: str) -> list[Block]:
    """Render a cause: one sentence if ours; else evidence, change and how to verify it."""
    return _render_provider_cause(cause) if cause.ours else _render_tenant_cause(cause, language)


def _render_provider_cause(cause: TenantCause) -> list[Block]:
    hosts_line: Line = (" ", code(fold_host_names(cause.hosts))) if cause.hosts else ()
    return [blocks.section((cause.said.words, *hosts_line))]


def _render_tenant_cause(cause: TenantCause, language: str) -> list[Block]:
    sections = [blocks.section((cause.said.words,))]
    if cause.shows:
        sections += [blocks.section((bold(get_phrase("shows", language)),)), blocks.code_section(cause.shows)]
    if cause.said.fix:
        sections += [
            blocks.section((bold(get_phrase("change", language)), f" {cause.said.fix.change}")),
            blocks.code_section(cause.block.split("\n")),
        ]
        sections += [blocks.section((bold(get_phrase("works", language)), f" {cause.said.fix.works}"))]
    return sections


def _render_hosts_to_avoid(view: TenantView) -> list[Block]:
    """Render the `--exclude` line; a repaired host is not excluded."""
    if not view.avoid or view.state in FINISHED_STATES:
        return []
    lines = build_exclude_lines(view.avoid)
    try:
        host_blocks = [blocks.exact_code_section(line) for line in lines] if len(lines) <= MAX_EXCLUDE_LINES else []
    except blocks.TooLong:  # escaped characters take nine characters each
        host_blocks = []
    if not host_blocks:
        return [blocks.section((get_phrase("avoid_many", view.language, count=str(len(view.avoid))),))]
    return [blocks.section((bold(get_phrase("avoid", view.language)),)), *host_blocks]


def build_exclude_lines(hosts: Sequence[str]) -> list[str]:
    """Return one shell line in pieces of at most MAX_EXCLUDE_LINE_CHARS; pasted together they are one line."""
    first, *more = _split_hosts(tuple(hosts))
    pieces = [f"--exclude={first}", *more]
    return [f"{piece},\\" for piece in pieces[:-1]] + pieces[-1:]


def _split_hosts(hosts: Sequence[str]) -> list[str]:
    """Fold all hosts, or each half."""
    if len(folded := fold_host_names(hosts)) <= MAX_EXCLUDE_LINE_CHARS or len(hosts) == 1:
        return [folded]
    half = len(hosts) // 2
    return [*_split_hosts(hosts[:half]), *_split_hosts(hosts[half:])]


def _render_rest(view: TenantView) -> list[Block]:
    lines: list[Line] = []
    if view.questions:
        lines += [(bold(get_phrase("questions", view.language)),), *_format_questions(view)]
    if view.stage in ("healthy", "people"):
        lines.append((get_phrase(_get_next_phrase_id(view), view.language),))
    lines += _format_unknown_names(view)
    ticket_line = blocks.context((f"{get_phrase('ticket', view.language)} ", code(view.incident)))
    return [blocks.section(*lines), ticket_line] if lines else [ticket_line]


def _get_next_phrase_id(view: TenantView) -> str:
    if view.unanswered:
        return "unanswered"
    return "unseen_next" if view.unseen and view.stage == "people" else f"{view.stage}_next"


def _format_questions(view: TenantView) -> list[Line]:
    return [(f"{n}. {get_phrase(id_, view.language)}",) for n, id_ in enumerate(view.questions, 1)]


def _format_unread_files(view: TenantView) -> list[Line]:
    """Name unread files; also in own messages, because the tenant waits for their result."""
    if not view.unread:
        return []
    return [(get_phrase("unread", view.language, names=", ".join(view.unread)[:MAX_NAMES_CHARS]),)]


def _format_unknown_names(view: TenantView) -> list[Line]:
    rows: Sequence[tuple[str, str]] = (
        ("unknown_hosts", ", ".join(view.unknown_hosts)),
        ("unknown_job", view.unknown_job),
        ("could_not_look", fold_host_names(view.silent)),
    )
    lines: list[Line] = [(get_phrase(id_, view.language, names=names[:MAX_NAMES_CHARS]),) for id_, names in rows if names]
    return lines + _format_unread_files(view)


def _render_buttons(view: TenantView) -> list[Block]:
    if view.stage == "received":
        return []
    value, language = encode_button_value(view.incident), view.language
    is_finished = view.state in FINISHED_STATES
    buttons = [blocks.button(get_phrase("button_broken", language), BROKEN_ACTION_ID, value)]
    if not view.state or is_finished:
        buttons.append(blocks.button(get_phrase("button_works", language), WORKS_ACTION_ID, value))
    if not view.state and view.stage != "people":
        buttons.append(blocks.button(get_phrase("button_person", language), PERSON_ACTION_ID, value))
    if not view.withdrawn and not is_finished:
        confirmation = blocks.confirm(
            get_phrase("button_withdraw", language),
            get_phrase("sure_withdraw", language),
            get_phrase("yes", language),
            get_phrase("no", language),
        )
        buttons.append(blocks.button(get_phrase("button_withdraw", language), WITHDRAW_ACTION_ID, value, ask=confirmation))
    return [blocks.actions(*buttons)]
