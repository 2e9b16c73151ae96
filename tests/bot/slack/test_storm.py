"""A hundred simultaneous mentions are each stored at their first delivery, regardless of rate limits on cards."""

import pytest

from tests.support.clock import PATIENCE
from tests.support.fakes_bot import OPS, slack_side

pytestmark = pytest.mark.slow


MOST = 100


@pytest.mark.tier2  # a flood at its full size
async def test_a_hundred_mentions_in_one_moment_are_stored_at_their_first_delivery() -> None:
    async with slack_side(ack=PATIENCE) as bot:
        for number in range(MOST):
            bot.slack.acts.say(
                "U0OLGA", OPS, f"<@U0RACKMED> training hangs on gpu-{number % 40 + 1:03} with NCCL timeout, number {number}", "", []
            )
        await bot.slack.quiet()
        counts = bot.slack.hub.counts
        assert not counts["timeouts"]  # no event was redelivered
        assert len({item.id for item in await bot.items()}) == MOST
        assert bot.slack.api.calls["users.info"] == 1  # one lookup for the one author of all mentions
