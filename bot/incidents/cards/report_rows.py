"""Rows that several cards share."""

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from itertools import groupby
from types import MappingProxyType

from bot.cards.text import Line, bold, code
from graph.extraction.log_digests import format_log_digest, select_telling_templates
from graph.extraction.report_texts import format_confidence_percent
from graph.extraction.uploaded_files import format_file_read
from graph.report import FileReadResult
from graph.state import Evidence, Hypothesis, LogDigest, UnobservedCheck
from kb.fact_text import is_readable_line
from tools.inventory.host_ranges import fold_host_names

CauseTitles = Mapping[str, str]  # label → title
NO_CAUSE_TITLES: CauseTitles = MappingProxyType({})
# rows shown before the rest is counted
MAX_UNOBSERVED = 6
MAX_NAMED_UNOBSERVED = 2
MAX_RIVALS = 1
MAX_DEVICES = 4
MARKUP_PATTERN = re.compile(r"^\s{0,200}<|</[A-Za-z_]|/>")


def get_cause_title(label: str, titles: CauseTitles) -> str:
    """Return a cause's title; for an unknown label its last part."""
    return titles.get(label) or label.rpartition(".")[2].replace("_", " ") or "unknown"


def fold_hosts(names: Iterable[str]) -> str:
    """Return for example `gpu-[017-020]`."""
    return fold_host_names(names)


def format_cause_place(hypothesis: Hypothesis) -> str:
    """Return the devices where known, else the hosts."""
    if not hypothesis.devices:
        return fold_host_names(hypothesis.hosts)
    more = len(hypothesis.devices) - MAX_DEVICES
    return ", ".join(hypothesis.devices[:MAX_DEVICES]) + (f" and {more} more" if more > 0 else "")


def format_confidence(p: float) -> str:
    """Return percent, never 100 %."""
    return format_confidence_percent(p)


def render_cause_place(hypothesis: Hypothesis) -> Line:
    """Return for example `gpu-017/gpu5 · 99 % sure`."""
    return (bold(format_cause_place(hypothesis) or "not a host fault"), f" · {format_confidence(hypothesis.confidence)} sure")


def render_evidence_summary(hypothesis: Hypothesis, max_lines: int, *, sources: bool = True) -> list[Line]:
    """Return the first evidence in words, the decisive first. `sources`: with check and time."""
    evidence_by_text = _group_evidence_by_text(hypothesis)
    shown_evidence = evidence_by_text[:max_lines] or ([(hypothesis.because, [])] if hypothesis.because else [])
    return [(f"• {words}", *(_render_source(hypothesis, rows) if sources else ())) for words, rows in shown_evidence]


def _group_evidence_by_text(hypothesis: Hypothesis) -> list[tuple[str, list[Evidence]]]:
    evidence_by_text: dict[str, list[Evidence]] = {}
    for evidence_row in hypothesis.evidence:
        evidence_by_text.setdefault(
            evidence_row.says
            or (evidence_row.line.strip() if is_readable_line(evidence_row.line) else f"see {evidence_row.check} in the details"),
            [],
        ).append(evidence_row)
    return sorted(evidence_by_text.items(), key=lambda one: one[0] != hypothesis.because)


def _render_source(hypothesis: Hypothesis, evidence: Sequence[Evidence]) -> Line:
    """Return checks, hosts (unless the cause has exactly one) and the first time."""
    if not evidence:
        return ()
    names = fold_host_names({evidence_row.host for evidence_row in evidence if evidence_row.host}) if len(hypothesis.hosts) != 1 else ""
    times = [evidence_row.time for evidence_row in evidence if evidence_row.time]
    when = f" {min(times):%H:%M} UTC" if times else ""
    return (f" ({', '.join(dict.fromkeys(evidence_row.check for evidence_row in evidence))}{f' on {names}' if names else ''}{when})",)


def render_rivals(hypotheses: Sequence[Hypothesis], titles: CauseTitles) -> list[Line]:
    names = "; ".join(get_cause_title(hypothesis.label, titles) for hypothesis in hypotheses[:MAX_RIVALS])
    return [(bold("Not:"), f" {names}")] if names else []


def format_evidence(evidence: Sequence[Evidence]) -> list[str]:
    """Return monospace lines under `host · check`, with UTC times. XML is replaced by words."""
    ordered = sorted(evidence, key=lambda e: (e.host, e.check))
    days = {e.time.date() for e in ordered if e.time}
    lines: list[str] = []
    for (host, check), group in groupby(ordered, key=lambda e: (e.host, e.check)):
        lines.append(f"{host or 'ticket'} · {check}")
        for e in group:
            quoted = (e.says or e.key) if MARKUP_PATTERN.search(e.line) else e.line.strip()
            lines.append(f"  {_format_time(e.time, len(days) > 1)}{quoted}")
    return lines


def _format_time(time: datetime | None, day: bool) -> str:
    if time is None:
        return ""
    return f"{time:%m-%d %H:%M:%SZ}  " if day else f"{time:%H:%M:%SZ}  "


def render_ruled_out(hypotheses: Sequence[Hypothesis], titles: CauseTitles) -> list[Line]:
    return [(f"• {get_cause_title(h.label, titles)}: {h.because or 'nothing shows it'}",) for h in hypotheses]


def render_unobserved(checks: Sequence[UnobservedCheck], max_lines: int = MAX_UNOBSERVED) -> list[Line]:
    """Render unobserved checks, grouped by reason."""
    grouped: dict[tuple[str, str], list[str]] = {}
    for check in checks:
        grouped.setdefault((check.check, check.why), []).append(check.host)
    lines: list[Line] = [
        (bold(fold_host_names(names)), f" {check}: {reason}") for (check, reason), names in list(grouped.items())[:max_lines]
    ]
    return lines if len(grouped) <= max_lines else [*lines, (f"… and {len(grouped) - max_lines} more",)]


def render_unobserved_summary(checks: Sequence[UnobservedCheck]) -> Line:
    """Render one line without reasons."""
    grouped: dict[str, list[str]] = {}
    for check in checks:
        grouped.setdefault(check.check, []).append(check.host)
    unobserved_names = [f"{fold_host_names(names)} {check}" for check, names in list(grouped.items())[:MAX_NAMED_UNOBSERVED]]
    rest = len(grouped) - MAX_NAMED_UNOBSERVED
    if not unobserved_names:
        return ()
    return ", ".join(unobserved_names), f" and {rest} more" if rest > 0 else ""


def render_files(files: Sequence[FileReadResult]) -> list[Line]:
    return [(code(file.name), f" {format_file_read(file)}") for file in files]


def format_logs(digests: Sequence[LogDigest]) -> list[str]:
    """Return monospace lines: name and size of each log, then its most telling templates."""
    return [line for digest in select_telling_templates(digests) for line in format_log_digest(digest)]
