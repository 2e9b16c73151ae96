"""A request withdrawn in the same message has no effect; "draw" shows a value and measures nothing."""

import pytest

from graph.dialogue.intents import Intent
from graph.dialogue.read import parse_message
from graph.dialogue.said import ParsedMessage
from tests.graph.test_conversation import NAMES, NOW


def said(text: str) -> ParsedMessage:
    return parse_message(text, NAMES, NOW)


@pytest.mark.parametrize(
    "text",
    [
        "drain gpu-002 - no, wait",
        "drain gpu-002 no wait",
        "drain gpu-002. wait, no",
        "drain gpu-002... hold on",
        "reboot gpu-002, no wait don't",
        "please reset gpu 3 of gpu-002, on second thought look at it again first",
        "drain gpu-002 -- actually no",
        "drain gpu-002, never mind!",
        "run nccl1 on gpu-002. Scratch that",
        "drain gpu-002 - no, wait, gpu-003",
    ],
)
def test_what_is_taken_back_in_the_same_message_puts_up_nothing(text: str) -> None:
    assert (said(text).intent, said(text).remedy, said(text).check) == (Intent.NOT_UNDERSTOOD, "", "")


@pytest.mark.parametrize(
    "text", ["drain gpu-002", "wait, drain gpu-002", "no, drain gpu-002", "drain gpu-002, don't wait", "drain gpu-002, no rush"]
)
def test_what_is_not_taken_back_is_wanted(text: str) -> None:
    assert (said(text).intent, said(text).remedy, said(text).hosts) == (Intent.WISH_REMEDY, "drain_node", ("gpu-002",))


def test_a_no_that_belongs_to_the_sentence_takes_nothing_back() -> None:
    assert said("same hang after ten minutes. so no").intent is Intent.STILL_BROKEN


@pytest.mark.parametrize(
    "text", ["nccl heatmap", "heatmap of nccl", "draw nccl bandwidth", "nccl matrix as a picture", "draw the temperatures"]
)
def test_a_number_is_drawn_on_a_word(text: str) -> None:
    assert (said(text).intent, said(text).form) == (Intent.SHOW_OUTPUT, "picture")


def test_a_test_is_still_run_where_it_is_said() -> None:
    assert said("run nccl1 on gpu-002").intent is Intent.RUN_CHECK
