"""Metrics A, B and C: the tables are complete and answerable, no prompt contains an answer, and marks are right."""

import asyncio
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from bot.refusal import Refusal
from bot.settings import Settings
from graph.model.endpoint import EndpointFailure, ModelReply
from graph.model.prompts import ModelQuestion
from kb.taxonomy.loader import load_taxonomy
from tests.bench.cli import ask_questions
from tests.bench.questions.arms import Knowledge, by_words, draft, extract, look, without_model
from tests.bench.questions.bare_model import Question, put_of
from tests.bench.questions.catalogue import Questions, Sentence, Value, load_questions, load_site, options_of
from tests.bench.questions.report import section
from tests.bench.questions.run import ask_all, best, by_model, figures, keep, kept
from tests.bench.questions.score import Answers, Attributed, Extracted, Look, as_text, drafted, finds, metric_a, metric_b, metric_c
from tools.checks import CHECKS

ALL = load_questions()
UNASKED = {"base"}  # checks newer than the recorded questions
EVERY: tuple[Question, ...] = (*ALL.extractions, *ALL.needs, *ALL.sentences, *ALL.attributions)
TAXONOMY = load_taxonomy()
LEAVES = TAXONOMY.leaves


@cache
def known() -> Knowledge:
    return Knowledge()


def few(n: int = 2) -> Questions:
    return Questions(extractions=ALL.extractions[:n], needs=ALL.needs[:n], sentences=ALL.sentences[:n], attributions=ALL.attributions[:n])


# --- tables
# ----------------------------------------------------------------------------------------------------------------------------------


def test_there_are_enough_questions_of_each_metric_and_none_stands_twice() -> None:
    assert ALL.counts["A"] >= 60
    assert ALL.counts["B"] >= 45
    assert ALL.counts["C"] >= 60
    assert max(Counter(one.id for one in EVERY).values()) == 1
    assert max(Counter(" ".join(one.text.lower().split()) for one in EVERY).values()) == 1
    assert sum(one.source != "own" for one in EVERY) >= 60, "facts of published incidents stand behind them"


def test_what_is_true_of_a_message_stands_in_it() -> None:
    hosts = load_site().hosts.keys()
    for one in ALL.extractions:
        assert one.truth.names <= hosts, one.id
        assert one.truth.job in one.text, one.id
        number = one.truth.port.rpartition("/")[2].lstrip("gpu")
        assert number in one.text, one.id
    acting = [one.truth.act for one in ALL.extractions]
    assert 0.25 < sum(acting) / len(acting) < 0.75, "neither answer is right by being said always"


def test_every_check_is_needed_by_somebody_on_hosts_that_there_are() -> None:
    assert {check for one in ALL.needs for check in one.truth.checks} == CHECKS.keys() - UNASKED
    assert all(one.truth.names <= load_site().hosts.keys() for one in ALL.needs)


def test_each_cause_is_one_of_four_known_ones_and_its_place_tells_nothing() -> None:
    for one in ALL.attributions:
        assert set(one.given.options) | set(one.truth.also) <= LEAVES.keys(), one.id
        assert len(set(one.given.options)) == 4, one.id
        assert one.truth.label in one.given.options, one.id
        assert not set(one.truth.also) & set(one.given.options), one.id
        assert TAXONOMY.get_title(one.truth.label).lower() not in one.text.lower(), one.id
    places = Counter(options_of(one).index(one.truth.label) for one in ALL.attributions)
    assert max(places.values()) < len(ALL.attributions) * 0.4
    assert max(Counter(one.truth.label for one in ALL.attributions).values()) <= 3


@pytest.mark.parametrize("one", ALL.sentences, ids=[one.id for one in ALL.sentences])
def test_every_sentence_can_be_drafted_and_what_is_shown_is_not_what_is_tried(one: Sentence) -> None:
    check = drafted(one, as_text(one, one.truth.reference))
    assert not isinstance(check, str), check
    assert all(finds(one, check, hidden) for hidden in one.truth.hidden)
    assert one.given.shown not in {hidden.output for hidden in one.truth.hidden}
    wrong = one.truth.hidden[0].model_copy(update={"facts": (*one.truth.hidden[0].facts, Value(value="more"))})
    assert not finds(one, check, wrong)


def test_no_prompt_depends_on_what_is_true() -> None:
    tables: tuple[Sequence[Any], ...] = (ALL.extractions, ALL.needs, ALL.sentences, ALL.attributions)
    for table in tables:
        for one, other in zip(table, (*table[1:], table[0]), strict=True):
            assert put_of(one, known()) == put_of(one.model_copy(update={"truth": other.truth}), known()), one.id


def test_rackmedic_reads_no_truth_either() -> None:
    message, need, sentence = ALL.extractions[0], ALL.needs[0], ALL.sentences[0]
    assert extract(message, known()) == extract(message.model_copy(update={"truth": ALL.extractions[8].truth}), known())
    assert look(need, known()) == look(need.model_copy(update={"truth": ALL.needs[8].truth}), known())
    assert draft(sentence) == draft(sentence.model_copy(update={"truth": ALL.sentences[8].truth}))


