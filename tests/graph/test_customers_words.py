"""Tenants' stressed wording is parsed as what they want; text with a symptom stays a report."""

import random
from pathlib import Path

import pytest
import yaml

from graph.dialogue.customers import LONGEST, PATTERNS, TenantRequest, apply_tenant_request, classify_tenant_request
from graph.dialogue.said import ParsedMessage
from tests.support.clock import T0

PHRASES = yaml.safe_load((Path(__file__).parent / "phrases" / "customers.yaml").read_text())
ROWS = [(want, text) for want, texts in PHRASES.items() for text in texts]


@pytest.mark.parametrize(("want", "text"), ROWS, ids=[text for _, text in ROWS])
def test_it_comes_to_what_they_want(want: str, text: str) -> None:
    assert (classify_tenant_request(text, T0) or "report") == want


def test_every_want_has_its_phrases_and_patterns() -> None:
    assert set(PHRASES) == {*TenantRequest, "report"}
    assert set(PATTERNS) == set(TenantRequest)


@pytest.mark.parametrize("text", [text for want, text in ROWS if want != "report"])
def test_much_beside_a_wish_is_a_report(text: str) -> None:
    assert classify_tenant_request(f"{text} and by the way all ranks of run nine show another loss since the last checkpoint", T0) is None
    assert classify_tenant_request(f"{text}\n{'x' * LONGEST}", T0) is None


def test_who_names_a_machine_takes_nothing_back() -> None:
    said = ParsedMessage(text="never mind gpu-017, look at gpu-018", hosts=("gpu-017", "gpu-018"))
    assert apply_tenant_request(said, T0) == (said, None)


def test_garbage_wants_nothing_and_raises_nothing() -> None:
    dice = random.Random(7)
    for _ in range(300):
        classify_tenant_request("".join(chr(dice.choice((dice.randrange(32, 127), dice.randrange(0x300, 0x3000)))) for _ in range(80)), T0)
