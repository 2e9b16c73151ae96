"""Layer `wild`: every case runs, shows its evidence, and does not reveal its label; its blind twin is right if the
failed check is named.
"""

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from kb.taxonomy.loader import load_taxonomy
from tests.bench import gates
from tests.bench.arms.arm import Account, Answer
from tests.bench.case_files.lint import problems
from tests.bench.case_files.swaps import BadSwap, resolved
from tests.bench.case_files.truth import ABSTAIN, read_truth
from tests.bench.case_files.wild import blinded, wild_cases
from tests.bench.score import Marked, pairs

CASES = list(wild_cases())
SEEN = [raw for raw in CASES if not raw["truth"].get("blind")]
# program output that a reporter pasted
QUOTED = re.compile(r"```.*?```|`[^`]*`|^.*(?:\[\d|::|Error|error:|NCCL (?:WARN|INFO)|0x).*$", re.DOTALL | re.MULTILINE)


def test_there_is_a_case_for_each_incident_and_a_twin_for_each_that_a_look_decides() -> None:
    assert len(SEEN) == 67
    assert len({raw["source_url"] for raw in SEEN}) == 67
    assert len({raw["id"] for raw in CASES}) == len(CASES) == 67 + len([raw for raw in SEEN if raw["truth"]["decisive_evidence"]])
    assert {raw["truth"]["primary"]["label"] for raw in SEEN} <= set(load_taxonomy().leaves)


@pytest.mark.parametrize("raw", SEEN, ids=lambda raw: raw["id"].removeprefix("wild-"))
def test_a_case_is_read_and_its_decisive_looks_show_something(raw: Mapping[str, Any]) -> None:
    assert not problems(raw)


def test_tickets_are_in_words_of_their_own() -> None:
    """Exclude pasted program output."""
    said = [{**raw, "ticket": {**raw["ticket"], "text": QUOTED.sub(" … ", raw["ticket"]["text"])}} for raw in SEEN]
    gate = gates.worded_apart(said)
    assert gate.held, gate.says
    assert gates.not_past(said).held


def test_no_ticket_names_its_label() -> None:
    for raw in SEEN:
        name = raw["truth"]["primary"]["label"].rpartition(".")[2]
        assert name.lower() not in raw["ticket"]["text"].lower()


def test_a_twin_s_look_fails_everywhere_the_same_way_and_its_truth_says_which() -> None:
    raw = next(one for one in SEEN if one["id"] == "wild-nvml-mismatch-slurm-node-unattended")
    twin = blinded(raw)
    assert twin is not None
    assert twin == blinded(raw)
    checks = sorted({row["check"] for row in raw["truth"]["decisive_evidence"]})
    assert twin["truth"]["blind"] == checks
    assert len(twin["modifiers"]) == len(raw["modifiers"]) + len(checks)
    assert blinded({**raw, "truth": {**raw["truth"], "decisive_evidence": []}}) is None


def test_abstaining_is_right_where_it_names_the_look_that_failed() -> None:
    raw = next(one for one in CASES if one["truth"].get("blind"))
    truth = read_truth(raw["truth"])
    named = Answer((ABSTAIN,), account=Account(could_not_look=(f"{truth.blind[0]} on n1: no answer within 30 s",)))
    other = Answer((ABSTAIN,), account=Account(could_not_look=("ipmi on n1: ipmitool is not installed",)))
    row = Marked(raw["id"], "wild", truth, named)
    assert row.right
    assert pairs(row, 1)[0] == pairs(row, 1)[1]
    assert not Marked(raw["id"], "wild", truth, other).right
    assert not Marked(raw["id"], "wild", truth, Answer((ABSTAIN,))).right
    assert not Marked(raw["id"], "wild", replace(truth, blind=()), named).right
    assert Marked(raw["id"], "wild", truth, Answer((truth.primary.label,))).right


def test_sure_and_wrong_is_a_cause_that_is_not_it() -> None:
    truth = read_truth(SEEN[0]["truth"])
    assert Marked("c", "wild", truth, Answer(("GPU.A.B",), confidence=0.95)).sure_and_wrong
    assert not Marked("c", "wild", truth, Answer(("GPU.A.B",), confidence=0.8)).sure_and_wrong
    assert not Marked("c", "wild", truth, Answer((truth.primary.label,), confidence=0.99)).sure_and_wrong
    assert not Marked("c", "wild", truth, Answer(("NO_FAULT",), confidence=0.99)).sure_and_wrong


def case(**swap: Any) -> dict[str, Any]:
    return {"profile": "pcie-l40s-8", "nodes": ["n1"], "ticket": {"text": "x"}, "outputs": {"n1": {"mods.kernel": swap}}}


def test_what_a_machine_prints_is_changed_where_a_case_says_so() -> None:
    made = resolved(case(swap=[["generic", "ours"]]))["outputs"]["n1"]["mods.kernel"]["stdout"]
    assert made.strip().endswith("ours")
    whole = case(stdout="6.1\n")
    assert resolved(whole) == whole


@pytest.mark.parametrize(
    ("row", "why"),
    [
        ({"swap": [["nothing of that kind", ""]]}, "the machine prints no 'nothing of that kind'"),
        ({"swap": [["generic"]]}, "two texts each"),
        ({"swap": [["", "x"]]}, "prints no"),
        ({"swap": [["generic", "x"]], "stdout": "y"}, "stands alone"),
    ],
)
def test_a_swap_that_cannot_be_made_names_its_field(row: Mapping[str, Any], why: str) -> None:
    with pytest.raises(BadSwap, match=r"outputs\.n1\.mods\.kernel\.swap") as said:
        resolved(case(**row))
    assert why in str(said.value)


def test_a_swap_in_no_command_is_refused() -> None:
    raw = case() | {"outputs": {"n1": {"mods": {"swap": [["a", "b"]]}}}}
    with pytest.raises(BadSwap, match=r"CHECK\.COMMAND"):
        resolved(raw)
