"""A guide continues after its exclusive checks were approved; each is a card requested by the person who started the
guide.
"""

from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any, cast

import pytest
from fakeredis import FakeAsyncRedis
from redis.asyncio import Redis

from graph.dialogue.intents import Intent
from graph.dialogue.said import ParsedMessage
from graph.report import Report
from graph.state import InboxItem
from kb.guides.guide import Guide, GuideStep
from tests.support.fakes_actions import ANN, BOB, Office, Site, well
from tests.support.fakes_graph import fact
from tools.ledger.record import OwnRequest

PLAN = Guide(
    "load",
    "Under load",
    (
        GuideStep("alone", look=("nccl1",), approve=True),
        GuideStep("more", after=("alone",), look=("nccl1",), approve=True),
        GuideStep("pause", after=("more",), wait=timedelta(seconds=60)),
        GuideStep("sign", after=("more",), ask="Sign."),
    ),
)


@pytest.fixture
async def store() -> AsyncIterator[Redis]:
    async with FakeAsyncRedis() as redis:
        yield redis


def marks(state: Any) -> dict[str, str]:
    report = Report.model_validate(state["report"])
    assert report.guide
    return {row.id: row.mark for row in report.guide.steps}


async def calls(office: Office, incident: str, name: str) -> dict[str, str]:
    """Return the steps' states after the guide was started."""
    said = ParsedMessage(intent=Intent.RUN_GUIDE, guide="load", hosts=("n2",))
    office.clock.go(seconds=30)
    row = InboxItem(id=name, kind=said.kind, incident=incident, at=office.clock.now(), user="ANN", data=said.build_item_data())
    await office.inbox.enqueue(row, name)
    await office.turns_of(incident)
    await office.settle(incident)
    return marks(await office.turns.load_state(incident))


async def begun(store: Redis) -> tuple[Office, str]:
    office = Office(store, Site(facts=well("n1", "n2", "n3", "n4", "m1", "m2", "ctl")))
    cast("dict[str, Guide]", office.ports.guides)["load"] = PLAN
    incident = await office.mention()
    assert await calls(office, incident, "called") == {"alone": "waiting", "more": "later", "pause": "later", "sign": "later"}
    return office, incident


async def test_what_was_approved_and_answered_moves_the_guide_on(store: Redis) -> None:
    office, incident = await begun(store)
    card = next(row for row in await office.pending(incident) if row.action.remedy == "run_check")
    assert (card.action.target, card.action.args, card.action.requested_by) == ("n2", {"check": "nccl1"}, ANN)
    with pytest.raises(OwnRequest):
        await office.click(card, ANN)
    office.site.facts.append(fact("n2", "nccl1", "nccl.busbw_max", 400.0))
    await office.click(card, BOB)
    await office.settle(incident)
    assert marks(await office.turns.load_state(incident)) == {"alone": "done", "more": "done", "pause": "waiting", "sign": "people"}


async def test_a_look_that_was_approved_and_did_not_answer_is_left_to_people(store: Redis) -> None:
    office, incident = await begun(store)
    card = next(row for row in await office.pending(incident) if row.action.remedy == "run_check")
    await office.click(card, BOB)
    await office.settle(incident)
    assert await calls(office, incident, "again") == {"alone": "people", "more": "people", "pause": "waiting", "sign": "people"}
    assert await office.pending(incident) == [], "nothing is put up twice"
