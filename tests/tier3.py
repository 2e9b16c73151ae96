"""Tier 3: what is too long for every run. `python -m tests.tier3 NAME` runs the long form, `slice --commit HASH` a short form for .ci/run.

Output goes to `out/tier3/NAME.log`; the last line of a run becomes its result line. The exit code is that of the run.
"""

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
LOGS = ROOT / "out" / "tier3"
TAIL_LINES = 40
"""Lines of a failed run's log that are printed."""
WORKERS = ("-n", "auto", "--maxprocesses", "8", "--dist", "loadfile")


@dataclass(frozen=True, slots=True)
class Slice:
    """One part of tier 3. `short` takes at most four minutes on two idle cores; `long` is the whole of it, run by hand."""

    name: str
    short: tuple[str, ...]
    long: tuple[str, ...]


def pytest_run(*arguments: str) -> tuple[str, ...]:
    """Return a pytest command that spreads files over the cores."""
    return ("-m", "pytest", *WORKERS, *arguments)


def exploring(*paths: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the short and the long command of property tests with new examples. The commit chooses the examples of the short one."""
    chosen = ("-m", "hypothesis and not processes", *paths)
    short = pytest_run("--hypothesis-profile=explore_slice", "--hypothesis-seed={seed}", *chosen)
    return short, pytest_run("--hypothesis-profile=explore", *chosen)


def breaking(*areas: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the commands that play the breakages of these areas on a real rack; the long form is the same."""
    return (pytest_run("-m", "tier3", "-k", f"test_breakages and ({' or '.join(areas)})", "tests/real"),) * 2


SLICES: tuple[Slice, ...] = (
    Slice("soak", ("-m", "tests.soak", "--short"), ("-m", "tests.soak")),
    Slice("growth", *2 * (pytest_run("-m", "tier3", "--ignore", "tests/graph/dialogue", "tests/properties", "tests/graph"),)),
    Slice("training", *2 * (pytest_run("--dist", "load", "-m", "tier3", "tests/graph/dialogue"),)),
    Slice("flood", *2 * (pytest_run("-m", "tier3", "tests/stories", "tests/bot/remediation"),)),
    Slice("explore-kb", *exploring("tests/kb")),
    Slice("explore-graph", *exploring("tests/graph")),
    Slice("explore-tools", *exploring("tests/tools")),
    Slice("explore-bot", *exploring("tests/bot")),
    Slice("explore-machines", *exploring("tests/properties")),
    Slice("rollout", *2 * (pytest_run("-m", "tier3", "-k", "not test_breakages", "tests/real"),)),
    Slice("breakages-services", *breaking("services", "limits")),
    Slice("breakages-scheduler", *breaking("scheduler", "hardware", "fabric")),
    Slice("breakages-storage", *breaking("storage", "tasks", "controls")),
    Slice("breakages-network", *breaking("names", "network", "login")),
    Slice("breakages-system", *breaking("system")),
    Slice("bench-gates", *2 * (("-m", "bot.cli", "bench", "gates"),)),
    Slice("coverage", *2 * (pytest_run("-m", "tier3", "tests/project"),)),
    Slice("bench-report", *2 * (pytest_run("-m", "tier3", "tests/bench_itself"),)),
    Slice("recordings", *2 * (("-m", "tests.bench.regressions", "--recorded"),)),
)
GROUPS: Mapping[str, tuple[str, ...]] = {
    group: tuple(one.name for one in SLICES if one.name.startswith(f"{group}-")) for group in ("explore", "breakages")
}


def slice_of(commit: str) -> Slice:
    """Return the slice that a commit runs: its hash, as a number, chooses among all."""
    return SLICES[int(commit, 16) % len(SLICES)]


def run(name: str, command: Sequence[str], seed: int = 0) -> int:
    """Run a command, print its result line, and on failure the end of its log. Return the exit code."""
    LOGS.mkdir(parents=True, exist_ok=True)
    log, began = LOGS / f"{name}.log", time.monotonic()
    with log.open("w") as output:
        words = [word.format(seed=seed) for word in command]
        code = subprocess.run((sys.executable, *words), cwd=ROOT, stdout=output, stderr=subprocess.STDOUT, check=False).returncode
    lines = log.read_text(errors="replace").splitlines() or [""]
    if code:
        print("\n".join(lines[-TAIL_LINES:]))
    print(
        f"{name}: {'ok' if code == 0 else f'FAILED (exit {code})'} in {time.monotonic() - began:.0f} s: {lines[-1].strip(' =')}", flush=True
    )
    return code


def main() -> int:
    """Run what was asked for; return 1 if any part failed."""
    names = [one.name for one in SLICES]
    asks = argparse.ArgumentParser(prog="python -m tests.tier3", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asks.add_argument("what", choices=["slice", *names, *GROUPS], help="a part, or `slice` for the one that a commit chooses")
    asks.add_argument("--short", action="store_true", help="the short form of the part")
    asks.add_argument("--commit", default="", metavar="HASH", help="with `slice`: the commit; HEAD if omitted")
    asked = asks.parse_args()
    head = subprocess.run(("git", "rev-parse", "HEAD"), cwd=ROOT, capture_output=True, text=True, check=False).stdout.strip() or "0"
    seed = int((asked.commit or head)[:8], 16)
    if asked.what == "slice":
        chosen = slice_of(asked.commit or head)
        print(f"slice of {(asked.commit or head)[:12]}: {chosen.name} ({names.index(chosen.name) + 1} of {len(SLICES)})", flush=True)
        return run(chosen.name, chosen.short, seed)
    parts = [one for one in SLICES if one.name in GROUPS.get(asked.what, (asked.what,))]
    return max(run(one.name, one.short if asked.short else one.long, seed) and 1 for one in parts)


if __name__ == "__main__":
    os.environ.pop("PYTEST_ADDOPTS", None)
    sys.exit(main())
