"""A site's own rules for lines of logs that no reader of ours knows, from YAML: a pattern for lines, and what a line of it says. Pure.

What a rule finds is under `site.log.ID`, a key of low trust: anybody who can write into the log can say it. Whatever a reader of ours knows is
ours: a rule never gets such a line. Files with any problem are refused with all of them.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, PlainValidator, model_validator

from kb.logs.job.ranks import rank_within, untag
from kb.logs.job.rows import classify
from kb.logs.kernel.reader import kernel_events
from kb.logs.timestamps import find_time, split
from kb.redact import redact
from kb.shapes import StrictModel, Text
from kb.yaml import Problems, Spot, files_of, read, validated
from tools.checks.site.ordinary import ORDINARY
from tools.checks.site.patterns import BadPattern, LinePattern, line_pattern

MOST_RULES = 64
LONGEST_LINE, LONGEST_VALUE = 500, 200
"""Characters of a line that a rule looks at, and of a value that is kept."""
_LEAST_COMMON = 0.01
"""A rule that has more than this part of ordinary lines tells nothing."""

Log = Literal["job", "kernel"]


class BadRules(Exception):
    """Files that are refused; `problems` are `file:line: reason`, all of them."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = tuple(problems)


@dataclass(frozen=True, slots=True)
class RuleHit:
    """What a rule reads in a line; `value` without secrets."""

    value: str
    time: datetime | None = None
    boot_id: str = ""
    rank: str | None = None


@dataclass(frozen=True, slots=True)
class LogRule:
    """One rule. `says`: in words, what a line of it means."""

    id: str
    log: Log
    pattern: LinePattern
    says: str

    @property
    def key(self) -> str:
        """Under which its facts stand."""
        return f"site.log.{self.id}"

    def read(self, line: str) -> RuleHit | None:
        """What a line says by this rule; None where it is not of it, or where a reader of ours knows the line."""
        return self._in_kernel(line) if self.log == "kernel" else self._in_job(line)

    def _in_job(self, line: str) -> RuleHit | None:
        rank, body = untag(line)
        value = self._value(body)
        if value is None or classify(line) is not None:
            return None
        return RuleHit(value, find_time(line), "", rank or rank_within(line))

    def _in_kernel(self, line: str) -> RuleHit | None:
        """Only what the kernel itself says, from the message's first character on; a program that prints like it has a name before it."""
        prefix = split(line)
        if prefix.source not in ("", "kernel"):
            return None
        value = self._value(prefix.message.partition("\n")[0])
        if value is None or kernel_events(line):
            return None
        return RuleHit(value, prefix.time, prefix.boot_id)

    def _value(self, body: str) -> str | None:
        """Group `value`, else the first group, else all that matched."""
        body = body[:LONGEST_LINE]
        found = self.pattern.compiled.search(body) if self.pattern.needle in body else None
        if found is None:
            return None
        groups = self.pattern.compiled.groups
        value = found["value"] if "value" in self.pattern.compiled.groupindex else found[1] if groups else found[0]
        return redact(value or "")[:LONGEST_VALUE].strip()


def load_rules(*folders: Path) -> tuple[LogRule, ...]:
    """The rules of all folders, in the order of their files. Raises BadRules."""
    problems = Problems()
    found: list[LogRule] = []
    taken: set[str] = set()
    for path in (path for folder in folders for path in files_of(folder)):
        document = read(path, problems)
        if document is None:
            continue
        before = len(taken)
        document.note_taken("rules", taken, problems, "{}: there is a rule of this id already")
        file = validated(document, _File, problems)
        found += [row.rule for row in file.rules] if file else []
        if before <= MOST_RULES < len(taken):
            problems.note(Spot(path), f"there are more than {MOST_RULES} rules with those of this file; drop what found nothing for long")
    if problems.found:
        raise BadRules(problems.found)
    return tuple(found)


def _id(name: str) -> str:
    if not re.fullmatch(r"[a-z][a-z0-9_]{1,31}", name):
        raise ValueError("id must be snake_case, 2 to 32 characters")
    return name


def _pattern(given: Any) -> LinePattern:
    if not isinstance(given, str) or not given:
        raise ValueError("pattern must be text")
    try:
        return line_pattern(given, LONGEST_LINE)
    except BadPattern as why:
        raise ValueError(f"pattern {why}") from why


def _line(given: str) -> str:
    if "\n" in given.rstrip("\n") or not given.strip():
        raise ValueError("must be one line of a log, as it was printed")
    return given.rstrip("\n")


_Line = Annotated[str, AfterValidator(_line)]


class _Rule(StrictModel):
    id: Annotated[Text, AfterValidator(_id)]
    log: Log
    pattern: Annotated[LinePattern, PlainValidator(_pattern)]
    says: Annotated[Text, Field(min_length=1)]
    examples: Annotated[tuple[_Line, ...], Field(min_length=1)]
    never: tuple[_Line, ...] = ()

    @model_validator(mode="after")
    def _as_its_lines_say(self) -> "_Rule":
        if reasons := tuple(self._reasons()):
            raise ValueError(*reasons)
        return self

    def _reasons(self) -> Iterator[str]:
        search = self.pattern.compiled.search
        for line in self.examples:
            if not self.rule.read(line):
                yield f"its example is not found: {_why_not(line, self.log)}: {line[:120]!r}"
        yield from (f"a line that it must never have matches: {line[:120]!r}" for line in self.never if search(line[:LONGEST_LINE]))
        common = [line for line in ORDINARY if search(line)]
        if len(common) > _LEAST_COMMON * len(ORDINARY):
            yield f"it has ordinary lines, such as {common[0]!r}; say more of what the line holds"

    @property
    def rule(self) -> LogRule:
        """The rule itself."""
        return LogRule(self.id, self.log, self.pattern, self.says)


def _why_not(line: str, log: Log) -> str:
    if log == "kernel" and split(line).source not in ("", "kernel"):
        return "the line is a program's, not the kernel's"
    known = classify(line) if log == "job" else next(((event.kind, {}) for event in kernel_events(line)), None)
    return f"that line is known as {known[0]} already" if known else "the pattern does not match"


class _File(StrictModel):
    rules: Annotated[tuple[_Rule, ...], Field(min_length=1)]
