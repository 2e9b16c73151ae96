"""Rows and buttons that several cards share."""

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from itertools import groupby
from types import MappingProxyType
from typing import Any

from bot.cards import blocks
from bot.cards.blocks import Block
from bot.cards.buttons import ButtonClick, encode_button_value, parse_button_click
from bot.cards.text import Line, bold, clip_text, code
from graph.extraction.log_digests import format_log_digest, select_telling_templates
from graph.extraction.report_texts import format_confidence_percent
from graph.extraction.uploaded_files import format_file_read
from graph.report import FileReadResult, ReturnableNode
from graph.state import Evidence, Hypothesis, LogDigest, UnobservedCheck
from kb.fact_text import is_readable_line
from tools.inventory.host_ranges import fold_host_names

# Rows that several cards share.

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
    return (
        ", ".join(hypothesis.devices[:4]) + (f" and {len(hypothesis.devices) - 4} more" if len(hypothesis.devices) > 4 else "")
        if hypothesis.devices
        else fold_host_names(hypothesis.hosts)
    )


def format_confidence(p: float) -> str:
    """Return percent, never 100 %."""
    return format_confidence_percent(p)


def render_cause_place(hypothesis: Hypothesis) -> Line:
    """Return for example `gpu-017/gpu5 · 99 % sure`."""
    return (bold(format_cause_place(hypothesis) or "not a host fault"), f" · {format_confidence(hypothesis.confidence)} sure")


def render_evidence_summary(hypothesis: Hypothesis, most: int, *, sources: bool = True) -> list[Line]:
    """Return the first evidence in words, the decisive first. `sources`: with check and time."""
    evidence_by_text = _group_evidence_by_text(hypothesis)
    shown_evidence = evidence_by_text[:most] or ([(hypothesis.because, [])] if hypothesis.because else [])
    return [(f"• {words}", *(_render_source(hypothesis, rows) if sources else ())) for words, rows in shown_evidence]


def _group_evidence_by_text(hypothesis: Hypothesis) -> list[tuple[str, list[Evidence]]]:
    evidence_by_text: dict[str, list[Evidence]] = {}
    for row in hypothesis.evidence:
        evidence_by_text.setdefault(
            row.says or (row.line.strip() if is_readable_line(row.line) else f"see {row.check} in the details"), []
        ).append(row)
    return sorted(evidence_by_text.items(), key=lambda one: one[0] != hypothesis.because)


def _render_source(hypothesis: Hypothesis, rows: Sequence[Evidence]) -> Line:
    """Return checks, hosts (unless the cause has exactly one) and the first time."""
    if not rows:
        return ()
    names = fold_host_names({row.host for row in rows if row.host}) if len(hypothesis.hosts) != 1 else ""
    times = [row.time for row in rows if row.time]
    when = f" {min(times):%H:%M} UTC" if times else ""
    return (f" ({', '.join(dict.fromkeys(row.check for row in rows))}{f' on {names}' if names else ''}{when})",)


def render_rivals(rows: Sequence[Hypothesis], titles: CauseTitles) -> list[Line]:
    names = "; ".join(get_cause_title(row.label, titles) for row in rows[:MAX_RIVALS])
    return [(bold("Not:"), f" {names}")] if names else []


def format_evidence(rows: Sequence[Evidence]) -> list[str]:
    """Return monospace lines under `host · check`, with UTC times. XML is replaced by words."""
    ordered = sorted(rows, key=lambda e: (e.host, e.check))
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


def render_ruled_out(rows: Sequence[Hypothesis], titles: CauseTitles) -> list[Line]:
    return [(f"• {get_cause_title(h.label, titles)}: {h.because or 'nothing shows it'}",) for h in rows]


def render_unobserved(rows: Sequence[UnobservedCheck], most: int = MAX_UNOBSERVED) -> list[Line]:
    """Render unobserved checks, grouped by reason."""
    grouped: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        grouped.setdefault((row.check, row.why), []).append(row.host)
    lines: list[Line] = [(bold(fold_host_names(names)), f" {check}: {reason}") for (check, reason), names in list(grouped.items())[:most]]
    return lines if len(grouped) <= most else [*lines, (f"… and {len(grouped) - most} more",)]


def render_unobserved_summary(rows: Sequence[UnobservedCheck]) -> Line:
    """Render one line without reasons."""
    grouped: dict[str, list[str]] = {}
    for row in rows:
        grouped.setdefault(row.check, []).append(row.host)
    unobserved_names = [f"{fold_host_names(names)} {check}" for check, names in list(grouped.items())[:MAX_NAMED_UNOBSERVED]]
    rest = len(grouped) - MAX_NAMED_UNOBSERVED
    return (", ".join(unobserved_names), f" and {rest} more" if rest > 0 else "") if unobserved_names else ()


def render_files(rows: Sequence[FileReadResult]) -> list[Line]:
    return [(code(row.name), f" {format_file_read(row)}") for row in rows]


def format_logs(digests: Sequence[LogDigest]) -> list[str]:
    """Return monospace lines: name and size of each log, then its most telling templates."""
    return [line for digest in select_telling_templates(digests) for line in format_log_digest(digest)]


# Buttons that ask for a drained node's return. A click checks the node; it runs no action.

ASK_RETURN_ACTION_ID = "held.ask_return"
BUTTONS = {ASK_RETURN_ACTION_ID: "ask_return"}
MAX_NODES = 5
MAX_NODE_NAME_CHARS = 40


def render_return_buttons(incident: str, nodes: Sequence[ReturnableNode]) -> list[Block]:
    """Render each button in its own row: action ids must be unique in a row."""
    return [
        blocks.actions(
            blocks.button(
                f"Ask again to return {clip_text(one.host, MAX_NODE_NAME_CHARS)}",
                ASK_RETURN_ACTION_ID,
                encode_button_value(incident, one.ladder),
            )
        )
        for one in nodes[:MAX_NODES]
    ]


def render_return_button(incident: str, remediation: str) -> Block:
    return blocks.button("Ask again to return", ASK_RETURN_ACTION_ID, encode_button_value(incident, remediation))


def parse_return_click(payload: Mapping[str, Any]) -> ButtonClick:
    """Parse a click; its item is the remediation's id."""
    return parse_button_click(payload, BUTTONS)
