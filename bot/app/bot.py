"""Wiring of the bot: dispatcher, action runtime and Slack side over one store. Parts stop in reverse start order.

Parts that a process's role does not need are built but never woken.
"""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from bot.alerts.posted_alerts import PostedAlertBatcher
from bot.app.action_runtime import ActionDependencies, ActionRuntime, ignore_wakeup, open_action_runtime
from bot.app.alerts import build_alert_intake, build_alert_threads
from bot.app.answer_dispatcher import build_direct_messages, build_outbox, run_direct_answers, run_outbox
from bot.app.diagnosis_runtime import DiagnosisRuntime, WallClock
from bot.app.lessons import build_lesson_services
from bot.app.provider import build_provider_services, build_ticket_threads
from bot.app.report_sources import build_chart_source, build_report_writer
from bot.app.retention import EvidenceRetrier, Retention
from bot.app.tenants import build_quota_gate, build_tenant_cards, build_tenant_updates, list_tenant_labels
from bot.app.trackers import TrackerServices, build_tracker_services, list_offered_trackers, open_site_trackers
from bot.incidents.cards.incident_menu import build_label_choices
from bot.incidents.context import HandlerContext
from bot.incidents.direct_messages import DirectMessages
from bot.incidents.dispatch.cause_ownership import CauseOwnership
from bot.incidents.dispatch.closed_incidents import update_closed_incident
from bot.incidents.dispatch.dispatcher import REPORT_OBSERVER, Dispatcher, TurnLimits, TurnObserver, TurnRunner
from bot.incidents.dispatch.inbox import Inbox
from bot.incidents.dispatch.lease import Leases
from bot.incidents.dispatch.metrics import IncidentMetricsStore, record_metrics
from bot.incidents.dispatch.sweeper import Sweeper, plan_timers
from bot.incidents.dispatch.thread_activity import ThreadActivity
from bot.incidents.dispatch.wakeups import Wakeups, build_wakeups
from bot.incidents.handlers.commands import answer_direct_message
from bot.incidents.handlers.files import ItemFetcher
from bot.incidents.handlers.services import HomeServices, IncidentFormServices, MessageServices, OpenWorkServices
from bot.incidents.publishing.abandoned_messages import AbandonedMessageSweeper
from bot.incidents.publishing.answer_outbox import AnswerOutbox
from bot.incidents.publishing.progress_updates import ProgressUpdates
from bot.incidents.publishing.reactions import StatusReactions
from bot.incidents.publishing.report_publisher import SlackReportPublisher
from bot.incidents.publishing.status_messages import StatusMessages
from bot.policy.channels import build_channel_bindings, get_incident_visibility, list_tenant_channels
from bot.policy.roles import RoleTable
from bot.remediation.action_callbacks import IncidentFactsLoader
from bot.remediation.action_cards import build_action_cards
from bot.remediation.action_index import ActionIndex
from bot.remediation.approval_card_data import IncidentKnowledge
from bot.remediation.approval_decisions import ApprovalServices, OpenDecisionLookup
from bot.remediation.waves import WaitingRemediationLookup
from bot.settings import Settings
from bot.slack.client import SlackClient, build_slack_client
from bot.slack.people import People
from bot.slack.posted_messages import EditableMessages, PendingMessages, PostedCards
from bot.store.baselines import BaselineStore
from bot.store.closed_incidents import ClosedIncidentIndex, ClosedIncidentStore
from bot.store.keys import ACTION_WAKEUP_STREAM_KEY, WAKEUP_STREAM_KEY
from bot.store.quotas import QuotaWaitingList
from bot.store.slack_state import ChannelSharingCache, SlackRateSlots
from bot.store.store import Store
from bot.tasks import BackgroundTasks, cancel_tasks
from bot.tenants.handlers import TenantHandlers
from bot.tenants.tenant_cards import TenantCards
from bot.trackers.tracker import Tracker
from graph.context import GraphContext
from graph.dialogue.said import Vocabulary
from graph.incident.visibility import build_vocabulary, list_visible_hosts
from graph.state import InboxItem, Origin
from graph.state_reader import IncidentStateReader
from tools.evidence import DirectoryEvidence

