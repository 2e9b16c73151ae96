"""The virtual-time loop: waiting costs nothing, and outside work is awaited."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime

from tests.bench.loop.virtual_time import Leaping, LoopClock
from tests.support.clock import PATIENCE

T0 = datetime(2026, 5, 20, 3, 10, tzinfo=UTC)


def on_a_leaping_loop(work: Callable[[Leaping], Awaitable[None]]) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, Leaping)
        await work(loop)

    with asyncio.Runner(loop_factory=Leaping) as runner:
        runner.run(main())


def test_a_day_of_waiting_passes_at_once_and_clocks_show_it() -> None:
    async def work(loop: Leaping) -> None:
        clock, began = LoopClock(T0), time.perf_counter()
        await asyncio.sleep(86_400)
        assert clock.now() == T0.replace(day=21)
        assert clock.stamp() == T0.replace(day=21).timestamp()
        assert time.perf_counter() - began < 3600, "it leapt over a day"

    on_a_leaping_loop(work)


def test_the_shorter_wait_ends_first() -> None:
    async def work(loop: Leaping) -> None:
        order: list[float] = []

        async def wait(seconds: float) -> None:
            await asyncio.sleep(seconds)
            order.append(loop.time())

        await asyncio.gather(wait(3600), wait(5), wait(60))
        assert order == [5, 60, 3600]

    on_a_leaping_loop(work)


def test_time_stands_still_while_a_thread_or_a_process_works() -> None:
    async def work(loop: Leaping) -> None:
        hour = loop.create_task(asyncio.sleep(3600))
        await asyncio.to_thread(sum, range(1000))
        with loop.outside():
            child = await asyncio.create_subprocess_exec("true")
            assert await child.wait() == 0
        assert loop.time() == 0
        await hour
        assert loop.time() == 3600

    on_a_leaping_loop(work)


def test_a_process_that_waits_for_our_time_does_not_stop_it() -> None:
    async def work(loop: Leaping) -> None:
        child = await asyncio.create_subprocess_exec("cat", stdin=asyncio.subprocess.PIPE)
        with loop.outside():
            await asyncio.sleep(90)
        assert child.stdin is not None
        child.stdin.close()
        assert await child.wait() == 0

    on_a_leaping_loop(work)


def test_real_sockets_work_as_ever() -> None:
    async def work(loop: Leaping) -> None:
        async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write((await reader.readline()).upper())
            await writer.drain()
            writer.close()

        server = await asyncio.start_server(echo, "127.0.0.1", 0)
        async with server:
            reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname()[:2])
            writer.write(b"hello\n")
            async with asyncio.timeout(PATIENCE):
                assert await reader.readline() == b"HELLO\n"
            writer.close()
            await writer.wait_closed()

    on_a_leaping_loop(work)
