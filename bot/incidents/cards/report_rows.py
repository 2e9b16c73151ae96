"""Parts of a report that several cards show: causes, evidence, unobserved checks, files and logs."""

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
# How many are listed of each; the rest is counted.
MAX_UNOBSERVED = 6
MAX_NAMED_UNOBSERVED = 2
MAX_RIVALS = 1
MAX_DEVICES = 4
MARKUP_PATTERN = re.compile(r"^\s{0,200}<|</[A-Za-z_]|/>")


def get_cause_title(label: str, titles: CauseTitles) -> str:
    """Return the title of a cause. For a label without a title it is made of the label's last part."""
    return titles.get(label) or label.rpartition(".")[2].replace("_", " ") or "unknown"


def fold_hosts(names: Iterable[str]) -> str:
    """Return for example `gpu-[017-020]`."""
    return fold_host_names(names)


def format_cause_place(hypothesis: Hypothesis) -> str:
    """Return the devices of a cause, or its hosts if no device is known."""
    if not hypothesis.devices:
        return fold_host_names(hypothesis.hosts)
    devices = ", ".join(hypothesis.devices[:MAX_DEVICES])
    omitted = len(hypothesis.devices) - MAX_DEVICES
    return f"{devices} and {omitted} more" if omitted > 0 else devices


def format_confidence(p: float) -> str:
    """Return the confidence in percent. It is never 100 %."""
    return format_confidence_percent(p)


def render_cause_place(hypothesis: Hypothesis) -> Line:
    """Return for example `gpu-017/gpu5 · 99 % sure`."""
    return (bold(format_cause_place(hypothesis) or "not a host fault"), f" · {format_confidence(hypothesis.confidence)} sure")


def render_evidence_summary(hypothesis: Hypothesis, max_lines: int, *, sources: bool = True) -> list[Line]:
    """Return the first evidence in words, the deciding one first. `sources`: add check and time."""
    evidence_by_text = _group_evidence_by_text(hypothesis)
    if not evidence_by_text and hypothesis.because:
        return [(f"• {hypothesis.because}",)]
    return [(f"• {text}", *(_render_source(hypothesis, evidence) if sources else ())) for text, evidence in evidence_by_text[:max_lines]]


def _group_evidence_by_text(hypothesis: Hypothesis) -> list[tuple[str, list[Evidence]]]:
    evidence_by_text: dict[str, list[Evidence]] = {}
    for evidence in hypothesis.evidence:
        line = evidence.line.strip() if is_readable_line(evidence.line) else f"see {evidence.check} in the details"
        evidence_by_text.setdefault(evidence.says or line, []).append(evidence)
    return sorted(evidence_by_text.items(), key=lambda text_evidence: text_evidence[0] != hypothesis.because)


def _render_source(hypothesis: Hypothesis, evidence: Sequence[Evidence]) -> Line:
    """Return the checks, the hosts unless the cause has exactly one, and the first time."""
    if not evidence:
        return ()
    checks = ", ".join(dict.fromkeys(item.check for item in evidence))
    hosts = fold_host_names({item.host for item in evidence if item.host}) if len(hypothesis.hosts) != 1 else ""
    place = f" on {hosts}" if hosts else ""
    times = [item.time for item in evidence if item.time]
    when = f" {min(times):%H:%M} UTC" if times else ""
    return (f" ({checks}{place}{when})",)


def render_rivals(hypotheses: Sequence[Hypothesis], titles: CauseTitles) -> list[Line]:
    names = "; ".join(get_cause_title(hypothesis.label, titles) for hypothesis in hypotheses[:MAX_RIVALS])
    return [(bold("Not:"), f" {names}")] if names else []


def format_evidence(evidence: Sequence[Evidence]) -> list[str]:
    """Return monospace lines under `host · check`, with UTC times. XML is replaced by words."""
    ordered = sorted(evidence, key=lambda item: (item.host, item.check))
    days = {item.time.date() for item in ordered if item.time}
    lines: list[str] = []
    for (host, check), items in groupby(ordered, key=lambda item: (item.host, item.check)):
        lines.append(f"{host or 'ticket'} · {check}")
        for item in items:
            quoted = (item.says or item.key) if MARKUP_PATTERN.search(item.line) else item.line.strip()
            lines.append(f"  {_format_time(item.time, with_day=len(days) > 1)}{quoted}")
    return lines


def _format_time(time: datetime | None, *, with_day: bool) -> str:
    if time is None:
        return ""
    return f"{time:%m-%d %H:%M:%SZ}  " if with_day else f"{time:%H:%M:%SZ}  "


def render_ruled_out(hypotheses: Sequence[Hypothesis], titles: CauseTitles) -> list[Line]:
    return [(f"• {get_cause_title(cause.label, titles)}: {cause.because or 'nothing shows it'}",) for cause in hypotheses]


def render_unobserved(checks: Sequence[UnobservedCheck], max_lines: int = MAX_UNOBSERVED) -> list[Line]:
    """Render the checks that could not look. Those of one check and reason share a line."""
    hosts_by_reason: dict[tuple[str, str], list[str]] = {}
    for check in checks:
        hosts_by_reason.setdefault((check.check, check.why), []).append(check.host)
    lines: list[Line] = [
        (bold(fold_host_names(hosts)), f" {name}: {reason}") for (name, reason), hosts in list(hosts_by_reason.items())[:max_lines]
    ]
    if len(hosts_by_reason) > max_lines:
        lines.append((f"… and {len(hosts_by_reason) - max_lines} more",))
    return lines


def render_unobserved_summary(checks: Sequence[UnobservedCheck]) -> Line:
    """Render the checks that could not look in one line, without reasons."""
    hosts_by_check: dict[str, list[str]] = {}
    for check in checks:
        hosts_by_check.setdefault(check.check, []).append(check.host)
    if not hosts_by_check:
        return ()
    names = [f"{fold_host_names(hosts)} {name}" for name, hosts in list(hosts_by_check.items())[:MAX_NAMED_UNOBSERVED]]
    omitted = len(hosts_by_check) - MAX_NAMED_UNOBSERVED
    return ", ".join(names), f" and {omitted} more" if omitted > 0 else ""


def render_files(files: Sequence[FileReadResult]) -> list[Line]:
    return [(code(file.name), f" {format_file_read(file)}") for file in files]


def format_logs(digests: Sequence[LogDigest]) -> list[str]:
    """Return monospace lines: name and size of each log, then its most telling templates."""
    return [line for digest in select_telling_templates(digests) for line in format_log_digest(digest)]
