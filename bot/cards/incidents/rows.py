"""Rows that several cards share: what, where, how sure, evidence, what was ruled out, what could not be looked at."""

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from itertools import groupby
from types import MappingProxyType

from bot.cards.text import Line, bold, code
from graph.reading.counts import sure
from graph.reading.files import in_words as file_in_words
from graph.reading.logs import handful, in_words
from graph.report import FileRead
from graph.state import Blind, Evidence, Hypothesis, LogDigest
from kb.readable import is_readable
from tools.inventory.ranges import fold

Titles = Mapping[str, str]
"""Label → what people call it."""
NO_TITLES: Titles = MappingProxyType({})

BLIND, BLIND_NAMED, RIVALS = 6, 2, 1
"""How many rows of each a card shows before it counts the rest."""
DEVICES = 4
MARKUP = re.compile(r"^\s{0,200}<|</[A-Za-z_]|/>")


def title(label: str, titles: Titles) -> str:
    """What people call a cause; of a label that nobody knows any more its last part, in words."""
    return titles.get(label) or label.rpartition(".")[2].replace("_", " ") or "unknown"


def hosts(names: Iterable[str]) -> str:
    """Host names folded, `gpu-[017-020]`."""
    return fold(names)


def where(h: Hypothesis) -> str:
    """The device where it is known, else the hosts."""
    return ", ".join(h.devices[:4]) + (f" and {len(h.devices) - 4} more" if len(h.devices) > 4 else "") if h.devices else fold(h.hosts)


def percent(p: float) -> str:
    """Confidence for people; never 100 %."""
    return sure(p)


def place(h: Hypothesis) -> Line:
    """Where and how sure: `gpu-017/gpu5 · 99 % sure`."""
    return (bold(where(h) or "no machine at fault"), f" · {percent(h.confidence)} sure")


def telling(h: Hypothesis, most: int, *, sources: bool = True) -> list[Line]:
    """The first lines of evidence as people read them, what decided first; as they were printed they are in the details. `sources`: with
    the check and the time."""
    said = _by_what_they_say(h)
    shown = said[:most] or ([(h.because, [])] if h.because else [])
    return [(f"• {words}", *(_source(h, rows) if sources else ())) for words, rows in shown]


def _by_what_they_say(h: Hypothesis) -> list[tuple[str, list[Evidence]]]:
    """Evidence that says the same together."""
    found: dict[str, list[Evidence]] = {}
    for row in h.evidence:
        found.setdefault(row.says or (row.line.strip() if is_readable(row.line) else f"see {row.check} in the details"), []).append(row)
    return sorted(found.items(), key=lambda one: one[0] != h.because)


def _source(h: Hypothesis, rows: Sequence[Evidence]) -> Line:
    """Where it was read: the check, the hosts where the cause is on several, the time of its first line."""
    if not rows:
        return ()
    names = fold({row.host for row in rows if row.host}) if len(h.hosts) != 1 else ""
    times = [row.time for row in rows if row.time]
    when = f" {min(times):%H:%M} UTC" if times else ""
    return (f" ({', '.join(dict.fromkeys(row.check for row in rows))}{f' on {names}' if names else ''}{when})",)


def rivals(rows: Sequence[Hypothesis], titles: Titles) -> list[Line]:
    """One line: the nearest causes that it is not."""
    names = "; ".join(title(row.label, titles) for row in rows[:RIVALS])
    return [(bold("Not:"), f" {names}")] if names else []


def evidence(rows: Sequence[Evidence]) -> list[str]:
    """Monospace lines: `host · check` once, below it each line with its time in UTC (the day only where days differ). XML is told in
    words; the output itself is stored and can be asked for."""
    shown = sorted(rows, key=lambda e: (e.host, e.check))
    days = {e.time.date() for e in shown if e.time}
    lines: list[str] = []
    for (host, check), group in groupby(shown, key=lambda e: (e.host, e.check)):
        lines.append(f"{host or 'ticket'} · {check}")
        for e in group:
            said = (e.says or e.key) if MARKUP.search(e.line) else e.line.strip()
            lines.append(f"  {_clock(e.time, len(days) > 1)}{said}")
    return lines


def _clock(time: datetime | None, day: bool) -> str:
    if time is None:
        return ""
    return f"{time:%m-%d %H:%M:%SZ}  " if day else f"{time:%H:%M:%SZ}  "


def ruled_out(rows: Sequence[Hypothesis], titles: Titles) -> list[Line]:
    """One line each: what, and why not."""
    return [(f"• {title(h.label, titles)}: {h.because or 'nothing shows it'}",) for h in rows]


def could_not_look(rows: Sequence[Blind], most: int = BLIND) -> list[Line]:
    """Hosts with the same trouble share a line."""
    grouped: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        grouped.setdefault((row.check, row.why), []).append(row.host)
    lines: list[Line] = [(bold(fold(names)), f" {check}: {why}") for (check, why), names in list(grouped.items())[:most]]
    return lines if len(grouped) <= most else [*lines, (f"… and {len(grouped) - most} more",)]


def blind_spots(rows: Sequence[Blind]) -> Line:
    """The same in one line, without the reasons."""
    grouped: dict[str, list[str]] = {}
    for row in rows:
        grouped.setdefault(row.check, []).append(row.host)
    named = [f"{fold(names)} {check}" for check, names in list(grouped.items())[:BLIND_NAMED]]
    rest = len(grouped) - BLIND_NAMED
    return (", ".join(named), f" and {rest} more" if rest > 0 else "") if named else ()


def files(rows: Sequence[FileRead]) -> list[Line]:
    """Each file by name, with its size and what was found in it."""
    return [(code(row.name), f" {file_in_words(row)}") for row in rows]


def logs(digests: Sequence[LogDigest]) -> list[str]:
    """Monospace lines: each log's name and size once, below it its most telling kinds of lines with counts, times and places."""
    return [line for digest in handful(digests) for line in in_words(digest)]