if TYPE_CHECKING:
    from graph.incident.incident_graph import IncidentTurns

WakeCallback = Callable[[str], Awaitable[None]]
DrainCallback = Callable[[], Awaitable[None]]

# `front`: Slack events into inboxes and ledger. `worker`: turns and remediations. `all`: both in one process.
ProcessRole = Literal["all", "front", "worker"]


@dataclass(frozen=True, slots=True)
class OperatorRuntime:
    """The Slack side."""

    client: SlackClient
    background: BackgroundTasks
    people: People
    cards: PostedCards
    inbox: Inbox
    titles: Mapping[str, str]
    living: StatusMessages
    board: SlackReportPublisher
    direct: DirectMessages
    outbox: AnswerOutbox
    customers: TenantCards | None  # set if tenants' channels are served
    trackers: Sequence[Tracker]  # where tickets may be opened


@dataclass(frozen=True, slots=True)
class IncidentServices:
    """Readers of stored incidents, and what a turn learns about other incidents' decisions."""

    ports: GraphContext
    stored: IncidentStateReader
    decided: OpenDecisionLookup
    index: ActionIndex
    facts_of: IncidentFactsLoader


@contextlib.asynccontextmanager
async def run_bot(
    settings: Settings, store: Store, runtime: DiagnosisRuntime, role: ProcessRole = "all", name: str = "serve"
) -> AsyncIterator[DrainCallback]:
    """Run the bot in one role; yields a function that drains running turns to a stored step.

    `name` identifies the process on its host and must survive a restart. Raises Refusal.
    """
    works = role != "front"
    window = _build_operator_runtime(settings, store, runtime)
    earlier = _build_closed_index(settings, store, runtime)
    thinking = _build_incident_services(store, replace(runtime.ports, earlier=earlier.find_incidents), window)
    wakeups, of_actions = (_build_role_wakeups(store, role, name, stream) for stream in (WAKEUP_STREAM_KEY, ACTION_WAKEUP_STREAM_KEY))
    needs = _build_action_dependencies(settings, store, runtime, window, thinking, wake=wakeups.wake, wakeups=of_actions)
    courses, pulse = IncidentMetricsStore(store.redis), ThreadActivity(store.redis, runtime.ports.clock)
    async with contextlib.aclosing(window.background), open_action_runtime(needs, works=works) as acting:
        thinking.decided.bind_ledger(acting.ledger, acting.rights)
        if window.customers is not None:
            window.customers.set_sources(records_of=acting.ledger.list_incident_records)
        window.board.set_chart_source(build_chart_source(runtime.ports, window.people, acting))
        context = _build_handler_context(settings, window, thinking, acting, wakeups, runtime.policy.roles)
        open_work = OpenWorkServices(
            context, QuotaWaitingList(store.redis, runtime.ports.clock), list_tenant_labels(runtime.ports.taxonomy)
        )
        line = build_provider_services(settings, store, thinking.ports, window.client, window.cards, window.inbox, window.people)
        states = line.build_ticket_states(context, thinking.facts_of, acting.ledger.list_incident_records)
        trackers = _build_trackers(settings, store, thinking.ports, window)
        pages_of = window.client, window.people, window.background, thinking.stored, acting, courses
        writing = build_report_writer(runtime.ports, *pages_of)
        window.board.set_report_writer(writing)
        learning = build_lesson_services(settings, store, runtime, window.client, window.cards, window.inbox, window.people)
        alerts = build_alert_intake(settings, store, thinking.ports.inventory, context) if role != "worker" else None
        routes = (*line.build_routes(context, states), *(alerts.routes if alerts else ()))
        direct = run_direct_answers(
            window.direct, partial(answer_direct_message, open_work), store.redis, runtime.ports.clock, settings.lease_seconds
        )
        posts = run_outbox(window.outbox, window.client, window.people, store.redis, settings.lease_seconds)

        def run_front() -> contextlib.AbstractAsyncContextManager[None]:
            from bot.app.slack_handlers import build_slack_registry, run_listeners  # Bolt: a worker needs none of it

            label_choices = build_label_choices(window.titles.items())
            messages = MessageServices(
                context,
                open_work,
                pulse,
                build_vocabulary_lookup(thinking.ports),
                window.direct,
                PostedAlertBatcher(alerts.handle_posted_alerts).submit_post if alerts else None,
            )
            registry = build_slack_registry(
                IncidentFormServices(
                    context,
                    partial(list_visible_hosts, thinking.ports.inventory),
                    label_choices,
                    courses,
                    thinking.facts_of,
                    writing,
                ),
                HomeServices(context, open_work, label_choices, courses, thinking.ports.inventory.groups),
                messages,
                lessons=learning.build_handlers(context, label_choices),
                tenant_updates=build_tenant_updates(
                    context, window.customers, window.cards, states, runtime.ports.inventory, line.fetchable_updates
                ),
                tenants=TenantHandlers(messages, window.customers, thinking.ports.inventory, writing) if window.customers else None,
                provider=line.build_handlers(context),
                trackers=trackers.build_handlers(context),
                alert_bots=settings.alert_bots,
            )
            return run_listeners(settings, store, context, registry, routes)

        if not works:
            async with _run_wakeup_sender(wakeups), posts, direct, run_front():
                yield drain_nothing
            return
        # What happens after each turn, in this order, whatever the others raise. The names are stored.
        observers: dict[str, TurnObserver] = {
            "metrics": partial(record_metrics, courses, runtime.ports.clock),
            "history": partial(update_closed_incident, earlier, runtime.ports.clock),
            REPORT_OBSERVER: window.board.publish_report,
            **({"tenant": window.customers.update_after_turn} if window.customers else {}),
            **({"provider": line.cards.update_after_turn} if line.cards else {}),
            **({"remediation": acting.actions.schedule_after_turn} if acting.actions else {}),
            "lessons": learning.observer.observe_turn,
            "thread": pulse.record_report,
        }
        fetch = ItemFetcher(window.client, runtime.ports.evidence)
        desk = _build_dispatcher(settings, store, window, _build_turn_runner(store, thinking.ports), observers, fetch, runtime)
        retention = Retention(settings, window.inbox.list_open_incidents, ClosedIncidentStore(store.redis), WallClock())
        sweepers = (Sweeper(window.inbox, wakeups), AbandonedMessageSweeper(window.living, window.board.retry_pending_edits))
        keeping = [EvidenceRetrier(kept).run] if isinstance(kept := runtime.ports.evidence, DirectoryEvidence) else []
        chores = (
            *(sweeper.run for sweeper in sweepers),
            retention.run,
            *keeping,
            *line.background_jobs,
            *trackers.background_jobs,
            learning.following.run,
        )
        async with contextlib.AsyncExitStack() as stack:
            await stack.enter_async_context(_run_dispatcher(desk, wakeups, chores))
            await stack.enter_async_context(posts)
            await stack.enter_async_context(direct)
            if role == "all":
                await stack.enter_async_context(run_front())
            yield desk.drain


