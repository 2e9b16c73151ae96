"""What a tenant may know of their incident, selected from stored rows, never cut from an internal card. Pure."""

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from graph.extraction.uploaded_files import MAX_NAME_CHARS
from graph.incident.questions import list_tenant_question_ids
from graph.incident.visibility import list_visible_hosts
from graph.incident_view import IncidentView
from graph.ownership import TenantMachines, build_tenant_machines
from graph.report import Report
from graph.state import SIDE_KEY, TENANT_SIDE, Evidence, Hypothesis, Origin, Remediation
from kb.customers.cause_words import CauseWords, CustomerWords, remove_promises
from tools.fact import Fact, Status
from tools.inventory.inventory import Inventory

# What a tenant may know of their incident, selected from stored rows, never cut from an internal card. Pure.
#
# Only this crosses: the catalogue's words for a cause, the tenant's own hosts, lines that their own job wrote, and the
# status. A file's line counts as theirs only if its owner and job are established and the job runs on their hosts alone.
# Never a command, a person, another host, a scheduler's reason, a confidence or internal text.

TenantStage = Literal["received", "yours", "ours", "both", "healthy", "asked", "people"]
# Status of our side; empty if nothing is ours.
TenantState = Literal["", "received", "taken", "waiting", "repairing", "proved", "closed"]
# Values for a cause's block on these hosts: slot → value, from the site's profile.
SlotValueLookup = Callable[[str, Sequence[str]], Mapping[str, str]]
MAX_CAUSES = 3
MAX_EVIDENCE_LINES = 2
ALL_CHECKS_FAILED = "all"  # Check id that means that nothing on the host was observed.
HOST_NAME_PATTERN = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_-]*[A-Za-z0-9])?")  # A possible host name within a line.
TENANT_FACT_PREFIXES = ("job.", "env.", "vers.")  # Keys of what the tenant's job wrote: log, environment, image.
# An approver has approved the remediation of a cause on our side.
APPROVED_STATES: frozenset[TenantState] = frozenset({"repairing", "proved", "closed"})


@dataclass(frozen=True, slots=True)
class TenantCause:
    """A cause in the tenant's words. `ours`: the provider fixes it. `block`: text to paste, if the tenant fixes it."""

    said: CauseWords
    ours: bool
    hosts: tuple[str, ...] = ()
    shows: tuple[str, ...] = ()
    block: str = ""


@dataclass(frozen=True, slots=True)
class TenantView:
    """Everything that a tenant's card shows."""

    incident: str
    stage: TenantStage
    state: TenantState = ""
    causes: tuple[TenantCause, ...] = ()
    avoid: tuple[str, ...] = ()  # Their hosts that a new job should not use.
    questions: tuple[str, ...] = ()  # At most three phrase ids, answerable without knowledge of the hosts.
    unknown_hosts: tuple[str, ...] = ()
    unknown_job: str = ""
    hosts: tuple[str, ...] = ()  # Their hosts in question.
    silent: tuple[str, ...] = ()  # Their unobserved hosts.
    language: str = "en"
    withdrawn: bool = False
    reminded: bool = False  # Questions were asked and repeated.
    unanswered: bool = False  # Handed to people because the tenant did not answer.
    clear: tuple[str, ...] = ()  # Their hosts asked about, fully checked and without a finding.
    unseen: bool = False  # Nothing was checked: they asked only for a person.
    unread: tuple[str, ...] = ()  # Attached files of their last item that were not read.


def get_no_slot_values(label: str, hosts: Sequence[str]) -> Mapping[str, str]:
    return {}


