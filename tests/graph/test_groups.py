"""`hosts …` and `recheck …` with group names, in threads and in the terminal."""

import pytest

from graph.dialogue.addressed import Addressing, ThreadSituation, classify_addressing, find_call
from graph.dialogue.intents import Intent
from graph.dialogue.read import parse_message
from graph.dialogue.said import Vocabulary
from tests.support.clock import T0
from tests.support.inventories import inventory
from tools.inventory.host_ranges import BadRange

NAMES = Vocabulary(hosts=("gpu-001", "gpu-002", "gpu-003"), groups={"train": ("gpu-001", "gpu-002"), "infer-a100": ("gpu-003",)})


@pytest.mark.parametrize(
    ("text", "intent", "hosts"),
    [
        ("hosts train", Intent.NARROW, "gpu-001,gpu-002"),
        ("Hosts: @train", Intent.NARROW, "gpu-001,gpu-002"),
        ("recheck train", Intent.RECHECK, "gpu-001,gpu-002"),
        ("please look again on `infer-a100`.", Intent.RECHECK, "gpu-003"),
        ("recheck the group train", Intent.RECHECK, "gpu-001,gpu-002"),
        ("hosts train and gpu-003", Intent.NARROW, "gpu-001,gpu-002,gpu-003"),
        ("hosts trian", Intent.NARROW, "trian"),
        ("recheck @storage", Intent.RECHECK, "storage"),
        ("only train", Intent.NARROW, "train"),
    ],
)
def test_a_group_is_named_in_a_command(text: str, intent: Intent, hosts: str) -> None:
    said = parse_message(text, NAMES, T0)
    assert (said.intent, said.build_item_data()["hosts"]) == (intent, hosts)


@pytest.mark.parametrize(
    ("text", "heard"), [("recheck @train", True), ("hosts @train", True), ("recheck @priya", False), ("recheck @train @priya", False)]
)
def test_a_group_written_like_a_mention_addresses_no_other_person(text: str, heard: bool) -> None:
    here = ThreadSituation(called=find_call(text), follows="us")
    assert classify_addressing(parse_message(text, NAMES, T0), here) is (Addressing.ANSWER if heard else Addressing.SILENCE)


@pytest.mark.parametrize("text", ["recheck", "recheck now", "recheck please", "hosts are down", "recheck that the train leaves at nine"])
def test_other_words_name_no_group_by_mistake(text: str) -> None:
    assert "train" not in parse_message(text, NAMES, T0).unknown_hosts
    assert parse_message("recheck now", NAMES, T0).build_item_data().get("hosts") is None


def test_the_terminal_refuses_an_unknown_group_with_the_nearest() -> None:
    with pytest.raises(BadRange, match=r"not in the inventory: trian \(did you mean train\?\)"):
        inventory(groups={"train": {"hosts": "n[1-4]"}}, channels=[]).select_hosts("trian")
