"""A report in people's words, with or without pasted log lines → hosts, job, time, symptoms and signatures. Rules only; no model, no I/O."""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from graph.reading.fine_hosts import hosts_called_fine
from graph.reading.host_book import HostBook
from graph.reading.hosts import hosts_in, job_in
from graph.reading.times import window
from kb.logs.job.ranks import untag
from kb.logs.job.reader import job_events
from kb.logs.kernel.reader import kernel_events
from kb.logs.timestamps import find_time
from kb.taxonomy.symptoms import symptoms_in, symptoms_of

LONGEST = 200_000
"""Characters that are read for words; a log as long as that is an attachment, and its facts are read elsewhere."""
_LONGEST_WORDS = 20_000
_XID = re.compile(
    r"\b(?P<kind>s?xid)s?(?: errors?| codes?)?(?: \([^)\n]{1,40}\))?[ :=#]{0,3}(?P<code>\d{1,5})\b(?!\s*(?:gpus?|nodes?|times)\b)",
    re.IGNORECASE,
)
_LOG = re.compile(
    r"^\s{0,3}(?:\[[^\]\n]{1,60}\]|==> |<\d{1,3}>|Traceback |\{\"|[EWIF]\d{3,4} |\d{1,5},\d+,\d+,|\S{1,80}:\d+:\d+ \[\d+\])|"
    r"NCCL (?:WARN|INFO)|NVRM: |^\s+File \"|"
    r"^(?:[\w.]{1,80}\.)?[A-Z]\w{1,60}(?:Error|Exception|Interrupt)(?::|$)|mlx5_core |^slurmstepd:|^\s{2,}\S.{0,200}[({=]"
)


@dataclass(frozen=True, slots=True)
class Understanding:
    """`hosts` are known ones only, without those that the text calls fine. `signatures` are error classes, `xid:79`, `sxid:20034` and kernel events,
    as the text quotes them."""

    hosts: tuple[str, ...] = ()
    unknown_hosts: tuple[str, ...] = ()
    read_as: Mapping[str, str] = field(default_factory=dict)
    """Names as they were written → the hosts that they were taken for."""
    job: str = ""
    since: datetime | None = None
    until: datetime | None = None
    symptoms: tuple[str, ...] = ()
    signatures: tuple[str, ...] = ()


def understand(
    text: str, known_hosts: Collection[str] | HostBook, now: datetime, domains: Collection[str] | None = None, *, lenient: bool = False
) -> Understanding:
    """What a text says. Times, hosts and everyday words are read from its prose; log lines speak through their signatures. `domains` and `lenient`
    as of `hosts_in`.
    """
    text = text[:LONGEST]
    prose = _prose(text)
    signatures = _signatures(text, now)
    book = known_hosts if isinstance(known_hosts, HostBook) else HostBook(known_hosts, domains)
    named = hosts_in(text[:_LONGEST_WORDS], book, lenient=lenient)
    fine = hosts_called_fine(text, book)
    since, until = window(prose, now)
    symptoms = tuple(dict.fromkeys((*symptoms_in(prose), *symptoms_of(signatures))))
    return Understanding(
        hosts=tuple(host for host in named.hosts if host not in fine),
        unknown_hosts=named.unknown,
        read_as=dict(named.read_as),
        job=job_in(prose) or job_in(text[:_LONGEST_WORDS]),
        since=since,
        until=until,
        symptoms=symptoms or ("vague",),
        signatures=signatures,
    )


def _prose(text: str) -> str:
    """The lines that a person wrote. Where most lines are a log's, the few that do not look like it are the log's as well."""
    lines = [line for line in text.split("\n") if line.strip()]
    said = [line for line in lines if not is_log(line)]
    if len(lines) > 20 and len(said) * 2 < len(lines):
        return ""
    return "\n".join(said)[:_LONGEST_WORDS]


def is_log(line: str) -> bool:
    """Whether a line was printed by a program."""
    return bool(_LOG.search(line[:400])) or (untag(line)[0] is not None) or (line[:1].isdigit() and find_time(line[:40]) is not None)


def _signatures(text: str, now: datetime) -> tuple[str, ...]:
    kernel = [_kernel_name(event.kind, event.value) for event in kernel_events(text, now)]
    quoted = [f"{found['kind'].lower()}:{int(found['code'])}" for found in _XID.finditer(text)]
    errors = sorted(job_events(text, now), key=lambda event: (not event.attrs["first"], bool(event.attrs["consequence"])))
    return tuple(dict.fromkeys((*kernel, *quoted, *(str(event.value) for event in errors))))


def _kernel_name(kind: str, value: object) -> str:
    name = kind.removeprefix("kernel.")
    return f"{name}:{value}" if name in ("xid", "sxid") else name
