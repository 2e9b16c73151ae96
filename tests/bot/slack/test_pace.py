"""How fast Slack is called: nobody waits while it refuses nothing; after that one at a time, the most urgent first, and never for too long."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from bot.slack.pace import LONGEST, Gate, Pace, SlackCrowded, Urgency, urgent


class VirtualLoop(asyncio.SelectorEventLoop):
    """Time passes at once when there is nothing to do but wait."""

    def __init__(self) -> None:
        super().__init__()
        self.passed = 0.0

    def time(self) -> float:
        return self.passed

    def _run_once(self) -> None:
        if not self._ready and self._scheduled:  # type: ignore[attr-defined]  # asyncio's own, untyped
            self.passed = max(self.passed, self._scheduled[0]._when)  # type: ignore[attr-defined]  # likewise
        super()._run_once()  # type: ignore[misc]  # likewise


def virtually(work: Coroutine[Any, Any, Any]) -> None:
    """Run to its end in no time."""
    loop = VirtualLoop()
    try:
        loop.run_until_complete(work)
    finally:
        loop.close()


class Tier:
    """Slack as it counts one method: a bucket, and Retry-After once it is empty."""

    def __init__(self, per_minute: float) -> None:
        self.per_second, self.left, self.at, self.refused = per_minute / 60, per_minute, 0.0, 0
        self.most = per_minute

    def wait(self) -> float:
        now = asyncio.get_running_loop().time()
        self.left, self.at = min(self.most, self.left + (now - self.at) * self.per_second), now
        if self.left < 1:
            self.refused += 1
            return float(-(-(1 - self.left) // self.per_second) or 1)
        self.left -= 1
        return 0.0


async def call(gate: Gate, tier: Tier) -> float:
    """One call that comes through, and when."""
    while True:
        await gate.turn()
        if not (after := tier.wait()):
            return asyncio.get_running_loop().time()
        gate.rest(after)


def test_nobody_waits_while_slack_refuses_nothing() -> None:
    async def story() -> None:
        gate = Gate(50)
        for _ in range(500):
            await gate.turn()
        assert asyncio.get_running_loop().time() == 0.0

    virtually(story())


def test_a_hundred_cards_are_repainted_within_a_minute_of_a_tier_that_takes_fifty_and_few_are_refused() -> None:
    async def story() -> None:
        gate, tier = Gate(50, longest=120), Tier(50)
        done = await asyncio.gather(*(call(gate, tier) for _ in range(100)))
        assert max(done) <= 61.0
        assert tier.refused <= 52  # those that were on their way when the first of them was refused

    virtually(story())


def test_cards_with_buttons_go_before_what_only_tells() -> None:
    async def story() -> None:
        gate, order = Gate(60), list[Urgency]()
        gate.rest(1)

        async def one(how: Urgency) -> None:
            with urgent(how):
                await gate.turn()
            order.append(how)

        await asyncio.gather(
            *(one(how) for how in (Urgency.PROGRESS, Urgency.ANSWER, Urgency.DECISION, Urgency.PROGRESS, Urgency.DECISION))
        )
        assert order == sorted(order)

    virtually(story())


def test_what_slack_said_is_kept_by_all_who_call_the_method() -> None:
    async def story() -> None:
        gate = Gate(60)
        gate.rest(9)
        await asyncio.gather(gate.turn(), gate.turn())
        assert asyncio.get_running_loop().time() == 10.0

    virtually(story())


def test_whoever_would_wait_for_too_long_is_told_so_and_takes_no_turn() -> None:
    async def story() -> None:
        gate = Gate(60)
        gate.rest(LONGEST + 10)
        with pytest.raises(SlackCrowded):
            await gate.turn()
        assert asyncio.get_running_loop().time() == LONGEST
        later = asyncio.create_task(gate.turn())
        await later
        assert asyncio.get_running_loop().time() == LONGEST + 10

    virtually(story())


def test_posting_is_counted_by_channel_and_everything_else_is_not() -> None:
    pace = Pace()
    assert pace.of("chat.postMessage", "C1") is not pace.of("chat.postMessage", "C2")
    assert pace.of("chat.update", "C1") is pace.of("chat.update", "C2")
