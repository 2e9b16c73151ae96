"""Render what is known about hosts, without running a check. Every line cites its source and age."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from graph.context import GraphContext
from graph.dialogue.said import ALL, OTHERS, ParsedMessage
from graph.engine.assessment import Assessment
from graph.engine.fact_history import EVENT_KEY_PREFIXES
from graph.engine.reference_data import is_tenant_writable
from graph.extraction import report_texts
from graph.incident.answers.item_answers import build_answer_report
from graph.incident.answers.unproven import Unproven, list_unproven
from graph.incident.context import IncidentContext
from graph.incident.host_findings import UNREACHED_KEYS, find_unreached_hosts, partition_causes_by_hosts
from graph.incident.lifecycle import TurnEvent, get_next_lifecycle
from graph.incident.turn_result import TurnResult
from graph.report import AttachedChart, AttachedOutput
from graph.state import SIDE_KEY, TENANT_SIDE, Evidence, HandoffTicket, Hypothesis
from kb.redact import show_invisible
from tools.fact import Fact
from tools.inventory.host_ranges import fold_host_names
from tools.inventory.name_suggestions import format_unknown_names

MAX_FRESH_AGE = timedelta(minutes=10)  # older facts come with the offer to check again
MAX_LINES = 8
MAX_LINE_CHARS = 160
MAX_TEXT_CHARS = 200
MAX_CITED_CHECKS = 3  # checks named behind a cause
# display names of checks whose id is not the common name
CHECK_DISPLAY_NAMES = {
    "smi": "nvidia-smi",
    "topo": "nvidia-smi topo",
    "nvlink": "nvidia-smi nvlink",
    "joblog": "job log",
    "dmesg": "kernel log",
}

# `date: 1779246188.000000000`: a line that is useless to people
_BARE_NUMBER_PATTERN = re.compile(r"[\w ]{1,40}: {0,4}-?\d{5,20}(?:\.\d{1,12})?")
# `kern :warn : 2026-05-20T08:10:00,000000+00:00 NVRM: Xid …`
_KERNEL_LOG_PATTERN = re.compile(r"[a-z]{1,10} {0,4}:[a-z]{1,10} {0,4}: \d{4}-\d\d-\d\dT(\d\d:\d\d:\d\d)[,.\d+:-]{0,24} (.{1,600})")


@dataclass(frozen=True, slots=True)
class AnswerContext:
    """The input of an answer handler."""

    incident: IncidentContext
    assessment: Assessment
    graph_context: GraphContext

    @property
    def message(self) -> ParsedMessage:
        return self.incident.message

    @property
    def current_time(self) -> datetime:
        return self.graph_context.clock.now()

    @property
    def is_read_by_tenant(self) -> bool:
        """Whether the requester is on the tenant's side, who learns no names of other people."""
        origin = self.incident.origin
        is_tenant_place = origin is not None and bool(origin.tenant) and origin.kind != "alert" and not (origin.customer or origin.ticket)
        return is_tenant_place or self.incident.item.data.get(SIDE_KEY) == TENANT_SIDE

    def get_title(self, label: str) -> str:
        return self.assessment.reference.taxonomy.get_title(label)

    @property
    def root_causes(self) -> tuple[Hypothesis, ...]:
        return self.assessment.list_root_causes()

    @property
    def faulty_hosts(self) -> tuple[str, ...]:
        """Hosts at fault, in the order of the causes."""
        return tuple(dict.fromkeys(host for cause in self.root_causes for host in cause.hosts))

    @property
    def observed_hosts(self) -> tuple[str, ...]:
        """Visible hosts with any fact."""
        observed_hosts = {fact.host for fact in self.incident.facts if fact.host}
        return tuple(host for host in self.incident.visible if host in observed_hosts)


@dataclass(frozen=True, slots=True)
class TargetHosts:
    """The hosts that a message is about, and whether it names them itself."""

    hosts: tuple[str, ...]
    named: bool = True


def resolve_target_hosts(context: AnswerContext) -> TargetHosts:
    """Return the named hosts without those excluded. If none is named, return the faulty hosts, or else all observed hosts."""
    message, visible_hosts = context.message, set(context.incident.visible)
    named_hosts = tuple(host for host in message.hosts if host in visible_hosts)
    if named_hosts or message.unknown_hosts:
        return TargetHosts(named_hosts)
    if message.group and message.group not in (ALL, OTHERS):
        members = context.graph_context.inventory.groups.get(message.group, ())
        return TargetHosts(tuple(host for host in members if host in visible_hosts and host not in message.left_out))
    if message.left_out:
        return TargetHosts(tuple(host for host in context.observed_hosts if host not in message.left_out))
    if message.group == ALL:
        return TargetHosts(context.observed_hosts)
    if message.group == OTHERS:
        other_hosts = tuple(host for host in context.observed_hosts if host not in context.faulty_hosts)
        return TargetHosts(other_hosts or context.observed_hosts)
    return TargetHosts(context.faulty_hosts or context.incident.hosts or context.observed_hosts, named=False)


