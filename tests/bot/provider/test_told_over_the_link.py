"""Findings and messages of the provider reach the tenant's own RackMedic with the polled state, once, marked as the
provider's.
"""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from typing import Any, cast

import pytest

from bot.incidents.context import HandlerContext
from bot.incidents.handlers.services import MessageServices
from bot.provider import cards
from bot.provider.provider_updates import MAX_MESSAGE_CHARS, MAX_MESSAGES_PER_ANSWER, ProviderCause, ProviderMessage
from bot.provider.ticket_states import MAX_UPDATE_BYTES
from bot.provider.wire_messages import BadMessage, StatesRequest, parse_states_answer, parse_states_request
from bot.refusal import Refusal
from bot.slack.posted_messages import PostedCards
from bot.tasks import to_coroutine
from bot.tenants.cards import internal_thread
from bot.tenants.tenant_updates import NO_INTAKE_OPEN, TICKET_CLOSED, TenantUpdateHandlers
from graph.state import IncidentState
from tests.bot.provider.test_two_bots import OURS, REPORT, Site, begun, site
from tests.support.clock import WallClock
from tests.support.fakes_bot import OPS, Behind, Features, slack_side
from tests.support.intakes import SITE, Provider, provider

THEIRS: Any = {
    "report": {
        "item": "x",
        "outcome": "diagnosed",
        "root_causes": [
            {
                "label": "USER.CONFIG.NCCL_SOCKET_IFNAME_Wrong",
                "hosts": ["gpu-017"],
                "confidence": 0.97,
                "because": "the inside",
                "evidence": [
                    {"host": "gpu-017", "check": "job_env", "key": "env.nccl_socket_ifname", "line": "NCCL_SOCKET_IFNAME=docker0"}
                ],
            }
        ],
    }
}


@asynccontextmanager
async def providers(*, fetched: bool = True) -> AsyncIterator[tuple[Behind, Provider]]:
    """Run the provider's bot with its own Slack."""

    def dress(context: HandlerContext, redis: Any) -> HandlerContext:
        return replace(context, channel_bindings={row.channel: row for row in SITE.channels})

    def features(messages: MessageServices, redis: Any) -> Features:
        context = messages.context

        async def view_of(incident: str, origin: Any) -> Any:
            return await here[0].intake.states.build_view(origin.tenant, incident)

        class Late:
            async def append_message(self, incident: str, key: str, words: str) -> int:
                return await here[0].told.append_message(incident, key, words)

        return Features(tenant_updates=TenantUpdateHandlers(context, PostedCards(redis), SITE, view_of, Late() if fetched else None))

    here: list[Provider] = []
    async with slack_side(dress, features_of=features) as bot, provider(bot.redis, WallClock(), bot.inbox) as at:
        here.append(at)
        yield bot, at


async def sent(here: Site, at: Provider) -> str:
    """The provider's incident for a ticket that was clicked."""
    await here.cards.update_after_turn(here.incident, OURS, REPORT)
    await here.press(cards.SHOW_ACTION_ID)
    await here.press(cards.SEND_ACTION_ID)
    await here.sender(at.link()).sweep()
    [incident] = await at.inbox.list_open_incidents()
    return incident


async def asks(here: Site, at: Provider) -> None:
    """Poll the provider once."""
    row = await here.cards.outbox.load_row(here.incident)
    await here.cards.outbox.postpone_row(row, "", timedelta())
    await here.sender(at.link()).sweep()


async def tells(bot: Behind, words: str, who: str = "olga") -> dict[str, Any]:
    """Write, preview and send a message as on-call; return the first form's answer."""
    at = [row["ts"] for row in bot.slack.messages(OPS) if internal_thread.TELL_ACTION_ID in json.dumps(row.get("blocks"))]
    await bot.slack.click(who, str(at[-1]), internal_thread.TELL_ACTION_ID)
    await bot.settled()
    answer = dict(await bot.slack.submit(who, view_of(bot, who), {internal_thread.WORDS_BLOCK_ID: {internal_thread.WORDS_BLOCK_ID: words}}))
    if not answer:
        await bot.slack.submit(who, view_of(bot, who), {})
    await bot.settled()
    return answer


