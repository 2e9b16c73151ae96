"""Parsing a message takes work linear in its text, up to the length that is read."""

import sys
from collections.abc import Callable
from functools import partial
from time import process_time
from types import FrameType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graph.dialogue.addressed import find_call, is_mentioned
from graph.dialogue.read import parse_message
from graph.dialogue.spelling import LONGEST
from tests.graph.test_conversation import NAMES, NOW

pytestmark = pytest.mark.slow


PIECES = (
    "stop ", "why not ecc ", "gpu-001, ", "gpu-[001-", "003 and 004 ", '"', "`", "<@U0OLGA77> ", "don't ", "?! ", "\n", "if, ", "job 4711 ", "停止，",
    "übernehme ", "pleeease ", "drian ", "Xid 79 ", "10:30 ", "(", "x-y.z/", "a", "- - ", "it said: ", "run nccl on 001 ", "error 12 of 30m ",
)  # fmt: skip
texts = st.lists(st.sampled_from(PIECES), min_size=1, max_size=6).map("".join)


def of_length(piece: str, length: int) -> str:
    return (piece * (length // len(piece) + 1))[:length]


def calls(act: Callable[[], object]) -> int:
    """Return the number of Python and C calls, which is the same on every machine."""
    count = 0

    def counts(_frame: FrameType, event: str, _arg: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(counts)
    try:
        act()
    finally:
        sys.setprofile(before)
    return count


@settings(max_examples=5, deadline=None)
@given(texts)
def test_four_times_the_text_is_at_most_some_five_times_the_work(piece: str) -> None:
    parse_message(of_length(piece, LONGEST), NAMES, NOW)  # builds tables on first use
    small, large = (calls(partial(parse_message, text, NAMES, NOW)) for text in (of_length(piece, LONGEST // 4), of_length(piece, LONGEST)))
    assert large <= 6 * small + 20_000


@settings(max_examples=5, deadline=None)
@given(texts)
def test_beyond_the_part_that_is_read_a_text_costs_nothing_more(piece: str) -> None:
    parse_message(of_length(piece, LONGEST), NAMES, NOW)
    whole, endless = (
        calls(partial(parse_message, text, NAMES, NOW)) for text in (of_length(piece, LONGEST), of_length(piece, 10 * LONGEST))
    )
    assert endless <= 1.2 * whole + 1000


@pytest.mark.tier3  # timed
@pytest.mark.parametrize("piece", PIECES)
def test_patterns_do_not_look_for_ever_either(piece: str) -> None:
    """Regex work makes no calls, so it is timed: the fastest of three runs, relative."""

    def seconds(text: str) -> float:
        return min(_timed(lambda: (parse_message(text, NAMES, NOW), find_call(text, {"us"}), is_mentioned(text, {"us"}))) for _ in range(3))

    parse_message(of_length(piece, LONGEST), NAMES, NOW)
    assert seconds(of_length(piece, 10 * LONGEST)) <= 8 * seconds(of_length(piece, LONGEST))


def _timed(act: Callable[[], object]) -> float:
    began = process_time()
    act()
    return process_time() - began
