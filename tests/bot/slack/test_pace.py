"""Pacing of Slack calls: no delay until a refusal, then one at a time by priority, with a maximum wait."""

import asyncio

import pytest

from bot.slack.rate_limits import MAX_WAIT_SECONDS, MethodGate, RateLimits, SlackTurnTimeout, Urgency, with_urgency
from tests.support.virtual_loop import Tier, virtually


async def call(gate: MethodGate, tier: Tier) -> float:
    """Call until it succeeds and return when."""
    while True:
        await gate.wait_turn()
        if not (after := tier.wait()):
            return asyncio.get_running_loop().time()
        await gate.apply_retry_after(after)


def test_calls_do_not_wait_while_slack_refuses_nothing() -> None:
    async def story() -> None:
        gate = MethodGate(50)
        for _ in range(500):
            await gate.wait_turn()
        assert asyncio.get_running_loop().time() == 0.0

    virtually(story())


def test_a_hundred_cards_are_repainted_within_a_minute_of_a_tier_that_takes_fifty_and_few_are_refused() -> None:
    async def story() -> None:
        gate, tier = MethodGate(50, longest=120), Tier(50)
        done = await asyncio.gather(*(call(gate, tier) for _ in range(100)))
        assert max(done) <= 61.0
        assert tier.refused <= 52  # calls in flight at the first refusal

    virtually(story())


def test_cards_with_buttons_go_before_what_only_tells() -> None:
    async def story() -> None:
        gate, order = MethodGate(60), list[Urgency]()
        await gate.apply_retry_after(1)

        async def one(how: Urgency) -> None:
            with with_urgency(how):
                await gate.wait_turn()
            order.append(how)

        await asyncio.gather(
            *(one(how) for how in (Urgency.PROGRESS, Urgency.ANSWER, Urgency.DECISION, Urgency.PROGRESS, Urgency.DECISION))
        )
        assert order == sorted(order)

    virtually(story())


def test_what_slack_said_is_kept_by_all_who_call_the_method() -> None:
    async def story() -> None:
        gate = MethodGate(60)
        await gate.apply_retry_after(9)
        await asyncio.gather(gate.wait_turn(), gate.wait_turn())
        assert asyncio.get_running_loop().time() == 10.0

    virtually(story())


def test_a_call_that_would_wait_too_long_fails_and_takes_no_turn() -> None:
    async def story() -> None:
        gate = MethodGate(60)
        await gate.apply_retry_after(MAX_WAIT_SECONDS + 10)
        with pytest.raises(SlackTurnTimeout):
            await gate.wait_turn()
        assert asyncio.get_running_loop().time() == MAX_WAIT_SECONDS
        later = asyncio.create_task(gate.wait_turn())
        await later
        assert asyncio.get_running_loop().time() == MAX_WAIT_SECONDS + 10

    virtually(story())


def test_posting_is_counted_by_channel_and_everything_else_is_not() -> None:
    pace = RateLimits()
    assert pace.get_gate("chat.postMessage", "C1") is not pace.get_gate("chat.postMessage", "C2")
    assert pace.get_gate("chat.update", "C1") is pace.get_gate("chat.update", "C2")


class OneRow:
    """`SharedCallTurns` shared by several gates of one event loop, in its time."""

    def __init__(self) -> None:
        self.free: dict[str, float] = {}

    async def is_rate_limited(self, name: str) -> bool:
        return self.free.get(name, -1.0) >= asyncio.get_running_loop().time()

    async def reserve_slot(self, name: str, each: float) -> float:
        now = asyncio.get_running_loop().time()
        turn = max(now, self.free.get(name, 0.0))
        self.free[name] = turn + each
        return turn - now

    async def apply_retry_after(self, name: str, seconds: float, each: float) -> None:
        self.free[name] = max(self.free.get(name, 0.0), asyncio.get_running_loop().time() + seconds)


async def _of_four(others: OneRow | None) -> tuple[int, float]:
    """Return (refused calls, time of the last success) of two hundred calls by four processes."""
    tier = Tier(50)
    gates = [MethodGate(50, longest=300, name="chat.update", others=others) for _ in range(4)]
    done = await asyncio.gather(*(call(gates[n % 4], tier) for n in range(200)))
    return tier.refused, max(done)


def test_four_processes_that_share_their_turns_are_refused_no_more_than_one() -> None:
    async def story() -> None:
        alone, _ = await _of_four(None)
        at = asyncio.get_running_loop().time()
        shared, last = await _of_four(OneRow())
        assert shared <= 160  # calls in flight at the first refusal, and a few more
        assert alone >= shared + 150
        assert last - at <= 185.0

    virtually(story())


def test_one_process_hears_that_another_was_refused() -> None:
    async def story() -> None:
        row = OneRow()
        one, other = (MethodGate(60, name="chat.update", others=row) for _ in range(2))
        await one.apply_retry_after(9)
        await other.wait_turn()
        assert asyncio.get_running_loop().time() == 9.0

    virtually(story())
