"""Wiring of the diagnosis: every part is built once from Settings."""

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, TypedDict, Unpack

from bot.app.site_files import (
    find_site_folder,
    load_all_checks,
    load_site_guides,
    load_site_incidents,
    load_site_pages,
    load_site_policy,
    load_site_skus,
    load_site_taxonomy,
)
from bot.policy.policy_file import SitePolicy
from bot.refusal import Refusal
from bot.settings import ENV_PREFIX, Settings
from graph.closed_incidents import ClosedIncidentMatches, ClosedIncidentQuery
from graph.context import ApprovalStatus, GraphContext, IncidentTimeouts, OnCallStatus, Progress, find_no_job_hosts, list_no_mistakes
from graph.engine.peer_differences import HostBaseline
from graph.engine.stale_facts import ProvenRemedyRun
from graph.extraction.uploaded_text import IsolatedTextReader
from graph.state import InboxItem
from kb.guides.guide import Guide
from kb.history.index import PastIncidentIndex
from kb.history.mistakes import MistakeNote, MistakeNotes
from kb.history.site_pages import SitePage
from kb.taxonomy.taxonomy import Taxonomy
from tools.clock import Clock
from tools.evidence import DirectoryEvidence, EvidenceStore, MemoryEvidence
from tools.fleet.fleet import CheckLimits, Fleet
from tools.fleet.gpu_permit import GpuReservations
from tools.inventory.inventory import BadInventory, Inventory, parse_inventory
from tools.inventory.job_lookup import JobFilter, JobHosts, SlurmJobFinder
from tools.inventory.sku import Sku
from tools.inventory.sources.loader import open_inventory
from tools.process_pool import ProcessPool
from tools.ssh.lazy import LazySshTransport
from tools.transport import Transport

if TYPE_CHECKING:
    from graph.model.budget import SpendStore
    from graph.model.client import ModelReasoner
    from graph.model.reasoner import Reasoner
    from kb.history.embedder import Embedder
    from tools.ssh.client import SshTransport


class WallClock:
    """UTC from this machine's clock."""

    def now(self) -> datetime:
        return datetime.now(UTC)


class IncidentCallbacks(TypedDict, total=False):
    """The fields of GraphContext that need stored incidents or a place to show progress. A missing one keeps its default."""

    earlier: Callable[[ClosedIncidentQuery], Awaitable[ClosedIncidentMatches]]
    keep: Callable[[str, Sequence[str]], Awaitable[Mapping[str, str]]]
    keepers: Callable[[str, Sequence[str]], Awaitable[Mapping[str, str]]]
    treated: Callable[[Collection[str]], Awaitable[Sequence[ProvenRemedyRun]]]
    remembered: Callable[[Collection[str]], Awaitable[Mapping[str, HostBaseline]]]
    remember: Callable[[Mapping[str, HostBaseline]], Awaitable[None]]
    progress: Callable[[Progress], Awaitable[None]]
    peek: Callable[[str], Awaitable[Sequence[InboxItem]]]
    decisions: Callable[[str], Awaitable[Sequence[ApprovalStatus] | None]]
    on_call: Callable[[], Awaitable[Sequence[OnCallStatus]]]
    late: Callable[[str], Awaitable[frozenset[str]]]


@dataclass(frozen=True, slots=True)
class DiagnosisServices:
    """The fields of GraphContext that need only settings and the site's files."""

    fleet: Fleet
    inventory: Inventory
    taxonomy: Taxonomy
    history: PastIncidentIndex
    evidence: EvidenceStore
    clock: Clock
    model: "Reasoner | None" = None
    pages: Sequence[SitePage] = ()
    guides: Mapping[str, Guide] = field(default_factory=dict)
    mistakes: Callable[[str | None], Sequence[MistakeNote]] = list_no_mistakes
    skus: Mapping[str, Sku] = field(default_factory=dict)
    reader: IsolatedTextReader | None = None
    job_place: Callable[[str], Awaitable[JobHosts]] = find_no_job_hosts
    own_job: Callable[[str, JobFilter], Awaitable[JobHosts]] | None = None
    waits: IncidentTimeouts = field(default_factory=IncidentTimeouts)

    def build_graph_context(self, **callbacks: Unpack[IncidentCallbacks]) -> GraphContext:
        return GraphContext(
            fleet=self.fleet,
            inventory=self.inventory,
            taxonomy=self.taxonomy,
            history=self.history,
            evidence=self.evidence,
            clock=self.clock,
            model=self.model,
            pages=self.pages,
            guides=self.guides,
            mistakes=self.mistakes,
            skus=self.skus,
            reader=self.reader,
            job_place=self.job_place,
            own_job=self.own_job,
            waits=self.waits,
            **callbacks,
        )


@dataclass(frozen=True, slots=True)
class DiagnosisRuntime:
    """Everything a diagnosis needs."""

    settings: Settings
    services: DiagnosisServices
    transport: Transport
    policy: SitePolicy = field(default_factory=SitePolicy)
    history: PastIncidentIndex = field(default_factory=PastIncidentIndex)  # past incidents and accepted lessons
    mistakes: MistakeNotes = field(default_factory=MistakeNotes)  # causes that accepted lessons call wrongly blamed


