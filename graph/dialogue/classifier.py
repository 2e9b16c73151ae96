"""The trained intent classifier: a linear model over hashed features, read from `weights.npz`. Train it with
`python -m graph.dialogue.train`. NumPy is imported with the first message, not with the program.
"""

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from graph.dialogue.clauses import Clause
from graph.dialogue.features import compute_features
from graph.dialogue.intents import Intent

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

WEIGHTS_PATH: Final = Path(__file__).parent / "weights.npz"


class IntentWeights(NamedTuple):
    """`weights` are whole numbers, a row a feature and a column an intent; `scales` turns them back."""

    intents: tuple[Intent, ...]
    weights: "NDArray[np.int8]"
    scales: "NDArray[np.float32]"
    biases: "NDArray[np.float32]"
    digest: str  # Of the phrases that the weights were trained from.


def compute_probabilities(clauses: Sequence[Clause]) -> Mapping[Intent, float]:
    """Return how likely each intent is; they add up to one."""
    import numpy as np

    model, features = load_weights(), compute_features(clauses)
    columns, values = np.fromiter(features.keys(), dtype=np.intp), np.fromiter(features.values(), dtype=np.float64)
    scores = (values @ model.weights[columns]) * model.scales + model.biases
    shares = np.exp(scores - scores.max())
    return dict(zip(model.intents, (float(share) for share in shares / shares.sum()), strict=True))


@cache
def load_weights(path: Path = WEIGHTS_PATH) -> IntentWeights:
    import numpy as np

    with np.load(path, allow_pickle=False) as stored:
        intents = tuple(Intent(str(name)) for name in stored["intents"])
        return IntentWeights(intents, stored["weights"], stored["scales"], stored["biases"], str(stored["digest"]))