@dataclass(frozen=True, slots=True)
class TenantViewContext:
    """The reader of a view: the tenant's hosts, words, language, block values."""

    own: Collection[str]
    words: CustomerWords
    language: str = "en"
    known: SlotValueLookup = get_no_slot_values
    others: Collection[str] = ()  # Hosts of others; findings there are not shown.
    names: Mapping[str, str] = field(default_factory=dict)  # Host → the tenant's name for it.
    nodes: Collection[str] = ()  # The scheduler's names of the tenant's hosts; default `own`.

    @property
    def machines(self) -> TenantMachines:
        return TenantMachines(self.own, self.nodes or self.own)

    def is_visible_cause(self, row: Hypothesis) -> bool:
        """Return whether the cause shows on the tenant's hosts or on none, and not only in files of unknown owner."""
        cause_hosts = row.hosts or tuple(evidence.host for evidence in row.evidence if evidence.host)
        if cause_hosts and all(host in self.others for host in cause_hosts):
            return False
        return not row.evidence or not all(
            self.machines.is_unowned_file_fact(evidence.host, evidence.check, evidence.source) for evidence in row.evidence
        )

    def is_tenant_evidence(self, found: Evidence) -> bool:
        """Return whether the tenant's job wrote the line, on their host or in a file that they attached."""
        return (
            bool(found.line)
            and found.key.startswith(TENANT_FACT_PREFIXES)
            and self.machines.may_see_fact(found.host, found.check, found.source)
        )

    def get_tenant_host_names(self, hosts: Iterable[str]) -> tuple[str, ...]:
        return tuple(dict.fromkeys(self.names.get(host, host) for host in hosts))

    def replace_host_names(self, line: str) -> str:
        return HOST_NAME_PATTERN.sub(lambda found: self.names.get(found[0], found[0]), line)


def build_tenant_view(
    incident_view: IncidentView, context: TenantViewContext, *, begun: Collection[str] = (), withdrawn: bool = False
) -> TenantView:
    """Build the view of a stored incident. `begun`: approved actions."""
    report, own = incident_view.report, context.own
    host_names = context.get_tenant_host_names(host for host in incident_view.brief.hosts if host in own)
    if report is None:
        return TenantView(incident_view.id, "received", hosts=host_names, language=context.language, withdrawn=withdrawn)
    causes = tuple(
        _build_cause(row, context)
        for row in report.tenant_root_causes
        if row.label in context.words.taxonomy.leaves and context.is_visible_cause(row)
    )[:MAX_CAUSES]
    state = _get_state(incident_view, causes, [row for row in incident_view.remediations if row.target not in context.others], begun)
    if state not in APPROVED_STATES:
        causes = tuple(replace(row, said=replace(row.said, words=remove_promises(row.said.words))) if row.ours else row for row in causes)
    return TenantView(
        incident_view.id,
        _get_stage(incident_view, report, causes, question_ids := list_tenant_question_ids(incident_view, report)),
        state,
        causes,
        avoid=tuple(dict.fromkeys(host for row in causes if row.ours for host in row.hosts)),
        questions=() if causes or _is_handed_over(incident_view) else question_ids,
        unknown_hosts=tuple(row.name for row in report.unknown_hosts),
        unknown_job=report.unknown_job,
        hosts=host_names,
        silent=context.get_tenant_host_names(
            row.host for row in report.could_not_look if row.host in own and row.check == ALL_CHECKS_FAILED
        ),
        language=context.language,
        withdrawn=withdrawn,
        reminded=incident_view.tenant_silence.reminded is not None and not incident_view.tenant_silence.handed,
        unanswered=incident_view.tenant_silence.handed is not None,
        clear=context.get_tenant_host_names(host for host in report.about.hosts if host in own)
        if report.about and report.about.found == "nothing"
        else (),
        unseen=_is_handed_over(incident_view) and incident_view.stats.checks == 0 and not report.root_causes,
        unread=_list_unread_files(incident_view, report),
    )


def _list_unread_files(incident_view: IncidentView, report: Report) -> tuple[str, ...]:
    """Only files attached to the item that the report answers; operators' files are internal."""
    if not incident_view.stored.get("item") or incident_view.item.data.get(SIDE_KEY) != TENANT_SIDE or report.item != incident_view.item.id:
        return ()
    own = {attachment.name[:MAX_NAME_CHARS] for attachment in incident_view.item.attachments}
    return tuple(dict.fromkeys(row.name for row in report.files if row.unread and row.name in own))


def _get_stage(incident_view: IncidentView, report: Report, causes: Sequence[TenantCause], asks: Sequence[str]) -> TenantStage:
    if causes:
        responsibilities = {row.ours for row in causes}
        return "both" if len(responsibilities) > 1 else "ours" if responsibilities == {True} else "yours"
    if asks and not _is_handed_over(incident_view):
        return "asked"
    if report.outcome == "no_fault":
        return "healthy"
    return "people"


