"""Measure the report's AidAI section: `python -m tests.bench.aidai.measure [--jobs N] [--only SET …]`, some CPU minutes.

Replays every recording of model arms and runs the model-free arms on the same cases; also AidAI's design with an
always-right model, ablations of the product, and labels removed from the taxonomy. Answers go to
`answers/aidai-results.json`, from which the report counts. No model is called, and the same code writes the same file.
"""

import argparse
import asyncio
import hashlib
import json
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

from graph.learning.rule_labelling import RuleLabeller
from kb.history.incidents import load_seeds
from kb.history.label_ranking import LabelRanker
from kb.taxonomy.loader import load_taxonomy
from tests.bench.aidai.arm import PIPELINE
from tests.bench.arms.table import ARMS
from tests.bench.case_files.generate import cases
from tests.bench.case_files.harder import VERSION
from tests.bench.case_files.truth import ABSTAIN, NO_FAULT
from tests.bench.case_files.wild import wild_cases
from tests.bench.model.endpoint import Access
from tests.bench.model.recording import read_recording
from tests.bench.model.scores import prompts_digest
from tests.bench.published import agreement
from tests.bench.published.incidents import INCIDENTS
from tests.bench.published.read_texts import ANSWERS
from tests.bench.run.pool import spread
from tests.bench.run.work import Job, marked, work
from tools.checks import CHECKS

SCHEMA: Final = 1
RESULTS: Final = ANSWERS / "aidai-results.json"
RECORDINGS: Final = "cases-*.jsonl"
FREE: Final = ("B1", "B4r", "B5", "B8")
# labels removed by the paper (Table 4), under their names here
LABELS: Final = (
    "GPU.MEMORY.InfoROM_Corruption",
    "USER.CODE.Illegal_Memory_Access",
    "SYSTEM_SOFTWARE.CUDA.Host_Container_CUDA_Mismatch",
)
HARD: Final = 79  # cases of layer hard: every fault once
SEEDS: Final = ("1", "2", "3", "4", "5")
COSTS: Final = ("makespan", "check_seconds", "gpu_seconds", "calls", "tokens_in", "tokens_out", "usd")

Raw = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Posed:
    """Cases under some arms. `tape`: the recording to replay."""

    raws: Sequence[Raw]
    arms: tuple[str, ...]
    tape: Path | None = None


def plans(tape: Path) -> dict[str, Posed]:
    """Return every set of the section by name."""
    hard = tuple(cases("hard", "1", HARD, "open"))
    unseen = tuple(cases("unseen", "1", None, "open"))
    removed = tuple(of_labels(LABELS))
    return {
        "recorded": Posed(tuple(recorded_cases(tape)), (*FREE, "B8-history", *sorted(recorded_arms(tape))), tape),
        "hard": Posed(hard, (*FREE, "B8-history", "B6-sage", "B8-sage", "B8-liar"), None),
        "unseen": Posed(unseen, ("B8",)),
        "unseen, label known": Posed(tuple(map(known, unseen)), ("B8",)),
        "removed": Posed(tuple(without_own(raw) for raw in removed), ("B8",)),
        "removed, label known": Posed(removed, ("B8",)),
    }


def tape_of(folder: Path, out: Path) -> Path:
    """Merge all recordings; their cases and arms are disjoint."""
    files = [path.read_text().splitlines() for path in sorted(folder.glob(RECORDINGS))]
    out.write_text("\n".join([files[0][0], *(line for lines in files for line in lines[1:])]) + "\n")
    return out


@cache
def _asked(tape: Path) -> frozenset[tuple[str, str]]:
    return frozenset((key.case, key.arm) for key in read_recording(tape).answers)


def recorded_arms(tape: Path) -> set[str]:
    return {arm for _, arm in _asked(tape)}


def recorded_cases(tape: Path) -> Iterator[Raw]:
    """Yield the cases of any layer with a recorded answer."""
    there = {case for case, _ in _asked(tape)}
    layers = [raw for layer in ("hard", "composite", "unseen") for raw in cases(layer, "1", None, "open")]
    return (raw for raw in (*wild_cases(), *layers) if str(raw["id"]) in there)


def of_labels(labels: Sequence[str], seeds: Sequence[str] = SEEDS) -> Iterator[Raw]:
    """Yield hard cases of several seeds with exactly one cause, one of `labels`."""
    for seed in seeds:
        for raw in cases("hard", seed, None, "open"):
            if raw["truth"]["primary"]["label"] in labels and not raw["truth"].get("also"):
                yield raw


def without_own(raw: Raw) -> Raw:
    """Return the case for a solver that does not know its cause."""
    return {**raw, "truth": {**raw["truth"], "removed": [raw["truth"]["primary"]["label"]]}}


def known(raw: Raw) -> Raw:
    """Return the case for a solver that knows all labels."""
    return {**raw, "truth": {name: said for name, said in raw["truth"].items() if name != "removed"}}


def answers(posed: Posed, jobs: int = 1) -> dict[str, Any]:
    """Return cases and each arm's answers, for model arms those recorded. `not_replayed`: number of missing answers."""
    access = _access(posed.tape) if posed.tape else None
    todo = [Job(raw, arms, access=access) for raw in posed.raws if (arms := _arms(posed, str(raw["id"])))]
    found: dict[str, Any] = {"cases": {str(raw["id"]): _case(raw) for raw in posed.raws}, "arms": {name: {} for name in posed.arms}}
    by_id, lost = {str(raw["id"]): raw for raw in posed.raws}, 0
    for rows in spread(work, todo, jobs):
        for row in rows:
            if "failed" in row:
                lost += 1
            else:
                found["arms"][row["arm"]][row["case"]] = _row(row, by_id[row["case"]])
    order = list(by_id)
    found["arms"] = {name: dict(sorted(said.items(), key=lambda one: order.index(one[0]))) for name, said in found["arms"].items()}
    return found | ({"not_replayed": lost} if lost else {})


