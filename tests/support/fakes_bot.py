"""The bot's Slack side on the Slack sandbox: real Bolt, Socket Mode and inbox on fakeredis; the rest is recorded."""

from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, cast

from fakeredis import FakeAsyncRedis, FakeServer
from redis.asyncio import Redis
from slack_sdk.web.async_client import AsyncWebClient

from bot.app.slack_handlers import build_slack_registry
from bot.incidents.cards import close_form
from bot.incidents.context import HandlerContext
from bot.incidents.dispatch.inbox import Inbox
from bot.incidents.dispatch.metrics_store import IncidentMetricsStore
from bot.incidents.dispatch.thread_activity import ThreadActivity
from bot.incidents.handlers.commands import answer_direct_message
from bot.incidents.handlers.services import (
    AlertBatchSubmitter,
    HomeServices,
    IncidentFormServices,
    MessageServices,
    OpenWorkServices,
    ReportWriter,
)
from bot.incidents.publishing.answer_dispatcher import build_direct_messages, build_outbox, run_direct_answers, run_outbox
from bot.incidents.publishing.reactions import StatusReactions
from bot.incidents.publishing.status_messages import StatusMessages
from bot.lessons.handlers import LessonCards, LessonHandlers
from bot.lessons.store import LessonStore
from bot.policy import channels as policy
from bot.provider.handlers import ProviderHandlers
from bot.reports.incident_sources import TenantReportContext
from bot.reports.page_formats import PageFormat
from bot.slack.client import build_slack_client
from bot.slack.manifest import build_manifest
from bot.slack.people import People
from bot.slack.posted_messages import EditableMessages, OriginLookup, PendingMessages, PostedCards
from bot.slack.registry import SlackRegistry
from bot.slack.socket_mode import run_socket_mode
from bot.store.channel_sharing import ChannelSharingCache
from bot.store.quota_waiting_list import QuotaWaitingList
from bot.tasks import BackgroundTasks
from bot.tenants.cards.view import TenantView
from bot.tenants.handlers import TenantHandlers
from bot.tenants.tenant_cards import ClosedIncidentSearch, TenantCards
from bot.tenants.tenant_updates import TenantUpdateHandlers
from bot.trackers.handlers import TrackerHandlers
from deploy.sandbox.slack import SlackSandbox
from deploy.sandbox.slack.app.socket_mode import DeliveryTimeouts
from graph.context import Progress, find_no_closed_incidents
from graph.dialogue.said import Vocabulary
from graph.state import InboxItem, IncidentState, Origin
from kb.customers.cause_words import CustomerWords
from tests.support.clock import WallClock
from tools.checks import CHECKS
from tools.clock import Clock
from tools.fact import Fact
from tools.inventory.inventory import ChannelRow, Inventory
from tools.ledger.record import ActionRecord
from tools.remedies import REMEDIES

OPS, ACME, RANDOM, TEAM = "C0GPUINC", "C0CUSTACME", "C0RANDOM", "T0RACK"
HOSTS = tuple(f"gpu-{n:03}" for n in range(1, 41))
BOUND = policy.build_channel_bindings(
    (ChannelRow(channel=OPS, approvers="S0GPUAPPR"), ChannelRow(channel=ACME, kind="tenant", tenant="acme", internal=OPS))
)
VOCABULARY = Vocabulary(hosts=HOSTS, checks=tuple(CHECKS), remedies={name: name.replace("_", " ") for name in REMEDIES})
OFFERED = close_form.build_label_choices([("GPU.BUS.Fell_Off", "GPU fell off the bus"), ("SYSTEM_SOFTWARE.DRIVER.Old", "Driver too old")])


@dataclass
class Features:
    """Handlers that a test gives the Slack side. Without, a feature is switched off, or on with nothing stored."""

    tenants: TenantHandlers | None = None
    provider: ProviderHandlers | None = None
    trackers: TrackerHandlers | None = None
    lessons: LessonHandlers | None = None
    tenant_updates: TenantUpdateHandlers | None = None


