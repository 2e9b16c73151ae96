"""A site's log filters, from YAML: lines of a family of jobs that are regular and need no template.

A filter drops kinds of line, each given by an example; lines that differ in more than numbers, times, paths and
addresses stay. Filters affect templates only. None may drop a line that a reader uses or that has a trouble word.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, Field

from kb.logs.job_error_rules import classify_line
from kb.logs.kernel_log import list_kernel_events
from kb.logs.template import build_template
from kb.logs.template_filters import FILTERS, FilterRule, build_exact_rule
from kb.logs.template_selection import has_trouble_word
from kb.schema import StrictModel, Text
from kb.yaml_files import FilePosition, Problems, list_yaml_files, read_document, validate_document
from tools.checks.check_types import Check
from tools.checks.job import parse_job_log
from tools.checks.site.rules import MAX_LINE_CHARS

MAX_LINE_KINDS = 256  # of all filters together
_MIN_FIXED_CHARS = 8  # letters of fixed text per kind of line; fewer would match anything
# Lower-case words of lines that report an outcome: their numbers may matter.
_OUTCOME_WORD_PATTERN = re.compile(
    r"exit|\bcode\b|signal|status|\bdown\b|dead|died|stop|drop|miss|expire|leak|violat|slow|evict|preempt|requeue|restart|reset"
)
_NOT_FIXED_TEXT_PATTERN = re.compile(r"<[a-z]+>|[^A-Za-z]")


class BadFilters(Exception):
    """Files that are refused; `problems` are `file:line: reason`, all of them."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = tuple(problems)


@dataclass(frozen=True, slots=True)
class LogFilter:
    """The lines that are regular in the logs of a family of jobs."""

    id: str
    family: str  # text that the logs of these jobs contain, such as a path
    rules: tuple[FilterRule, ...]  # one per kind of line


def load_filters(*folders: Path) -> tuple[LogFilter, ...]:
    """Return the filters of all folders in file order. Raise BadFilters if any file has a problem."""
    problems = Problems()
    filters: list[LogFilter] = []
    taken_ids: set[str] = set()
    for path in (path for folder in folders for path in list_yaml_files(folder)):
        document = read_document(path, problems)
        if document is None:
            continue
        document.note_taken_ids("filters", taken_ids, problems, "{}: there is a filter of this id already")
        file = validate_document(document, _FilterFileModel, problems)
        filters += [filter_model.filter for filter_model in file.filters] if file else []
        if sum(len(log_filter.rules) for log_filter in filters) > MAX_LINE_KINDS:
            problems.add(FilePosition(path), f"there are more than {MAX_LINE_KINDS} kinds of line with those of this file")
    if problems.found:
        raise BadFilters(problems.found)
    return tuple(filters)


def explain_unfilterable(line: str) -> str:
    """Return why no filter may drop the line; an empty text if one may."""
    template = build_template(line)
    if has_trouble_word(template):
        return "it sounds like trouble"
    if classify_line(line) is not None or list_kernel_events(line) or "peer" in line or "Xid (" in line:
        return "a reader of ours wants it"
    if _OUTCOME_WORD_PATTERN.search(template.lower()):
        return "its numbers may tell what became of something"
    if len(_NOT_FIXED_TEXT_PATTERN.sub("", template)) < _MIN_FIXED_CHARS:
        return "it has too little fixed text to be told from others"
    return ""


def select_filter_rules(text: str, filters: Iterable[LogFilter]) -> Sequence[FilterRule]:
    """Return the built-in rules and those of the families whose text is in the log."""
    family_rules = [rule for log_filter in filters if log_filter.family in text for rule in log_filter.rules]
    return (*FILTERS, *family_rules) if family_rules else FILTERS


def add_filters(checks: Mapping[str, Check], filters: Sequence[LogFilter]) -> Mapping[str, Check]:
    """Apply the filters to the job log's templates."""
    if not filters or "joblog" not in checks:
        return checks
    check = checks["joblog"]
    parse = partial(parse_job_log, regular=partial(select_filter_rules, filters=filters))
    formats = tuple(
        replace(output_format, parse=parse) if output_format.name == "job log" else output_format for output_format in check.formats
    )
    return {**checks, "joblog": replace(check, formats=formats)}


def _validate_id(name: str) -> str:
    if not re.fullmatch(r"[a-z][a-z0-9_]{1,31}", name):
        raise ValueError("id must be snake_case, 2 to 32 characters")
    return name


def _validate_line(given: str) -> str:
    line = given.rstrip("\n")
    if "\n" in line or not line.strip() or len(line) > MAX_LINE_CHARS:
        raise ValueError(f"must be one line of a log as it was printed, of at most {MAX_LINE_CHARS} characters")
    if refusal := explain_unfilterable(line):
        raise ValueError(f"no filter may drop it, {refusal}: {line[:120]!r}")
    return line


def _validate_family(given: str) -> str:
    if len(given.strip()) < 4:
        raise ValueError("family must be a text of four characters or more that logs of these jobs hold")
    return given


class _FilterModel(StrictModel):
    id: Annotated[Text, AfterValidator(_validate_id)]
    family: Annotated[Text, AfterValidator(_validate_family)]
    lines: Annotated[tuple[Annotated[str, AfterValidator(_validate_line)], ...], Field(min_length=1)]

    @property
    def filter(self) -> LogFilter:
        return LogFilter(self.id, self.family, tuple(self._build_rules()))

    def _build_rules(self) -> Iterator[FilterRule]:
        for template in dict.fromkeys(map(build_template, self.lines)):
            yield build_exact_rule(self.id, template)


class _FilterFileModel(StrictModel):
    filters: Annotated[tuple[_FilterModel, ...], Field(min_length=1)]