def _arms(posed: Posed, case: str) -> tuple[str, ...]:
    """Return the arms to run. B9 asks only where rules leave something open, so cases without a recorded question count
    for it too.
    """
    asked = _asked(posed.tape) if posed.tape else frozenset()
    return tuple(name for name in posed.arms if not ARMS[name].model or name == "B9" or (case, name) in asked)


def _access(tape: Path) -> Access:
    digest = hashlib.sha256(tape.read_bytes()).hexdigest()
    return Access("", "", read_recording(tape).model, replay=tape.resolve(), tape=digest)


def _case(raw: Raw) -> dict[str, Any]:
    truth = raw["truth"]
    causes = [truth["primary"]["label"], *(row["label"] for row in truth.get("also") or ())]
    more = {name: list(truth[name]) for name in ("secondary_ok", "blind") if truth.get(name)}
    return {"layer": raw["layer"], "causes": causes, **more, **({"removed": True} if truth.get("removed") else {})}


def _row(row: Mapping[str, Any], raw: Raw) -> dict[str, Any]:
    """Return an answer in short: labels if they differ from the truth, and costs."""
    mark = marked(row, raw)
    said = {} if set(mark.answer.labels) == set(mark.truth.labels) else {"said": list(mark.answer.labels)}
    took = {name: round(value, 4 if name == "usd" else 1) for name in COSTS if (value := getattr(mark.answer.cost, name))}
    more: dict[str, Any] = {"names_blind_look": True} if mark.names_blind_look else {}
    if mark.answer.account and mark.answer.account.says.startswith(PIPELINE):
        more["pipeline"] = int(mark.answer.account.says.removeprefix(PIPELINE))
    return {**said, **took, **more}


def labels_met(folder: Path = INCIDENTS) -> dict[str, Any]:
    """Return the label that `kb build` gives each published incident with the recorded model."""
    export = agreement.as_export(folder) if folder.is_dir() else []
    if not export:
        return {"not_run": "no published incidents at hand; BENCH_INCIDENTS names their folder"}
    taxonomy = load_taxonomy()
    rules = RuleLabeller(taxonomy, LabelRanker.build(taxonomy, load_seeds()), CHECKS)
    rows = asyncio.run(agreement.replayed(rules, [row for row, _, _ in export], agreement.ANSWERS))
    return {
        "answered": sum(bool(row.by) for row in rows),
        "dated": sum(bool(row.time) for row in rows),
        "labels": {row.id: row.label for row in rows if row.verdict == "labelled"},
        "new": {row.id: row.named for row in rows if row.verdict != "labelled" and row.named},
        "leaves": len(taxonomy.leaves),
    }


def measured(only: Sequence[str], before: Mapping[str, Any], jobs: int) -> dict[str, Any]:
    """Measure all sets, or some and keep the rest."""
    sets: dict[str, Any] = dict(before.get("sets", {}))
    with tempfile.TemporaryDirectory(prefix="rackmedic-bench-") as scratch:
        for name, posed in plans(tape_of(ANSWERS, Path(scratch) / "tape.jsonl")).items():
            if not only or name in only:
                sets[name] = answers(posed, jobs)
                print(f"{name}: {len(posed.raws)} cases", file=sys.stderr)
    built = labels_met() if not only or "build" in only else before.get("build", {})
    return {
        "schema": SCHEMA,
        "benchmark": VERSION,
        "prompts": prompts_digest(),
        "verdicts": [NO_FAULT, ABSTAIN],
        "sets": sets,
        "build": built,
    }


def written(found: Mapping[str, Any]) -> str:
    """Return the file's text, one case or answer per line for readable diffs."""
    return "\n".join(_lines(found)) + "\n"


def _lines(node: Any, depth: int = 0) -> Iterator[str]:
    """Yield lines; a value without nested mappings takes one line."""
    if not isinstance(node, Mapping) or not any(isinstance(one, Mapping) for one in node.values()):
        yield json.dumps(node, ensure_ascii=False)
        return
    pad = " " * depth
    yield "{"
    for at, (name, one) in enumerate(node.items(), 1):
        lines = list(_lines(one, depth + 1))
        lines[0] = f"{pad} {json.dumps(name)}: {lines[0]}"
        lines[-1] += "," if at < len(node) else ""
        yield from lines
    yield f"{pad}}}"


def main(words: Sequence[str]) -> int:
    asks = argparse.ArgumentParser(prog="python -m tests.bench.aidai.measure", description=__doc__.partition("\n")[0])
    asks.add_argument("--jobs", type=int, default=1)
    asks.add_argument("--only", nargs="*", default=(), metavar="SET", help="sets of cases, or `build`; all others stay as they are")
    asks.add_argument("--out", type=Path, default=RESULTS)
    given = asks.parse_args(list(words))
    before = json.loads(given.out.read_text()) if given.out.exists() else {}
    given.out.write_text(written(measured(given.only, before, given.jobs)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