def view_of(bot: Behind, who: str) -> str:
    view = bot.slack.view(who)
    assert view
    return str(view["id"])


async def test_what_on_call_tells_stands_in_the_customers_own_thread_once_and_as_the_providers_words() -> None:
    async with site() as here, providers() as (theirs, at):
        incident = await sent(here, at)
        await begun(theirs, at, incident)
        refused = await tells(theirs, "As on gpu-019 of globex: ask Priya.")
        assert "another customer (globex)" in refused["errors"][internal_thread.WORDS_BLOCK_ID]
        assert "gpu-019" in refused["errors"][internal_thread.WORDS_BLOCK_ID]
        await theirs.slack.acts.close("olga", view_of(theirs, "olga"))
        await asks(here, at)
        assert "Your provider writes" not in here.shown()

        assert await tells(theirs, "Please start again without gpu-018.\n<!channel> *now* https://x.example") == {}
        for _ in range(3):
            await asks(here, at)
        said = [row for row in here.bot.slack.thread(OPS, here.thread) if "Your provider writes" in str(row["text"])]
        assert len(said) == 1
        shown = json.dumps(said[0]["blocks"], ensure_ascii=False)
        assert "Please start again without gpu-018." in shown
        assert "forwarded unchanged" in shown
        assert "<!channel>" not in shown
        assert "https://" not in shown
        assert "olga" not in shown.lower()


async def test_words_that_slack_did_not_take_come_again_and_a_crash_in_between_says_them_once() -> None:
    async with site() as here, providers() as (_, at):
        incident = await sent(here, at)
        await at.told.append_message(incident, "V1", "One moment please.")
        row = await here.cards.outbox.load_row(here.incident)
        words = (await at.told.list_messages_after(incident, 0))[0]
        assert await here.cards.post_provider_message(here.incident, row.ticket, words), "said, and then the process died"
        await asks(here, at)
        await asks(here, at)
        assert len([row for row in here.bot.slack.thread(OPS, here.thread) if "One moment please." in str(row["text"])]) == 1
        assert (await here.cards.outbox.load_row(here.incident)).notes["heard"] == "1"


async def test_many_words_come_in_order_and_none_is_lost() -> None:
    async with site() as here, providers() as (_, at):
        incident = await sent(here, at)
        for n in range(2 * MAX_MESSAGES_PER_ANSWER + 1):
            await at.told.append_message(incident, f"V{n}", f"word {n}.")
        assert await at.told.append_message(incident, "V0", "word 0.") == 1
        for _ in range(3):
            await asks(here, at)
        said = [str(row["text"]) for row in here.bot.slack.thread(OPS, here.thread) if "Your provider writes" in str(row["text"])]
        assert said == [f"Your provider writes: word {n}." for n in range(2 * MAX_MESSAGES_PER_ANSWER + 1)]


async def test_what_was_told_just_before_the_end_is_fetched_after_it() -> None:
    async with site() as here, providers() as (_, at):
        incident = await sent(here, at)
        for n in range(MAX_MESSAGES_PER_ANSWER + 1):
            await at.told.append_message(incident, f"V{n}", f"word {n}.")
        await to_coroutine(at.redis.hset(at.intake.names.incident_key(incident), "lifecycle", "closed"))
        at.states[incident] = cast(
            IncidentState, {"report": {"item": "x", "outcome": "handed_off"}, "ticket": {"state": "resolved"}, "lifecycle": "closed"}
        )
        for _ in range(3):
            await asks(here, at)
        assert f"word {MAX_MESSAGES_PER_ANSWER}." in here.shown()


async def test_a_cause_that_is_the_customers_own_is_answered_with_the_change_to_make() -> None:
    async with site() as here, providers() as (_, at):
        incident = await sent(here, at)
        at.states[incident] = cast(IncidentState, THEIRS)
        await asks(here, at)
        shown = here.shown()
        assert "They found a cause that you can fix yourselves" in shown
        assert "NCCL_SOCKET_IFNAME=docker0" in shown
        assert "unset NCCL_SOCKET_IFNAME" in shown
        assert "It worked when:" in shown
        assert "not taken yet" not in [str(row["text"]) for row in here.bot.slack.thread(OPS, here.thread)][-1]
        assert "0.97" not in shown
        assert "the inside" not in shown
        await asks(here, at)
        news = [row for row in here.bot.slack.thread(OPS, here.thread) if str(row["text"]).startswith("🛠 Your provider")]
        assert len(news) == 1


