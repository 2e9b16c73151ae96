"""Gates that keep the benchmark honest: a measurement, a limit, and whether it holds. A broken gate is a problem of the
benchmark, never of a solver.

Difficulty is judged by today's rules: if they score too high, the layer needs harder cases. `frozen.json` holds the
baselines' scores at release for comparison.
"""

import hashlib
import json
import re
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kb.history.incidents import load_seeds
from tests.bench.case_files.generate import LAYERS, cases
from tests.bench.case_files.lint import problems
from tests.bench.case_files.tickets import sentences
from tests.bench.frozen import FROZEN, digest
from tests.bench.run.plan import Plan
from tests.bench.run.pool import spread
from tests.bench.run.run import run

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
SEAL = HERE / "sealed.sha256"
DIFFICULTY: Mapping[str, float] = {"B4r": 0.85, "B1": 0.45}
ALIKE_PAST, ALIKE_CASES, IN_A_ROW = 0.6, 0.8, 5
Raw = Mapping[str, Any]
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Gate:
    """`says`: what was compared."""

    name: str
    measured: str
    limit: str
    held: bool
    says: str

    def plain(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__slots__}


def sealed() -> Gate:
    """Check that the sealed seed is committed as a digest and not guessable."""
    digests = SEAL.read_text().split()
    guesses = (*map(str, range(5000)), "", "sealed", "seed", "secret", "rackmedic", "gpu-incident-bench", "bench", "test", "2026")
    guessed = {hashlib.sha256(guess.encode()).hexdigest() for guess in guesses} & set(digests)
    formed = bool(digests) and all(re.fullmatch(r"[0-9a-f]{64}", digest) for digest in digests)
    return Gate(
        "sealed seed", f"{len(digests)} digest(s)", "committed, not guessable", formed and not guessed, f"{SEAL.name} holds it, and no seed"
    )


def worded_apart(raws: Sequence[Raw]) -> Gate:
    """Check that no ticket shares five consecutive words with solver knowledge."""
    known = {gram for text in _knowledge() for gram in grams(text, IN_A_ROW)}
    shared = [text for text in (*sentences(), *(raw["ticket"]["text"] for raw in raws)) if grams(text, IN_A_ROW) & known]
    what = f"five words in a row between {len(raws)} tickets and rules, taxonomy and past incidents"
    return Gate("wording", f"{len(shared)} shared", "0", not shared, what + (f"; first: {shared[0][:80]!r}" if shared else ""))


def not_past(raws: Sequence[Raw]) -> Gate:
    """Check that no ticket nearly equals a past incident."""
    past = [grams(row.text, 3) for row in load_seeds()]
    most = max((jaccard(grams(raw["ticket"]["text"], 3), other) for raw in raws for other in past), default=0.0)
    return Gate(
        "past incidents",
        f"{most:.2f}",
        f"< {ALIKE_PAST}",
        most < ALIKE_PAST,
        "the nearest ticket and past incident, Jaccard of three words",
    )


def no_twins(raws: Sequence[Raw]) -> Gate:
    """Check that no two cases with the same faults, of any layers, are nearly the same."""
    most, pair = 0.0, ("", "")
    kinds: dict[tuple[str, ...], list[tuple[str, frozenset[Any]]]] = {}
    for raw in raws:
        name, mine = str(raw["id"]), fingerprint(raw)
        others = kinds.setdefault(tuple(sorted(row["id"] for row in raw["faults"])), [])
        for other, its in others:
            alike = jaccard(mine, its)
            if alike > most:
                most, pair = alike, (other, name)
        others.append((name, mine))
    says = f"the two nearest of {len(raws)} cases of all layers, {' and '.join(pair)}: places, difficulties, machines and ticket of the same faults"
    return Gate("near-duplicates", f"{most:.2f}", f"< {ALIKE_CASES}", most < ALIKE_CASES, says)


def well_posed(raws: Sequence[Raw], jobs: int = 1) -> Gate:
    """Check that the oracle solves every case and every fault is visible to a check."""
    found = [problem for some in spread(_problems, list(raws), jobs) for problem in some]
    says = f"of {len(raws)} cases: read, solved by the oracle, every fault visible to a check" + (
        f"; first: {found[0][:160]}" if found else ""
    )
    return Gate("well posed", f"{len(found)} problems", "0", not found, says)


def _problems(raw: Raw) -> list[str]:
    return problems(raw)


def difficulty(measured: Mapping[str, float], how: str) -> list[Gate]:
    """Check the baselines on the hard layer."""
    words = "micro F1 at the leaf on `hard`"
    return [Gate(f"{arm} on hard", f"{measured[arm]:.3f}", f"≤ {most}", measured[arm] <= most, f"{words}, {how}")
            for arm, most in DIFFICULTY.items() if arm in measured]  # fmt: skip


