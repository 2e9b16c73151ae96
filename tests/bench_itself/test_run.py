"""Runs: answers are stored at once, an interrupted run continues, results and report say what was measured and what was
not.
"""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from bot.cli.main import app
from bot.refusal import Refusal
from bot.settings import ENV_PREFIX, load_settings
from tests.bench.case_files.generate import cases
from tests.bench.cli import SEAL, Wanted, access, draw_sample, lint, new_case, read_results, run_bench, write_report
from tests.bench.gates import DIFFICULTY
from tests.bench.report import document
from tests.bench.report.hardest import hardest
from tests.bench.run.pool import spread
from tests.bench.run.run import Journal, Plan, digest_of, names, run

QUICK = "B0,B1,B3,B10"
PLAIN = load_settings(environ={})


def said() -> tuple[list[str], Any]:
    lines: list[str] = []
    return lines, lines.append


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bench")
    lines, say = said()
    run_bench(PLAIN, Wanted(folder / "r.json", layer="hard,control", n=3, arms="B0,B1,B3,B5,B8,B10"), say)
    assert lines[-1].startswith("6/6 cases")
    return folder


def test_results_are_one_document_with_every_arm_run_or_not(folder: Path) -> None:
    doc = read_results(folder / "r.json")
    assert (doc["schema"], doc["cases"], doc["seed"], doc["split"]) == (1, 6, "1", "open")
    assert doc["arms"]["B3"].keys() == {"not_run"}
    assert "RACKMEDIC_MODEL" in doc["arms"]["B3"]["not_run"]
    assert doc["arms"]["B10"]["accuracy"]["value"] == 1
    whole = {
        "micro_f1",
        "macro_f1",
        "ci95",
        "by_category",
        "localisation",
        "grounding",
        "remedy",
        "safety",
        "cost",
        "calibration",
        "per_case",
    }
    assert whole <= doc["arms"]["B8"].keys()
    assert doc["arms"]["B8"]["by_layer"].keys() == {"hard", "control"}
    assert "B1 / B8" in doc["paired"]


def test_a_finished_run_asks_nothing_again(folder: Path) -> None:
    before = read_results(folder / "r.json")
    lines, say = said()
    again = run_bench(PLAIN, Wanted(folder / "r.json", layer="hard,control", n=3, arms="B0,B1,B3,B5,B8,B10"), say)
    assert lines == []
    assert again["arms"] == before["arms"]


def test_a_broken_run_goes_on_where_it_stopped(tmp_path: Path) -> None:
    plan = Plan(list(cases("easy", 1, 4)), ("B0", "B10"), "1")
    whole = run(plan, tmp_path / "a.json")
    journal = tmp_path / "a.json.journal"
    lines = journal.read_text().splitlines()
    journal.write_text("\n".join(lines[:4]) + '\n{"case": "cut o')
    asked: list[int] = []
    again = run(plan, tmp_path / "a.json", lambda done, of, rows: asked.append(of))
    assert asked
    assert asked[0] < 4
    assert _timeless(again["arms"]) == _timeless(whole["arms"])


def test_other_cases_or_code_begin_anew(tmp_path: Path) -> None:
    one, other = (digest_of(Plan(list(cases("easy", seed, 2)), ("B0",), "1")) for seed in (1, 2))
    assert one != other
    with Journal(tmp_path / "j", one) as first:
        first.add([{"case": "c", "arm": "B0", "attempt": 0, "answer": {}}, {"case": "c", "arm": "B1", "attempt": 0, "failed": "no"}])
        with pytest.raises(Refusal, match="another run writes"):
            Journal(tmp_path / "j", one)
    with Journal(tmp_path / "j", one) as again:
        assert (again.kept, len(again.rows)) == (1, 1)
    with Journal(tmp_path / "j", other) as anew:
        assert not anew.rows


def test_a_line_that_a_crash_cut_off_spoils_no_other(tmp_path: Path) -> None:
    rows = [{"case": str(n), "arm": "B0", "attempt": 0, "answer": {}} for n in range(3)]
    with Journal(tmp_path / "j", "d") as journal:
        journal.add(rows[:2])
    with (tmp_path / "j").open("a") as file:
        file.write('{"case": "cut o')
    with Journal(tmp_path / "j", "d") as journal:
        journal.add(rows[2:])
    with Journal(tmp_path / "j", "d") as journal:
        assert journal.kept == 3


