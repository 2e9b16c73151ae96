"""How far a build's labels agree with those of published incidents: `python -m tests.bench.published.agreement`.

Options: `[--replay FILE] [--json] [FOLDER]`. Incidents are read as an export without labels: title, description, cause
and resolution. Without a recording the rules label, ignoring past incidents of the same thread; with one, the model's
answers do. `level_1` compares the category with the leaf's if the taxonomy has the cause, else with the incident's own
(`incident_labels`: one cause may be filed under two layers); `level_1_own` only with the incident's own.
"""

import argparse
import asyncio
import json
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import yaml

from graph.learning.model_labelling import ModelLabeller
from graph.learning.rule_labelling import LabelledRow, RuleLabeller
from graph.model.budget import Budget
from graph.model.client import ModelReasoner
from graph.model.recording import RecordedEndpoint
from kb.exports.row import ExportRow, parse_export_row
from kb.history.incidents import load_seeds
from kb.history.label_ranking import LabelRanker
from kb.taxonomy.loader import load_taxonomy
from tests.bench.published.incidents import INCIDENTS
from tests.bench.published.labels import expected
from tests.bench.score import mean
from tools.checks import CHECKS

# Answers of a frontier model, 2026-11, written through a file endpoint from the questions alone: half by a reader who
# did not know this project, half by one who had worked on its causes. They answer that time's prompts and causes; rules
# label what has changed since.
ANSWERS: Final = Path(__file__).parents[1] / "answers" / "build-67.jsonl"
MODEL: Final = "gpt-4o"  # model name in that recording's questions


def as_export(folder: Path) -> list[tuple[ExportRow, str, str]]:
    """Return each incident as an export row, with its category and leaf, empty if unknown."""
    given = [yaml.safe_load(path.read_text()) for path in sorted(folder.glob("*.yaml"))]
    return [(_row(one), *expected(one["category"], one["subcategory"])) for one in given]


def agreement(rows: Sequence[tuple[LabelledRow, str, str]]) -> dict[str, Any]:
    """Return the share of correct labels by level."""
    hits: dict[str, list[bool]] = defaultdict(list)
    for row, category, leaf in rows:
        found = row.label.partition(".")[0]
        hits["level_1"].append(found == (leaf or category).partition(".")[0])
        hits["level_1_own"].append(found == category)
        if leaf:
            hits["leaf"].append(row.label == leaf)
    return {level: {"right": sum(row), "of": len(row), **(mean(row) or {})} for level, row in hits.items()}


def measure(folder: Path = INCIDENTS, replay: Path | None = None) -> dict[str, Any]:
    """Return the shares; with a recording also the number of answered rows."""
    export = as_export(folder) if folder.is_dir() else []
    if not export:
        return {"not_run": "no published incidents at hand; BENCH_INCIDENTS names their folder"}
    taxonomy, past = load_taxonomy(), load_seeds()
    nearest = LabelRanker.build(taxonomy, past)
    of_thread = {url: [one.id for one in past if one.source_url == url] for url in {row.url for row, _, _ in export}}
    ruled = [RuleLabeller(taxonomy, nearest.without_incidents(of_thread[row.url]), CHECKS) for row, _, _ in export]
    if replay is None:
        labelled = [rules.label_row(row) for rules, (row, _, _) in zip(ruled, export, strict=True)]
        return agreement(_beside(labelled, export))
    labelled = asyncio.run(replayed(RuleLabeller(taxonomy, nearest, CHECKS), [row for row, _, _ in export], replay))
    return {"answered": sum(bool(row.by) for row in labelled), **agreement(_beside(labelled, export))}


async def replayed(rules: RuleLabeller, rows: Sequence[ExportRow], replay: Path) -> list[LabelledRow]:
    """Label each row by the recording, or by rules where it has no answer."""
    budget = Budget(calls=len(rows), usd=100.0, tokens=10_000_000)
    return await ModelLabeller(rules, ModelReasoner(RecordedEndpoint(None, MODEL, replay), budget=budget), MODEL).label_rows(rows)


def _beside(labelled: Sequence[LabelledRow], export: Sequence[tuple[ExportRow, str, str]]) -> list[tuple[LabelledRow, str, str]]:
    return [(row, category, leaf) for row, (_, category, leaf) in zip(labelled, export, strict=True)]


def _row(one: dict[str, Any]) -> ExportRow:
    given = {"id": one["id"], "title": one["title"], "description": one["description"], "root_cause": one["root_cause"]}
    return parse_export_row(given | {"resolution_notes": one["resolution"], "url": one["source_url"]}, one["id"])


def main() -> None:
    asks = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    asks.add_argument("folder", nargs="?", type=Path, default=INCIDENTS)
    asks.add_argument("--replay", type=Path, help=f"a recording of a model's answers, as {ANSWERS.name}")
    asks.add_argument("--json", action="store_true")
    given = asks.parse_args()
    found = measure(given.folder, given.replay)
    print(json.dumps(found) if given.json else "\n".join(f"{name:<12} {value}" for name, value in found.items()))


if __name__ == "__main__":
    main()
