"""The App Home tab and the help card. Every list is bounded and counts the rest."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from bot.cards import blocks
from bot.cards.blocks import Block, Card
from bot.cards.text import SLACK_ID_PATTERN, Line, Part, bold, channel_link, code, italic, thread_link
from bot.incidents.cards import report_rows
from graph.remediation.drained_nodes import DrainedNode
from graph.state import Lifecycle

LIFECYCLE_MARKS = {"open": "🔎", "waiting": "⏳", "watching": "👀", "handed_off": "🎫", "closed": "✅"}
LIFECYCLE_WORDS = {
    "open": "being looked at",
    "waiting": "waiting for people",
    "watching": "being watched",
    "handed_off": "with a human",
    "closed": "closed",
}
ANSWERED_TEXT = "customer answered, closes automatically"
STOPPED_TEXT = "stopped"
ELSEWHERE_TEXT = "worked on in another thread"
STATUS_MARKS = {ELSEWHERE_TEXT: "↪", STOPPED_TEXT: "⏹"}
MAX_INCIDENTS = 30
MAX_OWN_INCIDENTS = 8
MAX_DRAINED_NODES = 10
SHARED_CHANNEL_TEXT: tuple[Part, ...] = (
    " is read by another organisation: ",
    bold("I do not answer there"),
    ". End the sharing in the channel's settings, or have a channel of your own bound in the inventory.",
)
UNKNOWN_SHARING_TEXT: tuple[Part, ...] = (
    ": Slack does not say whether another organisation reads it, so I do not answer there until it does.",
)
MAX_UNSERVED_CHANNELS = 5
NOTHING_OPEN_TEXT = "🟢 Nothing is open. Mention me in the incident channel when something breaks."


@dataclass(frozen=True, slots=True)
class OpenIncident:
    """One row of the incident list."""

    id: str
    lifecycle: Lifecycle
    opened_at: datetime
    headline: str = ""
    hosts: tuple[str, ...] = ()
    team: str = ""
    channel: str = ""
    thread_ts: str = ""
    opened_by: str = ""  # user id
    owners: frozenset[str] = frozenset()  # user ids of the ticket's assignee and of the assigned person
    held: tuple[DrainedNode, ...] = ()  # drained nodes; a closed incident may have some too
    elsewhere: bool = False  # another incident works on all that it found
    stopped: bool = False  # stopped, and no new look was asked for since
    answered: bool = False  # nothing is left to do for us: the tenant knows how to mend it, or that nothing is wrong


@dataclass(frozen=True, slots=True)
class HomeTab:
    """`waiting` and `brakes` are empty where nothing can be approved; `waits` shows tenants over their quota."""

    incidents: Sequence[OpenIncident]
    user: str = ""
    titles: Mapping[str, str] = field(default_factory=dict)  # cause label → title
    waiting: Sequence[Block] = ()
    waits: Sequence[Block] = ()
    brakes: Sequence[Block] = ()
    note: str = ""  # result of a click on this tab
    fleet: Sequence[Block] = ()  # groups and recent causes
    # Operator channels that others read (True) or of which Slack does not say it (None); not served until mended.
    shared: Mapping[str, bool | None] = field(default_factory=dict)


def render_home_tab(tab: HomeTab, now: datetime) -> Block:
    """Render the tab, what needs its reader first."""
    open_now = [row for row in tab.incidents if row.lifecycle != "closed"]
    own_incidents = [row for row in open_now if tab.user in row.owners]
    return blocks.home_view(
        [
            *([blocks.line_section(bold(tab.note))] if tab.note else []),
            *_render_unserved_channels(tab.shared),
            *_render_titled_part("Waiting for me", tab.waiting),
            *_render_titled_part("Mine", _render_incident_rows(own_incidents, now, MAX_OWN_INCIDENTS) or [blocks.context(("None.",))]),
            *_render_titled_part("Open", render_incident_list(open_now, now, tab.waits)),
            *_render_titled_part("Hosts still held", _render_drained_nodes(tab)),
            *_render_titled_part("The fleet", tab.fleet),
            *_render_titled_part("Brakes", tab.brakes),
        ]
    )


def _render_unserved_channels(shared: Mapping[str, bool | None]) -> list[Block]:
    lines: list[Line] = []
    for channel, by_others in list(shared.items())[:MAX_UNSERVED_CHANNELS]:
        name = channel_link(channel) if SLACK_ID_PATTERN.fullmatch(channel) else code(channel)
        lines.append(("🛑 ", name, *(SHARED_CHANNEL_TEXT if by_others else UNKNOWN_SHARING_TEXT)))
    rest = len(shared) - MAX_UNSERVED_CHANNELS
    return [blocks.section(*lines, *([(f"… and {rest} more",)] if rest > 0 else []))] if lines else []


def _render_titled_part(title: str, parts: Sequence[Block]) -> list[Block]:
    return [blocks.header(title), *parts] if parts else []


def _render_drained_nodes(tab: HomeTab) -> list[Block]:
    """Render drained nodes, the longest drained first."""
    drained = [(one, row) for row in tab.incidents for one in row.held]
    ordered = sorted(drained, key=lambda pair: pair[0].since or pair[1].opened_at)
    node_blocks = [
        part for one, row in ordered[:MAX_DRAINED_NODES] for part in _render_drained_node(one, row, tab.titles.get(one.label, ""))
    ]
    rest = [blocks.context((f"… and {len(ordered) - MAX_DRAINED_NODES} more",))] if len(ordered) > MAX_DRAINED_NODES else []
    return [*node_blocks, *rest] or [blocks.context(("Nothing.",))]


def _render_drained_node(one: DrainedNode, row: OpenIncident, title: str) -> list[Block]:
    """Put the button below: beside the text it takes half of a phone's width."""
    no_return_parts: tuple[Part, ...] = (
        (italic("Not returned automatically:"), " ", one.no_return) if one.no_return else (italic("I check the node first"),)
    )
    words = blocks.section((bold(one.host), f" {one.render_status(title)}"), (*no_return_parts, *_render_thread_link(row)))
    return [words] if one.no_return else [words, blocks.actions(report_rows.render_return_button(row.id, one.ladder))]


