"""What moved a belief beside facts: words, history, notes and a model, each by no more than it may. Recorded where it happens. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, get_args

from graph.engine.priors import MAX_WORDS_LOG_ODDS, MODEL_LOG_ODDS, OBJECTION_LOG_ODDS, SIMILAR_INCIDENT_LOG_ODDS
from kb.history.mistakes import NOTE_WEIGHT

ShiftSource = Literal["words", "history", "mistakes", "read", "judge", "critique"]
"""Who moved it: the report's words, past incidents and pages, corrected diagnoses, and the model by the question that it was asked."""
MAX_SHIFT_LOG_ODDS: Final[Mapping[ShiftSource, float]] = {
    "words": MAX_WORDS_LOG_ODDS,
    "history": SIMILAR_INCIDENT_LOG_ODDS,
    "mistakes": NOTE_WEIGHT,
    "read": MODEL_LOG_ODDS,
    "judge": MODEL_LOG_ODDS,
    "critique": OBJECTION_LOG_ODDS,
}
"""Most log-odds that each may add to one label, or take from it, in one turn."""
SOURCE_CODES: Final[Mapping[ShiftSource, str]] = {"words": "w", "history": "h", "mistakes": "m", "read": "r", "judge": "j", "critique": "c"}
"""Each as it is stored, by its first letter."""
MODEL_SOURCES: Final[frozenset[ShiftSource]] = frozenset({"read", "judge", "critique"})
ROUNDING_TOLERANCE = 0.02
"""How far a stored weight may be from the true one."""


@dataclass(frozen=True, slots=True)
class BeliefShift:
    """One mover's sway over one label, in log-odds."""

    by: ShiftSource
    label: str
    weight: float


def build_shifts(by: ShiftSource, weights: Mapping[str, float]) -> list[BeliefShift]:
    """What one mover makes of each label."""
    return [BeliefShift(by, label, weight) for label, weight in weights.items() if round(weight, 2)]


def parse_shifts(kept: str, labels: Mapping[str, float]) -> tuple[BeliefShift, ...]:
    """As stored → as rows; `labels` are the beliefs that they were stored beside, in their order. What nobody knows any more is passed over."""
    names, movers = list(labels), {by[0]: by for by in get_args(ShiftSource)}
    rows = (row.split(":") for row in kept.split())
    return tuple(
        BeliefShift(movers[row[0]], names[int(row[1])], float(row[2]))
        for row in rows
        if len(row) == 3 and row[0] in movers and int(row[1]) < len(names)
    )


def serialize_shifts(moves: Sequence[BeliefShift], labels: Mapping[str, float]) -> str:
    """Those of labels that are still thought of, short: `w:0:0.6` is the words' 0.6 for the first. State is written at every step."""
    places = {label: number for number, label in enumerate(labels)}
    return " ".join(f"{SOURCE_CODES[move.by]}:{places[move.label]}:{round(move.weight, 2):g}" for move in moves if move.label in places)
