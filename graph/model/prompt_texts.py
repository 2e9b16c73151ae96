"""The text parts of a model's question, bounded, numbered and cut to the model's window."""

import re
from collections.abc import Iterable, Mapping, Sequence

from graph.model.reasoner import (
    PromptMaterial,
)

# Characters of a report and of any other part; findings; hosts offered; characters of a finding.
MAX_REPORT_CHARS = 8_000
MAX_PART_CHARS = 6_000
MAX_FINDINGS = 60
MAX_HOSTS = 100
MAX_FINDING_CHARS = 240
MIN_TEXT_CHARS = 200  # Characters kept of each text, even where it does not fit.


def build_blocks(material: PromptMaterial) -> dict[str, str]:
    """Return the material's parts by title, without empty ones except the report."""
    parts = {
        "Logs": material.logs,
        "Past incidents": "\n".join(flatten_texts(material.past)),
        "Pages": "\n".join(flatten_texts(material.pages)),
        "Findings": material.findings,
    }
    return {
        "Report": shorten_text(material.report, MAX_REPORT_CHARS),
        **{title: shorten_text(text, MAX_PART_CHARS) for title, text in parts.items() if text},
    }


def flatten_texts(texts: Iterable[str], most: int = MAX_FINDINGS) -> list[str]:
    """Return at most `most` texts, one bounded line each, so that no text can pass for two."""
    return [" ".join(text.split())[:MAX_FINDING_CHARS] for text, _ in zip(texts, range(most), strict=False)]


def number_lines(lines: Sequence[str]) -> str:
    """Prefix lines with the positions used in citations."""
    return "\n".join(f"{at}: {line}" for at, line in enumerate(lines))


def select_fitting_rows(lines: Sequence[str], room: int) -> list[str]:
    """Return the first whole rows that fit in `room` characters, at least one."""
    fitting_rows: list[str] = []
    for line in lines:
        room -= len(line) + 3
        if room < 0 and fitting_rows:
            break
        fitting_rows.append(line)
    return fitting_rows


def shorten_texts(texts: Mapping[str, str], room: int) -> dict[str, str]:
    """Shorten the longest texts until all fit in `room` characters; none is dropped."""
    most = max((len(text) for text in texts.values()), default=0)
    while most > MIN_TEXT_CHARS and sum(min(len(text), most) for text in texts.values()) > room:
        most = max(MIN_TEXT_CHARS, most * 4 // 5)
    return {title: shorten_text(text, most) for title, text in texts.items()}


def select_likely_hosts(text: str, hosts: Sequence[str]) -> list[str]:
    """Return all hosts of a small site, else those whose name or number is mentioned."""
    if len(hosts) <= MAX_HOSTS:
        return list(hosts)
    words = set(re.findall(r"[a-z0-9]+", text.lower()))
    return [host for host in hosts if host.lower() in text.lower() or set(re.findall(r"[0-9]+", host)[-1:]) & words][:MAX_HOSTS]


def shorten_text(text: str, most: int) -> str:
    if len(text) <= most:
        return text
    head, tail = most * 2 // 3, most // 3
    return f"{text[:head]}\n[{len(text) - head - tail} characters left out]\n{text[-tail:]}"