# --- marks -----------------------------------------------------------------------------------------------------------------------------------


def test_a_message_is_right_when_all_of_it_is() -> None:
    first, other = ALL.extractions[0], ALL.extractions[3]
    right = Extracted(first.truth.names, first.truth.port, first.truth.job, first.truth.act)
    found = metric_a([first, other], {first.id: right, other.id: Extracted(other.truth.names, "gpu4", act=other.truth.act)})
    assert {name: row["right"] for name, row in found.items()} == {"all": 1, "hosts": 2, "port": 1, "job": 2, "act": 2}
    assert metric_a([first, other], {first.id: right})["all"]["of"] == 1, "what nobody answered is not counted"


def test_a_look_needs_its_hosts_and_the_device_that_was_named() -> None:
    need = next(one for one in ALL.needs if one.truth.device)
    whole = Look(need.truth.checks[0], need.truth.names, need.truth.device)

    def right(answer: Look) -> int:
        answers = Answers(looks={need.id: answer})
        return int(metric_b([need], [], answers)["look"]["right"])

    assert right(whole) == 1
    assert right(Look("smi", whole.hosts, whole.device)) == 0
    assert right(Look(whole.check, whole.hosts | {"gpu-001"}, whole.device)) == 0
    assert right(Look(whole.check, whole.hosts, "gpu7")) == 0


def test_a_draft_is_refused_for_what_the_product_refuses_and_wrong_where_it_knows_only_what_was_shown() -> None:
    one = next(one for one in ALL.sentences if one.id == "b41")
    good = as_text(one, one.truth.reference)

    def marks(text: str) -> tuple[int, int]:
        found = metric_b([], [one], Answers(drafts={one.id: text}))
        return found["draft_valid"]["right"], found["draft"]["right"]

    assert marks(good) == (1, 1)
    assert marks(good.replace("cat", "rm")) == (0, 0)
    assert marks(good.replace("mlx5_0", "mlx5_1")) == (0, 0), "the command was given"
    assert marks("I would run cat.") == (0, 0)
    assert marks("") == (0, 0)
    only_shown = {"facts": [{"key": one.given.key, "kind": "float", "regex": "^(?P<value>400) Gb"}]}
    assert marks(as_text(one, only_shown)) == (1, 0)
    endless = {"facts": [{"key": one.given.key, "kind": "float", "regex": "^(?:[0-9]+)+ Gb"}]}
    assert marks(as_text(one, endless)) == (0, 0)
    never_wrong = {"facts": [{key: value for key, value in one.truth.reference["facts"][0].items() if key != "wrong_when"}]}
    assert marks(as_text(one, never_wrong)) == (1, 0), "the sentence says when it is wrong"


def test_causes_are_marked_by_choice_and_openly_by_level() -> None:
    one = next(one for one in ALL.attributions if one.truth.also and not one.given.quotes)
    near = next(label for label in LEAVES if label.partition(".")[0] == one.truth.label.partition(".")[0] and label != one.truth.label)
    found = metric_c([one], {one.id: Attributed((near, "USER.CODE.Device_Assert", one.truth.label), one.truth.label)})
    assert [found[name]["right"] for name in ("choice", "choice_plain", "level_1", "level_3", "level_3_in_first_3")] == [1, 1, 1, 0, 1]
    also = metric_c([one], {one.id: Attributed((one.truth.also[0],), "GPU.MEMORY.Fragmentation")})
    assert (also["level_3"]["right"], also["choice"]["right"]) == (1, 0)


# --- answers
# ---------------------------------------------------------------------------------------------------------------------------------


def test_without_a_model_rackmedic_reads_messages_and_reports_and_drafts_nothing_from_a_sentence() -> None:
    found = figures(ALL, without_model(ALL, known()))
    assert found["A"]["hosts"]["value"] > 0.75
    assert found["A"]["job"]["value"] > 0.9
    assert found["A"]["act"]["value"] > 0.8
    assert found["C"]["choice"]["value"] > 0.8
    assert found["C"]["level_3"]["value"] > 0.7
    assert found["B"]["look_hosts"]["value"] > 0.9
    assert (found["B"]["draft_valid"]["value"], found["B"]["draft"]["value"]) == (1.0, 0.0)
    words = figures(ALL, by_words(ALL, known()))
    assert words["B"]["look_check"]["value"] > 2 / len(CHECKS), "words of the need lead to more looks than chance does"
    assert not words["A"]


class Saying:
    """A model with a fixed answer per question kind; the first `silent` questions fail."""

    model = "a-model"

    def __init__(self, says: Mapping[str, str], silent: int = 0) -> None:
        self.says, self.silent, self.asked = says, silent, list[str]()

    async def ask(self, asked: ModelQuestion, name: str, schema: Mapping[str, Any]) -> ModelReply | EndpointFailure:
        self.asked.append(name)
        if len(self.asked) <= self.silent or name not in self.says:
            return EndpointFailure("nobody is there")
        return ModelReply(self.says[name], 10, 5)

    async def aclose(self) -> None:
        pass


