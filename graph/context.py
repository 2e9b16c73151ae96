"""The services that graph nodes use, passed in by the composition root. Nodes hold no globals and read no environment."""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Protocol

from graph.closed_incidents import ClosedIncidentMatches, ClosedIncidentQuery
from graph.engine.peer_differences import HostBaseline
from graph.engine.stale_facts import ProvenRemedyRun
from graph.state import InboxItem
from tools.clock import Clock
from tools.inventory.job_lookup import JobFilter, JobHosts

if TYPE_CHECKING:
    from graph.extraction.uploaded_text import TextReader
    from graph.model.reasoner import Reasoner
    from kb.guides.guide import Guide
    from kb.history.mistakes import MistakeNote
    from kb.history.site_pages import SitePage
    from kb.taxonomy.taxonomy import Taxonomy
    from tools.evidence import EvidenceStore
    from tools.fleet.fleet import Fleet
    from tools.inventory.inventory import Inventory
    from tools.inventory.sku import Sku


@dataclass(frozen=True, slots=True)
class PendingHosts:
    """Hosts without an answer yet, as a folded range, and the check they were asked for."""

    hosts: str
    asked: str


@dataclass(frozen=True, slots=True)
class LikelyDiagnosis:
    """The likeliest cause while evidence is pending: its label, and in words with its place."""

    label: str
    says: str


@dataclass(frozen=True, slots=True)
class Progress:
    """A progress update for the incident card, cheap and frequent.

    `stage` is a node's name, `line` one sentence for people, `seconds` how long the `awaited` hosts have been pending.
    `likely` is for display only: the turn's conclusion counts.
    """

    incident: str
    stage: str
    line: str = ""
    done: int = 0
    total: int = 0
    hypotheses: tuple[str, ...] = ()
    # Host and check that just answered, where the host was really asked (no cached answer).
    ran: tuple[str, str] | None = None
    awaited: tuple[PendingHosts, ...] = ()
    seconds: int = 0
    likely: LikelyDiagnosis | None = None


class SimilarIncident(Protocol):
    """A similar past incident with its title, label and similarity (0 to 1). For a lesson of this site: its id, its
    incident and the date; empty for built-in ones.
    """

    @property
    def label(self) -> str: ...

    @property
    def lesson(self) -> str: ...

    @property
    def learnt(self) -> str: ...

    @property
    def on(self) -> str: ...

    @property
    def title(self) -> str: ...

    @property
    def score(self) -> float: ...


class PastIncidentIndex(Protocol):
    """Past incidents that may serve `tenant` (None: the operators), most similar first
    (`kb.history.index.PastIncidentIndex`).
    """

    async def find_similar(self, text: str, k: int = 2, tenant: str | None = None) -> Sequence[SimilarIncident]: ...


async def discard_progress(progress: Progress) -> None:
    """Drop the update: no card shows it (terminal, bench)."""


async def peek_empty_inbox(incident: str) -> Sequence[InboxItem]:
    """Return none (terminal, bench)."""
    return ()


async def find_no_deferred_remediations(incident: str) -> frozenset[str]:
    """Return none (terminal, bench)."""
    return frozenset()


async def find_no_job_hosts(job: str) -> JobHosts:
    """Return that no scheduler can be asked."""
    return JobHosts(why="nobody")


async def find_no_closed_incidents(query: ClosedIncidentQuery) -> ClosedIncidentMatches:
    """Return that none are kept here (terminal, bench)."""
    return ClosedIncidentMatches(could_not="closed incidents are stored where I run in Slack, not here")


async def find_no_repairs(hosts: Collection[str]) -> Sequence[ProvenRemedyRun]:
    """Return none (terminal, bench)."""
    return ()


async def load_no_baselines(hosts: Collection[str]) -> Mapping[str, HostBaseline]:
    """Return none (terminal, bench)."""
    return {}


async def discard_baselines(baselines: Mapping[str, HostBaseline]) -> None:
    """Drop the baselines (terminal, bench)."""


def list_no_mistakes(reader: str | None) -> "Sequence[MistakeNote]":
    """Return none (terminal, bench)."""
    return ()


async def find_no_other_owners(incident: str, causes: Sequence[str]) -> Mapping[str, str]:
    """Return none (terminal, bench)."""
    return {}


@dataclass(frozen=True, slots=True)
class ApprovalStatus:
    """An action that waits for approval or was approved. `approvers` and `approved_by` are names; `open` while votes still count."""

    approval: str
    does: str
    approvers: tuple[str, ...]
    quorum: int
    approved_by: tuple[str, ...] = ()
    until: datetime | None = None
    open: bool = True
    approved_at: datetime | None = None  # when the last of `approved_by` did


async def find_no_approvals(incident: str) -> Sequence[ApprovalStatus] | None:
    """Return None: nothing can be approved here (terminal, bench)."""
    return None


@dataclass(frozen=True, slots=True)
class OnCallStatus:
    """Who is on call by one source of the site's policy: names, or why it could not be read."""

    source: str
    people: tuple[str, ...] = ()
    could_not: str = ""


