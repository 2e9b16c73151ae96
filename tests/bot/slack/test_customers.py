"""A customer's channel as people live it: reports, replies and clicks of theirs, and what our own people tell them."""

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest
from fakeredis import FakeAsyncRedis

from bot.cards.buttons import OldButton
from bot.cards.customers import inside, living
from bot.cards.customers.view import CustomerView
from bot.policy.channels import customers_channels
from bot.slack.context import Surface
from bot.slack.customers.door import CustomerDoor
from bot.slack.outgoing.customers import CustomerCards
from bot.slack.outgoing.posts import KeptMessages, PostedCards
from bot.slack.people import People
from bot.store.shared import SharedMarks
from graph.conversation.said import said_of
from graph.state import CUSTOMER, SIDE, Incident, Origin
from kb.customers.words import load_customer_words
from kb.taxonomy.reader import load_taxonomy
from tests.support.fakes_bot import ACME, OPS, TEAM, Behind, slack_side
from tests.support.inventories import inventory
from tools.inventory.hosts import ChannelRow

SITE = inventory(
    groups={"acme": {"hosts": "gpu-[017-018]", "tenant": "acme"}, "globex": {"hosts": "gpu-[019-020]", "tenant": "globex"}},
    channels=[
        {"channel": OPS, "kind": "operators", "approvers": "S0APPROVE"},
        {"channel": ACME, "kind": "tenant", "tenant": "acme", "internal": OPS, "language": "de"},
    ],
)
BOUND = {row.channel: row for row in SITE.channels}
REPORT = "@rackmedic job 4711 hangs on gpu-[017-018]"


def dress(surface: Surface, _: FakeAsyncRedis) -> Surface:
    return replace(surface, bound=BOUND, customers=customers_channels(BOUND))


def cards_of(surface: Surface, redis: FakeAsyncRedis) -> CustomerCards:
    words = load_customer_words(load_taxonomy())
    kept = KeptMessages(surface.client, PostedCards(redis), plans=False)
    cards = CustomerCards(surface.client, kept, surface.inbox, SITE, words, surface.bound, surface.people)
    cards.reads(state_of=surface.state_of)
    return cards


def door_of(surface: Surface, redis: FakeAsyncRedis) -> CustomerDoor:
    return CustomerDoor(surface, cards_of(surface, redis), SITE)


@pytest.fixture
async def bot() -> AsyncIterator[Behind]:
    async with slack_side(dress, door_of=door_of) as behind:
        yield behind


async def reported(bot: Behind, text: str = REPORT, who: str = "carla") -> tuple[str, str]:
    """An incident of a customer's: (its id, their thread)."""
    ts = await bot.slack.say(who, ACME, text)
    await bot.settled()
    incident = await bot.inbox.find(TEAM, ACME, ts)
    assert incident
    return incident, ts


async def begun(bot: Behind, incident: str) -> Origin:
    """Where the incident lives, as its first turn finds it."""
    [item] = (await bot.inbox.peek(incident))[:1]
    origin = await cards_of(bot.surface, bot.redis).home(item)
    assert origin
    return origin


def message_with(bot: Behind, channel: str, action: str) -> str:
    """The latest message there that has this button."""
    rows = [(row["ts"], block.get("elements", [])) for row in bot.slack.messages(channel) for block in row.get("blocks") or []]
    return [str(ts) for ts, elements in rows if any(element.get("action_id") == action for element in elements)][-1]


async def test_a_stranger_in_their_own_channel_opens_an_incident_that_lives_with_the_operators(bot: Behind) -> None:
    incident, ts = await reported(bot)
    [item] = await bot.items()
    assert (item.kind, item.text, item.user, item.data[SIDE]) == ("mention", "job 4711 hangs on gpu-[017-018]", "U0CARLA", CUSTOMER)
    origin = await bot.inbox.origin(incident)
    assert origin
    assert origin.customer
    assert (origin.channel, origin.thread_ts, origin.tenant) == (OPS, "", "acme")
    assert (origin.customer.channel, origin.customer.thread_ts, origin.customer.user_team) == (ACME, ts, "T0ACME")
    assert bot.woken == [incident]
    assert bot.news == []
    assert bot.texts(OPS) == []


