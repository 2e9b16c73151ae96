"""The operators' Slack side: mentions, replies, clicks, forms and commands; what is acknowledged is stored, the rest is
answered.
"""

import json
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from typing import Any, Literal

import pytest
import structlog
from redis.asyncio import Redis

from bot.cards.buttons import OldButton
from bot.incidents.cards import (
    close_form,
    details,
    diagnosis,
    direct_messages,
    handoff_card,
    home,
    incident_menu,
    meant_buttons,
    notes,
    questions,
)
from bot.incidents.cards.handoff_content import build_handoff
from bot.incidents.context import HandlerContext
from bot.incidents.dispatch.fingerprint import compute_fingerprint
from bot.incidents.dispatch.lease import Leases
from bot.incidents.dispatch.thread_activity import ThreadActivity
from bot.incidents.handlers.incident_clicks import ALREADY_OPEN
from bot.incidents.handlers.messages import NO_INCIDENT, handle_message
from bot.policy.channels import NOT_FULL_MEMBER_TEXT, REFUSAL_TEXTS, build_channel_bindings
from bot.reports.incident_sources import TenantReportContext
from bot.slack.client import post_message
from bot.slack.payloads import parse_message
from bot.store.keys import RedisKeys
from graph.dialogue.intents import Intent
from graph.dialogue.said import get_parsed_message
from graph.report import Report
from graph.state import Hypothesis, IncidentState, Origin
from tests.support.clock import WallClock
from tests.support.fakes_bot import ACME, HOSTS, OPS, RANDOM, TEAM, Behind, Parts, slack_side
from tools.inventory.inventory import ChannelRow
from tools.inventory.name_suggestions import UnknownName

pytestmark = pytest.mark.slow


HELP = home.render_help([]).text


@pytest.fixture
async def bot() -> AsyncIterator[Behind]:
    async with slack_side() as behind:
        yield behind


async def opened(bot: Behind, text: str = "@rackmedic job 4711 hangs on gpu-[017-020]") -> tuple[str, str]:
    """Open an incident by mention; return (id, thread ts)."""
    ts = await bot.slack.say("olga", OPS, text)
    await bot.settled()
    incident = await bot.inbox.find_incident(TEAM, OPS, ts)
    assert incident
    return incident, ts


async def test_a_mention_opens_one_incident_though_slack_tells_of_it_twice(bot: Behind) -> None:
    incident, ts = await opened(bot)
    [item] = await bot.items()
    assert (item.kind, item.text, item.user, item.id) == ("mention", "job 4711 hangs on gpu-[017-020]", "U0OLGA", f"{TEAM}.{OPS}.{ts}")
    assert bot.woken == [incident]
    assert [(news.incident, news.stage) for news in bot.news] == [(incident, "queued")]
    origin = await bot.inbox.get_origin(incident)
    assert origin
    assert (origin.kind, origin.team, origin.channel, origin.thread_ts, origin.user) == ("slack", TEAM, OPS, ts, "U0OLGA")


async def test_a_reply_in_the_thread_counts_without_a_mention(bot: Behind) -> None:
    incident, ts = await opened(bot)
    await bot.slack.say("priya", OPS, "gpu-018 rebooted at 02:40 and hangs since", thread_ts=ts)
    await bot.slack.say("priya", OPS, "recheck gpu-018", thread_ts=ts)
    await bot.slack.say("priya", OPS, "what about gpu-019?", thread_ts=ts)
    await bot.slack.say("priya", OPS, "@rackmedic since 02:40", thread_ts=ts)
    await bot.settled()
    items = (await bot.inbox.list_waiting(incident))[1:]
    assert [item.kind for item in items] == ["reply", "recheck", "ask", "reply"]
    assert [said.intent.value for item in items if (said := get_parsed_message(item))] == [
        "new_facts",
        "recheck",
        "host_state",
        "new_facts",
    ]
    assert (items[1].data["hosts"], items[2].data["said"]["hosts"]) == ("gpu-018", ["gpu-019"])
    assert "hosts" not in items[2].data


async def test_what_people_say_to_each_other_goes_nowhere(bot: Behind) -> None:
    incident, ts = await opened(bot)
    for who, words in (
        ("priya", "lunch?"),
        ("dmitri", "in ten minutes"),
        ("priya", "@dmitri can you look at gpu-018 before?"),
        ("dmitri", "sure"),
        ("priya", "dmitri, what about gpu-018?"),
        ("olga", "thanks!"),
    ):
        await bot.slack.say(who, OPS, words, thread_ts=ts)
        await bot.settled()
    assert len(await bot.inbox.list_waiting(incident)) == 1
    assert bot.texts(OPS) == []


async def test_the_next_message_answers_our_question_until_another_person_writes(bot: Behind) -> None:
    incident, ts = await opened(bot)
    await bot.pulse.record_reply(incident, f"{float(ts) + 0.0001:.6f}", asked=True)
    for who, words in (("olga", "a week ago, before the move to the new rack"), ("priya", "was it not two weeks"), ("olga", "or two")):
        await bot.slack.say(who, OPS, words, thread_ts=ts)
        await bot.settled()
    [_, answer] = await bot.inbox.list_waiting(incident)
    assert (answer.kind, answer.text) == ("reply", "a week ago, before the move to the new rack")


def quietly(context: HandlerContext, _: object) -> HandlerContext:
    """Bind the operators' channel to mentions only."""
    return replace(
        context, channel_bindings={**context.channel_bindings, OPS: context.channel_bindings[OPS].model_copy(update={"mention_only": True})}
    )


async def test_where_only_mentions_count_the_rest_is_not_for_us() -> None:
    async with slack_side(quietly) as bot:
        incident, ts = await opened(bot)
        await bot.slack.say("olga", OPS, "what about gpu-018?", thread_ts=ts)
        await bot.slack.say("olga", OPS, "@rackmedic what about gpu-019?", thread_ts=ts)
        await bot.settled()
        assert [item.text for item in (await bot.inbox.list_waiting(incident))[1:]] == ["what about gpu-019?"]


async def test_a_paused_thread_hears_who_mentions_us_and_a_stop(bot: Behind) -> None:
    incident, ts = await opened(bot)
    await bot.pulse.record_reply(incident, "", quiet_until=bot.context.clock.now() + timedelta(hours=1))
    for words in ("what about gpu-018?", "stop", "hand off", "@rackmedic what about gpu-019?"):
        await bot.slack.say("olga", OPS, words, thread_ts=ts)
        await bot.settled()
    assert [item.text for item in (await bot.inbox.list_waiting(incident))[1:]] == ["stop", "hand off", "what about gpu-019?"]


def few_answers(context: HandlerContext, redis: Redis) -> Parts:
    """Limit a thread to three answers in five minutes."""
    return Parts(thread_activity=ThreadActivity(redis, context.clock, max_answers=3))


