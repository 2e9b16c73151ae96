"""Readable text of facts: every key that is abnormal alone has a row, and every clue has a plain line."""

import re

import pytest

from graph.engine.abnormal_facts import ABNORMAL_RULES
from kb import fact_keys
from kb.fact_text import FACT_TEXTS, MAX_READABLE_CHARS, SLOT_PATTERN, SLOTS, fill_slots, format_fact, is_readable_line
from kb.taxonomy.loader import load_taxonomy

LEAF_LINE = '0xb8cef60300f0a111 "leaf-L2" 4   33[  ] ==( 2X 106.25 Gbps Active/ LinkUp)==> 0xb8ce 9 4[ ] "spine-1" (Could be 4X )'
TAXONOMY = load_taxonomy()
CLUES = [(leaf.label, clue) for leaf in TAXONOMY.leaves.values() for clue in leaf.evidence]
USUAL = {"xid": 79, "severity": "Fatal", "link": 3, "name": "python3", "process": "python3", "detail": "no such file", "count": 3}


@pytest.mark.parametrize(
    ("fact", "said"),
    [
        (
            ("fabric.degraded", 1, None, "", {"leaf": "leaf-L2", "port": "33", "width": "2X", "could": "4X"}),
            "leaf-L2 port 33: 2X, could be 4X",
        ),
        (("gpu.ecc.dram_uncorrectable", 412, "gpu3", "", {}), "gpu3: 412 uncorrectable memory errors"),
        (("gpu.power.limit", 300.0, "gpu0", "W", {}), "power limit of gpu0: 300 W"),
        (("kernel.mlx5", "cable_unplugged", "mlx5_3", "", {}), "mlx5_3: cable unplugged"),
        (("kernel.xid", 167, "gpu5", "", {"meaning": "PCIe fatal timeout"}), "Xid 167 on gpu5: PCIe fatal timeout"),
        (("kernel.xid", 999, "gpu5", "", {}), "Xid 999 on gpu5"),
        (("net.rx_discards", 1234567, "eth0", "", {}), "eth0 threw away 1,234,567 packets"),
        (("proc.orphan", 40960, "gpu2", "MiB", {"pid": 41834}), "process 41834 of no running job holds 40,960 MiB on gpu2"),
        (("gpu.pcie.replay", 7, "gpu1", "", {}), "gpu1: PCIe replays: 7"),
        (("site.raid", True, None, "", {}), "what a check of the site itself found: yes"),
    ],
)
def test_a_fact_is_said_by_its_values(fact: tuple[str, object, str | None, str, dict[str, object]], said: str) -> None:
    key, value, device, unit, attrs = fact
    assert format_fact(key, value, device, unit, attrs, LEAF_LINE) == said


def test_where_a_row_lacks_what_it_names_the_line_or_the_key_is_said() -> None:
    assert format_fact("fabric.degraded", 1, None, "", {"leaf": "L2"}, LEAF_LINE) == "1 links of leaf L2 are degraded"
    assert format_fact("fabric.degraded", 1, None, "", {}, "one slow link") == "one slow link"
    assert format_fact("fabric.degraded", 1, None, "", {}, LEAF_LINE).endswith(": 1")


@pytest.mark.parametrize(
    ("line", "readable"),
    [
        ("Rate: 100", True),
        ("7 GPUs answer", True),
        ("nvidia_peermem is not listed", True),
        ("<dram_uncorrectable>2</dram_uncorrectable>", False),
        ("/sys/class/infiniband/mlx5_0/ports/1/counters/symbol_error:412", False),
        ('{"gpu": 3, "ecc": 412}', False),
        ("0, 00000000:19:00.0, 41, 700.00 W, 1980 MHz", False),
        (LEAF_LINE, False),
        ("kern  :warn  : 2026-05-20T02:59:40 NVRM: Xid", False),
        ("x" * 121, False),
        ("", False),
    ],
)
def test_what_people_can_read_as_it_was_printed(line: str, readable: bool) -> None:
    assert is_readable_line(line) is readable


def test_rows_name_keys_that_there_are_and_slots_that_can_be_filled() -> None:
    assert set(FACT_TEXTS) <= {key.name for key in fact_keys.KEYS} | {key for key in FACT_TEXTS if fact_keys.find_key(key)}
    for words in (words for row in FACT_TEXTS.values() for words in row):
        assert all(slot in SLOTS or slot.startswith("attrs.") for slot in SLOT_PATTERN.findall(words)), words
        assert len(words) <= MAX_READABLE_CHARS, words


def test_every_key_that_is_abnormal_alone_has_a_row() -> None:
    assert set(ABNORMAL_RULES) - set(FACT_TEXTS) == set()


def test_every_clue_of_every_cause_says_a_line_that_people_can_read() -> None:
    cited = {clue.key for _, clue in CLUES}
    assert len(cited) > 150
    for label, clue in CLUES:
        attrs = {name.removeprefix("attrs."): USUAL.get(name.removeprefix("attrs."), "x") for name in re.findall(r"attrs\.\w+", clue.says)}
        said = fill_slots(clue.says, 1, "gpu3", "GB/s", attrs, 2, 2)
        assert is_readable_line(said), (label, clue.id, said)
        assert "?" not in said, (label, clue.id, said)
