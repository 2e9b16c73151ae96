"""Build the document that a report is made of: every figure of every arm, paired tests, and data to explain cases."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from tests.bench import score
from tests.bench.arms.arm import Account
from tests.bench.arms.table import ARMS
from tests.bench.case_files.harder import VERSION
from tests.bench.frozen import frozen
from tests.bench.model.endpoint import is_stand_in
from tests.bench.report.hardest import case_row, hardest, traces
from tests.bench.run.journal import Journal
from tests.bench.run.plan import Plan
from tests.bench.run.work import marked

SCHEMA = 1


def document(plan: Plan, journal: Journal, cannot: Mapping[str, str]) -> dict[str, Any]:
    """Score the journal's answers."""
    by_id = {str(raw["id"]): raw for raw in plan.cases}
    answered = _answered(plan, journal)
    marks = {name: [marked(row, by_id[row["case"]]) for row in rows] for name, rows in answered.items()}
    arms: dict[str, Any] = {name: {"not_run": why} for name, why in cannot.items()}
    for name in plan.arms:
        failed = [row for (_, arm, _), row in journal.rows.items() if arm == name and "failed" in row]
        if name not in cannot:
            rows = answered[name]
            arms[name] = _arm(plan, marks[name]) | {"failed": len(failed), "why_failed": sorted({row["failed"] for row in failed})[:5]}
            arms[name] |= _asked(rows, failed) if ARMS[name].model and rows else {}
            arms[name] |= _broke([row for row in rows if "crashed" in row])
            arms[name]["wall_seconds_a_case"] = round(sum(row["wall"] for row in rows) / len(rows), 4) if rows else None
    real = {name: rows for name, rows in marks.items() if not arms[name].get("stand_in")}
    found: dict[str, Any] = {
        "schema": SCHEMA,
        "benchmark": VERSION,
        "cases": len(plan.cases),
        "seed": plan.seed,
        "attempts": plan.attempts,
        "transport": plan.transport,
        **plan.notes,
        "arms": {name: arms[name] for name in plan.arms},
        "paired": _paired(real),
        "paired_hard": _paired({name: [row for row in rows if row.layer == "hard"] for name, rows in real.items()}),
        "frozen": frozen([raw for raw in plan.cases if raw["layer"] == "hard"]),
        "case_rows": {name: case_row(raw) for name, raw in by_id.items()},
    }
    return found | {"traces": {case: traces(by_id[case]) for case in hardest(found)}}


def _broke(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return cases in which an arm raised; they count as wrong."""
    return {"crashed": len(rows), "why_crashed": sorted({f"{row['crashed']} ({row['where']})" for row in rows})[:5]} if rows else {}


def _asked(rows: Sequence[Mapping[str, Any]], failed: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return authors, question counts and failures. One stand-in answer marks the arm as stand-in."""
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
    """Return answered rows by arm, in case order."""
    return {
        name: [row for attempt in range(plan.attempts) for raw in plan.cases if (row := journal.answer(str(raw["id"]), name, attempt))]
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
        **({"likely": row.answer.likely} if row.answer.likely else {}),
        "devices": list(row.answer.devices),
        "plans": list(row.answer.plans),
        "checks": row.answer.cost.checks,
        "makespan": row.answer.cost.makespan,
        **({"account": _plain(row.answer.account)} if row.answer.account else {}),
    }


def _plain(account: Account) -> dict[str, Any]:
    """Return the account as it reads back from JSON."""
    return {name: list(told) if isinstance(told, tuple) else told for name, told in asdict(account).items()}


def _paired(marks: Mapping[str, Sequence[score.Marked]]) -> dict[str, Any]:
    """Return McNemar's test for every two arms on their common cases."""
    right = {name: {row.case: row.right for row in rows if row.attempt == 0} for name, rows in marks.items()}
    found: dict[str, Any] = {}
    for one in right:
        for other in list(right)[list(right).index(one) + 1 :]:
            both = sorted(right[one].keys() & right[other].keys())
            found[f"{one} / {other}"] = score.mcnemar([right[one][case] for case in both], [right[other][case] for case in both])
    return found
