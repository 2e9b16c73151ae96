"""A tenant's channel: their reports, replies and clicks, and messages from our operators."""

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any, Literal

import pytest
from fakeredis import FakeAsyncRedis

from bot.cards.buttons import OldButton, encode_button_value
from bot.incidents.context import HandlerContext
from bot.incidents.dispatch.thread_activity import ThreadActivity
from bot.incidents.handlers.services import MessageServices, ReportWriter
from bot.policy.channels import NotAllowed, list_tenant_channels
from bot.reports.incident_sources import TenantReportContext
from bot.slack.payloads import parse_message
from bot.slack.people import People
from bot.slack.posted_messages import PostedCards
from bot.store.channel_sharing import ChannelSharingCache
from bot.tenants.cards import internal_thread, tenant_card
from bot.tenants.cards.phrases import get_phrase
from bot.tenants.cards.view import TenantView
from bot.tenants.handlers import WITHDRAWN_TEXT, TenantHandlers
from bot.tenants.tenant_cards import TenantCards
from bot.tenants.tenant_updates import TenantUpdateHandlers
from graph.closed_incidents import ClosedIncident, ClosedIncidentCause, ClosedIncidentMatches, ClosedIncidentQuery
from graph.dialogue.intents import Intent
from graph.dialogue.said import ParsedMessage, get_parsed_message
from graph.report import Report
from graph.state import SIDE_KEY, TENANT_SIDE, InboxItem, IncidentState, Origin, TenantThread
from kb.customers.cause_words import load_customer_words
from kb.taxonomy.loader import load_taxonomy
from tests.support.clock import T0, SetClock
from tests.support.fakes_bot import ACME, OPS, TEAM, Behind, Features, Parts, ReportRecorder, build_tenant_cards, slack_side
from tests.support.inventories import inventory
from tools.inventory.inventory import ChannelRow

pytestmark = pytest.mark.slow


german = partial(get_phrase, language="de")

SITE = inventory(
    groups={"acme": {"hosts": "gpu-[017-018]", "tenant": "acme"}, "globex": {"hosts": "gpu-[019-020]", "tenant": "globex"}},
    channels=[
        {"channel": OPS, "kind": "operators", "approvers": "S0APPROVE"},
        {"channel": ACME, "kind": "tenant", "tenant": "acme", "internal": OPS, "language": "de"},
    ],
)
BOUND = {row.channel: row for row in SITE.channels}
WORDS = load_customer_words(load_taxonomy())
REPORT = "@rackmedic job 4711 hangs on gpu-[017-018]"


def dress(context: HandlerContext, redis: FakeAsyncRedis) -> HandlerContext:
    return replace(context, channel_bindings=BOUND, tenant_channels=list_tenant_channels(BOUND))


def cards_of(context: HandlerContext, redis: FakeAsyncRedis) -> TenantCards:
    return build_tenant_cards(context, redis, SITE, WORDS, SetClock())


def door_of(messages: MessageServices, redis: FakeAsyncRedis, report_writer: ReportWriter | None = None) -> TenantHandlers:
    return TenantHandlers(messages, cards_of(messages.context, redis), SITE, report_writer or ReportRecorder())


def features_of(messages: MessageServices, redis: FakeAsyncRedis, report_writer: ReportWriter | None = None) -> Features:
    cards = cards_of(messages.context, redis)
    updates = TenantUpdateHandlers(messages.context, PostedCards(redis), SITE, cards.load_view)
    return Features(door_of(messages, redis, report_writer), tenant_updates=updates)


@pytest.fixture
async def bot() -> AsyncIterator[Behind]:
    async with slack_side(dress, features_of=features_of) as behind:
        yield behind


async def reported(bot: Behind, text: str = REPORT, who: str = "carla") -> tuple[str, str]:
    """Report an incident as a tenant; return (id, thread ts)."""
    ts = await bot.slack.say(who, ACME, text)
    await bot.settled()
    incident = await bot.inbox.find_incident(TEAM, ACME, ts)
    assert incident
    return incident, ts


async def begun(bot: Behind, incident: str) -> Origin:
    """Return the thread that the incident's first turn opens."""
    [item] = (await bot.inbox.list_waiting(incident))[:1]
    origin = await cards_of(bot.context, bot.redis).resolve_thread(item)
    assert origin
    return origin


def message_with(bot: Behind, channel: str, action: str) -> str:
    """Return the ts of the channel's latest message with this button."""
    rows = [(row["ts"], block.get("elements", [])) for row in bot.slack.messages(channel) for block in row.get("blocks") or []]
    return [str(ts) for ts, elements in rows if any(element.get("action_id") == action for element in elements)][-1]


def few_answers(context: HandlerContext, redis: FakeAsyncRedis) -> Parts:
    """Limit a thread to two answers in five minutes."""
    return Parts(thread_activity=ThreadActivity(redis, context.clock, max_answers=2))


