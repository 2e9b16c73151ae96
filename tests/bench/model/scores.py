"""Scores of recorded models: `python -m tests.bench.model.scores keep NAME RESULTS… --made WORDS`.

A recording answers its own day's prompts and knowledge. Figures are kept with a digest of the prompts, so that after a
change they stay in the report, marked as of older prompts, until a new recording. They come from results of `bench run`
or `read_texts`, never by hand.
"""

import argparse
import hashlib
import json
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

from graph.model import prompts as product
from tests.bench.model.endpoint import PROMPTS
from tests.bench.published.read_texts import ANSWERS
from tests.bench.report.parts import table
from tests.bench.score import mcnemar

SCHEMA: Final = 1
OURS: Final = "B9"
TEXTS, CASES = ANSWERS / "texts-67-results.json", ANSWERS / "cases-results.json"
WITH_LIKELY: Final = (
    "*With likely*: as though what it calls likely and not proven, where it abstains, were its answer, also where abstaining was right; "
    "no remedy follows from it."
)
LEVELS: Final = {
    "level_1": "category, as published",
    "level_1_of_leaf": "category of the right leaf",
    "level_3": "leaf",
    "level_3_in_first_3": "leaf among the first three",
    "true_cause_among_ideas": "without its own leaf: the true cause among three ideas",
}


@cache
def prompts_digest() -> str:
    """Return a digest of every prompt that a recorded answer may depend on."""
    texts = [path.read_bytes() for folder in (product.PROMPT_DIR, PROMPTS) for path in sorted(folder.glob("*.md"))]
    return hashlib.sha256(b"\0".join(texts)).hexdigest()[:16]


def kept(path: Path) -> dict[str, Any] | None:
    """Return the kept figures, or None."""
    if not path.exists():
        return None
    found: dict[str, Any] = json.loads(path.read_text())
    return found if found.get("schema") == SCHEMA else None


def keep(path: Path, results: Mapping[str, Any], made: str) -> None:
    path.write_text(json.dumps({"schema": SCHEMA, "made": made, "prompts": prompts_digest(), **results}, indent=1) + "\n")


