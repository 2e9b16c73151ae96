"""A recorded model's readings are scored against the established causes and stay in the report after prompts change."""

from dataclasses import replace
from pathlib import Path

from graph.model.client import ModelReasoner
from graph.model.endpoint import EndpointFailure, ModelReply
from graph.model.prompts import ModelQuestion
from graph.model.reasoner import Idea, ReportExtraction
from graph.model.recording import RecordedEndpoint
from kb.taxonomy.loader import load_taxonomy
from tests.bench.model import scores
from tests.bench.published.incidents import Told
from tests.bench.published.read_texts import BUDGET, MODEL, Read, ideas_to_judge, read_all, score

TAXONOMY = load_taxonomy()
LEAF = "GPU.BUS.Fallen_Off_Bus"
TOLD = Told("one", "https://example.org/1", "GPU lost", "GPU has fallen off the bus, Xid 79", "GPU", LEAF)
UNKNOWN = Told("two", "https://example.org/2", "odd", "something odd happens", "OTHER", "")
IDEA = Idea("A loose riser", "It is loose.", quotes=("Xid 79",))


def reading(*causes: str, outside: str = "") -> ReportExtraction:
    return ReportExtraction(category="GPU", causes=tuple((label, 0.6) for label in causes), outside=outside)


def test_a_reading_is_right_by_category_leaf_and_by_saying_that_none_is_it() -> None:
    rows = [Read(TOLD, reading(LEAF), reading(outside="A riser."), (IDEA,)), Read(UNKNOWN, reading(outside="A ghost."), reading(), ())]
    found = score(rows, TAXONOMY, {"one": True, "two": False})
    assert (found["answered"], found["level_1"]["right"], found["level_3"]["right"]) == (2, 1, 1)
    assert found["true_cause_among_ideas"]["of"] == 1, "where no label was taken out there is nothing to find beyond"
    assert found["outside"] == {"of": 3, "precision": 1.0, "recall": 1.0, "f1": 1.0}
    wrong = score([replace(rows[0], without=reading("GPU.BUS.Not_Enumerated"))], TAXONOMY, {})
    assert (wrong["outside"]["precision"], wrong["outside"]["recall"]) == (None, 0.0)


def test_a_judge_is_shown_ideas_and_the_established_cause_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "one.yaml").write_text("id: one\nroot_cause: the riser was loose\ncategory: gpu\n")
    rows = ideas_to_judge([Read(TOLD, None, None, (IDEA,))], tmp_path)
    assert rows == [{"id": "one", "true_cause": "the riser was loose", "ideas": ["A loose riser: It is loose."]}]


class Answers:
    """A model that says "outside" to every text."""

    model = MODEL

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def ask(self, asked: ModelQuestion, name: str, schema: object) -> ModelReply | EndpointFailure:
        self.asked.append(name)
        if name == "explore":
            return ModelReply('{"ideas": [], "questions": ["Why?"]}', 10, 5)
        said = '{"symptoms": [], "hosts": [], "job": "", "times": [], "signatures": [], "category": "GPU", "causes": [], "outside": "A ghost."}'
        return ModelReply(said, 10, 5)

    async def aclose(self) -> None:
        pass


async def test_texts_are_read_from_a_recording_without_calls(tmp_path: Path) -> None:
    tape, model = tmp_path / "tape.jsonl", Answers()
    first = await read_all(ModelReasoner(RecordedEndpoint(model, MODEL, tape), budget=BUDGET), [TOLD], TAXONOMY)
    assert sorted(model.asked) == ["explore", "read", "read"]
    again = await read_all(ModelReasoner(RecordedEndpoint(None, MODEL, tape), budget=BUDGET), [TOLD], TAXONOMY)
    assert again == first
    [row] = again
    assert row.without is not None
    assert row.without.outside == "A ghost."
    other = await read_all(ModelReasoner(RecordedEndpoint(None, MODEL, tape), budget=BUDGET), [replace(TOLD, text="other words")], TAXONOMY)
    assert (other[0].whole, other[0].ideas) == (None, ())


def test_figures_of_older_prompts_stay_in_the_report_and_say_so(tmp_path: Path) -> None:
    texts, nothing = tmp_path / "texts.json", tmp_path / "none.json"
    assert scores.section(texts, nothing) == ""
    scores.keep(texts, {"level_1": {"right": 1, "of": 2, "value": 0.5, "ci95": [0.0, 1.0]}, "outside": _OUTSIDE}, "Recorded once.")
    assert "1/2 = 0.50 [0.00, 1.00]" in scores.section(texts, nothing)
    assert "Older prompts" not in scores.section(texts, nothing)
    texts.write_text(texts.read_text().replace(scores.prompts_digest(), "0123456789abcdef"))
    assert "Older prompts" in scores.section(texts, nothing)


_OUTSIDE = {"of": 3, "precision": 1.0, "recall": 0.5, "f1": 0.67}


def test_what_is_committed_is_of_todays_prompts_or_says_that_it_is_not() -> None:
    kept = [one for path in (scores.TEXTS, scores.CASES) if (one := scores.kept(path))]
    assert kept
    assert all(one["made"] for one in kept)
    older = any(one["prompts"] != scores.prompts_digest() for one in kept)
    assert ("Older prompts" in scores.section()) is older