@pytest.fixture
async def terse() -> AsyncIterator[Behind]:
    async with slack_side(parts_of=few_answers) as behind:
        yield behind


async def test_a_thread_of_several_that_asks_too_much_is_told_so_once(terse: Behind) -> None:
    incident, ts = await opened(terse)
    await terse.slack.say("priya", OPS, "lunch?", thread_ts=ts)
    await terse.settled()
    for n in range(1, 8):
        await terse.slack.say("olga", OPS, f"what about gpu-{n:03}?", thread_ts=ts)
        await terse.settled()
    assert len(await terse.inbox.list_waiting(incident)) == 3  # including the first mention
    [said] = terse.texts(OPS)
    assert said == notes.render_answer_limit(timedelta(minutes=3)).text
    for words in ("@rackmedic what about gpu-030?", "@rackmedic status"):
        await terse.slack.say("olga", OPS, words, thread_ts=ts)
        await terse.settled()
    assert terse.texts(OPS) == [said, said]  # a mention is answered once more


@pytest.mark.parametrize("people", [("olga",), ("olga", "priya"), ("olga", "priya", "dmitri")])
async def test_what_must_get_through_does_without_a_mention_however_many_answers_there_were(terse: Behind, people: tuple[str, ...]) -> None:
    incident, ts = await opened(terse)
    for n in range(1, 12):
        await terse.slack.say(people[n % len(people)], OPS, f"what about gpu-{n:03}?", thread_ts=ts)
        await terse.settled()
    passed_over = len(await terse.inbox.list_waiting(incident))
    words = (
        *("stop", "stop it", "please stop", "halt", "hand off", "hand it off", "escalate", "close it", "close it, it was the cable"),
        *("approve", "approved", "yes, do it"),
    )
    for said in words:
        await terse.slack.say(people[0], OPS, said, thread_ts=ts)
        await terse.settled()
    assert [item.text for item in (await terse.inbox.list_waiting(incident))[passed_over:]] == list(words)


@pytest.mark.parametrize("words", ["please take it from here, Tom", "you have the spare, Anna"])
async def test_one_person_alone_who_calls_a_colleague_is_told_once_that_it_was_not_for_us(bot: Behind, words: str) -> None:
    incident, ts = await opened(bot)
    for _ in range(3):
        await bot.slack.say("olga", OPS, words, thread_ts=ts)
        await bot.settled()
    assert bot.texts(OPS) == [notes.render_not_understood().text]
    assert len(await bot.inbox.list_waiting(incident)) == 1


@pytest.mark.parametrize("words", ["hmm that is odd", "lunch first", "let me get a coffee", "that is a pity"])
async def test_no_message_of_one_person_alone_is_passed_over(bot: Behind, words: str) -> None:
    incident, ts = await opened(bot)
    for _ in range(3):
        await bot.slack.say("olga", OPS, words, thread_ts=ts)
        await bot.settled()
    items = (await bot.inbox.list_waiting(incident))[1:]
    assert [(item.kind, item.text) for item in items] == [("ask", words)] * 3
    assert {said.intent for item in items if (said := get_parsed_message(item))} == {Intent.NOT_UNDERSTOOD}
    assert bot.texts(OPS) == []


async def test_a_button_asks_what_a_message_meant_in_its_own_words(bot: Behind) -> None:
    incident, ts = await opened(bot)
    await bot.slack.say("olga", OPS, "gpu-018 asdkj askdj qwe", thread_ts=ts)
    await bot.settled()
    asked = (await bot.inbox.list_waiting(incident))[-1]
    bot.states[incident] = {"id": incident, "item": asked.model_dump(mode="json")}
    report = Report(item=asked.id, outcome="abstained", reply="I did not understand that.", meant=("host_state", "recheck"))
    shown = diagnosis.render_diagnosis(incident, report)
    card = await post_message(bot.context.client, OPS, ts, shown)
    buttons = [one for block in shown.blocks for one in block.get("elements", []) if one["type"] == "button"]
    assert [json.loads(one["value"])["intent"] for one in buttons] == ["host_state", "recheck"]
    assert {one["action_id"] for one in buttons} == {meant_buttons.MEANT_ACTION_ID}
    await bot.slack.click("priya", card, meant_buttons.MEANT_ACTION_ID)
    await bot.settled()
    last = (await bot.inbox.list_waiting(incident))[-1]
    said = get_parsed_message(last)
    assert said is not None
    assert (last.kind, last.user, last.text) == ("ask", "U0PRIYA", "gpu-018 asdkj askdj qwe")
    assert (said.intent, said.hosts, said.sure) == (Intent.HOST_STATE, ("gpu-018",), True)


REQUESTS = (
    "drain everything except gpu-018 pls",
    "why does munge refuse it?",
    "what else could it be?",
    "ssh into 10.0.0.5 and check nvidia-smi",
    "drain gpu-018",
    "is gpu-018 healthy?",
    "is that covered by warranty?",
    "should I page the datacenter?",
)


async def test_one_person_alone_gets_an_answer_to_every_request_however_often_a_message_was_passed_over(bot: Behind) -> None:
    incident, ts = await opened(bot)
    for words in ("please take it from here, Tom", *REQUESTS):
        await bot.slack.say("olga", OPS, words, thread_ts=ts)
        await bot.settled()
    answered = [item.text for item in (await bot.inbox.list_waiting(incident))[1:]]
    assert answered == list(REQUESTS)


async def test_a_thread_that_joined_another_answers_each_request_with_one_line_that_links_there(bot: Behind) -> None:
    incident, ts = await opened(bot)
    again = await bot.slack.say("priya", OPS, "@rackmedic gpu-018 does not answer, anybody?")
    await bot.settled()
    stored = len(await bot.inbox.list_waiting(incident))
    there, told = notes.render_ask_in_joined_thread(TEAM, OPS, ts).text, bot.texts(OPS)
    for number, words in enumerate(REQUESTS, 1):
        await bot.slack.say("priya", OPS, words, thread_ts=again)
        await bot.settled()
        assert bot.texts(OPS) == told + [there] * number
    for words in ("hmm that is odd", "@dmitri can you drain gpu-018?", "Anton, could you look at gpu-018?"):
        await bot.slack.say("priya", OPS, words, thread_ts=again)
        await bot.settled()
    await bot.slack.say("priya", OPS, "@rackmedic hand off", thread_ts=again)
    await bot.settled()
    assert bot.texts(OPS) == told + [there] * (len(REQUESTS) + 1)
    assert len(await bot.inbox.list_waiting(incident)) == stored