@pytest.mark.parametrize(("words", "kinds"), [("hand off", ["hand_off"]), ("never mind", ["timer"])])
async def test_a_customer_at_the_limit_gets_a_person_and_withdraws_without_a_mention(words: str, kinds: list[str]) -> None:
    async with slack_side(dress, few_answers, features_of) as bot:
        incident, ts = await reported(bot)
        for n in range(4):
            await bot.slack.say("carla", ACME, f"gpu-017 shows Xid {n + 60} now", thread_ts=ts)
            await bot.settled()
        before = await bot.inbox.list_waiting(incident)
        enough = get_phrase("enough", BOUND[ACME].language)
        assert sum(str(row["text"]) == enough for row in bot.slack.thread(ACME, ts)) == 4 - (len(before) - 1)
        await bot.slack.say("carla", ACME, words, thread_ts=ts)
        await bot.settled()
        assert [item.kind for item in (await bot.inbox.list_waiting(incident))[len(before) :]] == kinds


async def test_a_stranger_in_their_own_channel_opens_an_incident_that_lives_with_the_operators(bot: Behind) -> None:
    incident, ts = await reported(bot)
    [item] = await bot.items()
    assert (item.kind, item.text, item.user, item.data[SIDE_KEY]) == ("mention", "job 4711 hangs on gpu-[017-018]", "U0CARLA", TENANT_SIDE)
    origin = await bot.inbox.get_origin(incident)
    assert origin
    assert origin.customer
    assert (origin.channel, origin.thread_ts, origin.tenant) == (OPS, "", "acme")
    assert (origin.customer.channel, origin.customer.thread_ts, origin.customer.user_team) == (ACME, ts, "T0ACME")
    assert bot.woken == [incident]
    assert bot.news == []
    assert bot.texts(OPS) == []


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("can I talk to a human please", "hand_off"),
        ("bitte einen echten Menschen", "hand_off"),
        ("get me an engineer", "hand_off"),
        ("get me an engineer, job 4711 hangs", "mention"),
        ("a human please, gpu-017 is slow", "mention"),
    ],
)
async def test_a_request_for_a_person_is_handed_off_without_a_look(bot: Behind, text: str, kind: str) -> None:
    await reported(bot, f"@rackmedic {text}")
    [item] = await bot.items()
    assert (item.kind, item.data[SIDE_KEY]) == (kind, TENANT_SIDE)


async def test_they_are_answered_at_once_and_in_their_language(bot: Behind) -> None:
    await reported(bot)
    assert any(german("received") in text for text in bot.texts(ACME))


async def test_the_internal_thread_is_begun_once_and_quotes_them(bot: Behind) -> None:
    incident, _ = await reported(bot)
    first, again = await begun(bot, incident), await begun(bot, incident)
    assert first == again
    assert await bot.inbox.find_incident(TEAM, OPS, first.thread_ts) == incident
    assert len(bot.texts(OPS)) == 1
    assert "acme reports" in bot.texts(OPS)[0]


async def test_a_thread_that_was_begun_before_a_crash_is_found_and_not_begun_again(bot: Behind) -> None:
    incident, _ = await reported(bot)
    origin = await begun(bot, incident)
    cards = PostedCards(bot.redis)
    await cards.set(incident, "root", "posting")
    await bot.inbox.set_origin(incident, origin.model_copy(update={"thread_ts": ""}))
    assert (await begun(bot, incident)).thread_ts == origin.thread_ts
    assert len(bot.texts(OPS)) == 1


async def test_where_the_operators_channel_is_shared_by_now_nothing_of_a_customer_is_written_there(bot: Behind) -> None:
    incident, ts = await reported(bot)
    bot.slack.share(OPS)
    await begun(bot, incident)
    await bot.slack.say("carla", ACME, "@olga we lost job 4711 for good", thread_ts=ts)
    await bot.slack.say("carla", ACME, "@rackmedic and gpu-018 too", thread_ts=ts)
    await bot.settled()
    for item in await bot.inbox.list_waiting(incident):
        await cards_of(bot.context, bot.redis).resolve_thread(item)
    assert not [text for text in bot.texts(OPS) if "4711" in text or "gpu-018" in text or "acme" in text]


