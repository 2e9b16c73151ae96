"""The fleet at a glance and what was found lately, for the Home tab. What nobody reported is not called well: nobody looked."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from bot.cards import blocks
from bot.cards.blocks import Block
from bot.cards.incidents.home import OpenIncident
from bot.cards.text import Line, bold

MOST_GROUPS, MOST_CAUSES = 8, 6


@dataclass(frozen=True, slots=True)
class GroupGlance:
    """How many hosts a group has, how many of them are in open incidents and how many incidents these are, how many we hold."""

    name: str
    hosts: int
    troubled: int
    incidents: int
    held: int


def glance(groups: Mapping[str, Collection[str]], incidents: Sequence[OpenIncident]) -> list[GroupGlance]:
    """A row for each group, the one with the most trouble first."""
    of_open = [frozenset(row.hosts) for row in incidents if row.lifecycle != "closed"]
    held = {one.host for row in incidents for one in row.held}
    rows = [_row(name, frozenset(hosts), of_open, held) for name, hosts in groups.items()]
    return sorted(rows, key=lambda row: (-row.troubled, -row.held, -row.hosts, row.name))


def _row(name: str, hosts: frozenset[str], of_open: Sequence[frozenset[str]], held: Collection[str]) -> GroupGlance:
    here = [hosts & named for named in of_open if hosts & named]
    return GroupGlance(name, len(hosts), len(frozenset().union(*here)), len(here), len(hosts & frozenset(held)))


def causes(labels: Iterable[Sequence[str]], titles: Mapping[str, str]) -> list[tuple[str, int]]:
    """(cause, in how many incidents), the commonest first."""
    counted = Counter(label for row in labels for label in dict.fromkeys(row))
    return sorted(((titles.get(label, label), number) for label, number in counted.items()), key=lambda row: (-row[1], row[0]))


def render(rows: Sequence[GroupGlance], found: Sequence[tuple[str, int]] | None, days: int, oldest: int = 0) -> list[Block]:
    """`found` is None where it is not kept what was found; `oldest`: how many incidents were counted, where these are not all."""
    lines: list[Line] = [(bold(row.name), f" {_said(row)}") for row in rows[:MOST_GROUPS]]
    more: list[Line] = (
        [(f"… and {len(rows) - MOST_GROUPS} more group{'s' * (len(rows) - MOST_GROUPS != 1)}",)] if len(rows) > MOST_GROUPS else []
    )
    more += [(f"Counted over the oldest {oldest} incidents.",)] if oldest else []
    shown = [blocks.section(*lines, *more)] if lines else []
    return shown if found is None else [*shown, blocks.section((bold(f"Found in {days} days"),), *_causes(found))]


def _said(row: GroupGlance) -> str:
    count = f"{row.hosts} host{'s' * (row.hosts != 1)}"
    trouble = f"🔴 {row.troubled} in {row.incidents} open incident{'s' * (row.incidents != 1)}" if row.troubled else "in no open incident"
    return " · ".join((count, trouble, *([f"⛔ {row.held} held by us"] if row.held else [])))


def _causes(found: Sequence[tuple[str, int]]) -> list[Line]:
    lines: list[Line] = [(f"{number} × {title}",) for title, number in found[:MOST_CAUSES]]
    rest = len(found) - MOST_CAUSES
    return [*lines, *([(f"… and {rest} more cause{'s' * (rest != 1)}",)] if rest > 0 else [])] or [("No cause was proven.",)]