def of_runs(docs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return figures by arm and layer from several results of `bench run` on different cases."""
    layers: dict[str, dict[str, Any]] = {}
    for doc in docs:
        for name, arm in doc["arms"].items():
            if "by_layer" not in arm:
                continue
            for layer, figures in arm["by_layer"].items():
                layers.setdefault(layer, {})[name] = {
                    "n": figures["accuracy"]["n"],
                    "accuracy": figures["accuracy"]["value"],
                    "ci95": figures["accuracy"]["ci95"],
                    "l1": figures["micro_f1"]["l1"],
                    "l3": figures["micro_f1"]["l3"],
                    "sure_and_wrong": (figures.get("sure_and_wrong") or {}).get("value"),
                    **_likely(figures),
                    **{what: figures["cost"].get(what) for what in ("calls", "tokens_in", "tokens_out", "usd")},
                }
    return {"layers": layers, "paired": _pairs(docs)}


def _likely(figures: Mapping[str, Any]) -> dict[str, Any]:
    """Return the scores when likely causes count as answers."""
    likely = figures.get("with_likely")
    return {"likely": likely["accuracy"], "likely_l1": likely["l1"]["value"], "called_likely": likely["named"]} if likely else {}


def _pairs(docs: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Compare every other arm with the product with a model, on common cases."""
    right: dict[str, dict[str, bool]] = {}
    for doc in docs:
        for name, arm in doc["arms"].items():
            right.setdefault(name, {}).update({row["case"]: row["right"] for row in arm.get("per_case", ())})
    ours, found = right.pop(OURS, {}), []
    for name, rows in sorted(right.items()):
        both = sorted(ours.keys() & rows.keys())
        if both:
            test = mcnemar([ours[case] for case in both], [rows[case] for case in both])
            found.append({"of": len(both), "between": f"{OURS} / {name}", **test})
    return found


def section(texts: Path = TEXTS, cases: Path = CASES) -> str:
    """Return the section, or "" if nothing is kept."""
    parts = [part for part in (_texts(kept(texts)), _cases(kept(cases))) if part]
    return "\n\n".join(["## With a recorded model", *parts]) if parts else ""


def _head(found: Mapping[str, Any]) -> str:
    older = (
        ""
        if found["prompts"] == prompts_digest()
        else " **Older prompts: the product asks otherwise by now, and nobody has recorded it anew.**"
    )
    return f"{found['made']}{older}"


def _texts(found: Mapping[str, Any] | None) -> str:
    if found is None:
        return ""
    rows = [[says, _share(found[level])] for level, says in LEVELS.items() if level in found]
    outside = found["outside"]
    rows.append(
        [
            "says rightly that no leaf is it, both halves",
            f"F1 {outside['f1']:.2f} (precision {outside['precision']:.2f}, recall {outside['recall']:.2f}) of {outside['of']}",
        ]
    )
    return f"{_head(found)}\n\n{table(['published incidents by their text alone', 'right'], rows)}"


def _share(row: Mapping[str, Any]) -> str:
    low, high = row["ci95"]
    return f"{row['right']}/{row['of']} = {row['value']:.2f} [{low:.2f}, {high:.2f}]"


def _cases(found: Mapping[str, Any] | None) -> str:
    if found is None:
        return ""
    head = ["layer", "arm", "cases", "right", "level 1", "leaf", "with likely", "sure and wrong", "calls", "tokens in / out", "USD"]
    rows = [[layer, name, *_figures(row)] for layer, arms in found["layers"].items() for name, row in arms.items()]
    pairs = [[str(row["of"]), row["between"], str(row["only_one"]), str(row["only_other"]), f"{row['p']:g}"] for row in found["paired"]]
    paired = table(["cases", "arms", "only the first right", "only the second", "p (McNemar)"], pairs)
    return f"{_head(found)} {WITH_LIKELY}\n\n{table(head, rows)}\n\n{paired}"


def _figures(row: Mapping[str, Any]) -> list[str]:
    low, high = row["ci95"]
    sure = "–" if row["sure_and_wrong"] is None else f"{row['sure_and_wrong']:.3f}"
    tokens = f"{_number(row['tokens_in']):.0f} / {_number(row['tokens_out']):.0f}"
    right = f"{row['accuracy']:.3f} [{low:.2f}, {high:.2f}]"
    return [
        str(row["n"]),
        right,
        f"{row['l1']:.3f}",
        f"{row['l3']:.3f}",
        f"{row['likely']['value']:.3f} (level 1 {row['likely_l1']:.3f})" if "likely" in row else "–",
        sure,
        f"{_number(row['calls']):.1f}",
        tokens,
        f"{_number(row['usd']):.3f}",
    ]


def _number(cell: Any) -> float:
    """Return a mean stored bare or with its interval."""
    return float(
        cell["value"] if isinstance(cell, Mapping) and "value" in cell else cell["mean"] if isinstance(cell, Mapping) else cell or 0
    )


def main(words: Sequence[str]) -> int:
    """Keep figures, or print the section."""
    asks = argparse.ArgumentParser(prog="python -m tests.bench.model.scores", description=__doc__.partition("\n")[0])
    asks.add_argument("what", choices=("texts", "cases", "show"))
    asks.add_argument("results", nargs="*", type=Path)
    asks.add_argument("--made", default="", help="who answered, when and how, in a sentence")
    given = asks.parse_args(list(words))
    docs = [json.loads(path.read_text()) for path in given.results]
    if given.what == "texts":
        keep(TEXTS, docs[0], given.made)
    elif given.what == "cases":
        keep(CASES, of_runs(docs), given.made)
    print(section())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
