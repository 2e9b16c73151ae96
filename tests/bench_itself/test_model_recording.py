"""Recording and replay: answers are identified by the digest of the question, and a replay needs neither network nor
key (I22).
"""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bot.refusal import Refusal
from bot.settings import Settings, load_settings
from graph.model.endpoint import EndpointFailure, ModelReply
from graph.model.prompts import ModelQuestion, build_question
from graph.model.recording import compute_question_digest
from tests.bench.arms.model_arms import OneShot
from tests.bench.arms.table import BASELINES
from tests.bench.case_files.generate import cases
from tests.bench.cli import Wanted, access, run_bench
from tests.bench.model.endpoint import Access, Exchange, NotRecorded, Typed, schema_of
from tests.bench.model.recording import Key, add, begin, read_recording
from tests.bench.report import document
from tests.bench.run.work import Job, work
from tests.support.fakes_bench_model import FakeModel, Served, solve

SECRET = "sk-very-secret-1"
ASKING = ("B2", "B3", "B4", "B7", "B9")


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    served = Served()
    yield served
    served.close()


def settings(url: str) -> Settings:
    return load_settings(environ={"RACKMEDIC_MODEL_URL": url, "RACKMEDIC_MODEL_API_KEY": SECRET, "RACKMEDIC_MODEL_NAME": "gpt-4o"})


def unsure(n: int = 1) -> list[dict[str, Any]]:
    """Return cases with unknown labels, so that the product asks."""
    return sorted(cases("unseen", 3, 12), key=lambda raw: len(raw["nodes"]))[:n]


def rows(raws: list[dict[str, Any]], access: Access, *arms: str) -> list[dict[str, Any]]:
    return [
        {k: v for k, v in row.items() if k not in ("wall", "cpu")} for raw in raws for row in work(Job(raw, arms or ASKING, access=access))
    ]


def test_a_replay_is_identical_and_makes_no_call(served: Served, tmp_path: Path) -> None:
    tape, raws = tmp_path / "tape.jsonl", unsure()
    begin(tape, "gpt-4o")
    live = rows(raws, Access(served.url, SECRET, "gpt-4o", record=tape))
    assert all("answer" in row for row in live)
    assert sum(sum(row["model"]["asked"].values()) for row in live) == len(tape.read_text().splitlines()) - 1 > 5
    before = len(served.asked)
    for n in range(2):
        assert rows(raws, Access("", "", "gpt-4o", replay=tape, tape=f"{n}")) == live
    assert len(served.asked) == before


def test_a_recording_holds_no_key_and_no_question(served: Served, tmp_path: Path) -> None:
    tape, raws = tmp_path / "tape.jsonl", unsure()
    begin(tape, "gpt-4o")
    rows(raws, Access(served.url, SECRET, "gpt-4o", record=tape), "B3")
    text = tape.read_text()
    assert SECRET not in text
    assert " ".join(raws[0]["ticket"]["text"].split())[:30] not in text
    assert served.asked  # the key and the question were sent


async def test_a_key_that_an_endpoint_repeats_is_struck_out_of_answer_and_recording(tmp_path: Path) -> None:
    tape = tmp_path / "tape.jsonl"
    begin(tape, "gpt-4o")
    for said in (f'{{"labels": ["{SECRET}"], "hosts": []}}', EndpointFailure(f"the endpoint refuses {SECRET}", provider=False)):
        done = await solve(OneShot(), unsure()[0], FakeModel(lambda *_, said=said: said), record=tape)
        assert SECRET not in repr(done.line.told)
    assert tape.read_text().count("[key]") == 2
    assert SECRET not in tape.read_text()
    assert SECRET not in repr(Access("u", SECRET, "m"))


def test_what_was_not_recorded_fails_the_case_and_is_counted_apart(served: Served, tmp_path: Path) -> None:
    tape, one, two = tmp_path / "tape.jsonl", *unsure(2)
    begin(tape, "gpt-4o")
    rows([one], Access(served.url, SECRET, "gpt-4o", record=tape), "B3")
    folder = tmp_path / "cases"
    folder.mkdir()
    for raw in (one, two):
        (folder / f"{raw['id']}.yaml").write_text(json.dumps(raw))
    doc = run_bench(load_settings(environ={}), Wanted(tmp_path / "r.json", cases=folder, arms="B0,B3,B9", replay=tape), lambda _: None)
    b3 = doc["arms"]["B3"]
    assert (b3["n"], b3["failed"], b3["not_recorded"]) == (1, 1, 1)
    assert b3["why_failed"][0].startswith("not recorded: question 1, causes")
    assert doc["arms"]["B9"]["not_run"] == "no run of it succeeded"
    assert "1 runs failed, 1 of them not recorded" in document.markdown(doc)


def test_any_change_of_what_is_asked_invalidates_a_recording() -> None:
    asked = build_question("read", {"Causes": ["A.B.C"]}, {"Report": "it hangs"})
    shape = {"type": "object"}
    first = compute_question_digest("gpt-4o", "rank", asked, shape)
    again = build_question("read", {"Causes": ["A.B.C"]}, {"Report": "it hangs"})
    assert again.user != asked.user  # other random marks
    assert compute_question_digest("gpt-4o", "rank", again, shape) == first
    others = [
        compute_question_digest("gpt-4o-mini", "rank", asked, shape),
        compute_question_digest("gpt-4o", "judge", asked, shape),
        compute_question_digest("gpt-4o", "rank", replace(asked, system=asked.system + " "), shape),
        compute_question_digest("gpt-4o", "rank", ModelQuestion(asked.system, asked.user.replace("hangs", "hung")), shape),
        compute_question_digest("gpt-4o", "rank", asked, {"type": "object", "x": 1}),
    ]
    assert len({first, *others}) == 6


