"""How often the text of a published incident alone leads to its cause: `python -m tests.bench.incidents [--json] [FOLDER]`.

Cross-validated: an incident is ranked by what is known without it (past incidents of its own thread are taken out), and in the arm
`taught` also by the other folds' incidents. The answers (category, root cause, resolution) are never shown to what ranks.
Level 1 is the category, 2 the branch, 3 the leaf; 2 and 3 only where the taxonomy has the cause. Times are no part of it.
"""

import json
import os
import sys
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

from graph.classify import classify
from kb.history import load_seeds
from kb.nearest import Nearest
from kb.past import PastIncident
from kb.taxonomy import Taxonomy, load_taxonomy
from tests.bench.incident_labels import expected
from tools.checks import CHECKS

INCIDENTS = Path(os.environ.get("RACKMEDIC_INCIDENTS", Path(__file__).parents[3] / "shared" / "incidents"))
FOLDS = 5
WHEN = datetime(2026, 5, 20, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Told:
    """One incident: what may be shown, and its answer."""

    id: str
    url: str
    title: str
    text: str
    category: str
    leaf: str


def read_incidents(folder: Path) -> list[Told]:
    """The incidents of a folder, by name."""
    return [_told(yaml.safe_load(path.read_text())) for path in sorted(folder.glob("*.yaml"))]


def _told(row: dict[str, Any]) -> Told:
    category, leaf = expected(row["category"], row["subcategory"])
    return Told(row["id"], row["source_url"], row["title"], f"{row['title']}\n{row['description']}", category, leaf)


def score(incidents: Sequence[Told], taxonomy: Taxonomy, seeds: Sequence[PastIncident], *, taught: bool) -> dict[str, Any]:
    """Shares of incidents whose first answer is right on each level, and whose leaf is among the first five."""
    hits: dict[str, list[bool]] = defaultdict(list)
    for place, incident in enumerate(incidents):
        past = [seed for seed in seeds if seed.source_url != incident.url]
        if taught:
            past += _lessons(other for n, other in enumerate(incidents) if n % FOLDS != place % FOLDS and other.url != incident.url)
        ranked = [label for label, _ in classify(incident.text, taxonomy, Nearest.of(taxonomy, past), CHECKS, WHEN)]
        hits["level_1"].append(ranked[0].partition(".")[0] == incident.category)
        if incident.leaf:
            hits["level_1_of_leaf"].append(ranked[0].partition(".")[0] == incident.leaf.partition(".")[0])
            hits["level_2"].append(ranked[0].rpartition(".")[0] == incident.leaf.rpartition(".")[0])
            hits["level_3"].append(ranked[0] == incident.leaf)
            hits["level_3_in_first_5"].append(incident.leaf in ranked[:5])
    return {level: {"right": sum(row), "of": len(row), "share": round(sum(row) / len(row), 3)} for level, row in hits.items()}


def _lessons(incidents: Iterable[Told]) -> list[PastIncident]:
    """Incidents of other folds as past ones: their words and their leaf, nothing else of the answer."""
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
    """Score both arms and print."""
    folder = next((Path(word) for word in words if not word.startswith("-")), INCIDENTS)
    incidents = read_incidents(folder) if folder.is_dir() else []
    if not incidents:
        print(f"not run: no incidents in {folder}", file=sys.stderr)
        return 1
    taxonomy, seeds = load_taxonomy(), load_seeds()
    arms = {name: score(incidents, taxonomy, seeds, taught=name == "taught") for name in ("shipped", "taught")}
    if "--json" in words:
        print(json.dumps({"schema": 1, "incidents": len(incidents), "arms": arms}))
        return 0
    print(f"{len(incidents)} incidents, each ranked without its own thread")
    for name, rows in arms.items():
        print(f"{name}: " + ", ".join(f"{level} {row['right']}/{row['of']} = {row['share']:.0%}" for level, row in rows.items()))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
