"""The number of hosts asked at once grows as hosts finish or time passes."""

import asyncio
from contextlib import AsyncExitStack

from tests.support.clock import PATIENCE
from tools.limiter import Ramp

NEVER = 3600.0


async def settled() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_the_first_few_end_before_the_rest_begin() -> None:
    ramp, begun, go_on = Ramp(100, first=3, every=NEVER), list[int](), [asyncio.Event() for _ in range(20)]

    async def ask(number: int) -> None:
        async with ramp.slot():
            begun.append(number)
            await go_on[number].wait()

    asking = [asyncio.create_task(ask(number)) for number in range(20)]
    await settled()
    assert begun == [0, 1, 2]
    go_on[1].set()
    await settled()
    assert begun == [0, 1, 2, 3, 4]  # the freed slot, and one more
    for event in go_on:
        event.set()
    await asyncio.gather(*asking)
    assert begun == list(range(20))


async def test_it_never_gets_wider_than_allowed() -> None:
    ramp = Ramp(4, first=32, every=NEVER)
    for _ in range(10):
        async with ramp.slot():
            pass
    assert ramp.width == 4


async def test_hosts_that_answer_slowly_are_not_waited_for() -> None:
    ramp = Ramp(10, first=1, every=0.001)
    async with asyncio.timeout(PATIENCE), AsyncExitStack() as under_way:
        for _ in range(10):
            await under_way.enter_async_context(ramp.slot())
    assert ramp.width == 10


async def test_a_cancelled_waiter_takes_no_slot() -> None:
    ramp = Ramp(1, first=1, every=NEVER)
    async with ramp.slot():
        waiting = [asyncio.create_task(ramp.slot().__aenter__()) for _ in range(3)]
        await settled()
        waiting[0].cancel()
    waiting[1].cancel()  # cancelled in the moment it gets its slot
    await settled()
    assert waiting[2].done()
    assert not waiting[2].cancelled()
