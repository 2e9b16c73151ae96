"""Long logs as people and models read them: kinds of lines with counts, times and places instead of a hundred thousand lines. Pure.

Low trust, all of it: a template proves nothing, it shows where to look. `read_log` takes a while on a large text: not on the event loop.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from itertools import islice

from graph.state import LogDigest, LogTemplate
from kb.logs.templates.compress import compress
from kb.logs.templates.filters import FILTERS, FilterRule
from kb.logs.templates.lines import placed
from kb.logs.templates.masks import XID
from kb.logs.templates.merge import sounds_bad, telling
from kb.scan import lines_in
from tools.fact import Fact
from tools.inventory.ranges import fold

MOST_LOGS, MOST_TEMPLATES, HANDFUL = 4, 60, 5
"""Logs and templates that an incident keeps, and templates that a card shows."""
SHORTEST, LONGEST_TEMPLATE = 20, 200
"""Lines from which on a text is too long to be read as it is; characters of a template that are kept."""
MOST_READ = 64 << 20
"""Characters of one log that are gone through; a file of Slack is smaller."""
_DOCUMENTS = ("<?xml", "<nvidia_smi_log", "==============NVSMI LOG")
"""How outputs begin that are long and yet no log."""


def read_log(name: str, sha256: str, text: str, now: datetime | None = None, rules: Sequence[FilterRule] = FILTERS) -> LogDigest | None:
    """The digest of a log; None where the text is short, or no log. `rules`: which lines are regular."""
    if not is_log(text):
        return None
    data = text[:MOST_READ].encode("utf-8", "replace")
    digest = compress(data, MOST_TEMPLATES, rules, now)
    rows = tuple(
        LogTemplate(text=row.text[:LONGEST_TEMPLATE], count=row.count, first=row.first, last=row.last, line=line, last_line=last)
        for row, line, last in placed(data, digest.templates)
    )
    return LogDigest(
        name=name[:80], sha256=sha256, lines=digest.lines, regular=sum(digest.dropped.values()), left_out=digest.left_out, templates=rows
    )


def is_log(text: str) -> bool:
    """Whether a text is of many lines, and not one document (XML, JSON, the whole of `nvidia-smi -q`)."""
    head = list(islice((line.strip() for line in lines_in(text[:65536]) if line.strip()), SHORTEST))
    if len(head) < SHORTEST or head[0].startswith(_DOCUMENTS):
        return False
    return head[0] not in ("{", "[", "[{")


def kept(old: Sequence[LogDigest], new: Sequence[LogDigest]) -> tuple[LogDigest, ...]:
    """The newest few logs, each text once, with as many templates together as an incident keeps."""
    rows = list({row.sha256: row for row in (*old, *new)}.values())[-MOST_LOGS:]
    return tuple(_fewer(row, MOST_TEMPLATES // len(rows)) for row in rows)


def handful(logs: Sequence[LogDigest], most: int = HANDFUL) -> tuple[LogDigest, ...]:
    """The most telling templates, `most` in all, every log with its share; a log without any is left out."""
    share = max(1, most // max(1, len(logs)))
    return tuple(short for row in logs[:most] if (short := _fewer(row, share)).templates)


def _fewer(log: LogDigest, most: int) -> LogDigest:
    """The most telling templates, in the order of the log; the lines of the others are left out."""
    ranked = sorted(log.templates, key=lambda row: -_tells(row, log.lines))
    chosen = {row.text for row in ranked[:most]}
    templates = tuple(row for row in log.templates if row.text in chosen)
    gone = sum(row.count for row in log.templates) - sum(row.count for row in templates)
    return log.model_copy(update={"templates": templates, "left_out": log.left_out + gone})


def _tells(row: LogTemplate, lines: int) -> float:
    return telling(row.text, row.count, min(1.0, row.last_line / max(1, lines)), fixed=XID.search(row.text) is not None)


def of_jobs(facts: Iterable[Fact]) -> LogDigest | None:
    """What the hosts' own looks at a job's logs found troubling, the same template of several hosts once; None where there is nothing."""
    same: dict[str, list[LogTemplate]] = defaultdict(list)
    logs: list[Fact] = []
    for fact in (fact for fact in facts if fact.key == "job.log" and fact.host):
        bad = [row for row in fact.attrs.get("templates", ()) if sounds_bad(row["text"]) or XID.search(row["text"])]
        logs += [fact] if bad else []
        for row in bad:
            same[row["text"]].append(LogTemplate.model_validate(row))
    if not logs:
        return None
    return LogDigest(
        name=f"the job on {fold(fact.host for fact in logs)}"[:80],
        sha256=logs[0].sha256 if len(logs) == 1 else "",
        lines=sum(fact.attrs.get("lines", 0) for fact in logs),
        templates=tuple(_together(rows, len(logs) == 1) for rows in same.values())[:MOST_TEMPLATES],
    )


def _together(rows: Sequence[LogTemplate], one_log: bool) -> LogTemplate:
    """Numbers of lines lead into one text only: of several, the times are what leads back."""
    first = min((row.first for row in rows if row.first), default=None)
    last = max((row.last for row in rows if row.last), default=None)
    places = {} if one_log else {"line": 0, "last_line": 0}
    return rows[0].model_copy(update={"count": sum(row.count for row in rows), "first": first, "last": last, **places})


def in_words(log: LogDigest) -> list[str]:
    """The log in lines of text: its name and size, and below it a line a template."""
    small = "; ".join(f"{count:,} {what}" for count, what in ((log.regular, "of them regular"), (log.left_out, "not shown")) if count)
    head = f"{log.name}: {log.lines:,} lines{f', {small}' if small else ''}{f', stored as {log.sha256[:12]}' if log.sha256 else ''}"
    return [head, *(f"  {_in_words(row)}" for row in log.templates)]


def _in_words(row: LogTemplate) -> str:
    times = list(dict.fromkeys(f"{time.astimezone(UTC):%m-%d %H:%M:%SZ}" for time in (row.first, row.last) if time))
    places = list(dict.fromkeys(str(line) for line in (row.line, row.last_line) if line))
    where = f"line{'s' * (len(places) > 1)} {'–'.join(places)}" if places else ""
    return " ".join(part for part in (f"{row.count:,}×", "–".join(times), where) if part) + f": {row.text}"
