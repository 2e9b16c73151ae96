"""The App Home tab: which incidents are open, oldest first, each with a link to its thread; and what can be said to me."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from bot.cards import blocks
from bot.cards.blocks import Block, Card
from bot.cards.incidents import rows
from bot.cards.text import Line, Part, bold, code, italic, thread_link
from graph.state import Lifecycle

MARKS = {"open": "🔎", "waiting": "⏳", "watching": "👀", "handed_off": "🎫", "closed": "✅"}
WORDS = {
    "open": "being looked at",
    "waiting": "waiting for an answer",
    "watching": "being watched",
    "handed_off": "with a human",
    "closed": "closed",
}
MOST = 40


@dataclass(frozen=True, slots=True)
class OpenIncident:
    """One row of the list."""

    id: str
    lifecycle: Lifecycle
    opened_at: datetime
    headline: str = ""
    hosts: tuple[str, ...] = ()
    team: str = ""
    channel: str = ""
    thread_ts: str = ""


def render(incidents: Sequence[OpenIncident], now: datetime, repairs: Sequence[Block] = ()) -> Block:
    """The tab; `repairs` are what waits for this person, and the brakes."""
    return blocks.home([*repairs, blocks.header("Open incidents"), *listing(incidents, now)])


def refused(words: str) -> Block:
    """The tab of somebody who may not see incidents."""
    return blocks.home([blocks.say(words)])


def listing(incidents: Sequence[OpenIncident], now: datetime) -> list[Block]:
    """The rows; also the answer to `/rackmedic status`."""
    if not incidents:
        return [blocks.say("🟢 Nothing is open. Mention me in the incident channel when something breaks.")]
    ordered = sorted(incidents, key=lambda row: row.opened_at)
    shown = [blocks.section(*_row(row, now)) for row in ordered[:MOST]]
    return shown if len(ordered) <= MOST else [*shown, blocks.context((f"… and {len(ordered) - MOST} more",))]


def phrases(rows: Iterable[tuple[str, str]]) -> Card:
    """What can be said, as the grammar has it: (what to say, what it means)."""
    lines: list[Line] = [(code(form), f" {means}") for form, means in rows]
    return blocks.card(
        "What I understand",
        [
            blocks.section((bold("In an incident's thread, without mentioning me:"),), *lines),
            blocks.say(bold("To begin:"), " mention me with what is wrong, or use “Diagnose this” from a message's menu."),
            blocks.say(bold("To stop every repair:"), " ", code("/rackmedic stop [why]"), ", and what waits: ", code("/rackmedic status")),
        ],
    )


def _row(row: OpenIncident, now: datetime) -> tuple[Line, ...]:
    at: tuple[Part, ...] = (bold(rows.hosts(row.hosts)), " ") if row.hosts else ()
    link: tuple[Part, ...] = (" · ", thread_link(row.team, row.channel, row.thread_ts, "open the thread")) if row.thread_ts else ()
    small = f"{WORDS[row.lifecycle]}, opened {age(row.opened_at, now)} ago · "
    return ((f"{MARKS[row.lifecycle]} ", *at, row.headline or "not diagnosed yet"), (italic(small), code(row.id), *link))


def age(since: datetime, now: datetime) -> str:
    """`40 s`, `12 min`, `5 h`, `3 d`."""
    seconds = max(0, int((now - since).total_seconds()))
    for unit, length in (("d", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{seconds // length} {unit}"
    return f"{seconds} s"
