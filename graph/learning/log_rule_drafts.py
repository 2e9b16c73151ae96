"""Draft log rules from lines that no reader understands, and try them on those lines and on other logs.

A person names and trims a draft. It is written only if it matches its own lines and no other log.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from kb.logs.job_error_rules import classify_line
from kb.logs.kernel_log import list_kernel_events
from kb.logs.line_prefixes import split_prefix
from kb.logs.ranks import split_rank_tag
from kb.logs.template_selection import has_trouble_word
from kb.needle_search import split_lines
from kb.redact import redact
from tools.checks.site.ordinary_lines import ORDINARY_LINES
from tools.checks.site.rules import MAX_LINE_CHARS, LogKind

MAX_DRAFTS = 8  # Drafts per log
MAX_EXAMPLES = 2  # example lines per draft
MAX_LOG_LINES = 200_000  # lines read per log
MIN_FIXED_CHARS: Final = 12  # Characters of fixed text that identify a line.
_VARYING_WORD_PATTERN: Final = re.compile(r"\d|/|redacted|^[0-9a-f]{8,}$", re.IGNORECASE)
_WORD_PATTERN: Final = re.compile(r"[a-z]{3,}")


@dataclass(frozen=True, slots=True)
class RuleDraft:
    """`lines`: matches in its own log; `elsewhere`: matches in other logs, which make it unusable."""

    id: str
    log: LogKind
    pattern: str
    says: str
    examples: tuple[str, ...]
    lines: int
    elsewhere: int = 0

    @property
    def row(self) -> dict[str, Any]:
        return {"id": self.id, "log": self.log, "pattern": self.pattern, "says": self.says, "examples": list(self.examples)}


def build_rule_drafts(text: str, others: Iterable[str], log: LogKind = "job") -> list[RuleDraft]:
    """Return drafts, rarest first; those that match other logs come last."""
    match_counts: Counter[str] = Counter()
    lines: dict[str, list[str]] = {}
    for line in _iter_unknown_lines(text, log):
        if has_trouble_word(line) and (pattern := build_pattern(redact(_get_message(line, log)))):
            match_counts[pattern] += 1
            lines.setdefault(pattern, []).append(line)
    rare = sorted(match_counts, key=lambda one: (match_counts[one], one))[: MAX_DRAFTS * 4]
    elsewhere = _count_matches(rare, others)
    taken_ids: set[str] = set()
    drafts = [_build_draft(template, log, lines[template], match_counts[template], elsewhere[template], taken_ids) for template in rare]
    return sorted(drafts, key=lambda draft: (draft.elsewhere > 0, draft.lines))[:MAX_DRAFTS]


def build_pattern(body: str) -> str:
    """Return a pattern of the line's longest fixed run with its varying neighbours; empty if no run identifies it."""
    words = body[:MAX_LINE_CHARS].split()
    runs = [run for run in _iter_fixed_runs(words) if sum(len(words[at]) + 1 for at in run) > MIN_FIXED_CHARS]
    if not runs:
        return ""
    run = max(runs, key=lambda one: sum(len(words[at]) + 1 for at in one))
    fixed = r"\s".join(re.escape(words[at]) for at in run)
    prefix = r"\S{1,30}\s" if run[0] > 0 else ""
    after = r"\s(?P<value>\S{1,30})" if run[-1] + 1 < len(words) else ""
    return f"{prefix}{fixed}{after}"


def _iter_fixed_runs(words: Sequence[str]) -> Iterator[list[int]]:
    run: list[int] = []
    for at, word in enumerate(words):
        if _VARYING_WORD_PATTERN.search(word):
            if run:
                yield run
            run = []
        else:
            run.append(at)
    if run:
        yield run


def _iter_unknown_lines(text: str, log: LogKind) -> Iterator[str]:
    for number, line in enumerate(split_lines(text)):
        if number >= MAX_LOG_LINES:
            return
        is_known = classify_line(line) is not None if log == "job" else bool(list_kernel_events(line))
        if line.strip() and not is_known and line not in ORDINARY_LINES:
            yield line[:MAX_LINE_CHARS]


def _get_message(line: str, log: LogKind) -> str:
    return split_rank_tag(line)[1] if log == "job" else split_prefix(line).message


def _count_matches(patterns: Sequence[str], others: Iterable[str]) -> Counter[str]:
    compiled = [(text, re.compile(text)) for text in patterns]
    match_counts: Counter[str] = Counter()
    for text in others:
        for number, line in enumerate(split_lines(text)):
            if number >= MAX_LOG_LINES:
                break
            match_counts.update(text for text, pattern in compiled if pattern.search(line[:MAX_LINE_CHARS]))
    return match_counts


def _build_draft(pattern: str, log: LogKind, lines: Sequence[str], times: int, elsewhere: int, taken: set[str]) -> RuleDraft:
    body = _get_message(lines[0], log)
    words = [word for word in _WORD_PATTERN.findall(body.lower()) if len(word) > 3][:4] or ["line"]
    name, number = "_".join(words)[:28].strip("_"), 2
    while name in taken:
        name, number = f"{'_'.join(words)[:26].strip('_')}_{number}", number + 1
    taken.add(name)
    examples = tuple(dict.fromkeys(redact(line) for line in lines))[:MAX_EXAMPLES]
    return RuleDraft(name, log, pattern, f"drafted: {redact(body)[:120]}", examples, times, elsewhere)