@pytest.mark.parametrize("words", REQUESTS)
async def test_a_thread_of_people_that_joined_nothing_gets_no_line(bot: Behind, words: str) -> None:
    ts = await bot.slack.say("olga", OPS, "who has the keys of the cage?")
    await bot.slack.say("priya", OPS, words, thread_ts=ts)
    await bot.settled()
    assert bot.texts(OPS) == []


@pytest.mark.parametrize("words", ["should we page the datacenter?", "hmm that is odd"])
async def test_people_among_themselves_are_not_told_so(bot: Behind, words: str) -> None:
    _, ts = await opened(bot)
    for person in ("priya", "olga", "priya"):
        await bot.slack.say(person, OPS, words, thread_ts=ts)
        await bot.settled()
    assert bot.texts(OPS) == []


async def test_one_person_alone_gets_an_answer_or_a_line_for_each_message(terse: Behind) -> None:
    incident, ts = await opened(terse)
    for n in range(1, 8):
        await terse.slack.say("olga", OPS, f"what about gpu-{n:03}?", thread_ts=ts)
        await terse.settled()
    taken = len(await terse.inbox.list_waiting(incident)) - 1
    assert 0 < taken < 7
    assert terse.texts(OPS) == [notes.render_answer_limit(timedelta(minutes=3)).text] * (7 - taken)


@pytest.mark.parametrize("mention", ["", "@rackmedic "])
async def test_stop_and_hand_off_get_through_at_the_limit_with_and_without_a_mention(terse: Behind, mention: str) -> None:
    incident, ts = await opened(terse)
    for n in range(1, 8):
        await terse.slack.say("olga", OPS, f"what about gpu-{n:03}?", thread_ts=ts)
        await terse.settled()
    before = await terse.inbox.list_waiting(incident)
    for words in ("stop", "what about gpu-030?", "hand off", "stop"):
        await terse.slack.say("olga", OPS, f"{mention}{words}" if words in ("stop", "hand off") else words, thread_ts=ts)
        await terse.settled()
    assert [item.kind for item in (await terse.inbox.list_waiting(incident))[len(before) :]] == ["stop", "hand_off", "stop"]


async def test_a_busy_incident_stays_below_the_limit(bot: Behind) -> None:
    incident, ts = await opened(bot)
    for n in range(1, 21):
        await bot.slack.say("olga", OPS, f"what about gpu-{n:03}?", thread_ts=ts)
    await bot.settled()
    assert len(await bot.inbox.list_waiting(incident)) == 21
    assert bot.texts(OPS) == []


async def test_what_is_said_elsewhere_or_by_the_bot_or_edited_is_none_of_its_business(bot: Behind) -> None:
    incident, ts = await opened(bot)
    await bot.slack.say("olga", OPS, "lunch?")
    await post_message(bot.context.client, OPS, ts, diagnosis.render_diagnosis(incident, REPORT))
    bot.slack.acts.edit("olga", OPS, ts, "@rackmedic job 4711 hangs, sorry, 4712")
    await bot.settled()
    assert len(await bot.items()) == 1
    assert bot.slack.stats()["counts"].get("lost_events", 0) == 0


async def test_a_closed_incident_hears_who_calls_it_and_what_opens_it_again(bot: Behind) -> None:
    incident, ts = await opened(bot)
    [item] = await bot.items()
    await bot.redis.hset(f"rm:incident:{{{incident}}}", "lifecycle", "closed")
    for words in ("the cable is in the post", "gpu-018 rebooted at 02:40"):
        await bot.slack.say("olga", OPS, words, thread_ts=ts)
    await bot.settled()
    assert await bot.inbox.list_waiting(incident) == [item]
    await bot.slack.say("olga", OPS, "still broken", thread_ts=ts)
    await bot.settled()
    await bot.slack.say("olga", OPS, "@rackmedic it is back", thread_ts=ts)
    await bot.settled()
    assert [later.text for later in await bot.inbox.list_waiting(incident)] == [item.text, "still broken", "it is back"]


async def test_a_mention_inside_a_thread_points_to_what_the_thread_said_before(bot: Behind) -> None:
    root = await bot.slack.say("dmitri", OPS, "training crashed on gpu-019", files=[("train.log", b"boom")])
    ts = await bot.slack.say("olga", OPS, "@rackmedic", thread_ts=root)
    await bot.settled()
    [item] = await bot.items()
    assert item.data["root"] == {"channel": OPS, "ts": root, "upto": ts}


async def test_files_come_as_pointers_so_that_the_ack_is_quick(bot: Behind) -> None:
    await bot.slack.say("olga", OPS, "@rackmedic see log", files=[("train.log", b"x" * 2000)])
    await bot.settled()
    [item] = await bot.items()
    assert [(file["name"], file["size"]) for file in item.data["files"]] == [("train.log", 2000)]
    assert item.attachments == ()


@pytest.mark.parametrize(("channel", "why"), [(RANDOM, "unbound"), (ACME, "shared")])
async def test_a_channel_that_is_not_served_is_told_so_once(bot: Behind, channel: str, why: str) -> None:
    await bot.slack.say("olga", channel, "@rackmedic gpu-017 is sick")
    await bot.settled()
    [said] = bot.texts(channel)
    assert said == REFUSAL_TEXTS[why]
    assert await bot.items() == []


async def test_a_story_told_in_a_direct_message_is_sent_to_the_operators_channel(bot: Behind) -> None:
    channel = bot.slack.dm("olga").id
    await bot.slack.say("olga", channel, "gpu-017 is sick")
    await bot.settled()
    [said] = bot.texts(channel)
    assert await bot.items() == []
    assert said == REFUSAL_TEXTS["im"]
    assert f"→ <#{OPS}>" in str([message["blocks"] for message in bot.slack.messages(channel, "olga") if message.get("bot_id")])


async def test_a_direct_message_shows_what_is_mine_and_what_else_i_may_see_as_links(bot: Behind) -> None:
    mine, ts = await opened(bot)
    await bot.slack.say("priya", OPS, "@rackmedic gpu-003 is slow")
    await bot.settled()
    channel = bot.slack.dm("olga").id
    await bot.slack.say("olga", channel, "what is my status?")
    await bot.settled()
    [message] = [row for row in bot.slack.messages(channel, "olga") if row.get("bot_id")]
    yours, others = str(message["blocks"]).split("Others")
    assert mine in yours
    assert f"{OPS}-{ts}|open the thread" in yours
    assert mine not in others
    assert others.count("open the thread") == 1


async def test_a_direct_message_says_what_waits_for_whom_and_approves_nothing(bot: Behind) -> None:
    channel = bot.slack.dm("olga").id
    for words in ("approvals", "approve", "help", ""):
        await bot.slack.say("olga", channel, words or "hello")
        await bot.settled()
    assert bot.texts(channel) == [direct_messages.render_direct_approvals([]).text] * 2 + [direct_messages.render_direct_help([]).text] * 2
    assert await bot.items() == []


