"""Whether a customer's item may begin: their share is asked once an item, before its turn; whoever must wait is told, once an item."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from bot.desk.inbox import Inbox
from bot.policy.shares import Over, Share, Shares, ShareUsed, over
from bot.store.share_waits import ShareWaits
from bot.store.shares import RedisShares
from graph.incident.lifecycle import answered
from graph.rows import IncidentRows
from graph.state import CUSTOMER, SIDE, Incident, Item, Origin
from tools.clock import Clock

Tell = Callable[[Origin, Item, Over, Share], Awaitable[None]]
"""Say it in the customer's thread, once an item. Never raises for Slack's sake."""
A_PERSON: Final = "hand_off"
"""The kind of item that asks for a person: nobody waits for that."""


def nobodys(label: str) -> bool:
    """No cause is the customer's to mend."""
    return False


@dataclass(frozen=True, slots=True)
class TenantShares:
    """The gate before turns, where customers are served or their tickets taken in."""

    table: Shares
    used: RedisShares
    waits: ShareWaits
    inbox: Inbox
    clock: Clock
    tell: Tell
    theirs: Callable[[str], bool] = nobodys
    """Whether a cause, by its label, is the customer's to mend."""

    async def until(self, item: Item) -> datetime | None:
        """None: its turn may begin, which is noted. Else when to ask again."""
        origin = await self._origin(item)
        if origin is None or item.data.get(SIDE) != CUSTOMER:
            return None
        waiting = await self.inbox.peek(item.incident)
        ours = any(one.kind == A_PERSON or one.data.get(SIDE) != CUSTOMER for one in waiting) or await self.waits.is_let_in(item.incident)
        share, now = self.table.of(origin.tenant), self.clock.now()

        def decide(used: ShareUsed) -> Over | None:
            return None if ours else over(share, used, now, opens=item.kind == "mention")

        no = await self.used.begin(origin.tenant, item.incident, item.id, decide)
        if no is None:
            await self.waits.begun(origin.tenant, item.incident)
            return None
        await self.waits.note(origin.tenant, item.incident, no)
        await self.tell(origin, item, no, share)
        return no.again_at(now)

    async def told(self, item: Item, state: Incident) -> None:
        """What is answered takes no place of their incidents until something of theirs begins in it."""
        if (origin := await self._origin(item)) is not None and answered(IncidentRows(state), self.theirs):
            await self.used.rests(origin.tenant, item.incident)

    async def _origin(self, item: Item) -> Origin | None:
        """Of an incident that a customer reported, in their channel or as a ticket of their own RackMedic; None for our own."""
        origin = await self.inbox.origin(item.incident)
        return origin if origin and origin.tenant and (origin.customer or origin.ticket) else None
