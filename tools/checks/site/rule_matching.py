"""Extend the log checks by a site's rules, for lines that no built-in reader knows."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from kb.logs.kernel_log import has_prefixes
from kb.logs.line_prefixes import split_prefix
from kb.needle_search import Needles, cut_lines
from kb.redact import redact
from tools.checks.check_types import Check, Format
from tools.checks.fact_limits import build_left_out_fact
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
    """Add the rules to the checks that read their logs. Without rules return the checks unchanged."""
    extended_checks: dict[str, Check] = {}
    for log_kind, (check_id, format_name) in LOG_READERS.items():
        log_rules = tuple(rule for rule in rules if rule.log == log_kind)
        if log_rules and check_id in checks:
            extended_checks[check_id] = _extend_check(checks[check_id], format_name, log_rules)
    return {**checks, **extended_checks} if extended_checks else checks


def _extend_check(check: Check, format_name: str, rules: Sequence[LogRule]) -> Check:
    formats = tuple(
        _extend_format(check.id, log_format, rules) if log_format.name == format_name else log_format for log_format in check.formats
    )
    return replace(check, formats=formats, establishes=(*check.establishes, *(rule.key for rule in rules)))


def _extend_format(check: str, log_format: Format, rules: Sequence[LogRule]) -> Format:
    search = build_rule_search(check, rules)

    def parse(text: str) -> Sequence[Fact]:
        return [*log_format.parse(text), *search(text)]

    return replace(log_format, parse=parse)


def build_rule_search(check: str, rules: Sequence[LogRule]) -> Callable[[str], list[Fact]]:
    """Return a function that searches a text by rules for one kind of log.

    A rule is tried only on lines that contain its needle.
    """
    needles = Needles(rule.pattern.needle for rule in rules)
    is_kernel_log = rules[0].log == "kernel"

    def search(text: str) -> list[Fact]:
        findings = _RuleFindings(check)
        prefixed = is_kernel_log and has_prefixes(text)
        for line, matching_needles in _iter_needle_lines(text, needles):
            if prefixed and not split_prefix(line).found:
                continue  # a continuation line of the message above
            for rule in rules:
                if rule.pattern.needle in matching_needles:
                    findings.try_rule(rule, line)
        return findings.build_facts()

    return search


def _iter_needle_lines(text: str, needles: Needles) -> Iterator[tuple[str, set[str]]]:
    """Yield each line that contains needles, and these. Text that a progress bar overwrote is skipped."""
    needles_by_span = needles.find_in_text(text)
    lines = cut_lines(text, list(needles_by_span))
    for (_, line), matching_needles in zip(lines, needles_by_span.values(), strict=True):
        visible_text = line.rpartition("\r")[2]
        yield visible_text, matching_needles


@dataclass(slots=True)
class _RuleFindings:
    """The facts of all rules in one log, and the cost of finding them."""

    check: str
    facts_by_rule: dict[str, dict[tuple[str, str | None, str], Fact]] = field(default_factory=dict)  # by value, rank and boot
    match_cost: int = 0
    skipped_tries: int = 0  # after MAX_MATCH_COST was reached

    def try_rule(self, rule: LogRule, line: str) -> None:
        cost = COST_PER_TRY + rule.pattern.ways * min(len(line), MAX_LINE_CHARS)
        if self.match_cost + cost > MAX_MATCH_COST:
            self.skipped_tries += 1
            return
        self.match_cost += cost
        if hit := rule.match_line(line):
            self._add_hit(rule, hit, line)

    def _add_hit(self, rule: LogRule, hit: RuleHit, line: str) -> None:
        facts = self.facts_by_rule.setdefault(rule.id, {})
        event = (hit.value, hit.rank, hit.boot_id)
        if event not in facts and len(facts) >= MAX_EVENTS_PER_RULE:
            event = next(reversed(facts))
        facts[event] = _count_repeat(facts[event], hit) if event in facts else _build_first_fact(self.check, rule, hit, line)

    def build_facts(self) -> list[Fact]:
        found_facts = [fact for facts in self.facts_by_rule.values() for fact in facts.values()]
        if self.skipped_tries:
            found_facts.append(build_left_out_fact(self.check, self.skipped_tries))
        return found_facts


def _build_first_fact(check: str, rule: LogRule, hit: RuleHit, line: str) -> Fact:
    attrs: dict[str, Any] = {"count": 1, "wrong": rule.says, **_build_time_span(hit)}
    if hit.rank is not None:
        attrs["rank"] = hit.rank
    return Fact(check, rule.key, hit.value, line=redact(line)[:MAX_LINE_CHARS].strip(), attrs=attrs, time=hit.time, boot_id=hit.boot_id)


def _count_repeat(fact: Fact, hit: RuleHit) -> Fact:
    last = {"last": hit.time.isoformat()} if hit.time else {}
    return replace(fact, attrs={**fact.attrs, "count": fact.attrs["count"] + 1, **last})


def _build_time_span(hit: RuleHit) -> dict[str, str]:
    return {"first": hit.time.isoformat(), "last": hit.time.isoformat()} if hit.time else {}