def test_more_jobs_than_processes_may_keep_are_all_done() -> None:
    assert sorted(spread(abs, range(-9, 0), 2, most=2)) == list(range(1, 10))


def test_several_processes_find_what_one_finds(tmp_path: Path) -> None:
    plan = list(cases("easy", 1, 3))
    one = run(Plan(plan, ("B0", "B1", "B10"), "1"), tmp_path / "one.json")
    two = run(Plan(plan, ("B0", "B1", "B10"), "1", jobs=2), tmp_path / "two.json")
    assert _timeless(one["arms"]) == _timeless(two["arms"])


def test_three_attempts_give_pass_three(tmp_path: Path) -> None:
    doc = run(Plan(list(cases("easy", 1, 2)), ("B1", "B10"), "1", attempts=3), tmp_path / "r.json")
    assert doc["arms"]["B10"]["pass^3"]["value"] == 1
    assert doc["arms"]["B10"]["n"] == 2


def test_the_report_states_gates_figures_what_was_not_run_and_the_hardest_cases(folder: Path) -> None:
    written = write_report(folder / "r.json", folder / "REPORT.md", "rackmedic bench run …")
    text = written[0].read_text()
    for part in (
        "rackmedic bench run …",
        "| B8 |",
        "Gates of the benchmark",
        "B3 (one model call on the ticket): no model endpoint",
        "hardest cases, told",
        "**What was broken.**",
        "**What RackMedic did.**",
    ):
        assert part in text
    assert all(path.read_text().startswith("<?xml") for path in written[1:])
    assert 1 <= len(hardest(read_results(folder / "r.json"))) <= 10


def test_pictures_are_the_same_for_the_same_results(folder: Path) -> None:
    doc = read_results(folder / "r.json")
    one, two = ([path.read_bytes() for path in document.draw(doc, folder / name)] for name in ("p", "q"))
    assert one == two


def test_a_broken_gate_is_said_loudly(folder: Path) -> None:
    doc = json.loads((folder / "r.json").read_text())
    doc["arms"]["B1"]["by_layer"]["hard"]["micro_f1"]["l3"] = 0.9
    assert "**broken**" in document.markdown(doc)


def test_retrieval_alone_stays_under_its_gate_on_the_hard_layer(tmp_path: Path) -> None:
    doc = run(Plan(list(cases("hard", 1, 79)), ("B1",), "1"), tmp_path / "r.json")
    assert doc["arms"]["B1"]["by_layer"]["hard"]["micro_f1"]["l3"] <= DIFFICULTY["B1"]


def test_the_published_report_holds_every_gate() -> None:
    text = (Path(__file__).parents[1] / "bench/REPORT.md").read_text()
    for gate in (*DIFFICULTY, "oracle"):
        assert f"| {gate}" in text.partition("## Gates")[2]
    assert "**broken**" not in text


def test_a_report_shows_the_product_on_other_seeds_too(folder: Path, tmp_path: Path) -> None:
    write_report(folder / "r.json", tmp_path / "R.md", seeds=[folder / "r.json", folder / "r.json"])
    section = (tmp_path / "R.md").read_text().partition("## Three seeds")[2].partition("\n## ")[0]
    rows = [line.split("|")[1].strip() for line in section.splitlines() if line.startswith("| ")]
    assert rows == ["seed", "1 (published)", "1", "1"]
    write_report(folder / "r.json", tmp_path / "R.md")
    assert "## Three seeds" not in (tmp_path / "R.md").read_text()


