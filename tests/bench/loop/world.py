"""A case as a live world: cluster, Slack and any number of bots in one process on one virtual clock.

The product's composition root assembles the bots. They use Slack over HTTP and websocket and machines over the
transport; nothing here calls their ledger, dispatcher or driver. Marks are read from the same store.
"""

import asyncio
import contextlib
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from fakeredis import FakeAsyncRedis, FakeServer
from fakeredis.aioredis import FakeAsyncRedisConnection

from bot.app.bot import run_bot
from bot.app.diagnosis_runtime import DiagnosisRuntime, DiagnosisServices
from bot.incidents.dispatch.inbox import Inbox
from bot.settings import Settings, load_settings
from bot.store.ledger_signing_keys import load_ledger_key
from bot.store.store import Store
from deploy.sandbox.cluster.access.case_run import CONTROLLER
from deploy.sandbox.cluster.access.cluster import Cluster
from deploy.sandbox.cluster.access.toolbox import Toolbox
from deploy.sandbox.cluster.cases.case import SimulatedCase
from deploy.sandbox.cluster.grammar import get_kit_words
from deploy.sandbox.demo import CHANNELS, MANIFEST
from deploy.sandbox.slack import SlackSandbox
from deploy.sandbox.slack.workspace.people import HOME_TEAM
from graph.checkpoints.checkpoint import RedisSaver
from graph.incident.incident_graph import IncidentTurns
from graph.model.reasoner import Reasoner
from graph.state import IncidentState
from kb.history.index import PastIncidentIndex
from kb.history.lessons import Lesson
from kb.history.mistakes import MistakeNotes
from kb.history.site_pages import SitePage
from tests.bench.arms.arm import Knowledge
from tests.bench.loop.virtual_time import Leaping, LoopClock
from tests.bench.run.setup import without, world_seed
from tools.evidence import EvidenceStore, MemoryEvidence
from tools.fleet.fleet import Fleet
from tools.inventory.inventory import Inventory, parse_inventory
from tools.inventory.job_lookup import SlurmJobFinder
from tools.ledger.reader import LedgerReader
from tools.transport import CommandResult, Unreachable

CHANNEL = str(CHANNELS[0]["channel"])
REPORTER = "U0OLGA"
KIT_SECONDS = 0.5  # duration of a node kit call beside its tools'


# host, command and output → replaced output, for tenants who write into what is read
Alter = Callable[[str, Sequence[str], bytes], bytes]


def as_it_is(host: str, argv: Sequence[str], printed: bytes) -> bytes:
    """Return the output unchanged."""
    return printed


@dataclass(frozen=True, slots=True)
class StandIns:
    """Replacements for a play's usual parts."""

    alter: Alter = as_it_is
    model: Reasoner | None = None
    evidence: EvidenceStore = field(default_factory=MemoryEvidence)
    name: str = ""  # the reporter's Slack name
    connection: type[FakeAsyncRedisConnection] = FakeAsyncRedisConnection  # connection class for Redis
    pages: Sequence[SitePage] = ()
    lessons: Sequence[Lesson] = ()  # accepted lessons, for notes on wrong blame; recalled ones are past incidents
    tenants: Mapping[str, Any] = field(default_factory=dict)  # `groups` and `channels` of tenants, added to the inventory


class Reach:
    """A live cluster's transport: an answer takes its command's time."""

    clock = "virtual"

    def __init__(self, cluster: Cluster, toolbox: Toolbox, alter: Alter = as_it_is) -> None:
        self._cluster, self._toolbox, self._alter = cluster, toolbox, alter

    async def run(self, host: str, argv: Sequence[str], *, timeout: float, cap: int) -> CommandResult:
        if not self._cluster.reachable(host):
            raise Unreachable(host, "no route to host" if host in self._cluster.machines else "not in the inventory")
        if words := get_kit_words(argv):
            return await self._kit(host, words, timeout)
        answer = self._cluster.answer(host, argv)
        late = answer.hangs or answer.seconds > timeout
        seconds = timeout if late else answer.seconds
        await asyncio.sleep(seconds)
        if late:
            return CommandResult(b"", b"", 124, seconds, timed_out=True)
        stdout = self._alter(host, argv, answer.stdout)
        status = 0 if stdout and not answer.stdout else answer.status
        return CommandResult(stdout[:cap], answer.stderr, status, seconds, truncated=len(stdout) > cap)

    async def aclose(self) -> None:
        """Do nothing: the toolbox's owner closes it."""

    async def _kit(self, host: str, words: tuple[str, ...], timeout: float) -> CommandResult:
        """Run a node kit script as a real process; empty if the machine went down meanwhile."""
        loop = asyncio.get_running_loop()
        assert isinstance(loop, Leaping)
        with loop.outside():
            answer = await self._toolbox.run(host, words, timeout)
        await asyncio.sleep(KIT_SECONDS)
        if not self._cluster.reachable(host):
            return CommandResult(b"", b"", None, KIT_SECONDS)
        return CommandResult(answer.stdout, answer.stderr, answer.status, KIT_SECONDS)