async def test_they_are_answered_at_once_and_in_their_language(bot: Behind) -> None:
    await reported(bot)
    assert any("Ich sehe mir Ihre Maschinen an" in text for text in bot.texts(ACME))


async def test_the_internal_thread_is_begun_once_and_quotes_them(bot: Behind) -> None:
    incident, _ = await reported(bot)
    first, again = await begun(bot, incident), await begun(bot, incident)
    assert first == again
    assert await bot.inbox.find(TEAM, OPS, first.thread_ts) == incident
    assert len(bot.texts(OPS)) == 1
    assert "acme reports" in bot.texts(OPS)[0]


async def test_a_thread_that_was_begun_before_a_crash_is_found_and_not_begun_again(bot: Behind) -> None:
    incident, _ = await reported(bot)
    origin = await begun(bot, incident)
    cards = PostedCards(bot.redis)
    await cards.set(incident, "root", "posting")
    await bot.inbox.settle(incident, origin.model_copy(update={"thread_ts": ""}))
    assert (await begun(bot, incident)).thread_ts == origin.thread_ts
    assert len(bot.texts(OPS)) == 1


async def test_where_the_operators_channel_is_shared_by_now_nothing_of_a_customer_is_written_there(bot: Behind) -> None:
    incident, ts = await reported(bot)
    bot.slack.share(OPS)
    await begun(bot, incident)
    await bot.slack.say("carla", ACME, "@olga we lost job 4711 for good", thread_ts=ts)
    await bot.slack.say("carla", ACME, "@rackmedic and gpu-018 too", thread_ts=ts)
    await bot.settled()
    for item in await bot.inbox.peek(incident):
        await cards_of(bot.surface, bot.redis).home(item)
    assert not [text for text in bot.texts(OPS) if "4711" in text or "gpu-018" in text or "acme" in text]


async def test_what_they_reply_is_evidence_whatever_it_says(bot: Behind) -> None:
    incident, ts = await reported(bot)
    for words in ("drain gpu-017", "approve", "close, it was the cable", "recheck gpu-019", "@rackmedic I need a person"):
        await bot.slack.say("carla", ACME, f"@rackmedic {words}" if "@" not in words else words, thread_ts=ts)
        await bot.settled()
    items = (await bot.inbox.peek(incident))[1:]
    assert [item.kind for item in items] == ["recheck", "recheck", "hand_off"]
    assert {item.data[SIDE] for item in items} == {CUSTOMER}
    said = [row for item in items if (row := said_of(item))]
    assert {row.intent.value for row in said} <= {"new_facts", "fixed", "still_broken", "hand_off"}
    assert not [row for row in said if row.remedy or row.hosts]


@pytest.mark.parametrize(
    ("words", "answered"),
    [
        ("why?", "Ich sehe mir Ihre Maschinen an"),
        ("what about gpu-017?", "Ich sehe mir Ihre Maschinen an"),
        ("what about gpu-019?", "Eine solche Maschine von Ihnen kenne ich nicht: gpu-019"),
        ("what about gpu-099?", "Eine solche Maschine von Ihnen kenne ich nicht: gpu-099"),
        ("reboot gpu-017 please", "Nur unsere Leute ändern etwas an einer Maschine"),
        ("show me dmesg of gpu-017", "bleibt bei unseren Leuten"),
        ("help", "Sagen Sie, was wo nicht geht"),
    ],
)
async def test_what_they_ask_is_answered_and_looked_at_by_nobody(bot: Behind, words: str, answered: str) -> None:
    incident, ts = await reported(bot)
    await begun(bot, incident)
    before = len(bot.texts(ACME))
    await bot.slack.say("carla", ACME, f"@rackmedic {words}", thread_ts=ts)
    await bot.settled()
    assert len(await bot.inbox.peek(incident)) == 1
    assert any(answered in text for text in bot.texts(ACME)[before:])
    assert any(words in text for text in bot.texts(OPS))


@pytest.mark.parametrize("words", ["can I talk to a human?", "could I speak to a person please", "kann ich mit einem Menschen sprechen?"])
async def test_nearly_asking_for_a_person_gets_one(bot: Behind, words: str) -> None:
    incident, ts = await reported(bot)
    await bot.slack.say("carla", ACME, words, thread_ts=ts)
    await bot.settled()
    assert [item.kind for item in (await bot.inbox.peek(incident))[1:]] == ["hand_off"]


