"""Which labels a text speaks of, from the text alone: its words, the symptoms it complains of, and the errors it quotes. Pure.

Words are compared with labels and past incidents (`kb.history.likeness`); quoted log lines become facts and are weighed by the taxonomy's clues,
the same way as facts from hosts. No host is asked, so the result is a ranking and never a diagnosis.
"""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from graph.reading.pasted import read_pasted
from graph.reading.reports import understand
from kb.catalogues.xid import repeats
from kb.history.likeness import Nearest, count_separate_phrases
from kb.history.words import telling, tokens
from kb.taxonomy.labels import Taxonomy
from tools.checks.row import Check
from tools.fact import Fact

QUOTED = 0.5
"""What a clue in a quoted line counts, against the same clue seen on a host: people quote the line they believe in."""
MOST_QUOTED = 2.5
"""Most that quoted lines move one label, in log-odds."""
AGAINST = -3.0
"""Weight of quoted lines from which a label comes behind the best of the others: a line that says the opposite outweighs any likeness of words."""
SURE = 0.9
"""A probability that a text alone reaches only by a line that decides, or by phrases of the label itself."""
LEAST_PHRASES = 2
PARTS = frozenset(
    """bmc cable cables checkpoint container cpu cuda dataloader dimm disk dns docker driver ecc efa ethernet fabric fan filesystem firmware gpu
    gpus hca ib infiniband kabel kernel kubernetes lustre memory mtu nccl network netz netzwerk nfs nic nvlink nvme nvswitch pcie port power psu
    rank ranks rdma roce scheduler slurm speicher storage switch treiber vram xid""".split()  # noqa: SIM905
)
"""Words for parts of a cluster: a text that names one is about something that breaks."""
_PART = re.compile(r"[^\W_]{2,40}")
NEAR = 6.0
"""Times as likely as chance that the best label of a text must be, where the text names no symptom and quotes no error."""

TEMPER = 0.6
"""Words sound surer than they are: over the published incidents this power of the probabilities predicts best."""


def classify(text: str, taxonomy: Taxonomy, nearest: Nearest, checks: Mapping[str, Check], now: datetime) -> list[tuple[str, float]]:
    """Every label with its probability, best first; the probabilities sum to one."""
    said = understand(telling(text), (), now)
    symptoms = [symptom for symptom in said.symptoms if symptom != "vague"]
    words = nearest.rank(f"{text}\n{' '.join(said.signatures)}", symptoms, most=len(taxonomy.leaves))
    floor = min((p for _, p in words), default=1.0) / 2
    scores = dict.fromkeys(taxonomy.leaves, math.log(floor)) | {label: math.log(p) for label, p in words}
    facts = read_pasted(text, checks).facts
    facts = (*facts, *_repeats(facts))
    weights = quoted(facts, taxonomy)
    against = {label for label, weight in weights.items() if weight <= AGAINST} | _denied(text, taxonomy)
    for label, weight in weights.items():
        scores[label] += max(-MOST_QUOTED, min(MOST_QUOTED, QUOTED * weight))
    most = max(score for label, score in scores.items() if label not in against)
    scores |= {label: min(scores[label], most - 1) for label in against}
    return _doubted(_normal(scores), text, facts, taxonomy)


def matches_nothing(text: str, ranked: Sequence[tuple[str, float]], taxonomy: Taxonomy, checks: Mapping[str, Check], now: datetime) -> bool:
    """Return whether a text names no symptom and no part of a cluster, quotes no error and is near no label: its ranking is chance."""
    said = understand(telling(text), (), now)
    facts = read_pasted(text, checks).facts
    told = any(symptom != "vague" for symptom in said.symptoms) or bool(said.signatures) or bool(quoted(facts, taxonomy))
    named = not PARTS.isdisjoint(_PART.findall(text.lower()))
    return not (told or named) and (not ranked or ranked[0][1] < NEAR / len(ranked))


def _denied(text: str, taxonomy: Taxonomy) -> set[str]:
    """The labels of fatal errors, where a text calls its errors non-fatal alone."""
    words = set(tokens(text))
    return {label for label in taxonomy.leaves if "fatal" in label.lower()} if "nonfatal" in words and "fatal" not in words else set()


def _doubted(ranked: list[tuple[str, float]], text: str, facts: Sequence[Fact], taxonomy: Taxonomy) -> list[tuple[str, float]]:
    """The ranking, its first label below SURE where neither a quoted line decides for it nor the text holds its own phrases."""
    (label, p), *others = ranked
    if (
        p < SURE
        or _decides(label, facts, taxonomy)
        or count_separate_phrases(taxonomy.leaves[label], telling(text).lower()) >= LEAST_PHRASES
    ):
        return ranked
    most = SURE - 0.01
    left = sum(q for _, q in others)
    return [(label, most), *((name, q / left * (1 - most)) for name, q in others)]


def _repeats(facts: Sequence[Fact]) -> list[Fact]:
    """How the quoted Xids 13 and 31 repeat; `single` where they came too seldom to say."""
    seen = [fact for fact in facts if fact.key == "kernel.xid" and fact.value in (13, 31) and fact.device]
    patterns = repeats(_Quoted(fact.key, fact.value, fact.device, fact.time, fact.boot_id, fact.attrs) for fact in seen)
    return [
        replace(fact, key="kernel.xid_repeat", value=patterns.get(fact.device or "", "single"), attrs={**fact.attrs, "xid": fact.value})
        for fact in {fact.device: fact for fact in seen}.values()
    ]


@dataclass(frozen=True, slots=True)
class _Quoted:
    """A quoted Xid, as `kb.catalogues.xid` counts them."""

    kind: str
    value: object
    device: str | None
    time: datetime | None
    boot_id: str
    attrs: Mapping[str, Any]


def _decides(label: str, facts: Sequence[Fact], taxonomy: Taxonomy) -> bool:
    clues = [(fact, clue) for fact in facts for leaf, clue in taxonomy.clues(fact.key) if leaf.label == label]
    return any(clue.decisive and clue.matches(fact) for fact, clue in clues)


def quoted(facts: Iterable[Fact], taxonomy: Taxonomy) -> dict[str, float]:
    """Log-odds of each label by the clues that quoted lines match; a clue counts once, however often it is quoted."""
    found: dict[str, float] = {}
    seen: set[tuple[str, str]] = set()
    for fact in facts:
        for leaf, clue in taxonomy.clues(fact.key):
            if (leaf.label, clue.id) not in seen and clue.matches(fact):
                seen.add((leaf.label, clue.id))
                found[leaf.label] = found.get(leaf.label, 0.0) + clue.weight
    return found


def _normal(scores: Mapping[str, float]) -> list[tuple[str, float]]:
    top = max(scores.values())
    mass = {label: math.exp(TEMPER * (score - top)) for label, score in scores.items()}
    total = sum(mass.values())
    return [(label, mass[label] / total) for label in sorted(mass, key=lambda label: (-mass[label], label))]