def freeze(raws: Sequence[Raw], jobs: int = 1) -> Mapping[str, float]:
    """Run the baselines and store their scores."""
    with tempfile.TemporaryDirectory(prefix="rackmedic-bench-") as folder:
        doc = run(Plan(raws, tuple(DIFFICULTY), "frozen", jobs=jobs), Path(folder) / "r.json")
    scores = {arm: doc["arms"][arm]["by_layer"]["hard"]["micro_f1"]["l3"] for arm in DIFFICULTY}
    git = subprocess.run(("git", "rev-parse", "--short", "HEAD"), cwd=ROOT, capture_output=True, text=True, check=False)
    held = {"as_of": git.stdout.strip() or "no commit", "cases": digest(raws), "n": len(raws), "micro_f1_l3": scores}
    FROZEN.write_text(json.dumps(held, indent=1) + "\n")
    return scores


def permuted(raws: Sequence[Raw], jobs: int = 1, seed: int = 5) -> Gate:
    """Check that the product uses evidence and not label names: with meaningless names it scores the same within noise."""
    with tempfile.TemporaryDirectory(prefix="rackmedic-bench-") as folder:
        plain, other = (
            run(Plan(raws, ("B8",), "permuted", jobs=jobs, permuted=names), Path(folder) / f"{names}.json")["arms"]["B8"]
            for names in (None, seed)
        )
    low, high = plain["ci95"]["micro_l3"]
    got, had = other["micro_f1"]["l3"], plain["micro_f1"]["l3"]
    return Gate(
        "permuted names",
        f"{got:.3f}",
        f"{low:.3f} to {high:.3f}",
        low <= got <= high,
        f"B8 on {len(raws)} cases, {had:.3f} with the real names",
    )


def everything(seed: str, jobs: int, say: Say, n: int | None = None, *, anew: bool = False) -> list[Gate]:
    """Run all gates on a seed's cases; `n`: cases per layer, `anew`: freeze the baselines."""
    by_layer = {layer: list(cases(layer, seed, n)) for layer in LAYERS}
    raws, hard = [raw for some in by_layer.values() for raw in some], by_layer["hard"]
    say(f"{len(raws)} cases: wording, duplicates")
    found = [sealed(), worded_apart(raws), not_past(raws), no_twins(raws)]
    say("well-posedness, with the oracle")
    found.append(well_posed(raws, jobs))
    say("difficulty")
    found += _difficulty(hard, jobs, anew=anew)
    say("other names for the labels")
    return [*found, permuted(hard, jobs)]


def _difficulty(hard: Sequence[Raw], jobs: int, *, anew: bool) -> list[Gate]:
    if anew:
        return difficulty(freeze(hard, jobs), "frozen now")
    return difficulty(_live(hard, jobs), f"{len(hard)} cases, with the rules of today")


def _live(raws: Sequence[Raw], jobs: int) -> Mapping[str, float]:
    with tempfile.TemporaryDirectory(prefix="rackmedic-bench-") as folder:
        doc = run(Plan(raws, tuple(DIFFICULTY), "live", jobs=jobs), Path(folder) / "r.json")
    return {arm: doc["arms"][arm]["by_layer"]["hard"]["micro_f1"]["l3"] for arm in DIFFICULTY}


def fingerprint(raw: Raw) -> frozenset[Any]:
    """Return what identifies a case: faults and places, difficulties, machines, and word trigrams of the ticket without
    names and numbers.
    """
    words = re.sub(r"\S*\d\S*", " ", raw["ticket"]["text"])
    faults = {("fault", row["id"], row.get("gpu"), repr(row.get("args")), row.get("t")) for row in raw["faults"]}
    difficulties = {("difficulty", text.partition("@")[0]) for text in raw["modifiers"]}
    machines = {("profile", raw["profile"]), ("nodes", len(raw["nodes"])), ("unseen", bool(raw["truth"].get("removed")))}
    return frozenset({*faults, *difficulties, *machines}) | grams(words, 3)


def grams(text: str, size: int) -> frozenset[Any]:
    """Return the runs of `size` words."""
    words = re.findall(r"[a-z0-9']+", text.lower())
    return frozenset(tuple(words[i : i + size]) for i in range(max(1, len(words) - size + 1)))


def jaccard(one: frozenset[Any], other: frozenset[Any]) -> float:
    """Return the Jaccard similarity."""
    return len(one & other) / len(one | other) if one or other else 1.0


def _knowledge() -> Iterator[str]:
    for folder in ("kb", "graph"):
        yield from (path.read_text() for path in sorted((ROOT / folder).rglob("*")) if path.suffix in (".yaml", ".md", ".py"))
