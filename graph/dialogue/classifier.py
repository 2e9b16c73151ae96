"""The trained classifiers: linear models over hashed features, read from `weights`. Train them with
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

WEIGHTS_FOLDER: Final = Path(__file__).parent / "weights"
INTENTS, TENANT_REQUESTS = "intents", "tenant_requests"  # The classifiers: a folder of `phrases` and a file of `weights` each.


class Weights(NamedTuple):
    """`weights` are whole numbers, a row a feature and a column a label; `scales` turns them back."""

    labels: tuple[str, ...]
    weights: "NDArray[np.int8]"
    scales: "NDArray[np.float32]"
    biases: "NDArray[np.float32]"
    digest: str  # Of the phrases that the weights were trained from.


def compute_probabilities(clauses: Sequence[Clause]) -> Mapping[Intent, float]:
    """Return how likely each intent is; they add up to one."""
    return {Intent(label): share for label, share in compute_label_probabilities(clauses, INTENTS).items()}


def compute_label_probabilities(clauses: Sequence[Clause], classifier: str) -> Mapping[str, float]:
    """Return how likely each label of a classifier is; they add up to one."""
    import numpy as np

    model, features = load_weights(get_weights_path(classifier)), compute_features(clauses)
    columns, values = np.fromiter(features.keys(), dtype=np.intp), np.fromiter(features.values(), dtype=np.float64)
    scores = (values @ model.weights[columns]) * model.scales + model.biases
    shares = np.exp(scores - scores.max())
    return dict(zip(model.labels, (float(share) for share in shares / shares.sum()), strict=True))


def get_weights_path(classifier: str) -> Path:
    return WEIGHTS_FOLDER / f"{classifier}.npz"


@cache
def load_weights(path: Path) -> Weights:
    import numpy as np

    with np.load(path, allow_pickle=False) as stored:
        labels = tuple(str(name) for name in stored["labels"])
        return Weights(labels, stored["weights"], stored["scales"], stored["biases"], str(stored["digest"]))
