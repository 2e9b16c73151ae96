"""Digests of long logs for people and models: kinds of lines with counts, times and positions.

Low trust: a template proves nothing and only shows where to look. `digest_log` is slow on large texts: keep it off the
event loop.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from itertools import islice

from graph.state import LogDigest, LogTemplate
from kb.logs.compress import add_line_numbers, compress_log
from kb.logs.template import XID_PATTERN
from kb.logs.template_filters import FILTERS, FilterRule
from kb.logs.template_selection import has_trouble_word, score_template
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
    templates = tuple(
        LogTemplate(
            text=template.text[:MAX_TEMPLATE_CHARS],
            count=template.count,
            first=template.first,
            last=template.last,
            line=line,
            last_line=last,
        )
        for template, line, last in add_line_numbers(data, digest.templates)
    )
    return LogDigest(
        name=name[:80],
        sha256=sha256,
        lines=digest.lines,
        regular=sum(digest.dropped.values()),
        left_out=digest.left_out,
        templates=templates,
    )


def is_log(text: str) -> bool:
    """Return whether it has many lines and is not one document (XML, JSON, `nvidia-smi -q`)."""
    head = list(islice((line.strip() for line in split_lines(text[:65536]) if line.strip()), MIN_LOG_LINES))
    if len(head) < MIN_LOG_LINES or head[0].startswith(_DOCUMENT_PREFIXES):
        return False
    return head[0] not in ("{", "[", "[{")


def merge_log_digests(old_digests: Sequence[LogDigest], new_digests: Sequence[LogDigest]) -> tuple[LogDigest, ...]:
    """Return the newest logs, each text once, within the incident's template limit."""
    digests = list({digest.sha256: digest for digest in (*old_digests, *new_digests)}.values())[-MAX_LOGS_PER_INCIDENT:]
    return tuple(_limit_templates(digest, MAX_TEMPLATES_PER_INCIDENT // len(digests)) for digest in digests)


def select_telling_templates(logs: Sequence[LogDigest], most: int = MAX_SHOWN_TEMPLATES) -> tuple[LogDigest, ...]:
    """Return the most telling templates, `most` in all and a share per log; logs without any are dropped."""
    share = max(1, most // max(1, len(logs)))
    return tuple(short for digest in logs[:most] if (short := _limit_templates(digest, share)).templates)


def _limit_templates(log: LogDigest, most: int) -> LogDigest:
    """Keep the most telling templates; the others' lines count as left out."""
    ranked = sorted(log.templates, key=lambda template: -_score_template(template, log.lines))
    chosen = {template.text for template in ranked[:most]}
    templates = tuple(template for template in log.templates if template.text in chosen)
    hidden_count = sum(template.count for template in log.templates) - sum(template.count for template in templates)
    return log.model_copy(update={"templates": templates, "left_out": log.left_out + hidden_count})


def _score_template(template: LogTemplate, lines: int) -> float:
    return score_template(
        template.text, template.count, min(1.0, template.last_line / max(1, lines)), fixed=XID_PATTERN.search(template.text) is not None
    )


def build_job_log_digest(facts: Iterable[Fact]) -> LogDigest | None:
    """Merge the suspicious templates of the hosts' job log checks; None without any."""
    templates_by_text: dict[str, list[LogTemplate]] = defaultdict(list)
    logs: list[Fact] = []
    for fact in (fact for fact in facts if fact.key == "job.log" and fact.host):
        bad = [
            template
            for template in fact.attrs.get("templates", ())
            if has_trouble_word(template["text"]) or XID_PATTERN.search(template["text"])
        ]
        if bad:
            logs.append(fact)
        for template_row in bad:
            templates_by_text[template_row["text"]].append(LogTemplate.model_validate(template_row))
    if not logs:
        return None
    return LogDigest(
        name=f"the job on {fold_host_names(fact.host for fact in logs)}"[:80],
        sha256=logs[0].sha256 if len(logs) == 1 else "",
        lines=sum(fact.attrs.get("lines", 0) for fact in logs),
        templates=tuple(_merge_templates(templates, len(logs) == 1) for templates in templates_by_text.values())[
            :MAX_TEMPLATES_PER_INCIDENT
        ],
    )


def _merge_templates(templates: Sequence[LogTemplate], one_log: bool) -> LogTemplate:
    """Line numbers are kept for a single log only; times lead back to several."""
    first = min((template.first for template in templates if template.first), default=None)
    last = max((template.last for template in templates if template.last), default=None)
    places = {} if one_log else {"line": 0, "last_line": 0}
    return templates[0].model_copy(update={"count": sum(template.count for template in templates), "first": first, "last": last, **places})


def format_log_digest(log: LogDigest) -> list[str]:
    small = "; ".join(
        f"{count:,} {description}" for count, description in ((log.regular, "of them regular"), (log.left_out, "not shown")) if count
    )
    head = f"{log.name}: {log.lines:,} lines{f', {small}' if small else ''}{f', stored as {log.sha256[:12]}' if log.sha256 else ''}"
    return [head, *(f"  {_format_template(template)}" for template in log.templates)]


def _format_template(template: LogTemplate) -> str:
    times = list(dict.fromkeys(f"{time.astimezone(UTC):%m-%d %H:%M:%SZ}" for time in (template.first, template.last) if time))
    places = list(dict.fromkeys(str(line) for line in (template.line, template.last_line) if line))
    place = f"line{'s' * (len(places) > 1)} {'–'.join(places)}" if places else ""
    return " ".join(part for part in (f"{template.count:,}×", "–".join(times), place) if part) + f": {template.text}"