@contextlib.asynccontextmanager
async def open_diagnosis_runtime(
    settings: Settings,
    *,
    transport: Transport | None = None,
    inventory: Inventory | None = None,
    clock: Clock | None = None,
    lasting: bool = False,
    front: bool = False,
    spend_store: "SpendStore | None" = None,
    reservations: GpuReservations | None = None,
) -> AsyncIterator[DiagnosisRuntime]:
    """Build the diagnosis runtime; close its connections on exit. Raises Refusal if a site's file is wrong.

    Args:
        lasting: the process is long-lived, so evidence is kept in the data folder.
        front: the process is a front end: it builds no past-incident index and opens SSH only when needed.
        spend_store: records what the model costs.
        reservations: records hosts reserved for checks that need their GPUs.
    """
    inventory = inventory or await load_site_inventory(settings)
    clock = clock or WallClock()
    policy = load_site_policy(settings, inventory)
    skus = load_site_skus(settings.kb_dir)
    taxonomy = load_site_taxonomy(settings.kb_dir)
    process_pool = ProcessPool()
    evidence: EvidenceStore = DirectoryEvidence(settings.evidence_dir, apart=process_pool) if lasting else MemoryEvidence()
    ssh, check_ssh = (transport, transport) if transport else _build_transports(settings, inventory, front)
    mistakes = MistakeNotes()
    model = build_model(settings, spend_store)
    history = _build_history(settings, taxonomy)
    jobs = SlurmJobFinder(ssh, inventory)
    reader = IsolatedTextReader(process_pool, partial(find_site_folder, settings.kb_dir), tuple(settings.check_programs))
    services = DiagnosisServices(
        fleet=Fleet(
            *(ssh, inventory, load_all_checks(settings), evidence, clock, skus),
            reservations=reservations,
            lanes=settings.ssh_sessions,
            passive_transport=check_ssh,
            limits=CheckLimits(settings.look_seconds, settings.silent_seconds),
        ),
        inventory=inventory,
        taxonomy=taxonomy,
        history=history,
        evidence=evidence,
        clock=clock,
        model=model,
        pages=load_site_pages(settings.kb_dir, taxonomy),
        guides=load_site_guides(settings),
        mistakes=mistakes.list_notes,
        skus=skus,
        reader=reader if lasting else None,
        job_place=jobs.find_job_hosts,
        own_job=jobs.find_job_hosts,
        waits=IncidentTimeouts(
            recheck_after_fix=timedelta(hours=settings.recheck_after_fix_hours),
            counters=timedelta(seconds=settings.recheck_counters_seconds if lasting else 0),
            look_again=timedelta(seconds=settings.look_again_seconds if lasting else 0),
        ),
    )
    if lasting and not front and settings.qdrant_url:
        await history.build_index()
    try:
        yield DiagnosisRuntime(settings, services, ssh, policy, history, mistakes)
    finally:
        if check_ssh is not ssh:
            await check_ssh.aclose()
        await ssh.aclose()
        await history.close()
        if model is not None:
            await model.aclose()


async def load_site_inventory(settings: Settings) -> Inventory:
    """Return the inventory, reading its sources. Raises Refusal if it cannot be read."""
    if settings.inventory is None:
        return parse_inventory({"groups": {}})
    try:
        return await open_inventory(settings.inventory, _build_ssh)
    except BadInventory as why:
        raise Refusal("\n".join([f"{ENV_PREFIX}INVENTORY: {why.source} cannot be used:", *why.problems]), 2) from why


def _build_ssh(inventory: Inventory, settings: Settings | None = None) -> "SshTransport":
    from tools.ssh.client import SshLimits, SshTransport

    limits = SshLimits(settings.ssh_sessions, per_bastion=settings.ssh_per_bastion) if settings else None
    return SshTransport(inventory, limits)


def _build_transports(settings: Settings, inventory: Inventory, front: bool) -> tuple[Transport, Transport]:
    """Return the transport and a batching one for checks. A front end loads the SSH library only when needed."""
    if front:
        lazy_ssh = LazySshTransport(lambda: _build_ssh(inventory, settings))
        return lazy_ssh, lazy_ssh
    from tools.ssh.batching import BatchingSshTransport

    ssh = _build_ssh(inventory, settings)
    return ssh, BatchingSshTransport(ssh)


def _build_history(settings: Settings, taxonomy: Taxonomy) -> PastIncidentIndex:
    return PastIncidentIndex(load_site_incidents(settings.kb_dir, taxonomy), url=settings.qdrant_url, embedder=_build_embedder(settings))


def _build_embedder(settings: Settings) -> "Embedder | None":
    if not settings.embeddings_url:
        return None
    from graph.model.embeddings import HttpEmbedder

    key = settings.embeddings_key.get_secret_value()
    return HttpEmbedder(settings.embeddings_url, key, settings.embeddings_model)


def build_model(settings: Settings, spend_store: "SpendStore | None") -> "ModelReasoner | None":
    """Return the model client. Return None if no model is configured: the engine then decides alone."""
    if not (settings.model_url or settings.model_api_key.get_secret_value()):
        return None
    from graph.model.budget import Budget
    from graph.model.client import open_model

    budget = Budget(calls=settings.model_calls_per_incident, usd=settings.model_usd_per_incident)
    key = settings.model_api_key.get_secret_value()
    return open_model(
        settings.model_url,
        key,
        settings.model_name,
        seconds=settings.model_seconds,
        budget=budget,
        spend_store=spend_store,
        context=settings.model_context,
        output_tokens=settings.model_output_tokens,
    )
