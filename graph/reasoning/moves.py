"""What moved a belief beside facts: words, history, notes and a model, each by no more than it may. Recorded where it happens. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, get_args

from graph.engine.prior import ATTACK_SWAY, LIKE_BEFORE, MODEL_SWAY, MOST_WORDS
from kb.history.mistakes import SWAY

Mover = Literal["words", "history", "mistakes", "read", "judge", "critique"]
"""Who moved it: the report's words, past incidents and pages, corrected diagnoses, and the model by the question that it was asked."""
BOUNDS: Final[Mapping[Mover, float]] = {
    "words": MOST_WORDS,
    "history": LIKE_BEFORE,
    "mistakes": SWAY,
    "read": MODEL_SWAY,
    "judge": MODEL_SWAY,
    "critique": ATTACK_SWAY,
}
"""Most log-odds that each may add to one label, or take from it, in one turn."""
SHORT: Final[Mapping[Mover, str]] = {"words": "w", "history": "h", "mistakes": "m", "read": "r", "judge": "j", "critique": "c"}
"""Each as it is stored, by its first letter."""
BY_MODEL: Final[frozenset[Mover]] = frozenset({"read", "judge", "critique"})
ROUNDING = 0.02
"""How far a stored weight may be from the true one."""


@dataclass(frozen=True, slots=True)
class Move:
    """One mover's sway over one label, in log-odds."""

    by: Mover
    label: str
    weight: float


def moves_by(by: Mover, weights: Mapping[str, float]) -> list[Move]:
    """What one mover makes of each label."""
    return [Move(by, label, weight) for label, weight in weights.items() if round(weight, 2)]


def read_moves(kept: str, labels: Mapping[str, float]) -> tuple[Move, ...]:
    """As stored → as rows; `labels` are the beliefs that they were stored beside, in their order. What nobody knows any more is passed over."""
    names, movers = list(labels), {by[0]: by for by in get_args(Mover)}
    rows = (row.split(":") for row in kept.split())
    return tuple(
        Move(movers[row[0]], names[int(row[1])], float(row[2]))
        for row in rows
        if len(row) == 3 and row[0] in movers and int(row[1]) < len(names)
    )


def write_moves(moves: Sequence[Move], labels: Mapping[str, float]) -> str:
    """Those of labels that are still thought of, short: `w:0:0.6` is the words' 0.6 for the first. State is written at every step."""
    places = {label: number for number, label in enumerate(labels)}
    return " ".join(f"{SHORT[move.by]}:{places[move.label]}:{round(move.weight, 2):g}" for move in moves if move.label in places)
