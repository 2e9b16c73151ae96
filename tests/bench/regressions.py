"""Compare B8 case by case: `python -m tests.bench.regressions` fails if a right case of the open seed is wrong now.

`b8.json` lists the cases known to be wrong; `--renew` rewrites it for review. `--recorded` does the same for B9 on the
hand-written layer with recorded model answers and `b9.json`.
"""

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bot.settings import load_settings
from tests.bench.case_files.generate import LAYERS, cases
from tests.bench.case_files.wild import wild_cases
from tests.bench.cli import access
from tests.bench.run.plan import Plan
from tests.bench.run.run import Teller, run

HERE = Path(__file__).parent
KNOWN, KNOWN_RECORDED, RECORDING = HERE / "b8.json", HERE / "b9.json", HERE / "answers" / "wild-b9.jsonl"
SEED = "1"
SURE = 0.9  # confidence from which a wrong cause counts as sure and wrong


def open_cases(n: int | None = None) -> list[Mapping[str, Any]]:
    """Return all cases of the open seed: the generated layers and the hand-written one; `n` of each layer where it is given."""
    return [raw for layer in LAYERS for raw in cases(layer, SEED, n)] + list(wild_cases(n))


def answers(raws: Sequence[Mapping[str, Any]], jobs: int, recording: Path | None = None) -> list[Mapping[str, Any]]:
    """Diagnose the cases without a model, or with its recorded answers; progress goes to stderr. Return the marked row of each
    case; a case for which a question is not recorded has none."""
    arm = "B9" if recording else "B8"
    model = access(load_settings(environ={}), replay=recording) if recording else None
    with tempfile.TemporaryDirectory(prefix="rackmedic-bench-") as folder:
        teller = Teller(lambda line: print(line, file=sys.stderr, flush=True))
        rows = run(Plan(raws, (arm,), SEED, jobs=jobs, access=model), Path(folder) / "results.json", teller)["arms"][arm]["per_case"]
    if not recording and (missing := {str(raw["id"]) for raw in raws} - {row["case"] for row in rows}):
        raise SystemExit(f"no answer for {len(missing)} cases: {', '.join(sorted(missing)[:5])}")
    return list(rows)


def summary(rows: Sequence[Mapping[str, Any]]) -> dict[str, list[str]]:
    """Return the ids of wrong cases, and of those among them whose cause was named with at least SURE confidence."""
    wrong = sorted(row["case"] for row in rows if not row["right"])
    sure = sorted(row["case"] for row in rows if not row["right"] and named_cause(row) and (row["confidence"] or 0) >= SURE)
    return {"wrong": wrong, "sure_and_wrong": sure}


def named_cause(row: Mapping[str, Any]) -> bool:
    """Return whether the answer accuses something, in place of an abstention or a clean bill."""
    return bool(set(row["labels"]) - {"ABSTAIN", "NO_FAULT"})


def regressions(known: Mapping[str, Any], found: Mapping[str, Sequence[str]]) -> list[str]:
    """Return one line for each case that became wrong, or sure and wrong."""
    return [
        f"{kind.replace('_', ' ')} now: {case}" for kind in ("wrong", "sure_and_wrong") for case in sorted({*found[kind]} - {*known[kind]})
    ]


def main() -> int:
    """Print the regressions and one result line; return 1 where there are any."""
    asks = argparse.ArgumentParser(prog="python -m tests.bench.regressions", description=__doc__)
    asks.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    asks.add_argument("--renew", action="store_true", help="write the file of known cases from the answers of this code")
    asks.add_argument("--recorded", action="store_true", help=f"B9 with {RECORDING.name} on layer wild, against {KNOWN_RECORDED.name}")
    asked = asks.parse_args()
    file = KNOWN_RECORDED if asked.recorded else KNOWN
    rows = answers(list(wild_cases()), asked.jobs, RECORDING) if asked.recorded else answers(open_cases(), asked.jobs)
    found = summary(rows)
    if asked.renew:
        file.write_text(json.dumps({"cases": len(rows), **found}, indent=1) + "\n")
    known = json.loads(file.read_text())
    worse = regressions(known, found)
    for line in worse:
        print(line)
    better = len({*known["wrong"]} - {*found["wrong"]})
    print(
        f"{file.stem.upper()}: {len(rows) - len(found['wrong'])} of {len(rows)} cases right, {len(found['sure_and_wrong'])} sure and wrong; "
        f"{len(worse)} worse and {better} better than {file.name}"
    )
    return int(bool(worse) or len(rows) != known["cases"])


if __name__ == "__main__":
    sys.exit(main())
