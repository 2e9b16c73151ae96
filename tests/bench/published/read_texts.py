"""What a model makes of published incidents by text alone: `python -m tests.bench.published.read_texts`.

Options: `(--model-url URL | --replay FILE) [--record FILE]`. Each incident is read three times: with all labels;
without its own, where "none of them" is right; and for up to three own ideas. Whether an idea is the true cause is
judged by a reader who sees the thread's cause (`--judged FILE`: a JSON list of `{"id", "among": true|false}`). No
answer is shown to the model.
"""

import argparse
import asyncio
import json
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from graph.extraction.text_classifier import blend_rankings, rank_labels_by_text
from graph.model.budget import Budget
from graph.model.client import ModelReasoner
from graph.model.endpoint import ChatEndpoint, OpenAIEndpoint
from graph.model.reasoner import Idea, IdeaChoices, Ideas, PromptMaterial, ReadingChoices, ReportExtraction
from graph.model.recording import RecordedEndpoint
from kb.history.incidents import load_seeds
from kb.history.label_ranking import LabelRanker
from kb.taxonomy.loader import load_taxonomy
from kb.taxonomy.taxonomy import Taxonomy
from tests.bench.published.incidents import INCIDENTS, WHEN, Told, read_incidents
from tests.bench.score import mean
from tools.checks import CHECKS

ANSWERS: Final = Path(__file__).parents[1] / "answers"
RECORDED, JUDGED = ANSWERS / "texts-67.jsonl", ANSWERS / "texts-67-judged.json"
MODEL: Final = "gpt-4o"  # model name in the recording's questions, and for prices
BUDGET: Final = Budget(calls=10_000, tokens=100_000_000, usd=10_000)
FOUND: Final = 0.5  # least probability of the likeliest label for a reading without `outside` to name it


@dataclass(frozen=True, slots=True)
class Read:
    """One incident's readings with and without its label, and ideas; None if declined."""

    told: Told
    whole: ReportExtraction | None
    without: ReportExtraction | None
    ideas: tuple[Idea, ...]


async def read_all(model: ModelReasoner, incidents: Sequence[Told], taxonomy: Taxonomy) -> list[Read]:
    """Read all incidents concurrently."""
    return list(await asyncio.gather(*(_read(model, told, taxonomy) for told in incidents)))


async def _read(model: ModelReasoner, told: Told, taxonomy: Taxonomy) -> Read:
    titles = {label: taxonomy.get_title(label) for label in taxonomy.leaves}
    less = {label: title for label, title in titles.items() if label != told.leaf}
    material = PromptMaterial(told.text)
    branches = {label.rpartition(".")[0]: taxonomy.get_title(label.rpartition(".")[0]) for label in titles}
    asked = (
        model.extract_report(told.id, material, ReadingChoices((), titles)),
        model.extract_report(told.id, material, ReadingChoices((), less)),
        model.propose_ideas(told.id, material, (), IdeaChoices((), {}, branches)),
    )
    whole, without, ideas = await asyncio.gather(*asked)
    return Read(
        told,
        whole if isinstance(whole, ReportExtraction) else None,
        without if isinstance(without, ReportExtraction) else None,
        ideas.ideas if isinstance(ideas, Ideas) else (),
    )


def score(rows: Sequence[Read], taxonomy: Taxonomy, among: Mapping[str, bool]) -> dict[str, Any]:
    """Return shares of incidents, `outside` over both halves."""
    hits: dict[str, list[bool]] = defaultdict(list)
    seeds = load_seeds()
    for row in rows:
        if row.whole is None:
            continue
        past = [seed for seed in seeds if seed.source_url != row.told.url]
        ruled = rank_labels_by_text(row.told.text, taxonomy, LabelRanker.build(taxonomy, past), CHECKS, WHEN)
        ranked = [label for label, _ in blend_rankings(ruled, row.whole.causes, fits_none=bool(row.whole.outside))]
        hits["level_1"].append(row.whole.category == row.told.category)
        if row.told.leaf:
            hits["level_1_of_leaf"].append(ranked[0].partition(".")[0] == row.told.leaf.partition(".")[0])
            hits["level_3"].append(ranked[0] == row.told.leaf)
            hits["level_3_in_first_3"].append(row.told.leaf in ranked[:3])
    hits["true_cause_among_ideas"] = [among[row.told.id] for row in rows if row.told.id in among and row.told.leaf]
    shares = {name: {"right": sum(row), "of": len(row), **(mean(row) or {})} for name, row in hits.items() if row}
    return {"answered": sum(row.whole is not None for row in rows), **shares, "outside": _outside(rows)}


