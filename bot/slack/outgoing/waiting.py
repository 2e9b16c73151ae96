"""What a customer over their share is told in their thread: that it is kept, and when it goes on. Once for each thing that waits."""

from datetime import datetime
from typing import Final

import structlog

from bot.cards.customers import living
from bot.cards.customers.phrases import phrase
from bot.policy.shares import Limit, Over, Share
from bot.slack.client import SLACK_TROUBLE
from bot.slack.outgoing.customers import CustomerCards
from bot.slack.outgoing.posts import Once
from graph.state import Item, Origin

log = structlog.get_logger()
TOLD: Final = "rackmedic_customer_waits"


class CustomerWaits:
    """Said with the customer's cards, in their language."""

    def __init__(self, cards: CustomerCards) -> None:
        self._cards = cards

    async def tell(self, origin: Origin, item: Item, no: Over, share: Share) -> None:
        """Slack's trouble is written down and no more: it waits as well unsaid."""
        where = self._cards.theirs(origin)
        if where is None:
            return
        said = living.said(words(no, share, self._cards.language(origin)))
        marked = {"event_type": TOLD, "event_payload": {"about": item.id}}
        once = Once(self._cards.client, self._cards.kept.cards)
        try:
            await once.post(where, item.incident, f"waits:{item.id}", said, marked)
        except SLACK_TROUBLE as trouble:
            log.warning("customers.wait_not_told", incident=item.incident, error=str(trouble)[:200])


def words(no: Over, share: Share, language: str) -> str:
    """One line: which limit, how much it is, when it goes on."""
    most = {Limit.INCIDENTS: share.incidents, Limit.MENTIONS: share.mentions_per_hour}
    return phrase(f"wait_{no.limit}", language, most=str(most[no.limit]), when=_clock(no.until))


def _clock(at: datetime | None) -> str:
    return f"{at:%H:%M} UTC" if at else ""
