"""Draft a log filter for one job family: lines that two of three samples call regular and that no log needs."""

import random
import zlib
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from kb.logs.template import build_template
from kb.logs.template_filters import find_dropping_rule
from kb.needle_search import split_lines
from kb.redact import redact
from tools.checks.site.filters import explain_unfilterable
from tools.checks.site.rules import MAX_LINE_CHARS, LogRule

SAMPLE_COUNT = 3  # Drafts from disjoint lines
MIN_AGREEING_SAMPLES = 2  # how many must agree that a kind of line is regular
MAX_SAMPLE_LINES = 20_000  # Lines of a sample
MAX_OTHER_LOG_LINES = 200_000  # lines read per log
MAX_FILTER_LINES = 64  # kinds of line per filter
MIN_REPEATS = 5  # Regular: at least this often
MIN_LINE_SHARE = 0.002  # this share of the sample
MIN_SPAN_SHARE = 0.5  # spread over this share of it


@dataclass(frozen=True, slots=True)
class RegularLine:
    """One kind of line: a redacted example, its lines in the logs, and the drafts that call it regular."""

    template: str
    example: str
    lines: int
    drafts: int
    kept: str = ""  # Why the filter keeps it; empty if it is dropped.


@dataclass(frozen=True, slots=True)
class FilterDraft:
    """A draft, most frequent kind first. `of`: lines read."""

    id: str
    family: str
    kinds: tuple[RegularLine, ...]
    of: int

    @property
    def dropped_kinds(self) -> tuple[RegularLine, ...]:
        return tuple(line for line in self.kinds if not line.kept)

    @property
    def row(self) -> dict[str, Any]:
        return {"id": self.id, "family": self.family, "lines": [line.example for line in self.dropped_kinds]}


def build_filter_draft(
    name: str, family: str, text: str, others: Iterable[str] = (), rules: Sequence[LogRule] = (), words: Collection[str] = ()
) -> FilterDraft:
    """Build a draft. `others`: logs that must lose nothing; `rules`: the site's, whose lines are wanted; `words`: those
    that identify causes.
    """
    lines = list(_iter_lines(text))
    drafts = Counter(template for sample in _draw_samples(lines) for template in _iter_regular_templates(sample))
    agreed = {template for template, times in drafts.items() if times >= MIN_AGREEING_SAMPLES}
    template_lines = [(template, line) for line in lines if (template := build_template(line)) in agreed]
    template_counts = Counter(template for template, _ in template_lines)
    example = {template: redact(line) for template, line in reversed(template_lines)}
    wanted_templates = _find_wanted_templates(template_lines, rules, "in the log itself")
    for other in others:
        wanted_templates = (
            _find_wanted_templates(
                [(template, line) for line in _iter_lines(other) if (template := build_template(line)) in agreed], rules, "in another log"
            )
            | wanted_templates
        )
    for template in agreed - wanted_templates.keys():
        if reason := _find_keep_reason(template, example[template], words):
            wanted_templates[template] = reason
    kinds = [
        RegularLine(template, example[template], times, drafts[template], wanted_templates.get(template, ""))
        for template, times in template_counts.most_common(MAX_FILTER_LINES)
    ]
    return FilterDraft(name, family, tuple(kinds), len(lines))


def _iter_lines(text: str) -> Iterator[str]:
    return (line[:MAX_LINE_CHARS] for line in islice(split_lines(text), MAX_OTHER_LOG_LINES))


def _draw_samples(lines: Sequence[str]) -> Iterator[list[str]]:
    """Yield disjoint random samples in log order; the same lines give the same samples."""
    seed = zlib.crc32("\n".join(lines[:1000]).encode("utf-8", "replace"))
    lot = random.Random(seed)  # noqa: S311 -- one log must give one draft; nothing is secret
    parts: list[list[str]] = [[] for _ in range(SAMPLE_COUNT)]
    for line in lines:
        parts[lot.randrange(SAMPLE_COUNT)].append(line)
    for part in parts:
        keep = sorted(lot.sample(range(len(part)), min(len(part), MAX_SAMPLE_LINES)))
        yield [part[at] for at in keep]


def _iter_regular_templates(sample: Sequence[str]) -> Iterator[str]:
    places: dict[str, list[int]] = {}
    for at, line in enumerate(sample):
        count_and_places = places.setdefault(build_template(line), [0, at, at])
        count_and_places[0], count_and_places[2] = count_and_places[0] + 1, at
    for template, (times, first, last) in places.items():
        often = times >= max(MIN_REPEATS, MIN_LINE_SHARE * len(sample)) and last - first >= MIN_SPAN_SHARE * len(sample)
        if often and find_dropping_rule(template) is None and not explain_unfilterable(sample[first]):
            yield template


def _find_wanted_templates(template_lines: Iterable[tuple[str, str]], rules: Sequence[LogRule], where: str) -> dict[str, str]:
    reason_by_template: dict[str, str] = {}
    for template, line in template_lines:
        if template not in reason_by_template and (
            reason := explain_unfilterable(line) or next((f"the rule {rule.id} wants it" for rule in rules if rule.match_line(line)), "")
        ):
            reason_by_template[template] = f"{reason}, {where}"
    return reason_by_template


def _find_keep_reason(template: str, example: str, words: Collection[str]) -> str:
    lowered = template.lower()
    if word := next((word for word in words if word in lowered), ""):
        return f"a cause is known by the words “{word}”"
    return "" if build_template(example) == template else "without its secrets it is another line"