def render_refused_home(words: str) -> Block:
    return blocks.home_view([blocks.line_section(words)])


def render_incident_list(incidents: Sequence[OpenIncident], now: datetime, waits: Sequence[Block] = ()) -> list[Block]:
    """Render open incidents and waiting tenants."""
    incident_rows = _render_incident_rows([row for row in incidents if row.lifecycle != "closed"], now, MAX_INCIDENTS)
    return [*incident_rows, *waits] or [blocks.line_section(NOTHING_OPEN_TEXT)]


def _render_incident_rows(incidents: Sequence[OpenIncident], now: datetime, most: int) -> list[Block]:
    ordered = sorted(incidents, key=lambda row: row.opened_at)
    sections = [blocks.section(*_render_incident_row(row, now)) for row in ordered[:most]]
    return sections if len(ordered) <= most else [*sections, blocks.context((f"… and {len(ordered) - most} more",))]


def render_help(rows: Iterable[tuple[str, str]]) -> Card:
    """Render (what to say, what it means) rows."""
    lines: list[Line] = [(code(form), f" {means}") for form, means in rows]
    return blocks.build_card(
        "What I understand",
        [
            blocks.section((bold("In an incident's thread, without mentioning me:"),), *lines),
            blocks.line_section(bold("To begin:"), " mention me with what is wrong, or use “Diagnose this” from a message's menu."),
            blocks.line_section(
                bold("To stop every repair:"), " ", code("/rackmedic stop [why]"), ", and what waits: ", code("/rackmedic status")
            ),
        ],
    )


def _render_incident_row(row: OpenIncident, now: datetime) -> tuple[Line, ...]:
    at: tuple[Part, ...] = (bold(report_rows.fold_hosts(row.hosts)), " ") if row.hosts else ()
    small = f"{_get_status_text(row)}, opened {format_age(row.opened_at, now)} ago"
    mark = STATUS_MARKS.get(_get_status_text(row)) or LIFECYCLE_MARKS[row.lifecycle]
    return ((f"{mark} ", *at, row.headline or "not diagnosed yet"), (italic(small), " · ", code(row.id), *_render_thread_link(row)))


