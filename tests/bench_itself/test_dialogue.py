"""Messages in threads: the files' format, the marks, and what a play reads from Slack, state and ledger."""

import asyncio
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import pytest
import yaml

from bot.refusal import Refusal
from graph.model.endpoint import ModelReply
from graph.model.prompts import ModelQuestion
from graph.state import IncidentState
from tests.bench.arms.arm import Cost
from tests.bench.dialogue.messages import Asked, Message, load_file, load_messages, load_situations
from tests.bench.dialogue.play import Aside, Moment, Played, list_acts, play
from tests.bench.dialogue.score import Marked, contains, mark, summarise, table
from tests.bench.loop.virtual_time import Leaping

EACH_HALF = 5  # messages of a role in a situation


def message(**fields: Any) -> Message:
    return Message.model_validate({"text": "hm?", "acts": ["none"], "silence_ok": False, **fields})


def asked(text: str, situation: str = "01", role: str = "oncall") -> Asked:
    return Asked.model_validate(
        {"situation": load_situations()[situation], "role": role, "message": message(text=text), "name": f"{situation}-{role}#1"}
    )


@pytest.mark.parametrize("held_out", [False, True])
def test_every_situation_has_its_messages(held_out: bool) -> None:
    there = Counter((row.situation.id, row.role) for row in load_messages(held_out=held_out))
    assert there == {(one.id, role): EACH_HALF for one in load_situations().values() for role in ("oncall", one.other)}


def test_no_message_is_in_both_halves() -> None:
    open_half, held_out = ({row.message.text.casefold() for row in load_messages(held_out=half)} for half in (False, True))
    assert open_half & held_out == set()


def test_twelve_faults_have_an_engineer_and_one_other_person_each() -> None:
    rows = load_situations().values()
    assert len({row.case["faults"][0]["id"] for row in rows}) == 12
    assert Counter(row.other for row in rows) == {"approver": 4, "customer": 4, "manager": 4}
    assert all(bool(row.customer_text) == (row.other == "customer") for row in rows)


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"acts": ["dance"]}, "there is no dance"),
        ({"acts": ["propose:magic"]}, "there is no propose:magic"),
        ({"acts": ["none", "take!"]}, "no room for none"),
        ({"acts": []}, "acts"),
        ({"must": [[]]}, "must.0"),
        ({"must": [["91"]], "must_not": ["91"]}, "both have 91"),
        ({"must_not": ["*"]}, "wants silence"),
        ({"by": "mallory"}, "there is no mallory"),
        ({"tone": "kind"}, "tone"),
    ],
)
def test_a_bad_message_is_refused_with_its_place(tmp_path: Path, fields: Mapping[str, Any], problem: str) -> None:
    row = {"text": "hm?", "acts": ["none"], "silence_ok": False, **fields}
    path = tmp_path / "01-oncall.yaml"
    path.write_text(yaml.safe_dump({"situation": "01", "role": "oncall", "messages": [row]}))
    with pytest.raises(Refusal, match=problem) as refused:
        load_file(path)
    assert str(refused.value).startswith(f"{path}: messages.0")


def test_numbers_times_and_words_of_a_file_stay_as_written(tmp_path: Path) -> None:
    path = tmp_path / "01-oncall.yaml"
    path.write_text("situation: 01\nrole: oncall\nmessages:\n- {text: no, must: [[02:56, 412]], acts: [none], silence_ok: true}\n")
    [row] = load_file(path).messages
    assert (row.text, row.must, row.silence_ok) == ("no", (("02:56", "412"),), True)


def test_a_file_of_another_name_is_refused(tmp_path: Path) -> None:
    (tmp_path / "02-customer.yaml").write_text("situation: '02'\nrole: customer\nmessages: []\n")
    with pytest.raises(Refusal, match="belong together"):
        load_messages(folder=tmp_path)


@pytest.mark.parametrize(
    ("answer", "word", "there"),
    [
        ("it takes 15 min", "15 min", True),
        ("it takes 15 min", "5 min", False),
        ("*gpu-013/gpu5* fell off", "gpu5", True),
        ("gpu-013", "gpu-01", False),
        ("62,474 MiB on `gpu6`", "62474", True),
        ("62474 MiB", "62,474", True),
        ("off by -412.4 s", "412.4 s", True),
        ("1.5 hours", "5 hours", False),
        ("a\u00a0reset: I don’t know", "i don't know", True),
        ("mlx5_2 lost its link", "mlx5_2", True),
        ("_inc-12 · Drain_", "drain", True),
        ("decide by <!date^1^{time}|03:25 UTC>", "03:25", True),
        ("at 91 °C", "91 °C", True),
        ("files: *.tmp", ".tmp", True),
        ("", "x", False),
    ],
)
def test_a_word_is_found_as_a_whole(answer: str, word: str, there: bool) -> None:
    assert contains(answer, word) is there


