"""Turns of a dispatcher whose items are only answered: nothing is examined or kept."""

from dataclasses import dataclass
from datetime import timedelta

from bot.slack.posted_messages import PostedCards
from graph.report import Report
from graph.state import InboxItem, IncidentState, Origin


@dataclass(frozen=True, slots=True)
class AnswerOnlyRunner:
    """`cards` remembers which answers were posted."""

    cards: PostedCards

    async def run_turn(self, item: InboxItem, origin: Origin | None) -> Report:
        return Report(item=item.id, outcome="abstained")

    async def load_state(self, incident: str) -> IncidentState:
        return {"lifecycle": "closed"}

    async def abandon_turn(self, item: InboxItem) -> None: ...

    async def prune_thread(self, incident: str, keep: timedelta | None) -> None:
        await self.cards.set_retention(incident, closed=True)
