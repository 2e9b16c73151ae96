"""The App Home tab and the help card. Every list is bounded and counts the rest. A host that was not checked is not called healthy."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
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
MAX_GROUPS = 8
MAX_CAUSES = 6


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
    drained_nodes: tuple[DrainedNode, ...] = ()  # a closed incident may have some too
    elsewhere: bool = False  # another incident works on all causes of this one
    stopped: bool = False  # stopped, and no new check was requested since
    answered: bool = False  # nothing is left to do: the tenant was told how to fix it, or that nothing is wrong


@dataclass(frozen=True, slots=True)
class HomeTab:
    """What the tab shows."""

    incidents: Sequence[OpenIncident]
    user: str = ""
    titles: Mapping[str, str] = field(default_factory=dict)  # cause label → title
    pending_approvals: Sequence[Block] = ()  # empty where nothing can be approved
    quota_waits: Sequence[Block] = ()  # incidents of tenants that are over their quota
    brakes: Sequence[Block] = ()  # empty where nothing can be approved
    note: str = ""  # result of a click on this tab
    fleet: Sequence[Block] = ()  # groups and recent causes
    # Operator channels that another organisation reads (True), or for which Slack does not say (None). They are not served.
    unserved_channels: Mapping[str, bool | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class GroupSummary:
    """The number of a group's hosts, and of those with trouble."""

    name: str
    hosts: int
    hosts_in_incidents: int  # hosts in open incidents
    incidents: int  # open incidents with a host of the group
    drained_hosts: int


def render_home_tab(tab: HomeTab, now: datetime) -> Block:
    """Render the tab. What the reader must decide comes first."""
    open_now = [incident for incident in tab.incidents if incident.lifecycle != "closed"]
    own_incidents = [incident for incident in open_now if tab.user in incident.owners]
    return blocks.home_view(
        [
            *([blocks.line_section(bold(tab.note))] if tab.note else []),
            *_render_unserved_channels(tab.unserved_channels),
            *_render_titled_part("Waiting for me", tab.pending_approvals),
            *_render_titled_part("Mine", _render_incident_rows(own_incidents, now, MAX_OWN_INCIDENTS) or [blocks.context(("None.",))]),
            *_render_titled_part("Open", render_incident_list(open_now, now, tab.quota_waits)),
            *_render_titled_part("Hosts still held", _render_drained_nodes(tab)),
            *_render_titled_part("The fleet", tab.fleet),
            *_render_titled_part("Brakes", tab.brakes),
        ]
    )


def summarize_groups(groups: Mapping[str, Collection[str]], incidents: Sequence[OpenIncident]) -> list[GroupSummary]:
    """Return a summary of each group, those with the most hosts in incidents first."""
    hosts_by_incident = [frozenset(incident.hosts) for incident in incidents if incident.lifecycle != "closed"]
    drained_hosts = frozenset(node.host for incident in incidents for node in incident.drained_nodes)
    summaries = [_summarize_group(name, frozenset(hosts), hosts_by_incident, drained_hosts) for name, hosts in groups.items()]
    return sorted(summaries, key=lambda group: (-group.hosts_in_incidents, -group.drained_hosts, -group.hosts, group.name))


def count_causes(labels: Iterable[Sequence[str]], titles: Mapping[str, str]) -> list[tuple[str, int]]:
    """Return the title of each cause with its number of incidents, the commonest first. `labels` are the causes of each incident."""
    label_counts = Counter(label for incident_labels in labels for label in dict.fromkeys(incident_labels))
    title_counts = [(titles.get(label, label), count) for label, count in label_counts.items()]
    return sorted(title_counts, key=lambda title_count: (-title_count[1], title_count[0]))


def render_fleet(
    groups: Sequence[GroupSummary], cause_counts: Sequence[tuple[str, int]] | None, days: int, counted_incidents: int = 0
) -> list[Block]:
    """Render the host groups and the causes of the last `days`.

    Args:
        groups: see `summarize_groups`.
        cause_counts: see `count_causes`. None where causes are not recorded.
        days: the days in which the causes were found.
        counted_incidents: how many incidents the summaries count, if there are more.
    """
    lines: list[Line] = [(bold(group.name), f" {_format_group(group)}") for group in groups[:MAX_GROUPS]]
    omitted = len(groups) - MAX_GROUPS
    if omitted > 0:
        lines.append((f"… and {omitted} more group{_plural(omitted)}",))
    if lines and counted_incidents:
        lines.append((f"Counted over the oldest {counted_incidents} incidents.",))
    sections = [blocks.section(*lines)] if lines else []
    if cause_counts is not None:
        sections.append(blocks.section((bold(f"Found in {days} days"),), *_render_causes(cause_counts)))
    return sections


def render_refused_home(words: str) -> Block:
    return blocks.home_view([blocks.line_section(words)])


def render_incident_list(incidents: Sequence[OpenIncident], now: datetime, quota_waits: Sequence[Block] = ()) -> list[Block]:
    """Render open incidents, then those that wait for their tenant's quota."""
    incident_rows = _render_incident_rows([incident for incident in incidents if incident.lifecycle != "closed"], now, MAX_INCIDENTS)
    return [*incident_rows, *quota_waits] or [blocks.line_section(NOTHING_OPEN_TEXT)]


def render_help(forms: Iterable[tuple[str, str]]) -> Card:
    """Render the help card. `forms` are what a person may write, each with its meaning."""
    lines: list[Line] = [(code(form), f" {meaning}") for form, meaning in forms]
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


