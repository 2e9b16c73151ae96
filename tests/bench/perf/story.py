"""Latency in Slack of the real bot: first card after a start, and acks at 200 events per second.

`python -m tests.bench.perf.story [--rate 200] [--seconds 5] [--workers 1]`: prints one JSON document. The sandbox
shares the machine with the bot, so other load shows in every figure.
"""

import argparse
import asyncio
import json
import os
import statistics
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from deploy.sandbox.demo import run_bot, run_sandbox
from deploy.sandbox.slack import SlackSandbox

CHANNEL, PERSON = "C0GPUINC", "U0OLGA"
AT_ONCE = 5  # concurrent diagnoses during the events


async def measure(rate: int, seconds: float, workers: int) -> dict[str, Any]:
    """Measure two mentions in sequence, then several together with other traffic."""
    with tempfile.TemporaryDirectory() as folder:
        async with run_sandbox(Path(folder)) as plain:
            world = replace(plain, settings={**plain.settings, "RACKMEDIC_WORKERS": str(workers)})
            began = time.perf_counter()
            async with run_bot(world, dict(os.environ), Path(folder) / "bot.log"):
                await world.slack.connected(timeout=120)
                start = time.perf_counter() - began
                reports = [await answered(world.slack, number) for number in range(2)]
                busy = [await first_card(world.slack, number) for number in range(AT_ONCE)]
                before = world.slack.stats()
                await chatter(world.slack, rate, seconds)
                await world.slack.quiet(timeout=120)
                return {
                    "schema": 2,
                    "workers": workers,
                    "load": os.getloadavg()[0],
                    "start_s": round(start, 2),
                    "first_mention": {"card_ms": ms(reports[0][0]), "report_s": round(reports[0][1], 2)},
                    "second_mention": {"card_ms": ms(reports[1][0]), "report_s": round(reports[1][1], 2)},
                    "five_together": {"card_ms_median": ms(statistics.median(busy)), "card_ms_worst": ms(max(busy))},
                    "acks": acks(before, world.slack.stats(), rate, seconds),
                }


def ms(seconds: float) -> float:
    return round(seconds * 1000, 1)


def acks(before: dict[str, Any], after: dict[str, Any], rate: int, seconds: float) -> dict[str, Any]:
    """Return percentiles over all events, nearly all during diagnoses."""
    row = after["ack_seconds"]["events_api"]
    return {
        "events_per_second": rate,
        "seconds": seconds,
        "events": row["count"] - before["ack_seconds"]["events_api"]["count"],
        **{f"{name}_ms": ms(row[name]) for name in ("p50", "p99", "max")},
    }


async def first_card(slack: SlackSandbox, number: int) -> float:
    """Return seconds from the mention to the first card."""
    began = time.perf_counter()
    await mention(slack, number)
    return time.perf_counter() - began


async def answered(slack: SlackSandbox, number: int) -> tuple[float, float]:
    """Return seconds from a mention to its first card and its report."""
    began = time.perf_counter()
    ts = await mention(slack, number)
    card = time.perf_counter() - began
    await slack.wait_for(lambda: any(m.get("metadata", {}).get("event_type") == "rackmedic_report" for m in slack.thread(CHANNEL, ts)), 120)
    return card, time.perf_counter() - began


async def mention(slack: SlackSandbox, number: int) -> str:
    ts = await slack.say(PERSON, CHANNEL, f"<@U0RACKMED> training hangs here as well ({number})")
    await slack.wait_for(lambda: len(slack.thread(CHANNEL, ts)) > 1, 60)
    return ts


async def chatter(slack: SlackSandbox, rate: int, seconds: float) -> None:
    """Post messages that do not concern the bot; each is an event to acknowledge."""
    began = time.perf_counter()
    for number in range(int(rate * seconds)):
        await slack.say(PERSON, CHANNEL, f"unrelated message {number}")
        ahead = began + number / rate - time.perf_counter()
        if ahead > 0:
            await asyncio.sleep(ahead)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--rate", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--workers", type=int, default=1, help="0: one process does everything")
    given = parser.parse_args()
    sys.stdout.write(json.dumps(asyncio.run(measure(given.rate, given.seconds, given.workers)), indent=1) + "\n")
