"""Log checks extended by a site's rules, for lines that no built-in reader knows. Pure. Without rules they are
unchanged.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from kb.logs.kernel_log import has_prefixes
from kb.logs.log_lines import split_prefix
from kb.needle_search import Needles, cut_lines
from kb.redact import redact
from tools.checks.check_types import Check, Format, build_left_out_fact
from tools.checks.site.rules import MAX_LINE_CHARS, LogKind, LogRule, RuleHit
from tools.fact import Fact

# log kind → check and its format
LOG_READERS: Mapping[LogKind, tuple[str, str]] = {"job": ("joblog", "job log"), "kernel": ("dmesg", "kernel log")}
LOG_READING_CHECKS = frozenset(check for check, _ in LOG_READERS.values())
# Facts per rule and log, by value, rank and boot; further ones are counted with the last fact.
MAX_EVENTS_PER_RULE = 32
# Limit of all rules together in one log: line length times match ways, plus COST_PER_TRY per try. Measured: a few
# seconds at worst; only a crafted log reaches it.
MAX_MATCH_COST = 400_000_000
COST_PER_TRY = 5_000


def add_rules(checks: Mapping[str, Check], rules: Sequence[LogRule]) -> Mapping[str, Check]:
    """Add the rules to the checks that read their logs."""
    changed: dict[str, Check] = {}
    for log, (name, shape) in LOG_READERS.items():
        own = tuple(rule for rule in rules if rule.log == log)
        if own and name in checks:
            check = checks[name]
            formats = tuple(_extend_format(check.id, one, own) if one.name == shape else one for one in check.formats)
            keys = tuple(rule.key for rule in own)
            changed[name] = replace(check, formats=formats, establishes=(*check.establishes, *keys))
    return {**checks, **changed} if changed else checks


def _extend_format(check: str, shape: Format, rules: Sequence[LogRule]) -> Format:
    search = build_rule_search(check, rules)

    def parse(text: str) -> Sequence[Fact]:
        return [*shape.parse(text), *search(text)]

    return replace(shape, parse=parse)


def build_rule_search(check: str, rules: Sequence[LogRule]) -> Callable[[str], list[Fact]]:
    """Return a search of a text by rules for one kind of log; a rule is tried only on lines with its needle."""
    needles = Needles(rule.pattern.needle for rule in rules)
    kernel = rules[0].log == "kernel"

    def search(text: str) -> list[Fact]:
        findings = _RuleFindings(check)
        prefixed = kernel and has_prefixes(text)
        for line, matching_needles in _iter_needle_lines(text, needles):
            if prefixed and not split_prefix(line).found:
                continue  # a continuation line of the message above
            for rule in rules:
                if rule.pattern.needle in matching_needles:
                    findings.try_rule(rule, line)
        return findings.build_facts()

    return search


def _iter_needle_lines(text: str, needles: Needles) -> Iterator[tuple[str, set[str]]]:
    """Yield lines with needles, and these; text overwritten by a progress bar is skipped."""
    spans = needles.find_in_text(text)
    for (_, line), matching_needles in zip(cut_lines(text, list(spans)), spans.values(), strict=True):
        yield (line.rpartition("\r")[2] if "\r" in line else line), matching_needles


@dataclass(slots=True)
class _RuleFindings:
    """`work`: cost so far; `unread`: tries skipped after the limit."""

    check: str
    rows: dict[str, dict[tuple[str, str | None, str], Fact]] = field(default_factory=dict)
    work: int = 0
    unread: int = 0

    def try_rule(self, rule: LogRule, line: str) -> None:
        cost = COST_PER_TRY + rule.pattern.ways * min(len(line), MAX_LINE_CHARS)
        if self.work + cost > MAX_MATCH_COST:
            self.unread += 1
            return
        self.work += cost
        if matched_line := rule.match_line(line):
            self._add_hit(rule, matched_line, line)

    def _add_hit(self, rule: LogRule, said: RuleHit, line: str) -> None:
        rows = self.rows.setdefault(rule.id, {})
        name = (said.value, said.rank, said.boot_id)
        if name not in rows and len(rows) >= MAX_EVENTS_PER_RULE:
            name = next(reversed(rows))
        rows[name] = _count_repeat(rows[name], said) if name in rows else _build_first_fact(self.check, rule, said, line)

    def build_facts(self) -> list[Fact]:
        lost = [build_left_out_fact(self.check, self.unread)] if self.unread else []
        return [fact for rows in self.rows.values() for fact in rows.values()] + lost


def _build_first_fact(check: str, rule: LogRule, said: RuleHit, line: str) -> Fact:
    attrs: dict[str, Any] = {"count": 1, "wrong": rule.says, **_build_time_span(said)}
    if said.rank is not None:
        attrs["rank"] = said.rank
    return Fact(check, rule.key, said.value, line=redact(line)[:MAX_LINE_CHARS].strip(), attrs=attrs, time=said.time, boot_id=said.boot_id)


def _count_repeat(fact: Fact, said: RuleHit) -> Fact:
    last = {"last": said.time.isoformat()} if said.time else {}
    return replace(fact, attrs={**fact.attrs, "count": fact.attrs["count"] + 1, **last})


def _build_time_span(said: RuleHit) -> dict[str, str]:
    return {"first": said.time.isoformat(), "last": said.time.isoformat()} if said.time else {}