def render_unknown_names(context: AnswerContext) -> list[str]:
    """Return a line about unknown names, with suggestions."""
    words = format_unknown_names(context.incident.find_unknown_names(context.message.unknown_hosts))
    return [f"{words[0].upper()}{words[1:]}."] if words else []


def build_answer(
    context: AnswerContext,
    lines: Iterable[str],
    event: TurnEvent | None = None,
    *,
    max_lines: int = MAX_LINES,
    owner: str | None = None,
    ticket: HandoffTicket | None = None,
    outputs: Sequence[AttachedOutput] = (),
    pictures: Sequence[AttachedChart] = (),
) -> TurnResult:
    """Build an answer of at most `max_lines` lines, without empty ones. What is not passed stays as it is."""
    kept_lines = [line for line in lines if line]
    if len(kept_lines) > max_lines:
        notice = f"… and {len(kept_lines) - max_lines + 1} more lines; ask for one host or check to see the rest."
        kept_lines = [*kept_lines[: max_lines - 1], notice]
    report = build_answer_report(context.incident, "\n".join(kept_lines)).model_copy(
        update={"shown": tuple(outputs), "pictures": tuple(pictures)}
    )
    lifecycle = get_next_lifecycle(context.incident.lifecycle, event) if event else None
    return TurnResult(report, lifecycle=lifecycle, owner=owner, ticket=ticket)


def clean_text(text: str, max_chars: int = MAX_LINE_CHARS) -> str:
    """Return untrusted text on one bounded line, with invisible characters made visible."""
    line = " ".join(show_invisible(text[: 4 * max_chars]).split())
    return line if len(line) <= max_chars else f"{line[: max_chars - 1]}…"


def format_age(then: datetime | None, now: datetime) -> str:
    """Return `4 min ago`, or the time itself after a day."""
    if then is None:
        return "at an unknown time"
    seconds = (now - then).total_seconds()
    if seconds < 90:
        return "just now"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min ago"
    return f"{seconds / 3600:.0f} h ago" if seconds < 86_400 else f"{then:%Y-%m-%d %H:%M} UTC"


def format_read_at(then: datetime | None, now: datetime) -> str:
    """Return `read 08:17 UTC`, with the date if it was on another day."""
    if then is None:
        return "read at an unknown time"
    return f"read {then:%H:%M} UTC" if then.date() == now.date() else f"read {then:%Y-%m-%d %H:%M} UTC"


def get_read_time(context: AnswerContext, host: str, check: str = "") -> datetime | None:
    """Return when a check last read the host, or any check if it did not. Times of logged events do not count."""
    facts = [fact for fact in context.incident.facts if fact.host == host and not fact.key.startswith(EVENT_KEY_PREFIXES)]
    check_times = [fact.time for fact in facts if fact.time and fact.check == check]
    return max(check_times or [fact.time for fact in facts if fact.time], default=None)


def render_recheck_offer(context: AnswerContext, hosts: Sequence[str]) -> str:
    """Offer a recheck if a reading is old."""
    read_times = [read_time for host in hosts if (read_time := get_read_time(context, host))]
    is_old = bool(read_times) and context.current_time - min(read_times) > MAX_FRESH_AGE
    return f"Say `recheck {fold_host_names(hosts)}` for now." if is_old else ""


def get_check_name(check: str) -> str:
    return CHECK_DISPLAY_NAMES.get(check, check)


def render_source(context: AnswerContext, host: str, check: str) -> str:
    """Return `gpu-002 · kernel log · read 4 min ago`."""
    if not host:
        return f"handed in · {get_check_name(check)}"
    age = format_age(get_read_time(context, host, check), context.current_time)
    return f"{host} · {get_check_name(check)} · read {age}"


def render_evidence(context: AnswerContext, evidence: Evidence) -> str:
    """Return a line of evidence after its source."""
    return f"  {render_source(context, evidence.host, evidence.check)}: {format_log_line(evidence.line, evidence.says)}"


def render_fact(context: AnswerContext, fact: Fact) -> str:
    return f"  {render_source(context, fact.host, fact.check)}: {format_log_line(fact.line, f'{fact.key} = {fact.value}')}"


def format_log_line(line: str, says: str) -> str:
    """Return a log line for people: a kernel line without its prefix, and `says` instead of XML or a bare number."""
    if not line or line.lstrip().startswith("<") or (says and _BARE_NUMBER_PATTERN.fullmatch(line)):
        return clean_text(says or line)
    match = _KERNEL_LOG_PATTERN.match(line)
    return clean_text(f"{match[1]} {match[2]}" if match else line)


def format_confidence(cause: Hypothesis) -> str:
    return f"{report_texts.format_confidence_percent(cause.confidence)} sure"


