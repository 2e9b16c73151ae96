"""The AidAI section is counted from recordings, is in the report as counted, and says what is missing."""

import json
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest

from tests.bench.aidai import paper as paper
from tests.bench.aidai import report as report
from tests.bench.aidai.answers import in_category, known, of, share, wilson
from tests.bench.aidai.measure import HARD, LABELS, RESULTS, Posed, answers, of_labels, plans, tape_of, without_own, written
from tests.bench.case_files.generate import cases
from tests.bench.case_files.wild import wild_cases
from tests.bench.published.read_texts import ANSWERS

KEPT = report.load()
LEAF, OTHER = "GPU.BUS.Fallen_Off_Bus", "USER.CODE.Device_Assert"


def test_the_report_holds_the_section_as_it_is_counted_from_the_recordings() -> None:
    told = report.REPORT.read_text()
    assert report.section() in told, "renew it: python -m tests.bench.aidai.report"
    assert told.count(report.TITLE) == 1


def test_all_that_the_paper_shows_has_its_place() -> None:
    text = report.section()
    for place in (*(f"### Table {n}:" for n in (3, 4, 5)), *(f"### Figure {n}:" for n in range(8, 13))):
        assert text.count(place) == 1, place


def test_what_is_kept_is_a_line_a_case_and_reads_back(tmp_path: Path) -> None:
    assert KEPT is not None
    assert json.loads(written(KEPT)) == KEPT
    assert RESULTS.read_text() == written(KEPT)


def test_cases_that_are_kept_are_those_of_today(tmp_path: Path) -> None:
    """If the generator draws other cases: python -m tests.bench.aidai.measure."""
    assert KEPT is not None
    posed = plans(tape_of(ANSWERS, tmp_path / "tape.jsonl"))
    assert {name: [str(raw["id"]) for raw in one.raws] for name, one in posed.items()} == {
        name: list(held["cases"]) for name, held in KEPT["sets"].items()
    }
    for name, one in posed.items():
        for raw in one.raws:
            assert KEPT["sets"][name]["cases"][raw["id"]]["causes"][0] == raw["truth"]["primary"]["label"]


def test_a_recorded_case_answered_again_gives_what_is_kept(tmp_path: Path) -> None:
    """Recompute with AidAI, a single call and the product; unanswered questions count as lost, never invented."""
    assert KEPT is not None
    tape, raw = tape_of(ANSWERS, tmp_path / "tape.jsonl"), next(iter(wild_cases(1)))
    again = answers(Posed((raw,), ("B3", "B6", "B8"), tape))
    held, name = KEPT["sets"]["recorded"]["arms"], raw["id"]
    there = [arm for arm, said in again["arms"].items() if name in said]
    assert len(there) + again.get("not_replayed", 0) == 3
    assert [again["arms"][arm][name].get("said") for arm in there] == [held[arm][name].get("said") for arm in there]


def test_figures_are_those_of_the_kept_answers() -> None:
    assert KEPT is not None
    held, text = KEPT["sets"]["recorded"], report.section()
    calls = [row["calls"] for row in held["arms"]["B6"].values()]
    assert f"| AidAI | 10.2 | 31801 / 2225 | 0.102 | B6 | {sum(calls) / len(calls):.1f} |" in text
    removed = KEPT["sets"]["removed"]
    for label in LABELS:
        some = [name for name, case in removed["cases"].items() if case["causes"][0] == label]
        abstained = sum("said" not in removed["arms"]["B8"][name] for name in some)
        assert share(abstained, len(some)) in report.table_4(KEPT, None)


def test_prices_of_the_paper_follow_from_its_tokens() -> None:
    for line in paper.TABLE_5:
        assert line.reckoned == pytest.approx(line.usd, abs=0.0006), line.method
    assert sum(one.tickets for one in paper.CATEGORIES.values()) == paper.TICKETS
    assert sum(one.unsolved for one in paper.CATEGORIES.values()) == 28


def one_case(arms: dict[str, Any], **case: Any) -> dict[str, Any]:
    return {
        "sets": {"recorded": {"cases": {"a": {"layer": "hard", "causes": [LEAF], **case}}, "arms": arms}},
        "benchmark": 2,
        "prompts": "",
    }


