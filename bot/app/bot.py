"""Composition of the bot from its parts over one store. Parts stop in reverse start order.

Parts that a process's role does not need are built but never woken.
"""

import contextlib
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import timedelta
from functools import partial
from typing import Literal

from bot.alerts.post_batcher import PostedAlertBatcher
from bot.alerts.services import build_alert_intake, build_alert_threads
from bot.app.diagnosis_runtime import DiagnosisRuntime, WallClock
from bot.incidents.cards.close_form import build_label_choices
from bot.incidents.context import HandlerContext
from bot.incidents.dispatch.cause_ownership import CauseOwnership
from bot.incidents.dispatch.closed_incidents import update_closed_incident
from bot.incidents.dispatch.dispatcher import REPORT_OBSERVER, Dispatcher, TurnLimits, TurnObserver, TurnRunner, run_dispatcher
from bot.incidents.dispatch.inbox import Inbox
from bot.incidents.dispatch.lease import Leases
from bot.incidents.dispatch.metrics_store import IncidentMetricsStore, record_metrics
from bot.incidents.dispatch.sweeper import Sweeper, plan_timers
from bot.incidents.dispatch.thread_activity import ThreadActivity
from bot.incidents.dispatch.wakeups import build_wakeups, run_wakeup_sender
from bot.incidents.handlers.commands import answer_direct_message
from bot.incidents.handlers.files import ItemFetcher
from bot.incidents.handlers.services import HomeServices, IncidentFormServices, MessageServices, OpenWorkServices
from bot.incidents.publishing.abandoned_messages import AbandonedMessageSweeper
from bot.incidents.publishing.answer_dispatcher import build_direct_messages, build_outbox, run_direct_answers, run_outbox
from bot.incidents.publishing.incident_reports import IncidentReportWriter
from bot.incidents.publishing.progress_updates import ProgressUpdates
from bot.incidents.publishing.reactions import StatusReactions
from bot.incidents.publishing.report_attachments import ReportAttachments
from bot.incidents.publishing.report_publisher import SlackReportPublisher
from bot.incidents.publishing.status_messages import StatusMessages, skip_tenant_card
from bot.lessons.services import build_lesson_drafter, build_lesson_services
from bot.policy.approvals import ApprovalRights
from bot.policy.channels import build_channel_bindings, get_incident_visibility, list_tenant_channels
from bot.policy.on_call import OnCallLookup, OnCallSchedules
from bot.provider.services import build_provider_services, build_ticket_threads
from bot.remediation.action_callbacks import IncidentFactsLoader
from bot.remediation.action_cards import ActionCards
from bot.remediation.action_index import ActionIndex
from bot.remediation.action_runtime import ActionDependencies, open_action_runtime
from bot.remediation.approval_card_data import IncidentKnowledge, build_approval_card_sources
from bot.remediation.approval_decisions import ApprovalServices, DecisionLookup
from bot.remediation.wave_scheduler import WaitingRemediationLookup
from bot.reports.drawing_source import DrawingSource
from bot.reports.figures import build_bandwidth_expectation
from bot.reports.incident_sources import IncidentSources
from bot.settings import Settings
from bot.slack.client import build_slack_client
from bot.slack.people import People
from bot.slack.posted_messages import EditableMessages, PendingMessages, PostedCards
from bot.store.baselines import BaselineStore
from bot.store.channel_sharing import ChannelSharingCache
from bot.store.closed_incident_index import ClosedIncidentIndex
from bot.store.closed_incidents import ClosedIncidentStore
from bot.store.evidence_retrier import EvidenceRetrier
from bot.store.keys import ACTION_WAKEUP_STREAM_KEY
from bot.store.open_ledger import get_durability_warning, open_ledger
from bot.store.quota_waiting_list import QuotaWaitingList
from bot.store.retention import Retention
from bot.store.slack_rate_slots import SlackRateSlots
from bot.store.store import Store
from bot.tasks import BackgroundTasks
from bot.tenants.cards.view import build_slot_value_lookup
from bot.tenants.handlers import TenantHandlers
from bot.tenants.services import build_quota_gate, build_tenant_updates, list_tenant_labels
from bot.tenants.tenant_cards import TenantCards
from bot.trackers.services import build_tracker_services, list_offered_trackers, open_site_trackers
from graph.context import GraphContext
from graph.incident.visibility import build_vocabulary_lookup, list_visible_hosts
from graph.state import InboxItem
from graph.state_reader import IncidentStateReader
from kb.customers.cause_words import load_customer_words
from tools.evidence import DirectoryEvidence