async def test_a_stranger_is_told_nothing_in_a_direct_message(bot: Behind) -> None:
    channel = bot.slack.dm("gus").id
    await opened(bot)
    for words in ("status", "approvals", "help"):
        await bot.slack.say("gus", channel, words)
        await bot.settled()
    assert len(bot.texts(channel)) == 3
    assert set(bot.texts(channel)) == {REFUSAL_TEXTS["im"]}


async def test_help_is_said_once_and_opens_nothing(bot: Behind) -> None:
    for words in ("@rackmedic help", "@rackmedic"):
        await bot.slack.say("olga", OPS, words)
    await bot.settled()
    assert bot.texts(OPS) == [HELP] * 2
    assert await bot.items() == []


@pytest.mark.parametrize("words", ["🍕🍕🍕", "hello, what nice weather we have today, is it not", "AAAAAAAAAAAAAAAAAAAA"])
async def test_a_mention_that_tells_nothing_is_answered_in_a_line_and_opens_nothing(bot: Behind, words: str) -> None:
    await bot.slack.say("olga", OPS, f"@rackmedic {words}")
    await bot.settled()
    [said] = bot.texts(OPS)
    assert said in (notes.render_empty_report().text, HELP)
    assert await bot.items() == []


async def test_a_typed_approval_without_an_incident_is_refused_and_opens_nothing(bot: Behind) -> None:
    await bot.slack.say("olga", OPS, "@rackmedic approve apr-123")
    await bot.settled()
    assert bot.texts(OPS) == [NO_INCIDENT]
    assert await bot.items() == []


@pytest.mark.parametrize(
    "words",
    ["it's broken", "help, it hangs", "training is stuck", "borked", "hello, everything is slow", "thanks, but it died again", "???!"],
)
async def test_a_mention_that_may_be_a_complaint_opens_an_incident(bot: Behind, words: str) -> None:
    await opened(bot, f"@rackmedic {words}")


async def test_a_command_word_outside_an_incident_says_how_to_begin(bot: Behind) -> None:
    await bot.slack.say("olga", OPS, "@rackmedic recheck")
    await bot.settled()
    [said] = bot.texts(OPS)
    assert said == NO_INCIDENT


async def test_status_outside_an_incident_lists_what_is_open(bot: Behind) -> None:
    incident, _ = await opened(bot)
    await bot.slack.say("olga", OPS, "@rackmedic status")
    await bot.settled()
    [message] = [m for m in bot.slack.messages(OPS) if m.get("bot_id")]
    assert incident in str(message["blocks"])


async def test_a_message_that_cannot_be_stored_is_not_acked_and_told_once(bot: Behind) -> None:
    bot.slack.hub.patience.ack = 0.1
    bot.server.connected = False
    await bot.slack.say("olga", OPS, "@rackmedic job 4711 hangs")
    await bot.settled()
    assert bot.slack.stats()["counts"]["lost_events"] == 2
    [said] = bot.texts(OPS)
    assert said == notes.render_not_stored(True).text


async def test_what_slack_sends_again_after_an_outage_is_stored_once(bot: Behind) -> None:
    bot.slack.hub.patience.ack, bot.slack.hub.patience.retries = 0.1, (0.2, 0.2, 0.2)
    bot.server.connected = False
    await bot.slack.say("olga", OPS, "@rackmedic job 4711 hangs")
    await bot.slack.wait_for(lambda: bot.texts(OPS))
    bot.server.connected = True
    await bot.settled()
    assert len(await bot.items()) == 1
    assert bot.slack.stats()["counts"].get("lost_events", 0) == 0


REPORT = Report(
    item="x",
    outcome="diagnosed",
    headline="GPU 5 fell off",
    root_causes=(Hypothesis(label="GPU.BUS.Fell_Off", hosts=("gpu-017",), devices=("gpu-017/gpu5",), confidence=0.97, because="Xid 79"),),
)


async def reported(bot: Behind) -> tuple[str, str, str]:
    """Open an incident and post its report; return (id, thread ts, report ts)."""
    incident, ts = await opened(bot)
    return incident, ts, await post_message(bot.context.client, OPS, ts, diagnosis.render_diagnosis(incident, REPORT))


@pytest.mark.parametrize(
    ("button", "kind", "data"), [(diagnosis.HAND_OFF_ACTION_ID, "hand_off", {"report": "x"}), (incident_menu.MENU_ACTION_ID, "recheck", {})]
)
async def test_a_click_on_a_report_becomes_an_item(bot: Behind, button: str, kind: str, data: dict[str, str]) -> None:
    incident, _, card = await reported(bot)
    chosen = json.dumps([kind, incident], separators=(",", ":")) if button == incident_menu.MENU_ACTION_ID else None
    delivery = await bot.slack.click("priya", card, button, value=chosen)
    await bot.settled()
    last = (await bot.inbox.list_waiting(incident))[-1]
    assert delivery.acked
    assert (last.kind, last.user, last.data) == (kind, "U0PRIYA", data)
    assert bot.woken == [incident, incident]


async def test_details_show_the_incidents_present_state(bot: Behind) -> None:
    incident, _, card = await reported(bot)
    await bot.slack.click("priya", card, diagnosis.DETAILS_ACTION_ID)
    await bot.settled()
    assert str(details.NoReportYet()) in str(bot.slack.whispers("priya"))
    bot.states[incident] = {"id": incident, "report": REPORT.model_dump(mode="json")}
    await bot.slack.click("priya", card, diagnosis.DETAILS_ACTION_ID)
    await bot.settled()
    view = bot.slack.view("priya")
    assert view is not None
    assert "GPU.BUS.Fell_Off" in str(view["blocks"])
    assert details.INCIDENT_WENT_ON_TEXT not in str(view["blocks"])
    bot.states[incident] = {"id": incident, "report": REPORT.model_copy(update={"item": "later"}).model_dump(mode="json")}
    await bot.slack.click("olga", card, diagnosis.DETAILS_ACTION_ID)
    await bot.settled()
    assert details.INCIDENT_WENT_ON_TEXT in str(bot.slack.view("olga"))
    assert len(await bot.inbox.list_waiting(incident)) == 1


async def test_details_are_refused_to_people_who_may_not_read_the_thread(bot: Behind) -> None:
    incident, ts, card = await reported(bot)
    bot.states[incident] = {"id": incident, "report": REPORT.model_dump(mode="json")}
    _, elsewhere = await opened(bot, "@rackmedic gpu-003 is slow")
    foreign = await post_message(bot.context.client, OPS, elsewhere, diagnosis.render_diagnosis(incident, REPORT))
    for who, ts in (("gus", card), ("olga", foreign)):
        await bot.slack.click(who, ts, diagnosis.DETAILS_ACTION_ID)
        await bot.settled()
        assert bot.slack.view(who) is None
        assert bot.slack.whispers(who)


