"""A paused incident sends no reminders until the pause ends; a card that expires meanwhile is reported once and then
proposed again.
"""

from collections.abc import AsyncIterator
from datetime import timedelta

import pytest
from fakeredis import FakeAsyncRedis
from redis.asyncio import Redis

from graph.dialogue.intents import Intent
from graph.dialogue.said import ParsedMessage
from graph.incident_view import IncidentView
from tests.support.fakes_actions import ANN, Office, Site, hung, well

HOSTS = ("n1", "n2", "n3", "n4", "m1", "m2", "ctl")


@pytest.fixture
async def store() -> AsyncIterator[Redis]:
    async with FakeAsyncRedis() as redis:
        yield redis


async def paused(store: Redis, minutes: float, intent: Intent = Intent.PAUSE) -> tuple[Office, str]:
    """Return an incident with a pending card that is paused or snoozed for `minutes`."""
    made = Site(facts=well(*HOSTS))
    made.sick(hung("n1"))
    office = Office(store, made)
    incident = await office.mention()
    said = ParsedMessage(intent=intent, at=office.clock.now() + timedelta(minutes=minutes))
    await office.say(incident, said.kind, data=said.build_item_data())
    assert IncidentView(await office.turns.load_state(incident)).is_muted(office.clock.now())
    return office, incident


async def after(office: Office, incident: str, minutes: float) -> list[str]:
    """Return what is shown after `minutes`."""
    office.clock.go(minutes=minutes)
    before = len(office.wall.news)
    await office.settle(incident)
    return [what for what, _ in office.wall.news[before:]]


@pytest.mark.parametrize("intent", [Intent.PAUSE, Intent.SNOOZE])
async def test_a_reminder_waits_for_the_end_of_the_pause(store: Redis, intent: Intent) -> None:
    office, incident = await paused(store, 12, intent)
    assert await after(office, incident, 11) == []
    assert await office.index.claim_due(timedelta()) == [], "nobody looks before that"
    office.clock.go(minutes=1.1)
    (card,) = await office.pending(incident)
    assert card.approval in await office.index.claim_due(timedelta())
    assert await after(office, incident, 0) == ["remind"]


@pytest.mark.parametrize("intent", [Intent.PAUSE, Intent.SNOOZE])
async def test_a_card_that_expires_meanwhile_is_told_once_and_put_up_again_when_the_pause_is_over(store: Redis, intent: Intent) -> None:
    office, incident = await paused(store, 60, intent)
    shown = await after(office, incident, 16)
    assert [what for what in shown if what.startswith("outcome")] == ["outcome expired"]
    assert "remind" not in shown
    assert "card" not in shown
    assert await office.pending(incident) == []
    assert await after(office, incident, 20) == []
    assert await after(office, incident, 25) == ["card"]


async def test_without_a_pause_it_is_put_up_again_at_once_and_reminded_of(store: Redis) -> None:
    made = Site(facts=well(*HOSTS))
    made.sick(hung("n1"))
    office = Office(store, made)
    incident = await office.mention()
    assert await after(office, incident, 11) == ["remind"]
    assert "card" in await after(office, incident, 5)


async def test_a_node_that_is_still_busy_or_away_is_not_told_before_the_end_of_the_pause(store: Redis) -> None:
    made = Site(facts=well(*HOSTS), busy={"n1"})
    made.sick(hung("n1"))
    office = Office(store, made)
    incident = await office.mention()
    await office.approve(incident, "drain_node", ANN)
    (waits,) = IncidentView(await office.turns.load_state(incident)).remediations
    assert waits.waiting_for == "idle"
    said = ParsedMessage(intent=Intent.PAUSE, at=office.clock.now() + timedelta(hours=30))
    await office.say(incident, said.kind, data=said.build_item_data())
    await after(office, incident, 25 * 60)
    assert "still not drained" not in IncidentView(await office.turns.load_state(incident)).remediations[0].says
    await after(office, incident, 6 * 60)
    assert "still not drained" in IncidentView(await office.turns.load_state(incident)).remediations[0].says
