"""The fleet by host group and its recent causes, for the Home tab. A host that was not checked is not called healthy."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from bot.cards import blocks
from bot.cards.blocks import Block
from bot.cards.text import Line, bold
from bot.incidents.cards.home import OpenIncident

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
    of_open = [frozenset(incident.hosts) for incident in incidents if incident.lifecycle != "closed"]
    drained_hosts = {one.host for incident in incidents for one in incident.drained_nodes}
    rows = [_summarize_group(name, frozenset(hosts), of_open, drained_hosts) for name, hosts in groups.items()]
    return sorted(rows, key=lambda row: (-row.troubled, -row.held, -row.hosts, row.name))


def _summarize_group(name: str, hosts: frozenset[str], of_open: Sequence[frozenset[str]], held: Collection[str]) -> GroupSummary:
    troubled_hosts = [hosts & named_hosts for named_hosts in of_open if hosts & named_hosts]
    return GroupSummary(name, len(hosts), len(frozenset().union(*troubled_hosts)), len(troubled_hosts), len(hosts & frozenset(held)))


def count_causes(labels: Iterable[Sequence[str]], titles: Mapping[str, str]) -> list[tuple[str, int]]:
    """Return (cause, number of incidents), the commonest first."""
    label_counts = Counter(label for row in labels for label in dict.fromkeys(row))
    return sorted(((titles.get(label, label), number) for label, number in label_counts.items()), key=lambda row: (-row[1], row[0]))


def render_fleet(groups: Sequence[GroupSummary], found: Sequence[tuple[str, int]] | None, days: int, oldest: int = 0) -> list[Block]:
    """Render the rows. `found`: None where causes are not recorded. `oldest`: incidents counted, where not all."""
    lines: list[Line] = [(bold(group.name), f" {_format_group(group)}") for group in groups[:MAX_GROUPS]]
    more: list[Line] = (
        [(f"… and {len(groups) - MAX_GROUPS} more group{'s' * (len(groups) - MAX_GROUPS != 1)}",)] if len(groups) > MAX_GROUPS else []
    )
    more += [(f"Counted over the oldest {oldest} incidents.",)] if oldest else []
    sections = [blocks.section(*lines, *more)] if lines else []
    return sections if found is None else [*sections, blocks.section((bold(f"Found in {days} days"),), *_render_causes(found))]


def _format_group(group: GroupSummary) -> str:
    count = f"{group.hosts} host{'s' * (group.hosts != 1)}"
    status_text = (
        f"🔴 {group.troubled} in {group.incidents} open incident{'s' * (group.incidents != 1)}" if group.troubled else "in no open incident"
    )
    return " · ".join((count, status_text, *([f"⛔ {group.held} held by us"] if group.held else [])))


def _render_causes(found: Sequence[tuple[str, int]]) -> list[Line]:
    lines: list[Line] = [(f"{number} × {title}",) for title, number in found[:MAX_CAUSES]]
    rest = len(found) - MAX_CAUSES
    return [*lines, *([(f"… and {rest} more cause{'s' * (rest != 1)}",)] if rest > 0 else [])] or [("No cause was proven.",)]
