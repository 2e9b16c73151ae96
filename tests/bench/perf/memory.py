"""The bot's memory after start and with many open incidents, front end and worker apart and together.

`python -m tests.bench.perf.memory [--incidents 200] [--workers 1]`: prints one JSON document. Linux only (`/proc`):
`rss` counts shared memory in every process, `pss` once.
"""

import argparse
import asyncio
import json
import os
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

from deploy.sandbox.demo import Sandbox, run_bot, run_sandbox

CHANNEL, PERSON = "C0GPUINC", "U0OLGA"
REPORT_WITHIN = 900.0


def family(pid: int) -> list[int]:
    """Return a process and its workers."""
    children = [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return [pid, *(child for child in children if b"--beside" in Path(f"/proc/{child}/cmdline").read_bytes())]


def mib(pid: int) -> dict[str, float]:
    rows = (line.split() for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:])
    sizes = {row[0].rstrip(":").lower(): int(row[1]) / 1024 for row in rows}
    return {"rss": round(sizes["rss"], 1), "pss": round(sizes["pss"], 1)}


def memory(pid: int) -> dict[str, Any]:
    each = {name: mib(one) for name, one in zip(("front", *(f"worker {n}" for n in range(1, 65))), family(pid), strict=False)}
    return {**each, "together": {kind: round(sum(row[kind] for row in each.values()), 1) for kind in ("rss", "pss")}}


def reported(world: Sandbox, thread: str) -> bool:
    return any(m.get("metadata", {}).get("event_type") == "rackmedic_report" for m in world.slack.thread(CHANNEL, thread))


async def measure(incidents: int, workers: int) -> dict[str, Any]:
    """Measure idle, then with that many diagnosed open incidents, half of them with a fault."""
    with tempfile.TemporaryDirectory() as folder:
        async with run_sandbox(Path(folder)) as plain:
            world = replace(plain, settings={**plain.settings, "RACKMEDIC_WORKERS": str(workers)})
            return await measured(world, incidents, Path(folder) / "bot.log")


async def measured(world: Sandbox, incidents: int, log: Path) -> dict[str, Any]:
    async with run_bot(world, dict(os.environ), log) as child:
        await world.slack.connected(timeout=120)
        found: dict[str, Any] = {"idle": memory(child.pid)}
        threads: list[str] = []
        for number in range(incidents):
            if number == incidents // 2:
                world.cluster.break_("G07", "gpu-003", gpu=5)
            threads.append(await world.slack.say(PERSON, CHANNEL, f"<@U0RACKMED> training hangs here as well ({number})"))
            if number % 8 == 7 or number == incidents - 1:  # in batches, because queueing is not measured
                await world.slack.wait_for(lambda: all(reported(world, ts) for ts in threads), REPORT_WITHIN)
        await world.slack.quiet(60)
        return {"schema": 1, **found, f"{incidents} open incidents": memory(child.pid)}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--incidents", type=int, default=200)
    parser.add_argument("--workers", type=int, default=1, help="0: one process does everything")
    given = parser.parse_args()
    sys.stdout.write(json.dumps(asyncio.run(measure(given.incidents, given.workers)), indent=1) + "\n")
