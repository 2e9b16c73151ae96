"""What closed incidents say of this one: the same cause on the same device, on the same host, elsewhere; and other trouble of the host. Pure but
for asking the port. Not found and could not look are told apart."""

from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum
from typing import Final

from graph.earlier import EarlierIncident, Recalled, Sought
from graph.incident.answers.known import Asked, meant
from graph.report import EarlierThread
from graph.state import Origin
from tools.inventory.ranges import fold

MOST_TOLD = 5
MOST_HOSTS, MOST_DEVICES, MOST_LABELS = 32, 32, 8
"""So many are looked for."""


class Near(StrEnum):
    """How near an earlier incident is to this one, in words behind its place."""

    DEVICE = "same device"
    HOST = "same host"
    CAUSE = "elsewhere"
    OTHER = "another cause"


ENDED: Final = {
    "cured": "proved twice",
    "passed": "passed its proof once",
    "in_part": "proved for part of it alone",
    "in_vain": "what ran is not proved to have helped",
    "person": "closed by a person, nothing of mine ran",
    "well": "nothing was broken",
    "quiet": "nobody said anything more, nothing of mine ran",
}
"""How it ended, in words."""


def sought(asked: Asked) -> Sought:
    """By what the message names, else by what was found."""
    named = meant(asked)
    hosts = named.hosts if named.named or asked.guilty else asked.case.brief.hosts
    roots = asked.roots
    devices = [name for row in roots for name in row.devices if name.partition("/")[0] in hosts]
    labels = asked.said.labels or tuple(row.label for row in roots)
    reader = asked.case.origin or Origin()
    visible = asked.case.visible
    return Sought(asked.case.id, reader, visible, hosts[:MOST_HOSTS], tuple(devices[:MOST_DEVICES]), labels[:MOST_LABELS])


def near(row: EarlierIncident, of: Sought) -> Near:
    """The nearest that it is."""
    same = [cause for cause in row.causes if cause.label in of.labels]
    if any(set(cause.devices) & set(of.devices) for cause in same):
        return Near.DEVICE
    if any(set(cause.hosts) & set(of.hosts) for cause in same):
        return Near.HOST
    return Near.CAUSE if same else Near.OTHER


def told(asked: Asked, of: Sought, seen: Recalled) -> tuple[list[str], tuple[EarlierThread, ...]]:
    """The lines of the answer, and which incidents they tell of."""
    if seen.could_not:
        return [f"I could not look for earlier incidents: {seen.could_not}."], ()
    if not (of.hosts or of.labels):
        return ["Name a host, and I look for its earlier incidents; nothing is found here yet."], ()
    rows = [(near(row, of), row) for row in seen.found]
    shown = sorted(rows, key=lambda pair: pair[0] is Near.OTHER)[:MOST_TOLD]
    lines = [*_heads(asked, of, rows, cut=seen.cut), *(f"• {_line(asked, how, row, of)}" for how, row in shown)]
    lines += [f"… and {len(rows) - MOST_TOLD} more."] if len(rows) > MOST_TOLD else []
    return [*lines, _reach(seen.since)], tuple(EarlierThread(incident=row.incident, opened=row.opened) for _, row in shown)


def _heads(asked: Asked, of: Sought, rows: Sequence[tuple[Near, EarlierIncident]], *, cut: bool) -> list[str]:
    same = [row for how, row in rows if how is not Near.OTHER]
    others = [row for how, row in rows if how is Near.OTHER]
    what = " or ".join(asked.title(label) for label in of.labels[:2])
    heads = []
    if same:
        counted = [(how, sum(found is how for found, _ in rows)) for how in (Near.DEVICE, Near.HOST, Near.CAUSE)]
        parts = ", ".join(f"{count} {'on the ' if how is not Near.CAUSE else ''}{how}" for how, count in counted if count)
        least = "at least " if cut else ""
        there = not asked.said.hosts or any(how in (Near.DEVICE, Near.HOST) for how, _ in rows)
        yes = "Yes: " if asked.said.predicate == "happened" and there else ""
        heads.append(f"{yes}{what} {least}{times(len(same))} since {min(row.opened for row in same):%Y-%m-%d} ({parts}).")
    elif of.labels:
        heads.append(f"None of the closed incidents that I keep was {what}.")
    where = fold(of.hosts)
    if others:
        least = "at least " if cut else ""
        heads.append(f"{where} had {'something else' if of.labels else 'an incident'} {least}{times(len(others))} before.")
    elif of.hosts and not of.labels:
        heads.append(f"None of the closed incidents that I keep was about {where}.")
    return heads


def _line(asked: Asked, how: Near, row: EarlierIncident, of: Sought) -> str:
    """`2026-11-02 gpu-003 (same device): GPU fell off the bus; gpu reset, proved twice`."""
    causes = [cause for cause in row.causes if cause.label in of.labels] or list(row.causes)
    hosts = [host for cause in causes for host in cause.hosts] or list(row.hosts)
    what = " and ".join(dict.fromkeys(asked.title(cause.label) for cause in causes[:2])) or "no cause found"
    where = f" {fold(dict.fromkeys(hosts))}" if hosts else ""
    did = f"{' and '.join(row.did[:2]).replace('_', ' ')}, " if row.did else ""
    return f"{row.opened:%Y-%m-%d}{where} ({how}): {what}; {did}{ENDED[row.ended]}"


def _reach(since: datetime | None) -> str:
    if since is None:
        return "Closed incidents that may be told here: none is kept yet."
    return f"What is kept reaches back to {since:%Y-%m-%d}."


def times(count: int) -> str:
    """`once`, `3 times`."""
    return "once" if count == 1 else f"{count} times"
