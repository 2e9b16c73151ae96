"""The App Home tab and the help card. Every list is bounded and counts the rest."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from bot.cards import blocks
from bot.cards.blocks import Block, Card
from bot.cards.text import SLACK_ID_PATTERN, Line, Part, bold, channel_link, code, italic, thread_link
from bot.incidents.cards import report_rows, return_buttons
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
    drained_nodes: tuple[DrainedNode, ...] = ()  # drained nodes; a closed incident may have some too
    elsewhere: bool = False  # another incident works on all that it found
    stopped: bool = False  # stopped, and no new check was requested since
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
    open_now = [incident for incident in tab.incidents if incident.lifecycle != "closed"]
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
    if rest > 0:
        lines.append((f"… and {rest} more",))
    return [blocks.section(*lines)] if lines else []


def _render_titled_part(title: str, parts: Sequence[Block]) -> list[Block]:
    return [blocks.header(title), *parts] if parts else []


def _render_drained_nodes(tab: HomeTab) -> list[Block]:
    """Render drained nodes, the longest drained first."""
    drained = [(one, incident) for incident in tab.incidents for one in incident.drained_nodes]
    ordered = sorted(drained, key=lambda pair: pair[0].since or pair[1].opened_at)
    node_blocks = [
        part for one, row in ordered[:MAX_DRAINED_NODES] for part in _render_drained_node(one, row, tab.titles.get(one.label, ""))
    ]
    rest = [blocks.context((f"… and {len(ordered) - MAX_DRAINED_NODES} more",))] if len(ordered) > MAX_DRAINED_NODES else []
    return [*node_blocks, *rest] or [blocks.context(("Nothing.",))]


def _render_drained_node(node: DrainedNode, incident: OpenIncident, title: str) -> list[Block]:
    """Put the button below: beside the text it takes half of a phone's width."""
    no_return_parts: tuple[Part, ...] = (
        (italic("Not returned automatically:"), " ", node.no_return) if node.no_return else (italic("I check the node first"),)
    )
    words = blocks.section((bold(node.host), f" {node.render_status(title)}"), (*no_return_parts, *_render_thread_link(incident)))
    return [words] if node.no_return else [words, blocks.actions(return_buttons.render_return_button(incident.id, node.ladder))]


def render_refused_home(words: str) -> Block:
    return blocks.home_view([blocks.line_section(words)])


def render_incident_list(incidents: Sequence[OpenIncident], now: datetime, waits: Sequence[Block] = ()) -> list[Block]:
    """Render open incidents and waiting tenants."""
    incident_rows = _render_incident_rows([incident for incident in incidents if incident.lifecycle != "closed"], now, MAX_INCIDENTS)
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


def _render_incident_row(incident: OpenIncident, now: datetime) -> tuple[Line, ...]:
    at: tuple[Part, ...] = (bold(report_rows.fold_hosts(incident.hosts)), " ") if incident.hosts else ()
    small = f"{_get_status_text(incident)}, opened {format_age(incident.opened_at, now)} ago"
    mark = STATUS_MARKS.get(_get_status_text(incident)) or LIFECYCLE_MARKS[incident.lifecycle]
    return (
        (f"{mark} ", *at, incident.headline or "not diagnosed yet"),
        (italic(small), " · ", code(incident.id), *_render_thread_link(incident)),
    )


def _get_status_text(incident: OpenIncident) -> str:
    if incident.stopped and incident.lifecycle != "closed":
        return STOPPED_TEXT
    if incident.answered and incident.lifecycle in ("open", "waiting"):
        return ANSWERED_TEXT
    return ELSEWHERE_TEXT if incident.elsewhere and incident.lifecycle == "open" else LIFECYCLE_WORDS[incident.lifecycle]


def _render_thread_link(incident: OpenIncident) -> tuple[Part, ...]:
    return (" · ", thread_link(incident.team, incident.channel, incident.thread_ts, "open the thread")) if incident.thread_ts else ()


def format_age(since: datetime, now: datetime) -> str:
    """Return for example `40 s`, `12 min`, `5 h`, `3 d`."""
    seconds = max(0, int((now - since).total_seconds()))
    for unit, length in (("d", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{seconds // length} {unit}"
    return f"{seconds} s"
