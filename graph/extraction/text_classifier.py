"""Rank the labels that a text fits, by its words, symptoms and quoted errors alone, and blend in a model's ranking.

Words are compared with labels and past incidents (`kb.history.label_ranking`); quoted log lines become facts and are
weighed by the taxonomy's clues. No host is asked, so the result is never a diagnosis.
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
from kb.history.text_search import extract_terms, strip_boilerplate
from kb.taxonomy.taxonomy import Taxonomy
from tools.checks.check_types import Check
from tools.fact import Fact

# Weight of a quoted clue relative to one observed on a host: people quote the line they believe in.
QUOTED_CLUE_WEIGHT = 0.5
MAX_QUOTED_LOG_ODDS = 2.5  # Bound on what quoted lines add to one label.
# At this weight of quoted lines a label ranks behind the best other: a contradicting line outweighs similar words.
CONTRADICTION_LOG_ODDS = -3.0
MIN_SURE_PROBABILITY = 0.9  # Reached only with a decisive quoted line or phrases of the label itself.
MIN_PHRASES = 2
# Parts of a cluster: a text that names one is about something that breaks.
CLUSTER_PART_WORDS = frozenset(
    """bmc cable cables checkpoint container cpu cuda dataloader dimm disk dns docker driver ecc efa ethernet fabric fan filesystem firmware gpu
    gpus hca ib infiniband kabel kernel kubernetes lustre memory mtu nccl network netz netzwerk nfs nic nvlink nvme nvswitch pcie port power psu
    rank ranks rdma roce scheduler slurm speicher storage switch treiber vram xid""".split()  # noqa: SIM905
)
_WORD_PATTERN = re.compile(r"[^\W_]{2,40}")
# Factor over chance that the best label must reach where a text names no symptom and quotes no error.
MIN_LIFT_OVER_CHANCE = 6.0
# Calibration: this power of the probabilities predicts best over the published incidents; words sound too sure.
PROBABILITY_EXPONENT = 0.6
# Weight of the model against the rules. Where both are right half the time, the better calibrated one leads.
MODEL_WEIGHT = 0.8


def rank_labels_by_text(
    text: str, taxonomy: Taxonomy, nearest: LabelRanker, checks: Mapping[str, Check], now: datetime
) -> list[tuple[str, float]]:
    """Return every label with its probability (sum 1), best first."""
    report = parse_report(strip_boilerplate(text), (), now)
    symptoms = [symptom for symptom in report.symptoms if symptom != "vague"]
    words = nearest.rank_labels(f"{text}\n{' '.join(report.signatures)}", symptoms, limit=len(taxonomy.leaves))
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
    """Return whether a text has no symptom, cluster part, quoted error or near label, so that its ranking is chance."""
    report = parse_report(strip_boilerplate(text), (), now)
    facts = extract_pasted_facts(text, checks).facts
    has_clues = (
        any(symptom != "vague" for symptom in report.symptoms) or bool(report.signatures) or bool(score_quoted_clues(facts, taxonomy))
    )
    names_cluster_part = not CLUSTER_PART_WORDS.isdisjoint(_WORD_PATTERN.findall(text.lower()))
    return not (has_clues or names_cluster_part) and (not ranked or ranked[0][1] < MIN_LIFT_OVER_CHANCE / len(ranked))


def _find_contradicted_labels(text: str, taxonomy: Taxonomy) -> set[str]:
    """Return labels of fatal errors if only non-fatal ones are mentioned."""
    words = set(extract_terms(text))
    return {label for label in taxonomy.leaves if "fatal" in label.lower()} if "nonfatal" in words and "fatal" not in words else set()


def _cap_unproven_label(ranked: list[tuple[str, float]], text: str, facts: Sequence[Fact], taxonomy: Taxonomy) -> list[tuple[str, float]]:
    """Keep the first label below `MIN_SURE_PROBABILITY` without a decisive quoted line or its own phrases."""
    (label, p), *other_rankings = ranked
    if (
        p < MIN_SURE_PROBABILITY
        or _is_proven_by_quote(label, facts, taxonomy)
        or count_separate_phrases(taxonomy.leaves[label], strip_boilerplate(text).lower()) >= MIN_PHRASES
    ):
        return ranked
    most = MIN_SURE_PROBABILITY - 0.01
    other_total = sum(q for _, q in other_rankings)
    return [(label, most), *((name, q / other_total * (1 - most)) for name, q in other_rankings)]


def _derive_xid_repeats(facts: Sequence[Fact]) -> list[Fact]:
    """Classify repeats of quoted Xids 13 and 31; `single` for too few."""
    xid_facts = [fact for fact in facts if fact.key == "kernel.xid" and fact.value in (13, 31) and fact.device]
    patterns = classify_repeats(_QuotedXid(fact.key, fact.value, fact.device, fact.time, fact.boot_id, fact.attrs) for fact in xid_facts)
    return [
        replace(fact, key="kernel.xid_repeat", value=patterns.get(fact.device or "", "single"), attrs={**fact.attrs, "xid": fact.value})
        for fact in {fact.device: fact for fact in xid_facts}.values()
    ]


@dataclass(frozen=True, slots=True)
class _QuotedXid:
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
    """Return log-odds per label from clues that match quoted lines; each clue counts once."""
    scores: dict[str, float] = {}
    seen_clues: set[tuple[str, str]] = set()
    for fact in facts:
        for leaf, clue in taxonomy.list_clues(fact.key):
            if (leaf.label, clue.id) not in seen_clues and clue.matches(fact):
                seen_clues.add((leaf.label, clue.id))
                scores[leaf.label] = scores.get(leaf.label, 0.0) + clue.weight
    return scores


def _normalize_scores(scores: Mapping[str, float]) -> list[tuple[str, float]]:
    top = max(scores.values())
    mass = {label: math.exp(PROBABILITY_EXPONENT * (score - top)) for label, score in scores.items()}
    total = sum(mass.values())
    return [(label, mass[label] / total) for label in sorted(mass, key=lambda label: (-mass[label], label))]


def blend_rankings(
    ranked: Sequence[tuple[str, float]], causes: Sequence[tuple[str, float]], *, fits_none: bool = False
) -> list[tuple[str, float]]:
    """Return every label with its probability, best first. `ranked`: by rules, sum 1; `causes`: the model's few.

    Where the model says that no label fits (`fits_none`), what it leaves open does not go to the rules, and the sum is below 1.
    """
    if fits_none and causes:
        model_only = dict.fromkeys((label for label, _ in ranked), 0.0) | dict(causes)
        return sorted(model_only.items(), key=lambda row: (-row[1], row[0]))
    cause_weights = dict(causes)
    most = max(1.0, sum(cause_weights.values()))
    model: Mapping[str, float] = {label: p / most for label, p in cause_weights.items()}
    remaining_weight = 1 - MODEL_WEIGHT * sum(model.values())  # the rules decide what the model leaves open
    blended = {label: MODEL_WEIGHT * model.get(label, 0.0) + remaining_weight * p for label, p in ranked}
    return sorted(blended.items(), key=lambda row: (-row[1], row[0]))
