"""Wiring of lessons: workers draft them, operators decide in Slack."""

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta

import structlog

from bot.app.diagnosis_runtime import DiagnosisRuntime
from bot.incidents.cards.incident_menu import LabelChoices
from bot.incidents.context import HandlerContext
from bot.incidents.dispatch.inbox import Inbox
from bot.lessons.handlers import LessonCards, LessonHandlers
from bot.lessons.lesson_observer import LessonObserver
from bot.lessons.store import LessonStore
from bot.settings import Settings
from bot.slack.client import SLACK_ERRORS, SlackClient
from bot.slack.people import People
from bot.slack.posted_messages import EditableMessages, PostedCards
from bot.store.store import Store
from bot.tasks import run_periodically
from graph.context import GraphContext
from graph.learning.lessons import NodeTenantLookup, draft_lesson
from graph.state import IncidentState
from kb.history.index import PastIncidentIndex
from kb.history.lessons import AT_TERMINAL, Lesson, MistakeNotes, retire_if_faded
from tools.clock import Clock
from tools.inventory.inventory import Inventory

log = structlog.get_logger()
POLL_INTERVAL_SECONDS = 1.0  # how often decisions of other processes are noticed
RECENT_DECISION_WINDOW = timedelta(days=2)


@dataclass
class LessonFollower:
    """Keeps this process's history in step with lessons accepted or retired anywhere."""

    lessons: LessonStore
    history: PastIncidentIndex
    clock: Clock
    show: Callable[[Lesson], Awaitable[None]] | None = None
    mistakes: MistakeNotes = field(default_factory=MistakeNotes)
    _seen: tuple[int, date] | None = None
    _states: dict[str, str] | None = None

    async def run(self) -> None:
        await run_periodically("lessons", self.catch_up, POLL_INTERVAL_SECONDS)

    async def catch_up(self) -> None:
        """Apply changed lessons, and daily the fading of trust."""
        today = self.clock.now().date()
        now = await self.lessons.get_version(), today
        if now == self._seen:
            return
        every = await self.lessons.list_lessons()
        await self._retire_faded(every, today)
        await self._refresh_cards(every, today)
        accepted = [one for one in every if one.state == "accepted" and one.label and retire_if_faded(one, today) == one]
        self.mistakes.set_lessons(accepted)
        if await self.history.replace_lessons(one.to_past_incident(today) for one in accepted):
            self._seen = now

    async def _retire_faded(self, every: Iterable[Lesson], today: date) -> None:
        """Retire lessons that went unconfirmed too long. The first process to notice does it."""
        for one in every:
            if (
                retire_if_faded(one, today) != one
                and (after := await self.lessons.update_lesson(one.id, lambda now: retire_if_faded(now, today))) is not None
            ):
                await self._show_lesson(after)

    async def _refresh_cards(self, every: Iterable[Lesson], today: date) -> None:
        """Redraw cards of recent decisions: all at start, after a possible crash; later those made in a terminal."""
        for one in every:
            here = self._states is None or (one.by == AT_TERMINAL and self._states.get(one.id) != one.state)
            if here and one.settled is not None and today - one.settled <= RECENT_DECISION_WINDOW:
                await self._show_lesson(one)
        self._states = {one.id: one.state for one in every}

    async def _show_lesson(self, lesson: Lesson) -> None:
        if self.show is None:
            return
        try:
            await self.show(lesson)
        except SLACK_ERRORS as trouble:
            log.warning("lessons.not_painted", lesson=lesson.id, error=str(trouble)[:200])


@dataclass(frozen=True, slots=True)
class LessonServices:
    lessons: LessonStore
    cards: LessonCards
    ports: GraphContext
    following: LessonFollower

    def build_handlers(self, context: HandlerContext, label_choices: LabelChoices) -> LessonHandlers:
        return LessonHandlers(context, self.lessons, self.cards, label_choices)

    @property
    def observer(self) -> LessonObserver:
        return LessonObserver(self.lessons, self._draft_lesson, self.cards.update_card, self.ports.clock)

    def _draft_lesson(self, state: IncidentState, now: datetime) -> Lesson | None:
        inventory = self.ports.inventory
        return draft_lesson(
            state, now, self.ports.taxonomy.leaves, lambda hosts: _list_tenants(inventory, hosts), _build_tenant_lookup(inventory)
        )


def build_lesson_services(
    settings: Settings, store: Store, runtime: DiagnosisRuntime, client: SlackClient, cards: PostedCards, inbox: Inbox, people: People
) -> LessonServices:
    titles = {leaf.label: leaf.title for leaf in runtime.ports.taxonomy.leaves.values()}
    kept = EditableMessages(client, cards)
    lessons = LessonStore(store.redis)
    cards_of = LessonCards(kept, inbox, people, titles)
    following = LessonFollower(lessons, runtime.history, runtime.ports.clock, cards_of.update_card, mistakes=runtime.mistakes)
    return LessonServices(lessons, cards_of, runtime.ports, following)


def _build_tenant_lookup(inventory: Inventory) -> NodeTenantLookup | None:
    """Return Slurm node name → tenant, or None if no host has one."""
    known = {host.slurm_name: host.tenant for host in inventory.hosts.values()}
    return known.get if any(known.values()) else None


def _list_tenants(inventory: Inventory, hosts: Iterable[str]) -> frozenset[str]:
    known = (inventory.hosts.get(host) for host in hosts)
    return frozenset(row.tenant for row in known if row is not None and row.tenant)
