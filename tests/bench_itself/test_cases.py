"""Cases: seeded, marked from one table, worded apart from solver knowledge, and solvable."""

import re
from collections.abc import Mapping
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import yaml

from deploy.sandbox.cluster.access.cluster import Cluster
from deploy.sandbox.cluster.cases.controls import CONTROLS
from deploy.sandbox.cluster.cases.reader import parse_case
from deploy.sandbox.cluster.faults import FAULTS
from kb.taxonomy.loader import load_taxonomy
from kb.taxonomy.taxonomy import SYMPTOMS
from tests.bench import gates
from tests.bench.case_files.generate import LAYERS, LOOKS, OUTSIDE, as_yaml, cases
from tests.bench.case_files.harder import FIRST, KINDS, MORE, kind_of
from tests.bench.case_files.lint import problems
from tests.bench.case_files.modifier_words import MEANS
from tests.bench.case_files.tickets import bank
from tests.bench.case_files.truth import ABSTAIN, NO_FAULT, controls, read_truth, table
from tests.bench.frozen import frozen

ROOT = Path(__file__).parents[2]


def test_every_fault_and_control_has_its_line_in_the_one_table() -> None:
    assert table().keys() == FAULTS.keys()
    assert controls().keys() == CONTROLS.keys()


@pytest.mark.parametrize("fault", sorted(FAULTS))
def test_a_line_of_the_table_does_not_contradict_itself(fault: str) -> None:
    row = table()[fault]
    assert row.symptom in bank()["symptoms"]
    assert row.shows
    assert row.correct
    assert not set(row.correct) & {*row.wrong, *row.acceptable}
    assert row.needs in ("", "ib", "nvlink")


def test_the_phrase_bank_speaks_of_every_symptom_there_is() -> None:
    assert bank()["symptoms"].keys() == SYMPTOMS


@pytest.mark.parametrize("layer", LAYERS)
def test_the_same_seed_makes_the_same_files_and_another_seed_others(layer: str) -> None:
    one, again, other = ([as_yaml(raw) for raw in cases(layer, seed, 8)] for seed in ("a", "a", "b"))
    assert one == again
    assert not set(one) & set(other)


def test_a_case_does_not_change_when_more_are_asked_for() -> None:
    assert list(cases("hard", 1, 5)) == list(cases("hard", 1, 12))[:5]


def test_hard_cases_have_three_nodes_or_more_and_two_to_four_difficulties() -> None:
    for raw in cases("hard", 7, 60):
        assert len(raw["nodes"]) >= 3
        assert 2 <= len(raw["modifiers"]) <= 4
        assert {text.partition("(")[0].partition("@")[0] for text in raw["modifiers"]} <= MEANS.keys()
        assert len(raw["faults"]) == 1


def test_hard_cases_use_every_fault_equally_often() -> None:
    faults = [raw["faults"][0]["id"] for raw in cases("hard", 3, 158)]
    assert {faults.count(fault) for fault in FAULTS if fault != OUTSIDE} == {2}


def test_composite_cases_have_two_causes_and_controls_none() -> None:
    for raw in cases("composite", 2, 20):
        assert len(read_truth(raw["truth"]).labels) == 2
    for raw in cases("control", 2, 16):
        assert read_truth(raw["truth"]).labels == (NO_FAULT,)


def test_unseen_cases_name_what_the_solver_must_not_know_and_want_it_to_abstain() -> None:
    for raw in cases("unseen", 2, 20):
        truth = read_truth(raw["truth"])
        assert truth.primary.label in truth.removed
        assert truth.labels == (ABSTAIN,)


def test_a_job_or_a_switch_at_fault_accuses_no_machine() -> None:
    for raw in cases("easy", 1):
        scope, truth = FAULTS[raw["faults"][0]["id"]].scope, read_truth(raw["truth"])
        assert bool(truth.hosts) == (scope in ("gpu", "node", "rack"))


def test_the_truth_of_a_case_survives_its_file() -> None:
    for layer in LAYERS:
        for raw in cases(layer, 4, 6):
            read = yaml.safe_load(as_yaml(raw))
            assert read == raw
            assert read_truth(read["truth"]).write() == raw["truth"]


def test_nothing_a_solver_is_given_tells_the_answer() -> None:
    for raw in cases("hard", 1, 60):
        case = parse_case(raw)
        assert read_truth(raw["truth"]).primary.label.rpartition(".")[2].lower() not in case.ticket.text.lower()
        assert raw["faults"][0]["id"].lower() not in case.id


@pytest.mark.parametrize("layer", LAYERS)
def test_the_oracle_solves_a_sample_and_every_fault_in_it_can_be_seen(layer: str) -> None:
    assert [problem for raw in cases(layer, "sample", 6) for problem in problems(raw)] == []


def test_the_cases_in_the_folder_are_well_posed() -> None:
    files = sorted((ROOT / "tests/bench/cases").glob("*.yaml"))
    assert files
    assert [problem for path in files for problem in problems(yaml.safe_load(path.read_text()))] == []


def test_a_case_that_no_check_can_see_is_called_ill_posed() -> None:
    raw = next(one for one in cases("easy", 1) if one["faults"][0]["id"] == "S10")
    assert not problems(raw)
    blind = [f"R6(check={check}, how=timeout)" for check in table()["S10"].shows]
    assert "nothing that any check asks shows" in problems(raw | {"modifiers": blind})[0]


