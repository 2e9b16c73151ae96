"""Cards of the brakes: kill switch, breakers, running and waiting actions."""

from collections.abc import Sequence
from dataclasses import dataclass

from bot.cards import blocks
from bot.cards.blocks import Block, Card
from bot.cards.text import Line, Part, bold, code, format_slack_date, format_utc_time, thread_link
from bot.remediation.cards import action_text, card_parts
from tools.ledger.brakes import BrakeStatus
from tools.ledger.reader import BrakeHeadroom
from tools.ledger.record import ActionRecord

MAX_WAITING_ACTIONS = 20
MAX_GROUPS = 5


@dataclass(frozen=True, slots=True)
class WaitingApproval:
    """A pending action and the place of its card."""

    record: ActionRecord
    team: str = ""
    channel: str = ""
    thread_ts: str = ""


def render_stop_notice(who: str, why: str) -> Card:
    because = f": {why}" if why else "."
    return blocks.build_card(
        f"🛑 {who} stopped all repairs",
        [
            blocks.section(
                ("🛑 ", bold(f"{who} stopped all repairs"), because),
                ("No new remedy starts. Running ones finish and are reported. Diagnosis continues.",),
                ("An approver resumes with ", code("/rackmedic resume"), "."),
            )
        ],
    )


def render_resume_notice(who: str, group: str = "") -> Card:
    effect = f"reset the breaker of group {group}" if group else "resumed repairs"
    return blocks.build_card(
        f"🟢 {who} {effect}", [blocks.line_section("🟢 ", bold(f"{who} {effect}"), ". Approved actions may start again.")]
    )


def render_brake_status(status: BrakeStatus) -> list[Block]:
    """Render the brakes; one line if none is on."""
    lines: list[Line] = []
    if status.stopped:
        lines.append(
            ("🛑 ", bold("All repairs are stopped"), f" by {status.stopped}. An approver resumes with ", code("/rackmedic resume"))
        )
    for group in status.breakers:
        lines.append(
            (
                "🛑 ",
                bold(f"The breaker of group {group} is open"),
                ". Check the hosts; then an approver resumes with ",
                code(f"/rackmedic resume {group}"),
            )
        )
    if status.unknown:
        lines.append(("❓ Unknown whether these ran: ", code(", ".join(status.unknown)), ". Their hosts are locked."))
    if status.executing:
        lines.append(("🔧 Running: ", code(", ".join(status.executing))))
    return [blocks.section(*lines)] if lines else [blocks.context(("🟢 Repairs are not blocked, and none is running.",))]


def render_change_allowance(room: BrakeHeadroom) -> list[Block]:
    """Render the usage of each brake, as in `0 of 3`."""
    brakes, lines = room.brakes, list[Line]()
    for row in room.groups[:MAX_GROUPS]:
        window = f"changed in the last {_format_minutes(brakes.window_seconds)} {row.changed} of {row.window}"
        lines.append((bold(row.group), f": hosts at once {row.busy} of {row.at_once} · {window}"))
    rest = len(room.groups) - MAX_GROUPS
    lines += [(f"… and {rest} more groups, no busier",)] if rest > 0 else []
    for incident in room.incidents[:MAX_GROUPS]:
        spent = (
            f" changed {incident.changed} of {brakes.blast_hosts} hosts that one incident may in {_format_minutes(brakes.blast_seconds)}"
        )
        lines.append((code(incident.incident), spent, f"; room again from {format_utc_time(incident.again)}"))
    if not room.incidents:
        lines.append(
            (f"One incident may change {brakes.blast_hosts} hosts in {_format_minutes(brakes.blast_seconds)}; none has changed any.",)
        )
    return [blocks.section(*lines)]


def _format_minutes(seconds: int) -> str:
    return f"{seconds / 60:g} min"


def render_waiting_approvals(rows: Sequence[WaitingApproval], nothing: str) -> list[Block]:
    """Render pending actions in the given order; `nothing` is the text for none."""
    if not rows:
        return [blocks.context((nothing,))]
    sections = [blocks.section(*_render_waiting_row(row)) for row in rows[:MAX_WAITING_ACTIONS]]
    return sections if len(rows) <= MAX_WAITING_ACTIONS else [*sections, blocks.context((f"… and {len(rows) - MAX_WAITING_ACTIONS} more",))]


def _render_waiting_row(row: WaitingApproval) -> tuple[Line, ...]:
    record = row.record
    link: tuple[Part, ...] = (" · ", thread_link(row.team, row.channel, row.thread_ts, "open the thread")) if row.thread_ts else ()
    until: Line = (
        card_parts.format_approval_count(record),
        ", decide by ",
        format_slack_date(record.decide_by),
        f" ({format_utc_time(record.decide_by)})",
        *link,
    )
    return ((bold(action_text.format_headline(record)),), until)
