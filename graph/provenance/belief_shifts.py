"""Belief shifts not caused by facts: words, history, notes and the model, each bounded and recorded."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, get_args

from graph.engine.priors import MAX_WORDS_LOG_ODDS, MODEL_LOG_ODDS, OBJECTION_LOG_ODDS, SIMILAR_INCIDENT_LOG_ODDS
from kb.history.mistakes import NOTE_WEIGHT

# The source: the report's words, past incidents and pages, corrected diagnoses, and the model by the question asked.
ShiftSource = Literal["words", "history", "mistakes", "read", "judge", "critique"]
# Bound per source, label and turn, in log-odds, either way.
MAX_SHIFT_LOG_ODDS: Final[Mapping[ShiftSource, float]] = {
    "words": MAX_WORDS_LOG_ODDS,
    "history": SIMILAR_INCIDENT_LOG_ODDS,
    "mistakes": NOTE_WEIGHT,
    "read": MODEL_LOG_ODDS,
    "judge": MODEL_LOG_ODDS,
    "critique": OBJECTION_LOG_ODDS,
}
# Stored form: the first letter.
SOURCE_CODES: Final[Mapping[ShiftSource, str]] = {"words": "w", "history": "h", "mistakes": "m", "read": "r", "judge": "j", "critique": "c"}
MODEL_SOURCES: Final[frozenset[ShiftSource]] = frozenset({"read", "judge", "critique"})
ROUNDING_TOLERANCE = 0.02  # Largest difference between a stored and the true weight.


@dataclass(frozen=True, slots=True)
class BeliefShift:
    """One source's shift of one label, in log-odds."""

    by: ShiftSource
    label: str
    weight: float


def build_shifts(source: ShiftSource, weights: Mapping[str, float]) -> list[BeliefShift]:
    """Return one source's shifts, without those that round to 0."""
    return [BeliefShift(source, label, weight) for label, weight in weights.items() if round(weight, 2)]


def parse_shifts(kept: str, labels: Mapping[str, float]) -> tuple[BeliefShift, ...]:
    """Parse stored shifts. `labels` are the beliefs stored beside them, in order. Unknown entries are ignored."""
    names, movers = list(labels), {by[0]: by for by in get_args(ShiftSource)}
    parts = (part.split(":") for part in kept.split())
    return tuple(
        BeliefShift(movers[part[0]], names[int(part[1])], float(part[2]))
        for part in parts
        if len(part) == 3 and part[0] in movers and int(part[1]) < len(names)
    )


def serialize_shifts(shifts: Sequence[BeliefShift], labels: Mapping[str, float]) -> str:
    """Serialize the shifts of known labels briefly, as state is written at every step: `w:0:0.6` is the words' 0.6 for
    the first label.
    """
    places = {label: number for number, label in enumerate(labels)}
    return " ".join(f"{SOURCE_CODES[move.by]}:{places[move.label]}:{round(move.weight, 2):g}" for move in shifts if move.label in places)
