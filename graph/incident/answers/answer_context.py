"""What is known of hosts without looking: since when, from which check, and what nobody looked at. Every line says its source and its age. Pure."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from graph.context import GraphContext
from graph.dialogue.said import ALL, OTHERS, ParsedMessage
from graph.engine.assessment import Assessment
from graph.engine.event_age import EVENT_KEY_PREFIXES
from graph.engine.reference_data import is_tenant_writable
from graph.extraction import stat_text
from graph.incident.answers.item_answers import build_answer_report
from graph.incident.answers.unproven import Unproven, unproven
from graph.incident.context import IncidentContext
from graph.incident.host_findings import KEPT_OUT, kept_out, partition_causes_by_hosts
from graph.incident.lifecycle import TurnEvent, get_next_lifecycle
from graph.incident.turn_result import TurnResult
from graph.report import AttachedChart, AttachedOutput
from graph.state import Evidence, HandoffTicket, Hypothesis
from kb.redact import show_invisible
from tools.fact import Fact
from tools.inventory.host_ranges import fold_host_names
from tools.inventory.name_suggestions import format_unknown_names

MAX_FRESH_AGE = timedelta(minutes=10)
"""Facts older than this come with the offer to look again."""
MAX_LINES, MAX_LINE_CHARS, MAX_TEXT_CHARS = 8, 160, 200
MAX_CITED_CHECKS = 3
"""Checks that are named behind a cause."""
CHECK_DISPLAY_NAMES = {
    "smi": "nvidia-smi",
    "topo": "nvidia-smi topo",
    "nvlink": "nvidia-smi nvlink",
    "joblog": "job log",
    "dmesg": "kernel log",
}
"""Checks whose id is not what people call them."""

_BARE_NUMBER = re.compile(r"[\w ]{1,40}: {0,4}-?\d{5,20}(?:\.\d{1,12})?")
"""`date: 1779246188.000000000`: a line that tells people nothing."""
_KERNEL_LOG_PATTERN = re.compile(r"[a-z]{1,10} {0,4}:[a-z]{1,10} {0,4}: \d{4}-\d\d-\d\dT(\d\d:\d\d:\d\d)[,.\d+:-]{0,24} (.{1,600})")
"""`kern  :warn  : 2026-05-20T08:10:00,000000+00:00 NVRM: Xid …`"""


@dataclass(frozen=True, slots=True)
class AnswerContext:
    """What a handler answers from."""

    case: IncidentContext
    now: Assessment
    ports: GraphContext

    @property
    def message(self) -> ParsedMessage:
        return self.case.message

    @property
    def current_time(self) -> datetime:
        """Now."""
        return self.ports.clock.now()

    def get_title(self, label: str) -> str:
        return self.now.lens.taxonomy.get_title(label)

    @property
    def root_causes(self) -> tuple[Hypothesis, ...]:
        return self.now.list_root_causes()

    @property
    def faulty_hosts(self) -> tuple[str, ...]:
        """Hosts at fault, in the order of the causes."""
        return tuple(dict.fromkeys(host for row in self.root_causes for host in row.hosts))

    @property
    def observed_hosts(self) -> tuple[str, ...]:
        """Hosts that anything is known of."""
        known = {fact.host for fact in self.case.facts if fact.host}
        return tuple(host for host in self.case.visible if host in known)


@dataclass(frozen=True, slots=True)
class TargetHosts:
    """The hosts that a message is about. `named` where it named them itself."""

    hosts: tuple[str, ...]
    named: bool = True


def resolve_target_hosts(asked: AnswerContext) -> TargetHosts:
    """Those that it names, a group's, or all, but for those that it leaves out; else those at fault, else all that were looked at."""
    said, visible_ones = asked.message, set(asked.case.visible)
    named = tuple(host for host in said.hosts if host in visible_ones)
    if named or said.unknown_hosts:
        return TargetHosts(named)
    if said.group and said.group not in (ALL, OTHERS):
        members = asked.ports.inventory.groups.get(said.group, ())
        return TargetHosts(tuple(host for host in members if host in visible_ones and host not in said.left_out))
    if said.left_out:
        return TargetHosts(tuple(host for host in asked.observed_hosts if host not in said.left_out))
    if said.group == ALL:
        return TargetHosts(asked.observed_hosts)
    if said.group == OTHERS:
        return TargetHosts(tuple(host for host in asked.observed_hosts if host not in asked.faulty_hosts) or asked.observed_hosts)
    return TargetHosts(asked.faulty_hosts or asked.case.hosts or asked.observed_hosts, named=False)


