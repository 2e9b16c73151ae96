"""Wiring of the diagnosis: every part is built once from Settings."""

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import structlog

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
from graph.context import GraphContext, IncidentTimeouts
from graph.extraction.uploaded_text import TextExtraction, extract_text_with_site
from kb.history.index import PastIncidentIndex
from kb.history.lessons import MistakeNotes
from kb.taxonomy.taxonomy import Taxonomy
from tools.clock import Clock
from tools.evidence import DirectoryEvidence, EvidenceStore, MemoryEvidence
from tools.fleet.fleet import CheckLimits, Fleet
from tools.fleet.gpu_permit import GpuReservations
from tools.inventory.inventory import BadInventory, Inventory, parse_inventory
from tools.inventory.job_lookup import SlurmJobFinder
from tools.inventory.sources.loader import open_inventory
from tools.process_pool import ProcessPool, WorkTimeout
from tools.ssh.lazy import LazySshTransport
from tools.transport import Transport

if TYPE_CHECKING:
    from graph.model.budget import SpendStore
    from graph.model.client import ModelReasoner
    from kb.history.index import Embedder
    from tools.ssh.client import SshTransport


# Reads large uploaded texts in a separate process.

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class IsolatedTextReader:
    """Extracts facts with the site's checks (`kb_dir`) and program folders (`programs`)."""

    apart: ProcessPool
    kb_dir: Path | None
    programs: tuple[str, ...] = ()

    async def __call__(self, name: str, sha256: str, text: str, now: datetime) -> TextExtraction | None:
        try:
            checks, rules, filters = (find_site_folder(self.kb_dir, part) for part in ("checks", "rules", "filters"))
            return await self.apart.run(extract_text_with_site, checks, rules, filters, self.programs, name, sha256, text, now)
        except WorkTimeout as why:
            log.warning("handed_in.not_read", name=name, sha256=sha256, why=str(why))
            return None


class WallClock:
    """UTC from this machine's clock."""

    def now(self) -> datetime:
        return datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class DiagnosisRuntime:
    """Everything a diagnosis needs."""

    settings: Settings
    ports: GraphContext
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
    book: "SpendStore | None" = None,
    holds: GpuReservations | None = None,
) -> AsyncIterator[DiagnosisRuntime]:
    """Build the diagnosis runtime; close its connections on exit. Raises Refusal.

    Args:
        lasting: long-lived process: evidence is kept in the data folder.
        front: a front end builds no past-incident index and opens SSH only when needed.
        book: records model spending.
        holds: records hosts reserved for checks that need their GPUs.
    """
    fleet_rows = inventory or await load_site_inventory(settings)
    clock = clock or WallClock()
    policy, skus = load_site_policy(settings, fleet_rows), load_site_skus(settings.kb_dir)
    apart = ProcessPool()
    evidence: EvidenceStore = DirectoryEvidence(settings.evidence_dir, apart=apart) if lasting else MemoryEvidence()
    reach, looks = (transport, transport) if transport else _build_transports(settings, fleet_rows, front)
    taxonomy = load_site_taxonomy(settings.kb_dir)
    erred = MistakeNotes()
    model, history, jobs = build_model(settings, book), _build_history(settings, taxonomy), SlurmJobFinder(reach, fleet_rows)
    ports = GraphContext(
        fleet=Fleet(
            *(reach, fleet_rows, load_all_checks(settings), evidence, clock, skus),
            holds=holds,
            lanes=settings.ssh_sessions,
            looks=looks,
            limits=CheckLimits(settings.look_seconds, settings.silent_seconds),
        ),
        inventory=fleet_rows,
        taxonomy=taxonomy,
        history=history,
        evidence=evidence,
        clock=clock,
        model=model,
        pages=load_site_pages(settings.kb_dir, taxonomy),
        guides=load_site_guides(settings),
        mistakes=erred.list_notes,
        skus=skus,
        reader=IsolatedTextReader(apart, settings.kb_dir, tuple(settings.check_programs)) if lasting else None,
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
        yield DiagnosisRuntime(settings, ports, reach, policy, history, erred)
    finally:
        if looks is not reach:
            await looks.aclose()
        await reach.aclose()
        await history.close()
        if model is not None:
            await model.aclose()


async def load_site_inventory(settings: Settings) -> Inventory:
    """Return the inventory, reading its sources. Raises Refusal."""
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
        late = LazySshTransport(lambda: _build_ssh(inventory, settings))
        return late, late
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


def build_model(settings: Settings, book: "SpendStore | None") -> "ModelReasoner | None":
    """Return the model client, or None: then the engine decides alone."""
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
        book=book,
        context=settings.model_context,
    )
