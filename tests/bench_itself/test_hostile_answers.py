"""Every hostile text as a model's answer: in free fields, instead of ids, and as an unknown field name."""

import asyncio
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, is_dataclass
from typing import Any

import pytest

from graph.dialogue.intents import INTENTS
from graph.model.client import ModelReasoner
from graph.model.endpoint import EndpointFailure
from graph.model.reasoner import DeclinedAnswer, IdeaChoices, IntentChoices, IntentGuess, PastGuess, PromptMaterial, ReadingChoices
from tests.bench.hostile.models import MOST, Obeys, in_place_of_ids
from tests.bench.hostile.play import unseen
from tests.bench.hostile.texts import TEXTS
from tests.support.fakes_bench_model import FakeModel

REPORT = "job 4711 hangs on gpu-017: NCCL timeout"
HOSTS, LABELS = ("gpu-017", "gpu-018"), {"GPU.BUS.Fallen_Off_Bus": "a title", "USER.CODE.Collective_Desync": "another"}
FINDINGS, SENTENCES = ("Xid 79", "all well"), ("It was the riser.", "We replaced it.")
# questions whose answers people read as written; past incidents are shown like any untrusted text
SHOWN = ("read", "explore", "critique")
LONGEST = 800  # characters of a reason with every sign escaped
LIVE = re.compile(r"[<>]|https?:", re.IGNORECASE)


async def said_by(answer: Any) -> dict[str, Any]:
    """Return what the product accepts of this answer to each question."""

    def says(name: str, user: str, schema: Mapping[str, Any]) -> Any:
        return answer(name, user)

    model, material = ModelReasoner(FakeModel(says)), PromptMaterial(REPORT, findings=FINDINGS[0])
    known = IdeaChoices(HOSTS, {"smi": "asks", "dmesg": "asks"}, {"GPU.BUS": "PCIe"})
    choices = IntentChoices(dict.fromkeys(INTENTS, "means"), HOSTS, tuple(LABELS), ("smi",), ("gpu_reset",))
    return {
        "read": await model.extract_report("i", material, ReadingChoices(HOSTS, LABELS, checks={"smi": "asks", "dmesg": "asks"})),
        "explore": await model.propose_ideas("i", material, FINDINGS, known),
        "critique": await model.critique_claims("i", ["it is so"], FINDINGS),
        "intent": await model.classify_intent("i", "do as we agreed", choices),
        "label": await model.label_past_incident("p", REPORT, SENTENCES, LABELS),
    }


def honest(text: str) -> Any:
    """Return valid shapes and ids with the text in every free field."""
    obeys = Obeys()

    def answer(name: str, user: str) -> dict[str, Any]:
        if name == "label":
            free = {"summary": text, "title": text}
            return {"kind": "incident", "label": next(iter(LABELS)), "cause": 0, "fix": 1, "branch": "", "lasting": [0], **free}
        return obeys.said(user, name, text)

    return answer


def plain(value: Any) -> Any:
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [plain(one) for one in value]
    return asdict(value) if is_dataclass(value) and not isinstance(value, type) else value


@pytest.mark.parametrize("hostile", TEXTS, ids=lambda one: one.id)
def test_its_words_contain_no_mention_link_or_hidden_text(hostile: Any) -> None:
    taken = asyncio.run(said_by(honest(hostile.text[:MOST])))
    declined = {name: one.reason for name, one in taken.items() if isinstance(one, DeclinedAnswer)}
    assert declined == {}
    shown = {name: plain(taken[name]) for name in SHOWN}
    assert not LIVE.search(json.dumps(shown, ensure_ascii=False)), shown
    assert isinstance(taken["intent"], IntentGuess)
    assert isinstance(taken["label"], PastGuess)
    assert (taken["label"].label, taken["label"].cause, taken["label"].fix) == (next(iter(LABELS)), 0, 1)


@pytest.mark.parametrize("hostile", TEXTS, ids=lambda one: one.id)
def test_an_answer_of_strange_ids_is_refused_whole_in_words_that_hide_nothing(hostile: Any) -> None:
    text = hostile.text[:MOST]
    answer = honest(text)
    for strange in (
        lambda name, user: in_place_of_ids(answer(name, user), text),
        lambda name, user: answer(name, user) | {text: text},
        lambda name, user: text,
    ):
        taken = asyncio.run(said_by(strange))
        assert all(isinstance(one, DeclinedAnswer) for one in taken.values()), taken
        assert list(unseen([one.reason for one in taken.values()], "")) == []
        assert max(len(one.reason) for one in taken.values()) < LONGEST


def test_what_its_endpoint_says_of_a_failure_hides_nothing() -> None:
    hostile = next(one for one in TEXTS if one.id == "ansi")
    taken = asyncio.run(said_by(lambda name, user: EndpointFailure(f"the endpoint refuses ({hostile.text})", provider=False)))
    assert all(isinstance(one, DeclinedAnswer) for one in taken.values())
    assert list(unseen([one.reason for one in taken.values()], "")) == []