async def test_the_chosen_host_counts_as_a_reply_of_the_person(bot: Behind) -> None:
    incident, ts = await opened(bot)
    report = REPORT.model_copy(update={"unknown_hosts": (UnknownName("gpu-099", ("gpu-019", "gpu-009")),)})
    card = await post_message(bot.context.client, OPS, ts, diagnosis.render_diagnosis(incident, report))
    await bot.slack.click("priya", card, questions.HOST_CHOICE_ACTION_ID, value="gpu-009")
    await bot.settled()
    last = (await bot.inbox.list_waiting(incident))[-1]
    assert (last.kind, last.user, last.text, last.data) == ("reply", "U0PRIYA", "gpu-009", {"report": "x"})


async def test_a_guest_may_read_along_but_not_click(bot: Behind) -> None:
    incident, _, card = await reported(bot)
    await bot.slack.click("gus", card, diagnosis.HAND_OFF_ACTION_ID)
    await bot.settled()
    assert len(await bot.inbox.list_waiting(incident)) == 1
    assert NOT_FULL_MEMBER_TEXT in str(bot.slack.whispers("gus"))


@pytest.mark.parametrize(("person", "change"), [("gus", {}), ("olga", {"is_ultra_restricted": True}), ("olga", {"team_id": "T0ELSE"})])
async def test_who_is_no_full_member_opens_nothing_and_is_told_so(bot: Behind, person: str, change: dict[str, object]) -> None:
    user = bot.slack.workspace.user(person)
    for name, value in change.items():
        setattr(user, name, value)
    await bot.slack.say(person, OPS, "@rackmedic gpu-017 is sick")
    await bot.settled()
    assert await bot.items() == []
    [said] = bot.texts(OPS, person)
    assert said == NOT_FULL_MEMBER_TEXT


async def test_a_guests_facts_are_heard_but_not_their_commands(bot: Behind) -> None:
    incident, ts = await opened(bot)
    for words in ("stop", "gpu-018 hangs with Xid 79", "@rackmedic hand off"):
        await bot.slack.say("gus", OPS, words, thread_ts=ts)
    await bot.settled()
    assert [item.text for item in (await bot.inbox.list_waiting(incident))[1:]] == ["gpu-018 hangs with Xid 79"]


async def test_a_named_alert_source_opens_an_incident_without_a_mention_and_other_bots_none(bot: Behind) -> None:
    event = {"type": "message", "subtype": "bot_message", "channel": OPS, "ts": "1700000000.000100", "text": "GPU down on gpu-017"}
    for source in ("B0OTHER", "B0ALERT"):
        arrival = parse_message({"team_id": TEAM, "event": event | {"bot_id": source}}, "U0RACKMED", {"B0ALERT"})
        if arrival:
            await handle_message(bot.messages, arrival)
    [item] = await bot.items()
    assert (item.kind, item.user, item.text) == ("mention", "B0ALERT", "GPU down on gpu-017")


async def test_a_second_mention_of_the_same_hosts_joins_the_first_thread_and_is_told_so_once(bot: Behind) -> None:
    incident, ts = await opened(bot)
    again = await bot.slack.say("priya", OPS, "@rackmedic gpu-018 does not answer, anybody?")
    await bot.settled()
    assert await bot.inbox.list_open_incidents() == [incident]
    assert [(item.kind, item.user, item.text) for item in (await bot.inbox.list_waiting(incident))[1:]] == [
        ("reply", "U0PRIYA", "gpu-018 does not answer, anybody?")
    ]
    assert await bot.inbox.find_incident(TEAM, OPS, again) is None
    [told] = [message for message in bot.slack.messages(OPS, "priya") if message.get("bot_id")]
    assert (told["thread_ts"], told["text"] == notes.render_joined_thread(TEAM, OPS, ts).text) == (again, True)
    assert f"thread/{OPS}-{ts}|" in str(told["blocks"])
    assert "<@" not in str(told["blocks"])
    assert "<!" not in str(told["blocks"])
    assert [news.stage for news in bot.news] == ["queued"]


STOPPED: IncidentState = {"stopped": True}


@pytest.mark.parametrize(
    ("state", "silent", "words", "joins"),
    [
        ({}, timedelta(0), "gpu-018 does not answer", True),
        ({}, timedelta(minutes=4), "gpu-018 does not answer", True),
        ({}, timedelta(minutes=6), "gpu-018 does not answer", False),
        ({}, timedelta(hours=30), "job 4711 hangs again", False),
        (STOPPED, timedelta(0), "gpu-018 does not answer", False),
        (STOPPED, timedelta(0), "job 4711 hangs", False),
        (STOPPED, timedelta(hours=2), "gpu-[017-018] are slow", False),
    ],
)
async def test_a_report_joins_only_an_incident_that_is_worked_on(
    bot: Behind, state: IncidentState, silent: timedelta, words: str, joins: bool
) -> None:
    incident, ts = await opened(bot)
    await answered(bot, incident, state)
    await spoken(bot, incident, silent)
    again = await bot.slack.say("priya", OPS, f"@rackmedic {words}")
    await bot.settled()
    own = await bot.inbox.find_incident(TEAM, OPS, again)
    assert (own is None) == joins
    assert (notes.render_joined_thread(TEAM, OPS, ts).text in bot.texts(OPS)) == joins
    assert notes.render_joined_hidden_thread().text not in bot.texts(OPS)
    if own:
        assert [item.kind for item in await bot.inbox.list_waiting(own)] == ["mention"]


async def test_a_report_right_after_stop_does_not_wait_for_the_turn_of_the_stop(bot: Behind) -> None:
    _, ts = await opened(bot)
    await bot.slack.say("olga", OPS, "stop", thread_ts=ts)
    await bot.settled()  # Slack delivers events of two threads in any order
    again = await bot.slack.say("priya", OPS, "@rackmedic gpu-018 does not answer")
    await bot.settled()
    assert await bot.inbox.find_incident(TEAM, OPS, again)


async def test_alerts_join_a_silent_incident_as_before(bot: Behind) -> None:
    incident, _ = await opened(bot)
    await answered(bot, incident, {})
    await spoken(bot, incident, timedelta(hours=2))
    event = {"type": "message", "bot_id": "B0ALERT", "channel": OPS, "ts": "1700000000.000100", "text": "GPU down on gpu-017"}
    arrival = parse_message({"team_id": TEAM, "event": event}, "U0RACKMED", {"B0ALERT"})
    assert arrival
    await handle_message(bot.messages, arrival)
    assert await bot.inbox.list_open_incidents() == [incident]


