"""How fast Slack is answered: events at 200 a second against the real bot process; ack percentiles and the time to the first visible card.

python -m tests.bench.perf.story [--rate 200] [--seconds 5]
"""

import argparse
import asyncio
import os
import statistics
import tempfile
import time
from pathlib import Path

from deploy.sandbox.demo import bot, sandbox


def percentile(values: list[float], share: float) -> float:
    """The value below which `share` of them lie."""
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


async def measure(rate: int, seconds: float) -> None:
    """First one mention alone (time to the first card), then chatter at `rate`, a mention among every hundred events."""
    with tempfile.TemporaryDirectory() as folder:
        async with sandbox(Path(folder)) as world, bot(world, dict(os.environ), Path(folder) / "bot.log"):
            slack = world.slack
            await slack.connected(timeout=60)
            firsts = [await first_card(slack, i) for i in range(5)]
            before = slack.stats()["acks"]["count"] if "acks" in slack.stats() else 0
            await chatter(slack, rate, seconds)
            await slack.quiet(timeout=60)
            print(f"first card: median {statistics.median(firsts) * 1000:.0f} ms, worst {max(firsts) * 1000:.0f} ms over {len(firsts)}")
            print(f"acks under {rate} events/s for {seconds:g} s: {slack.stats()} (before: {before})")


async def first_card(slack: object, number: int) -> float:
    """Seconds from the mention to RackMedic's first message in its thread."""
    began = time.perf_counter()
    ts = await slack.say("U0OLGA", "C0GPUINC", f"<@U0RACKMED> job 4711 hangs on gpu-[001-004] ({number})")  # type: ignore[attr-defined]
    await slack.wait_for(lambda: len(slack.thread("C0GPUINC", ts)) > 1, 20)  # type: ignore[attr-defined]
    return time.perf_counter() - began


async def chatter(slack: object, rate: int, seconds: float) -> None:
    """Messages in a channel that is not ours to answer: each is one event that must be acknowledged."""
    total = int(rate * seconds)
    began = time.perf_counter()
    for i in range(total):
        await slack.say("U0OLGA", "C0GPUINC", f"unrelated message {i}")  # type: ignore[attr-defined]
        ahead = began + i / rate - time.perf_counter()
        if ahead > 0:
            await asyncio.sleep(ahead)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rate", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=5)
    given = parser.parse_args()
    asyncio.run(measure(given.rate, given.seconds))
