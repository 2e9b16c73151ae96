"""Long logs as people and models read them: kinds of lines with counts, times and places instead of a hundred thousand lines. Pure.

Low trust, all of it: a template proves nothing, it shows where to look. `read_log` takes a while on a large text: not on the event loop.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from itertools import islice

from graph.state import LogDigest, LogTemplate
from kb.logs.templates.compress import compress_log
from kb.logs.templates.filters import FILTERS, FilterRule
from kb.logs.templates.line_numbers import add_line_numbers
from kb.logs.templates.masks import XID_PATTERN
from kb.logs.templates.merge import has_trouble_word, score_template
from kb.scan import split_lines
from tools.fact import Fact
from tools.inventory.host_ranges import fold_host_names

MAX_LOGS_PER_INCIDENT, MAX_TEMPLATES_PER_INCIDENT, MAX_SHOWN_TEMPLATES = 4, 60, 5
"""Logs and templates that an incident keeps, and templates that a card shows."""
MIN_LOG_LINES, MAX_TEMPLATE_CHARS = 20, 200
"""Lines from which on a text is too long to be read as it is; characters of a template that are kept."""
MAX_LOG_CHARS = 64 << 20
"""Characters of one log that are gone through; a file of Slack is smaller."""
_DOCUMENT_PREFIXES = ("<?xml", "<nvidia_smi_log", "==============NVSMI LOG")
"""How outputs begin that are long and yet no log."""


def digest_log(name: str, sha256: str, text: str, now: datetime | None = None, rules: Sequence[FilterRule] = FILTERS) -> LogDigest | None:
    """The digest of a log; None where the text is short, or no log. `rules`: which lines are regular."""
    if not is_log(text):
        return None
    data = text[:MAX_LOG_CHARS].encode("utf-8", "replace")
    digest = compress_log(data, MAX_TEMPLATES_PER_INCIDENT, rules, now)
    rows = tuple(
        LogTemplate(text=row.text[:MAX_TEMPLATE_CHARS], count=row.count, first=row.first, last=row.last, line=line, last_line=last)
        for row, line, last in add_line_numbers(data, digest.templates)
    )
    return LogDigest(
        name=name[:80], sha256=sha256, lines=digest.lines, regular=sum(digest.dropped.values()), left_out=digest.left_out, templates=rows
    )


def is_log(text: str) -> bool:
    """Whether a text is of many lines, and not one document (XML, JSON, the whole of `nvidia-smi -q`)."""
    head = list(islice((line.strip() for line in split_lines(text[:65536]) if line.strip()), MIN_LOG_LINES))
    if len(head) < MIN_LOG_LINES or head[0].startswith(_DOCUMENT_PREFIXES):
        return False
    return head[0] not in ("{", "[", "[{")


def merge_log_digests(old: Sequence[LogDigest], new: Sequence[LogDigest]) -> tuple[LogDigest, ...]:
    """The newest few logs, each text once, with as many templates together as an incident keeps."""
    rows = list({row.sha256: row for row in (*old, *new)}.values())[-MAX_LOGS_PER_INCIDENT:]
    return tuple(_limit_templates(row, MAX_TEMPLATES_PER_INCIDENT // len(rows)) for row in rows)


def select_telling_templates(logs: Sequence[LogDigest], most: int = MAX_SHOWN_TEMPLATES) -> tuple[LogDigest, ...]:
    """The most telling templates, `most` in all, every log with its share; a log without any is left out."""
    share = max(1, most // max(1, len(logs)))
    return tuple(short for row in logs[:most] if (short := _limit_templates(row, share)).templates)


def _limit_templates(log: LogDigest, most: int) -> LogDigest:
    """The most telling templates, in the order of the log; the lines of the others are left out."""
    ranked = sorted(log.templates, key=lambda row: -_score_template(row, log.lines))
    chosen = {row.text for row in ranked[:most]}
    templates = tuple(row for row in log.templates if row.text in chosen)
    gone = sum(row.count for row in log.templates) - sum(row.count for row in templates)
    return log.model_copy(update={"templates": templates, "left_out": log.left_out + gone})


def _score_template(row: LogTemplate, lines: int) -> float:
    return score_template(row.text, row.count, min(1.0, row.last_line / max(1, lines)), fixed=XID_PATTERN.search(row.text) is not None)


def build_job_log_digest(facts: Iterable[Fact]) -> LogDigest | None:
    """What the hosts' own looks at a job's logs found troubling, the same template of several hosts once; None where there is nothing."""
    same: dict[str, list[LogTemplate]] = defaultdict(list)
    logs: list[Fact] = []
    for fact in (fact for fact in facts if fact.key == "job.log" and fact.host):
        bad = [row for row in fact.attrs.get("templates", ()) if has_trouble_word(row["text"]) or XID_PATTERN.search(row["text"])]
        logs += [fact] if bad else []
        for row in bad:
            same[row["text"]].append(LogTemplate.model_validate(row))
    if not logs:
        return None
    return LogDigest(
        name=f"the job on {fold_host_names(fact.host for fact in logs)}"[:80],
        sha256=logs[0].sha256 if len(logs) == 1 else "",
        lines=sum(fact.attrs.get("lines", 0) for fact in logs),
        templates=tuple(_merge_templates(rows, len(logs) == 1) for rows in same.values())[:MAX_TEMPLATES_PER_INCIDENT],
    )


def _merge_templates(rows: Sequence[LogTemplate], one_log: bool) -> LogTemplate:
    """Numbers of lines lead into one text only: of several, the times are what leads back."""
    first = min((row.first for row in rows if row.first), default=None)
    last = max((row.last for row in rows if row.last), default=None)
    places = {} if one_log else {"line": 0, "last_line": 0}
    return rows[0].model_copy(update={"count": sum(row.count for row in rows), "first": first, "last": last, **places})


def format_log_digest(log: LogDigest) -> list[str]:
    """The log in lines of text: its name and size, and below it a line a template."""
    small = "; ".join(f"{count:,} {what}" for count, what in ((log.regular, "of them regular"), (log.left_out, "not shown")) if count)
    head = f"{log.name}: {log.lines:,} lines{f', {small}' if small else ''}{f', stored as {log.sha256[:12]}' if log.sha256 else ''}"
    return [head, *(f"  {_format_template(row)}" for row in log.templates)]


def _format_template(row: LogTemplate) -> str:
    times = list(dict.fromkeys(f"{time.astimezone(UTC):%m-%d %H:%M:%SZ}" for time in (row.first, row.last) if time))
    places = list(dict.fromkeys(str(line) for line in (row.line, row.last_line) if line))
    where = f"line{'s' * (len(places) > 1)} {'–'.join(places)}" if places else ""
    return " ".join(part for part in (f"{row.count:,}×", "–".join(times), where) if part) + f": {row.text}"