async def spoken(bot: Behind, incident: str, ago: timedelta) -> None:
    """Set the time of the thread's last message to `ago` before now."""
    at = bot.context.clock.now() - ago
    await bot.redis.hset(RedisKeys().incident_key(incident, "pulse"), "ts", f"{at.timestamp():.6f}")


async def answered(bot: Behind, incident: str, state: IncidentState) -> None:
    """Finish all waiting items and set the incident's state."""
    bot.states[incident] = state
    leases = Leases(bot.redis, WallClock(), seconds=30)
    lease = await leases.acquire(incident)
    assert lease
    for item in await bot.inbox.list_waiting(incident):
        await bot.inbox.finish_item(
            incident, lease.token, item.id, "open", {}, keep=None, fingerprint=compute_fingerprint(item.text, HOSTS)
        )
    await lease.release()


async def test_diagnose_this_about_the_same_job_joins_as_well(bot: Behind) -> None:
    incident, first = await opened(bot)
    ts = await bot.slack.say("dmitri", OPS, "is job 4711 stuck for anybody else?")
    await bot.slack.shortcut("olga", OPS, ts, "diagnose_this")
    await bot.settled()
    assert await bot.inbox.list_open_incidents() == [incident]
    assert notes.render_joined_thread(TEAM, OPS, first).text in bot.texts(OPS)


async def test_a_mention_of_other_hosts_or_of_none_opens_its_own_incident(bot: Behind) -> None:
    await opened(bot)
    for text in ("@rackmedic gpu-[020-021] are slow", "@rackmedic everything is slow"):
        await bot.slack.say("priya", OPS, text)
    await bot.settled()
    assert len(await bot.inbox.list_open_incidents()) == 3


@pytest.fixture
async def two_rooms() -> AsyncIterator[Behind]:
    """Run the bot with an operators' channel, and a channel that may see one group's hosts only."""
    rows = (ChannelRow(channel=OPS), ChannelRow(channel=RANDOM, groups=("train",)))

    def dress(context: HandlerContext, _: Redis) -> HandlerContext:
        return replace(context, channel_bindings=build_channel_bindings(rows))

    def parts(context: HandlerContext, _: Redis) -> Parts:
        return Parts(hosts_of=lambda origin: HOSTS if origin.channel == OPS else HOSTS[15:20])

    async with slack_side(dress, parts) as behind:
        yield behind


async def test_who_may_not_read_the_first_thread_gets_their_own_without_a_word_of_the_other(two_rooms: Behind) -> None:
    bot = two_rooms
    incident, ts = await opened(bot, "@rackmedic job 4711 hangs on gpu-[017-020]")
    theirs = await bot.slack.say("priya", RANDOM, "@rackmedic gpu-018 is slow")
    unseen = await bot.slack.say("priya", RANDOM, "@rackmedic what about job 4711?")
    await bot.settled()
    own = await bot.inbox.find_incident(TEAM, RANDOM, theirs)
    assert own
    assert set(await bot.inbox.list_open_incidents()) == {incident, own, await bot.inbox.find_incident(TEAM, RANDOM, unseen)}
    [told] = [message for message in bot.slack.messages(RANDOM, "priya") if message.get("bot_id")]
    assert (told["thread_ts"], told["text"]) == (theirs, notes.render_joined_hidden_thread().text)
    assert not any(word in str(told["blocks"]) for word in (ts, OPS, "gpu", "4711", incident, "<@", "<!", "https"))
    again = await bot.slack.say("olga", RANDOM, "@rackmedic gpu-018 again")
    await bot.settled()
    assert [item.text for item in (await bot.inbox.list_waiting(own))[1:]] == ["gpu-018 again"]
    assert await bot.inbox.find_incident(TEAM, RANDOM, again) is None


async def test_a_storm_of_alerts_is_one_incident_in_which_each_is_heard_once(bot: Behind) -> None:
    for n in range(60):
        what = ("temperature of GPU 3 is {}C on gpu-017", "no answer for {}s from gpu-017", "queue depth is {}")[n % 3].format(80 + n)
        event = {"type": "message", "bot_id": "B0ALERT", "channel": OPS, "ts": f"1700000000.{n:06}", "text": what}
        arrival = parse_message({"team_id": TEAM, "event": event}, "U0RACKMED", {"B0ALERT"})
        assert arrival
        await handle_message(bot.messages, arrival)
    assert [item.text for item in await bot.items()] == [
        "temperature of GPU 3 is 80C on gpu-017",
        "no answer for 81s from gpu-017",
        "queue depth is 82",
    ]
    assert bot.texts(OPS) == []


async def alert(bot: Behind, n: int, text: str) -> None:
    """Deliver the n-th message of an alert source, outside any thread."""
    event = {"type": "message", "bot_id": "B0ALERT", "channel": OPS, "ts": f"17{n:08}.000100", "text": text}
    arrival = parse_message({"team_id": TEAM, "event": event}, "U0RACKMED", {"B0ALERT"})
    assert arrival
    await handle_message(bot.messages, arrival)


async def test_a_dark_rack_is_one_incident_per_host_without_mentions() -> None:
    rack = tuple(f"gpu-{n:03}" for n in range(1, 61))
    async with slack_side(parts_of=lambda *_: Parts(hosts_of=lambda _: rack)) as bot:
        for n in range(300):
            await alert(bot, n, f"[FIRING] {rack[n % 60]} does not answer for {30 + n} s")
        assert len(await bot.inbox.list_open_incidents()) == 60
        assert len(await bot.items()) == 60
        assert bot.texts(OPS) == []
        await alert(bot, 300, f"[FIRING] temperature of {rack[7]} is 91 C")
        await bot.settled()
        assert len(await bot.inbox.list_open_incidents()) == 60
        assert sorted(item.kind for item in await bot.items()) == ["mention"] * 60 + ["reply"]


async def test_two_hundred_repeats_of_one_alert_are_heard_once(bot: Behind) -> None:
    for n in range(200):
        await alert(bot, n, f"[FIRING] queue of the trainer is {n} deep, 2026-05-20T03:{n % 60:02}:00Z")
    assert [item.text for item in await bot.items()] == ["[FIRING] queue of the trainer is 0 deep, 2026-05-20T03:00:00Z"]
    assert bot.texts(OPS) == []


async def test_alerts_of_one_job_are_one_incident_for_any_hosts(bot: Behind) -> None:
    for n, host in enumerate(HOSTS):
        await alert(bot, n, f"job 4711: rank {n} on {host} lost its connection")
    assert len(await bot.inbox.list_open_incidents()) == 1
    assert len(await bot.items()) == len(HOSTS)


