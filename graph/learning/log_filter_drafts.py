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

SAMPLE_COUNT = 3  # samples of disjoint lines
MIN_AGREEING_SAMPLES = 2  # samples that must call a kind of line regular
MAX_SAMPLE_LINES = 20_000
MAX_OTHER_LOG_LINES = 200_000  # lines read per log
MAX_FILTER_LINES = 64  # kinds of line per filter
# A kind of line is regular if a sample has this many of it, this share of all lines, spread over this share of the sample.
MIN_REPEATS = 5
MIN_LINE_SHARE = 0.002
MIN_SPAN_SHARE = 0.5


@dataclass(frozen=True, slots=True)
class RegularLine:
    """One kind of line: a redacted example, how many lines the log has of it, and how many samples call it regular."""

    template: str
    example: str
    lines: int
    drafts: int
    kept: str = ""  # Why the filter keeps it; empty if it is dropped.


@dataclass(frozen=True, slots=True)
class FilterDraft:
    """A drafted filter with its kinds of line, most frequent first. `of` counts the lines read."""

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
    """Draft a filter of the regular lines in `text`.

    Args:
        others: Other logs. The filter keeps the lines of theirs that a rule wants.
        rules: The site's log rules. The filter keeps the lines that they match.
        words: Words that identify causes. The filter keeps lines with any of them.
    """
    lines = list(_iter_lines(text))
    drafts = Counter(template for sample in _draw_samples(lines) for template in _iter_regular_templates(sample))
    agreed = {template for template, times in drafts.items() if times >= MIN_AGREEING_SAMPLES}
    template_lines = [(template, line) for line in lines if (template := build_template(line)) in agreed]
    template_counts = Counter(template for template, _ in template_lines)
    examples = {template: redact(line) for template, line in reversed(template_lines)}
    wanted_templates = _find_wanted_templates(template_lines, rules, "in the log itself")
    for other_text in others:
        other_lines = [(template, line) for line in _iter_lines(other_text) if (template := build_template(line)) in agreed]
        wanted_templates = _find_wanted_templates(other_lines, rules, "in another log") | wanted_templates
    for template in agreed - wanted_templates.keys():
        if reason := _find_keep_reason(template, examples[template], words):
            wanted_templates[template] = reason
    kinds = [
        RegularLine(template, examples[template], times, drafts[template], wanted_templates.get(template, ""))
        for template, times in template_counts.most_common(MAX_FILTER_LINES)
    ]
    return FilterDraft(name, family, tuple(kinds), len(lines))


def _iter_lines(text: str) -> Iterator[str]:
    return (line[:MAX_LINE_CHARS] for line in islice(split_lines(text), MAX_OTHER_LOG_LINES))


def _draw_samples(lines: Sequence[str]) -> Iterator[list[str]]:
    """Yield disjoint random samples, each in log order. The same lines give the same samples."""
    seed = zlib.crc32("\n".join(lines[:1000]).encode("utf-8", "replace"))
    generator = random.Random(seed)  # noqa: S311 -- one log must give one draft; nothing is secret
    parts: list[list[str]] = [[] for _ in range(SAMPLE_COUNT)]
    for line in lines:
        parts[generator.randrange(SAMPLE_COUNT)].append(line)
    for part in parts:
        kept_indexes = sorted(generator.sample(range(len(part)), min(len(part), MAX_SAMPLE_LINES)))
        yield [part[index] for index in kept_indexes]


def _iter_regular_templates(sample: Sequence[str]) -> Iterator[str]:
    indexes_by_template: dict[str, list[int]] = {}
    for index, line in enumerate(sample):
        indexes_by_template.setdefault(build_template(line), []).append(index)
    for template, indexes in indexes_by_template.items():
        is_frequent = len(indexes) >= max(MIN_REPEATS, MIN_LINE_SHARE * len(sample))
        is_spread = indexes[-1] - indexes[0] >= MIN_SPAN_SHARE * len(sample)
        if not is_frequent or not is_spread:
            continue
        if find_dropping_rule(template) is None and not explain_unfilterable(sample[indexes[0]]):
            yield template


def _find_wanted_templates(template_lines: Iterable[tuple[str, str]], rules: Sequence[LogRule], location: str) -> dict[str, str]:
    """Return why each wanted template is kept."""
    reason_by_template: dict[str, str] = {}
    for template, line in template_lines:
        if template in reason_by_template:
            continue
        reason = explain_unfilterable(line)
        if not reason:
            reason = next((f"the rule {rule.id} wants it" for rule in rules if rule.match_line(line)), "")
        if reason:
            reason_by_template[template] = f"{reason}, {location}"
    return reason_by_template


def _find_keep_reason(template: str, example: str, words: Collection[str]) -> str:
    lowered = template.lower()
    if word := next((word for word in words if word in lowered), ""):
        return f"a cause is known by the words “{word}”"
    return "" if build_template(example) == template else "without its secrets it is another line"