async def find_no_on_call() -> Sequence[OnCallStatus]:
    """Return none: no schedule is known (terminal, bench)."""
    return ()


@dataclass(frozen=True, slots=True)
class IncidentTimeouts:
    """How long remediations wait before the incident is woken; set by the site.

    `recheck_after_fix`: from the first proof to the second. `quiet`: from the second proof to the incident's quiet end. `busy`:
    how long a drained node may keep a stuck job before cancelling it is proposed. `idle`: until people are told that a
    node is still not idle. `back`: the same for a host that does not answer. `asks`: how often an undecided action is
    proposed. `counters`: until error counters of an intermittent fault are read again. `look_again`: until hosts are
    checked again where no cause was found. 0 disables the last two (terminal, bench: no timer wakes an incident).
    """

    recheck_after_fix: timedelta = timedelta(hours=2)
    quiet: timedelta = timedelta(hours=1)
    busy: timedelta = timedelta(minutes=10)
    idle: timedelta = timedelta(hours=24)
    back: timedelta = timedelta(hours=1)
    asks: int = 3
    counters: timedelta = timedelta()
    look_again: timedelta = timedelta()


@dataclass(frozen=True, slots=True)
class GraphContext:
    """The outside world as one frozen value; `Runtime[GraphContext].context` in every node."""

    fleet: "Fleet"
    inventory: "Inventory"
    taxonomy: "Taxonomy"
    history: PastIncidentIndex
    evidence: "EvidenceStore"
    clock: Clock
    model: "Reasoner | None" = None
    pages: "Sequence[SitePage]" = ()  # The site's own pages, shown beside the findings.
    # Troubleshooting guides by id, built-in and site-specific.
    guides: "Mapping[str, Guide]" = field(default_factory=dict)
    # Earlier wrong diagnoses that may serve this tenant, or the operators (None).
    mistakes: "Callable[[str | None], Sequence[MistakeNote]]" = field(default=list_no_mistakes)
    skus: "Mapping[str, Sku]" = field(default_factory=dict)
    reader: "TextReader | None" = None  # Reads large texts off the event loop; None reads in place (terminal, bench).
    progress: Callable[[Progress], Awaitable[None]] = field(default=discard_progress)
    peek: Callable[[str], Awaitable[Sequence[InboxItem]]] = field(default=peek_empty_inbox)
    waits: IncidentTimeouts = field(default_factory=IncidentTimeouts)
    # The hosts of a scheduler job by its id, or why there are none (`tools.inventory.job_lookup`).
    job_place: Callable[[str], Awaitable[JobHosts]] = field(default=find_no_job_hosts)
    # As `job_place` for a tenant: a job of another tenant looks like an unknown one. None falls back to `job_place`.
    own_job: Callable[[str, JobFilter], Awaitable[JobHosts]] | None = None
    # Claim causes by name (`graph.remediation.cause_ownership`) and return who owns those that another incident holds.
    # The list is complete: causes that the incident held before and does not list are released.
    keep: Callable[[str, Sequence[str]], Awaitable[Mapping[str, str]]] = field(default=find_no_other_owners)
    # Which of these causes other incidents own, and who. Claims nothing.
    keepers: Callable[[str, Sequence[str]], Awaitable[Mapping[str, str]]] = field(default=find_no_other_owners)
    # Closed incidents on these hosts and devices or with these causes, as far as the asking place may see them.
    earlier: Callable[[ClosedIncidentQuery], Awaitable[ClosedIncidentMatches]] = field(default=find_no_closed_incidents)
    # Proven repairs of any incident on these hosts, so that no other incident diagnoses them again from old log lines.
    treated: Callable[[Collection[str]], Awaitable[Sequence[ProvenRemedyRun]]] = field(default=find_no_repairs)
    # What hosts looked like when an incident last found them healthy.
    remembered: Callable[[Collection[str]], Awaitable[Mapping[str, HostBaseline]]] = field(default=load_no_baselines)
    # Store these baselines for the next incident.
    remember: Callable[[Mapping[str, HostBaseline]], Awaitable[None]] = field(default=discard_baselines)
    # Ids of the incident's deferred remediations: not yet proposed because others go first.
    late: Callable[[str], Awaitable[frozenset[str]]] = field(default=find_no_deferred_remediations)
    # Actions of an incident that wait for approval or were approved; None where nothing can be approved at all.
    decisions: Callable[[str], Awaitable[Sequence[ApprovalStatus] | None]] = field(default=find_no_approvals)
    # Who is on call now, by each source that the policy names.
    on_call: Callable[[], Awaitable[Sequence[OnCallStatus]]] = field(default=find_no_on_call)
    tell_every: float = 3.0  # Seconds without an answer after which people see which hosts are pending.
    # Cache by digest (`graph.incident.context`). A snapshot never changes, so losing the cache costs time only.
    recent: dict[object, object] = field(default_factory=dict, compare=False, repr=False)
