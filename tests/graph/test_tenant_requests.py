"""Tenants' stressed wording is parsed as what they want; text with a symptom stays a report."""

import random
from pathlib import Path

import pytest
import yaml

from graph.dialogue.said import ParsedMessage
from graph.dialogue.tenant_requests import LONGEST, TenantRequest, apply_tenant_request, classify_tenant_request
from tests.support.clock import T0

FOLDER = Path(__file__).parent / "phrases"
PHRASES = yaml.safe_load((FOLDER / "tenant_requests.yaml").read_text())
ROWS = [(want, text) for want, texts in PHRASES.items() for text in texts]
STYLES = yaml.safe_load((FOLDER / "tenant_styles.yaml").read_text())
IN_STYLE = [(style, want, text) for style, wants in STYLES.items() for want, texts in wants.items() for text in texts]
LEAST_RIGHT = 0.85  # 0.50 before any phrase was added in response, 0.84 with balanced labels.


@pytest.mark.parametrize(("want", "text"), ROWS, ids=[text for _, text in ROWS])
def test_it_comes_to_what_they_want(want: str, text: str) -> None:
    assert (classify_tenant_request(text, T0) or "report") == want


def test_every_want_has_its_phrases() -> None:
    assert set(PHRASES) == {*TenantRequest, "report"}
    assert all(set(wants) == set(PHRASES) for wants in STYLES.values())


@pytest.mark.parametrize("text", [text for want, text in ROWS if want != "report"])
def test_much_beside_a_wish_is_a_report(text: str) -> None:
    assert classify_tenant_request(f"{text} and by the way all ranks of run nine show another loss since the last checkpoint", T0) is None
    assert classify_tenant_request(f"{text}\n{'x' * LONGEST}", T0) is None


@pytest.mark.parametrize("text", [text for want, text in ROWS if want != "report"])
@pytest.mark.parametrize("symptom", ["job 4711 hangs", "NCCL timeout on rank 3", "CUDA out of memory"])
def test_a_symptom_beside_a_wish_is_a_report(text: str, symptom: str) -> None:
    assert classify_tenant_request(f"{text}, {symptom}", T0) is None


def test_other_styles_are_read_mostly() -> None:
    got = [(style, want, text, classify_tenant_request(text, T0) or "report") for style, want, text in IN_STYLE]
    wrong = [row for row in got if row[1] != row[3]]
    assert len(wrong) <= len(got) * (1 - LEAST_RIGHT), wrong
    assert [row for row in wrong if row[3] in (TenantRequest.WITHDRAW, TenantRequest.CHANGE)] == []
    assert [row for row in wrong if row[1] == "report"] == []


def test_who_names_a_machine_takes_nothing_back() -> None:
    said = ParsedMessage(text="never mind gpu-017, look at gpu-018", hosts=("gpu-017", "gpu-018"))
    assert apply_tenant_request(said, T0) == (said, None)


def test_garbage_wants_nothing_and_raises_nothing() -> None:
    dice = random.Random(7)
    texts = ["".join(chr(dice.choice((dice.randrange(32, 127), dice.randrange(0x300, 0x3000)))) for _ in range(80)) for _ in range(300)]
    assert [text for text in texts if classify_tenant_request(text, T0) in (TenantRequest.WITHDRAW, TenantRequest.CHANGE)] == []