class ReportRecorder:
    """Notes which reports were requested."""

    def __init__(self) -> None:
        self.begun: list[str] = []

    def begin_report(self, incident: str, place: Origin, form: PageFormat = "pdf") -> None:
        self.begun.append(incident)

    def begin_tenant_report(self, incident: str, place: Origin, customer: TenantReportContext, *, withdrawn: bool) -> None:
        self.begun.append(incident)


@dataclass
class Parts:
    """What a test gives the incidents' handlers in place of the defaults."""

    thread_activity: ThreadActivity | None = None
    hosts_of: Callable[[Origin], Collection[str]] = lambda _: HOSTS
    vocabulary_of: Callable[[Origin], Vocabulary] = lambda _: VOCABULARY
    report_writer: ReportWriter = field(default_factory=ReportRecorder)
    host_groups: Mapping[str, Collection[str]] = field(default_factory=dict)
    submit_alert_batch: AlertBatchSubmitter | None = None


PartsBuilder = Callable[[HandlerContext, FakeAsyncRedis], Parts]
FeatureBuilder = Callable[[MessageServices, FakeAsyncRedis], Features]


@dataclass
class Behind:
    """The Slack side's effects: inbox items, wake-ups, progress. `states` stands for the graph's stored states."""

    slack: SlackSandbox
    messages: MessageServices
    services: IncidentFormServices
    features: Features
    registry: SlackRegistry
    inbox: Inbox
    server: FakeServer
    redis: FakeAsyncRedis
    background: BackgroundTasks
    woken: list[str] = field(default_factory=list)
    news: list[Progress] = field(default_factory=list)
    states: dict[str, IncidentState] = field(default_factory=dict)

    @property
    def pulse(self) -> ThreadActivity:
        return self.messages.thread_activity

    @property
    def context(self) -> HandlerContext:
        return self.messages.context

    async def items(self) -> list[InboxItem]:
        return [item for incident in await self.inbox.list_open_incidents() for item in await self.inbox.list_waiting(incident)]

    async def settled(self) -> None:
        """Wait until all events are acked and background tasks ended."""
        await self.slack.quiet()
        await self.background.wait_until_idle()
        await self.context.outbox.wakeups.wait_until_idle()
        await self.messages.direct_messages.wakeups.wait_until_idle()
        await self.background.wait_until_idle()

    def texts(self, channel: str, user: str = "") -> list[str]:
        """Return the bot's plain fallback texts in a channel."""
        return [str(message["text"]) for message in self.slack.messages(channel, user) if message.get("bot_id")]


async def load_no_state(incident: str) -> IncidentState:
    return IncidentState()


async def load_no_records(incident: str) -> Sequence[ActionRecord]:
    return ()


def living_messages(
    client: AsyncWebClient,
    redis: Redis,
    people: People,
    origin_of: OriginLookup,
    clock: Clock,
    tasks: BackgroundTasks,
    load_state: Callable[[str], Awaitable[IncidentState]] = load_no_state,
    channel_bindings: Mapping[str, ChannelRow] | None = None,
) -> StatusMessages:
    """Return the status messages as a process builds them."""
    cards, pending = PostedCards(redis), PendingMessages(redis, clock)
    reactions = StatusReactions(client, cards, tasks)
    return StatusMessages(
        EditableMessages(client, cards), reactions, people, origin_of, pending, load_state, load_no_records, channel_bindings or {}
    )


def build_tenant_cards(
    context: HandlerContext,
    redis: Redis,
    inventory: Inventory,
    words: CustomerWords,
    clock: Clock,
    find_closed_incidents: ClosedIncidentSearch = find_no_closed_incidents,
) -> TenantCards:
    """Return tenants' cards without facts and actions. The incidents' states are those of the context."""
    return TenantCards(
        context.client,
        EditableMessages(context.client, PostedCards(redis), plans=False),
        context.inbox,
        inventory,
        words,
        context.channel_bindings,
        context.people,
        PendingMessages(redis, clock),
        context.load_state,
        load_no_records,
        load_no_facts,
        find_closed_incidents,
    )


