"""Runs arms over cases in several processes, writes every answer down as it comes, and goes on where a broken run stopped.

The journal beside the results names the code and cases it was made with: with other ones it counts for nothing.
"""

import hashlib
import json
import multiprocessing
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bot.refusal import Refusal
from tests.bench import score
from tests.bench.arms import ARMS, BASELINES, why_not
from tests.bench.generate import as_yaml
from tests.bench.line import Access, is_stand_in
from tests.bench.work import Job, marked, work

ROOT = Path(__file__).parents[2]
SOURCES = ("kb", "graph", "tools", "deploy/sandbox/cluster", "tests/bench")
SCHEMA = 1
CASES_A_PROCESS = 150
"""After which a worker makes room for a fresh one."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be run. `attempts`: worlds of other chances around the same faults."""

    cases: Sequence[Mapping[str, Any]]
    arms: tuple[str, ...]
    seed: str
    attempts: int = 1
    jobs: int = 1
    transport: str = "inprocess"
    access: Access | None = field(default=None, repr=False)
    permuted: int | None = None
    notes: Mapping[str, Any] = field(default_factory=dict)


class Journal:
    """Answers on disk, a line each, so that none is asked for twice."""

    def __init__(self, path: Path, digest: str) -> None:
        self.path, self.rows = path, dict[tuple[str, str, int], dict[str, Any]]()
        head = {"journal": SCHEMA, "digest": digest}
        lines = path.read_text().splitlines() if path.exists() else []
        if lines and _json(lines[0]) == head:
            for row in filter(None, map(_json, lines[1:])):
                self.rows[row["case"], row["arm"], row["attempt"]] = row
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(head) + "\n")

    def add(self, rows: Iterable[dict[str, Any]]) -> None:
        """Keep them; a failure is tried again next time."""
        with self.path.open("a") as file:
            for row in rows:
                self.rows[row["case"], row["arm"], row["attempt"]] = row
                if "failed" not in row:
                    file.write(json.dumps(row) + "\n")


def _json(line: str) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except ValueError:
        return {}  # the line that a crash cut off
    return found if isinstance(found, dict) else {}


def run(plan: Plan, out: Path, tell: "Teller | None" = None) -> dict[str, Any]:
    """The results as one document, which is written to `out`."""
    began = time.perf_counter()
    journal = Journal(out.with_suffix(out.suffix + ".journal"), digest_of(plan))
    cannot = {name: why for name in plan.arms if (why := why_not(name, plan.access))}
    jobs = list(_jobs(plan, [name for name in plan.arms if name not in cannot], journal))
    for n, rows in enumerate(_done(jobs, plan.jobs), 1):
        journal.add(rows)
        if tell:
            tell(n, len(jobs), rows)
    results = document(plan, journal, cannot) | {"wall_seconds": round(time.perf_counter() - began, 2)}
    out.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n")
    return results


class Teller:
    """Prints how far it is, at most once a second."""

    def __init__(self, say: Any) -> None:
        self._say, self._last, self._began = say, 0.0, time.perf_counter()

    def __call__(self, done: int, of: int, rows: Sequence[Mapping[str, Any]]) -> None:
        now = time.perf_counter()
        if now - self._last >= 1 or done == of:
            self._last = now
            left = (now - self._began) / done * (of - done)
            self._say(f"{done}/{of} cases, about {left:.0f} s left")


def _jobs(plan: Plan, arms: Sequence[str], journal: Journal) -> Iterator[Job]:
    """What is still to be done."""
    for attempt in range(plan.attempts):
        for raw in plan.cases:
            missing = tuple(name for name in arms if "answer" not in journal.rows.get((str(raw["id"]), name, attempt), {}))
            if missing:
                yield Job(raw, missing, attempt, plan.transport, plan.access, plan.permuted)


def _done(jobs: Sequence[Job], processes: int) -> Iterator[list[dict[str, Any]]]:
    if processes <= 1 or len(jobs) < 2:
        yield from map(work, jobs)
        return
    with ProcessPoolExecutor(processes, mp_context=multiprocessing.get_context("spawn"), max_tasks_per_child=CASES_A_PROCESS) as pool:
        try:
            for task in as_completed([pool.submit(work, job) for job in jobs]):
                yield task.result()
        except BrokenProcessPool as why:
            raise Refusal(
                "a worker process was killed, most likely for memory; the same command goes on where it stopped, try --jobs 1"
            ) from why


def digest_of(plan: Plan) -> str:
    """Of the cases, the code that solves them, and how they are run."""
    whole = hashlib.sha256(repr((plan.seed, plan.transport, plan.permuted, plan.access)).encode())
    for raw in plan.cases:
        whole.update(as_yaml(dict(raw)).encode())
    for folder in SOURCES:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in (".py", ".yaml", ".md", ".tmpl") and path.name != "REPORT.md":
                whole.update(path.read_bytes())
    return whole.hexdigest()


