"""Which hosts, job and facts an incident is about, by its texts. Pure."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from graph.extraction.pasted_text import PastedFacts
from graph.extraction.reports import ParsedReport
from graph.state import InboxItem, IncidentBrief
from kb.fact_keys import find_key
from kb.pci_address import normalize_bdf
from tools.fact import Fact

# Decide whether a text asks about hosts or about a job that runs on them. Pure.
#
# A question about a host is answered with that host first; in job trouble the accused host comes first.

MAX_CHARS = 4000  # Characters read per text.
_JOB_PATTERN = re.compile(
    r"\b(?:jobs?|training|trainings?|runs?|ranks?|nccl|all-?reduce|collectives?|epochs?|steps?|workload)\b", re.IGNORECASE
)
_HOST_PATTERN = r"(?:the )?(?:hosts? |nodes? |machines? |servers? |box )?[`*'\"]?[A-Za-z][A-Za-z0-9._\[\],-]{0,80}[\d\]][`*'\"]?"
_CONDITION_PATTERN = r"(?:healthy|ok(?:ay)?|fine|all ?right|good|well|sane|up|alive|sick|broken|bad)"
_QUESTION_PATTERN = re.compile(
    r"(?:^|[.!?,:;\n]|@[\w-]{1,40}|\b(?:and|but|so|please|you|know|me|tell|if|whether))\s{0,3}"
    r"(?:is|are|was|how(?:'s| is| are| about)|what(?:'s| is)? (?:about|with|wrong with|up with|the (?:state|status|health) of)|"
    rf"check(?: on| out)?|look (?:at|into)|anything (?:wrong|odd|off|new) (?:with|on)|status of|state of|health of)\s{{1,3}}{_HOST_PATTERN}|"
    rf"\b(?:if|whether) {_HOST_PATTERN} (?:is|are)\b|{_HOST_PATTERN} {_CONDITION_PATTERN} ?\?",
    re.IGNORECASE,
)


def is_host_health_question(text: str) -> bool:
    """Return whether the text asks how a host is, as in "is gpu-002 healthy?"."""
    return bool(_QUESTION_PATTERN.search(text[:MAX_CHARS]))


def find_asked_hosts(text: str, read: ParsedReport) -> tuple[str, ...]:
    """Return the hosts that the text asks about; none where it is about a job."""
    if is_host_health_question(text) or not (read.job or "nccl_timeout" in read.symptoms or _JOB_PATTERN.search(text[:MAX_CHARS])):
        return read.hosts
    return ()


# Resolve the hosts and the job of an incident after an item. Pure.
#
# An unknown name replaces nothing and is never read as another; names in a command are exact.


@dataclass(frozen=True, slots=True)
class IncidentScope:
    """`looked_at`: hosts that only this turn checks, empty for the usual ones. `unknown`: names to report in this turn."""

    hosts: tuple[str, ...]
    job: str
    unknown: tuple[str, ...] = ()
    unknown_job: str = ""
    looked_at: tuple[str, ...] = ()
    refused: bool = False  # All names in the item are unknown, so there is nothing to check.


def get_job_to_look_up(old: IncidentBrief, report: ParsedReport) -> str:
    """Return the job whose hosts are needed, or ""."""
    return (report.job or old.job) if _names_other_job(old, report) or not (old.hosts or report.hosts) else ""


def resolve_scope(
    item: InboxItem, old: IncidentBrief, report: ParsedReport, of_job: Sequence[str], *, scheduled: bool = False
) -> IncidentScope:
    """Return the scope. `of_job`: visible hosts of the looked-up job; `scheduled`: a scheduler could be asked."""
    changes_job = _names_other_job(old, report) or (scheduled and get_job_to_look_up(old, report))
    lost_job = (report.job or old.job) if changes_job and not of_job else ""
    hosts = _select_hosts(item, old, report, () if lost_job else of_job)
    nameless = bool(report.unknown_hosts or (lost_job and "job" in item.data)) and not (report.hosts or of_job)
    return IncidentScope(
        hosts=hosts,
        job=(old.job or report.job) if lost_job else (report.job or old.job),
        unknown=report.unknown_hosts or (() if hosts else old.unknown_hosts),
        unknown_job=lost_job,
        looked_at=report.hosts if item.kind == "recheck" or {"hosts", "wider"} & set(item.data) else (),
        refused=nameless and not item.attachments,
    )


def _names_other_job(old: IncidentBrief, report: ParsedReport) -> bool:
    """A first job counts as another one if hosts are known already."""
    return bool(report.job) and report.job != old.job and bool(old.job or old.hosts)


def _select_hosts(item: InboxItem, old: IncidentBrief, report: ParsedReport, of_job: Sequence[str]) -> tuple[str, ...]:
    if item.kind == "recheck" and report.hosts:
        return old.hosts
    if "hosts" in item.data and report.hosts and not item.data.get("wider"):
        return report.hosts
    if "job" in item.data and of_job:
        return tuple(of_job)
    return tuple(dict.fromkeys((*old.hosts, *report.hosts, *of_job)))


# Select the facts of an attached text that may be of the incident's machines, up to a limit. Pure.
#
# Anyone can write a text with a million events, each of which would be weighed against every cause.

MAX_SHOWN_CHARS = 80
MAX_TEXT_FACTS = 4096  # Facts from texts per incident.


def select_own_facts(pasted: PastedFacts, others: Sequence[Fact], addresses: frozenset[str]) -> tuple[tuple[Fact, ...], int]:
    """Return the facts to keep and how many are dropped.

    `others` were kept before. `addresses` are the PCI addresses of all GPUs in question, empty if unknown. Events at
    other addresses count for nothing; one fact names them.
    """
    places = {"", *addresses}
    may_be = tuple(fact for fact in pasted.facts if not addresses or _get_gpu_address(fact) in places)
    foreign = [fact for fact in pasted.facts if addresses and _get_gpu_address(fact) not in places]
    room = max(0, MAX_TEXT_FACTS - sum(not fact.host for fact in others))
    kept_facts = may_be[:room]
    return (*kept_facts, *_build_foreign_facts(foreign)), pasted.left_out + len(may_be) - len(kept_facts)


def _build_foreign_facts(facts: Sequence[Fact]) -> list[Fact]:
    if not facts:
        return []
    first = facts[0].format_sentence()[:MAX_SHOWN_CHARS]
    remainder = f" and {len(facts) - 1} more" if len(facts) > 1 else ""
    line = f"{first}{remainder}: no GPU of these hosts has that address. Another host?"
    return [Fact(facts[0].check, "check.foreign", len(facts), line=line, attrs={"bdf": _get_gpu_address(facts[0])})]


def _get_gpu_address(fact: Fact) -> str:
    """Return "" for anything but a GPU's kernel event, which passes as own."""
    row = find_key(fact.key)
    of_gpu = row is not None and row.scope == "gpu" and fact.key.startswith("kernel.")
    return (normalize_bdf(fact.device or "") or "") if of_gpu else ""
