"""The observers of a turn as the bot has them, on one Redis and the Slack sandbox, for processes that are killed."""

from collections.abc import Mapping
from datetime import timedelta
from functools import partial
from typing import Any, cast

from redis.asyncio import Redis

from bot.incidents.dispatch.closed_incidents import update_closed_incident
from bot.incidents.dispatch.dispatcher import REPORT_OBSERVER, TurnObserver
from bot.incidents.dispatch.inbox import Inbox
from bot.incidents.dispatch.metrics_store import IncidentMetricsStore, record_metrics
from bot.incidents.dispatch.thread_activity import ThreadActivity
from bot.incidents.publishing.progress_updates import ProgressUpdates
from bot.incidents.publishing.report_attachments import ReportAttachments
from bot.incidents.publishing.report_publisher import SlackReportPublisher
from bot.lessons.handlers import LessonCards
from bot.lessons.lesson_observer import LessonObserver
from bot.lessons.store import LessonStore
from bot.policy.channels import build_channel_bindings
from bot.provider.handlers import ProviderCards
from bot.remediation.action_index import ActionIndex
from bot.remediation.action_runtime import ActionWorker
from bot.reports.drawing_source import DrawingSource
from bot.slack.client import build_slack_client
from bot.slack.people import People
from bot.slack.posted_messages import EditableMessages, PendingMessages, PostedCards
from bot.store.closed_incident_index import ClosedIncidentIndex
from bot.store.external_outbox import Outbox, build_provider_outbox_keys
from bot.tasks import BackgroundTasks
from bot.tenants.tenant_cards import TenantCards
from graph.context import find_no_closed_incidents
from graph.learning.lesson_drafts import draft_lesson
from graph.report import MatchedLesson, Report
from graph.state import HandoffTicket, IncidentState, RemediationStep
from kb.customers.cause_words import load_customer_words
from kb.taxonomy.loader import load_taxonomy
from tests.support.clock import WallClock
from tests.support.fakes_bot import ACME, OPS, living_messages, load_no_facts, load_no_records, load_no_state
from tests.support.fakes_desk import Point, TinyTurns, straight_on
from tests.support.inventories import inventory
from tests.support.lessons import DEAD, MENDED, closed
from tools.evidence import MemoryEvidence

SITE = inventory(
    groups={"acme": {"hosts": "gpu-[017-018]", "tenant": "acme"}},
    channels=[{"channel": OPS, "kind": "operators"}, {"channel": ACME, "kind": "tenant", "tenant": "acme", "internal": OPS}],
)
BOUND = build_channel_bindings(SITE.channels)
TAXONOMY = load_taxonomy()
OBSERVERS = ("metrics", "history", REPORT_OBSERVER, "tenant", "provider", "remediation", "lessons", "thread")
RECALLED = MatchedLesson(lesson="les-known", label=DEAD, incident="inc-0", on="2026-05-03", title="it hangs", score=0.6)
FIX = MENDED.model_copy(update={"rungs": (RemediationStep(remedy="drain_node", args={"node": "gpu-017"}),), "rung": 0})
TICKET = HandoffTicket(summary="reseat the riser", true_label=DEAD, closed_by="U0OLGA")


class ClosingTurns(TinyTurns):
    """Turns that end with a closed incident: a proven fix, a ticket, a recalled lesson."""

    def __init__(self, redis: Redis, at: Point = straight_on) -> None:
        super().__init__(redis, at)
        self._inbox = Inbox(redis, WallClock())

    async def load_state(self, incident: str) -> IncidentState:
        state = await super().load_state(incident)
        origin = await self._inbox.get_origin(incident)
        more = {
            "origin": origin.model_dump(mode="json") if origin else {},
            "ticket": TICKET.model_dump(mode="json"),
            "turn": {"recalled": [RECALLED.model_dump(mode="json")]},
        }
        return cast(IncidentState, {**state, **closed(incident, ladder=FIX), **more, "item": state["item"]})


async def wake_nobody(name: str) -> None:
    """Do nothing."""


def build_observers(redis: Redis, inbox: Inbox, token: str, api_url: str) -> Mapping[str, TurnObserver]:
    clock, client, cards = WallClock(), build_slack_client(token, api_url), PostedCards(redis)
    people, kept, tasks = People(client), EditableMessages(client, cards), BackgroundTasks()
    living = ProgressUpdates(living_messages(client, redis, people, inbox.get_origin, clock, tasks), tasks)
    evidence = MemoryEvidence()
    attachments = ReportAttachments(client, cards, evidence, DrawingSource(evidence, people.get_name))
    publisher = SlackReportPublisher(client, cards, living, people, inbox.get_origin, evidence, load_no_state, attachments, BOUND)
    words, pending = load_customer_words(TAXONOMY), PendingMessages(redis, clock)
    sources = load_no_state, load_no_records, load_no_facts, find_no_closed_incidents
    tenant = TenantCards(client, kept, inbox, SITE, words, BOUND, people, pending, *sources)
    provider = ProviderCards(client, kept, inbox, people, Outbox(redis, clock, build_provider_outbox_keys()), TAXONOMY)
    absent: Any = None  # runs nothing here
    actions = ActionWorker(absent, absent, absent, ActionIndex(redis, clock), wake_nobody)
    lessons = LessonObserver(
        LessonStore(redis),
        lambda state, now: draft_lesson(state, now, TAXONOMY.leaves, lambda hosts: frozenset(), None),
        LessonCards(kept, inbox, people, TAXONOMY.titles).update_card,
        clock,
    )
    closed_incidents = ClosedIncidentIndex(redis, lambda reader, other: "whole", timedelta(days=30))
    found: tuple[TurnObserver, ...] = (
        partial(record_metrics, IncidentMetricsStore(redis), clock),
        partial(update_closed_incident, closed_incidents, clock),
        publisher.publish_report,
        tenant.update_after_turn,
        provider.update_after_turn,
        actions.schedule_after_turn,
        lessons.observe_turn,
        ThreadActivity(redis, clock).record_report,
    )
    return dict(zip(OBSERVERS, found, strict=True))


def watch_observers(redis: Redis, observers: Mapping[str, TurnObserver], at: Point) -> Mapping[str, TurnObserver]:
    """Call `NAME:begin` and `NAME:end` around each observer, and count its calls in the sorted set `ran`."""

    def watched(name: str, observe: TurnObserver) -> TurnObserver:
        async def run(incident: str, state: IncidentState, report: Report) -> None:
            await redis.zincrby("ran", 1, name)
            await at(f"{name}:begin")
            await observe(incident, state, report)
            await at(f"{name}:end")

        return run

    return {name: watched(name, observe) for name, observe in observers.items()}
