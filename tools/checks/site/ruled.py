"""The checks that read logs, with a site's rules: they find what they found, and what the rules find in lines that no reader of ours knows. Pure.

Without rules the checks are the very same. A line is looked at by a rule only where it holds that rule's needle.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from kb.logs.kernel.reader import has_prefixes
from kb.logs.timestamps import split
from kb.redact import redact
from kb.scan import Needles, lines_of
from tools.checks.few import left_out
from tools.checks.row import Check, Format
from tools.checks.site.rules import LONGEST_LINE, Log, LogRule, RuleHit
from tools.fact import Fact

READ_BY: Mapping[Log, tuple[str, str]] = {"job": ("joblog", "job log"), "kernel": ("dmesg", "kernel log")}
"""Which check reads a log, and in which of its formats."""
READS_LOGS = frozenset(check for check, _ in READ_BY.values())
MOST_EVENTS = 32
"""Facts of one rule in one log that are told apart, by value, rank and boot; others are counted with the last of them."""
MOST_WORK = 400_000_000
"""What all rules together may cost in one log: characters of the lines times the ways in which they may be tried, and EACH for every try. Measured:
a few seconds at worst, which no log takes that is not made for it."""
EACH = 5_000


def with_rules(checks: Mapping[str, Check], rules: Sequence[LogRule]) -> Mapping[str, Check]:
    """The same checks; those that read a log for which there are rules know these too."""
    changed: dict[str, Check] = {}
    for log, (name, shape) in READ_BY.items():
        own = tuple(rule for rule in rules if rule.log == log)
        if own and name in checks:
            check = checks[name]
            formats = tuple(_with(check.id, one, own) if one.name == shape else one for one in check.formats)
            keys = tuple(rule.key for rule in own)
            changed[name] = replace(check, formats=formats, establishes=(*check.establishes, *keys))
    return {**checks, **changed} if changed else checks


def _with(check: str, shape: Format, rules: Sequence[LogRule]) -> Format:
    search = found_by(check, rules)

    def parse(text: str) -> Sequence[Fact]:
        return [*shape.parse(text), *search(text)]

    return replace(shape, parse=parse)


def found_by(check: str, rules: Sequence[LogRule]) -> Callable[[str], list[Fact]]:
    """What finds the facts of rules for one kind of log in a text."""
    needles = Needles(rule.pattern.needle for rule in rules)
    kernel = rules[0].log == "kernel"

    def search(text: str) -> list[Fact]:
        found = _Found(check)
        prefixed = kernel and has_prefixes(text)
        for line, held in _lines(text, needles):
            if prefixed and not split(line).found:
                continue  # the continuation of a message above, whatever it says
            for rule in rules:
                if rule.pattern.needle in held:
                    found.look(rule, line)
        return found.facts()

    return search


def _lines(text: str, needles: Needles) -> Iterator[tuple[str, set[str]]]:
    """The lines that hold any needle, and which; what a progress bar drew over is not read."""
    spans = needles.in_text(text)
    for (_, line), held in zip(lines_of(text, list(spans)), spans.values(), strict=True):
        yield (line.rpartition("\r")[2] if "\r" in line else line), held


@dataclass(slots=True)
class _Found:
    """What the rules found in one log so far. `work`: what it cost; `unread`: lines that were not tried any more."""

    check: str
    rows: dict[str, dict[tuple[str, str | None, str], Fact]] = field(default_factory=dict)
    work: int = 0
    unread: int = 0

    def look(self, rule: LogRule, line: str) -> None:
        """Tries a rule on a line that holds its needle."""
        cost = EACH + rule.pattern.ways * min(len(line), LONGEST_LINE)
        if self.work + cost > MOST_WORK:
            self.unread += 1
            return
        self.work += cost
        if said := rule.read(line):
            self._add(rule, said, line)

    def _add(self, rule: LogRule, said: RuleHit, line: str) -> None:
        rows = self.rows.setdefault(rule.id, {})
        name = (said.value, said.rank, said.boot_id)
        if name not in rows and len(rows) >= MOST_EVENTS:
            name = next(reversed(rows))
        rows[name] = _again(rows[name], said) if name in rows else _first(self.check, rule, said, line)

    def facts(self) -> list[Fact]:
        """All of them, those of one rule together."""
        lost = [left_out(self.check, self.unread)] if self.unread else []
        return [fact for rows in self.rows.values() for fact in rows.values()] + lost


def _first(check: str, rule: LogRule, said: RuleHit, line: str) -> Fact:
    attrs: dict[str, Any] = {"count": 1, "wrong": rule.says, **_span(said)}
    if said.rank is not None:
        attrs["rank"] = said.rank
    return Fact(check, rule.key, said.value, line=redact(line)[:LONGEST_LINE].strip(), attrs=attrs, time=said.time, boot_id=said.boot_id)


def _again(fact: Fact, said: RuleHit) -> Fact:
    last = {"last": said.time.isoformat()} if said.time else {}
    return replace(fact, attrs={**fact.attrs, "count": fact.attrs["count"] + 1, **last})


def _span(said: RuleHit) -> dict[str, str]:
    return {"first": said.time.isoformat(), "last": said.time.isoformat()} if said.time else {}