async def test_a_tenants_reply_runs_no_operator_command(bot: Behind) -> None:
    incident, ts = await reported(bot)
    for words in ("drain gpu-017", "approve", "close, it was the cable", "recheck gpu-019", "@rackmedic I need a person"):
        await bot.slack.say("carla", ACME, f"@rackmedic {words}" if "@" not in words else words, thread_ts=ts)
        await bot.settled()
    items = (await bot.inbox.list_waiting(incident))[1:]
    assert [item.kind for item in items] == ["recheck", "recheck", "hand_off"]
    assert {item.data[SIDE_KEY] for item in items} == {TENANT_SIDE}
    said = [row for item in items if (row := get_parsed_message(item))]
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
        ("thanks!", "Gern geschehen"),
        ("what's the weather in Berlin?", "Das kann ich nicht beantworten"),
        ("hatten andere Kunden das auch?", "Das kann ich nicht beantworten"),
        ("do we get money back for the outage?", "Das kann ich nicht beantworten"),
        ("also look at gpu-019 please", "Eine solche Maschine von Ihnen kenne ich nicht: gpu-019"),
        ("also look at gpu-099 please", "Eine solche Maschine von Ihnen kenne ich nicht: gpu-099"),
        ("is gpu-017 safe to use or should I exclude it?", "Ich sehe mir Ihre Maschinen an"),
        ("just reboot the damn thing", "Nur unsere Leute ändern etwas an einer Maschine"),
        ("startet die Kiste einfach neu", "Nur unsere Leute ändern etwas an einer Maschine"),
        ("third time this week", "Dass es wiederkommt, sollen unsere Leute wissen"),
        ("das ist inakzeptabel", "Unsere Leute lesen das in ihrem Thread"),
        ("why, and when?", "Wie lange es dauert, kann ich nicht sagen"),
        ("liegt es an uns?", "Ich sehe mir Ihre Maschinen an"),
    ],
)
async def test_a_tenants_question_is_answered_without_a_look(bot: Behind, words: str, answered: str) -> None:
    incident, ts = await reported(bot)
    await begun(bot, incident)
    before = len(bot.texts(ACME))
    await bot.slack.say("carla", ACME, f"@rackmedic {words}", thread_ts=ts)
    await bot.settled()
    assert len(await bot.inbox.list_waiting(incident)) == 1
    assert any(answered in text for text in bot.texts(ACME)[before:])
    assert any(words in text for text in bot.texts(OPS))


async def test_how_far_it_is_is_said_also_while_nothing_was_found_and_never_how_long(bot: Behind) -> None:
    incident, ts = await reported(bot)
    for times in (1, 2):
        await bot.slack.say("carla", ACME, "@rackmedic wie ist der Stand?", thread_ts=ts)
        await bot.settled()
        assert len([text for text in bot.texts(ACME) if german("received") in text]) == 1 + times
    row: Any = {"item": "i", "outcome": "diagnosed", "root_causes": [{"label": "GPU.BUS.Fallen_Off_Bus", "hosts": ["gpu-017"]}]}
    bot.states[incident] = IncidentState(id=incident, report=row)
    await bot.slack.say("carla", ACME, "@rackmedic how long will it take?", thread_ts=ts)
    await bot.settled()
    assert any(german("how_long") in text for text in bot.texts(ACME))
    assert len(await bot.inbox.list_waiting(incident)) == 1


async def test_what_is_not_understood_and_is_no_question_is_looked_into(bot: Behind) -> None:
    incident, ts = await reported(bot)
    await bot.slack.say("carla", ACME, "@rackmedic der Job hängt beim Start", thread_ts=ts)
    await bot.settled()
    assert "der Job hängt beim Start" in [item.text for item in await bot.inbox.list_waiting(incident)]


@pytest.mark.parametrize(
    "words",
    [
        "mit jemandem sprechen",
        "kann ich mit einem Menschen reden",
        "can I talk to a human?",
        "can I talk to somebody?",
        "could I speak to a person please",
        "kann ich mit einem Menschen sprechen?",
    ],
)
async def test_nearly_asking_for_a_person_gets_one(bot: Behind, words: str) -> None:
    incident, ts = await reported(bot)
    await bot.slack.say("carla", ACME, words, thread_ts=ts)
    await bot.settled()
    assert [item.kind for item in (await bot.inbox.list_waiting(incident))[1:]] == ["hand_off"]


async def test_messages_among_a_tenants_people_are_quoted_to_operators_without_a_look(bot: Behind) -> None:
    incident, ts = await reported(bot)
    await begun(bot, incident)
    await bot.slack.say("carla", ACME, "@olga lunch at noon?", thread_ts=ts)
    await bot.settled()
    assert len(await bot.inbox.list_waiting(incident)) == 1
    assert any("lunch at noon" in text for text in bot.texts(OPS))


async def test_a_mention_that_says_nothing_is_told_what_to_say(bot: Behind) -> None:
    await bot.slack.say("carla", ACME, "@rackmedic hi")
    await bot.settled()
    assert await bot.items() == []
    assert any(german("say_more") in text for text in bot.texts(ACME))


