"""Belief shifts not caused by facts: words, history, notes and the model, each bounded and recorded."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, get_args

from graph.engine.priors import MAX_WORDS_LOG_ODDS, MODEL_LOG_ODDS, OBJECTION_LOG_ODDS, SIMILAR_INCIDENT_LOG_ODDS
from kb.history.mistakes import NOTE_WEIGHT

# The report's words, past incidents and pages, corrected diagnoses, and a model's answers. `judge` is no longer asked; incidents
# stored earlier have its shifts.
ShiftSource = Literal["words", "history", "mistakes", "read", "judge", "critique"]
# Largest shift of one label by one source in a turn, in either direction.
MAX_SHIFT_LOG_ODDS: Final[Mapping[ShiftSource, float]] = {
    "words": MAX_WORDS_LOG_ODDS,
    "history": SIMILAR_INCIDENT_LOG_ODDS,
    "mistakes": NOTE_WEIGHT,
    "read": MODEL_LOG_ODDS,
    "judge": MODEL_LOG_ODDS,
    "critique": OBJECTION_LOG_ODDS,
}
# Stored form of each source: its first letter.
SOURCE_CODES: Final[Mapping[ShiftSource, str]] = {"words": "w", "history": "h", "mistakes": "m", "read": "r", "judge": "j", "critique": "c"}
MODEL_SOURCES: Final[frozenset[ShiftSource]] = frozenset({"read", "judge", "critique"})
ROUNDING_TOLERANCE = 0.02  # largest difference between a stored weight and the true one


@dataclass(frozen=True, slots=True)
class BeliefShift:
    """One source's shift of one label, in log-odds."""

    source: ShiftSource
    label: str
    weight: float


def build_shifts(source: ShiftSource, weights: Mapping[str, float]) -> list[BeliefShift]:
    """Return one source's shifts, without those that round to 0."""
    return [BeliefShift(source, label, weight) for label, weight in weights.items() if round(weight, 2)]


def parse_shifts(serialized: str, labels: Mapping[str, float]) -> tuple[BeliefShift, ...]:
    """Parse stored shifts, ignoring unknown entries. `labels` are the beliefs of the same turn, in their stored order."""
    label_names = list(labels)
    sources_by_code: dict[str, ShiftSource] = {source[0]: source for source in get_args(ShiftSource)}
    shifts: list[BeliefShift] = []
    for entry in serialized.split():
        fields = entry.split(":")
        if len(fields) != 3:
            continue
        code, label_number, weight = fields
        if code in sources_by_code and int(label_number) < len(label_names):
            shifts.append(BeliefShift(sources_by_code[code], label_names[int(label_number)], float(weight)))
    return tuple(shifts)


def serialize_shifts(shifts: Sequence[BeliefShift], labels: Mapping[str, float]) -> str:
    """Serialize the shifts of the given labels: `w:0:0.6` is a shift of the first label by 0.6 due to the words.

    The form is short because the state is written at every step.
    """
    label_numbers = {label: number for number, label in enumerate(labels)}
    return " ".join(
        f"{SOURCE_CODES[shift.source]}:{label_numbers[shift.label]}:{round(shift.weight, 2):g}"
        for shift in shifts
        if shift.label in label_numbers
    )
