"""Returning a held node from the thread or the Home tab: only permitted people may ask, and the answer is one line."""

from collections.abc import AsyncIterator
from typing import Any, cast

import pytest

from bot.cards.buttons import OldButton
from bot.incidents.cards import diagnosis, report_rows
from bot.slack.client import post_message
from graph.incident_view import serialize_remediations
from graph.report import Report, ReturnableNode
from graph.state import IncidentState, Remediation
from tests.support.clock import T0
from tests.support.fakes_approvals import Ward, ward
from tests.support.fakes_bot import OPS


@pytest.fixture
async def place() -> AsyncIterator[Ward]:
    async with ward() as made:
        yield made


def holding(place: Ward, *ladders: str, **more: Any) -> None:
    """Let the incident hold a node for each remediation."""
    rows = [
        Remediation(id=name, label="GPU.BUS.Fell_Off", target=f"gpu-01{n}", drained=True, drained_at=T0, drained_by="Priya", **more)
        for n, name in enumerate(ladders)
    ]
    place.bot.states[place.incident] = cast(IncidentState, {"id": place.incident, "ladders": serialize_remediations(rows)})


async def answered(place: Ward, channel: str = OPS, *ladders: str) -> str:
    """Post a status answer that offers these nodes and return its ts."""
    nodes = tuple(ReturnableNode(ladder=name, host="gpu-017") for name in ladders or ("gone",))
    report = Report(item="a", outcome="diagnosed", reply="Held:\n  gpu-017: drained by RackMedic", held=nodes)
    return await post_message(place.bot.context.client, channel, place.thread, diagnosis.render_diagnosis(place.incident, report)) or ""


async def home_of(place: Ward, user: str) -> dict[str, Any]:
    await place.bot.slack.open_home(user)
    await place.bot.settled()
    return cast(dict[str, Any], place.bot.slack.home(user))


async def test_who_asks_in_the_thread_is_told_what_the_look_showed(place: Ward) -> None:
    await place.ask()
    for ladder, says in (("l1", "the fault is there: Xid 119 on gpu3"), ("gone", "its return to service waits for approval")):
        ts = await answered(place, OPS, ladder)
        await place.bot.slack.click("olga", ts, report_rows.ASK_RETURN_ACTION_ID)
        await place.bot.settled()
        assert says in place.whispered("olga")


async def test_one_who_may_not_speak_here_asks_for_nothing(place: Ward) -> None:
    await place.ask()
    ts = await answered(place)
    await place.bot.slack.click("gus", ts, report_rows.ASK_RETURN_ACTION_ID)
    await place.bot.settled()
    assert "full members" in place.whispered("gus")
    assert "waits for approval" not in place.whispered("gus")


async def test_a_button_counts_in_the_thread_of_its_incident_only(place: Ward) -> None:
    other = await place.bot.slack.say("olga", OPS, "@rackmedic job 4712 hangs on gpu-018")
    await place.bot.settled()
    report = Report(item="a", outcome="diagnosed", reply="Held:", held=(ReturnableNode(ladder="gone", host="gpu-017"),))
    ts = await post_message(place.bot.context.client, OPS, other, diagnosis.render_diagnosis(place.incident, report)) or ""
    await place.bot.slack.click("olga", ts, report_rows.ASK_RETURN_ACTION_ID)
    await place.bot.settled()
    assert str(OldButton()) in place.whispered("olga")


async def test_home_lists_what_we_hold_and_says_there_what_became_of_a_press(place: Ward) -> None:
    holding(place, "l1", outcome="undecided", says="no decision in time", since=None, fault=None)
    before = str(await home_of(place, "olga"))
    assert "what was wrong is not noted" in before, "no button where nobody could look"
    assert report_rows.ASK_RETURN_ACTION_ID not in before


async def test_a_press_on_home_is_answered_on_home(place: Ward) -> None:
    await place.ask()
    rung = {"remedy": "resume_node", "args": {"node": "gpu-010"}, "part": "restore"}
    holding(place, "l1", outcome="undecided", says="no decision in time", since=T0, rungs=(rung,))
    view = await home_of(place, "olga")
    words = str(view)
    assert "drained by RackMedic since 2026-05-20 03:10 UTC, approved by Priya, for GPU fell off the bus; no decision in time" in words
    assert "hosts at once 0 of 1" in words
    await place.bot.slack.click_view("olga", view["id"], report_rows.ASK_RETURN_ACTION_ID)
    await place.bot.settled()
    assert "the fault is there: Xid 119 on gpu3" in str(place.bot.slack.home("olga"))
    assert place.whispered("olga") == ""


async def test_who_took_it_finds_it_under_mine(place: Ward) -> None:
    place.bot.states[place.incident] = cast(IncidentState, {"id": place.incident, "owner": "U0OLGA"})
    hers, priyas = [(await home_of(place, user))["blocks"] for user in ("olga", "priya")]
    assert str(hers).count(place.incident) == 2
    assert str(priyas).count(place.incident) == 1
