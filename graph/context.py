"""What the nodes may touch, handed in by the composition root. Nodes hold no globals and read no environment."""

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
    """Hosts that did not answer yet, folded, and what they were asked with."""

    hosts: str
    asked: str


@dataclass(frozen=True, slots=True)
class LikelyDiagnosis:
    """What the evidence says so far, while some is still awaited: `label`, and the same in words with its place."""

    label: str
    says: str


@dataclass(frozen=True, slots=True)
class Progress:
    """News for the living card, cheap and often. `stage` is a node's name; `line` one sentence for people.

    `awaited` for `seconds` by now. `likely` is for display only: what counts is what the turn concludes."""

    incident: str
    stage: str
    line: str = ""
    done: int = 0
    total: int = 0
    hypotheses: tuple[str, ...] = ()
    ran: tuple[str, str] | None = None
    """The host and the check that answered just now, where the host was really asked."""
    awaited: tuple[PendingHosts, ...] = ()
    seconds: int = 0
    likely: LikelyDiagnosis | None = None


class SimilarIncident(Protocol):
    """A past incident that resembles this one: its label, what it was called, and how much alike it is, 0 to 1. Where it is a lesson of this
    site, its id and which incident taught it on which day; empty for what came with us."""

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
    """Past incidents, most alike first (`kb.history.index.PastIncidentIndex`); those that serve this customer, or our own people (None)."""

    async def find_similar(self, text: str, k: int = 2, tenant: str | None = None) -> Sequence[SimilarIncident]: ...


async def discard_progress(progress: Progress) -> None:
    """Nobody watches."""


async def peek_empty_inbox(incident: str) -> Sequence[InboxItem]:
    """An inbox that is always empty (terminal, bench)."""
    return ()


async def find_no_deferred_remediations(incident: str) -> frozenset[str]:
    """No fix waits for others to go first (terminal, bench)."""
    return frozenset()


async def find_no_job_hosts(job: str) -> JobHosts:
    """Nobody knows which hosts a job runs on."""
    return JobHosts(why="nobody")


async def find_no_closed_incidents(sought: ClosedIncidentQuery) -> ClosedIncidentMatches:
    """A place that keeps no incidents (terminal, bench)."""
    return ClosedIncidentMatches(could_not="closed incidents are kept where I run in Slack, and not here")


async def find_no_repairs(hosts: Collection[str]) -> Sequence[ProvenRemedyRun]:
    """No machine is ever changed (terminal, bench)."""
    return ()


async def load_no_baselines(hosts: Collection[str]) -> Mapping[str, HostBaseline]:
    """A place that remembers no host (terminal, bench)."""
    return {}


async def discard_baselines(rows: Mapping[str, HostBaseline]) -> None:
    """The same."""


def list_no_mistakes(reader: str | None) -> "Sequence[MistakeNote]":
    """No diagnosis was ever corrected (terminal, bench)."""
    return ()


async def find_no_other_owners(incident: str, causes: Sequence[str]) -> Mapping[str, str]:
    """There are no other incidents (terminal, bench)."""
    return {}


@dataclass(frozen=True, slots=True)
class ApprovalStatus:
    """An action that people decide on, as they are told of it. `approvers` and `approved_by` are names; `open` while votes still count."""

    approval: str
    does: str
    approvers: tuple[str, ...]
    quorum: int
    approved_by: tuple[str, ...] = ()
    until: datetime | None = None
    open: bool = True


async def find_no_approvals(incident: str) -> Sequence[ApprovalStatus] | None:
    """A place where nothing can be approved (terminal, bench)."""
    return None


@dataclass(frozen=True, slots=True)
class IncidentTimeouts:
    """How long fixes wait before somebody hears of them again; the site's to set.

    `reproof`: from the first proof to the second. `quiet`: from the second to the incident's quiet end.

    `busy`: how long a drained node may go on with a stuck job before its cancelling is proposed; `idle`: before people hear that it is
    still not idle; `back`: the same of a host that does not answer. `asks`: how often an undecided action is put up for decision.

    `counters`: until error counters are read again where trouble comes and goes; `look_again`: until hosts are looked at again where no cause
    was found. 0 where nobody would wake the incident (terminal, bench).
    """

    reproof: timedelta = timedelta(hours=2)
    quiet: timedelta = timedelta(hours=1)
    busy: timedelta = timedelta(minutes=10)
    idle: timedelta = timedelta(hours=24)
    back: timedelta = timedelta(hours=1)
    asks: int = 3
    counters: timedelta = timedelta()
    look_again: timedelta = timedelta()