EMPTY_READING = '{"symptoms": [], "hosts": [], "job": "", "times": [], "signatures": [], "category": "GPU", "causes": [], "outside": ""}'
SAYS = {
    "read": EMPTY_READING,
    "intent": '{"intent": "not_understood", "hosts": [], "labels": [], "check": "", "remedy": ""}',
    "extract": '{"hosts": ["gpu-001", "gpu-002", "gpu-003", "gpu-004"], "port": "", "job": "4711", "act": "yes"}',
    "look": '{"look": "ibstat  Are all ports up?", "hosts": ["gpu-004", "gpu-005"], "device": ""}',
    "draft": json.dumps({"yaml": as_text(ALL.sentences[0], ALL.sentences[0].truth.reference)}),
    "choose": json.dumps({"cause": ALL.attributions[0].truth.label}),
}


async def test_a_model_that_says_nothing_takes_nothing_from_rackmedic_and_one_asked_directly_is_marked_by_itself() -> None:
    arms = await by_model(few(), known(), Saying(SAYS))
    rules = figures(few(), without_model(few(), known()))
    assert {name: arms["with_model"][name] for name in "ABC"} == rules
    asked = arms["model"]
    assert (asked["A"]["all"]["right"], asked["B"]["look"]["right"], asked["B"]["draft"]["right"], asked["C"]["choice"]["right"]) == (
        1,
        1,
        1,
        1,
    )
    assert (asked["C"]["level_3"]["right"], asked["unanswered"]) == (0, 0)


async def test_an_unusable_answer_is_wrong_and_one_that_nobody_gave_is_not_counted() -> None:
    arms = await by_model(few(1), known(), Saying(dict.fromkeys(SAYS, "I cannot say.")))
    assert [arms["model"][metric][name]["value"] for metric, name in (("A", "all"), ("B", "both"), ("C", "choice"), ("C", "level_3"))] == [
        0,
        0,
        0,
        0,
    ]
    nobody = await by_model(few(1), known(), Saying({}))
    assert (nobody["model"]["A"], nobody["model"]["B"], nobody["model"]["C"]) == ({}, {}, {})
    assert nobody["model"]["unanswered"] == nobody["model"]["calls"] > 0


async def test_what_was_not_answered_is_asked_again_and_what_is_recorded_is_not(tmp_path: Path) -> None:
    tape, said = tmp_path / "tape.jsonl", list[str]()
    model = Saying(SAYS, silent=4)
    arms = await ask_all(few(), known(), model, tape, "", said.append)
    assert (arms["model"]["unanswered"], said[-1]) == (0, "0 call(s) without an answer")
    asked = len(model.asked)
    again = await ask_all(few(), known(), model, tape, "", said.append)
    assert again == arms
    assert len(model.asked) == asked
    dead = Saying({})
    await ask_all(few(1), known(), dead, tmp_path / "other.jsonl", "", said.append)
    assert len(said) == 5, "one pass more showed that nobody answers"


def test_figures_of_older_prompts_are_marked_and_todays_go_before_them(tmp_path: Path) -> None:
    arm = asyncio.run(by_model(few(), known(), Saying(SAYS)))["model"]
    older = best({**arm, "unanswered": 3}, arm)
    assert older["older"]
    assert best(arm, older) == arm
    assert "not_run" in best(None, None)
    path = tmp_path / "kept.json"
    assert kept(path) is None
    keep({"arms": {"model": arm, "with_model": best(None, None)}}, "Answered once.", path)
    back = kept(path) or {}
    assert (back["made"], list(back["arms"])) == ("Answered once.", ["model"])
    rules = figures(few(), without_model(few(), known()))
    doc = {
        "counts": {"A": 2, "B": 4, "C": 2},
        "made": back["made"],
        "arms": {"rules": rules, "words": {}, "with_model": older, "model": older},
    }
    text = section({"questions": doc})
    assert "Answered once. **Older prompts" in text
    assert "| **RackMedic without a model** |" in text
    assert "| Mistral-120B, published | none; given away: steps written beforehand | 0.74 | 0.77 | 0.82 |" in text
    assert section({}) == ""


def test_options_that_cannot_be_followed_are_refused(tmp_path: Path) -> None:
    settings = Settings.model_validate({})
    with pytest.raises(Refusal, match="name one"):
        ask_questions(settings, tmp_path / "a", tmp_path / "b", None, print)
    with pytest.raises(Refusal, match="no such recording"):
        ask_questions(settings, None, tmp_path / "b", None, print)
    with pytest.raises(Refusal, match="no model to record"):
        ask_questions(settings, tmp_path / "a", None, None, print)
