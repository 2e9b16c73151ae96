"""Taxonomy drafts from an export: a known name is its label, a near one is merged with a reason, a new one becomes a
draft.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from graph.learning.cause_discovery import MAX_NEW_CAUSES, MIN_NAME_LIKENESS, discover_causes
from graph.learning.knowledge_drafts import draft_checks, draft_leaves, draft_pages
from graph.learning.rule_labelling import LabelledRow
from graph.learning.thread_contents import ThreadContents, ThreadReader, is_lasting_statement
from kb.exports.row import ExportMessage, ExportRow
from kb.history.bm25 import BM25Corpus
from kb.taxonomy.loader import load_taxonomy
from tools.checks import CHECKS

TAXONOMY = load_taxonomy()
READER = ThreadReader.from_checks(CHECKS, TAXONOMY)
ELSEWHERE = "OTHER.INFRA.Power_Event"


def row(number: int, cause: str, named: str = "", **more: Any) -> LabelledRow:
    about: dict[str, Any] = {
        "time": f"2024-01-{number + 1:02}T00:00:00+00:00",
        "label": "INTERCONNECT.IB.Optics_Faulty",
        "confidence": 0.05,
    }
    return LabelledRow(
        **{"id": f"N-{number}", **about, **more}, verdict="doubtful", why="", title=f"job {number} slow", root_cause=cause, named=named
    )


def thread(*said: str) -> ExportRow:
    return ExportRow("X-1", "links flap", tuple(ExportMessage("ada", one) for one in said))


def used(*said: str) -> ThreadContents:
    return READER.read_thread(thread(*said))


def labels(rows: Sequence[LabelledRow]) -> list[str]:
    return [f"{one.verdict} {one.label}" for one in rows]


def test_a_name_of_the_export_becomes_a_cause_once_however_it_is_written() -> None:
    rows = [row(0, "dirt", "Quench pump leaks"), row(1, "dirt", "quench-pump LEAKS")]
    found = discover_causes(rows, TAXONOMY)
    [new] = found.new_causes
    assert (new.label, new.title, [one.id for one in new.threads]) == (
        "INTERCONNECT.IB.Quench_Pump_Leaks",
        "Quench pump leaks",
        ["N-0", "N-1"],
    )
    assert labels(found.threads) == ["labelled INTERCONNECT.IB.Quench_Pump_Leaks"] * 2
    assert found.threads[0].others[0] == "INTERCONNECT.IB.Optics_Faulty", "what it read like stays to be chosen"


def test_a_name_whose_threads_read_like_one_label_is_that_label() -> None:
    rows = [row(number, "dirt", "Net/Optic", confidence=0.5) for number in range(2)] + [row(2, "dirt", "Net/Optic")]
    found = discover_causes(rows, TAXONOMY)
    assert not found.new_causes
    assert [(one.label, one.why) for one in found.merged_names] == [("INTERCONNECT.IB.Optics_Faulty", "2 of 3 read like it")]
    assert {one.label for one in found.threads} == {"INTERCONNECT.IB.Optics_Faulty"}


def test_two_names_that_say_the_same_are_one_cause_and_a_name_that_says_ours_is_ours() -> None:
    names = ["Quench pump has worn gasket", "Worn gaskets of quench pump", TAXONOMY.get_title(ELSEWHERE)]
    found = discover_causes([row(number, "x", name, by="some-model") for number, name in enumerate(names)], TAXONOMY)
    assert [one.title for one in found.new_causes] == ["Quench pump has worn gasket"]
    assert [(one.name, one.label) for one in found.merged_names] == [(names[1], found.new_causes[0].label), (names[2], ELSEWHERE)]
    assert "says the same as “Quench pump has worn gasket”" in found.merged_names[0].why


def test_no_two_causes_of_ours_are_near_enough_to_be_merged() -> None:
    known = BM25Corpus.build({label: f"{leaf.title} {leaf.description}" for label, leaf in TAXONOMY.leaves.items()})
    titles = [leaf.title for leaf in TAXONOMY.leaves.values()]
    assert max(known.compute_similarity(one, other) for number, one in enumerate(titles) for other in titles[:number]) < MIN_NAME_LIKENESS


def test_three_threads_in_like_words_make_a_cause_and_two_do_not() -> None:
    said = "The cause was a worn gasket of the quench pump."
    two = [row(number, said) for number in range(2)]
    assert discover_causes(two, TAXONOMY).threads == tuple(two)
    other = row(7, "Somebody pulled the wrong cable out of the patch panel.")
    found = discover_causes([*two, other, row(2, said)], TAXONOMY)
    [new] = found.new_causes
    assert (new.title, len(new.threads)) == ("A worn gasket of the quench pump", 3)
    assert found.threads[2] is other


def test_the_branch_is_stated_or_that_of_the_nearest_labels() -> None:
    found = discover_causes(
        [row(0, "x", "GPU.COOLING.Quench leak"), row(1, "x", "Vat is empty", by="m", branch="OTHER.SCHEDULER")], TAXONOMY
    )
    assert [one.label for one in found.new_causes] == ["GPU.COOLING.Quench_Leak", "OTHER.SCHEDULER.Vat_Empty"]


@pytest.mark.parametrize(
    "name", ["../../etc/passwd", "a: b\n- c", "…", "7", "x" * 300, "{value} `rm -rf /` *", "NULL", "GPU.." * 30, "a.b.c\x00"]
)
def test_no_name_makes_a_file_that_cannot_be_read(name: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    import yaml

    folder = tmp_path_factory.mktemp("taxonomy")
    found = discover_causes([row(0, "{x} y: z\n# w", name)], TAXONOMY)
    for category, file in draft_leaves(found.new_causes, found.threads, TAXONOMY, CHECKS).items():
        (folder / f"{category}.yaml").write_text(yaml.safe_dump(file))
    known = load_taxonomy(folder).leaves
    assert all(one.label in known and known[one.label].only_words for one in found.new_causes)


def test_what_most_threads_of_a_cause_quote_is_a_clue_that_can_prove_nothing() -> None:
    quoted = used("kernel: NVRM: Xid (PCI:0000:3b:00): 79, pid=1, GPU has fallen off the bus.")
    assert "kernel.xid=79" in quoted.errors
    rows = [row(number, "x", "Quench pump leaks", used=quoted) for number in range(3)]
    others = [replace(row(number, "y"), verdict="labelled") for number in range(10, 20)]
    found = discover_causes([*rows, *others], TAXONOMY)
    [leaf] = draft_leaves(found.new_causes, found.threads, TAXONOMY, CHECKS)["INTERCONNECT"]["leaves"].values()
    [clue] = leaf["evidence"]
    assert (clue["key"], clue["when"], clue["weight"], clue.get("decisive")) == ("kernel.xid", "value == 79", 3.0, None)
    assert (leaf["checks"], leaf["remedies"]) == (["dmesg"], ["none"])
    common = [replace(one, used=quoted) for one in found.threads]
    [leaf] = draft_leaves(found.new_causes, common, TAXONOMY, CHECKS)["INTERCONNECT"]["leaves"].values()
    assert leaf["only_words"], "what other causes quote as often tells nothing"


def test_a_look_of_ours_is_known_by_what_was_typed_and_a_reader_of_theirs_is_drafted() -> None:
    told = used("I ran `nvidia-smi -q` and `cat /proc/driver/ours/state | grep x`, then `rm -rf /scratch`", "$ sudo lspci -vvv\n")
    assert told.looks == ("smi", "lspci")
    assert told.commands == ("cat /proc/driver/ours/state",), "what changes something is no look"
    [check] = draft_checks([row(0, "x", used=told), row(1, "x", used=told)], CHECKS)
    assert check["command"] == ["cat", "/proc/driver/ours/state"]
    assert draft_checks([row(0, "x", used=told)], CHECKS) == [], "one thread alone is a whim"


@pytest.mark.parametrize(
    ("sentence", "stays"),
    [
        ("mlx5_1 is the control plane on this SKU.", True),
        ("All nodes of rack r7 hang on one PDU.", True),
        ("Our storage VLAN has an MTU of 9000.", True),
        ("mlx5_1 was down on this node yesterday.", False),
        ("I think mlx5_1 is the control plane.", False),
        ("Is mlx5_1 the control plane on this SKU?", False),
        ("The job is slow and nobody knows why that is.", False),
    ],
)
def test_what_stays_true_says_of_machines_how_they_are(sentence: str, stays: bool) -> None:
    assert is_lasting_statement(sentence) is stays


def test_a_page_says_which_thread_said_it_and_of_which_cause() -> None:
    told = used("mlx5_1 is the control plane on this SKU. It was flapping. Check the error counters of mlx5_0 first.")
    one = replace(row(4, "x", used=told), verdict="labelled")
    page = draft_pages([one], TAXONOMY.titles)["threads-interconnect-ib-optics-faulty"]
    assert "labels: INTERCONNECT.IB.Optics_Faulty\n" in page
    assert "- mlx5_1 is the control plane on this SKU. (N-4)" in page
    assert "- Check the error counters of mlx5_0 first. (N-4)" in page
    assert "flapping" not in page


def test_a_column_of_ten_thousand_names_makes_a_bounded_number_of_causes_and_loses_no_row() -> None:
    rows = [
        row(0, f"cause {number}", f"Sprocket{number} of kind{number}", id=f"N-{number}", time="") for number in range(2 * MAX_NEW_CAUSES)
    ]
    found = discover_causes(rows, TAXONOMY)
    assert len(found.new_causes) == MAX_NEW_CAUSES
    assert len(found.threads) == len(rows)
    assert sum(one.verdict == "doubtful" for one in found.threads) == MAX_NEW_CAUSES


def test_threads_that_state_one_cause_among_many_other_words_are_not_two_causes() -> None:
    said = "The cause was a worn gasket of the quench pump."
    rows = [
        row(0, said, id=f"{side}-{number}", description=f"{side} " * 9 + f"{side}a {side}b {side}c")
        for side in ("red", "blue")
        for number in range(3)
    ]
    found = discover_causes(rows, TAXONOMY)
    assert [(one.title, len(one.threads)) for one in found.new_causes] == [("A worn gasket of the quench pump", 6)]
