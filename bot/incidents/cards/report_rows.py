"""Rows that several cards share: what, where, how sure, evidence, what was ruled out, what could not be looked at."""

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from itertools import groupby
from types import MappingProxyType

from bot.cards.text import Line, bold, code
from graph.extraction.log_digests import format_log_digest, select_telling_templates
from graph.extraction.stat_text import format_confidence_percent
from graph.extraction.uploaded_files import format_file_read as file_in_words
from graph.report import FileReadResult
from graph.state import Evidence, Hypothesis, LogDigest, UnobservedCheck
from kb.fact_text import is_readable_line
from tools.inventory.host_ranges import fold_host_names

CauseTitles = Mapping[str, str]
"""Label → what people call it."""
NO_CAUSE_TITLES: CauseTitles = MappingProxyType({})

MAX_UNOBSERVED, MAX_NAMED_UNOBSERVED, MAX_RIVALS = 6, 2, 1
"""How many rows of each a card shows before it counts the rest."""
MAX_DEVICES = 4
MARKUP_PATTERN = re.compile(r"^\s{0,200}<|</[A-Za-z_]|/>")


def get_cause_title(label: str, titles: CauseTitles) -> str:
    """What people call a cause; of a label that nobody knows any more its last part, in words."""
    return titles.get(label) or label.rpartition(".")[2].replace("_", " ") or "unknown"


def fold_hosts(names: Iterable[str]) -> str:
    """Host names folded, `gpu-[017-020]`."""
    return fold_host_names(names)


def format_cause_place(h: Hypothesis) -> str:
    """The device where it is known, else the hosts."""
    return (
        ", ".join(h.devices[:4]) + (f" and {len(h.devices) - 4} more" if len(h.devices) > 4 else "")
        if h.devices
        else fold_host_names(h.hosts)
    )


def format_confidence(p: float) -> str:
    """Confidence for people; never 100 %."""
    return format_confidence_percent(p)


def render_cause_place(h: Hypothesis) -> Line:
    """Where and how sure: `gpu-017/gpu5 · 99 % sure`."""
    return (bold(format_cause_place(h) or "no machine at fault"), f" · {format_confidence(h.confidence)} sure")


def render_evidence_summary(h: Hypothesis, most: int, *, sources: bool = True) -> list[Line]:
    """The first lines of evidence as people read them, what decided first; as they were printed they are in the details. `sources`: with
    the check and the time."""
    said = _group_evidence_by_text(h)
    shown = said[:most] or ([(h.because, [])] if h.because else [])
    return [(f"• {words}", *(_render_source(h, rows) if sources else ())) for words, rows in shown]


def _group_evidence_by_text(h: Hypothesis) -> list[tuple[str, list[Evidence]]]:
    """Evidence that says the same together."""
    found: dict[str, list[Evidence]] = {}
    for row in h.evidence:
        found.setdefault(row.says or (row.line.strip() if is_readable_line(row.line) else f"see {row.check} in the details"), []).append(
            row
        )
    return sorted(found.items(), key=lambda one: one[0] != h.because)


def _render_source(h: Hypothesis, rows: Sequence[Evidence]) -> Line:
    """Where it was read: the check, the hosts where the cause is on several, the time of its first line."""
    if not rows:
        return ()
    names = fold_host_names({row.host for row in rows if row.host}) if len(h.hosts) != 1 else ""
    times = [row.time for row in rows if row.time]
    when = f" {min(times):%H:%M} UTC" if times else ""
    return (f" ({', '.join(dict.fromkeys(row.check for row in rows))}{f' on {names}' if names else ''}{when})",)


def render_rivals(rows: Sequence[Hypothesis], titles: CauseTitles) -> list[Line]:
    """One line: the nearest causes that it is not."""
    names = "; ".join(get_cause_title(row.label, titles) for row in rows[:MAX_RIVALS])
    return [(bold("Not:"), f" {names}")] if names else []


def format_evidence(rows: Sequence[Evidence]) -> list[str]:
    """Monospace lines: `host · check` once, below it each line with its time in UTC (the day only where days differ). XML is told in
    words; the output itself is stored and can be asked for."""
    shown = sorted(rows, key=lambda e: (e.host, e.check))
    days = {e.time.date() for e in shown if e.time}
    lines: list[str] = []
    for (host, check), group in groupby(shown, key=lambda e: (e.host, e.check)):
        lines.append(f"{host or 'ticket'} · {check}")
        for e in group:
            said = (e.says or e.key) if MARKUP_PATTERN.search(e.line) else e.line.strip()
            lines.append(f"  {_format_time(e.time, len(days) > 1)}{said}")
    return lines


def _format_time(time: datetime | None, day: bool) -> str:
    if time is None:
        return ""
    return f"{time:%m-%d %H:%M:%SZ}  " if day else f"{time:%H:%M:%SZ}  "


def render_ruled_out(rows: Sequence[Hypothesis], titles: CauseTitles) -> list[Line]:
    """One line each: what, and why not."""
    return [(f"• {get_cause_title(h.label, titles)}: {h.because or 'nothing shows it'}",) for h in rows]


def render_unobserved(rows: Sequence[UnobservedCheck], most: int = MAX_UNOBSERVED) -> list[Line]:
    """Hosts with the same trouble share a line."""
    grouped: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        grouped.setdefault((row.check, row.why), []).append(row.host)
    lines: list[Line] = [(bold(fold_host_names(names)), f" {check}: {why}") for (check, why), names in list(grouped.items())[:most]]
    return lines if len(grouped) <= most else [*lines, (f"… and {len(grouped) - most} more",)]


def render_unobserved_summary(rows: Sequence[UnobservedCheck]) -> Line:
    """The same in one line, without the reasons."""
    grouped: dict[str, list[str]] = {}
    for row in rows:
        grouped.setdefault(row.check, []).append(row.host)
    named = [f"{fold_host_names(names)} {check}" for check, names in list(grouped.items())[:MAX_NAMED_UNOBSERVED]]
    rest = len(grouped) - MAX_NAMED_UNOBSERVED
    return (", ".join(named), f" and {rest} more" if rest > 0 else "") if named else ()


def render_files(rows: Sequence[FileReadResult]) -> list[Line]:
    """Each file by name, with its size and what was found in it."""
    return [(code(row.name), f" {file_in_words(row)}") for row in rows]


def format_logs(digests: Sequence[LogDigest]) -> list[str]:
    """Monospace lines: each log's name and size once, below it its most telling kinds of lines with counts, times and places."""
    return [line for digest in select_telling_templates(digests) for line in format_log_digest(digest)]