async def test_the_same_question_asked_twice_has_two_answers(tmp_path: Path) -> None:
    tape = tmp_path / "tape.jsonl"
    begin(tape, "gpt-4o")
    says = iter(["first", "second"])
    live = Exchange(Access("u", "", "gpt-4o", record=tape), FakeModel(lambda *_: next(says))).line("c", "B3", 0)
    asked = ModelQuestion("s", "u")
    heard = [await live.ask(asked, "q", {}) for _ in range(2)]
    line = Exchange(Access("", "", "gpt-4o", replay=tape)).line("c", "B3", 0)
    assert [await line.ask(asked, "q", {}) for _ in range(2)] == heard
    with pytest.raises(NotRecorded, match="question 3"):
        await line.ask(asked, "q", {})
    for other in (("c", "B3", 1), ("c", "B2", 0), ("d", "B3", 0)):
        with pytest.raises(NotRecorded, match="question 1"):
            await Exchange(Access("", "", "gpt-4o", replay=tape)).line(*other).ask(asked, "q", {})


def test_troubles_are_recorded_too_and_the_last_run_of_a_case_counts(tmp_path: Path) -> None:
    tape = tmp_path / "tape.jsonl"
    begin(tape, "gpt-4o")
    key = Key("c", "B9", 0, "0" * 64, 0)
    add(tape, key, "rank", EndpointFailure("too slow", tokens_in=7))
    assert read_recording(tape).answers[key] == EndpointFailure("too slow", tokens_in=7)
    add(tape, key, "rank", ModelReply("{}", 1, 2, "gpt-4o-2024"))
    with tape.open("a") as file:
        file.write('{"case": "cut of')
    assert read_recording(tape).answers == {key: ModelReply("{}", 1, 2, "gpt-4o-2024")}


def test_a_damaged_recording_or_one_of_another_model_is_refused(tmp_path: Path) -> None:
    tape = tmp_path / "tape.jsonl"
    begin(tape, "gpt-4o")
    begin(tape, "gpt-4o")
    with pytest.raises(Refusal, match="answers of gpt-4o, not of other"):
        begin(tape, "other")
    tape.write_text(tape.read_text() + "{}\n{}\n")
    with pytest.raises(Refusal, match=":2: cannot be read"):
        read_recording(tape)
    for text in ("", "[]\n", '{"recording": 9, "model": "x"}\n'):
        tape.write_text(text)
        with pytest.raises(Refusal, match="is no recording"):
            read_recording(tape)
    with pytest.raises(Refusal, match="No such file"):
        begin(tmp_path / "no" / "tape", "x")
    with pytest.raises(Refusal, match="No such file"):
        access(load_settings(environ={}), replay=tmp_path / "none")


def test_recording_needs_a_model_and_replay_needs_none(served: Served, tmp_path: Path) -> None:
    tape, none = tmp_path / "tape.jsonl", load_settings(environ={})
    with pytest.raises(Refusal, match="no model to record"):
        access(none, record=tape)
    with pytest.raises(Refusal, match="name one"):
        access(none, record=tape, replay=tape)
    live = access(settings(served.url), record=tape)
    assert live is not None
    assert (live.record, live.replay) == (tape, None)
    replayed = access(settings(served.url), replay=tape)
    assert replayed is not None
    assert (replayed.url, replayed.key, replayed.name) == ("", "", "gpt-4o")
    assert access(none) is None


def test_what_the_stand_in_answers_is_labelled_and_is_no_figure(served: Served, tmp_path: Path) -> None:
    wanted = Wanted(tmp_path / "r.json", layer="unseen", n=2, seed="3", arms="B0,B3,B9,B10", record=tmp_path / "tape.jsonl")
    doc = run_bench(settings(served.url), wanted, lambda _: None)
    for name in ("B3", "B9"):
        assert doc["arms"][name]["stand_in"]
        assert doc["arms"][name]["answered_by"] == ["sandbox"]
        assert doc["arms"][name]["cost"]["calls"] >= 1
    assert not any("B3" in pair or "B9" in pair for pair in doc["paired"])
    text = document.markdown(doc)
    head, _, rest = text.partition("## Questions put to the stand-in (no model's figures)")
    assert "| B3 |" not in head
    assert "| B9 |" not in head
    assert "| B9 |" in rest
    assert f"- B9 ({BASELINES['B9'].title}): no model endpoint is set" in rest
    again = run_bench(
        load_settings(environ={}), replace(wanted, out=tmp_path / "again.json", record=None, replay=wanted.record), lambda _: None
    )
    for name in ("B3", "B9"):  # a recording of the stand-in is still marked as stand-in
        assert {**again["arms"][name], "wall_seconds_a_case": 0} == {**doc["arms"][name], "wall_seconds_a_case": 0}


def test_shapes_are_as_strict_endpoints_want_them() -> None:
    class Shape(Typed):
        labels: list[str]
        because: str

    shape = schema_of(Shape, {"labels": ["A", "B"]})
    assert shape["required"] == ["labels", "because"]
    assert shape["additionalProperties"] is False
    assert shape["properties"]["labels"] == {"type": "array", "items": {"type": "string", "enum": ["A", "B"]}}