def _get_status_text(row: OpenIncident) -> str:
    if row.stopped and row.lifecycle != "closed":
        return STOPPED_TEXT
    if row.answered and row.lifecycle in ("open", "waiting"):
        return ANSWERED_TEXT
    return ELSEWHERE_TEXT if row.elsewhere and row.lifecycle == "open" else LIFECYCLE_WORDS[row.lifecycle]


def _render_thread_link(row: OpenIncident) -> tuple[Part, ...]:
    return (" · ", thread_link(row.team, row.channel, row.thread_ts, "open the thread")) if row.thread_ts else ()


def format_age(since: datetime, now: datetime) -> str:
    """Return for example `40 s`, `12 min`, `5 h`, `3 d`."""
    seconds = max(0, int((now - since).total_seconds()))
    for unit, length in (("d", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{seconds // length} {unit}"
    return f"{seconds} s"


# The fleet and recent causes, for the Home tab. An unreported host is not called healthy.

MAX_GROUPS = 8
MAX_CAUSES = 6


@dataclass(frozen=True, slots=True)
class GroupSummary:
    """Counts of hosts, hosts in open incidents, these incidents, and drained hosts."""

    name: str
    hosts: int
    troubled: int
    incidents: int
    held: int


def summarize_groups(groups: Mapping[str, Collection[str]], incidents: Sequence[OpenIncident]) -> list[GroupSummary]:
    """Return a row per group, the most troubled first."""
    of_open = [frozenset(row.hosts) for row in incidents if row.lifecycle != "closed"]
    drained_hosts = {one.host for row in incidents for one in row.held}
    rows = [_summarize_group(name, frozenset(hosts), of_open, drained_hosts) for name, hosts in groups.items()]
    return sorted(rows, key=lambda row: (-row.troubled, -row.held, -row.hosts, row.name))


def _summarize_group(name: str, hosts: frozenset[str], of_open: Sequence[frozenset[str]], held: Collection[str]) -> GroupSummary:
    troubled_hosts = [hosts & named_hosts for named_hosts in of_open if hosts & named_hosts]
    return GroupSummary(name, len(hosts), len(frozenset().union(*troubled_hosts)), len(troubled_hosts), len(hosts & frozenset(held)))


def count_causes(labels: Iterable[Sequence[str]], titles: Mapping[str, str]) -> list[tuple[str, int]]:
    """Return (cause, number of incidents), the commonest first."""
    label_counts = Counter(label for row in labels for label in dict.fromkeys(row))
    return sorted(((titles.get(label, label), number) for label, number in label_counts.items()), key=lambda row: (-row[1], row[0]))


def render_fleet(rows: Sequence[GroupSummary], found: Sequence[tuple[str, int]] | None, days: int, oldest: int = 0) -> list[Block]:
    """Render the rows. `found`: None where causes are not recorded. `oldest`: incidents counted, where not all."""
    lines: list[Line] = [(bold(row.name), f" {_format_group(row)}") for row in rows[:MAX_GROUPS]]
    more: list[Line] = (
        [(f"… and {len(rows) - MAX_GROUPS} more group{'s' * (len(rows) - MAX_GROUPS != 1)}",)] if len(rows) > MAX_GROUPS else []
    )
    more += [(f"Counted over the oldest {oldest} incidents.",)] if oldest else []
    sections = [blocks.section(*lines, *more)] if lines else []
    return sections if found is None else [*sections, blocks.section((bold(f"Found in {days} days"),), *_render_causes(found))]


def _format_group(row: GroupSummary) -> str:
    count = f"{row.hosts} host{'s' * (row.hosts != 1)}"
    status_text = (
        f"🔴 {row.troubled} in {row.incidents} open incident{'s' * (row.incidents != 1)}" if row.troubled else "in no open incident"
    )
    return " · ".join((count, status_text, *([f"⛔ {row.held} held by us"] if row.held else [])))


def _render_causes(found: Sequence[tuple[str, int]]) -> list[Line]:
    lines: list[Line] = [(f"{number} × {title}",) for title, number in found[:MAX_CAUSES]]
    rest = len(found) - MAX_CAUSES
    return [*lines, *([(f"… and {rest} more cause{'s' * (rest != 1)}",)] if rest > 0 else [])] or [("No cause was proven.",)]