async def drain_nothing() -> None:
    """Do nothing: a front end runs no turns."""


def _build_closed_index(settings: Settings, store: Store, runtime: DiagnosisRuntime) -> ClosedIncidentIndex:
    hears = partial(get_incident_visibility, bound=build_channel_bindings(runtime.ports.inventory.channels))
    return ClosedIncidentIndex(store.redis, hears, timedelta(days=settings.closed_retention_days))


def _build_operator_runtime(settings: Settings, store: Store, runtime: DiagnosisRuntime) -> OperatorRuntime:
    client = build_slack_client(settings.slack_bot_token.get_secret_value(), settings.slack_api_url, others=SlackRateSlots(store.redis))
    background, people = BackgroundTasks(), People(client, marks=ChannelSharingCache(store.redis))
    cards = PostedCards(store.redis, keep_closed=timedelta(days=settings.closed_retention_days))
    inbox = Inbox(store.redis, runtime.ports.clock)
    bound = build_channel_bindings(runtime.ports.inventory.channels)
    titles = {leaf.label: leaf.title for leaf in runtime.ports.taxonomy.leaves.values()}
    living = StatusMessages(
        EditableMessages(client, cards),
        StatusReactions(client, cards, background),
        people,
        inbox.get_origin,
        PendingMessages(store.redis, runtime.ports.clock),
        bound,
        titles,
        list_tenant_labels(runtime.ports.taxonomy),
    )
    trackers = open_site_trackers(settings, runtime.ports.clock)
    board = SlackReportPublisher(
        client,
        cards,
        ProgressUpdates(living, background),
        people,
        inbox.get_origin,
        runtime.ports.evidence,
        bound,
        titles,
        list_offered_trackers(trackers),
    )
    direct = build_direct_messages(client, store.redis, runtime.ports.clock, background)
    outbox = build_outbox(store.redis, runtime.ports.clock, bound)
    customers = build_tenant_cards(client, cards, inbox, people, runtime.ports, living.unsettled) if settings.customers else None
    return OperatorRuntime(client, background, people, cards, inbox, titles, living, board, direct, outbox, customers, trackers)


