"""What moved a belief beside facts: words, history, notes and a model, each by no more than it may. Recorded where it happens. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, get_args

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
BY_MODEL: Final[frozenset[Mover]] = frozenset({"read", "judge", "critique"})
ROUNDING = 0.02
"""How far a stored weight may be from the true one."""


@dataclass(frozen=True, slots=True)
class Move:
    """One mover's sway over one label, in log-odds."""

    by: Mover
    label: str
    weight: float

    def kept(self) -> list[Any]:
        """As the turn's state holds it."""
        return [self.by, self.label, round(self.weight, 2)]


def moves_by(by: Mover, weights: Mapping[str, float]) -> list[Move]:
    """What one mover makes of each label."""
    return [Move(by, label, weight) for label, weight in weights.items() if round(weight, 2)]


def read_moves(rows: Sequence[Sequence[Any]]) -> tuple[Move, ...]:
    """As stored → as rows; what nobody knows any more is passed over."""
    return tuple(Move(row[0], str(row[1]), float(row[2])) for row in rows if len(row) == 3 and row[0] in get_args(Mover))


def write_moves(moves: Sequence[Move], labels: Mapping[str, float]) -> tuple[list[Any], ...]:
    """Those of labels that are still thought of: state stays small."""
    return tuple(move.kept() for move in moves if move.label in labels)
