"""Render what is known of hosts without running a check; every line cites source and age. Pure."""

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
from graph.state import Evidence, HandoffTicket, Hypothesis
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
_BARE_NUMBER = re.compile(r"[\w ]{1,40}: {0,4}-?\d{5,20}(?:\.\d{1,12})?")
# `kern :warn : 2026-05-20T08:10:00,000000+00:00 NVRM: Xid …`
_KERNEL_LOG_PATTERN = re.compile(r"[a-z]{1,10} {0,4}:[a-z]{1,10} {0,4}: \d{4}-\d\d-\d\dT(\d\d:\d\d:\d\d)[,.\d+:-]{0,24} (.{1,600})")


@dataclass(frozen=True, slots=True)
class AnswerContext:
    """The input of an answer handler."""

    case: IncidentContext
    now: Assessment
    ports: GraphContext

    @property
    def message(self) -> ParsedMessage:
        return self.case.message

    @property
    def current_time(self) -> datetime:
        return self.ports.clock.now()

    def get_title(self, label: str) -> str:
        return self.now.reference.taxonomy.get_title(label)

    @property
    def root_causes(self) -> tuple[Hypothesis, ...]:
        return self.now.list_root_causes()

    @property
    def faulty_hosts(self) -> tuple[str, ...]:
        """Hosts at fault, in the order of the causes."""
        return tuple(dict.fromkeys(host for row in self.root_causes for host in row.hosts))

    @property
    def observed_hosts(self) -> tuple[str, ...]:
        """Visible hosts with any fact."""
        observed_hosts = {fact.host for fact in self.case.facts if fact.host}
        return tuple(host for host in self.case.visible if host in observed_hosts)


@dataclass(frozen=True, slots=True)
class TargetHosts:
    """The hosts that a message is about; `named` if it names them itself."""

    hosts: tuple[str, ...]
    named: bool = True


def resolve_target_hosts(context: AnswerContext) -> TargetHosts:
    """Return the hosts named, minus those excluded; else those at fault, else all observed."""
    message, visible_ones = context.message, set(context.case.visible)
    named_hosts = tuple(host for host in message.hosts if host in visible_ones)
    if named_hosts or message.unknown_hosts:
        return TargetHosts(named_hosts)
    if message.group and message.group not in (ALL, OTHERS):
        members = context.ports.inventory.groups.get(message.group, ())
        return TargetHosts(tuple(host for host in members if host in visible_ones and host not in message.left_out))
    if message.left_out:
        return TargetHosts(tuple(host for host in context.observed_hosts if host not in message.left_out))
    if message.group == ALL:
        return TargetHosts(context.observed_hosts)
    if message.group == OTHERS:
        return TargetHosts(tuple(host for host in context.observed_hosts if host not in context.faulty_hosts) or context.observed_hosts)
    return TargetHosts(context.faulty_hosts or context.case.hosts or context.observed_hosts, named=False)


def render_unknown_names(context: AnswerContext) -> list[str]:
    """Return a line about unknown names, with suggestions."""
    words = format_unknown_names(context.case.find_unknown_names(context.message.unknown_hosts))
    return [f"{words[0].upper()}{words[1:]}."] if words else []


def build_answer(
    context: AnswerContext,
    lines: Iterable[str],
    came: TurnEvent | None = None,
    *,
    most: int = MAX_LINES,
    owner: str | None = None,
    ticket: HandoffTicket | None = None,
    shown: Sequence[AttachedOutput] = (),
    pictures: Sequence[AttachedChart] = (),
) -> TurnResult:
    """Build an answer of at most `most` lines; what is not passed stays as it is."""
    kept_lines = [line for line in lines if line]
    if len(kept_lines) > most:
        kept_lines = [*kept_lines[: most - 1], f"… and {len(kept_lines) - most + 1} more lines; ask for one host or check to see the rest."]
    report = build_answer_report(context.case, "\n".join(kept_lines)).model_copy(
        update={"shown": tuple(shown), "pictures": tuple(pictures)}
    )
    lifecycle = get_next_lifecycle(context.case.lifecycle, came) if came else None
    return TurnResult(report, lifecycle=lifecycle, owner=owner, ticket=ticket)


def clean_text(text: str, most: int = MAX_LINE_CHARS) -> str:
    """Return untrusted text on one bounded line, invisible characters shown."""
    line = " ".join(show_invisible(text[: 4 * most]).split())
    return line if len(line) <= most else f"{line[: most - 1]}…"


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


def get_read_time(context: AnswerContext, host: str, check: str = "") -> datetime | None:
    """Return when a host, or a check on it, was last read; event times do not count."""
    own = [fact for fact in context.case.facts if fact.host == host and fact.time and not fact.key.startswith(EVENT_KEY_PREFIXES)]
    times = [fact.time for fact in own if fact.time and fact.check == check] or [fact.time for fact in own if fact.time]
    return max(times, default=None)


def render_recheck_offer(context: AnswerContext, hosts: Sequence[str]) -> str:
    """Offer a recheck if a reading is old."""
    times = [at for host in hosts if (at := get_read_time(context, host))]
    return f"Say `recheck {fold_host_names(hosts)}` for now." if times and context.current_time - min(times) > MAX_FRESH_AGE else ""


def get_check_name(check: str) -> str:
    return CHECK_DISPLAY_NAMES.get(check, check)


def render_source(context: AnswerContext, host: str, check: str) -> str:
    """Return `gpu-002 · kernel log · read 4 min ago`."""
    if not host:
        return f"handed in · {get_check_name(check)}"
    return f"{host} · {get_check_name(check)} · read {format_age(get_read_time(context, host, check), context.current_time)}"


