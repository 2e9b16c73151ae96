"""A site's rules for log lines that no built-in reader knows, from YAML.

Findings are `site.log.ID`, of low trust: anyone who can write to the log can cause them. Lines known to a built-in
reader never reach a rule. Files are refused with all their problems.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, PlainValidator, model_validator

from kb.logs.job_error_rules import classify_line
from kb.logs.kernel_log import list_kernel_events
from kb.logs.line_prefixes import find_time, split_prefix
from kb.logs.ranks import find_rank_in_message, split_rank_tag
from kb.redact import redact
from kb.schema import StrictModel, Text
from kb.yaml_files import FilePosition, Problems, list_yaml_files, read_document, validate_document
from tools.checks.site.ordinary_lines import ORDINARY_LINES
from tools.checks.site.safe_patterns import BadPattern, LinePattern, compile_line_pattern

MAX_RULES = 64
MAX_LINE_CHARS = 500  # characters of a line that a rule searches
MAX_VALUE_CHARS = 200  # of a stored value
_MAX_ORDINARY_RATIO = 0.01  # share of ordinary lines above which a rule is refused
LogKind = Literal["job", "kernel"]


class BadRules(Exception):
    """Files that are refused; `problems` are `file:line: reason`, all of them."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = tuple(problems)


@dataclass(frozen=True, slots=True)
class RuleHit:
    """What a rule matched in a line."""

    value: str  # redacted
    time: datetime | None = None
    boot_id: str = ""
    rank: str | None = None


@dataclass(frozen=True, slots=True)
class LogRule:
    """A site's rule for the lines of one kind of log."""

    id: str
    log: LogKind
    pattern: LinePattern
    says: str  # the meaning of a matching line

    @property
    def key(self) -> str:
        return f"site.log.{self.id}"

    def match_line(self, line: str) -> RuleHit | None:
        """Return None if the line does not match or a built-in reader knows it."""
        return self._match_kernel_line(line) if self.log == "kernel" else self._match_job_line(line)

    def _match_job_line(self, line: str) -> RuleHit | None:
        rank, body = split_rank_tag(line)
        value = self._extract_value(body)
        if value is None or classify_line(line) is not None:
            return None
        return RuleHit(value, find_time(line), "", rank or find_rank_in_message(line))

    def _match_kernel_line(self, line: str) -> RuleHit | None:
        """Match from the message's first character: programs that imitate the kernel have a name in front."""
        prefix = split_prefix(line)
        if prefix.source not in ("", "kernel"):
            return None
        value = self._extract_value(prefix.message.partition("\n")[0])
        if value is None or list_kernel_events(line):
            return None
        return RuleHit(value, prefix.time, prefix.boot_id)

    def _extract_value(self, body: str) -> str | None:
        """Return the text of group `value`, else of the first group, else of the whole match."""
        body = body[:MAX_LINE_CHARS]
        match = self.pattern.compiled.search(body) if self.pattern.needle in body else None
        if match is None:
            return None
        compiled = self.pattern.compiled
        group = "value" if "value" in compiled.groupindex else min(compiled.groups, 1)
        value = match[group]
        return redact(value or "")[:MAX_VALUE_CHARS].strip()


def load_rules(*folders: Path) -> tuple[LogRule, ...]:
    """Return the rules of all folders in file order. Raise BadRules if any file has a problem."""
    problems = Problems()
    rules: list[LogRule] = []
    taken_ids: set[str] = set()
    for path in (path for folder in folders for path in list_yaml_files(folder)):
        document = read_document(path, problems)
        if document is None:
            continue
        count_before = len(taken_ids)
        document.note_taken_ids("rules", taken_ids, problems, "{}: there is a rule of this id already")
        file = validate_document(document, _RuleFileModel, problems)
        rules += [model.rule for model in file.rules] if file else []
        if count_before <= MAX_RULES < len(taken_ids):
            problems.add(
                FilePosition(path), f"there are more than {MAX_RULES} rules with those of this file; drop what found nothing for long"
            )
    if problems.found:
        raise BadRules(problems.found)
    return tuple(rules)


def _validate_id(name: str) -> str:
    if not re.fullmatch(r"[a-z][a-z0-9_]{1,31}", name):
        raise ValueError("id must be snake_case, 2 to 32 characters")
    return name


def _validate_pattern(given: Any) -> LinePattern:
    if not isinstance(given, str) or not given:
        raise ValueError("pattern must be text")
    try:
        return compile_line_pattern(given, MAX_LINE_CHARS)
    except BadPattern as error:
        raise ValueError(f"pattern {error}") from error


def _validate_line(given: str) -> str:
    if "\n" in given.rstrip("\n") or not given.strip():
        raise ValueError("must be one line of a log, as it was printed")
    return given.rstrip("\n")


_ExampleLine = Annotated[str, AfterValidator(_validate_line)]


class _RuleModel(StrictModel):
    id: Annotated[Text, AfterValidator(_validate_id)]
    log: LogKind
    pattern: Annotated[LinePattern, PlainValidator(_validate_pattern)]
    says: Annotated[Text, Field(min_length=1)]
    examples: Annotated[tuple[_ExampleLine, ...], Field(min_length=1)]
    never: tuple[_ExampleLine, ...] = ()

    @model_validator(mode="after")
    def _check_examples(self) -> "_RuleModel":
        if reasons := tuple(self._list_problems()):
            raise ValueError(*reasons)
        return self

    def _list_problems(self) -> Iterator[str]:
        search = self.pattern.compiled.search
        for line in self.examples:
            if not self.rule.match_line(line):
                yield f"its example is not found: {_explain_no_match(line, self.log)}: {line[:120]!r}"
        yield from (f"a line that it must never have matches: {line[:120]!r}" for line in self.never if search(line[:MAX_LINE_CHARS]))
        ordinary_matches = [line for line in ORDINARY_LINES if search(line)]
        if len(ordinary_matches) > _MAX_ORDINARY_RATIO * len(ORDINARY_LINES):
            yield f"it has ordinary lines, such as {ordinary_matches[0]!r}; say more of what the line holds"

    @property
    def rule(self) -> LogRule:
        return LogRule(self.id, self.log, self.pattern, self.says)


def _explain_no_match(line: str, log: LogKind) -> str:
    if log == "kernel" and split_prefix(line).source not in ("", "kernel"):
        return "the line is a program's, not the kernel's"
    known_event = classify_line(line) if log == "job" else next(((event.kind, {}) for event in list_kernel_events(line)), None)
    return f"that line is known as {known_event[0]} already" if known_event else "the pattern does not match"


class _RuleFileModel(StrictModel):
    rules: Annotated[tuple[_RuleModel, ...], Field(min_length=1)]
