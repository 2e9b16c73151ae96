"""What goes into a question: the parts of an incident as texts, bounded and numbered, kept to what a model's window holds. Pure."""

import re
from collections.abc import Iterable, Mapping, Sequence

from graph.model.reasoner import Material

MOST_TEXT, MOST_PART, MOST_FACTS, MOST_HOSTS, LINE = 8_000, 6_000, 60, 100, 240
"""Characters of a report and of any other part; findings; hosts that are offered whole; characters of a finding."""
LEAST_TEXT = 200
"""Characters that are left of a text, however little room there is."""


def in_blocks(material: Material) -> dict[str, str]:
    """Its parts by title; what there is none of is left out, but for the report."""
    parts = {
        "Logs": material.logs,
        "Past incidents": "\n".join(one_line_each(material.past)),
        "Pages": "\n".join(one_line_each(material.pages)),
        "Findings": material.findings,
    }
    return {"Report": shorten(material.report, MOST_TEXT), **{title: shorten(text, MOST_PART) for title, text in parts.items() if text}}


def one_line_each(texts: Iterable[str], most: int = MOST_FACTS) -> list[str]:
    """The first of them, a bounded line each, so that one cannot pass for two."""
    return [" ".join(text.split())[:LINE] for text, _ in zip(texts, range(most), strict=False)]


def numbered(lines: Sequence[str]) -> str:
    """Lines with their positions, by which they are cited."""
    return "\n".join(f"{at}: {line}" for at, line in enumerate(lines))


def fitting(rows: Sequence[str], room: int) -> list[str]:
    """The first rows that have room in so many characters, each whole; one at least."""
    kept: list[str] = []
    for row in rows:
        room -= len(row) + 3
        if room < 0 and kept:
            break
        kept.append(row)
    return kept


def to_fit(texts: Mapping[str, str], room: int) -> dict[str, str]:
    """Texts of at most so many characters together: the longest are shortened, and none goes."""
    most = max((len(text) for text in texts.values()), default=0)
    while most > LEAST_TEXT and sum(min(len(text), most) for text in texts.values()) > room:
        most = max(LEAST_TEXT, most * 4 // 5)
    return {title: shorten(text, most) for title, text in texts.items()}


def likely_hosts(text: str, hosts: Sequence[str]) -> list[str]:
    """All hosts of a small site; of a large one those whose name or number the text mentions."""
    if len(hosts) <= MOST_HOSTS:
        return list(hosts)
    words = set(re.findall(r"[a-z0-9]+", text.lower()))
    return [host for host in hosts if host.lower() in text.lower() or set(re.findall(r"[0-9]+", host)[-1:]) & words][:MOST_HOSTS]


def shorten(text: str, most: int) -> str:
    """The beginning and the end of a long text."""
    if len(text) <= most:
        return text
    head, tail = most * 2 // 3, most // 3
    return f"{text[:head]}\n[{len(text) - head - tail} characters left out]\n{text[-tail:]}"