def _build_incident_services(store: Store, ports: GraphContext, runtime: OperatorRuntime) -> IncidentServices:
    decided, causes = OpenDecisionLookup(), CauseOwnership(store.redis, ports.clock)
    index = ActionIndex(store.redis, ports.clock)
    progress, peek = runtime.board.publish_progress, runtime.inbox.list_waiting
    others = replace(ports, keep=causes.claim_causes, keepers=causes.list_owners, treated=index.list_treatments)
    seen = BaselineStore(store.redis)
    others = replace(others, remembered=seen.load_baselines, remember=seen.save_baselines)
    whole = replace(others, progress=progress, peek=peek, decisions=decided, late=WaitingRemediationLookup(index))
    stored = IncidentStateReader(store.redis)
    facts_of = IncidentFactsLoader(whole.evidence, stored.load_state)
    runtime.living.set_sources(state_of=stored.load_state)
    runtime.board.set_state_source(stored.load_state)
    if runtime.customers is not None:
        runtime.customers.set_sources(state_of=stored.load_state, facts_of=facts_of, recall=whole.earlier)
        runtime.living.set_sources(beside=runtime.customers.update_card_quietly)
    return IncidentServices(whole, stored, decided, index, facts_of)


def _build_trackers(settings: Settings, store: Store, ports: GraphContext, runtime: OperatorRuntime) -> TrackerServices:
    return build_tracker_services(
        settings, store, ports, runtime.client, runtime.cards, runtime.inbox, runtime.people, runtime.titles, runtime.trackers
    )


def _build_turn_runner(store: Store, ports: GraphContext) -> "IncidentTurns":
    """Import here, so that a front end does not load LangGraph."""
    from graph.checkpoints.checkpoint import RedisSaver
    from graph.incident.incident_graph import IncidentTurns

    return IncidentTurns(RedisSaver(store.redis), ports)


def _build_action_dependencies(
    settings: Settings,
    store: Store,
    world: DiagnosisRuntime,
    window: OperatorRuntime,
    thinking: IncidentServices,
    wake: WakeCallback,
    wakeups: Wakeups,
) -> ActionDependencies:
    known = IncidentKnowledge(thinking.index.get_shown_news, thinking.facts_of)
    people, inbox = window.people, window.inbox
    return ActionDependencies(
        settings,
        store,
        world.transport,
        thinking.ports,
        state_of=thinking.stored.load_state,
        inbox=inbox,
        people=people,
        show=build_action_cards(
            window.client, window.cards, people, inbox.get_origin, known, thinking.ports, world.transport, window.living
        ),
        wake=wake,
        wakeups=wakeups,
        approvers=world.policy.approvers,
    )