def render_basis(evidence: Sequence[Evidence | Fact]) -> str:
    """Return `lspci, kernel log on gpu-003`, or `… handed in` for an upload."""
    check_names = list(dict.fromkeys(get_check_name(item.check) for item in evidence))
    hosts = tuple(dict.fromkeys(item.host for item in evidence if item.host))
    location = f"on {fold_host_names(hosts)}" if hosts else "handed in"
    return f"{', '.join(check_names[:MAX_CITED_CHECKS])} {location}"


def render_citation(cause: Hypothesis) -> str:
    """Return ` (lspci, kernel log on gpu-003)`, or an empty string without evidence."""
    return f" ({render_basis(cause.evidence)})" if cause.evidence else ""


def render_counter_evidence(context: AnswerContext, label: str) -> str:
    """Return the checks that contradict a cause, or why it was rejected without any."""
    verdict = context.assessment.label_verdicts[label]
    contradicting_facts = [match.fact for match in verdict.best.against[:MAX_CITED_CHECKS]]
    if contradicting_facts:
        return render_basis(contradicting_facts)
    return clean_text(verdict.because.removesuffix(", nothing shows it"), 100)


def format_location(cause: Hypothesis) -> str:
    """Return the devices of a cause, or its hosts, or that no machine is at fault."""
    if cause.devices:
        return ", ".join(cause.devices[:4])
    return fold_host_names(cause.hosts) if cause.hosts else "not a host fault"


@dataclass(frozen=True, slots=True)
class HostKnowledge:
    """What is known about one host.

    Attributes:
        causes: Proven causes that accuse the host.
        visible_causes: Proven causes with evidence on the host that accuse no machine.
        failed_checks: Each check that failed, with the reason.
        is_complete: Whether every passive machine check was asked and observed.
        unproven: Findings about the host that no proven cause explains.
        unlocated: Such findings without a host. They count for every host.
    """

    host: str
    causes: tuple[Hypothesis, ...]
    visible_causes: tuple[Hypothesis, ...]
    abnormal_facts: tuple[Fact, ...]
    observed_checks: tuple[str, ...]
    failed_checks: tuple[tuple[str, str], ...]
    is_complete: bool
    read_time: datetime | None
    unproven: tuple[Unproven, ...] = ()
    unlocated: tuple[Unproven, ...] = ()

    @property
    def is_unobserved(self) -> bool:
        """Whether no check on it succeeded."""
        return not self.observed_checks


def render_coverage(context: AnswerContext, knowledge: HostKnowledge) -> str:
    """Return `22 checks, read 4 min ago`."""
    return f"{len(knowledge.observed_checks)} check{'s' * (len(knowledge.observed_checks) != 1)}, read {format_age(knowledge.read_time, context.current_time)}"


def build_host_knowledge(context: AnswerContext, host: str) -> HostKnowledge:
    assessment = context.assessment
    own_causes, _ = partition_causes_by_hosts(assessment.list_root_causes(), (host,), assessment.hosts_by_cause)
    coverage, checks = assessment.coverage, assessment.reference.checks
    asked_checks = {check for asked_host, check in coverage.asked if asked_host == host and check in checks}
    observed_checks: tuple[str, ...] = ()
    if not find_unreached_hosts(assessment, (host,)):  # earlier observations of a host that is now unreachable do not count
        observed_checks = tuple(check.id for check in checks.values() if check.id in asked_checks and coverage.has_observed(host, check.id))
    failed_checks = tuple(
        (check, reason) for (failed_host, check), reason in sorted(coverage.unobserved.items()) if failed_host == host and check in checks
    )
    passive_checks = assessment.reference.list_passive_checks()
    machine_checks = {check.id for check in passive_checks if not all(map(is_tenant_writable, check.establishes))}
    is_complete = machine_checks <= asked_checks and machine_checks.isdisjoint(check for check, _ in failed_checks)
    abnormal_facts = tuple(
        fact
        for fact in assessment.abnormal_facts
        if fact.host == host and not is_tenant_writable(fact.key) and fact.key not in UNREACHED_KEYS
    )
    unproven = [finding for finding in list_unproven(context.incident, assessment) if finding.concerns(host)]
    return HostKnowledge(
        host,
        causes=tuple(cause for cause in own_causes if host in cause.hosts),
        visible_causes=tuple(
            cause for cause in own_causes if not cause.hosts and any(evidence.host == host for evidence in cause.evidence)
        ),
        abnormal_facts=abnormal_facts,
        observed_checks=observed_checks,
        failed_checks=failed_checks,
        is_complete=is_complete,
        read_time=get_read_time(context, host),
        unproven=tuple(finding for finding in unproven if finding.hosts),
        unlocated=tuple(finding for finding in unproven if not finding.hosts),
    )


def find_common_branch(labels: Sequence[str]) -> str:
    """Return the labels' common taxonomy path, or an empty string."""
    levels = zip(*(label.split(".") for label in labels), strict=False)
    return ".".join(level[0] for level in levels if len(set(level)) == 1)
