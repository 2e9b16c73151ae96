"""Parse a report into hosts, job, time, symptoms and signatures. Rules only; no model, no I/O."""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from graph.extraction.host_index import HostIndex
from graph.extraction.hosts import find_hosts, find_hosts_called_healthy, find_job_id
from graph.extraction.time_window import parse_time_window
from kb.logs.job_log import list_job_events
from kb.logs.kernel_log import list_kernel_events
from kb.logs.log_lines import find_time
from kb.logs.ranks import split_rank_tag
from kb.taxonomy.symptoms import find_symptoms, map_signatures_to_symptoms

MAX_REPORT_CHARS = 200_000  # Characters read as a report; longer logs are attachments, whose facts are read elsewhere.
_MAX_PROSE_CHARS = 20_000
_XID_PATTERN = re.compile(
    r"\b(?P<kind>s?xid)s?(?: errors?| codes?)?(?: \([^)\n]{1,40}\))?[ :=#]{0,3}(?P<code>\d{1,5})\b(?!\s*(?:gpus?|nodes?|times)\b)",
    re.IGNORECASE,
)
_LOG_LINE_PATTERN = re.compile(
    r"^\s{0,3}(?:\[[^\]\n]{1,60}\]|==> |<\d{1,3}>|Traceback |\{\"|[EWIF]\d{3,4} |\d{1,5},\d+,\d+,|\S{1,80}:\d+:\d+ \[\d+\])|"
    r"NCCL (?:WARN|INFO)|NVRM: |^\s+File \"|"
    r"^(?:[\w.]{1,80}\.)?[A-Z]\w{1,60}(?:Error|Exception|Interrupt)(?::|$)|mlx5_core |^slurmstepd:|^\s{2,}\S.{0,200}[({=]"
)


@dataclass(frozen=True, slots=True)
class ParsedReport:
    """`hosts`: known ones not called fine. `signatures`: error classes, `xid:79`, `sxid:20034` and kernel events as
    quoted.
    """

    hosts: tuple[str, ...] = ()
    unknown_hosts: tuple[str, ...] = ()
    read_as: Mapping[str, str] = field(default_factory=dict)  # Names as written → the hosts they were read as.
    job: str = ""
    since: datetime | None = None
    until: datetime | None = None
    symptoms: tuple[str, ...] = ()
    signatures: tuple[str, ...] = ()


def parse_report(
    text: str, known_hosts: Collection[str] | HostIndex, now: datetime, domains: Collection[str] | None = None, *, lenient: bool = False
) -> ParsedReport:
    """Parse a report. Prose gives times, hosts and symptoms, log lines give signatures. `domains` and `lenient` as in
    `find_hosts`.
    """
    text = text[:MAX_REPORT_CHARS]
    prose = _select_prose(text)
    signatures = _find_signatures(text, now)
    book = known_hosts if isinstance(known_hosts, HostIndex) else HostIndex(known_hosts, domains)
    prose_hosts = find_hosts(text[:_MAX_PROSE_CHARS], book, lenient=lenient)
    fine = find_hosts_called_healthy(text, book)
    since, until = parse_time_window(prose, now)
    symptoms = tuple(dict.fromkeys((*find_symptoms(prose), *map_signatures_to_symptoms(signatures))))
    return ParsedReport(
        hosts=tuple(host for host in prose_hosts.hosts if host not in fine),
        unknown_hosts=prose_hosts.unknown,
        read_as=dict(prose_hosts.read_as),
        job=find_job_id(prose) or find_job_id(text[:_MAX_PROSE_CHARS]),
        since=since,
        until=until,
        symptoms=symptoms or ("vague",),
        signatures=signatures,
    )


def _select_prose(text: str) -> str:
    """Return a person's lines; none if most lines are a log's, since the rest then is, too."""
    lines = [line for line in text.split("\n") if line.strip()]
    prose_lines = [line for line in lines if not is_log_line(line)]
    if len(lines) > 20 and len(prose_lines) * 2 < len(lines):
        return ""
    return "\n".join(prose_lines)[:_MAX_PROSE_CHARS]


def is_log_line(line: str) -> bool:
    return (
        bool(_LOG_LINE_PATTERN.search(line[:400]))
        or (split_rank_tag(line)[0] is not None)
        or (line[:1].isdigit() and find_time(line[:40]) is not None)
    )


def _find_signatures(text: str, now: datetime) -> tuple[str, ...]:
    kernel = [_format_kernel_signature(event.kind, event.value) for event in list_kernel_events(text, now)]
    quoted = [f"{match['kind'].lower()}:{int(match['code'])}" for match in _XID_PATTERN.finditer(text)]
    errors = sorted(list_job_events(text, now), key=lambda event: (not event.attrs["first"], bool(event.attrs["consequence"])))
    return tuple(dict.fromkeys((*kernel, *quoted, *(str(event.value) for event in errors))))


def _format_kernel_signature(kind: str, value: object) -> str:
    name = kind.removeprefix("kernel.")
    return f"{name}:{value}" if name in ("xid", "sxid") else name
