"""A card that must show what the ledger holds, painted until it does: Slack may be away, or have no turn for it now."""

import asyncio
from collections.abc import Awaitable, Callable

import structlog

from bot.remediation.action_runner import ActionCardPublisher
from tools.ledger.record import ActionRecord

log = structlog.get_logger()
RETRY_DELAYS_SECONDS = (1.0, 3.0, 10.0, 20.0, 30.0)
"""Seconds before the next try. After the last one the driver's own look, when the record moves again, is what is left."""


async def update_card_with_retries(
    show: ActionCardPublisher, record: ActionRecord, *, pause: Callable[[float], Awaitable[None]] = asyncio.sleep
) -> bool:
    """Whether it was shown in the end."""
    for seconds in (*RETRY_DELAYS_SECONDS, None):
        try:
            await show.update_card(record)
        except Exception as why:
            log.warning(
                "card.not_painted", approval=record.approval, error=f"{type(why).__name__}: {why}"[:300]
            )  # whatever it was, it may pass
        else:
            return True
        if seconds is not None:
            await pause(seconds)
    return False
