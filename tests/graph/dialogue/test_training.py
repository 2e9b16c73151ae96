"""The shipped weights are those that the phrases give."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from graph.dialogue.classifier import get_weights_path, load_weights
from graph.dialogue.intents import Intent
from graph.dialogue.known_words import list_known_words
from graph.dialogue.tenant_requests import NO_REQUEST, TenantRequest
from graph.dialogue.train import CLASSIFIERS, PHRASES_FOLDER, compute_digest, compute_training_features, list_common_words, train

MARGIN = 1e-6  # Processors round differently, so the weights need not be the same bytes.
SAMPLED, SAMPLED_LABELS = 10, 3  # Each tenth phrase of so many labels is in the sample.
MAX_BYTES_PER_LABEL = 20_000
MAX_BYTES = {"intents": MAX_BYTES_PER_LABEL * len(Intent), "tenant_requests": 200_000}
LABELS = {"intents": {*Intent}, "tenant_requests": {*TenantRequest, NO_REQUEST}}
each_classifier = pytest.mark.parametrize("name", CLASSIFIERS)


@each_classifier
def test_weights_were_trained_from_these_phrases(name: str) -> None:
    shipped = load_weights(get_weights_path(name))
    assert shipped.digest == compute_digest(), "run python -m graph.dialogue.train"
    assert set(shipped.labels) == LABELS[name]
    assert get_weights_path(name).stat().st_size <= MAX_BYTES[name]


@each_classifier
def test_no_phrase_is_listed_twice(name: str) -> None:
    labels: dict[str, set[str]] = {}
    for row in CLASSIFIERS[name].list_texts():
        labels.setdefault(row.text, set()).add(row.label)
    assert {text: found for text, found in labels.items() if len(found) > 1} == {}


def test_known_words_are_those_of_the_intents() -> None:
    assert sorted(list_known_words()) == list_common_words(CLASSIFIERS["intents"].list_texts())


@each_classifier
def test_training_a_sample_twice_gives_the_same_weights(name: str) -> None:
    row = CLASSIFIERS[name]
    all_texts, names = row.list_texts(), row.build_vocabulary()
    labels = list(dict.fromkeys(text.label for text in all_texts))[:SAMPLED_LABELS]
    texts = [text for text in all_texts if text.label in labels][::SAMPLED]
    one, two = (train(texts, compute_training_features(texts, names), balanced=row.balanced) for _ in range(2))
    assert one.keys() == two.keys()
    assert all(np.array_equal(one[part], two[part]) for part in one)


@pytest.mark.tier3  # minutes of a core
@each_classifier
def test_retraining_gives_the_shipped_predictions(name: str, tmp_path: Path) -> None:
    row = CLASSIFIERS[name]
    texts = row.list_texts()
    features = compute_training_features(texts, row.build_vocabulary())
    np.savez_compressed(tmp_path / "weights.npz", **train(texts, features, balanced=row.balanced))
    again, shipped = load_weights(tmp_path / "weights.npz"), load_weights(get_weights_path(name))
    assert again.labels == shipped.labels
    scores = [features @ model.weights.astype(np.float64) * model.scales + model.biases for model in (again, shipped)]
    assert (scores[0].argmax(axis=1) == scores[1].argmax(axis=1)).all()
    assert np.abs(scores[0] - scores[1]).max() < MARGIN


def test_numpy_is_imported_with_the_first_message() -> None:
    code = "import sys, graph.dialogue.read, graph.dialogue.tenant_requests; sys.exit('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=PHRASES_FOLDER.parents[2], check=False).returncode == 0
