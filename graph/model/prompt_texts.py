"""The text parts of a model's question, bounded, numbered and cut to the model's window."""

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice

from graph.model.reasoner import PromptMaterial

MAX_REPORT_CHARS = 8_000
MAX_PART_CHARS = 6_000
MAX_FINDINGS = 60
MAX_FINDING_CHARS = 240
MAX_HOSTS = 100  # hosts that a model may choose among
MIN_TEXT_CHARS = 200  # characters kept of each text, even where it does not fit


def build_blocks(material: PromptMaterial) -> dict[str, str]:
    """Return the material's parts by title, without empty ones except the report."""
    parts = {
        "Handed in": material.handed_in,
        "Logs": material.logs,
        "Past incidents": "\n".join(flatten_texts(material.past)),
        "Pages": "\n".join(flatten_texts(material.pages)),
        "Findings": material.findings,
    }
    return {
        "Report": shorten_text(material.report, MAX_REPORT_CHARS),
        **{title: shorten_text(text, MAX_PART_CHARS) for title, text in parts.items() if text},
    }


def flatten_texts(texts: Iterable[str], max_texts: int = MAX_FINDINGS) -> list[str]:
    """Return at most `max_texts` texts, one bounded line each, so that no text can pass for two."""
    return [" ".join(text.split())[:MAX_FINDING_CHARS] for text in islice(texts, max_texts)]


def build_lines(texts: Iterable[str]) -> str:
    """Return one `- ` line a text."""
    return "\n".join(f"- {' '.join(text.split())}" for text in texts)


def number_lines(lines: Sequence[str]) -> str:
    """Prefix lines with the positions used in citations."""
    return "\n".join(f"{number}: {line}" for number, line in enumerate(lines))


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
    max_chars = max((len(text) for text in texts.values()), default=0)
    while max_chars > MIN_TEXT_CHARS and sum(min(len(text), max_chars) for text in texts.values()) > room:
        max_chars = max(MIN_TEXT_CHARS, max_chars * 4 // 5)
    return {title: shorten_text(text, max_chars) for title, text in texts.items()}


def select_likely_hosts(text: str, hosts: Sequence[str]) -> list[str]:
    """Return all hosts of a small site, else those whose name or number is mentioned."""
    if len(hosts) <= MAX_HOSTS:
        return list(hosts)
    lower_text = text.lower()
    words = set(re.findall(r"[a-z0-9]+", lower_text))
    likely_hosts: list[str] = []
    for host in hosts:
        host_numbers = re.findall(r"[0-9]+", host)
        if host.lower() in lower_text or (host_numbers and host_numbers[-1] in words):
            likely_hosts.append(host)
    return likely_hosts[:MAX_HOSTS]


def shorten_text(text: str, max_chars: int) -> str:
    """Cut the middle out of a long text: errors often stand at its end."""
    if len(text) <= max_chars:
        return text
    head_chars, tail_chars = max_chars * 2 // 3, max_chars // 3
    return f"{text[:head_chars]}\n[{len(text) - head_chars - tail_chars} characters left out]\n{text[-tail_chars:]}"
