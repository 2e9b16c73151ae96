"""What words suggest, as log-odds: symptoms, phrases, similar incidents, a model's opinion. Capped where it is used, so words never confirm. Pure."""

import math
from collections.abc import Mapping, Sequence
from typing import Protocol, TypeVar

from graph.state import IncidentBrief
from kb.history.label_ranking import LabelRanker
from kb.taxonomy.taxonomy import Taxonomy

MAX_WORDS_LOG_ODDS, LOG_ODDS_PER_E_FOLD = 1.5, 0.4
"""Most that a ticket's words add to one label, and how fast that grows with what they make of its chance."""

SIMILAR_INCIDENT_LOG_ODDS = 1.0
WORDS_WEIGHT = 0.3
"""What a label's lift by the report's words counts, against how much alike an incident is to the one that is most alike."""
OBJECTION_LOG_ODDS = 0.4
"""What a finding that a model holds against a proven cause takes from it: enough for one that is barely proven, and for no other."""
MODEL_LOG_ODDS = 1.5
"""What a model's judgement of one hypothesis is worth, either way; and a cause that its reading is certain of."""


class ScoredIncident(Protocol):
    """A past incident: its label, and how much alike it is."""

    @property
    def label(self) -> str: ...

    @property
    def score(self) -> float: ...


AnyScoredIncident = TypeVar("AnyScoredIncident", bound=ScoredIncident)


def compute_word_priors(taxonomy: Taxonomy, brief: IncidentBrief) -> dict[str, float]:
    """Labels that the ticket's words and symptoms sound like."""
    text = f"{brief.text} {' '.join(brief.signatures)}"
    symptoms = [symptom for symptom in brief.symptoms if symptom != "vague"]
    ranked = LabelRanker.build(taxonomy).rank_labels(text, symptoms, most=16)
    lifts = {label: LOG_ODDS_PER_E_FOLD * math.log(max(p, 1e-9) * len(taxonomy.leaves)) for label, p in ranked}
    return {label: min(MAX_WORDS_LOG_ODDS, lift) for label, lift in lifts.items() if lift > 0}


def rank_labels_by_words(taxonomy: Taxonomy, brief: IncidentBrief, most: int) -> list[str]:
    """Labels that the report sounds like, most alike first."""
    return [
        label
        for label, _ in LabelRanker.build(taxonomy).rank_labels(f"{brief.text} {' '.join(brief.signatures)}", brief.symptoms, most=most)
    ]


def rank_decidable_labels(taxonomy: Taxonomy, brief: IncidentBrief, most: int) -> list[str]:
    """Labels that may be decided and that the report sounds like, most alike first; then the others, as they stand in the taxonomy."""
    decidable = taxonomy.decidable
    return list(dict.fromkeys([*rank_labels_by_words(decidable, brief, most), *decidable.leaves]))[:most]


def compute_model_priors(causes: Mapping[str, float]) -> dict[str, float]:
    """A model's few labels, each by the probability that it gives it."""
    return {label: MODEL_LOG_ODDS * max(0.0, min(1.0, p)) for label, p in causes.items()}


def compute_past_priors(similar: Sequence[tuple[str, float]]) -> dict[str, float]:
    """Labels of similar incidents with a likeness from 0 to 1."""
    found: dict[str, float] = {}
    for label, likeness in similar:
        found[label] = max(found.get(label, 0.0), SIMILAR_INCIDENT_LOG_ODDS * max(0.0, min(1.0, likeness)))
    return found


def select_telling_incidents(similar: Sequence[AnyScoredIncident], words: Mapping[str, float], most: int = 2) -> list[AnyScoredIncident]:
    """Of past incidents those that say most: alike, of a label that the report's words suggest (`compute_word_priors`), and each of another label. Two of one
    label say little more than one; over our own past incidents, each asked for without its thread, 0.63 find one of their label among two
    that are alike, and 0.75 so."""
    best = max((one.score for one in similar), default=0.0) or 1.0
    ranked = sorted(similar, key=lambda one: -(one.score / best + WORDS_WEIGHT * words.get(one.label, 0.0)))
    first: dict[str, AnyScoredIncident] = {}
    for one in ranked:
        first.setdefault(one.label, one)
    return list(first.values())[:most]


def sum_priors(*parts: Mapping[str, float]) -> dict[str, float]:
    """The sum, label by label."""
    found: dict[str, float] = {}
    for part in parts:
        for label, weight in part.items():
            found[label] = found.get(label, 0.0) + weight
    return found