def _outside(rows: Sequence[Read]) -> dict[str, Any]:
    """Return precision and recall of "no label fits": right for readings without the own label and incidents without a
    leaf.
    """
    said = [(row.without.outside != "", True) for row in rows if row.without is not None and row.told.leaf]
    said += [(row.whole.outside != "", not row.told.leaf) for row in rows if row.whole is not None]
    hit = sum(one and true for one, true in said)
    named, true = sum(one for one, _ in said), sum(true for _, true in said)
    return {"of": len(said), "precision": _share(hit, named), "recall": _share(hit, true), "f1": _share(2 * hit, named + true)}


def _share(part: int, of: int) -> float | None:
    return round(part / of, 3) if of else None


def ideas_to_judge(rows: Sequence[Read], folder: Path) -> list[dict[str, Any]]:
    """Return ideas and true causes for the judge."""
    import yaml

    causes = {(one := yaml.safe_load(path.read_text()))["id"]: one["root_cause"] for path in folder.glob("*.yaml")}
    ideas = {row.told.id: [f"{idea.title}: {idea.cause}" for idea in row.ideas] for row in rows}
    return [{"id": name, "true_cause": causes[name], "ideas": said} for name, said in ideas.items()]


def judged(path: Path) -> dict[str, bool]:
    return {str(row["id"]): bool(row["among"]) for row in json.loads(path.read_text())} if path.exists() else {}


def measure(folder: Path = INCIDENTS, replay: Path = RECORDED, verdicts: Path = JUDGED) -> dict[str, Any]:
    """Return the shares from a recording."""
    incidents = read_incidents(folder) if folder.is_dir() else []
    if not incidents:
        return {"not_run": "no published incidents at hand; BENCH_INCIDENTS names their folder"}
    taxonomy = load_taxonomy()
    rows = asyncio.run(read_all(ModelReasoner(RecordedEndpoint(None, MODEL, replay), budget=BUDGET), incidents, taxonomy))
    if not any(row.whole for row in rows):
        return {"not_run": "older prompts: the recording answers other questions than are asked today"}
    return {"incidents": len(incidents), **score(rows, taxonomy, judged(verdicts))}


def main(words: Sequence[str]) -> int:
    asks = argparse.ArgumentParser(prog="python -m tests.bench.published.read_texts", description=__doc__.partition("\n")[0])
    asks.add_argument("folder", nargs="?", type=Path, default=INCIDENTS)
    asks.add_argument("--model-url", help="an OpenAI-compatible endpoint that is asked for what is not recorded")
    asks.add_argument("--seconds", type=float, default=1_500.0, help="deadline of a call")
    asks.add_argument("--record", "--replay", dest="recording", type=Path, default=RECORDED)
    asks.add_argument("--judged", type=Path, default=JUDGED)
    asks.add_argument("--to-judge", type=Path, metavar="FILE", help="write the ideas and the true causes for whoever judges them")
    given = asks.parse_args(list(words))
    endpoint: ChatEndpoint | None = (
        OpenAIEndpoint(given.model_url, "none", MODEL, seconds=given.seconds, tries=1) if given.model_url else None
    )
    taxonomy = load_taxonomy()
    model = ModelReasoner(RecordedEndpoint(endpoint, MODEL, given.recording), budget=BUDGET)
    rows = asyncio.run(read_all(model, read_incidents(given.folder), taxonomy))
    if given.to_judge:
        given.to_judge.write_text(json.dumps(ideas_to_judge(rows, given.folder), indent=1))
    print(json.dumps(score(rows, taxonomy, judged(given.judged)), indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
