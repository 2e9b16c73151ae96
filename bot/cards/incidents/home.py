"""The App Home tab: what waits for its reader, what is theirs, what is open, what of customers waits, what we hold, and the brakes; and what can be
said to me.

Every list is bounded and counts the rest; an empty one says so in a word.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from bot.cards import blocks
from bot.cards.blocks import Block, Card
from bot.cards.incidents import held, rows
from bot.cards.text import SLACK_ID, Line, Part, bold, channel_name, code, italic, thread_link
from graph.ladders.held import Held
from graph.state import Lifecycle

MARKS = {"open": "🔎", "waiting": "⏳", "watching": "👀", "handed_off": "🎫", "closed": "✅"}
WORDS = {
    "open": "being looked at",
    "waiting": "waiting for people",
    "watching": "being watched",
    "handed_off": "with a human",
    "closed": "closed",
}
ANSWERED = "answered to the customer, closes by itself"
STOPPED = "stopped"
ELSEWHERE = "worked on in another thread"
OTHER_MARKS = {ELSEWHERE: "↪", STOPPED: "⏹"}
MOST, MOST_MINE, MOST_HELD = 30, 8, 10
SHARED: tuple[Part, ...] = (
    " is read by another organisation: ",
    bold("I answer nothing there"),
    ". End the sharing in the channel's settings, or have a channel of your own bound in the inventory.",
)
UNKNOWN: tuple[Part, ...] = (": Slack does not say whether another organisation reads it, so I answer nothing there until it does.",)
MOST_SHARED = 5
NOTHING_OPEN = "🟢 Nothing is open. Mention me in the incident channel when something breaks."


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
    opened_by: str = ""
    """A user's id."""
    owners: frozenset[str] = frozenset()
    """User ids of those whose it is: who took it, and who is on it."""
    held: tuple[Held, ...] = ()
    """Nodes that we hold for it; also a closed one may."""
    elsewhere: bool = False
    """Whether another incident works on all that it found."""
    stopped: bool = False
    """Whether the incident was stopped and no new look was asked for since."""
    answered: bool = False
    """Whether nothing of it is left for us: a customer was told how to mend it, or that nothing is wrong."""


@dataclass(frozen=True, slots=True)
class HomeTab:
    """What one person's tab shows. `waiting` and `brakes` are blocks, empty where nothing can be approved; `waits` those of customers over
    their share."""

    incidents: Sequence[OpenIncident]
    user: str = ""
    titles: Mapping[str, str] = field(default_factory=dict)
    """What labels are called."""
    waiting: Sequence[Block] = ()
    waits: Sequence[Block] = ()
    brakes: Sequence[Block] = ()
    note: str = ""
    """What became of a press on this tab."""
    fleet: Sequence[Block] = ()
    """The groups at a glance, and what was found lately."""
    shared: Mapping[str, bool | None] = field(default_factory=dict)
    """Channels of the operators that others read, or of which Slack does not say it (None): not served until that is mended."""


def render(tab: HomeTab, now: datetime) -> Block:
    """The tab, what wants its reader first."""
    open_now = [row for row in tab.incidents if row.lifecycle != "closed"]
    mine = [row for row in open_now if tab.user in row.owners]
    return blocks.home(
        [
            *([blocks.say(bold(tab.note))] if tab.note else []),
            *_not_served(tab.shared),
            *_titled("Waiting for me", tab.waiting),
            *_titled("Mine", _rows(mine, now, MOST_MINE) or [blocks.context(("None.",))]),
            *_titled("Open", listing(open_now, now, tab.waits)),
            *_titled("What we still hold", _held(tab)),
            *_titled("The fleet", tab.fleet),
            *_titled("Brakes", tab.brakes),
        ]
    )


def _not_served(shared: Mapping[str, bool | None]) -> list[Block]:
    """A line a channel that is not served although it is bound to the operators, and how that is mended."""
    lines: list[Line] = []
    for channel, by_others in list(shared.items())[:MOST_SHARED]:
        name = channel_name(channel) if SLACK_ID.fullmatch(channel) else code(channel)
        lines.append(("🛑 ", name, *(SHARED if by_others else UNKNOWN)))
    rest = len(shared) - MOST_SHARED
    return [blocks.section(*lines, *([(f"… and {rest} more",)] if rest > 0 else []))] if lines else []


def _titled(title: str, parts: Sequence[Block]) -> list[Block]:
    return [blocks.header(title), *parts] if parts else []


def _held(tab: HomeTab) -> list[Block]:
    """Nodes out of service on our account, the longest first, each with the button that asks for it where it may be asked for."""
    known = [(one, row) for row in tab.incidents for one in row.held]
    ordered = sorted(known, key=lambda pair: pair[0].since or pair[1].opened_at)
    shown = [part for one, row in ordered[:MOST_HELD] for part in _held_row(one, row, tab.titles.get(one.label, ""))]
    rest = [blocks.context((f"… and {len(ordered) - MOST_HELD} more",))] if len(ordered) > MOST_HELD else []
    return [*shown, *rest] or [blocks.context(("Nothing.",))]


def _held_row(one: Held, row: OpenIncident, title: str) -> list[Block]:
    """The button stands below: beside the words it would leave a phone half of its width."""
    why: tuple[Part, ...] = (italic("Not returned by me: "), one.no_return) if one.no_return else (italic("I look at the node first"),)
    words = blocks.section((bold(one.host), f" {one.said(title)}"), (*why, *_link(row)))
    return [words] if one.no_return else [words, blocks.actions(held.button(row.id, one.ladder))]


def refused(words: str) -> Block:
    """The tab of somebody who may not see incidents."""
    return blocks.home([blocks.say(words)])


def listing(incidents: Sequence[OpenIncident], now: datetime, waits: Sequence[Block] = ()) -> list[Block]:
    """The rows, and what of customers waits to be begun; also the answer to `/rackmedic status`."""
    shown = _rows([row for row in incidents if row.lifecycle != "closed"], now, MOST)
    return [*shown, *waits] or [blocks.say(NOTHING_OPEN)]


def _rows(incidents: Sequence[OpenIncident], now: datetime, most: int) -> list[Block]:
    """Oldest first."""
    ordered = sorted(incidents, key=lambda row: row.opened_at)
    shown = [blocks.section(*_row(row, now)) for row in ordered[:most]]
    return shown if len(ordered) <= most else [*shown, blocks.context((f"… and {len(ordered) - most} more",))]


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
    small = f"{_stands(row)}, opened {age(row.opened_at, now)} ago"
    mark = OTHER_MARKS.get(_stands(row)) or MARKS[row.lifecycle]
    return ((f"{mark} ", *at, row.headline or "not diagnosed yet"), (italic(small), " · ", code(row.id), *_link(row)))


def _stands(row: OpenIncident) -> str:
    if row.stopped and row.lifecycle != "closed":
        return STOPPED
    if row.answered and row.lifecycle in ("open", "waiting"):
        return ANSWERED
    return ELSEWHERE if row.elsewhere and row.lifecycle == "open" else WORDS[row.lifecycle]


def _link(row: OpenIncident) -> tuple[Part, ...]:
    return (" · ", thread_link(row.team, row.channel, row.thread_ts, "open the thread")) if row.thread_ts else ()


def age(since: datetime, now: datetime) -> str:
    """`40 s`, `12 min`, `5 h`, `3 d`."""
    seconds = max(0, int((now - since).total_seconds()))
    for unit, length in (("d", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{seconds // length} {unit}"
    return f"{seconds} s"
