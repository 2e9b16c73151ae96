"""How often a published incident's text alone leads to its cause: `python -m tests.bench.published.incidents`.

Options: `[--json] [--embeddings URL] [FOLDER]`. Cross-validated: an incident is ranked without past incidents of its
own thread, in arm `taught` with the other folds' incidents added. Category, root cause and resolution are never shown
to the ranker. Level 1 is the category, 2 the branch, 3 the leaf; 2 and 3 only if the taxonomy has the cause. Times are
not used. `past_in_first_2` queries the index of past incidents, if one of the same leaf and another thread exists.
"""

import argparse
import asyncio
import json
import os
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

from graph.engine.priors import compute_word_priors, select_telling_incidents
from graph.extraction.reports import parse_report
from graph.extraction.text_classifier import rank_labels_by_text
from graph.incident.plan import MAX_PAST_INCIDENTS
from graph.model.embeddings import HttpEmbedder
from graph.state import IncidentBrief
from kb.history.incidents import PastIncident, load_seeds
from kb.history.index import Embedder, PastIncidentIndex
from kb.history.label_ranking import LabelRanker
from kb.taxonomy.loader import load_taxonomy
from kb.taxonomy.taxonomy import Taxonomy
from tests.bench.published.labels import expected
from tests.bench.score import mean
from tools.checks import CHECKS