@pytest.mark.parametrize(
    ("fields", "played", "expected"),
    [
        ({"must": [["gpu5"], ["15 min", "quarter"]]}, Played("gpu5, a quarter of an hour"), "right"),
        ({"must": [["gpu5"], ["15 min"]]}, Played("gpu5, soon"), "so-so"),
        ({"must": [["gpu5"]]}, Played("a card"), "missed"),
        ({"must": [["gpu5"]]}, Played("", files="gpu5"), "silent"),
        ({}, Played("anything"), "right"),
        ({}, Played(" \n"), "silent"),
        ({"silence_ok": True, "must": [["gpu5"]]}, Played(""), "right"),
        ({"silence_ok": True, "must_not": ["*"]}, Played("hello"), "wrong"),
        ({"must": [["gpu5"]], "must_not": ["gpu4"]}, Played("gpu5 or gpu4"), "wrong"),
        ({"must_not": ["priya"]}, Played("see the file", files="owner: Priya"), "wrong"),
        ({}, Played("looked", ("recheck",)), "wrong"),
        ({"acts": ["recheck"]}, Played("looked", ("look:dmesg",)), "right"),
        ({"acts": ["none", "recheck"]}, Played("no"), "right"),
        ({"acts": ["recheck!"]}, Played("no"), "wrong"),
        ({"acts": ["look:dmesg"]}, Played("looked", ("look:smi",)), "wrong"),
        ({"acts": ["narrow!"]}, Played("looked", ("recheck", "narrow")), "right"),
        ({"acts": ["propose:*"]}, Played("card", ("look:smi", "propose:reboot")), "right"),
        ({"acts": ["propose:gpu_reset"]}, Played("card", ("propose:reboot",)), "wrong"),
        ({"acts": ["close!"], "silence_ok": True}, Played(""), "wrong"),
        ({"acts": ["close"]}, Played("done", ("close", "ran")), "wrong"),
    ],
)
def test_marks(fields: Mapping[str, Any], played: Played, expected: str) -> None:
    assert mark(message(**fields), played)[0] == expected


def test_the_summary_counts_by_role_and_situation_with_intervals() -> None:
    rows = [
        Marked(asked("a"), Played("x"), "right"),
        Marked(asked("b"), Played("x", ("take",)), "wrong", ("did take",)),
        Marked(asked("c", "02", "approver"), Played(""), "silent", ("nothing was said",)),
        Marked(asked("d", "02", "approver"), Played("x"), "wrong", ("did not recheck",)),
    ]
    summary = summarise(rows)
    assert {name: summary["all"][name] for name in ("n", "right", "wrong", "silent", "unasked_acts")} == {
        "n": 4,
        "right": 1,
        "wrong": 2,
        "silent": 1,
        "unasked_acts": 1,
    }
    assert summary["all"]["right_low"] < 0.25 < summary["all"]["right_high"]
    assert (summary["roles"]["oncall"]["right"], summary["situations"]["02"]["silent"]) == (1, 1)
    assert "| oncall | 1/2 = 0.50 [" in table(summary)
    assert "Model" not in table(summary)


def test_what_a_model_cost_and_left_unanswered_is_told() -> None:
    played = Played("x", cost=Cost(calls=3, usd=0.5), trouble="not recorded: question 1")
    row = Marked(asked("a"), played, "right")
    assert table(summarise([row])).endswith("Model: 3 calls, 0.50 USD, no answer to 1 messages.")
    assert (row.plain()["calls"], row.plain()["trouble"]) == (3, "not recorded: question 1")


def test_acts_are_read_from_the_stored_incident() -> None:
    hosts = {"brief": {"hosts": ["a", "b"]}}
    before = Moment(cast(IncidentState, {"lifecycle": "open", **hosts}))

    def acts(state: Mapping[str, Any], checks: set[str] = frozenset()) -> tuple[str, ...]:  # type: ignore[assignment]
        return list_acts(before, Moment(cast(IncidentState, {"lifecycle": "open", **hosts, **state})), set(checks))

    assert acts({}) == ()
    assert acts({}, {"smi"}) == ("look:smi",)
    assert acts({}, {"smi", "dmesg"}) == ("recheck",)
    assert acts({"owner": "U0OLGA"}) == ("take",)
    assert acts({"lifecycle": "closed"}) == ("close",)
    assert acts({"stopped": True}) == ("stop",)
    assert acts({"quiet_until": "2026-05-20T03:40:00Z"}) == ("pause",)
    assert acts({"lifecycle": "handed_off"}) == ("hand_off",)
    assert acts({"brief": {"hosts": ["a"]}}) == ("narrow",)
    assert acts({"brief": {"hosts": ["a", "b", "c"]}}) == ()
    assert list_acts(before, Moment(before.state, executions=1), set()) == ("ran",)


def test_talk_among_colleagues_causes_nothing() -> None:
    assert play(asked("@anton see you at lunch?")) == Played("")


def test_stop_is_played_as_in_slack() -> None:
    played = play(asked("stop"))
    assert played.acts == ("stop",)
    assert contains(played.answer, "stopped")


def test_a_customer_asks_in_the_shared_channel() -> None:
    played = play(asked("is it our code or your hardware?", "01", "customer"))
    assert played.acts == ()
    assert contains(played.answer, "gpu-013")
    assert not contains(f"{played.answer}{played.files}", "scontrol")


class Echo:
    """Answers with the question, after real time."""

    model = "echo"

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def ask(self, asked: ModelQuestion, name: str, schema: Mapping[str, Any]) -> ModelReply:
        await asyncio.sleep(0.05)
        self.asked.append(asked.user)
        return ModelReply(asked.user, 1, 1, "echo")

    async def aclose(self) -> None:
        pass


def test_a_model_is_asked_outside_virtual_time_with_steady_ids() -> None:
    async def ask(aside: Aside, incident: str) -> tuple[ModelReply, float]:
        loop = asyncio.get_running_loop()
        began = loop.time()
        late = asyncio.create_task(asyncio.sleep(3600))
        reply = await aside.ask(ModelQuestion("", f"{incident}, again _{incident}_"), "q", {})
        late.cancel()
        assert isinstance(reply, ModelReply)
        return reply, loop.time() - began

    inner = Echo()
    for incident in ("inc-0a1b2c", "inc-ffffff"):
        with Aside(inner) as aside, asyncio.Runner(loop_factory=Leaping) as runner:
            reply, took = runner.run(ask(aside, incident))
        assert reply.text == f"{incident}, again _{incident}_"
        assert took == 0
    assert inner.asked[0] == inner.asked[1]