def document(plan: Plan, journal: Journal, cannot: Mapping[str, str]) -> dict[str, Any]:
    """Scores of what the journal holds."""
    by_id = {str(raw["id"]): raw for raw in plan.cases}
    marks = {name: [marked(row, by_id[row["case"]]) for row in rows] for name, rows in _answered(plan, journal).items()}
    arms: dict[str, Any] = {name: {"not_run": why} for name, why in cannot.items()}
    for name in plan.arms:
        failed = [row for (_, arm, _), row in journal.rows.items() if arm == name and "failed" in row]
        if name not in cannot:
            arms[name] = _arm(plan, marks[name]) | {"failed": len(failed), "why_failed": sorted({row["failed"] for row in failed})[:5]}
            arms[name] |= _asked(_answered(plan, journal)[name], failed) if ARMS[name].model else {}
            walls = [row["wall"] for row in _answered(plan, journal)[name]]
            arms[name]["wall_seconds_a_case"] = round(sum(walls) / len(walls), 4) if walls else None
    return {
        "schema": SCHEMA,
        "cases": len(plan.cases),
        "seed": plan.seed,
        "attempts": plan.attempts,
        "transport": plan.transport,
        **plan.notes,
        "arms": {name: arms[name] for name in plan.arms},
        "paired": _paired({name: rows for name, rows in marks.items() if not arms[name].get("stand_in")}),
        "case_rows": {name: _shown(raw) for name, raw in by_id.items()},
    }


def _asked(rows: Sequence[Mapping[str, Any]], failed: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Who answered an arm, how often each question was put, and what went wrong. One answer of the sandbox's makes it no model's."""
    by = sorted({who for row in rows for who in row["model"]["by"]})
    questions = Counter[str]()
    for row in rows:
        questions.update(row["model"]["asked"])
    return {
        "answered_by": by,
        "stand_in": any(map(is_stand_in, by)),
        "questions": {name: round(n / len(rows), 3) for name, n in sorted(questions.items())},
        "troubles": sum(row["model"]["troubles"] for row in rows),
        "not_recorded": sum(bool(row.get("unrecorded")) for row in failed),
        "would_have_written": sum(row["answer"]["writes"] for row in rows),
    }


def _answered(plan: Plan, journal: Journal) -> dict[str, list[dict[str, Any]]]:
    """Rows with an answer by arm, in the order of the cases."""
    return {
        name: [
            row
            for attempt in range(plan.attempts)
            for raw in plan.cases
            if "answer" in (row := journal.rows.get((str(raw["id"]), name, attempt), {}))
        ]
        for name in plan.arms
    }


def _arm(plan: Plan, rows: Sequence[score.Marked]) -> dict[str, Any]:
    if not rows:
        return {"not_run": "no run of it succeeded"}
    layers = sorted({row.layer for row in rows})
    by_layer = {name: score.figures([row for row in rows if row.layer == name], plan.attempts) for name in layers}
    first = [row for row in rows if row.attempt == 0]
    return score.figures(rows, plan.attempts) | {"by_layer": by_layer, "per_case": [_case_row(row) for row in first]}


def _case_row(row: score.Marked) -> dict[str, Any]:
    return {
        "case": row.case,
        "right": row.right,
        "labels": list(row.answer.labels),
        "hosts": list(row.answer.hosts),
        "confidence": row.answer.confidence,
        "makespan": row.answer.cost.makespan,
    }


def _paired(marks: Mapping[str, Sequence[score.Marked]]) -> dict[str, Any]:
    """McNemar for every two arms, over the cases that both have answered."""
    right = {name: {row.case: row.right for row in rows if row.attempt == 0} for name, rows in marks.items()}
    found: dict[str, Any] = {}
    for one in right:
        for other in list(right)[list(right).index(one) + 1 :]:
            both = sorted(right[one].keys() & right[other].keys())
            found[f"{one} / {other}"] = score.mcnemar([right[one][case] for case in both], [right[other][case] for case in both])
    return found


def _shown(raw: Mapping[str, Any]) -> dict[str, Any]:
    """What a report says of a case."""
    truth = raw["truth"]
    labels = [truth["primary"]["label"], *(row["label"] for row in truth.get("also", ()))]
    return {
        "layer": raw["layer"],
        "faults": [row["id"] for row in raw["faults"]],
        "modifiers": list(raw["modifiers"]),
        "nodes": len(raw["nodes"]),
        "ticket": raw["ticket"]["text"],
        "labels": labels,
        "unseen": bool(truth.get("removed")),
        "shows": list(dict.fromkeys(row["check"] for row in truth["decisive_evidence"])),
    }


def names(text: str) -> tuple[str, ...]:
    """Arms as typed: `all` (but those with a part left out), or names separated by commas."""
    if text in ("all", ""):
        return tuple(BASELINES)
    return tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