def render_evidence(context: AnswerContext, row: Evidence) -> str:
    """Return an evidence line behind its source."""
    return f"  {render_source(context, row.host, row.check)}: {format_log_line(row.line, row.says)}"


def render_fact(context: AnswerContext, fact: Fact) -> str:
    return f"  {render_source(context, fact.host, fact.check)}: {format_log_line(fact.line, f'{fact.key} = {fact.value}')}"


def format_log_line(line: str, says: str) -> str:
    """Return time and message of a kernel log line; XML and bare numbers in words."""
    if not line or line.lstrip().startswith("<") or (says and _BARE_NUMBER.fullmatch(line)):
        return clean_text(says or line)
    match = _KERNEL_LOG_PATTERN.match(line)
    return clean_text(f"{match[1]} {match[2]}" if match else line)


def format_confidence(row: Hypothesis) -> str:
    return f"{report_texts.format_confidence_percent(row.confidence)} sure"


def render_basis(rows: Iterable[Evidence | Fact]) -> str:
    """Return `lspci, kernel log on gpu-003`, or `… handed in` without a host."""
    basis_rows = list(rows)
    checks = list(dict.fromkeys(get_check_name(row.check) for row in basis_rows))
    hosts = tuple(dict.fromkeys(row.host for row in basis_rows if row.host))
    return (
        f"{', '.join(checks[:MAX_CITED_CHECKS])} on {fold_host_names(hosts)}"
        if hosts
        else f"{', '.join(checks[:MAX_CITED_CHECKS])} handed in"
    )


def render_citation(row: Hypothesis) -> str:
    """Return ` (lspci, kernel log on gpu-003)`, or an empty string without evidence."""
    return f" ({render_basis(row.evidence)})" if row.evidence else ""


def render_counter_evidence(context: AnswerContext, label: str) -> str:
    """Return what contradicts a cause, with its source."""
    verdict = context.now.label_verdicts[label]
    against = [match.fact for match in verdict.best.against[:MAX_CITED_CHECKS]]
    return render_basis(against) if against else clean_text(verdict.because.removesuffix(", nothing shows it"), 100)


def format_location(row: Hypothesis) -> str:
    """Return devices, else hosts, else that no machine is at fault."""
    return ", ".join(row.devices[:4]) or (fold_host_names(row.hosts) if row.hosts else "not a host fault")


@dataclass(frozen=True, slots=True)
class HostKnowledge:
    """What is known of one host. `shows`: causes visible there that are no machine's fault; `odd`: abnormal facts."""

    host: str
    causes: tuple[Hypothesis, ...]
    shows: tuple[Hypothesis, ...]
    odd: tuple[Fact, ...]
    looked: tuple[str, ...]  # checks observed
    blind: tuple[tuple[str, str], ...]  # (check, reason) of failed checks
    whole: bool  # every passive machine check was asked and observed
    read: datetime | None
    unproven: tuple[Unproven, ...] = ()  # findings against this host that no proven cause explains
    unplaced: tuple[Unproven, ...] = ()  # the same of unknown host; it counts for every host

    @property
    def is_unobserved(self) -> bool:
        """Whether no check on it succeeded."""
        return not self.looked


def render_coverage(context: AnswerContext, known: HostKnowledge) -> str:
    """Return `22 checks, read 4 min ago`."""
    return f"{len(known.looked)} check{'s' * (len(known.looked) != 1)}, read {format_age(known.read, context.current_time)}"


def build_host_knowledge(context: AnswerContext, host: str) -> HostKnowledge:
    now = context.now
    own_causes, _ = partition_causes_by_hosts(now.list_root_causes(), (host,), now.hosts_by_cause)
    coverage, checks = now.coverage, now.reference.checks
    own = {check for asked_host, check in coverage.asked if asked_host == host and check in checks}
    observed_checks = tuple(check.id for check in checks.values() if check.id in own and coverage.has_observed(host, check.id))
    unobserved = tuple(
        (check, reason) for (blind_host, check), reason in sorted(coverage.unobserved.items()) if blind_host == host and check in checks
    )
    machine = [check.id for check in now.reference.list_passive_checks() if not all(map(is_tenant_writable, check.establishes))]
    is_fully_observed = all(check in own for check in machine) and not {check for check, _ in unobserved} & set(machine)
    odd = tuple(
        fact for fact in now.abnormal_facts if fact.host == host and not is_tenant_writable(fact.key) and fact.key not in UNREACHED_KEYS
    )
    observed_checks = () if find_unreached_hosts(now, (host,)) else observed_checks  # answers of an earlier observation say nothing of now
    causes = tuple(row for row in own_causes if host in row.hosts)
    shows = tuple(row for row in own_causes if not row.hosts and any(evidence.host == host for evidence in row.evidence))
    against = [row for row in list_unproven(context.case, now) if row.concerns(host)]
    placed, unplaced = (tuple(row for row in against if bool(row.hosts) is is_known) for is_known in (True, False))
    return HostKnowledge(
        host, causes, shows, odd, observed_checks, unobserved, is_fully_observed, get_read_time(context, host), placed, unplaced
    )


def find_common_branch(labels: Sequence[str]) -> str:
    """Return the labels' common taxonomy path, or an empty string."""
    same = [step[0] for step in zip(*(label.split(".") for label in labels), strict=False) if len(set(step)) == 1]
    return ".".join(same)