async def test_what_they_say_to_each_other_is_quoted_to_our_people_and_looked_at_by_nobody(bot: Behind) -> None:
    incident, ts = await reported(bot)
    await begun(bot, incident)
    await bot.slack.say("carla", ACME, "@olga lunch at noon?", thread_ts=ts)
    await bot.settled()
    assert len(await bot.inbox.peek(incident)) == 1
    assert any("lunch at noon" in text for text in bot.texts(OPS))


async def test_a_mention_that_says_nothing_is_told_what_to_say(bot: Behind) -> None:
    await bot.slack.say("carla", ACME, "@rackmedic hi")
    await bot.settled()
    assert await bot.items() == []
    assert any("Sagen Sie, was nicht geht" in text for text in bot.texts(ACME))


async def test_their_buttons_count_in_their_thread_and_for_anybody_who_is_in_it(bot: Behind) -> None:
    incident, _ = await reported(bot)
    bot.states[incident] = healthy(incident)
    await cards_of(bot.surface, bot.redis).paint(incident)
    card = message_with(bot, ACME, living.BROKEN)
    await bot.slack.click("carla", card, living.BROKEN)
    await bot.slack.click("carla", card, living.PERSON)
    await bot.settled()
    assert [item.kind for item in (await bot.inbox.peek(incident))[1:]] == ["recheck", "hand_off"]


async def test_a_button_of_another_thread_is_refused(bot: Behind) -> None:
    first, _ = await reported(bot)
    _, other_thread = await reported(bot, "@rackmedic job 4712 fails on gpu-017")
    button = living.render(CustomerView(first, "healthy")).blocks[-1]["elements"][0]
    carla = {"id": "U0CARLA", "team_id": "T0ACME"}
    payload = {"actions": [button], "channel": {"id": ACME}, "container": {"thread_ts": other_thread}, "user": carla, "trigger_id": "t"}
    with pytest.raises(OldButton):
        await door_of(bot.surface, bot.redis).press(payload)
    assert len(await bot.inbox.peek(first)) == 1


async def test_our_people_tell_them_something_and_slips_are_refused_by_name(bot: Behind) -> None:
    incident, _ = await reported(bot)
    origin = await begun(bot, incident)
    root = message_with(bot, OPS, inside.TELL)
    await bot.slack.click("olga", root, inside.TELL)
    await bot.settled()
    view = modal(bot)
    refused = await bot.slack.submit("olga", view, {inside.WORDS: {inside.WORDS: "globex on gpu-019 had it too, ask Priya"}})
    assert "another customer (globex)" in refused["errors"][inside.WORDS]
    assert "gpu-019" in refused["errors"][inside.WORDS]
    assert "priya" in refused["errors"][inside.WORDS].lower()
    assert not [text for text in bot.texts(ACME) if "globex" in text]
    assert await bot.slack.submit("olga", view, {inside.WORDS: {inside.WORDS: "gpu-017 is repaired."}}) == {}
    await bot.settled()
    assert any("gpu-017 is repaired." in text for text in bot.texts(ACME))
    assert origin.thread_ts


async def test_a_guest_in_our_own_channel_cannot_tell_a_customer_anything(bot: Behind) -> None:
    incident, _ = await reported(bot)
    await begun(bot, incident)
    await bot.slack.click("gus", message_with(bot, OPS, inside.TELL), inside.TELL)
    await bot.settled()
    assert bot.slack.view("gus") is None


async def test_without_an_internal_channel_nothing_is_taken() -> None:
    lone = ChannelRow(channel=ACME, kind="tenant", tenant="acme", internal="C0NOWHERE")
    async with slack_side(lambda surface, _: replace(surface, bound={ACME: lone}), door_of=door_of) as bot:
        await bot.slack.say("carla", ACME, REPORT)
        await bot.settled()
        assert await bot.items() == []
        assert any("do not answer in this channel yet" in text for text in bot.texts(ACME))


def healthy(incident: str) -> Incident:
    """A report of an incident in which nothing was found."""
    row: Any = {"id": incident, "report": {"item": "i", "outcome": "no_fault"}}
    return Incident(**row)  # type: ignore[typeddict-item]  # as read from the store