async def test_any_member_of_their_thread_may_use_its_buttons(bot: Behind) -> None:
    incident, _ = await reported(bot)
    bot.states[incident] = healthy(incident)
    await cards_of(bot.context, bot.redis).update_card(incident)
    card = message_with(bot, ACME, tenant_card.BROKEN_ACTION_ID)
    await bot.slack.click("carla", card, tenant_card.BROKEN_ACTION_ID)
    await bot.slack.click("carla", card, tenant_card.PERSON_ACTION_ID)
    await bot.settled()
    assert [item.kind for item in (await bot.inbox.list_waiting(incident))[1:]] == ["recheck", "hand_off"]


async def test_a_button_of_another_thread_is_refused(bot: Behind) -> None:
    first, _ = await reported(bot)
    _, other_thread = await reported(bot, "@rackmedic job 4712 fails on gpu-017")
    button = tenant_card.render_tenant_card(TenantView(first, "healthy")).blocks[-1]["elements"][0]
    carla = {"id": "U0CARLA", "team_id": "T0ACME"}
    payload = {"actions": [button], "channel": {"id": ACME}, "container": {"thread_ts": other_thread}, "user": carla, "trigger_id": "t"}
    with pytest.raises(OldButton):
        await door_of(bot.messages, bot.redis).handle_click(payload)
    assert len(await bot.inbox.list_waiting(first)) == 1


async def test_our_people_tell_them_something_and_slips_are_refused_by_name(bot: Behind) -> None:
    incident, _ = await reported(bot)
    origin = await begun(bot, incident)
    root = message_with(bot, OPS, internal_thread.TELL_ACTION_ID)
    await bot.slack.click("olga", root, internal_thread.TELL_ACTION_ID)
    await bot.settled()
    view = modal(bot)
    refused = await bot.slack.submit(
        "olga", view, {internal_thread.WORDS_BLOCK_ID: {internal_thread.WORDS_BLOCK_ID: "globex on gpu-019 had it too, ask Priya"}}
    )
    assert "another customer (globex)" in refused["errors"][internal_thread.WORDS_BLOCK_ID]
    assert "gpu-019" in refused["errors"][internal_thread.WORDS_BLOCK_ID]
    assert "priya" in refused["errors"][internal_thread.WORDS_BLOCK_ID].lower()
    assert not [text for text in bot.texts(ACME) if "globex" in text]
    assert (
        await bot.slack.submit("olga", view, {internal_thread.WORDS_BLOCK_ID: {internal_thread.WORDS_BLOCK_ID: "gpu-017 is repaired."}})
        == {}
    )
    await bot.settled()
    assert not any("gpu-017 is repaired." in text for text in bot.texts(ACME)), "nothing goes before it was seen"
    seen = bot.slack.view("olga")
    assert seen
    assert "gpu-017 is repaired." in str(seen["blocks"])
    assert german("from_people") in str(seen["blocks"])
    assert await bot.slack.submit("olga", modal(bot), {}) == {}
    await bot.settled()
    assert [text for text in bot.texts(ACME) if "gpu-017 is repaired." in text]
    assert bot.slack.view("olga") is None
    assert any("Told the customer" in str(row["blocks"]) for row in bot.slack.thread(OPS, origin.thread_ts))


async def test_going_back_from_the_preview_keeps_the_text(bot: Behind) -> None:
    incident, _ = await reported(bot)
    await begun(bot, incident)
    await bot.slack.click("olga", message_with(bot, OPS, internal_thread.TELL_ACTION_ID), internal_thread.TELL_ACTION_ID)
    await bot.settled()
    form = modal(bot)
    await bot.slack.submit("olga", form, {internal_thread.WORDS_BLOCK_ID: {internal_thread.WORDS_BLOCK_ID: "gpu-017 is repaired."}})
    await bot.slack.acts.close("olga", modal(bot))
    assert modal(bot) == form
    assert not any("repaired" in text for text in bot.texts(ACME))


async def test_the_form_begins_with_what_their_card_says(bot: Behind) -> None:
    incident, _ = await reported(bot)
    await begun(bot, incident)
    row: Any = {"item": "i", "outcome": "diagnosed", "root_causes": [{"label": "GPU.BUS.Fallen_Off_Bus", "hosts": ["gpu-017"]}]}
    bot.states[incident] = IncidentState(id=incident, report=row)
    await bot.slack.click("olga", message_with(bot, OPS, internal_thread.TELL_ACTION_ID), internal_thread.TELL_ACTION_ID)
    await bot.settled()
    view = bot.slack.view("olga")
    assert view
    [field] = [block for block in view["blocks"] if block["type"] == "input"]
    assert "(gpu-017)" in field["element"]["initial_value"]
    assert german("state_received") in field["element"]["initial_value"]