def format_age(since: datetime, now: datetime) -> str:
    """Return for example `40 s`, `12 min`, `5 h`, `3 d`."""
    seconds = max(0, int((now - since).total_seconds()))
    for unit, length in (("d", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{seconds // length} {unit}"
    return f"{seconds} s"


def _render_unserved_channels(unserved_channels: Mapping[str, bool | None]) -> list[Block]:
    lines: list[Line] = []
    for channel, is_shared in list(unserved_channels.items())[:MAX_UNSERVED_CHANNELS]:
        name = channel_link(channel) if SLACK_ID_PATTERN.fullmatch(channel) else code(channel)
        lines.append(("🛑 ", name, *(SHARED_CHANNEL_TEXT if is_shared else UNKNOWN_SHARING_TEXT)))
    omitted = len(unserved_channels) - MAX_UNSERVED_CHANNELS
    if omitted > 0:
        lines.append((f"… and {omitted} more",))
    return [blocks.section(*lines)] if lines else []


def _render_titled_part(title: str, parts: Sequence[Block]) -> list[Block]:
    return [blocks.header(title), *parts] if parts else []


def _render_drained_nodes(tab: HomeTab) -> list[Block]:
    """Render drained nodes, the longest drained first."""
    nodes = [(node, incident) for incident in tab.incidents for node in incident.drained_nodes]
    if not nodes:
        return [blocks.context(("Nothing.",))]
    nodes.sort(key=lambda pair: pair[0].since or pair[1].opened_at)
    node_blocks: list[Block] = []
    for node, incident in nodes[:MAX_DRAINED_NODES]:
        node_blocks += _render_drained_node(node, incident, tab.titles.get(node.label, ""))
    if len(nodes) > MAX_DRAINED_NODES:
        node_blocks.append(blocks.context((f"… and {len(nodes) - MAX_DRAINED_NODES} more",)))
    return node_blocks


def _render_drained_node(node: DrainedNode, incident: OpenIncident, title: str) -> list[Block]:
    first_line: Line = (bold(node.host), f" {node.render_status(title)}")
    if node.no_return:
        reason_line: Line = (italic("Not returned automatically:"), " ", node.no_return, *_render_thread_link(incident))
        return [blocks.section(first_line, reason_line)]
    check_line: Line = (italic("I check the node first"), *_render_thread_link(incident))
    # The button is below the text: beside it, it would take half of a phone's width.
    return [blocks.section(first_line, check_line), blocks.actions(return_buttons.render_return_button(incident.id, node.ladder))]


def _render_incident_rows(incidents: Sequence[OpenIncident], now: datetime, max_rows: int) -> list[Block]:
    """Render the oldest incidents, and the number of those left out."""
    ordered = sorted(incidents, key=lambda incident: incident.opened_at)
    sections = [blocks.section(*_render_incident_row(incident, now)) for incident in ordered[:max_rows]]
    if len(ordered) > max_rows:
        sections.append(blocks.context((f"… and {len(ordered) - max_rows} more",)))
    return sections


def _render_incident_row(incident: OpenIncident, now: datetime) -> tuple[Line, ...]:
    hosts: tuple[Part, ...] = (bold(report_rows.fold_hosts(incident.hosts)), " ") if incident.hosts else ()
    status = _get_status_text(incident)
    mark = STATUS_MARKS.get(status) or LIFECYCLE_MARKS[incident.lifecycle]
    return (
        (f"{mark} ", *hosts, incident.headline or "not diagnosed yet"),
        (italic(f"{status}, opened {format_age(incident.opened_at, now)} ago"), " · ", code(incident.id), *_render_thread_link(incident)),
    )


def _get_status_text(incident: OpenIncident) -> str:
    if incident.stopped and incident.lifecycle != "closed":
        return STOPPED_TEXT
    if incident.answered and incident.lifecycle in ("open", "waiting"):
        return ANSWERED_TEXT
    if incident.elsewhere and incident.lifecycle == "open":
        return ELSEWHERE_TEXT
    return LIFECYCLE_WORDS[incident.lifecycle]


def _render_thread_link(incident: OpenIncident) -> tuple[Part, ...]:
    if not incident.thread_ts:
        return ()
    return (" · ", thread_link(incident.team, incident.channel, incident.thread_ts, "open the thread"))


def _summarize_group(
    name: str, hosts: frozenset[str], hosts_by_incident: Sequence[frozenset[str]], drained_hosts: frozenset[str]
) -> GroupSummary:
    affected_hosts = [hosts & incident_hosts for incident_hosts in hosts_by_incident if hosts & incident_hosts]
    return GroupSummary(
        name,
        hosts=len(hosts),
        hosts_in_incidents=len(frozenset().union(*affected_hosts)),
        incidents=len(affected_hosts),
        drained_hosts=len(hosts & drained_hosts),
    )


def _format_group(group: GroupSummary) -> str:
    parts = [f"{group.hosts} host{_plural(group.hosts)}"]
    if group.hosts_in_incidents:
        parts.append(f"🔴 {group.hosts_in_incidents} in {group.incidents} open incident{_plural(group.incidents)}")
    else:
        parts.append("in no open incident")
    if group.drained_hosts:
        parts.append(f"⛔ {group.drained_hosts} held by us")
    return " · ".join(parts)


def _render_causes(cause_counts: Sequence[tuple[str, int]]) -> list[Line]:
    if not cause_counts:
        return [("No cause was proven.",)]
    lines: list[Line] = [(f"{count} × {title}",) for title, count in cause_counts[:MAX_CAUSES]]
    omitted = len(cause_counts) - MAX_CAUSES
    if omitted > 0:
        lines.append((f"… and {omitted} more cause{_plural(omitted)}",))
    return lines


def _plural(count: int) -> str:
    return "" if count == 1 else "s"
