"""Lessons put together: drafted by whoever takes turns, decided about in Slack."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime

from bot.desk.desk import Board
from bot.desk.inbox import Inbox
from bot.settings import Settings
from bot.slack.client import SlackClient
from bot.slack.context import Surface
from bot.slack.lessons.office import LessonCards, LessonDesk
from bot.slack.lessons.teaching import TeachingBoard
from bot.slack.outgoing.posts import KeptMessages, PostedCards
from bot.slack.people import People
from bot.store.lessons import Lessons
from bot.store.store import Store
from graph.learning.lessons import drafted
from graph.ports import Ports
from graph.state import Incident
from kb.history.lessons import Lesson
from tools.inventory.hosts import Inventory


@dataclass(frozen=True, slots=True)
class LessonLine:
    """What a process has of it."""

    lessons: Lessons
    cards: LessonCards
    ports: Ports

    def dressed(self, surface: Surface) -> Surface:
        """The surface with the buttons and the form."""
        return replace(surface, teaching=LessonDesk(surface, self.lessons, self.cards))

    def watching(self, board: Board) -> Board:
        """A board that has closed incidents teach."""
        return TeachingBoard(board, self.lessons, self._drafted, self.cards.show, self.ports.clock)

    def _drafted(self, state: Incident, now: datetime) -> Lesson | None:
        return drafted(state, now, self.ports.taxonomy.leaves, lambda hosts: _tenants(self.ports.inventory, hosts))


def lesson_line(
    settings: Settings, store: Store, ports: Ports, client: SlackClient, cards: PostedCards, inbox: Inbox, people: People
) -> LessonLine:
    """Over one store."""
    titles = {leaf.label: leaf.title for leaf in ports.taxonomy.leaves.values()}
    kept = KeptMessages(client, cards, plans=settings.plan_blocks)
    return LessonLine(Lessons(store.redis), LessonCards(kept, inbox, people, titles), ports)


def _tenants(inventory: Inventory, hosts: Iterable[str]) -> frozenset[str]:
    """Whose these hosts are."""
    known = (inventory.hosts.get(host) for host in hosts)
    return frozenset(row.tenant for row in known if row is not None and row.tenant)