async def test_what_became_a_leak_between_preview_and_click_is_not_sent(bot: Behind) -> None:
    incident, _ = await reported(bot)
    await begun(bot, incident)
    await bot.slack.click("olga", message_with(bot, OPS, internal_thread.TELL_ACTION_ID), internal_thread.TELL_ACTION_ID)
    await bot.settled()
    await bot.slack.submit(
        "olga", modal(bot), {internal_thread.WORDS_BLOCK_ID: {internal_thread.WORDS_BLOCK_ID: "Zaphod has repaired gpu-017."}}
    )
    bot.slack.workspace.users["U0ANTON"].name = "zaphod"
    bot.context.people.forget("U0ANTON")
    assert await bot.slack.submit("olga", modal(bot), {}) == {}
    await bot.settled()
    seen = bot.slack.view("olga")
    assert seen
    assert "a person (zaphod)" in str(seen["blocks"])
    assert not any("repaired" in text for text in bot.texts(ACME))


async def test_a_preview_that_comes_twice_is_sent_once(bot: Behind) -> None:
    incident, _ = await reported(bot)
    origin = await begun(bot, incident)
    telling = bot.features.tenant_updates
    assert telling
    view = {
        "callback_id": internal_thread.TELL_SEND_CALLBACK_ID,
        "id": "V2",
        "root_view_id": "V1",
        "private_metadata": f'{{"incident":"{incident}","words":"Done."}}',
    }
    payload = {"user": {"id": "U0OLGA", "team_id": TEAM}, "view": view}
    for _ in range(2):
        await telling.handle_send(payload)
        await bot.settled()
    assert len([text for text in bot.texts(ACME) if "Done." in text]) == 1
    assert len([row for row in bot.slack.thread(OPS, origin.thread_ts) if "Told the customer" in str(row.get("blocks"))]) == 1


async def test_a_guest_in_our_own_channel_cannot_tell_a_customer_anything(bot: Behind) -> None:
    incident, _ = await reported(bot)
    await begun(bot, incident)
    await bot.slack.click("gus", message_with(bot, OPS, internal_thread.TELL_ACTION_ID), internal_thread.TELL_ACTION_ID)
    await bot.settled()
    assert bot.slack.view("gus") is None


async def test_whoever_has_an_id_of_ours_in_another_workspace_tells_a_customer_nothing(bot: Behind) -> None:
    incident, _ = await reported(bot)
    origin = await begun(bot, incident)
    telling = bot.features.tenant_updates
    assert telling
    click = {
        "user": {"id": "U0OLGA", "team_id": "T0GLOBEX"},
        "team": {"id": TEAM},
        "channel": {"id": OPS},
        "container": {"thread_ts": origin.thread_ts},
        "trigger_id": "1.2.3",
        "actions": [{"action_id": internal_thread.TELL_ACTION_ID, "value": encode_button_value(incident)}],
    }
    with pytest.raises(NotAllowed):
        await telling.handle_click(click)


async def test_an_organisations_id_in_place_of_a_workspaces_is_somebody_elses(bot: Behind) -> None:
    for user_team, told in (("E0GRID", False), ("", True)):
        event = {
            "type": "app_mention",
            "channel": ACME,
            "user": "U0OLGA",
            "ts": "1700000000.000100",
            "text": "<@U0RACKMED> help",
            "user_team": user_team,
        }
        arrival = parse_message({"team_id": TEAM, "event": event}, "U0RACKMED")
        assert arrival
        bot.context.tasks.spawn_task("as_they_see", door_of(bot.messages, bot.redis)._notify_operator(arrival, BOUND[ACME]))
        await bot.settled()
        assert bool(bot.slack.whispers("olga")) is told


async def test_people_of_an_organisation_report_reply_and_press_as_others_do(bot: Behind) -> None:
    bot.slack.workspace.users["U0CARLA"].organisation = "E0ACMEGRID"
    incident, ts = await reported(bot)
    await begun(bot, incident)
    await bot.slack.say("carla", ACME, "@rackmedic it still hangs", thread_ts=ts)
    await bot.settled()
    origin = await bot.inbox.get_origin(incident)
    assert origin
    assert origin.customer
    assert origin.customer.user_team == "E0ACMEGRID"
    assert len(await bot.inbox.list_waiting(incident)) == 2
    assert not bot.slack.whispers("carla")


async def test_without_an_internal_channel_nothing_is_taken() -> None:
    lone = ChannelRow(channel=ACME, kind="tenant", tenant="acme", internal="C0NOWHERE")
    async with slack_side(lambda context, _: replace(context, channel_bindings={ACME: lone}), features_of=features_of) as bot:
        await bot.slack.say("carla", ACME, REPORT)
        await bot.settled()
        assert await bot.items() == []
        assert any("do not answer in this channel at the moment" in text for text in bot.texts(ACME))


class WritesDown:
    """Records requests for incident reports."""

    def __init__(self) -> None:
        self.begun: list[tuple[str, str, str]] = []

    def begin_report(self, incident: str, place: Origin, form: Literal["md", "pdf"] = "pdf") -> None:
        self.begun.append((incident, place.channel, "everything"))

    def begin_tenant_report(self, incident: str, place: Origin, customer: TenantReportContext, *, withdrawn: bool) -> None:
        self.begun.append((incident, place.channel, customer.languages[place.channel]))


