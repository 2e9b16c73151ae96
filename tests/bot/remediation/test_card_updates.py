"""Updates of an approval card are retried after failures, a limited number of times."""

from collections.abc import Sequence
from typing import Any

import pytest

from bot.remediation.approval_buttons import RETRY_DELAYS_SECONDS, update_card_with_retries
from bot.slack.rate_limits import SlackTurnTimeout
from tests.bot.remediation.cards.test_approval_cards import record_of


class Painter:
    """Fails with each of these errors in turn, then succeeds."""

    def __init__(self, *troubles: Exception) -> None:
        self.troubles, self.painted = list(troubles), 0

    async def update_card(self, record: Any) -> None:
        if self.troubles:
            raise self.troubles.pop(0)
        self.painted += 1


class Pauses(list[float]):
    async def __call__(self, seconds: float) -> None:
        self.append(seconds)


@pytest.mark.parametrize("troubles", [0, 1, 3, len(RETRY_DELAYS_SECONDS)])
async def test_it_is_updated_once_after_as_many_failures_as_pauses(troubles: int) -> None:
    painter, pauses = Painter(*(SlackTurnTimeout("later") for _ in range(troubles))), Pauses()
    assert await update_card_with_retries(painter, record_of(), pause=pauses)  # type: ignore[arg-type]  # the part of Show that is used
    assert (painter.painted, pauses) == (1, list(RETRY_DELAYS_SECONDS[:troubles]))


async def test_retries_are_limited_and_do_not_raise() -> None:
    painter, pauses = Painter(*(OSError("no route to Slack") for _ in range(99))), Pauses()
    assert not await update_card_with_retries(painter, record_of(), pause=pauses)  # type: ignore[arg-type]  # likewise
    assert (painter.painted, pauses) == (0, list(RETRY_DELAYS_SECONDS))
    assert len(painter.troubles) == 99 - len(RETRY_DELAYS_SECONDS) - 1


async def test_every_kind_of_error_is_retried() -> None:
    troubles: Sequence[Exception] = (ZeroDivisionError("a bug"), KeyError("ts"), TimeoutError())
    painter, pauses = Painter(*troubles), Pauses()
    assert await update_card_with_retries(painter, record_of(), pause=pauses)  # type: ignore[arg-type]  # likewise


def test_retries_last_at_least_a_minute_with_growing_pauses() -> None:
    assert sum(RETRY_DELAYS_SECONDS) >= 60
    assert list(RETRY_DELAYS_SECONDS) == sorted(RETRY_DELAYS_SECONDS)
