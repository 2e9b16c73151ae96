"""Rows that several cards share: where, evidence, what was ruled out, what could not be looked at."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from itertools import groupby

from bot.cards.text import Line, Part, bold, code
from graph.reading.logs import handful, in_words
from graph.state import Blind, Evidence, Hypothesis, LogDigest
from tools.inventory.ranges import fold

EVIDENCE, RULED_OUT, BLIND = 8, 6, 6
"""How many rows of each a card shows before it counts the rest."""


def hosts(names: Iterable[str]) -> str:
    """Host names folded, `gpu-[017-020]`."""
    return fold(names)


def where(h: Hypothesis) -> str:
    """The device where it is known, else the hosts."""
    return ", ".join(h.devices[:4]) + (f" and {len(h.devices) - 4} more" if len(h.devices) > 4 else "") if h.devices else fold(h.hosts)


def percent(p: float) -> str:
    """Confidence for people; never 100 %."""
    return f"{min(99, round(p * 100))} %"


def cause(h: Hypothesis) -> tuple[Line, ...]:
    """Place first, then what, how sure and why."""
    at: tuple[Part, ...] = (bold(where(h)), " ") if where(h) else ()
    because: tuple[Line, ...] = ((h.because,),) if h.because else ()
    return ((*at, code(h.label), f" · {percent(h.confidence)} sure"), *because)


def evidence(rows: Sequence[Evidence]) -> list[str]:
    """Monospace lines: `host · check` once, below it each line with its time in UTC; the day only where days differ."""
    shown = sorted(rows[:EVIDENCE], key=lambda e: (e.host, e.check))
    days = {e.time.date() for e in shown if e.time}
    lines: list[str] = []
    for (host, check), group in groupby(shown, key=lambda e: (e.host, e.check)):
        lines.append(f"{host or 'ticket'} · {check}")
        lines += [f"  {_clock(e.time, len(days) > 1)}{e.line.strip()}" for e in group]
    return lines if len(rows) <= EVIDENCE else [*lines, f"… {len(rows) - EVIDENCE} more lines of evidence"]


def _clock(time: datetime | None, day: bool) -> str:
    if time is None:
        return ""
    return f"{time:%m-%d %H:%M:%SZ}  " if day else f"{time:%H:%M:%SZ}  "


def ruled_out(rows: Sequence[Hypothesis]) -> list[Line]:
    """One line each: what, and why not."""
    lines: list[Line] = [(code(h.label), f" {h.because}" if h.because else "") for h in rows[:RULED_OUT]]
    return lines if len(rows) <= RULED_OUT else [*lines, (f"… and {len(rows) - RULED_OUT} more",)]


def could_not_look(rows: Sequence[Blind]) -> list[Line]:
    """Hosts with the same trouble share a line."""
    grouped: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        grouped.setdefault((row.check, row.why), []).append(row.host)
    lines: list[Line] = [(bold(fold(names)), f" {check}: {why}") for (check, why), names in list(grouped.items())[:BLIND]]
    return lines if len(grouped) <= BLIND else [*lines, (f"… and {len(grouped) - BLIND} more",)]


def logs(digests: Sequence[LogDigest]) -> list[str]:
    """Monospace lines: each log's name and size once, below it its most telling kinds of lines with counts, times and places."""
    return [line for digest in handful(digests) for line in in_words(digest)]
