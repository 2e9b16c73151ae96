"""The limit of simultaneous connection attempts: halved by drops, widened by successes, fair, and intact after
cancellation.
"""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.clock import PATIENCE
from tools.limiter import AdmissionControl


class Door:
    """An sshd that drops a connection if more than `room` are being opened."""

    def __init__(self, room: int, most: int, gain: float = 1.0) -> None:
        self.room, self.admission = room, AdmissionControl(most, gain)
        self.open, self.drops, self.widest = 0, 0, 0

    async def enter(self) -> None:
        """Retry until let in."""
        while True:
            async with self.admission.slot() as attempt:
                self.open += 1
                self.widest = max(self.widest, self.open)
                attempt.dropped = self.open > self.room
                await asyncio.sleep(0)
                self.open -= 1
            if not attempt.dropped:
                return
            self.drops += 1
            await asyncio.sleep(0)


async def test_all_connect_through_a_narrow_limit_with_few_drops() -> None:
    door = Door(room=5, most=50)
    await asyncio.gather(*(door.enter() for _ in range(400)))
    assert door.drops < 150
    assert door.admission.width <= 10


async def test_a_wide_door_is_used_whole() -> None:
    door = Door(room=1000, most=50)
    await asyncio.gather(*(door.enter() for _ in range(400)))
    assert (door.drops, door.widest, door.admission.width) == (0, 50, 50)


async def test_drops_of_one_moment_count_once() -> None:
    admission, held = AdmissionControl(16), asyncio.Event()

    async def dropped() -> None:
        async with admission.slot() as attempt:
            await held.wait()
            attempt.dropped = True

    tasks = [asyncio.create_task(dropped()) for _ in range(16)]
    await asyncio.sleep(0)
    held.set()
    await asyncio.gather(*tasks)
    assert admission.width == 8


async def test_a_bound_that_does_not_move_is_tried_seldom() -> None:
    door = Door(room=2, most=5, gain=0.1)
    await asyncio.gather(*(door.enter() for _ in range(400)))
    assert door.drops < 40


async def test_a_refusal_teaches_nothing() -> None:
    admission = AdmissionControl(8)
    with pytest.raises(OSError, match="refused"):
        async with admission.slot():
            raise OSError("refused")
    assert admission.width == 8


@given(st.lists(st.booleans(), min_size=1, max_size=40), st.integers(1, 6))
async def test_a_cancelled_waiter_takes_no_turn(gives_up: list[bool], most: int) -> None:
    admission, entered = AdmissionControl(most), list[int]()

    async def enter(number: int) -> None:
        async with admission.slot():
            await asyncio.sleep(0)
            entered.append(number)

    tasks = [asyncio.create_task(enter(number)) for number in range(len(gives_up))]
    await asyncio.sleep(0)
    for task, gone in zip(tasks, gives_up, strict=True):
        if gone:
            task.cancel()
    await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), PATIENCE)
    assert set(entered) >= {number for number, gone in enumerate(gives_up) if not gone}
    async with asyncio.timeout(PATIENCE), admission.slot():
        assert admission.width == most
