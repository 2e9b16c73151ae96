"""`python -m tests.soak [--short] [--incidents N] [--seed S] [--json] [--every SECONDS] [--keep FOLDER]`: progress on stderr, a report at the end.
Exits 1 when a promise was broken."""

import argparse
import asyncio
import json
import os
import signal
import sys
import tempfile
from dataclasses import asdict, replace
from pathlib import Path

from tests.soak.disasters import Plan
from tests.soak.soak import SHORT, Outcome, Sized, soaking


def arguments() -> argparse.Namespace:
    read = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    read.add_argument("--short", action="store_true", help="the form of .ci/run's slice: twenty incidents, three kills, hurried people")
    read.add_argument("--incidents", type=int, default=300)
    read.add_argument("--seed", type=int, default=1)
    read.add_argument("--every", type=float, default=10.0, help="seconds between kills of a random process")
    read.add_argument("--workers", type=int, default=3)
    read.add_argument("--at-once", type=int, default=20, help="incidents that are open at a time")
    read.add_argument("--most-seconds", type=float, default=7200.0, help="what has not ended by then counts as lost")
    read.add_argument("--json", action="store_true")
    read.add_argument("--keep", type=Path, help="a folder for the logs, which stays")
    return read.parse_args()


async def main(size: Sized, folder: Path) -> Outcome:
    task = asyncio.current_task()
    if task is not None:
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)  # cancelling ends everything that was started
    async with soaking(folder, size, lambda line: print(line, file=sys.stderr, flush=True)) as soak:
        return await soak.run()


def summary(outcome: Outcome) -> str:
    """Return the figures, the broken promises, and one result line."""
    rows = [f"{name:>18}  {value}" for name, value in outcome.figures.items()]
    broken = [f"  BROKEN: {row}" for row in outcome.broken]
    kills = sum(outcome.figures["kills"].values())
    return "\n".join([*rows, *broken, f"{outcome.figures['ended']} incidents ended, {kills} kills, {len(broken)} promises broken"])


def run() -> int:
    said = arguments()
    long = Sized(said.incidents, said.seed, said.workers, said.at_once, Plan(every=said.every), most_seconds=said.most_seconds)
    size = replace(SHORT, seed=said.seed) if said.short else long
    with tempfile.TemporaryDirectory(prefix="rackmedic-soak-", ignore_cleanup_errors=True) as temporary:
        outcome = asyncio.run(main(size, said.keep or Path(temporary)))
    load = os.getloadavg()[0] / (os.cpu_count() or 1)
    figures = {"load_for_each_core_at_the_end": round(load, 1)} | outcome.figures
    whole = Outcome(outcome.broken, figures, outcome.happened)
    print(json.dumps(asdict(whole), indent=1) if said.json else summary(whole))
    return int(bool(outcome.broken))


if __name__ == "__main__":
    sys.exit(run())