def test_bad_wishes_are_refused_with_the_option_and_the_mend(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    out = tmp_path / "r.json"
    for wanted, words in (
        (Wanted(out, layer="rock"), "--layer: there is no rock"),
        (Wanted(out, arms="B99"), "--arms: there is no B99"),
        (Wanted(out, transport="pigeon"), "--transport pigeon"),
        (Wanted(tmp_path / "file" / "r.json"), "--json .*cannot be made"),
        (Wanted(out, cases=tmp_path), "bench new-case"),
        (Wanted(out, seed_file=tmp_path / "none"), "--seed-file"),
    ):
        with pytest.raises(Refusal, match=words):
            run_bench(PLAIN, wanted, print)


def test_a_seed_that_is_not_the_sealed_one_is_not_taken_for_it(tmp_path: Path) -> None:
    (tmp_path / "seed").write_text("guess\n")
    with pytest.raises(Refusal, match=SEAL.name):
        run_bench(PLAIN, Wanted(tmp_path / "r.json", seed_file=tmp_path / "seed"), print)


def test_a_new_case_can_be_linted_and_run(tmp_path: Path) -> None:
    path = new_case(tmp_path / "cases" / "mine.yaml", "hard", "5", "N04")
    lines, say = said()
    assert lint(path.parent, say) == 0
    assert lines == ["1 case(s), 0 problem(s)"]
    doc = run_bench(PLAIN, Wanted(tmp_path / "out" / "r.json", cases=path.parent, arms=QUICK), say)
    assert (doc["cases"], doc["case_rows"]["mine"]["faults"]) == (1, ["N04"])
    with pytest.raises(Refusal, match="is there already"):
        new_case(path, "hard", "5")
    with pytest.raises(Refusal, match="there is no Z99"):
        new_case(tmp_path / "other.yaml", "hard", "5", "Z99")


def test_a_case_that_cannot_be_marked_is_refused_before_anything_runs(tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_text("nodes: 3\nprofile: dgx-h100-8\n")
    assert lint(tmp_path, lambda line: None) > 0
    with pytest.raises(Refusal, match="not every case can be run and marked"):
        run_bench(PLAIN, Wanted(tmp_path / "r.json", cases=tmp_path), print)


def test_the_models_endpoint_comes_from_the_settings_and_its_key_is_never_shown() -> None:
    assert access(PLAIN) is None
    found = access(load_settings(environ={"RACKMEDIC_MODEL_URL": "http://127.0.0.1:8000/v1", "RACKMEDIC_MODEL_API_KEY": "hush"}))
    assert found is not None
    assert found.url == "http://127.0.0.1:8000/v1"
    assert "hush" not in repr(found)


def test_arms_are_named_as_people_type_them() -> None:
    assert names("B1, B8,B1") == ("B1", "B8")
    assert "B6" in names("all")


@pytest.mark.tier3  # measures all published incidents, which takes a minute
def test_the_command_line_runs_reports_and_lints(tmp_path: Path) -> None:
    cli = CliRunner(
        env={name: None for name in os.environ if name.startswith(ENV_PREFIX)}
    )  # the test suite's own settings must not reach the product
    out, md = tmp_path / "r.json", tmp_path / "R.md"
    done = cli.invoke(app, ["bench", "run", "--layer", "easy", "--n", "2", "--arms", QUICK, "--jobs", "1", "--json", str(out)])
    assert done.exit_code == 0, done.output
    assert cli.invoke(app, ["bench", "report", str(out), "--out", str(md)]).exit_code == 0
    assert "B10" in md.read_text()
    assert cli.invoke(app, ["bench", "new-case", str(tmp_path / "c.yaml")]).exit_code == 0
    assert cli.invoke(app, ["bench", "lint", str(tmp_path / "c.yaml")]).exit_code == 0
    refused = cli.invoke(app, ["bench", "report", str(md)])
    assert refused.exit_code == 2
    assert "is no result" in refused.output


def _timeless(arms: dict[str, Any]) -> dict[str, Any]:
    return {name: {key: value for key, value in row.items() if not key.startswith("wall")} for name, row in arms.items()}


def test_a_sample_is_drawn_from_each_layer_by_the_seed() -> None:
    by_layer = {"hard": [{"id": f"h{n:02}"} for n in range(20)], "wild": [{"id": f"w{n}"} for n in range(3)]}
    drawn = draw_sample(by_layer, 5, "s")
    assert drawn == draw_sample(by_layer, 5, "s")
    assert (len(drawn["hard"]), len(drawn["wild"])) == (5, 3)
    assert drawn["hard"] != draw_sample(by_layer, 5, "another")["hard"]
