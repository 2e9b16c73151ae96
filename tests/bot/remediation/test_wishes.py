"""Actions requested in words become cards that the requester may not approve; returning a held node needs a fresh look."""

from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest
from fakeredis import FakeAsyncRedis
from redis.asyncio import Redis

from bot.remediation.approval_decisions import DecisionLookup
from graph.dialogue.intents import Intent
from graph.dialogue.said import ParsedMessage
from graph.incident.answers.remedy_requests import NO_CARD_PREFIX
from graph.state import InboxItem
from tests.support.fakes_actions import ANN, BOB, Office, Site, hung, well
from tools.ledger.refusals import OwnRequest
from tools.ledger.states import State

HOSTS = ("n1", "n2", "n3", "n4", "m1", "m2", "ctl")


@pytest.fixture
async def store() -> AsyncIterator[Redis]:
    async with FakeAsyncRedis() as redis:
        yield redis


def site() -> Site:
    made = Site(facts=well(*HOSTS))
    made.sick(hung("n1"))
    return made


async def says(office: Office, incident: str, user: str, intent: Intent, **named: Any) -> str:
    """Send a message with this intent, propose what it requests and return the answer."""
    said = ParsedMessage(intent=intent, **named)
    office.clock.go(seconds=30)
    name = f"{user}-{intent}-{office.clock.now().isoformat()}"
    row = {"id": name, "kind": said.kind, "incident": incident, "at": office.clock.now(), "user": user, "data": said.build_item_data()}
    await office.inbox.enqueue(InboxItem.model_validate(row), name)
    await office.turns_of(incident)
    answer = (await office.turns.load_state(incident))["report"]["reply"]
    await office.settle(incident)
    return str(answer)


async def test_a_drain_wished_for_again_is_a_new_card_that_its_wisher_may_not_approve(store: Redis) -> None:
    office = Office(store, site())
    incident = await office.mention()
    await says(office, incident, "ANN", Intent.STOP)
    assert await office.pending(incident) == []
    assert (await says(office, incident, "ANN", Intent.WISH_REMEDY, remedy="drain_node", hosts=("n1",))).startswith(
        "Proposed again: Drain n1."
    )
    (card,) = await office.pending(incident)
    assert card.action.fault is not None
    with pytest.raises(OwnRequest):
        await office.click(card, ANN)
    await office.click(card, BOB)
    await office.settle(incident)
    assert (await office.ledger.get_record(card.approval)).state is State.DONE


async def test_a_test_wished_for_is_a_card_of_the_wisher(store: Redis) -> None:
    office = Office(store, site())
    incident = await office.mention()
    await says(office, incident, "ANN", Intent.RUN_CHECK, check="nccl1", hosts=("n2",))
    card = next(row for row in await office.pending(incident) if row.action.remedy == "run_check")
    assert (card.action.target, card.action.requested_by) == ("n2", ANN)


async def test_no_card_is_made_for_what_no_cause_asks_for(store: Redis) -> None:
    office = Office(store, site())
    incident = await office.mention()
    before = await office.pending(incident)
    answer = await says(office, incident, "ANN", Intent.WISH_REMEDY, remedy="reboot", hosts=("n2",))
    assert answer.startswith(NO_CARD_PREFIX)
    assert "n2" in answer
    assert await office.pending(incident) == before


async def test_a_typed_approval_approves_nothing(store: Redis) -> None:
    office = Office(store, site())
    incident = await office.mention()
    (card,) = await office.pending(incident)
    await says(office, incident, "ANN", Intent.TYPED_APPROVAL)
    assert (await office.ledger.get_record(card.approval)).votes == ()


async def test_another_cause_by_a_persons_word_takes_the_card_back(store: Redis) -> None:
    office = Office(store, site())
    incident = await office.mention()
    (card,) = await office.pending(incident)
    await says(office, incident, "BOB", Intent.CORRECT, labels=("USER.CODE.Desync",))
    assert (await office.ledger.get_record(card.approval)).state is State.SUPERSEDED


async def test_closing_in_words_takes_every_card_back(store: Redis) -> None:
    office = Office(store, site())
    incident = await office.mention()
    (card,) = await office.pending(incident)
    assert (await says(office, incident, "BOB", Intent.CLOSE)).startswith("Closed: ")
    assert (await office.ledger.get_record(card.approval)).state is not State.PENDING


async def test_a_node_that_we_hold_is_asked_back_in_words_and_looked_at_first(store: Redis) -> None:
    office = Office(store, site())
    incident = await office.mention()
    await office.approve(incident, "drain_node")
    await says(office, incident, "ANN", Intent.STOP)
    answer = await says(office, incident, "ANN", Intent.UNDO, hosts=("n1",))
    assert answer.startswith("I check n1 again")
    assert [row.action.remedy for row in await office.pending(incident)] == []  # its fault is there still
    assert (await office.ladders(incident))[0]["drained"] is True


async def test_who_may_decide_is_told_by_name_with_how_many_and_until_when(store: Redis) -> None:
    office = Office(store, site())
    incident = await office.mention()
    (one,) = await DecisionLookup(office.ledger, office.rights)(incident)
    assert (one.approvers, one.quorum, one.approved_by) == (("ANN", "BOB", "CID"), 1, ())
    assert one.does.startswith("Drain n1")
    assert one.until is not None
    assert one.until - office.clock.now() <= timedelta(minutes=15)


async def test_who_approved_is_told_by_name_and_time_after_the_decision(store: Redis) -> None:
    office = Office(store, site())
    incident = await office.mention()
    before = office.clock.now()
    await office.approve(incident, "drain_node")
    (drain,) = [row for row in await DecisionLookup(office.ledger, office.rights)(incident) if not row.open]
    assert drain.does.startswith("Drain n1")
    assert drain.approved_by
    assert drain.approvers == ()
    assert drain.approved_at is not None
    assert drain.approved_at >= before