def test_a_case_whose_truth_is_wrong_is_called_ill_posed() -> None:
    raw = next(cases("easy", 1, 1))
    lie = raw["truth"] | {"primary": {"label": "USER.CODE.Other", "hosts": [], "devices": []}}
    assert "the oracle names" in " ".join(problems(raw | {"truth": lie}))
    assert "primary" in problems(raw | {"truth": {}})[0]


@pytest.fixture(scope="module")
def some() -> list[Mapping[str, Any]]:
    return [raw for layer in LAYERS for raw in cases(layer, "1", 60)]


def test_tickets_share_no_five_words_with_rules_taxonomy_or_past_incidents(some: list[Mapping[str, Any]]) -> None:
    gate = gates.worded_apart(some)
    assert gate.held, gate.says


def test_no_ticket_is_nearly_a_past_incident(some: list[Mapping[str, Any]]) -> None:
    assert gates.not_past(some).held


def test_no_two_cases_are_nearly_the_same_within_a_layer_or_between_two(some: list[Mapping[str, Any]]) -> None:
    assert gates.no_twins(some).held
    twin = dict(some[0]) | {"id": "twin", "layer": "hard"}
    gate = gates.no_twins([*some, twin])
    assert not gate.held
    assert "twin" in gate.says


def test_a_ticket_that_quotes_the_rules_breaks_its_gate(some: list[Mapping[str, Any]]) -> None:
    title = next(leaf.title for leaf in load_taxonomy().leaves.values() if len(leaf.title.split()) >= gates.IN_A_ROW)
    quoting = dict(some[0]) | {"ticket": {"text": f"I think that {title} here"}}
    assert not gates.worded_apart([quoting]).held


def test_cases_that_nothing_shows_break_their_gate() -> None:
    well = next(cases("easy", 1, 1))
    assert gates.well_posed([well]).held
    assert not gates.well_posed([dict(well) | {"truth": {"primary": {"label": "USER.CODE.Other"}}}]).held


def test_hard_cases_meet_old_and_new_drivers_and_three_kinds_of_machines() -> None:
    raws = list(cases("hard", "1"))
    drivers = {match[1] for raw in raws for text in raw["modifiers"] if (match := re.match(r"R10\(driver=(\d+)", text))}
    assert {"535", "580"} <= drivers
    assert {"dgx-h100-8", "hgx-a100-8", "pcie-l40s-8"} <= {raw["profile"] for raw in raws}


def test_an_old_driver_reports_otherwise_than_a_new_one() -> None:
    def report(driver: str) -> str:
        case = parse_case({"nodes": 1, "profile": "dgx-h100-8", "modifiers": [f"R10(driver={driver})"]})
        return Cluster.from_case(case).answer("n0", ("nvidia-smi", "-q", "-x")).stdout.decode()

    old, new = report("535.161.08"), report("580.65.06")
    assert "nvsmi_device_v12.dtd" in old
    assert "<gpu_reset_status>" in old
    assert "nvsmi_device_v13.dtd" in new
    assert "<clocks_event_reasons_counters>" in new
    assert "<gpu_reset_status>" not in new


def test_no_two_tickets_of_a_layer_say_the_same() -> None:
    texts = [raw["ticket"]["text"] for raw in cases("hard", 1)]
    assert len(set(texts)) == len(texts)


def test_the_sealed_seed_is_known_by_its_digest_and_nowhere_written_down() -> None:
    assert gates.sealed().held


def test_what_the_baselines_scored_on_version_1_stands_beside_today() -> None:
    scores, as_of = frozen(list(cases("hard", "1")))
    assert "the first 200 cases" in as_of
    assert scores.keys() == gates.DIFFICULTY.keys()
    assert not frozen(list(cases("hard", "2")))[0]


def test_further_hard_cases_are_of_every_kind_and_those_of_version_1_stay() -> None:
    raws = list(cases("hard", "1"))
    kinds = [kind_of(index) for index in range(len(raws))]
    assert [kinds.count(kind) for kind in ("", *(name for name, _ in KINDS))] == [FIRST, *(count for _, count in KINDS)]
    assert kind_of(FIRST + MORE) == KINDS[0][0]
    assert len({raw["id"] for raw in raws}) == len(raws)


@pytest.mark.parametrize("index", range(FIRST, FIRST + MORE, 3))
def test_further_hard_cases_are_well_posed(index: int) -> None:
    raw = next(islice(cases("hard", "1"), index, None))
    assert not problems(raw)


def test_where_the_two_best_looks_are_blind_a_third_one_shows_the_fault() -> None:
    for raw in islice(cases("hard", "1"), FIRST, FIRST + 40):
        blind = [text for text in raw["modifiers"] if text.startswith("R6")]
        shows = [check for check in table()[raw["faults"][0]["id"]].shows if check in LOOKS]
        assert [any(f"check={check}," in text for text in blind) for check in shows[:3]] == [True, True, False]


def test_a_controller_that_is_wrong_speaks_of_a_machine_that_is_not_at_fault() -> None:
    for raw in islice(cases("hard", "1"), FIRST + MORE - 5, FIRST + MORE):
        [host] = raw["outputs"]
        assert host not in raw["truth"]["primary"]["hosts"]
        assert "State=DOWN*" in raw["outputs"][host]["sched.shown"]["stdout"]