def render_unknown_names(asked: AnswerContext) -> list[str]:
    """A line about names that nobody knows, with those that may be meant; none without any."""
    words = format_unknown_names(asked.case.find_unknown_names(asked.message.unknown_hosts))
    return [f"{words[0].upper()}{words[1:]}."] if words else []


def build_answer(
    asked: AnswerContext,
    lines: Iterable[str],
    came: TurnEvent | None = None,
    *,
    most: int = MAX_LINES,
    owner: str | None = None,
    ticket: HandoffTicket | None = None,
    shown: Sequence[AttachedOutput] = (),
    pictures: Sequence[AttachedChart] = (),
) -> TurnResult:
    """A few lines as the answer; what stands stays, but for what is given."""
    kept = [line for line in lines if line]
    if len(kept) > most:
        kept = [*kept[: most - 1], f"… and {len(kept) - most + 1} more lines; ask for one host or check to see the rest."]
    report = build_answer_report(asked.case, "\n".join(kept)).model_copy(update={"shown": tuple(shown), "pictures": tuple(pictures)})
    lifecycle = get_next_lifecycle(asked.case.lifecycle, came) if came else None
    return TurnResult(report, lifecycle=lifecycle, owner=owner, ticket=ticket)


def clean_text(text: str, most: int = MAX_LINE_CHARS) -> str:
    """A host's or a person's words on one line, bounded."""
    line = " ".join(show_invisible(text[: 4 * most]).split())
    return line if len(line) <= most else f"{line[: most - 1]}…"


def format_age(then: datetime | None, now: datetime) -> str:
    """`4 min ago`; the time itself after a day."""
    if then is None:
        return "at an unknown time"
    seconds = (now - then).total_seconds()
    if seconds < 90:
        return "just now"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min ago"
    return f"{seconds / 3600:.0f} h ago" if seconds < 86_400 else f"{then:%Y-%m-%d %H:%M} UTC"


def get_read_time(asked: AnswerContext, host: str, check: str = "") -> datetime | None:
    """When a host, or a check of it, was read last. What happened at a time of its own says nothing of that."""
    own = [fact for fact in asked.case.facts if fact.host == host and fact.time and not fact.key.startswith(EVENT_KEY_PREFIXES)]
    times = [fact.time for fact in own if fact.time and fact.check == check] or [fact.time for fact in own if fact.time]
    return max(times, default=None)


def render_recheck_offer(asked: AnswerContext, hosts: Sequence[str]) -> str:
    """Where something is old: how to have it read again."""
    times = [at for host in hosts if (at := get_read_time(asked, host))]
    return f"Say `recheck {fold_host_names(hosts)}` for now." if times and asked.current_time - min(times) > MAX_FRESH_AGE else ""


def get_check_name(check: str) -> str:
    """A check as people call it."""
    return CHECK_DISPLAY_NAMES.get(check, check)


def render_source(asked: AnswerContext, host: str, check: str) -> str:
    """`gpu-002 · kernel log · read 4 min ago`."""
    if not host:
        return f"handed in · {get_check_name(check)}"
    return f"{host} · {get_check_name(check)} · read {format_age(get_read_time(asked, host, check), asked.current_time)}"


def render_evidence(asked: AnswerContext, row: Evidence) -> str:
    """A line as a host printed it, behind its source; of markup what it says."""
    return f"  {render_source(asked, row.host, row.check)}: {format_log_line(row.line, row.says)}"


def render_fact(asked: AnswerContext, fact: Fact) -> str:
    """The same of a fact."""
    return f"  {render_source(asked, fact.host, fact.check)}: {format_log_line(fact.line, f'{fact.key} = {fact.value}')}"


def format_log_line(line: str, says: str) -> str:
    """A line as people read it: of the kernel's log the time of day and the message, of XML what it says."""
    if not line or line.lstrip().startswith("<") or (says and _BARE_NUMBER.fullmatch(line)):
        return clean_text(says or line)
    found = _KERNEL_LOG_PATTERN.match(line)
    return clean_text(f"{found[1]} {found[2]}" if found else line)


def format_confidence(row: Hypothesis) -> str:
    """How sure, in the number that the card says."""
    return f"{stat_text.format_confidence_percent(row.confidence)} sure"


