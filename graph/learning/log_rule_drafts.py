"""Draft rules and filters for log lines, tried on those lines and on other logs. Pure."""

import random
import re
import zlib
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

from kb.logs.job_error_rules import classify_line
from kb.logs.kernel_log import list_kernel_events
from kb.logs.log_lines import split_prefix
from kb.logs.ranks import split_rank_tag
from kb.logs.template import build_template, has_trouble_word
from kb.logs.template_filters import find_dropping_rule
from kb.needle_search import split_lines
from kb.redact import redact
from tools.checks.site.filters import explain_unfilterable
from tools.checks.site.rules import MAX_LINE_CHARS, ORDINARY_LINES, LogKind, LogRule

# Draft log rules from lines that no reader understands, tried on those lines and on other logs. Pure.
#
# A person names and trims a draft. It is written only if it matches its own lines and no other log.

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
    drafts = [_build_draft(one, log, lines[one], match_counts[one], elsewhere[one], taken_ids) for one in rare]
    return sorted(drafts, key=lambda one: (one.elsewhere > 0, one.lines))[:MAX_DRAFTS]


def build_pattern(body: str) -> str:
    """Return a pattern of the line's longest fixed run with its varying neighbours; empty if no run identifies it."""
    words = body[:MAX_LINE_CHARS].split()
    runs = [run for run in _iter_fixed_runs(words) if sum(len(words[at]) + 1 for at in run) > MIN_FIXED_CHARS]
    if not runs:
        return ""
    run = max(runs, key=lambda one: sum(len(words[at]) + 1 for at in one))
    fixed = r"\s".join(re.escape(words[at]) for at in run)
    before = r"\S{1,30}\s" if run[0] > 0 else ""
    after = r"\s(?P<value>\S{1,30})" if run[-1] + 1 < len(words) else ""
    return f"{before}{fixed}{after}"


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
    compiled = [(one, re.compile(one)) for one in patterns]
    match_counts: Counter[str] = Counter()
    for text in others:
        for number, line in enumerate(split_lines(text)):
            if number >= MAX_LOG_LINES:
                break
            match_counts.update(one for one, pattern in compiled if pattern.search(line[:MAX_LINE_CHARS]))
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


# Draft a log filter for one job family: lines that two of three samples call regular and that no log needs.

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
        return tuple(one for one in self.kinds if not one.kept)

    @property
    def row(self) -> dict[str, Any]:
        return {"id": self.id, "family": self.family, "lines": [one.example for one in self.dropped_kinds]}


def build_filter_draft(
    name: str, family: str, text: str, others: Iterable[str] = (), rules: Sequence[LogRule] = (), words: Collection[str] = ()
) -> FilterDraft:
    """Build a draft. `others`: logs that must lose nothing; `rules`: the site's, whose lines are wanted; `words`: those
    that identify causes.
    """
    lines = list(_iter_lines(text))
    drafts = Counter(template for sample in _draw_samples(lines) for template in _iter_regular_templates(sample))
    agreed = {template for template, times in drafts.items() if times >= MIN_AGREEING_SAMPLES}
    rows = [(template, line) for line in lines if (template := build_template(line)) in agreed]
    template_counts = Counter(template for template, _ in rows)
    example = {template: redact(line) for template, line in reversed(rows)}
    wanted_templates = _find_wanted_templates(rows, rules, "in the log itself")
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
        RegularLine(one, example[one], times, drafts[one], wanted_templates.get(one, ""))
        for one, times in template_counts.most_common(MAX_FILTER_LINES)
    ]
    return FilterDraft(name, family, tuple(kinds), len(lines))


def _iter_lines(text: str) -> Iterator[str]:
    return (line[:MAX_LINE_CHARS] for line in islice(split_lines(text), MAX_OTHER_LOG_LINES))


def _draw_samples(lines: Sequence[str]) -> Iterator[list[str]]:
    """Yield disjoint random samples in log order; the same lines give the same samples."""
    seed = zlib.crc32("\n".join(lines[:1000]).encode("utf-8", "replace"))
    lot = random.Random(seed)  # noqa: S311 -- the same log is to be drafted the same way, and nothing is kept from anybody
    parts: list[list[str]] = [[] for _ in range(SAMPLE_COUNT)]
    for line in lines:
        parts[lot.randrange(SAMPLE_COUNT)].append(line)
    for part in parts:
        keep = sorted(lot.sample(range(len(part)), min(len(part), MAX_SAMPLE_LINES)))
        yield [part[at] for at in keep]


def _iter_regular_templates(sample: Sequence[str]) -> Iterator[str]:
    places: dict[str, list[int]] = {}
    for at, line in enumerate(sample):
        row = places.setdefault(build_template(line), [0, at, at])
        row[0], row[2] = row[0] + 1, at
    for template, (times, first, last) in places.items():
        often = times >= max(MIN_REPEATS, MIN_LINE_SHARE * len(sample)) and last - first >= MIN_SPAN_SHARE * len(sample)
        if often and find_dropping_rule(template) is None and not explain_unfilterable(sample[first]):
            yield template


def _find_wanted_templates(rows: Iterable[tuple[str, str]], rules: Sequence[LogRule], where: str) -> dict[str, str]:
    reason_by_template: dict[str, str] = {}
    for template, line in rows:
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