async def test_a_customer_who_asks_for_the_report_gets_the_page_that_they_may_have() -> None:
    writes = WritesDown()
    async with slack_side(dress, features_of=lambda messages, redis: features_of(messages, redis, writes)) as bot:
        incident, ts = await reported(bot)
        await begun(bot, incident)
        await bot.slack.say("carla", ACME, "den Bericht als PDF, bitte", ts)
        await bot.settled()
        assert writes.begun == [(incident, ACME, "de")]
        assert any(german("answer_report") in text for text in bot.texts(ACME))
        assert [item.kind for item in await bot.items()] == ["mention"], "nothing is looked at for it"


def healthy(incident: str) -> IncidentState:
    """Return an incident with no fault found."""
    row: Any = {"id": incident, "report": {"item": "i", "outcome": "no_fault"}}
    return IncidentState(**row)  # type: ignore[typeddict-item]  # as read from the store


def modal(bot: Behind) -> str:
    """Return the id of the form that Olga has open."""
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
    bot.slack.workspace.channel(ACME).members.append("U0GUEST")
    bot.slack.workspace.channel(OPS).members.remove("U0GUEST")
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
    origin = await bot.inbox.get_origin(incident)
    assert origin
    assert (origin.tenant, origin.channel) == ("acme", OPS)
    await bot.slack.say("olga", ACME, "@rackmedic any news?", ts)
    await bot.settled()
    assert len(bot.slack.whispers("olga")) == 2


async def test_a_customers_own_mention_is_answered_without_such_a_line(bot: Behind) -> None:
    bot.slack.workspace.channel(ACME).members.append("U0GUEST")
    for who in ("carla", "gus"):
        await reported(bot, who=who)
        assert not bot.slack.whispers(who)


async def test_a_channel_of_ours_that_turns_shared_stops_at_once_in_every_process(bot: Behind) -> None:
    elsewhere = People(bot.context.client, marks=ChannelSharingCache(bot.redis))
    assert not await elsewhere.is_shared(OPS)
    assert not await bot.context.people.is_shared(OPS)
    bot.slack.share(OPS)
    await bot.settled()
    assert await bot.context.people.is_shared(OPS)
    assert await elsewhere.is_shared(OPS)
    await bot.slack.say("olga", OPS, "@rackmedic job 4711 hangs on gpu-017")
    await bot.settled()
    assert await bot.items() == []
    bot.slack.unshare(OPS)
    await bot.settled()
    assert not await bot.context.people.is_shared(OPS)


async def test_a_channel_that_one_of_two_organisations_left_is_still_shared(bot: Behind) -> None:
    bot.slack.share(OPS)
    bot.slack.share(OPS, "T0ACME")
    bot.slack.unshare(OPS)
    await bot.settled()
    assert await bot.context.people.is_shared(OPS)


async def test_a_customers_channel_is_served_after_it_is_shared_no_more(bot: Behind) -> None:
    bot.slack.unshare(ACME, "T0ACME")
    bot.slack.workspace.channel(ACME).members.append("U0GUEST")
    incident, _ = await reported(bot, who="gus")
    assert incident


def unsure(incident: str, **silence: Any) -> dict[str, Any]:
    """Return an incident with an open question to the tenant."""
    report = {"item": "i", "outcome": "abstained", "questions": ["Did you see it before?"]}
    return {"id": incident, "lifecycle": "waiting", "report": report, "silence": silence}


async def test_who_does_not_answer_is_reminded_once_and_then_told_who_has_it(bot: Behind) -> None:
    incident, _ = await reported(bot)
    cards = cards_of(bot.context, bot.redis)
    asked = unsure(incident, since=NOON)
    for state, told in (
        (asked, "Ich muss mehr wissen"),
        (unsure(incident, since=NOON, reminded=LATER), "Ihre Antworten fehlen noch"),
        (asked | {"silence": {"since": NOON, "reminded": LATER, "handed": LATEST}, **HANDED}, "Es kam keine Antwort"),
        (asked | {"silence": {"since": NOON, "reminded": LATER, "handed": LATEST}, **TAKEN}, "Jemand von unseren Leuten hat es"),
        (asked | {"silence": {"since": NOON, "reminded": LATER, "handed": LATEST}, **WAITS}, "hat es und wartet auf andere"),
    ):
        before = len(bot.texts(ACME))
        for _ in range(2):
            await cards.update_card(incident, IncidentState(**state))  # type: ignore[typeddict-item]  # as read from the store
        new = [row for row in bot.texts(ACME)[before:] if told in row]
        assert len(new) == 1, told
    assert german("unanswered") in living_card(bot)