async def test_a_cause_of_the_providers_is_named_and_the_rest_of_the_card_stays() -> None:
    async with site() as here, providers() as (_, at):
        incident = await sent(here, at)
        ours: Any = {
            "report": {"item": "x", "outcome": "diagnosed", "root_causes": [{"label": "GPU.BUS.Fallen_Off_Bus", "hosts": ["gpu-017"]}]}
        }
        at.states[incident] = cast(IncidentState, ours)
        await asks(here, at)
        assert "not taken yet" in here.shown()
        assert "gpu-017" in here.shown()


async def test_of_anothers_ticket_neither_words_nor_causes_are_told() -> None:
    async with site() as here, providers() as (_, at):
        incident = await sent(here, at)
        await at.told.append_message(incident, "V1", "For acme alone.")
        at.states[incident] = cast(IncidentState, THEIRS)
        answer = await at.intake.states.answer_states_request("globex", StatesRequest(tickets=(incident,), after={incident: 0}))
        assert (answer.states, answer.told, answer.found) == ({}, {}, {})
        plain = await at.intake.states.answer_states_request("acme", StatesRequest(tickets=(incident,)))
        assert (plain.told, plain.found) == ({}, {}), "whoever does not ask for them is told states alone"


@pytest.mark.parametrize(("fetched", "closed", "says"), [(False, False, NO_INTAKE_OPEN), (True, True, TICKET_CLOSED)])
async def test_a_message_without_a_recipient_is_refused(fetched: bool, closed: bool, says: str) -> None:
    async with site() as here, providers(fetched=fetched) as (theirs, at):
        incident = await sent(here, at)
        await begun(theirs, at, incident)
        telling = theirs.features.tenant_updates
        assert telling
        if closed:
            await to_coroutine(at.redis.hset(at.intake.names.incident_key(incident), "lifecycle", "closed"))
        view = {
            "callback_id": internal_thread.TELL_SEND_CALLBACK_ID,
            "id": "V1",
            "private_metadata": json.dumps({"incident": incident, "words": "Done."}),
        }
        with pytest.raises(Refusal, match=says[:30]):
            await telling.handle_send({"user": {"id": "U0OLGA", "team_id": "T0RACK"}, "view": view})
        assert await at.told.list_messages_after(incident, 0) == ()


def test_the_reader_of_an_answer_truncates_and_redacts_it() -> None:
    told = [{"n": 1, "at": "2026-11-23T10:00:00Z", "text": "x" * 9000, "by": "priya"}]
    found = [{"title": "t", "words": "AKIAIOSFODNN7EXAMPLE " + "y" * 9000, "colour": "red"}]
    answer = parse_states_answer(json.dumps({"states": {"inc-1": "taken"}, "told": {"inc-1": told}, "found": {"inc-1": found}}).encode())
    assert len(answer.told["inc-1"][0].text) == MAX_MESSAGE_CHARS
    assert "AKIAIOSFODNN7EXAMPLE" not in answer.found["inc-1"][0].words
    assert len(answer.found["inc-1"][0].words) <= 600
    with pytest.raises(BadMessage):
        parse_states_answer(json.dumps({"states": {}, "told": {"inc-1": told * 6}}).encode())
    with pytest.raises(BadMessage):
        parse_states_request({"tickets": ["inc-1"], "after": {"inc-1": -1}})


def test_an_answer_of_the_largest_has_room_in_what_is_read() -> None:
    cause = ProviderCause(title="ü" * 600, words="ü" * 600, shows=("ü" * 600,) * 4, change="ü" * 600, block="ü" * 1500, works="ü" * 600)
    assert len(json.dumps(cause.model_dump(mode="json"))) * 1 < MAX_UPDATE_BYTES
    words = ProviderMessage.model_validate({"n": 1, "at": "2026-11-23T10:00:00Z", "text": "ü" * 1500})
    assert len(json.dumps(words.model_dump(mode="json"))) < MAX_UPDATE_BYTES