def _build_handler_context(
    settings: Settings,
    runtime: OperatorRuntime,
    thinking: IncidentServices,
    acting: ActionRuntime,
    wakeups: Wakeups,
    roles: RoleTable,
) -> HandlerContext:
    channel_bindings = build_channel_bindings(thinking.ports.inventory.channels)
    return HandlerContext(
        client=runtime.client,
        inbox=runtime.inbox,
        wake=wakeups.wake,
        publish_progress=runtime.board.publish_progress,
        load_state=thinking.stored.load_state,
        people=runtime.people,
        channel_bindings=channel_bindings,
        clock=thinking.ports.clock,
        tasks=runtime.background,
        outbox=runtime.outbox,
        approvals=ApprovalServices(acting.decisions, acting.ledger, acting.show, frozenset(settings.approvers)),
        roles=roles,
        tenant_channels=list_tenant_channels(channel_bindings) if settings.customers else (),
    )


def build_vocabulary_lookup(ports: GraphContext) -> Callable[[Origin], Vocabulary]:
    """Return a lookup of the names usable in a place, cached per channel and tenant."""
    known: dict[tuple[str, str], Vocabulary] = {}

    def of(origin: Origin) -> Vocabulary:
        place = origin.channel, origin.tenant
        if place not in known:
            known[place] = build_vocabulary(ports.inventory, ports.taxonomy, ports.fleet.checks, origin)
        return known[place]

    return of


def _build_role_wakeups(store: Store, role: ProcessRole, name: str, stream: str) -> Wakeups:
    """Build wakeups; they stay in the process if it has role `all` and the store is no shared server."""
    alone = role == "all" and store.kind != "server"
    consumer = f"{socket.gethostname()}.{name}"
    return build_wakeups(store.url, alone=alone, receive=role != "front", name=consumer, stream=stream)


def _build_dispatcher(
    settings: Settings,
    store: Store,
    window: OperatorRuntime,
    turns: TurnRunner,
    observers: Mapping[str, TurnObserver],
    fetch: ItemFetcher,
    world: DiagnosisRuntime,
) -> Dispatcher:
    inbox, clock, customers, shares = window.inbox, world.ports.clock, window.customers, world.policy.shares
    leases = Leases(store.redis, clock, seconds=settings.lease_seconds, url=store.url)
    limits = TurnLimits(keep_closed=timedelta(days=settings.closed_retention_days))
    tickets = build_ticket_threads(store, window.client, window.cards, inbox, window.people, customers)
    posted, people_in = (window.client, window.cards, window.people), ThreadActivity(store.redis, clock).has_human_messages
    threads = build_alert_threads(settings, store, world.ports.inventory, posted, inbox, people_in, tickets.resolve_thread)

    async def fetched(item: InboxItem) -> InboxItem:
        return await fetch(await threads.fetch_item(item))

    return Dispatcher(
        inbox,
        leases,
        turns,
        observers,
        clock=clock,
        timers=plan_timers,
        progress=window.board.publish_progress,
        fetch=fetched,
        home=threads.resolve_thread,
        limits=limits,
        gate=build_quota_gate(shares, store, inbox, world.ports, customers) if customers or settings.intake_keys else None,
        weight=lambda tenant: shares.get_quota(tenant).turns if tenant else 1,
    )


@contextlib.asynccontextmanager
async def _run_dispatcher(
    desk: Dispatcher, wakeups: Wakeups, chores: Sequence[Callable[[], Coroutine[Any, Any, None]]]
) -> AsyncIterator[None]:
    """Run wakeups, sweepers and jobs. On exit running turns reach a stored step."""
    await wakeups.start(desk.schedule_incident)
    doing = [asyncio.create_task(chore()) for chore in chores]
    try:
        yield
    finally:
        await cancel_tasks(*doing)
        await desk.drain()
        await wakeups.aclose()


@contextlib.asynccontextmanager
async def _run_wakeup_sender(wakeups: Wakeups) -> AsyncIterator[None]:
    await wakeups.start(ignore_wakeup)
    try:
        yield
    finally:
        await wakeups.aclose()