NOON, LATER, LATEST = "2026-05-20T12:00:00Z", "2026-05-20T16:00:00Z", "2026-05-21T12:00:00Z"
HANDED = {"lifecycle": "handed_off", "ticket": {"state": "open"}}
TAKEN = {"lifecycle": "handed_off", "ticket": {"state": "taken", "taken_by": "U0OLGA"}}
WAITS = {"lifecycle": "handed_off", "ticket": {"state": "waiting", "taken_by": "U0OLGA"}}


def living_card(bot: Behind) -> str:
    """Return the blocks of the tenant's card as it is now."""
    rows = [row for row in bot.slack.messages(ACME) if row.get("metadata", {}).get("event_type") == "rackmedic_customer"]
    return str(rows[-1]["blocks"])


async def test_who_takes_it_back_is_noted_once_and_writing_again_takes_it_up(bot: Behind) -> None:
    incident, ts = await reported(bot)
    await begun(bot, incident)
    bot.states[incident] = healthy(incident)
    await cards_of(bot.context, bot.redis).update_card(incident)
    await bot.slack.click("carla", message_with(bot, ACME, tenant_card.WITHDRAW_ACTION_ID), tenant_card.WITHDRAW_ACTION_ID)
    await bot.settled()
    [_, item] = await bot.inbox.list_waiting(incident)
    assert (item.kind, item.data) == ("timer", {"why": "withdrawn"})
    assert len([text for text in bot.texts(OPS) if WITHDRAWN_TEXT in text]) == 1
    assert german("withdrawn") in living_card(bot)
    await bot.slack.say("carla", ACME, "@rackmedic der Job 4711 hängt wieder", thread_ts=ts)
    await bot.settled()
    cards = cards_of(bot.context, bot.redis)
    await cards.resolve_thread((await bot.inbox.list_waiting(incident))[-1])
    await cards.update_card(incident)
    assert "zurückgenommen" not in living_card(bot)


@pytest.mark.parametrize("words", ["never mind, we don't need it", "hat sich erledigt, brauchen wir nicht"])
async def test_who_takes_it_back_in_words_is_told_how_to_take_it_up_again(bot: Behind, words: str) -> None:
    incident, ts = await reported(bot)
    await begun(bot, incident)
    for _ in range(2):
        await bot.slack.say("carla", ACME, f"@rackmedic {words}", thread_ts=ts)
        await bot.settled()
    items = (await bot.inbox.list_waiting(incident))[1:]
    assert {(item.kind, item.data["why"]) for item in items} == {("timer", "withdrawn")}
    assert any(german("withdrawn") in text for text in bot.texts(ACME))
    assert any(WITHDRAWN_TEXT in text for text in bot.texts(OPS))
    assert any(words in text for text in bot.texts(OPS))


async def test_why_and_when_are_both_answered(bot: Behind) -> None:
    incident, ts = await reported(bot)
    row: Any = {"item": "i", "outcome": "diagnosed", "root_causes": [{"label": "GPU.BUS.Fallen_Off_Bus", "hosts": ["gpu-017"]}]}
    bot.states[incident] = IncidentState(id=incident, report=row)
    before = len(bot.texts(ACME))
    await bot.slack.say("carla", ACME, "@rackmedic warum, und wann?", thread_ts=ts)
    await bot.settled()
    [said] = bot.texts(ACME)[before:]
    assert "Deswegen" in said
    assert german("state_received") in said
    assert german("how_long") in said


def closed(n: int, tenant: str, customer: bool, *hosts: str) -> ClosedIncident:
    came = TenantThread(team=TEAM, channel=ACME, thread_ts=str(n), user="U0CARLA", user_team="T0ACME")
    origin = Origin(kind="slack", team=TEAM, channel=OPS, tenant=tenant, customer=came if customer else None)
    cause = ClosedIncidentCause(label="GPU.BUS.Fallen_Off_Bus", hosts=hosts)
    at = T0 - timedelta(days=n)
    return ClosedIncident(incident=f"inc-past{n}", origin=origin, opened=at, closed=at, ended="cured", causes=(cause,))


async def test_a_question_about_recurrence_uses_only_their_own_incidents(bot: Behind) -> None:
    incident, _ = await reported(bot)
    asked: list[ClosedIncidentQuery] = []

    async def recall(sought: ClosedIncidentQuery) -> ClosedIncidentMatches:
        asked.append(sought)
        rows = [closed(3, "acme", True, "gpu-017"), closed(5, "globex", True, "gpu-019"), closed(6, "acme", False, "gpu-018")]
        return ClosedIncidentMatches((*rows, closed(9, "acme", True, "gpu-017", "gpu-019")))

    bot.states[incident] = IncidentState(id=incident, brief={"text": "", "hosts": ["gpu-017", "gpu-019"]})
    cards = build_tenant_cards(bot.context, bot.redis, SITE, WORDS, SetClock(), recall)
    answer = await cards.answer_question(incident, ParsedMessage(intent=Intent.HAPPENED_BEFORE), "again")
    assert answer
    assert answer[0].channel == ACME
    said = answer[1].text
    assert german("again_seen", count="2") in said
    assert f"{T0 - timedelta(days=3):%Y-%m-%d}: " in said
    assert "(gpu-017)" in said
    assert f"{T0 - timedelta(days=9):%Y-%m-%d}: {german('again_unknown')}" in said
    assert not any(secret in said for secret in ("inc-", "globex", "gpu-018", "gpu-019"))
    assert asked[0].hosts == ("gpu-017",)


