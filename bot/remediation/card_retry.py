"""Update a card with retries when Slack fails."""

import asyncio
from collections.abc import Awaitable, Callable

import structlog

from bot.remediation.action_runner import ActionCardPublisher
from tools.ledger.record import ActionRecord

log = structlog.get_logger()
# After the last try only the runner's next update corrects the card.
RETRY_DELAYS_SECONDS = (1.0, 3.0, 10.0, 20.0, 30.0)


async def update_card_with_retries(
    show: ActionCardPublisher, record: ActionRecord, *, pause: Callable[[float], Awaitable[None]] = asyncio.sleep
) -> bool:
    """Return whether the card was updated in the end."""
    for seconds in (*RETRY_DELAYS_SECONDS, None):
        try:
            await show.update_card(record)
        except Exception as error:
            log.warning(
                "card.not_painted", approval=record.approval, error=f"{type(error).__name__}: {error}"[:300]
            )  # any error may be temporary
        else:
            return True
        if seconds is not None:
            await pause(seconds)
    return False
