"""Digests of long logs for people and models: kinds of lines with counts, times and positions. Pure.

Low trust: a template proves nothing and only shows where to look. `digest_log` is slow on large texts: keep it off the
event loop.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from itertools import islice

from graph.state import LogDigest, LogTemplate
from kb.logs.compress import add_line_numbers, compress_log
from kb.logs.template import XID_PATTERN, has_trouble_word, score_template
from kb.logs.template_filters import FILTERS, FilterRule
from kb.needle_search import split_lines
from tools.fact import Fact
from tools.inventory.host_ranges import fold_host_names

# Logs and templates per incident, and templates on a card.
MAX_LOGS_PER_INCIDENT = 4
MAX_TEMPLATES_PER_INCIDENT = 60
MAX_SHOWN_TEMPLATES = 5
MIN_LOG_LINES = 20  # Lines from which a text is a log
MAX_TEMPLATE_CHARS = 200  # characters kept per template
MAX_LOG_CHARS = 64 << 20  # Characters read per log; Slack files are smaller.
# Starts of long outputs that are not logs.
_DOCUMENT_PREFIXES = ("<?xml", "<nvidia_smi_log", "==============NVSMI LOG")


def digest_log(name: str, sha256: str, text: str, now: datetime | None = None, rules: Sequence[FilterRule] = FILTERS) -> LogDigest | None:
    """Return the digest, or None for a short text or no log. `rules`: which lines are regular."""
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
    """Return whether it has many lines and is not one document (XML, JSON, `nvidia-smi -q`)."""
    head = list(islice((line.strip() for line in split_lines(text[:65536]) if line.strip()), MIN_LOG_LINES))
    if len(head) < MIN_LOG_LINES or head[0].startswith(_DOCUMENT_PREFIXES):
        return False
    return head[0] not in ("{", "[", "[{")


def merge_log_digests(old: Sequence[LogDigest], new: Sequence[LogDigest]) -> tuple[LogDigest, ...]:
    """Return the newest logs, each text once, within the incident's template limit."""
    rows = list({row.sha256: row for row in (*old, *new)}.values())[-MAX_LOGS_PER_INCIDENT:]
    return tuple(_limit_templates(row, MAX_TEMPLATES_PER_INCIDENT // len(rows)) for row in rows)


def select_telling_templates(logs: Sequence[LogDigest], most: int = MAX_SHOWN_TEMPLATES) -> tuple[LogDigest, ...]:
    """Return the most telling templates, `most` in all and a share per log; logs without any are dropped."""
    share = max(1, most // max(1, len(logs)))
    return tuple(short for row in logs[:most] if (short := _limit_templates(row, share)).templates)


def _limit_templates(log: LogDigest, most: int) -> LogDigest:
    """Keep the most telling templates; the others' lines count as left out."""
    ranked = sorted(log.templates, key=lambda row: -_score_template(row, log.lines))
    chosen = {row.text for row in ranked[:most]}
    templates = tuple(row for row in log.templates if row.text in chosen)
    hidden_count = sum(row.count for row in log.templates) - sum(row.count for row in templates)
    return log.model_copy(update={"templates": templates, "left_out": log.left_out + hidden_count})


def _score_template(row: LogTemplate, lines: int) -> float:
    return score_template(row.text, row.count, min(1.0, row.last_line / max(1, lines)), fixed=XID_PATTERN.search(row.text) is not None)


def build_job_log_digest(facts: Iterable[Fact]) -> LogDigest | None:
    """Merge the suspicious templates of the hosts' job log checks; None without any."""
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
    """Line numbers are kept for a single log only; times lead back to several."""
    first = min((row.first for row in rows if row.first), default=None)
    last = max((row.last for row in rows if row.last), default=None)
    places = {} if one_log else {"line": 0, "last_line": 0}
    return rows[0].model_copy(update={"count": sum(row.count for row in rows), "first": first, "last": last, **places})


def format_log_digest(log: LogDigest) -> list[str]:
    small = "; ".join(
        f"{count:,} {description}" for count, description in ((log.regular, "of them regular"), (log.left_out, "not shown")) if count
    )
    head = f"{log.name}: {log.lines:,} lines{f', {small}' if small else ''}{f', stored as {log.sha256[:12]}' if log.sha256 else ''}"
    return [head, *(f"  {_format_template(row)}" for row in log.templates)]


def _format_template(row: LogTemplate) -> str:
    times = list(dict.fromkeys(f"{time.astimezone(UTC):%m-%d %H:%M:%SZ}" for time in (row.first, row.last) if time))
    places = list(dict.fromkeys(str(line) for line in (row.line, row.last_line) if line))
    place = f"line{'s' * (len(places) > 1)} {'–'.join(places)}" if places else ""
    return " ".join(part for part in (f"{row.count:,}×", "–".join(times), place) if part) + f": {row.text}"
