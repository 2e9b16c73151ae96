"""A site's own filters, from YAML: which lines of a family of jobs are regular and need no template. Pure.

A filter drops kinds of line, each given by one such line; what differs from it in more than numbers, times, paths and addresses stays. It
touches templates alone: every fact is read before. A line that a reader wants, or that sounds like trouble, is dropped by no filter.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, Field

from kb.logs.job.rows import classify
from kb.logs.kernel.reader import kernel_events
from kb.logs.templates.filters import FILTERS, FilterRule, exactly
from kb.logs.templates.masks import template_of
from kb.logs.templates.merge import sounds_bad
from kb.shapes import StrictModel, Text
from kb.yaml import Problems, Spot, files_of, read, validated
from tools.checks.job import parse_job_log
from tools.checks.row import Check
from tools.checks.site.rules import LONGEST_LINE

MOST_KINDS = 256
"""Kinds of line of all filters together."""
_LEAST = 8
"""Letters of fixed text that a kind of line has: less would be anything."""
_TELLS = re.compile(
    r"exit|\bcode\b|signal|status|\bdown\b|dead|died|stop|drop|miss|expire|leak|violat|slow|evict|preempt|requeue|restart|reset"
)
"""Words, in lower case, of lines that say what became of something: a number in them may be all that tells."""
_WORDS = re.compile(r"<[a-z]+>|[^A-Za-z]")


class BadFilters(Exception):
    """Files that are refused; `problems` are `file:line: reason`, all of them."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = tuple(problems)


@dataclass(frozen=True, slots=True)
class LogFilter:
    """`family`: a text that logs of these jobs hold, their paths among it. `rules`: one a kind of line."""

    id: str
    family: str
    rules: tuple[FilterRule, ...]


def load_filters(*folders: Path) -> tuple[LogFilter, ...]:
    """The filters of all folders, in the order of their files. Raises BadFilters."""
    problems = Problems()
    found: list[LogFilter] = []
    taken: set[str] = set()
    for path in (path for folder in folders for path in files_of(folder)):
        document = read(path, problems)
        if document is None:
            continue
        document.note_taken("filters", taken, problems, "{}: there is a filter of this id already")
        file = validated(document, _File, problems)
        found += [row.filter for row in file.filters] if file else []
        if sum(len(one.rules) for one in found) > MOST_KINDS:
            problems.note(Spot(path), f"there are more than {MOST_KINDS} kinds of line with those of this file")
    if problems.found:
        raise BadFilters(problems.found)
    return tuple(found)


def why_kept(line: str) -> str:
    """Why no filter may drop such a line; empty where one may."""
    template = template_of(line)
    if sounds_bad(template):
        return "it sounds like trouble"
    if classify(line) is not None or kernel_events(line) or "peer" in line or "Xid (" in line:
        return "a reader of ours wants it"
    if _TELLS.search(template.lower()):
        return "its numbers may tell what became of something"
    if len(_WORDS.sub("", template)) < _LEAST:
        return "it has too little fixed text to be told from others"
    return ""


def rules_for(text: str, filters: Iterable[LogFilter]) -> Sequence[FilterRule]:
    """The rules for a log: ours, and those of each family whose text it holds."""
    own = [rule for one in filters if one.family in text for rule in one.rules]
    return (*FILTERS, *own) if own else FILTERS


def with_filters(checks: Mapping[str, Check], filters: Sequence[LogFilter]) -> Mapping[str, Check]:
    """The same checks; the one that reads jobs' logs leaves out what is regular in them."""
    if not filters or "joblog" not in checks:
        return checks
    check = checks["joblog"]
    parse = partial(parse_job_log, regular=partial(rules_for, filters=filters))
    formats = tuple(replace(one, parse=parse) if one.name == "job log" else one for one in check.formats)
    return {**checks, "joblog": replace(check, formats=formats)}


def _id(name: str) -> str:
    if not re.fullmatch(r"[a-z][a-z0-9_]{1,31}", name):
        raise ValueError("id must be snake_case, 2 to 32 characters")
    return name


def _line(given: str) -> str:
    line = given.rstrip("\n")
    if "\n" in line or not line.strip() or len(line) > LONGEST_LINE:
        raise ValueError(f"must be one line of a log as it was printed, of at most {LONGEST_LINE} characters")
    if why := why_kept(line):
        raise ValueError(f"no filter may drop it, {why}: {line[:120]!r}")
    return line


def _family(given: str) -> str:
    if len(given.strip()) < 4:
        raise ValueError("family must be a text of four characters or more that logs of these jobs hold")
    return given


class _Filter(StrictModel):
    id: Annotated[Text, AfterValidator(_id)]
    family: Annotated[Text, AfterValidator(_family)]
    lines: Annotated[tuple[Annotated[str, AfterValidator(_line)], ...], Field(min_length=1)]

    @property
    def filter(self) -> LogFilter:
        """The filter itself."""
        return LogFilter(self.id, self.family, tuple(self._rules()))

    def _rules(self) -> Iterator[FilterRule]:
        for template in dict.fromkeys(map(template_of, self.lines)):
            yield exactly(self.id, template)


class _File(StrictModel):
    filters: Annotated[tuple[_Filter, ...], Field(min_length=1)]
