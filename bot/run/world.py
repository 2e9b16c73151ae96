"""The composition root: builds everything once from Settings and wires it. Nothing else constructs a part of the product."""

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from bot.policy.file import SitePolicy
from bot.refusal import Refusal
from bot.run.reader import ReaderApart
from bot.run.site import site_checks, site_guides, site_incidents, site_pages, site_policy, site_skus, site_taxonomy
from bot.settings import PREFIX, Settings
from graph.ports import Ports, Waits
from kb.history.index import History
from kb.history.mistakes import MistakeBook
from kb.taxonomy.labels import Taxonomy
from tools.apart import Apart
from tools.clock import Clock
from tools.evidence import DirectoryEvidence, EvidenceStore, MemoryEvidence
from tools.fleet.fleet import Fleet, LookLimits
from tools.fleet.holds import Holds
from tools.inventory.hosts import BadInventory, Inventory, parse_inventory
from tools.inventory.jobs import SlurmJobs
from tools.inventory.sources.open import open_inventory
from tools.ssh.later import LateSsh
from tools.transport import Transport

if TYPE_CHECKING:
    from graph.model.budget import SpendBook
    from graph.model.client import Model
    from kb.history.vectors import Embedder
    from tools.ssh.client import Ssh


class WallClock:
    """UTC by this machine."""

    def now(self) -> datetime:
        return datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class World:
    """Everything a diagnosis needs, whoever asks for it."""

    settings: Settings
    ports: Ports
    transport: Transport
    policy: SitePolicy = field(default_factory=SitePolicy)
    history: History = field(default_factory=History)
    """Past incidents, to which accepted lessons are added."""
    mistakes: MistakeBook = field(default_factory=MistakeBook)
    """What accepted lessons say was blamed wrongly."""


@contextlib.asynccontextmanager
async def open_world(
    settings: Settings,
    *,
    transport: Transport | None = None,
    inventory: Inventory | None = None,
    clock: Clock | None = None,
    lasting: bool = False,
    front: bool = False,
    book: "SpendBook | None" = None,
    holds: Holds | None = None,
) -> AsyncIterator[World]:
    """Build the reading half; close its connections afterwards. `lasting` is for a process that stays: evidence is kept in the data
    folder. A `front` end recalls nothing and seldom asks a host. `book` keeps what a model cost, `holds` which hosts are held for a check
    that needs their GPUs.

    Raises Refusal.
    """
    fleet_rows = inventory or await site_inventory(settings)
    clock = clock or WallClock()
    policy, skus = site_policy(settings, fleet_rows), site_skus(settings.kb_dir)
    apart = Apart()
    evidence: EvidenceStore = DirectoryEvidence(settings.evidence_dir, apart=apart) if lasting else MemoryEvidence()
    reach, looks = (transport, transport) if transport else _reach(settings, fleet_rows, front)
    taxonomy = site_taxonomy(settings.kb_dir)
    erred = MistakeBook()
    model, history, jobs = model_of(settings, book), _history(settings, taxonomy), SlurmJobs(reach, fleet_rows)
    ports = Ports(
        fleet=Fleet(
            *(reach, fleet_rows, site_checks(settings), evidence, clock, skus),
            holds=holds,
            lanes=settings.ssh_sessions,
            looks=looks,
            limits=LookLimits(settings.look_seconds, settings.silent_seconds),
        ),
        inventory=fleet_rows,
        taxonomy=taxonomy,
        history=history,
        evidence=evidence,
        clock=clock,
        model=model,
        pages=site_pages(settings.kb_dir, taxonomy),
        guides=site_guides(settings),
        mistakes=erred.notes,
        skus=skus,
        reader=ReaderApart(apart, settings.kb_dir, tuple(settings.check_programs)) if lasting else None,
        job_place=jobs.place,
        own_job=jobs.place,
        waits=Waits(
            reproof=timedelta(hours=settings.reproof_hours),
            counters=timedelta(seconds=settings.recheck_counters_seconds if lasting else 0),
            look_again=timedelta(seconds=settings.look_again_seconds if lasting else 0),
        ),
    )
    if lasting and not front and settings.qdrant_url:
        await history.start()
    try:
        yield World(settings, ports, reach, policy, history, erred)
    finally:
        if looks is not reach:
            await looks.aclose()
        await reach.aclose()
        await history.close()
        if model is not None:
            await model.aclose()


async def site_inventory(settings: Settings) -> Inventory:
    """The fleet as settings name it, sources asked. Raises Refusal."""
    if settings.inventory is None:
        return parse_inventory({"groups": {}})
    try:
        return await open_inventory(settings.inventory, _ssh)
    except BadInventory as why:
        raise Refusal("\n".join([f"{PREFIX}INVENTORY: {why.source} cannot be used:", *why.problems]), 2) from why


def _ssh(inventory: Inventory, settings: Settings | None = None) -> "Ssh":
    from tools.ssh.client import Limits, Ssh

    limits = Limits(settings.ssh_sessions, per_bastion=settings.ssh_per_bastion) if settings else None
    return Ssh(inventory, limits)


def _reach(settings: Settings, inventory: Inventory, front: bool) -> tuple[Transport, Transport]:
    """How hosts are reached, and how they are looked at. A process that looks has its library before the first host is to be looked at."""
    if front:
        late = LateSsh(lambda: _ssh(inventory, settings))
        return late, late
    from tools.ssh.looks import SshLooks

    ssh = _ssh(inventory, settings)
    return ssh, SshLooks(ssh)


def _history(settings: Settings, taxonomy: Taxonomy) -> History:
    return History(site_incidents(settings.kb_dir, taxonomy), url=settings.qdrant_url, embedder=_embedder(settings))


def _embedder(settings: Settings) -> "Embedder | None":
    if not settings.embeddings_url:
        return None
    from graph.model.embeddings import Embeddings

    key = settings.embeddings_key.get_secret_value()
    return Embeddings(settings.embeddings_url, key, settings.embeddings_model)


def model_of(settings: Settings, book: "SpendBook | None") -> "Model | None":
    """The model client, or None: then the engine decides alone and every report says so."""
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