async def test_a_button_counts_only_in_its_own_thread(bot: Behind) -> None:
    incident, _ = await opened(bot)
    _, elsewhere = await opened(bot, "@rackmedic gpu-003 is slow")
    card = await post_message(bot.context.client, OPS, elsewhere, diagnosis.render_diagnosis(incident, REPORT))
    await bot.slack.click("olga", card, diagnosis.HAND_OFF_ACTION_ID)
    await bot.settled()
    assert len(await bot.inbox.list_waiting(incident)) == 1
    assert str(OldButton()) in str(bot.slack.whispers("olga"))


async def test_a_click_in_a_channel_that_became_shared_does_nothing(bot: Behind) -> None:
    incident, _, card = await reported(bot)
    bot.slack.share(OPS)
    await bot.slack.click("olga", card, diagnosis.HAND_OFF_ACTION_ID)
    await bot.settled()
    assert len(await bot.inbox.list_waiting(incident)) == 1
    assert REFUSAL_TEXTS["shared"] in str(bot.slack.whispers("olga"))


async def test_a_click_that_cannot_be_stored_is_reported_to_the_person(bot: Behind) -> None:
    _, _, card = await reported(bot)
    bot.server.connected = False
    delivery = await bot.slack.click("olga", card, diagnosis.HAND_OFF_ACTION_ID)
    await bot.settled()
    assert delivery.acked
    assert notes.render_not_stored(False).text in str(bot.slack.whispers("olga"))


async def test_a_button_of_an_older_version_is_answered(bot: Behind) -> None:
    _, ts = await opened(bot)
    old = [
        {
            "type": "actions",
            "elements": [{"type": "button", "text": {"type": "plain_text", "text": "?"}, "action_id": "gone", "value": "v"}],
        }
    ]
    answer = await bot.context.client.chat_postMessage(channel=OPS, thread_ts=ts, text="old", blocks=old)
    delivery = await bot.slack.click("olga", answer["ts"], "gone")
    await bot.settled()
    assert delivery.acked
    assert str(OldButton()) in str(bot.slack.whispers("olga"))


async def ticketed(bot: Behind, **ticket_: str) -> tuple[str, str]:
    """Open an incident with a ticket; return (id, ticket ts)."""
    incident, ts = await opened(bot)
    state: IncidentState = {"id": incident, "report": REPORT.model_dump(mode="json"), "ticket": {"state": "open", **ticket_}}
    bot.states[incident] = state
    return incident, await post_message(
        bot.context.client, OPS, ts, handoff_card.render_ticket(build_handoff({**state, "ticket": {"state": "open"}}))
    )


async def test_a_ticket_is_taken_by_a_click(bot: Behind) -> None:
    incident, card = await ticketed(bot)
    await bot.slack.click("anton", card, handoff_card.TAKE_ACTION_ID)
    await bot.settled()
    assert [(item.kind, item.user) for item in (await bot.inbox.list_waiting(incident))[1:]] == [("take", "U0ANTON")]


async def test_closing_asks_for_the_root_cause_and_stores_it(bot: Behind) -> None:
    incident, card = await ticketed(bot)
    await bot.slack.click("anton", card, handoff_card.CLOSE_ACTION_ID)
    view = bot.slack.view("anton")
    assert view
    label, cause, _ = (block["element"] for block in view["blocks"])
    assert (label["initial_option"]["value"], cause["initial_value"]) == ("GPU.BUS.Fell_Off", "Xid 79")
    wrong = await bot.slack.submit("anton", view["id"], {close_form.HOSTS_BLOCK_ID: "gpu-[1-"})
    assert close_form.HOSTS_BLOCK_ID in wrong["errors"]
    slip = await bot.slack.submit(
        "anton", view["id"], {close_form.CAUSE_BLOCK_ID: "riser reseated", close_form.HOSTS_BLOCK_ID: "gpu-[017,999]"}
    )
    assert set(slip["errors"]) == {close_form.HOSTS_BLOCK_ID}
    assert "gpu-999" in slip["errors"][close_form.HOSTS_BLOCK_ID]
    taken = await bot.slack.submit(
        "anton", view["id"], {close_form.CAUSE_BLOCK_ID: "riser reseated", close_form.HOSTS_BLOCK_ID: "gpu-[017-018]"}
    )
    await bot.settled()
    assert taken == {}
    last = (await bot.inbox.list_waiting(incident))[-1]
    assert (last.kind, last.user) == ("close", "U0ANTON")
    assert last.data == {"label": "GPU.BUS.Fell_Off", "root_cause": "riser reseated", "hosts": ["gpu-017", "gpu-018"]}


async def test_a_closing_that_cannot_be_stored_keeps_the_form_open(bot: Behind) -> None:
    _, card = await ticketed(bot)
    await bot.slack.click("anton", card, handoff_card.CLOSE_ACTION_ID)
    view = bot.slack.view("anton")
    assert view
    bot.server.connected = False
    answer = await bot.slack.submit("anton", view["id"], {close_form.CAUSE_BLOCK_ID: "riser reseated"})
    assert answer["errors"] == {close_form.CAUSE_BLOCK_ID: notes.render_not_stored(False).text}


async def chosen(bot: Behind, does: str) -> tuple[str, dict[str, Any]]:
    """Open a form from the diagnosis card's overflow menu; return (incident, view that Anton sees)."""
    incident, ts = await opened(bot)
    bot.states[incident] = {"id": incident, "report": REPORT.model_dump(mode="json")}
    card = await post_message(bot.context.client, OPS, ts, diagnosis.render_diagnosis(incident, REPORT))
    message = next(message for message in bot.slack.messages(OPS) if message["ts"] == card)
    [elements] = [block["elements"] for block in message["blocks"] if block["type"] == "actions"]
    options = next(element["options"] for element in elements if element.get("action_id") == incident_menu.MENU_ACTION_ID)
    value = next(option["value"] for option in options if does in option["value"])
    await bot.slack.click("anton", card, incident_menu.MENU_ACTION_ID, value=value)
    view = bot.slack.view("anton")
    assert view
    return incident, view


async def test_an_incident_is_assigned_by_a_form_without_a_ticket(bot: Behind) -> None:
    incident, view = await chosen(bot, "assign_form")
    missing = await bot.slack.submit("anton", view["id"], {})
    assert incident_menu.PERSON_BLOCK_ID in missing["errors"]
    for nobody in ("U0RACKMED", "U0GUEST", "U0LEFT", "U0STRANGE"):
        refused = await bot.slack.submit("anton", view["id"], {incident_menu.PERSON_BLOCK_ID: nobody})
        assert "full member" in refused["errors"][incident_menu.PERSON_BLOCK_ID], nobody
    assert await bot.slack.submit("anton", view["id"], {incident_menu.PERSON_BLOCK_ID: "U0OLGA"}) == {}
    await bot.settled()
    last = (await bot.inbox.list_waiting(incident))[-1]
    assert (last.kind, last.user, last.data) == ("ask", "U0ANTON", {"said": {"intent": "assign", "person": "U0OLGA"}})