@asynccontextmanager
async def slack_side(
    dress: Callable[[HandlerContext, FakeAsyncRedis], HandlerContext] = lambda context, _: context,
    parts_of: PartsBuilder = lambda _, __: Parts(),
    features_of: FeatureBuilder = lambda _, __: Features(),
    app: Mapping[str, Any] | None = None,
    ack: float = 5.0,
) -> AsyncIterator[Behind]:
    """Connect the bot to a workspace that grants what its manifest requests (or `app`). `dress` changes the context,
    `parts_of` and `features_of` make the features' handlers, `ack` is Slack's ack timeout in seconds.
    """
    patience = DeliveryTimeouts(ack=ack, retries=(0.0, 0.0, 0.0), offline=5.0)
    async with SlackSandbox(manifest=dict(app or build_manifest()), patience=patience) as slack:
        client = build_slack_client(slack.bot_token, slack.api_url)
        server, background = FakeServer(), BackgroundTasks()
        redis = FakeAsyncRedis(server=server, max_connections=1000)
        inbox = Inbox(redis, WallClock())
        made: list[Behind] = []

        async def wake(incident: str) -> None:
            made[0].woken.append(incident)

        async def progress(news: Progress) -> None:
            made[0].news.append(news)

        async def state_of(incident: str) -> IncidentState:
            return made[0].states.get(incident, cast(IncidentState, {}))

        context = HandlerContext(
            client,
            inbox,
            wake,
            progress,
            state_of,
            People(client, fresh=0.0, marks=ChannelSharingCache(redis)),
            BOUND,
            WallClock(),
            background,
            build_outbox(redis, WallClock(), BOUND),
        )
        context = dress(context, redis)
        parts, clock = parts_of(context, redis), context.clock
        open_work, activity = (
            OpenWorkServices(context, QuotaWaitingList(redis, clock)),
            parts.thread_activity or ThreadActivity(redis, clock),
        )
        direct = build_direct_messages(client, redis, WallClock(), background)
        messages = MessageServices(context, open_work, activity, parts.vocabulary_of, direct, parts.submit_alert_batch)
        metrics, features = IncidentMetricsStore(redis), features_of(messages, redis)
        services = IncidentFormServices(context, parts.hosts_of, OFFERED, metrics, load_no_facts, parts.report_writer)
        home = HomeServices(context, open_work, OFFERED, metrics, parts.host_groups)
        registry = build_registry(services, home, messages, redis, features)
        made.append(Behind(slack, messages, services, features, registry, inbox, server, redis, background))
        try:
            async with (
                run_outbox(context.outbox, client, context.people, redis, lease_seconds=30.0),
                run_direct_answers(direct, partial(answer_direct_message, open_work), redis, clock, lease_seconds=30.0),
                run_socket_mode(client, registry, slack.app_token),
            ):
                await slack.connected()
                yield made[0]
        finally:
            await background.aclose()


async def load_no_facts(incident: str) -> Sequence[Fact]:
    return ()


def build_registry(
    services: IncidentFormServices, home: HomeServices, messages: MessageServices, redis: FakeAsyncRedis, features: Features
) -> SlackRegistry:
    """Return the handlers as a front end builds them."""
    context, posted = services.context, PostedCards(redis)

    async def no_view(incident: str, origin: Origin) -> TenantView | None:
        return None

    lessons = LessonHandlers(
        context, LessonStore(redis), LessonCards(EditableMessages(context.client, posted), context.inbox, context.people, {}), OFFERED
    )
    return build_slack_registry(
        services,
        home,
        messages,
        lessons=features.lessons or lessons,
        tenant_updates=features.tenant_updates or TenantUpdateHandlers(context, posted, Inventory(hosts={}, groups={}), no_view),
        tenants=features.tenants,
        provider=features.provider,
        trackers=features.trackers,
    )
