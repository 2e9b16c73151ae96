"""One attachment of Slack's maximum size with distinct lines, and the delay of unrelated mentions meanwhile.

`python -m tests.bench.perf.flood [--mb 24] [--kinds xid,rank] [--workers 1] [--others 5]`: prints one JSON document.
The sandbox shares the machine with the bot, so other load shows in every figure; `cpu_s` is the bot's, all processes
together.
"""

import argparse
import asyncio
import json
import os
import random
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from deploy.sandbox.demo import run_bot, run_sandbox
from deploy.sandbox.slack import SlackSandbox
from tests.bench.perf.story import CHANNEL, PERSON, mention

MIB = 1 << 20
_LETTERS = "abcdefghijklmnopqrstuvwxyz"
Say = Callable[[random.Random, int, str, str], str]


def _xid(dice: random.Random, number: int, word: str, address: str) -> str:
    message = f"NVRM: Xid (PCI:{address}): {dice.randrange(1, 160)}, pid={number}, name={word}, Ch 00000008"
    return f"May 20 03:{number // 60 % 60:02}:{number % 60:02} {word}-{number} kernel: {message}"


def _service(dice: random.Random, number: int, word: str, address: str) -> str:
    return f"2026-05-20T03:09:00+00:00 {word}-{number} {word}[{number}]: {word} error {dice.getrandbits(64):x} connection to {word}:{number} failed"


def _rank(dice: random.Random, number: int, word: str, address: str) -> str:
    return f"[rank{number}]: RuntimeError: {word} timed out at {address}.0 of {word}-{number}"


def _nccl(dice: random.Random, number: int, word: str, address: str) -> str:
    return f"{word}-{number}:{number}:{number} [{number % 8}] NCCL WARN Connect to {word}<{number % 65536}> failed : Connection refused"


def _token(dice: random.Random, number: int, word: str, address: str) -> str:
    return f"{word}-{number}: token {dice.getrandbits(40):x} of key {word} is not {address}: secret store has {number} passes"


# generators of distinct lines: kernel, service, job ranks, NCCL, and lines that look like secrets
KINDS: Mapping[str, Say] = {"xid": _xid, "service": _service, "rank": _rank, "nccl": _nccl, "token": _token}


def distinct(megabytes: float, kinds: tuple[str, ...], seed: int = 1) -> bytes:
    """Return a log of about that size with these kinds in turn; deterministic by seed."""
    dice, lines, size, number = random.Random(seed), [], 0, 0
    while size < megabytes * MIB:
        word = "".join(dice.choices(_LETTERS, k=9))
        address = f"{dice.randrange(65536):04x}:{dice.randrange(256):02x}:{dice.randrange(32):02x}"
        lines.append(KINDS[kinds[number % len(kinds)]](dice, number, word, address))
        size, number = size + len(lines[-1]) + 1, number + 1
    return ("\n".join(lines) + "\n").encode()


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


async def measure(megabytes: float, kinds: tuple[str, ...], workers: int, others: int) -> dict[str, Any]:
    """Warm up with one mention, send the flood, then at least `others` mentions in sequence until it is answered."""
    log = distinct(megabytes, kinds)
    with tempfile.TemporaryDirectory() as folder:
        async with run_sandbox(Path(folder)) as plain:
            world = replace(plain, settings={**plain.settings, "RACKMEDIC_WORKERS": str(workers)})
            before = _cpu()
            async with run_bot(world, dict(os.environ), Path(folder) / "bot.log"):
                slack = world.slack
                await slack.connected(timeout=120)
                await _reported(slack, await mention(slack, 0), 120)
                began = time.perf_counter()
                ts = await slack.say(PERSON, CHANNEL, "<@U0RACKMED> training hangs, the log is attached", files=(("train.log", log),))
                report = asyncio.create_task(_reported(slack, ts, 600))
                cards: list[float] = []
                while len(cards) < others:
                    at = time.perf_counter()
                    await mention(slack, len(cards) + 1)
                    cards.append(time.perf_counter() - at)
                    await asyncio.sleep(0.5)
                took = await report - began
                load = os.getloadavg()[0]
            return {
                "schema": 1,
                "mib": round(len(log) / MIB, 1),
                "lines": log.count(b"\n"),
                "kinds": kinds,
                "workers": workers,
                "load": round(load, 1),
                "report_s": round(took, 2),
                "others_first_card_s": [round(card, 2) for card in cards],
                "cpu_s": round(_cpu() - before, 1),
            }


async def _reported(slack: SlackSandbox, ts: str, seconds: float) -> float:
    """Return when the thread's report was posted."""
    await slack.wait_for(
        lambda: any(m.get("metadata", {}).get("event_type") == "rackmedic_report" for m in slack.thread(CHANNEL, ts)), seconds
    )
    return time.perf_counter()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--mb", type=float, default=24)
    parser.add_argument("--kinds", default=",".join(KINDS), help=f"of {', '.join(KINDS)}")
    parser.add_argument("--workers", type=int, default=1, help="0: one process does everything")
    parser.add_argument("--others", type=int, default=5, help="mentions by others")
    given = parser.parse_args()
    result = asyncio.run(measure(given.mb, tuple(given.kinds.split(",")), given.workers, given.others))
    sys.stdout.write(json.dumps(result, indent=1) + "\n")