async def test_what_it_really_was_is_noted_by_a_form(bot: Behind) -> None:
    incident, view = await chosen(bot, "correct_form")
    sent = await bot.slack.submit(
        "anton", view["id"], {incident_menu.LABEL_BLOCK_ID: "SYSTEM_SOFTWARE.DRIVER.Old", incident_menu.WORDS_BLOCK_ID: "535 on the node"}
    )
    assert sent == {}
    await bot.settled()
    last = (await bot.inbox.list_waiting(incident))[-1]
    assert (last.kind, last.text) == ("ask", "535 on the node")
    assert last.data == {"said": {"intent": "correct", "labels": ["SYSTEM_SOFTWARE.DRIVER.Old"]}}


async def test_the_closing_form_opens_without_a_ticket(bot: Behind) -> None:
    incident, view = await chosen(bot, "close_form")
    assert view["callback_id"] == close_form.CLOSE_CALLBACK_ID
    values = {close_form.CLOSE_LABEL_BLOCK_ID: "GPU.BUS.Fell_Off", close_form.CAUSE_BLOCK_ID: "riser reseated"}
    assert await bot.slack.submit("anton", view["id"], values) == {}
    await bot.settled()
    assert (await bot.inbox.list_waiting(incident))[-1].kind == "close"


class Writing:
    """Records requests for incident reports."""

    def __init__(self) -> None:
        self.begun: list[tuple[str, str, str]] = []

    def begin_report(self, incident: str, place: Origin, form: Literal["md", "pdf"] = "pdf") -> None:
        self.begun.append((incident, place.channel, place.user))

    def begin_tenant_report(self, incident: str, place: Origin, customer: TenantReportContext, *, withdrawn: bool) -> None:
        raise AssertionError("that is asked for in a customer's thread")


async def test_an_incident_is_written_down_into_its_own_thread_for_who_may_press() -> None:
    writing = Writing()
    async with slack_side(parts_of=lambda *_: Parts(report_writer=writing)) as bot:
        incident, card = await ticketed(bot)
        await bot.slack.click("anton", card, handoff_card.REPORT_ACTION_ID)
        await bot.settled()
        assert writing.begun == [(incident, OPS, "U0ANTON")]
        assert len(await bot.inbox.list_waiting(incident)) == 1, "it is no turn"


async def test_a_closed_ticket_is_not_taken_from_an_old_card(bot: Behind) -> None:
    incident, card = await ticketed(bot, state="resolved")
    await bot.slack.click("anton", card, handoff_card.TAKE_ACTION_ID)
    await bot.settled()
    assert len(await bot.inbox.list_waiting(incident)) == 1
    assert "closed already" in str(bot.slack.whispers("anton"))


async def test_diagnose_this_opens_an_incident_from_another_persons_message(bot: Behind) -> None:
    ts = await bot.slack.say("dmitri", OPS, "NCCL timeout on gpu-019 & co")
    for _ in range(2):
        await bot.slack.shortcut("olga", OPS, ts, "diagnose_this")
    await bot.settled()
    [item] = await bot.items()
    assert (item.kind, item.text, item.user) == ("mention", "NCCL timeout on gpu-019 & co", "U0OLGA")
    assert await bot.inbox.find_incident(TEAM, OPS, ts) == item.incident
    assert ALREADY_OPEN in str(bot.slack.whispers("olga"))


async def test_diagnose_this_in_an_unserved_channel_is_refused_privately(bot: Behind) -> None:
    ts = await bot.slack.say("dmitri", RANDOM, "gpu-019 is slow")
    await bot.slack.shortcut("olga", RANDOM, ts, "diagnose_this")
    await bot.settled()
    assert await bot.items() == []
    assert REFUSAL_TEXTS["unbound"] in str(bot.slack.whispers("olga"))


async def test_the_command_shows_help_status_and_what_it_knows(bot: Behind) -> None:
    incident, _ = await opened(bot)
    help_, status, other = [await bot.slack.command("olga", OPS, "/rackmedic", text) for text in ("help", "status", "reboot gpu-017")]
    assert HELP in str(help_.payload)
    assert incident in str(status.payload)
    assert "/rackmedic status" in str(other.payload)


async def test_the_command_tells_nothing_in_a_customers_channel(bot: Behind) -> None:
    incident, _ = await opened(bot)
    answer = await bot.slack.command("carla", ACME, "/rackmedic", "status")
    assert incident not in str(answer.payload)
    assert "do not answer in this channel" in str(answer.payload)


async def test_home_shows_incidents_to_operators_and_a_sentence_to_guests(bot: Behind) -> None:
    incident, _ = await opened(bot)
    for user in ("olga", "gus"):
        await bot.slack.open_home(user)
    await bot.settled()
    await bot.slack.wait_for(lambda: bot.slack.home("olga") and bot.slack.home("gus"))
    assert incident in str(bot.slack.home("olga"))
    assert "full members" in str(bot.slack.home("gus"))


async def test_home_names_the_operators_channel_that_others_read_by_now(bot: Behind) -> None:
    await bot.slack.open_home("olga")
    await bot.slack.wait_for(lambda: bot.slack.home("olga"))
    assert "I do not answer there" not in str(bot.slack.home("olga"))
    bot.slack.share(OPS)
    await bot.settled()
    await bot.slack.open_home("olga")
    await bot.slack.wait_for(lambda: "I do not answer there" in str(bot.slack.home("olga")))
    assert f"<#{OPS}> is read by another organisation" in str(bot.slack.home("olga"))


async def test_our_own_mistake_is_not_acked_and_said_with_a_reference(bot: Behind) -> None:
    root = await bot.slack.say("olga", OPS, "job 4711 hangs")
    await bot.settled()
    bot.slack.hub.patience.ack = 0.1
    await bot.redis.rpush(f"rm:at:{TEAM}:{OPS}:{root}", "not what we wrote")
    with structlog.testing.capture_logs() as logs:
        await bot.slack.say("olga", OPS, "@rackmedic look", thread_ts=root)
        await bot.settled()
    assert bot.slack.stats()["counts"]["lost_events"] == 2
    [said] = bot.texts(OPS)
    assert "Internal error" in said
    assert {row["event"] for row in logs} == {"listeners.bug"}


async def test_the_home_tab_has_the_fleet_at_a_glance() -> None:
    async with slack_side(parts_of=lambda *_: Parts(host_groups={"train": HOSTS})) as bot:
        await bot.slack.open_home("olga")
        await bot.slack.wait_for(lambda: bot.slack.home("olga"))
        view = str(bot.slack.home("olga"))
        assert f"{len(HOSTS)} hosts · in no open incident" in view