@dataclass(frozen=True, slots=True)
class Room:
    """One case's world during its play."""

    case: SimulatedCase
    clock: LoopClock
    cluster: Cluster
    slack: SlackSandbox
    inbox: Inbox
    book: LedgerReader
    turns: IncidentTurns
    twin: Cluster  # the same cluster at the same time without the bot
    redis: FakeAsyncRedis

    async def incident(self, ts: str) -> str:
        """Return the thread's incident, or ""."""
        return await self.inbox.find_incident(HOME_TEAM, CHANNEL, ts) or ""

    async def state(self, incident: str) -> IncidentState:
        return await self.turns.load_state(incident)


@contextlib.asynccontextmanager
async def room(
    case: SimulatedCase, knowledge: Knowledge, *, attempt: int = 0, bots: int = 1, stand_ins: StandIns | None = None
) -> AsyncIterator[Room]:
    """Start everything in order and stop it in reverse. Needs a `Leaping` loop."""
    clock, instead = LoopClock(case.t0), stand_ins or StandIns()
    seed, redis = world_seed(case, attempt), FakeServer()
    cluster, twin = (Cluster.from_case(case, seed, controller=CONTROLLER, pace=1.0, clock=clock.now) for _ in range(2))
    async with (
        Toolbox(cluster) as toolbox,
        SlackSandbox(manifest=_manifest(), clock=clock.stamp) as slack,
        contextlib.AsyncExitStack() as stack,
    ):
        reach, inventory = Reach(cluster, toolbox, instead.alter), _inventory(case, cluster, instead.tenants)
        if instead.name:
            reporter = slack.workspace.user(REPORTER)
            reporter.name = reporter.real_name = instead.name
        with tempfile.TemporaryDirectory(prefix="rackmedic-loop-") as folder:
            settings = _settings(slack, Path(folder), customers=bool(instead.tenants))
            for _ in range(bots):
                store = Store(FakeAsyncRedis(server=redis, connection_class=instead.connection), "memory", None)
                stack.push_async_callback(store.aclose)
                world = DiagnosisRuntime(settings, _services(reach, inventory, knowledge, instead, clock), reach)
                await stack.enter_async_context(run_bot(settings, store, world))
            await slack.connected(bots, timeout=60)
            beside = FakeAsyncRedis(server=redis)
            stack.push_async_callback(beside.aclose)
            book = LedgerReader(beside, load_ledger_key(settings), clock)
            turns = IncidentTurns(RedisSaver(beside), world.services.build_graph_context())
            yield Room(case, clock, cluster, slack, Inbox(beside, clock), book, turns, twin, beside)
            await stack.aclose()


def _settings(slack: SlackSandbox, folder: Path, *, customers: bool) -> Settings:
    return load_settings(
        environ={
            "RACKMEDIC_SLACK_BOT_TOKEN": slack.bot_token,
            "RACKMEDIC_SLACK_APP_TOKEN": slack.app_token,
            "RACKMEDIC_SLACK_API_URL": slack.api_url,
            "RACKMEDIC_DATA_DIR": str(folder),
            "RACKMEDIC_ALLOW_NON_DURABLE_LEDGER": "true",
            "RACKMEDIC_CUSTOMERS": str(customers).lower(),
        }
    )


def _inventory(case: SimulatedCase, cluster: Cluster, tenants: Mapping[str, Any]) -> Inventory:
    """Return the inventory, all hosts on 127.0.0.1: only then may remedies run with an in-memory store."""
    job = {"hosts": ",".join(case.nodes), "sku": cluster.profile, "controller": cluster.controller}
    groups = {"demo": job, "control": {"hosts": cluster.controller}, **tenants.get("groups", {})}
    hosts = {name: {"address": "127.0.0.1"} for name in cluster.machines}
    channels = [*CHANNELS, *tenants.get("channels", ())]
    return parse_inventory({"defaults": {"kit": True}, "groups": groups, "hosts": hosts, "channels": channels}, case.id)


def _services(reach: Reach, inventory: Inventory, knowledge: Knowledge, instead: StandIns, clock: LoopClock) -> DiagnosisServices:
    """Return the diagnosis half as `bot.app.diagnosis_runtime.open_diagnosis_runtime` builds it; constant parts are
    shared by a process's cases.
    """
    return DiagnosisServices(
        fleet=Fleet(reach, inventory, knowledge.checks, instead.evidence, clock, knowledge.skus),
        inventory=inventory,
        taxonomy=knowledge.taxonomy,
        history=_history(knowledge.removed) if knowledge.past == without(knowledge.removed).past else PastIncidentIndex(knowledge.past),
        evidence=instead.evidence,
        clock=clock,
        model=instead.model,
        pages=instead.pages,
        mistakes=MistakeNotes(tuple(instead.lessons)).list_notes,
        skus=knowledge.skus,
        job_place=SlurmJobFinder(reach, inventory).find_job_hosts,
    )


@cache
def _history(removed: frozenset[str]) -> PastIncidentIndex:
    return PastIncidentIndex(without(removed).past)


@cache
def _manifest() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(MANIFEST.read_text())
    return found
