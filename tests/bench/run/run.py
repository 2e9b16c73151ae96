"""Run arms over cases in several processes, store every answer at once, and continue an interrupted run."""

import hashlib
import json
import resource
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.bench.arms.external import is_outside, source
from tests.bench.arms.table import GROUPS, why_not
from tests.bench.case_files.generate import as_yaml
from tests.bench.run.journal import Journal
from tests.bench.run.plan import Plan
from tests.bench.run.pool import spread
from tests.bench.run.results import document
from tests.bench.run.work import Job, work

__all__ = ["Journal", "Plan", "Teller", "digest_of", "names", "run"]

ROOT = Path(__file__).parents[3]
SOURCES = ("kb", "graph", "tools", "deploy/sandbox/cluster", "tests/bench")
Tell = Callable[[int, int, Sequence[Mapping[str, Any]]], None]


def run(plan: Plan, out: Path, tell: Tell | None = None) -> dict[str, Any]:
    """Return the results and write them to `out`."""
    began, spent = time.perf_counter(), _cpu()
    with Journal(out.with_suffix(out.suffix + ".journal"), digest_of(plan)) as journal:
        cannot = {name: why for name in plan.arms if (why := why_not(name, plan.access))}
        jobs = list(_jobs(plan, [name for name in plan.arms if name not in cannot], journal))
        for n, rows in enumerate(spread(work, jobs, plan.jobs), 1):
            journal.add(rows)
            if tell:
                tell(n, len(jobs), rows)
        took = {"wall_seconds": round(time.perf_counter() - began, 2), "cpu_seconds": round(_cpu() - spent, 2), "asked_now": len(jobs)}
        results = document(plan, journal, cannot) | took
    _write(out, json.dumps(results, indent=1, ensure_ascii=False) + "\n")
    return results


def _cpu() -> float:
    """Return CPU seconds of this process and its ended children."""
    return sum(used.ru_utime + used.ru_stime for used in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)))


def _write(out: Path, text: str) -> None:
    """Write atomically."""
    part = out.with_suffix(out.suffix + ".part")
    part.write_text(text)
    part.replace(out)


class Teller:
    """Print progress, at most once a second."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say, self._last, self._began = say, 0.0, time.perf_counter()

    def __call__(self, done: int, of: int, rows: Sequence[Mapping[str, Any]]) -> None:
        now = time.perf_counter()
        if now - self._last >= 1 or done == of:
            self._last = now
            self._say(
                f"{done}/{of} cases, {_clock(now - self._began)} so far, about {_clock((now - self._began) / done * (of - done))} left"
            )


def _clock(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.1f} min"


def _jobs(plan: Plan, arms: Sequence[str], journal: Journal) -> Iterator[Job]:
    """Yield the unanswered jobs."""
    for attempt in range(plan.attempts):
        for raw in plan.cases:
            missing = tuple(name for name in arms if journal.answer(str(raw["id"]), name, attempt) is None)
            if missing:
                yield Job(raw, missing, attempt, plan.transport, plan.access, plan.permuted, plan.kb)


def digest_of(plan: Plan) -> str:
    """Return a digest of cases, solving code and options."""
    whole = hashlib.sha256(repr((plan.seed, plan.transport, plan.permuted, plan.access)).encode())
    for raw in plan.cases:
        whole.update(as_yaml(dict(raw)).encode())
    for name in filter(is_outside, plan.arms):
        whole.update(source(name))
    for folder in SOURCES:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in (".py", ".yaml", ".md", ".tmpl") and path.name != "REPORT.md":
                whole.update(path.read_bytes())
    for folder_of_site in [plan.kb / part for part in ("taxonomy", "incidents", "rules", "filters")] if plan.kb else ():
        for path in sorted(folder_of_site.rglob("*.y*ml")):
            whole.update(path.read_bytes())
    return whole.hexdigest()


def names(text: str) -> tuple[str, ...]:
    """Parse arms and groups separated by commas; "" means all."""
    typed = [part.strip() for part in (text or "all").split(",") if part.strip()]
    return tuple(dict.fromkeys(name for part in typed for name in GROUPS.get(part, (part,))))