async def test_who_takes_it_back_by_a_button_and_takes_it_up_by_one_has_it_taken_up(bot: Behind) -> None:
    incident, _ = await reported(bot)
    await begun(bot, incident)
    bot.states[incident] = healthy(incident)
    cards = cards_of(bot.context, bot.redis)
    await cards.update_card(incident)
    for button in (tenant_card.WITHDRAW_ACTION_ID, tenant_card.BROKEN_ACTION_ID):
        await bot.slack.click("carla", message_with(bot, ACME, button), button)
        await bot.settled()
    await cards.resolve_thread((await bot.inbox.list_waiting(incident))[-1])
    await cards.update_card(incident)
    assert "zurückgenommen" not in living_card(bot)
    assert message_with(bot, ACME, tenant_card.WITHDRAW_ACTION_ID)


def looked(incident: str, item: str, intent: Intent = Intent.STILL_BROKEN, **more: Any) -> IncidentState:
    """Return the state after a turn of the tenant's item that found nothing."""
    told = ParsedMessage(intent=intent)
    row = InboxItem(id=item, kind=told.kind, incident=incident, at=T0, data={**told.build_item_data(), SIDE_KEY: TENANT_SIDE}).model_dump(
        mode="json"
    )
    return IncidentState(**{**healthy(incident), "item": row, **more})  # type: ignore[typeddict-item]  # as read from the store


async def test_each_look_that_they_asked_for_is_answered_once_also_where_nothing_changed(bot: Behind) -> None:
    incident, _ = await reported(bot)
    cards = cards_of(bot.context, bot.redis)
    await cards.update_card(incident, looked(incident, "one"))
    for item, intent, told in (
        ("two", Intent.STILL_BROKEN, "nichts Neues gefunden"),
        ("three", Intent.FIXED, "es steht wie zuvor"),
        ("four", Intent.STILL_BROKEN, "nichts Neues gefunden"),
    ):
        before = len(bot.texts(ACME))
        stored = bot.states[incident] = looked(incident, item, intent)
        for _ in range(2):
            await cards.update_card(incident, stored)
            await cards.update_card(incident)
        assert [told in text for text in bot.texts(ACME)[before:]] == [True]


async def test_a_thread_of_theirs_that_is_gone_holds_up_nothing_of_ours(bot: Behind) -> None:
    incident, _ = await reported(bot)
    cards = cards_of(bot.context, bot.redis)
    for method in ("chat.update", "chat.postMessage"):
        bot.slack.api.refuse[method] = "thread_not_found"
    await cards.update_after_turn(incident, looked(incident, "one"), Report(item="one", outcome="diagnosed"))
    assert await cards.pending_messages.list_abandoned(timedelta()) == [incident]


async def test_what_still_fails_after_it_was_proved_is_offered_a_person_and_not_proved_anew(bot: Behind) -> None:
    incident, _ = await reported(bot)
    cards = cards_of(bot.context, bot.redis)
    cured = {"id": "l", "label": "GPU.BUS.Fallen_Off_Bus", "target": "gpu-017", "outcome": "cured"}
    proved: dict[str, Any] = {"ladders": [cured], "lifecycle": "watching"}
    fault: Any = {"item": "i", "outcome": "diagnosed", "root_causes": [{"label": cured["label"], "hosts": ["gpu-017"]}]}
    await cards.update_card(incident, looked(incident, "one", **proved, report=fault))
    before = len(bot.texts(ACME))
    await cards.update_card(incident, looked(incident, "two", **proved))
    [said] = bot.texts(ACME)[before:]
    assert german("again_nothing") in said
    await bot.slack.click("carla", message_with(bot, ACME, tenant_card.PERSON_ACTION_ID), tenant_card.PERSON_ACTION_ID)
    await bot.settled()
    assert (await bot.inbox.list_waiting(incident))[-1].kind == "hand_off"


async def test_a_person_who_was_asked_for_is_no_look(bot: Behind) -> None:
    incident, _ = await reported(bot)
    cards = cards_of(bot.context, bot.redis)
    await cards.update_card(incident, looked(incident, "one"))
    before = len(bot.texts(ACME))
    await cards.update_card(incident, looked(incident, "two", Intent.HAND_OFF))
    assert bot.texts(ACME)[before:] == []
