"""Play cases in several processes and write rows and figures as one document."""

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import structlog

from bot.refusal import Refusal
from tests.bench.case_files.truth import read_truth
from tests.bench.loop.people import POLICIES
from tests.bench.loop.play import Play, played
from tests.bench.loop.score import Played, figures
from tests.bench.run.pool import spread

CASES_A_PROCESS, SCHEMA = 60, 1
Raw = Mapping[str, Any]
Job = tuple[Raw, Play]


def plays_of(text: str, bots: int, attempts: int) -> list[Play]:
    """Parse policies separated by commas, or `all`. Raises Refusal."""
    names = POLICIES if text == "all" else tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
    unknown = [name for name in names if name not in POLICIES]
    if unknown or not names:
        raise Refusal(f"--loop: there is no {', '.join(unknown) or 'such policy'}; there are {', '.join(POLICIES)} and `all`", 2)
    return [Play(policy, bots, attempt) for policy in POLICIES if policy in names for attempt in range(attempts)]


def run_loop(raws: Sequence[Raw], plays: Sequence[Play], jobs: int, say: Callable[[str], None]) -> dict[str, Any]:
    """Return figures by play."""
    began = time.perf_counter()
    todo = [(raw, play) for play in plays for raw in raws]
    rows: dict[str, list[Played]] = {play.name: [] for play in plays}
    failed: dict[str, list[str]] = {play.name: [] for play in plays}
    for n, ((raw, play), row) in enumerate(_done(todo, jobs), 1):
        if "failed" in row:
            failed[play.name].append(f"{raw['id']}: {row['failed']}")
        else:
            rows[play.name].append(Played(str(raw["id"]), str(raw["layer"]), read_truth(raw["truth"], str(raw["id"])), row))
        if n % 10 == 0 or n == len(todo):
            say(f"{n}/{len(todo)} plays, {time.perf_counter() - began:.0f} s")
    order = {str(raw["id"]): n for n, raw in enumerate(raws)}
    found = {name: figures(sorted(some, key=lambda play: order[play.case])) | {"failed": failed[name]} for name, some in rows.items()}
    return {"loop": found, "wall_seconds": round(time.perf_counter() - began, 2)}


def _done(todo: Sequence[Job], jobs: int) -> Iterator[tuple[Job, dict[str, Any]]]:
    """Yield plays as they end."""
    for n, row in spread(_numbered, list(enumerate(todo)), jobs, CASES_A_PROCESS):
        yield todo[n], row


def _numbered(one: tuple[int, Job]) -> tuple[int, dict[str, Any]]:
    return one[0], _work(one[1])


def _work(job: Job) -> dict[str, Any]:
    """Return a play's row; an exception becomes a failed row."""
    structlog.configure(processors=[_quiet])
    try:
        return played(*job)
    except Exception as error:
        return {"failed": f"{type(error).__name__}: {error}"[:300]}


def _quiet(logger: Any, method: str, event: Any) -> Any:
    """Drop the bot's log."""
    raise structlog.DropEvent


def document(
    raws: Sequence[Raw], policies: str, bots: int, attempts: int, jobs: int, out: Path, notes: Mapping[str, Any], say: Callable[[str], None]
) -> dict[str, Any]:
    """Write and return the document that `bench report` reads: plays instead of arms."""
    played = run_loop(raws, plays_of(policies, bots, attempts), jobs, say)
    head = {"schema": SCHEMA, "cases": len(raws), "attempts": attempts, "transport": "inprocess", **notes, "arms": {}, "paired": {}}
    found = head | {"case_rows": {str(raw["id"]): {"layer": raw["layer"]} for raw in raws}} | played
    out.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n")
    return found
