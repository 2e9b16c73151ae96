"""`python -m tests.real.breakages [IDS…]`: play breakages on a rack of their own; print one line each, then totals."""

import argparse
import asyncio
import os
import sys
import time
import traceback
from collections import Counter

from deploy.lab.image import build_image, get_cache_folder
from deploy.lab.launcher import start_rack
from tests.real.breakages.breakage import Breakage
from tests.real.breakages.judging import Judgement
from tests.real.breakages.play import play
from tests.real.breakages.table import BREAKAGES


def measure(rows: list[Breakage]) -> int:
    """Play the breakages in sequence; return how many could not be played."""
    judged: list[Judgement] = []
    unplayed = 0
    with start_rack(f"breakages-{os.getpid()}", build_image(get_cache_folder(os.environ), dict(os.environ))) as started:
        for row in rows:
            try:
                began = time.monotonic()
                judged.append(asyncio.run(play(started.rack, row)))
                print(judged[-1].line(), f"| {' '.join(judged[-1].told)} | {time.monotonic() - began:.1f} s in all", flush=True)
            except Exception as error:
                unplayed += 1
                print(f"{row.id:42} NOT PLAYED: {type(error).__name__}: {error}", flush=True)
                traceback.print_exc()
    controls = {row.id for row in rows if row.is_control}
    print(sums("controls", [one for one in judged if one.id in controls]))
    print(sums("breakages", [one for one in judged if one.id not in controls]))
    return unplayed


def sums(name: str, judged: list[Judgement]) -> str:
    counts = Counter(one.verdict for one in judged)
    verdicts = ", ".join(f"{counts[verdict]} {verdict}" for verdict in ("right", "partly", "wrong"))
    healthy, foreign = sum(one.healthy for one in judged), sum(bool(one.foreign) for one in judged)
    good = sum(one.is_good for one in judged)
    return f"{name}: {len(judged)} played, {verdicts}; {healthy} called healthy, {foreign} with another host accused; {good} good"


def main() -> int:
    """Return 1 if a breakage could not be played."""
    asks = argparse.ArgumentParser(prog="python -m tests.real.breakages", description=__doc__)
    asks.add_argument("ids", nargs="*", help="breakages, areas or tiers (tier2); all if omitted")
    wanted = asks.parse_args().ids
    rows = [row for row in BREAKAGES if not wanted or {row.id, row.area, f"tier{row.tier}"} & set(wanted)]
    return min(1, measure(sorted(rows, key=lambda row: (row.tier, not row.is_control))))


if __name__ == "__main__":
    sys.exit(main())
