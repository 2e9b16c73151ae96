"""The brakes in words: kill switch, breakers, what runs, and what waits for a decision."""

from collections.abc import Sequence
from dataclasses import dataclass

from bot.cards import blocks
from bot.cards.approvals import parts, words
from bot.cards.blocks import Block, Card
from bot.cards.text import Line, Part, bold, code, moment, thread_link, utc
from tools.ledger.brakes import BrakeStatus
from tools.ledger.record import Record
from tools.ledger.room import Room

MOST, MOST_GROUPS = 20, 5


@dataclass(frozen=True, slots=True)
class Waiting:
    """An action that waits for a decision, and where its card is."""

    record: Record
    team: str = ""
    channel: str = ""
    thread_ts: str = ""


def stopped(who: str, why: str) -> Card:
    """The note that everybody sees."""
    because = f": {why}" if why else "."
    return blocks.card(
        f"🛑 {who} stopped all repairs",
        [
            blocks.section(
                ("🛑 ", bold(f"{who} stopped all repairs"), because),
                ("No remedy starts from now on. What runs already goes on and is reported. Looking goes on.",),
                ("An approver lets them go on with ", code("/rackmedic resume"), "."),
            )
        ],
    )


def resumed(who: str, group: str = "") -> Card:
    """The same for letting go."""
    what = f"reset the breaker of group {group}" if group else "let repairs go on"
    return blocks.card(f"🟢 {who} {what}", [blocks.say("🟢 ", bold(f"{who} {what}"), ". What was approved may start again.")])


def standing(status: BrakeStatus) -> list[Block]:
    """The brakes as they stand; one quiet line where none is on."""
    lines: list[Line] = []
    if status.stopped:
        lines.append(
            ("🛑 ", bold("All repairs are stopped"), f" by {status.stopped}. An approver resumes with ", code("/rackmedic resume"))
        )
    for group in status.breakers:
        lines.append(
            ("🛑 ", bold(f"The breaker of group {group} is open"), ". After a look, an approver says ", code(f"/rackmedic resume {group}"))
        )
    if status.unknown:
        lines.append(("❓ Nobody knows whether these ran: ", code(", ".join(status.unknown)), ". Their hosts are locked."))
    if status.executing:
        lines.append(("🔧 Running: ", code(", ".join(status.executing))))
    return [blocks.section(*lines)] if lines else [blocks.context(("🟢 Nothing holds repairs back, and none runs.",))]


def left(room: Room) -> list[Block]:
    """What may be changed at this moment, `0 of 3` being what is used of it."""
    brakes, lines = room.brakes, list[Line]()
    for row in room.groups[:MOST_GROUPS]:
        window = f"changed in the last {_minutes(brakes.window_seconds)} {row.changed} of {row.window}"
        lines.append((bold(row.group), f": hosts at once {row.busy} of {row.at_once} · {window}"))
    rest = len(room.groups) - MOST_GROUPS
    lines += [(f"… and {rest} more groups, no busier",)] if rest > 0 else []
    for one in room.incidents[:MOST_GROUPS]:
        spent = f" changed {one.changed} of {brakes.blast_hosts} hosts that one incident may in {_minutes(brakes.blast_seconds)}"
        lines.append((code(one.incident), spent, f"; room again from {utc(one.again)}"))
    if not room.incidents:
        lines.append((f"One incident may change {brakes.blast_hosts} hosts in {_minutes(brakes.blast_seconds)}; none has changed any.",))
    return [blocks.section(*lines)]


def _minutes(seconds: int) -> str:
    return f"{seconds / 60:g} min"


def waiting(rows: Sequence[Waiting], nothing: str) -> list[Block]:
    """Actions that wait, the first to expire first; `nothing` is said where none does."""
    if not rows:
        return [blocks.context((nothing,))]
    shown = [blocks.section(*_row(row)) for row in rows[:MOST]]
    return shown if len(rows) <= MOST else [*shown, blocks.context((f"… and {len(rows) - MOST} more",))]


def _row(row: Waiting) -> tuple[Line, ...]:
    record = row.record
    link: tuple[Part, ...] = (" · ", thread_link(row.team, row.channel, row.thread_ts, "open the thread")) if row.thread_ts else ()
    until: Line = (parts.count(record), ", decide until ", moment(record.decide_by), f" ({utc(record.decide_by)})", *link)
    return ((bold(words.headline(record)),), until)
