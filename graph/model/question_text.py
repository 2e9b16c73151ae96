"""What goes into a question: the parts of an incident as texts, bounded and numbered, kept to what a model's window holds. Pure."""

import re
from collections.abc import Iterable, Mapping, Sequence

from graph.model.reasoner import PromptMaterial

MAX_REPORT_CHARS, MAX_PART_CHARS, MAX_FINDINGS, MAX_HOSTS, MAX_FINDING_CHARS = 8_000, 6_000, 60, 100, 240
"""Characters of a report and of any other part; findings; hosts that are offered whole; characters of a finding."""
MIN_TEXT_CHARS = 200
"""Characters that are left of a text, however little room there is."""


def build_blocks(material: PromptMaterial) -> dict[str, str]:
    """Its parts by title; what there is none of is left out, but for the report."""
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
    """The first of them, a bounded line each, so that one cannot pass for two."""
    return [" ".join(text.split())[:MAX_FINDING_CHARS] for text, _ in zip(texts, range(most), strict=False)]


def number_lines(lines: Sequence[str]) -> str:
    """Lines with their positions, by which they are cited."""
    return "\n".join(f"{at}: {line}" for at, line in enumerate(lines))


def select_fitting_rows(rows: Sequence[str], room: int) -> list[str]:
    """The first rows that have room in so many characters, each whole; one at least."""
    kept: list[str] = []
    for row in rows:
        room -= len(row) + 3
        if room < 0 and kept:
            break
        kept.append(row)
    return kept


def shorten_texts(texts: Mapping[str, str], room: int) -> dict[str, str]:
    """Texts of at most so many characters together: the longest are shortened, and none goes."""
    most = max((len(text) for text in texts.values()), default=0)
    while most > MIN_TEXT_CHARS and sum(min(len(text), most) for text in texts.values()) > room:
        most = max(MIN_TEXT_CHARS, most * 4 // 5)
    return {title: shorten_text(text, most) for title, text in texts.items()}


def select_likely_hosts(text: str, hosts: Sequence[str]) -> list[str]:
    """All hosts of a small site; of a large one those whose name or number the text mentions."""
    if len(hosts) <= MAX_HOSTS:
        return list(hosts)
    words = set(re.findall(r"[a-z0-9]+", text.lower()))
    return [host for host in hosts if host.lower() in text.lower() or set(re.findall(r"[0-9]+", host)[-1:]) & words][:MAX_HOSTS]


def shorten_text(text: str, most: int) -> str:
    """The beginning and the end of a long text."""
    if len(text) <= most:
        return text
    head, tail = most * 2 // 3, most // 3
    return f"{text[:head]}\n[{len(text) - head - tail} characters left out]\n{text[-tail:]}"
