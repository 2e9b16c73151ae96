"""Lessons put together: drafted by whoever takes turns, decided about in Slack."""

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field, replace
from datetime import date, datetime, timedelta

import structlog

from bot.desk.desk import Board
from bot.desk.inbox import Inbox
from bot.run.world import World
from bot.settings import Settings
from bot.slack.client import SLACK_TROUBLE, SlackClient
from bot.slack.context import Surface
from bot.slack.lessons.office import LessonCards, LessonDesk
from bot.slack.lessons.teaching import TeachingBoard
from bot.slack.outgoing.posts import KeptMessages, PostedCards
from bot.slack.people import People
from bot.store.lessons import Lessons
from bot.store.store import Store
from bot.tasks import run_periodically
from graph.learning.lessons import TenantOfNode, drafted
from graph.ports import Ports
from graph.state import Incident
from kb.history.index import History
from kb.history.lessons import AT_TERMINAL, Lesson, faded
from kb.history.mistakes import MistakeBook
from tools.clock import Clock
from tools.inventory.hosts import Inventory

log = structlog.get_logger()
EVERY = 1.0
"""Seconds between two looks whether something was decided anywhere."""
LATELY = timedelta(days=2)


@dataclass
class Following:
    """Brings what people accepted, in whichever process, into this one's history, and takes out what is used no more."""

    lessons: Lessons
    history: History
    clock: Clock
    show: Callable[[Lesson], Awaitable[None]] | None = None
    mistakes: MistakeBook = field(default_factory=MistakeBook)
    _seen: tuple[int, date] | None = None
    _states: dict[str, str] | None = None

    async def run(self) -> None:
        """Catch up until cancelled."""
        await run_periodically("lessons", self.once, EVERY)

    async def once(self) -> None:
        """Catch up with what changed, and with a new day, by which trust fades."""
        today = self.clock.now().date()
        now = await self.lessons.version(), today
        if now == self._seen:
            return
        every = await self.lessons.all()
        await self._fade(every, today)
        await self._mend(every, today)
        accepted = [one for one in every if one.state == "accepted" and one.label and faded(one, today) == one]
        self.mistakes.know(accepted)
        if await self.history.learn(one.past(today) for one in accepted):
            self._seen = now

    async def _fade(self, every: Iterable[Lesson], today: date) -> None:
        """Retire what nothing bore out for too long, and let it be seen; by whichever process notices first."""
        for one in every:
            if faded(one, today) != one and (after := await self.lessons.change(one.id, lambda now: faded(now, today))) is not None:
                await self._shown(after)

    async def _mend(self, every: Iterable[Lesson], today: date) -> None:
        """Cards of what was settled lately are drawn as it stands: of all when a process begins, where one died between the store and its card; later
        of what nobody settled by a click, in a terminal."""
        for one in every:
            here = self._states is None or (one.by == AT_TERMINAL and self._states.get(one.id) != one.state)
            if here and one.settled is not None and today - one.settled <= LATELY:
                await self._shown(one)
        self._states = {one.id: one.state for one in every}

    async def _shown(self, lesson: Lesson) -> None:
        if self.show is None:
            return
        try:
            await self.show(lesson)
        except SLACK_TROUBLE as trouble:
            log.warning("lessons.not_painted", lesson=lesson.id, error=str(trouble)[:200])


@dataclass(frozen=True, slots=True)
class LessonLine:
    """What a process has of it."""

    lessons: Lessons
    cards: LessonCards
    ports: Ports
    following: Following

    def dressed(self, surface: Surface) -> Surface:
        """The surface with the buttons and the form."""
        return replace(surface, teaching=LessonDesk(surface, self.lessons, self.cards))

    def watching(self, board: Board) -> Board:
        """A board that has closed incidents teach."""
        return TeachingBoard(board, self.lessons, self._drafted, self.cards.show, self.ports.clock)

    def _drafted(self, state: Incident, now: datetime) -> Lesson | None:
        inventory = self.ports.inventory
        return drafted(state, now, self.ports.taxonomy.leaves, lambda hosts: _tenants(inventory, hosts), _tenant_of_node(inventory))


def lesson_line(
    settings: Settings, store: Store, world: World, client: SlackClient, cards: PostedCards, inbox: Inbox, people: People
) -> LessonLine:
    """Over one store."""
    titles = {leaf.label: leaf.title for leaf in world.ports.taxonomy.leaves.values()}
    kept = KeptMessages(client, cards)
    lessons = Lessons(store.redis)
    cards_of = LessonCards(kept, inbox, people, titles)
    following = Following(lessons, world.history, world.ports.clock, cards_of.show, mistakes=world.mistakes)
    return LessonLine(lessons, cards_of, world.ports, following)


def _tenant_of_node(inventory: Inventory) -> TenantOfNode | None:
    """Whose a host is by the scheduler's name for it; None where no host is a tenant's."""
    known = {host.slurm_name: host.tenant for host in inventory.hosts.values()}
    return known.get if any(known.values()) else None


def _tenants(inventory: Inventory, hosts: Iterable[str]) -> frozenset[str]:
    """Whose these hosts are."""
    known = (inventory.hosts.get(host) for host in hosts)
    return frozenset(row.tenant for row in known if row is not None and row.tenant)
