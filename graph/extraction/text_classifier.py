"""Which labels a text speaks of, from the text alone: its words, the symptoms it complains of, and the errors it quotes. Pure.

Words are compared with labels and past incidents (`kb.history.label_ranking`); quoted log lines become facts and are weighed by the taxonomy's clues,
the same way as facts from hosts. No host is asked, so the result is a ranking and never a diagnosis.
"""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from graph.extraction.pasted_text import extract_pasted_facts
from graph.extraction.reports import parse_report
from kb.catalogues.xid import classify_repeats
from kb.history.label_ranking import LabelRanker, count_separate_phrases
from kb.history.search_terms import extract_terms, strip_boilerplate
from kb.taxonomy.taxonomy import Taxonomy
from tools.checks.check import Check
from tools.fact import Fact

QUOTED_CLUE_WEIGHT = 0.5
"""What a clue in a quoted line counts, against the same clue seen on a host: people quote the line they believe in."""
MAX_QUOTED_LOG_ODDS = 2.5
"""Most that quoted lines move one label, in log-odds."""
CONTRADICTION_LOG_ODDS = -3.0
"""Weight of quoted lines from which a label comes behind the best of the others: a line that says the opposite outweighs any likeness of words."""
MIN_SURE_PROBABILITY = 0.9
"""A probability that a text alone reaches only by a line that decides, or by phrases of the label itself."""
MIN_PHRASES = 2
CLUSTER_PART_WORDS = frozenset(
    """bmc cable cables checkpoint container cpu cuda dataloader dimm disk dns docker driver ecc efa ethernet fabric fan filesystem firmware gpu
    gpus hca ib infiniband kabel kernel kubernetes lustre memory mtu nccl network netz netzwerk nfs nic nvlink nvme nvswitch pcie port power psu
    rank ranks rdma roce scheduler slurm speicher storage switch treiber vram xid""".split()  # noqa: SIM905
)
"""Words for parts of a cluster: a text that names one is about something that breaks."""
_WORD_PATTERN = re.compile(r"[^\W_]{2,40}")
MIN_LIFT_OVER_CHANCE = 6.0
"""Times as likely as chance that the best label of a text must be, where the text names no symptom and quotes no error."""

PROBABILITY_EXPONENT = 0.6
"""Words sound surer than they are: over the published incidents this power of the probabilities predicts best."""


def rank_labels_by_text(
    text: str, taxonomy: Taxonomy, nearest: LabelRanker, checks: Mapping[str, Check], now: datetime
) -> list[tuple[str, float]]:
    """Every label with its probability, best first; the probabilities sum to one."""
    said = parse_report(strip_boilerplate(text), (), now)
    symptoms = [symptom for symptom in said.symptoms if symptom != "vague"]
    words = nearest.rank_labels(f"{text}\n{' '.join(said.signatures)}", symptoms, most=len(taxonomy.leaves))
    floor = min((p for _, p in words), default=1.0) / 2
    scores = dict.fromkeys(taxonomy.leaves, math.log(floor)) | {label: math.log(p) for label, p in words}
    facts = extract_pasted_facts(text, checks).facts
    facts = (*facts, *_derive_xid_repeats(facts))
    weights = score_quoted_clues(facts, taxonomy)
    against = {label for label, weight in weights.items() if weight <= CONTRADICTION_LOG_ODDS} | _find_contradicted_labels(text, taxonomy)
    for label, weight in weights.items():
        scores[label] += max(-MAX_QUOTED_LOG_ODDS, min(MAX_QUOTED_LOG_ODDS, QUOTED_CLUE_WEIGHT * weight))
    most = max(score for label, score in scores.items() if label not in against)
    scores |= {label: min(scores[label], most - 1) for label in against}
    return _cap_unproven_label(_normalize_scores(scores), text, facts, taxonomy)