INCIDENTS = Path(os.environ.get("BENCH_INCIDENTS", Path(__file__).parents[4] / "shared" / "incidents"))
FOLDS = 5
WHEN = datetime(2026, 5, 20, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Told:
    """One incident: visible text and answer."""

    id: str
    url: str
    title: str
    text: str
    category: str
    leaf: str


def read_incidents(folder: Path) -> list[Told]:
    return [_told(yaml.safe_load(path.read_text())) for path in sorted(folder.glob("*.yaml"))]


def _told(row: dict[str, Any]) -> Told:
    category, leaf = expected(row["category"], row["subcategory"])
    return Told(row["id"], row["source_url"], row["title"], f"{row['title']}\n{row['description']}", category, leaf)


def score(incidents: Sequence[Told], taxonomy: Taxonomy, seeds: Sequence[PastIncident], *, taught: bool) -> dict[str, Any]:
    """Return the shares of right first answers by level, and of leaves among the first five."""
    hits: dict[str, list[bool]] = defaultdict(list)
    for place, incident in enumerate(incidents):
        past = [seed for seed in seeds if seed.source_url != incident.url]
        if taught:
            past += _lessons(other for n, other in enumerate(incidents) if n % FOLDS != place % FOLDS and other.url != incident.url)
        ranked = [label for label, _ in rank_labels_by_text(incident.text, taxonomy, LabelRanker.build(taxonomy, past), CHECKS, WHEN)]
        hits["level_1"].append(ranked[0].partition(".")[0] == incident.category)
        if incident.leaf:
            hits["level_1_of_leaf"].append(ranked[0].partition(".")[0] == incident.leaf.partition(".")[0])
            hits["level_2"].append(ranked[0].rpartition(".")[0] == incident.leaf.rpartition(".")[0])
            hits["level_3"].append(ranked[0] == incident.leaf)
            hits["level_3_in_first_3"].append(incident.leaf in ranked[:3])
            hits["level_3_in_first_5"].append(incident.leaf in ranked[:5])
    return {level: _share(row) for level, row in hits.items()}


def recalled(
    incidents: Sequence[Told], taxonomy: Taxonomy, seeds: Sequence[PastIncident], embedder: Embedder | None = None
) -> dict[str, Any]:
    """Return how many incidents recall a past one of their leaf, from another thread, among the first two (as the first
    plan uses). With an embedder, words and vectors are fused by rank.
    """
    return asyncio.run(_recalled(incidents, taxonomy, seeds, embedder))


async def _recalled(
    incidents: Sequence[Told], taxonomy: Taxonomy, seeds: Sequence[PastIncident], embedder: Embedder | None
) -> dict[str, Any]:
    hits = []
    for incident in incidents:
        past = [seed for seed in seeds if seed.source_url != incident.url]
        if incident.leaf in {seed.label for seed in past}:
            history = PastIncidentIndex(past, embedder=embedder)
            said = parse_report(incident.text, (), WHEN)
            words = compute_word_priors(taxonomy, IncidentBrief(text=incident.text, symptoms=said.symptoms, signatures=said.signatures))
            hits.append(
                incident.leaf
                in [found.label for found in select_telling_incidents(await history.find_similar(incident.text, MAX_PAST_INCIDENTS), words)]
            )
            await history.close()
    return {"past_in_first_2": _share(hits)} if hits else {}


def _share(row: Sequence[bool]) -> dict[str, Any]:
    figure = mean(row)
    assert figure is not None  # a level only exists with a row
    return {"right": sum(row), "of": len(row), "share": round(sum(row) / len(row), 3), "ci95": figure["ci95"]}


def majority(incidents: Sequence[Told]) -> dict[str, Any]:
    """Return the shares of a baseline that always names the other folds' commonest label."""
    hits: dict[str, list[bool]] = defaultdict(list)
    for place, incident in enumerate(incidents):
        others = [other for n, other in enumerate(incidents) if n % FOLDS != place % FOLDS and other.url != incident.url]
        leaves = [other.leaf for other in others if other.leaf]
        hits["level_1"].append(_commonest([other.category for other in others]) == incident.category)
        if incident.leaf:
            hits["level_1_of_leaf"].append(_commonest([leaf.partition(".")[0] for leaf in leaves]) == incident.leaf.partition(".")[0])
            hits["level_2"].append(_commonest([leaf.rpartition(".")[0] for leaf in leaves]) == incident.leaf.rpartition(".")[0])
            hits["level_3"].append(_commonest(leaves) == incident.leaf)
            hits["level_3_in_first_5"].append(incident.leaf in [leaf for leaf, _ in _counted(leaves)[:5]])
    return {level: _share(row) for level, row in hits.items()}


def _counted(values: Iterable[str]) -> list[tuple[str, int]]:
    """Return counts, commonest first, then by name."""
    return sorted(Counter(values).items(), key=lambda row: (-row[1], row[0]))


def _commonest(values: Iterable[str]) -> str:
    counted = _counted(values)
    return counted[0][0] if counted else ""


def measure(folder: Path = INCIDENTS, embedder: Embedder | None = None) -> dict[str, Any]:
    """Return every classifier's shares, or why there are none. `embedder`: also measure recall with words and vectors."""
    incidents = read_incidents(folder) if folder.is_dir() else []
    if not incidents:
        return {"not_run": "no published incidents at hand; BENCH_INCIDENTS names their folder"}
    taxonomy, seeds = load_taxonomy(), load_seeds()
    arms = {name: score(incidents, taxonomy, seeds, taught=name == "taught") for name in ("shipped", "taught")}
    arms["shipped"] |= recalled(incidents, taxonomy, seeds)
    arms |= {"words and vectors": recalled(incidents, taxonomy, seeds, embedder)} if embedder else {}
    return {"incidents": len(incidents), "arms": arms | {"majority": majority(incidents)}}


def _lessons(incidents: Iterable[Told]) -> list[PastIncident]:
    """Return other folds' incidents as past ones: words and leaf only."""
    return [
        PastIncident(
            id=f"fold-{told.id}",
            title=told.title,
            description=told.text,
            label=told.leaf,
            root_cause="",
            resolution="",
            source_url=told.url,
        )
        for told in incidents
        if told.leaf
    ]


def main(words: Sequence[str]) -> int:
    asked = argparse.ArgumentParser(prog="python -m tests.bench.published.incidents", description=__doc__)
    asked.add_argument("folder", nargs="?", type=Path, default=INCIDENTS)
    asked.add_argument("--json", action="store_true")
    asked.add_argument(
        "--embeddings", metavar="URL", help="an OpenAI-compatible endpoint: past incidents are looked for by words and vectors too"
    )
    asked.add_argument("--model", default="embeddings")
    given = asked.parse_args(list(words))
    found = measure(given.folder, HttpEmbedder(given.embeddings, "none", given.model) if given.embeddings else None)
    if "not_run" in found:
        print(f"not run: {found['not_run']}", file=sys.stderr)
        return 1
    if given.json:
        print(json.dumps({"schema": 1, **found}))
        return 0
    print(f"{found['incidents']} incidents, each ranked without its own thread")
    for name, rows in found["arms"].items():
        print(f"{name}: " + ", ".join(f"{level} {row['right']}/{row['of']} = {row['share']:.0%}" for level, row in rows.items()))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