def render_basis(rows: Iterable[Evidence | Fact]) -> str:
    """`lspci, kernel log on gpu-003`: with which checks something was seen, and where; what people handed in is said to be so."""
    told = list(rows)
    checks = list(dict.fromkeys(get_check_name(row.check) for row in told))
    hosts = tuple(dict.fromkeys(row.host for row in told if row.host))
    return (
        f"{', '.join(checks[:MAX_CITED_CHECKS])} on {fold_host_names(hosts)}"
        if hosts
        else f"{', '.join(checks[:MAX_CITED_CHECKS])} handed in"
    )


def render_citation(row: Hypothesis) -> str:
    """` (lspci, kernel log on gpu-003)`, behind a cause that is named in passing; empty where it rests on nothing that is kept."""
    return f" ({render_basis(row.evidence)})" if row.evidence else ""


def render_counter_evidence(asked: AnswerContext, label: str) -> str:
    """What speaks against a cause, with where it was read."""
    standing = asked.now.label_verdicts[label]
    against = [match.fact for match in standing.best.against[:MAX_CITED_CHECKS]]
    return render_basis(against) if against else clean_text(standing.because.removesuffix(", nothing shows it"), 100)


def format_location(row: Hypothesis) -> str:
    """Devices, else hosts, else that no machine is at fault."""
    return ", ".join(row.devices[:4]) or (fold_host_names(row.hosts) if row.hosts else "no machine at fault")


@dataclass(frozen=True, slots=True)
class HostKnowledge:
    """What is known of one host. `causes` are on it, `shows` are no machine's fault and show there; `odd` are abnormal facts."""

    host: str
    causes: tuple[Hypothesis, ...]
    shows: tuple[Hypothesis, ...]
    odd: tuple[Fact, ...]
    looked: tuple[str, ...]
    """Checks that could look."""
    blind: tuple[tuple[str, str], ...]
    """Checks that could not, and why."""
    whole: bool
    """Every passive check of the machine was asked and could look."""
    read: datetime | None
    unproven: tuple[Unproven, ...] = ()
    """What speaks against it and no proven cause explains, as far as its host is known."""
    unplaced: tuple[Unproven, ...] = ()
    """The same of which nobody knows the host: it counts for every host."""

    @property
    def is_unobserved(self) -> bool:
        """Nobody looked at it, or no look succeeded."""
        return not self.looked


def render_coverage(asked: AnswerContext, known: HostKnowledge) -> str:
    """`22 checks, read 4 min ago`: with how much a host was looked at, and when."""
    return f"{len(known.looked)} check{'s' * (len(known.looked) != 1)}, read {format_age(known.read, asked.current_time)}"


def build_host_knowledge(asked: AnswerContext, host: str) -> HostKnowledge:
    """What the stored facts say."""
    now = asked.now
    here, _ = partition_causes_by_hosts(now.list_root_causes(), (host,), now.hosts_by_cause)
    coverage, checks = now.coverage, now.lens.checks
    own = {check for asked_host, check in coverage.asked if asked_host == host and check in checks}
    looked = tuple(check.id for check in checks.values() if check.id in own and coverage.has_observed(host, check.id))
    blind = tuple((check, why) for (blind_host, check), why in sorted(coverage.blind.items()) if blind_host == host and check in checks)
    machine = [check.id for check in now.lens.list_passive_checks() if not all(map(is_tenant_writable, check.establishes))]
    whole = all(check in own for check in machine) and not {check for check, _ in blind} & set(machine)
    odd = tuple(fact for fact in now.odd if fact.host == host and not is_tenant_writable(fact.key) and fact.key not in KEPT_OUT)
    looked = () if kept_out(now, (host,)) else looked  # what answered in a look before says nothing of now
    causes = tuple(row for row in here if host in row.hosts)
    shows = tuple(row for row in here if not row.hosts and any(cited.host == host for cited in row.evidence))
    against = [row for row in unproven(asked.case, now) if row.concerns(host)]
    placed, unplaced = (tuple(row for row in against if bool(row.hosts) is known) for known in (True, False))
    return HostKnowledge(host, causes, shows, odd, looked, blind, whole, get_read_time(asked, host), placed, unplaced)


def find_common_branch(labels: Sequence[str]) -> str:
    """What several labels have in common; empty where nothing."""
    same = [step[0] for step in zip(*(label.split(".") for label in labels), strict=False) if len(set(step)) == 1]
    return ".".join(same)