def matches_nothing(text: str, ranked: Sequence[tuple[str, float]], taxonomy: Taxonomy, checks: Mapping[str, Check], now: datetime) -> bool:
    """Return whether a text names no symptom and no part of a cluster, quotes no error and is near no label: its ranking is chance."""
    said = parse_report(strip_boilerplate(text), (), now)
    facts = extract_pasted_facts(text, checks).facts
    told = any(symptom != "vague" for symptom in said.symptoms) or bool(said.signatures) or bool(score_quoted_clues(facts, taxonomy))
    named = not CLUSTER_PART_WORDS.isdisjoint(_WORD_PATTERN.findall(text.lower()))
    return not (told or named) and (not ranked or ranked[0][1] < MIN_LIFT_OVER_CHANCE / len(ranked))


def _find_contradicted_labels(text: str, taxonomy: Taxonomy) -> set[str]:
    """The labels of fatal errors, where a text calls its errors non-fatal alone."""
    words = set(extract_terms(text))
    return {label for label in taxonomy.leaves if "fatal" in label.lower()} if "nonfatal" in words and "fatal" not in words else set()


def _cap_unproven_label(ranked: list[tuple[str, float]], text: str, facts: Sequence[Fact], taxonomy: Taxonomy) -> list[tuple[str, float]]:
    """The ranking, its first label below SURE where neither a quoted line decides for it nor the text holds its own phrases."""
    (label, p), *others = ranked
    if (
        p < MIN_SURE_PROBABILITY
        or _is_proven_by_quote(label, facts, taxonomy)
        or count_separate_phrases(taxonomy.leaves[label], strip_boilerplate(text).lower()) >= MIN_PHRASES
    ):
        return ranked
    most = MIN_SURE_PROBABILITY - 0.01
    left = sum(q for _, q in others)
    return [(label, most), *((name, q / left * (1 - most)) for name, q in others)]


def _derive_xid_repeats(facts: Sequence[Fact]) -> list[Fact]:
    """How the quoted Xids 13 and 31 repeat; `single` where they came too seldom to say."""
    seen = [fact for fact in facts if fact.key == "kernel.xid" and fact.value in (13, 31) and fact.device]
    patterns = classify_repeats(_QuotedXid(fact.key, fact.value, fact.device, fact.time, fact.boot_id, fact.attrs) for fact in seen)
    return [
        replace(fact, key="kernel.xid_repeat", value=patterns.get(fact.device or "", "single"), attrs={**fact.attrs, "xid": fact.value})
        for fact in {fact.device: fact for fact in seen}.values()
    ]


@dataclass(frozen=True, slots=True)
class _QuotedXid:
    """A quoted Xid, as `kb.catalogues.xid` counts them."""

    kind: str
    value: object
    device: str | None
    time: datetime | None
    boot_id: str
    attrs: Mapping[str, Any]


def _is_proven_by_quote(label: str, facts: Sequence[Fact], taxonomy: Taxonomy) -> bool:
    clues = [(fact, clue) for fact in facts for leaf, clue in taxonomy.list_clues(fact.key) if leaf.label == label]
    return any(clue.decisive and clue.matches(fact) for fact, clue in clues)


def score_quoted_clues(facts: Iterable[Fact], taxonomy: Taxonomy) -> dict[str, float]:
    """Log-odds of each label by the clues that quoted lines match; a clue counts once, however often it is quoted."""
    found: dict[str, float] = {}
    seen: set[tuple[str, str]] = set()
    for fact in facts:
        for leaf, clue in taxonomy.list_clues(fact.key):
            if (leaf.label, clue.id) not in seen and clue.matches(fact):
                seen.add((leaf.label, clue.id))
                found[leaf.label] = found.get(leaf.label, 0.0) + clue.weight
    return found


def _normalize_scores(scores: Mapping[str, float]) -> list[tuple[str, float]]:
    top = max(scores.values())
    mass = {label: math.exp(PROBABILITY_EXPONENT * (score - top)) for label, score in scores.items()}
    total = sum(mass.values())
    return [(label, mass[label] / total) for label in sorted(mass, key=lambda label: (-mass[label], label))]