def _get_state(
    incident_view: IncidentView, causes: Sequence[TenantCause], remediations: Sequence[Remediation], begun: Collection[str]
) -> TenantState:
    """Return the status of our side. `ladders`: remediations of the tenant's own hosts."""
    ticket = incident_view.ticket
    if not (any(row.ours for row in causes) or remediations or _is_handed_over(incident_view)):
        return ""
    if incident_view.lifecycle == "closed":
        return "closed"
    if incident_view.lifecycle == "watching" and (remediations or not incident_view.remediations):
        return "proved"
    if any(_is_under_way(row, begun) for row in remediations):
        return "repairing"
    if ticket is not None and ticket.state == "waiting":
        return "waiting"
    return "taken" if (ticket is not None and ticket.state == "taken") or incident_view.owner else "received"


def _is_handed_over(incident_view: IncidentView) -> bool:
    return incident_view.ticket is not None and incident_view.ticket.handed


def _is_under_way(remediation: Remediation, begun: Collection[str]) -> bool:
    return remediation.is_open and (
        remediation.drained or remediation.rung > 0 or remediation.approval in begun or remediation.waiting_for in ("node_back", "proof")
    )


def _build_cause(row: Hypothesis, context: TenantViewContext) -> TenantCause:
    leaf, cause_words = context.words.taxonomy.get_leaf(row.label), context.words.get_cause_words(row.label, context.language)
    hosts = tuple(host for host in row.hosts if host in context.own)
    host_names = context.get_tenant_host_names(hosts)
    if leaf.owner != "customer":
        return TenantCause(cause_words, True, host_names)
    lines = tuple(
        dict.fromkeys(context.replace_host_names(evidence.line) for evidence in row.evidence if context.is_tenant_evidence(evidence))
    )[:MAX_EVIDENCE_LINES]
    return TenantCause(
        cause_words, False, host_names, lines, cause_words.fix.choose_block(context.known(row.label, hosts)) if cause_words.fix else ""
    )


# Fill driver versions into the blocks that a tenant pastes.

DRIVER_VERSION_KEY = "driver.version"
CUDA_VERSION_KEY = "driver.cuda_version"


def add_driver_versions(known: SlotValueLookup, facts: Iterable[Fact], own: Collection[str]) -> SlotValueLookup:
    """Add the oldest version on the cause's hosts (else on all `own`): what runs on that runs everywhere."""
    read = [
        fact
        for fact in facts
        if fact.key in (DRIVER_VERSION_KEY, CUDA_VERSION_KEY) and fact.status is Status.OK and not fact.stale and fact.host in own
    ]

    def filled(label: str, hosts: Sequence[str]) -> Mapping[str, str]:
        slots = {
            slot: min(values, key=_parse_version)
            for slot, key in (("driver", DRIVER_VERSION_KEY), ("cuda", CUDA_VERSION_KEY))
            if (
                values := [
                    str(fact.value) for fact in read if fact.key == key and fact.host in (hosts or own) and _parse_version(str(fact.value))
                ]
            )
        }
        return {**slots, **known(label, hosts)}

    return filled


def _parse_version(version: str) -> tuple[int, ...]:
    """Return an empty tuple for anything but a plain version."""
    parts = version.split(".")
    return tuple(map(int, parts)) if all(part.isascii() and part.isdigit() and len(part) < 8 for part in parts) else ()


# Build the reader of a tenant's view from the inventory.


def build_tenant_view_context(
    inventory: Inventory, words: CustomerWords, origin: Origin, language: str, known: SlotValueLookup, facts: Iterable[Fact]
) -> TenantViewContext:
    """Return the incident's tenant as a reader: own hosts by own names, all others hidden."""
    own = frozenset(list_visible_hosts(inventory, origin))
    names = {host: inventory.hosts[host].name_for_tenant for host in own}
    nodes = build_tenant_machines(inventory, own).nodes
    return TenantViewContext(own, words, language, add_driver_versions(known, facts, own), frozenset(inventory.workers) - own, names, nodes)