def modal(bot: Behind) -> str:
    """The id of the form that Olga has open."""
    view = bot.slack.view("olga")
    assert view
    return str(view["id"])


async def test_a_customers_direct_message_is_answered_with_where_to_go(bot: Behind) -> None:
    channel = bot.slack.dm("carla").id
    for words in ("job 4711 hangs", "status", "approvals"):
        await bot.slack.say("carla", channel, words)
        await bot.settled()
    said = [str(row["blocks"]) for row in bot.slack.messages(channel) if row.get("bot_id")]
    assert len(said) == 3
    assert all(ACME in text and OPS not in text for text in said)
    assert await bot.items() == []


async def test_strangers_are_told_of_no_channel_and_colleagues_of_ours(bot: Behind) -> None:
    for who, channels in {"stan": [], "olga": [OPS]}.items():
        place = bot.slack.dm(who).id
        await bot.slack.say(who, place, "job 4711 hangs")
        await bot.settled()
        [said] = [str(row["blocks"]) for row in bot.slack.messages(place) if row.get("bot_id")]
        assert [channel for channel in (OPS, ACME) if channel in said] == channels


async def test_a_tenant_of_our_own_workspace_is_sent_to_their_channel(bot: Behind) -> None:
    bot.slack.ws.channel(ACME).members.append("U0GUEST")
    bot.slack.ws.channel(OPS).members.remove("U0GUEST")
    place = bot.slack.dm("gus").id
    await bot.slack.say("gus", place, "job 4711 hangs")
    await bot.settled()
    [said] = [str(row["blocks"]) for row in bot.slack.messages(place) if row.get("bot_id")]
    assert ACME in said
    assert OPS not in said


async def test_one_of_ours_who_calls_in_a_customers_channel_is_told_whose_view_it_is(bot: Behind) -> None:
    incident, ts = await reported(bot, "@rackmedic job 4711 hangs on gpu-[017-019]", "olga")
    [whisper] = bot.slack.whispers("olga")
    assert "a channel of acme" in whisper["text"]
    assert not bot.slack.whispers("carla")
    assert "channel of acme" not in str([row for row in bot.slack.messages(ACME) if not row.get("is_ephemeral")])
    origin = await bot.inbox.origin(incident)
    assert origin
    assert (origin.tenant, origin.channel) == ("acme", OPS)
    await bot.slack.say("olga", ACME, "@rackmedic any news?", ts)
    await bot.settled()
    assert len(bot.slack.whispers("olga")) == 2


async def test_a_customers_own_mention_is_answered_without_such_a_line(bot: Behind) -> None:
    bot.slack.ws.channel(ACME).members.append("U0GUEST")
    for who in ("carla", "gus"):
        await reported(bot, who=who)
        assert not bot.slack.whispers(who)


async def test_a_channel_of_ours_that_turns_shared_stops_at_once_in_every_process(bot: Behind) -> None:
    elsewhere = People(bot.surface.client, marks=SharedMarks(bot.redis))
    assert not await elsewhere.shared(OPS)
    assert not await bot.surface.people.shared(OPS)
    bot.slack.share(OPS)
    await bot.settled()
    assert await bot.surface.people.shared(OPS)
    assert await elsewhere.shared(OPS)
    await bot.slack.say("olga", OPS, "@rackmedic job 4711 hangs on gpu-017")
    await bot.settled()
    assert await bot.items() == []
    bot.slack.unshare(OPS)
    await bot.settled()
    assert not await bot.surface.people.shared(OPS)


async def test_a_channel_that_one_of_two_organisations_left_is_still_shared(bot: Behind) -> None:
    bot.slack.share(OPS)
    bot.slack.share(OPS, "T0ACME")
    bot.slack.unshare(OPS)
    await bot.settled()
    assert await bot.surface.people.shared(OPS)


async def test_a_customers_channel_is_served_after_it_is_shared_no_more(bot: Behind) -> None:
    bot.slack.unshare(ACME, "T0ACME")
    bot.slack.ws.channel(ACME).members.append("U0GUEST")
    incident, _ = await reported(bot, who="gus")
    assert incident
