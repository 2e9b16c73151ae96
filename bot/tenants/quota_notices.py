"""Tell a tenant over quota, once per waiting item, that the message is kept and when it continues."""

from datetime import datetime
from typing import Final

import structlog

from bot.policy.quotas import ExceededLimit, Quota, QuotaLimit
from bot.slack.client import SLACK_ERRORS
from bot.slack.posted_messages import IdempotentPoster
from bot.tenants.cards import tenant_card
from bot.tenants.cards.phrases import get_phrase
from bot.tenants.tenant_cards import TenantCards
from graph.state import InboxItem, Origin

log = structlog.get_logger()
NOTICE_EVENT_TYPE: Final = "rackmedic_customer_waits"


class QuotaNotices:
    def __init__(self, cards: TenantCards) -> None:
        self._cards = cards

    async def post_notice(self, origin: Origin, item: InboxItem, limit: ExceededLimit, quota: Quota) -> None:
        """Post the notice. A Slack error is only logged: the item waits anyway."""
        place = self._cards.get_tenant_place(origin)
        if place is None:
            return
        text_card = tenant_card.render_text_card(render_notice(limit, quota, self._cards.get_language(origin)))
        marked = {"event_type": NOTICE_EVENT_TYPE, "event_payload": {"about": item.id}}
        once = IdempotentPoster(self._cards.client, self._cards.editable_messages.cards)
        try:
            await once.post_once(place, item.incident, f"waits:{item.id}", text_card, marked)
        except SLACK_ERRORS as error:
            log.warning("quota.notice_not_sent", incident=item.incident, error=str(error)[:200])


def render_notice(limit: ExceededLimit, quota: Quota, language: str) -> str:
    """Return one line: the limit, its size, when it continues."""
    limits = {QuotaLimit.INCIDENTS: quota.incidents, QuotaLimit.MENTIONS: quota.mentions_per_hour}
    return get_phrase(f"wait_{limit.limit}", language, most=str(limits[limit.limit]), when=_format_clock(limit.until))


def _format_clock(at: datetime | None) -> str:
    return f"{at:%H:%M} UTC" if at else ""
