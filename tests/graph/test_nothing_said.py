"""Messages with nothing to investigate are recognised, and no real ticket is among them."""

from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml

from graph.dialogue.news import is_empty_message
from graph.dialogue.read import parse_message
from graph.dialogue.said import Vocabulary

CASES = Path(__file__).parents[1] / "bench/cases"
NOW = datetime(2026, 5, 20, 8, tzinfo=UTC)


def nothing(text: str) -> bool:
    return is_empty_message(parse_message(text, Vocabulary(hosts=("gpu-001", "gpu-002")), NOW).model_copy(update={"text": text}), NOW)


@pytest.mark.parametrize("text", ["🍕🍕🍕", "hello, nice weather today", "AAAAAAAAAA", "approve apr-123"])
def test_noise_and_courtesy_tell_nothing(text: str) -> None:
    assert nothing(text)


@pytest.mark.parametrize("text", ["it's broken", "stuck", "hello, gpu-001", "thanks, but it hangs", "training died", "what?", "xid 79"])
def test_what_may_be_a_complaint_tells_something(text: str) -> None:
    assert not nothing(text)


def test_every_ticket_of_the_benchmark_tells_something() -> None:
    texts = [str(yaml.safe_load(path.read_text())["ticket"]["text"]) for path in sorted(CASES.glob("*.yaml"))]
    assert texts
    assert [text for text in texts if nothing(text)] == []