def test_an_arm_that_is_lacking_is_a_dash_or_says_so() -> None:
    kept = one_case({"B8": {"a": {}}})
    assert "B6: AidAI's algorithm: history, walk, forgets between siblings | – | – | not recorded |" in report.figure_8(kept)
    assert "| AidAI | 304.0 | 0.366 | B6; on hard cases B6-sage | – | – | – | – |" in report.figure_10(kept)
    assert "hard, not run" in report.figure_12(kept)
    assert "Ours was not measured: nobody has" in report.figure_11(kept)
    for part in (report.table_3(kept, None), report.table_4(kept, None), report.table_5(kept), report.figure_9(kept)):
        assert "| – |" in part


def test_nothing_is_said_where_nothing_is_kept(tmp_path: Path) -> None:
    assert report.section(tmp_path / "none.json") == ""
    (tmp_path / "other.json").write_text('{"schema": 2}')
    assert report.section(tmp_path / "other.json") == ""


def test_older_prompts_and_answers_that_no_recording_holds_are_said(tmp_path: Path) -> None:
    assert KEPT is not None
    older = {**KEPT, "prompts": "0123456789abcdef", "sets": {**KEPT["sets"], "recorded": {**KEPT["sets"]["recorded"], "not_replayed": 7}}}
    (tmp_path / "older.json").write_text(written(older))
    text = report.section(tmp_path / "older.json")
    assert "**Older prompts" in text
    assert "- 7 recorded answers to questions that are asked otherwise by now" in text


def test_an_answer_reads_back_as_it_was_marked() -> None:
    said = {"a": {"said": ["ABSTAIN"], "names_blind_look": True}, "b": {}, "c": {"said": [OTHER]}}
    held = {"cases": {name: {"layer": "wild", "causes": [LEAF], "blind": ["smi"]} for name in "abc"}, "arms": {"B8": said}}
    rows = of({"sets": {"x": held}}, "x").rows("B8")
    assert [row.right for row in rows] == [True, True, False]
    assert in_category(rows, "GPU") == (2, 0, 1)
    assert in_category(rows, "USER") == (0, 1, 0)


def test_a_removed_label_is_rightly_not_known() -> None:
    kept = one_case({"B8": {"a": {}}, "B6": {"a": {"said": [OTHER], "pipeline": 3}}}, removed=True)
    some = of(kept, "recorded")
    assert [row.right for row in (*some.rows("B8"), *some.rows("B6"))] == [True, False]
    assert some.rows("B8", known) == []
    raw = without_own(next(cases("hard", "1", 1, "open")))
    assert raw["truth"]["removed"] == [raw["truth"]["primary"]["label"]]


def test_pipelines_count_what_is_right_only() -> None:
    kept = one_case({"B6": {"a": {"pipeline": 2}}})
    assert of(kept, "recorded").pipelines("B6", known) == [2]
    wrong = one_case({"B6": {"a": {"pipeline": 2, "said": [OTHER]}}})
    assert of(wrong, "recorded").pipelines("B6", known) == []


def test_labels_met_are_the_mean_over_every_order() -> None:
    labels = ["a", "a", "b", "c"]
    for n in range(5):
        orders = [len(set(order[:n])) for order in permutations(labels)]
        assert report.labels_met(labels, n) == pytest.approx(sum(orders) / len(orders))


def test_an_interval_of_a_share_is_wilsons() -> None:
    assert wilson(0.854 * 208, 208) == pytest.approx((0.7998, 0.8956), abs=5e-4)
    assert wilson(5, 5)[0] == pytest.approx(0.5655, abs=1e-4)
    assert share(5, 5) == "5/5 = 1.00 [0.57, 1.00]"
    assert share(0, 0) == "–"


def test_the_section_takes_its_old_place_or_stands_behind_the_recorded_model() -> None:
    plain = f"# Report\n\nWords.\n\n{report.BEFORE}\n\nFigures.\n\n## Cases, told\n\nOne.\n"
    once = report.renewed(plain, f"{report.TITLE}\n\nNew.")
    assert once == plain.replace("\n\n## Cases", f"\n\n{report.TITLE}\n\nNew.\n\n## Cases")
    assert report.renewed(once, f"{report.TITLE}\n\nNewer.") == once.replace("New.", "Newer.")


def test_labels_that_the_paper_takes_out_have_cases_with_one_cause() -> None:
    assert {line.label for line in paper.TABLE_4} == set(LABELS)
    found = list(of_labels(LABELS, ("1",)))
    assert {raw["truth"]["primary"]["label"] for raw in found} == set(LABELS)
    assert len({raw["id"] for raw in of_labels(LABELS)}) == len(list(of_labels(LABELS)))
    assert len({raw["truth"]["primary"]["label"] + str(raw["faults"][0]["id"]) for raw in cases("hard", "1", HARD, "open")}) == HARD