@dataclass(frozen=True, slots=True)
class GraphContext:
    """The outside world as one frozen value; `Runtime[Ports].context` in every node."""

    fleet: "Fleet"
    inventory: "Inventory"
    taxonomy: "Taxonomy"
    history: PastIncidentIndex
    evidence: "EvidenceStore"
    clock: Clock
    model: "Reasoner | None" = None
    pages: "Sequence[SitePage]" = ()
    """The site's own pages, shown beside what was found."""
    guides: "Mapping[str, Guide]" = field(default_factory=dict)
    """Troubleshooting guides by id, ours and the site's own."""
    mistakes: "Callable[[str | None], Sequence[MistakeNote]]" = field(default=list_no_mistakes)
    """What was blamed wrongly before, as far as this customer, or our own people (None), may be served by it."""
    skus: "Mapping[str, Sku]" = field(default_factory=dict)
    reader: "TextReader | None" = None
    """Reads large texts without holding up the loop; None where nobody else waits for it (terminal, bench)."""
    progress: Callable[[Progress], Awaitable[None]] = field(default=discard_progress)
    peek: Callable[[str], Awaitable[Sequence[InboxItem]]] = field(default=peek_empty_inbox)
    waits: IncidentTimeouts = field(default_factory=IncidentTimeouts)
    job_place: Callable[[str], Awaitable[JobHosts]] = field(default=find_no_job_hosts)
    own_job: Callable[[str, JobFilter], Awaitable[JobHosts]] | None = None
    """The same for a customer: a job of somebody else's is looked for as one that nobody knows; without it `job_place` is asked."""
    """The hosts of a scheduler's job, by its id, or why there are none (`tools.inventory.job_lookup`)."""
    keep: Callable[[str, Sequence[str]], Awaitable[Mapping[str, str]]] = field(default=find_no_other_owners)
    """These causes, by their names (`graph.remediation.cause_ownership`), are all that an incident has found: it keeps those that no other one keeps, and
    hears here who keeps the others. What it had before and has no more is the others'."""
    keepers: Callable[[str, Sequence[str]], Awaitable[Mapping[str, str]]] = field(default=find_no_other_owners)
    """Which of these causes other incidents keep, and who. Nothing is kept by asking."""
    earlier: Callable[[ClosedIncidentQuery], Awaitable[ClosedIncidentMatches]] = field(default=find_no_closed_incidents)
    """Closed incidents on these hosts and devices or with these causes, as far as the place that asks may hear of them."""
    treated: Callable[[Collection[str]], Awaitable[Sequence[ProvenRemedyRun]]] = field(default=find_no_repairs)
    """What any incident has mended on these hosts, so that no other one finds it again in their logs."""
    remembered: Callable[[Collection[str]], Awaitable[Mapping[str, HostBaseline]]] = field(default=load_no_baselines)
    """What hosts looked like when an incident last found them well."""
    remember: Callable[[Mapping[str, HostBaseline]], Awaitable[None]] = field(default=discard_baselines)
    """Keep that for the next incident."""
    late: Callable[[str], Awaitable[frozenset[str]]] = field(default=find_no_deferred_remediations)
    """The ids of an incident's ladders that nobody is asked about yet, for others go first."""
    decisions: Callable[[str], Awaitable[Sequence[ApprovalStatus] | None]] = field(default=find_no_approvals)
    """What is up for decision in an incident; None where nothing can be approved at all."""
    tell_every: float = 3.0
    """Seconds of a look without an answer, after which people hear who is waited for."""
    recent: dict[object, object] = field(default_factory=dict, compare=False, repr=False)
    """What was read and reckoned last, by digest (`graph.incident.context`): a snapshot never changes. Losing it costs time only."""
