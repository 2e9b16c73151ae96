"""Turns of a desk whose items are only answered: nothing is looked at, and nothing is kept of them."""

from dataclasses import dataclass
from datetime import timedelta

from bot.slack.outgoing.posts import PostedCards
from graph.ports import Progress
from graph.report import Report
from graph.state import Incident, Item, Origin


@dataclass(frozen=True, slots=True)
class NoTurns:
    """`cards` remembers which answers were posted."""

    cards: PostedCards

    async def run(self, item: Item, origin: Origin | None) -> Report:
        return Report(item=item.id, outcome="abstained")

    async def state(self, incident: str) -> Incident:
        return {"lifecycle": "closed"}

    async def abandon(self, item: Item) -> None:
        """Nothing is kept of a turn."""

    async def tidy(self, incident: str, keep: timedelta | None) -> None:
        await self.cards.keep(incident, closed=True)

    async def progress(self, p: Progress) -> None:
        """Nobody is told."""