DrainCallback = Callable[[], Awaitable[None]]

# `front`: Slack events into inboxes and ledger. `worker`: turns and remediations. `all`: both in one process.
ProcessRole = Literal["all", "front", "worker"]


@contextlib.asynccontextmanager
async def run_bot(
    settings: Settings, store: Store, diagnosis: DiagnosisRuntime, role: ProcessRole = "all", name: str = "serve"
) -> AsyncIterator[DrainCallback]:
    """Run the bot in one role; yields a function that drains running turns to a stored step.

    `name` identifies the process on its host and must survive a restart. Raises Refusal if a setting or Slack cannot be used.
    """
    works, site, policy, transport = role != "front", diagnosis.services, diagnosis.policy, diagnosis.transport
    redis, clock, evidence, inventory, taxonomy = store.redis, site.clock, site.evidence, site.inventory, site.taxonomy
    channel_bindings = build_channel_bindings(inventory.channels)
    cause_titles = {leaf.label: leaf.title for leaf in taxonomy.leaves.values()}
    tenant_labels = list_tenant_labels(taxonomy)
    closed_retention = timedelta(days=settings.closed_retention_days)

    # Clients, inboxes, and readers of what is stored.
    client = build_slack_client(settings.slack_bot_token.get_secret_value(), settings.slack_api_url, others=SlackRateSlots(redis))
    people, tasks = People(client, marks=ChannelSharingCache(redis)), BackgroundTasks()
    posted_cards, pending_messages = PostedCards(redis, keep_closed=closed_retention), PendingMessages(redis, clock)
    editable_messages = EditableMessages(client, posted_cards)
    inbox, action_index = Inbox(redis, clock), ActionIndex(redis, clock)
    direct_messages, outbox = build_direct_messages(client, redis, clock, tasks), build_outbox(redis, clock, channel_bindings)
    load_state = IncidentStateReader(redis).load_state
    load_facts = IncidentFactsLoader(evidence, load_state)
    incident_metrics, thread_activity = IncidentMetricsStore(redis), ThreadActivity(redis, clock)
    closed_incidents = ClosedIncidentIndex(redis, partial(get_incident_visibility, bound=channel_bindings), closed_retention)
    trackers = open_site_trackers(settings, clock)
    # Wake-ups stay in the process if it has role `all` and the store is not a shared server.
    alone, consumer = role == "all" and store.kind != "server", f"{socket.gethostname()}.{name}"
    build_role_wakeups = partial(build_wakeups, store.url, alone=alone, receive=works, name=consumer)
    wakeups, action_wakeups = build_role_wakeups(), build_role_wakeups(stream=ACTION_WAKEUP_STREAM_KEY)

    # The ledger, and who may approve. Cards show their records and names, so they come after.
    durability_warning = await get_durability_warning(settings, store)
    ledger = await open_ledger(settings, store, inventory, clock)
    schedules = OnCallSchedules(policy.approvers.on_call, people, clock)
    rights = ApprovalRights(people, inventory, settings.approvers, inbox.get_origin, policy.approvers, schedules)

    # Cards, status messages, reports.
    tenant_cards = None
    if settings.customers:
        plain_messages = EditableMessages(client, posted_cards, plans=False)  # shared channels show no streaming or agent blocks
        customer_words, slot_values = load_customer_words(taxonomy), build_slot_value_lookup(inventory, taxonomy, site.skus)
        tenant_cards = TenantCards(
            client, plain_messages, inbox, inventory, customer_words, channel_bindings, people, pending_messages,
            load_state, ledger.list_incident_records, load_facts, closed_incidents.find_incidents, slot_values,
        )  # fmt: skip
    reactions = StatusReactions(client, posted_cards, tasks)
    update_tenant_card = tenant_cards.update_card_quietly if tenant_cards else skip_tenant_card
    status_messages = StatusMessages(
        editable_messages, reactions, people, inbox.get_origin, pending_messages, load_state, ledger.list_incident_records,
        channel_bindings, cause_titles, tenant_labels, update_tenant_card,
    )  # fmt: skip
    expect_bandwidth = partial(build_bandwidth_expectation, inventory, site.skus)
    drawing_source = DrawingSource(evidence, people.get_name, taxonomy.titles, expect_bandwidth, ledger.list_incident_records)
    incident_sources = IncidentSources(
        load_state, evidence, clock, ledger, "", incident_metrics.load_metrics, people.get_name, taxonomy.titles, expect_bandwidth
    )
    report_writer = IncidentReportWriter(client, incident_sources, tasks)
    progress_updates = ProgressUpdates(status_messages, tasks)
    attachments = ReportAttachments(client, posted_cards, evidence, drawing_source, report_writer)
    report_publisher = SlackReportPublisher(
        client, posted_cards, progress_updates, people, inbox.get_origin, evidence, load_state, attachments,
        channel_bindings, cause_titles, list_offered_trackers(trackers),
    )  # fmt: skip
    # What a turn knows of other incidents, and where it shows its progress.
    causes, baselines = CauseOwnership(redis, clock), BaselineStore(redis)
    graph_context = site.build_graph_context(
        earlier=closed_incidents.find_incidents,
        keep=causes.claim_causes,
        keepers=causes.list_owners,
        treated=action_index.list_treatments,
        remembered=baselines.load_baselines,
        remember=baselines.save_baselines,
        progress=report_publisher.publish_progress,
        peek=inbox.list_waiting,
        decisions=DecisionLookup(ledger, rights),
        on_call=OnCallLookup(schedules, people.get_name),
        late=WaitingRemediationLookup(action_index),
    )
    known = IncidentKnowledge(action_index.get_shown_news, load_facts)
    card_sources = build_approval_card_sources(ledger, rights, inbox.get_origin, known, graph_context, transport, durability_warning)
    action_cards = ActionCards(client, posted_cards, people, card_sources, status_messages)
    needs = ActionDependencies(
        settings, store, transport, graph_context, ledger, rights, action_cards, load_state, inbox, wakeups.wake, action_wakeups
    )
    async with contextlib.aclosing(tasks), open_action_runtime(needs, works=works) as action_runtime:
        # Handlers of each feature. One that is switched off has none.
        approvals = ApprovalServices(action_runtime.decisions, ledger, action_cards, frozenset(settings.approvers))
        tenant_channels = list_tenant_channels(channel_bindings) if settings.customers else ()
        context = HandlerContext(
            client, inbox, wakeups.wake, report_publisher.publish_progress, load_state, people, channel_bindings, clock, tasks,
            outbox, approvals, policy.roles, tenant_channels,
        )  # fmt: skip
        label_choices = build_label_choices(cause_titles.items())
        open_work = OpenWorkServices(context, QuotaWaitingList(redis, clock), tenant_labels)
        provider = build_provider_services(
            settings, store, context, editable_messages, graph_context, load_facts, ledger.list_incident_records
        )
        tracker = build_tracker_services(settings, store, context, editable_messages, inventory, cause_titles, trackers)
        drafter = build_lesson_drafter(inventory, taxonomy)
        lessons = build_lesson_services(
            store, context, editable_messages, label_choices, cause_titles, drafter, diagnosis.history, diagnosis.mistakes
        )
        alerts = build_alert_intake(settings, store, inventory, context) if role != "worker" else None
        messages = MessageServices(
            context,
            open_work,
            thread_activity,
            build_vocabulary_lookup(inventory, taxonomy, site.fleet.checks),
            direct_messages,
            PostedAlertBatcher(alerts.handle_posted_alerts).submit_post if alerts else None,
        )
        hosts_of = partial(list_visible_hosts, inventory)
        forms = IncidentFormServices(context, hosts_of, label_choices, incident_metrics, load_facts, report_writer)
        home = HomeServices(context, open_work, label_choices, incident_metrics, inventory.groups)
        tenant_updates = build_tenant_updates(
            context, tenant_cards, posted_cards, provider.ticket_states, inventory, provider.message_store
        )
        posts = run_outbox(outbox, client, people, redis, settings.lease_seconds)
        answers = run_direct_answers(direct_messages, partial(answer_direct_message, open_work), redis, clock, settings.lease_seconds)

        def run_front() -> contextlib.AbstractAsyncContextManager[None]:
            from bot.app.slack_handlers import build_slack_registry, run_listeners  # Bolt: a worker needs none of it

            registry = build_slack_registry(
                forms,
                home,
                messages,
                lessons=lessons.handlers,
                tenant_updates=tenant_updates,
                tenants=TenantHandlers(messages, tenant_cards, inventory, report_writer) if tenant_cards else None,
                provider=provider.handlers,
                trackers=tracker.handlers,
                alert_bots=settings.alert_bots,
            )
            return run_listeners(settings, store, context, registry, (*provider.routes, *(alerts.routes if alerts else ())))

        if not works:
            async with run_wakeup_sender(wakeups), posts, answers, run_front():
                yield drain_nothing
            return
        # What happens after each turn, in this order, whatever the others raise. The names are stored.
        observers: dict[str, TurnObserver] = {
            "metrics": partial(record_metrics, incident_metrics, clock),
            "history": partial(update_closed_incident, closed_incidents, clock),
            REPORT_OBSERVER: report_publisher.publish_report,
        }
        if tenant_cards:
            observers["tenant"] = tenant_cards.update_after_turn
        if provider.cards:
            observers["provider"] = provider.cards.update_after_turn
        if action_runtime.actions:
            observers["remediation"] = action_runtime.actions.schedule_after_turn
        observers["lessons"] = lessons.observer.observe_turn
        observers["thread"] = thread_activity.record_report
        ticket_threads = build_ticket_threads(store, client, posted_cards, inbox, people, tenant_cards)
        has_human_messages = thread_activity.has_human_messages
        alert_threads = build_alert_threads(
            settings, store, inventory, client, posted_cards, people, inbox, has_human_messages, ticket_threads.resolve_thread
        )
        item_fetcher = ItemFetcher(client, evidence)

        async def fetch_item(item: InboxItem) -> InboxItem:
            return await item_fetcher(await alert_threads.fetch_item(item))

        dispatcher = Dispatcher(
            inbox,
            Leases(redis, clock, seconds=settings.lease_seconds, url=store.url),
            _build_turn_runner(store, graph_context),
            observers,
            clock=clock,
            timers=plan_timers,
            progress=report_publisher.publish_progress,
            fetch=fetch_item,
            home=alert_threads.resolve_thread,
            limits=TurnLimits(keep_closed=closed_retention),
            gate=build_quota_gate(policy.shares, store, inbox, graph_context, tenant_cards)
            if tenant_cards or settings.intake_keys
            else None,
            weight=lambda tenant: policy.shares.get_quota(tenant).turns if tenant else 1,
        )
        background_jobs = (
            Sweeper(inbox, wakeups).run,
            AbandonedMessageSweeper(status_messages, report_publisher.retry_pending_edits).run,
            Retention(settings, inbox.list_open_incidents, ClosedIncidentStore(redis), WallClock()).run,
            *([EvidenceRetrier(evidence).run] if isinstance(evidence, DirectoryEvidence) else ()),
            *provider.background_jobs,
            *tracker.background_jobs,
            lessons.follower.run,
        )
        front = run_front if role == "all" else contextlib.nullcontext
        async with run_dispatcher(dispatcher, wakeups, background_jobs), posts, answers, front():
            yield dispatcher.drain


async def drain_nothing() -> None:
    """Do nothing: a front end runs no turns."""


def _build_turn_runner(store: Store, graph_context: GraphContext) -> TurnRunner:
    """Import here, so that a front end does not load LangGraph."""
    from graph.checkpoints.checkpoint import RedisSaver
    from graph.incident.incident_graph import IncidentTurns

    return IncidentTurns(RedisSaver(store.redis), graph_context)
