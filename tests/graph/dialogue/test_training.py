"""The shipped weights are those that the phrases give."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from graph.dialogue.classifier import load_weights
from graph.dialogue.known_words import list_known_words
from graph.dialogue.train import PHRASES_FOLDER, compute_digest, compute_training_features, list_common_words, list_texts, train

MARGIN = 1e-6  # Processors round differently, so the weights need not be the same bytes.


def test_weights_were_trained_from_these_phrases() -> None:
    assert load_weights().digest == compute_digest(), "run python -m graph.dialogue.train"


def test_no_phrase_is_listed_twice() -> None:
    intents: dict[str, set[str]] = {}
    for row in list_texts():
        intents.setdefault(row.text, set()).add(row.intent)
    assert {text: found for text, found in intents.items() if len(found) > 1} == {}


@pytest.mark.tier2
def test_retraining_gives_the_shipped_predictions(tmp_path: Path) -> None:
    texts = list_texts()
    assert sorted(list_known_words()) == list_common_words(texts)
    features = compute_training_features(texts)
    np.savez_compressed(tmp_path / "weights.npz", **train(texts, features))
    again, shipped = load_weights(tmp_path / "weights.npz"), load_weights()
    assert again.intents == shipped.intents
    scores = [features @ model.weights.astype(np.float64) * model.scales + model.biases for model in (again, shipped)]
    assert (scores[0].argmax(axis=1) == scores[1].argmax(axis=1)).all()
    assert np.abs(scores[0] - scores[1]).max() < MARGIN


def test_numpy_is_imported_with_the_first_message() -> None:
    code = "import sys, graph.dialogue.read; sys.exit('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=PHRASES_FOLDER.parents[2], check=False).returncode == 0
