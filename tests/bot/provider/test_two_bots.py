"""A tenant's RackMedic and its provider's over the link: preview, send by click, poll the state. The provider never
connects to the tenant's network.
"""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest

from bot.incidents.handlers.services import MessageServices
from bot.provider import cards as provider_ticket
from bot.provider.handlers import ProviderCards, ProviderHandlers
from bot.provider.link import ProviderLink
from bot.provider.ticket_documents import BuiltTicket, IncidentNotFound
from bot.provider.ticket_sender import TicketSender
from bot.provider.ticket_threads import TicketThreads
from bot.slack.posted_messages import EditableMessages, PostedCards
from bot.store.external_outbox import Outbox, build_provider_outbox_keys
from graph.report import Report
from graph.state import InboxItem, IncidentState, Origin
from kb.taxonomy.loader import load_taxonomy
from tests.support.clock import WallClock
from tests.support.fakes_bot import OPS, Behind, Features, slack_side
from tests.support.intakes import Provider, provider
from tests.support.tickets import SAID

OURS: IncidentState = {"report": {"item": "x", "outcome": "diagnosed", "root_causes": [{"label": "GPU.BUS.Fallen_Off_Bus"}]}}
THEIR_OWN: IncidentState = {"report": {"item": "x", "outcome": "diagnosed", "root_causes": [{"label": "USER.CONFIG.NCCL_IB_HCA_Wrong"}]}}
REPORT = Report(item="x", outcome="diagnosed")


MADE_TICKET = BuiltTicket(SAID)


@dataclass
class Site:
    """A tenant's site: Slack, an incident in a thread, and the ticket to send."""

    bot: Behind
    cards: ProviderCards
    thread: str = ""
    incident: str = ""

    def sender(self, link: ProviderLink) -> TicketSender:
        return TicketSender(self.cards.outbox, link, self.cards.update_card, self.cards.post_provider_message, ask_every=timedelta())

    def shown(self) -> str:
        rows = self.bot.slack.thread(OPS, self.thread)
        return json.dumps([[row["text"], row.get("blocks")] for row in rows if row.get("bot_id")], ensure_ascii=False)

    def button(self, action: str) -> str:
        """Return the ts of the message with this button, or ""."""
        rows: list[Any] = [
            (row["ts"], block.get("elements", [])) for row in self.bot.slack.thread(OPS, self.thread) for block in row.get("blocks") or []
        ]
        return next((str(ts) for ts, elements in rows if any(one.get("action_id") == action for one in elements)), "")

    async def press(self, action: str, who: str = "priya") -> None:
        await self.bot.slack.click(who, self.button(action), action)
        await self.bot.settled()

    def files(self) -> list[str]:
        return [str(one.get("name")) for row in self.bot.slack.thread(OPS, self.thread) for one in row.get("files") or []]


@asynccontextmanager
async def site(made: BuiltTicket | IncidentNotFound | list[BuiltTicket] = MADE_TICKET) -> AsyncIterator[Site]:
    async def document_of(_: str) -> BuiltTicket:
        if isinstance(made, IncidentNotFound):
            raise made
        return made.pop(0) if isinstance(made, list) else made

    found: list[ProviderCards] = []

    def features(messages: MessageServices, redis: Any) -> Features:
        context = messages.context
        kept = EditableMessages(context.client, PostedCards(redis))
        outbox = Outbox(redis, WallClock(), build_provider_outbox_keys())
        found.append(ProviderCards(context.client, kept, context.inbox, context.people, outbox, load_taxonomy()))
        return Features(provider=ProviderHandlers(context, found[0], document_of))

    async with slack_side(features_of=features) as bot:
        here = Site(bot, found[0])
        here.thread = await bot.slack.say("priya", OPS, "@rackmedic job 4711 hangs on gpu-[017-018]")
        await bot.settled()
        here.incident = str(await bot.inbox.find_incident("T0RACK", OPS, here.thread))
        yield here


@asynccontextmanager
async def providers() -> AsyncIterator[tuple[Behind, Provider]]:
    async with slack_side() as bot, provider(bot.redis, WallClock(), bot.inbox) as at:
        yield bot, at


async def test_a_ticket_goes_from_a_click_at_the_customers_to_proved_at_the_providers() -> None:
    async with site() as here, providers() as (theirs, at):
        await here.cards.update_after_turn(here.incident, THEIR_OWN, REPORT)
        assert not here.button(provider_ticket.SHOW_ACTION_ID)
        await here.cards.update_after_turn(here.incident, OURS, REPORT)
        await here.press(provider_ticket.SHOW_ACTION_ID)
        assert here.files() == [f"ticket-{here.incident}.json"]
        sender = here.sender(at.link())
        assert await sender.sweep() == 0
        assert await at.inbox.list_open_incidents() == []

        await here.press(provider_ticket.SEND_ACTION_ID)
        assert "On its way to your provider" in here.shown()
        assert await sender.sweep() == 1
        [incident] = await at.inbox.list_open_incidents()
        assert "not taken yet" in here.shown()
        assert incident in here.shown()

        threads = await begun(theirs, at, incident)
        assert "acme's own RackMedic sent a ticket" in threads
        assert "~0123456789ab hangs since 02:40" in threads

        for lifecycle, ticket, says in (
            ("handed_off", "taken", "One of our people has it."),
            ("watching", "taken", "Repaired, and proved by a test."),
            ("closed", "resolved", "Closed."),
        ):
            at.states[incident] = {"report": {"item": "x", "outcome": "handed_off"}, "ticket": {"state": ticket}, "lifecycle": lifecycle}  # type: ignore[typeddict-item]  # of a table
            await here.cards.outbox.record_state(
                await here.cards.outbox.load_row(here.incident), (await here.cards.outbox.load_row(here.incident)).state, timedelta()
            )
            await sender.sweep()
            assert says in here.shown()
        assert await sender.sweep() == 0
        assert "gpu-017" not in json.dumps([row["text"] for row in here.bot.slack.thread(OPS, here.thread) if row.get("bot_id")])


async def test_what_is_new_after_the_end_opens_the_same_ticket_again() -> None:
    shown = [BuiltTicket(SAID), BuiltTicket(SAID.model_copy(update={"left_out": 1}))]
    async with site(shown) as here, providers() as (_, at):
        sender = here.sender(at.link())
        for _ in range(2):
            await here.cards.update_after_turn(here.incident, OURS, REPORT)
            await here.press(provider_ticket.SHOW_ACTION_ID)
            await here.press(provider_ticket.SEND_ACTION_ID)
            await sender.sweep()
            [incident] = await at.inbox.list_open_incidents()
            await here.cards.outbox.record_state(await here.cards.outbox.load_row(here.incident), "closed", None)
            await here.cards.update_card(here.incident)
        assert [item.kind for item in await at.inbox.list_waiting(incident)] == ["mention", "reply"]


async def begun(theirs: Behind, at: Provider, incident: str) -> str:
    """Return the thread that the provider's first turn opens."""

    async def elsewhere(item: InboxItem) -> Origin | None:
        return await at.inbox.get_origin(item.incident)

    threads = TicketThreads(
        theirs.context.client, PostedCards(theirs.redis), at.inbox, theirs.context.people, at.intake.arrivals.book, elsewhere
    )
    [item] = await at.inbox.list_waiting(incident)
    assert await threads.resolve_thread(item)
    return json.dumps([row.get("blocks") for row in theirs.slack.messages(OPS)], ensure_ascii=False)


async def test_what_the_file_shows_is_what_arrives_byte_for_value() -> None:
    async with site() as here, providers() as (_, at):
        await here.cards.update_after_turn(here.incident, OURS, REPORT)
        await here.press(provider_ticket.SHOW_ACTION_ID)
        await here.press(provider_ticket.SEND_ACTION_ID)
        await here.sender(at.link()).sweep()
        [incident] = await at.inbox.list_open_incidents()
        origin = await at.inbox.get_origin(incident)
        assert origin
        assert await at.intake.arrivals.book.load_document(origin.ticket) == SAID


async def test_while_the_provider_is_away_the_thread_says_so_and_it_goes_on_by_itself() -> None:
    async with site() as here, providers() as (_, at):
        up, at.url = at.url, "http://127.0.0.1:9"
        await here.cards.update_after_turn(here.incident, OURS, REPORT)
        await here.press(provider_ticket.SHOW_ACTION_ID)
        await here.press(provider_ticket.SEND_ACTION_ID)
        await here.sender(at.link()).sweep()
        assert "Retrying automatically" in here.shown()
        at.url = up
        row = await here.cards.outbox.load_row(here.incident)
        await here.cards.outbox.postpone_row(row, row.trouble, timedelta())
        await here.sender(at.link()).sweep()
        assert "not taken yet" in here.shown()


async def test_not_now_sends_nothing_and_an_old_button_neither() -> None:
    async with site() as here, providers() as (_, at):
        await here.cards.update_after_turn(here.incident, OURS, REPORT)
        await here.press(provider_ticket.SHOW_ACTION_ID)
        await here.press(provider_ticket.BACK_ACTION_ID)
        assert here.button(provider_ticket.SHOW_ACTION_ID)
        assert not here.button(provider_ticket.SEND_ACTION_ID)
        assert await here.sender(at.link()).sweep() == 0


async def test_a_guest_neither_sees_nor_sends() -> None:
    async with site() as here:
        await here.cards.update_after_turn(here.incident, OURS, REPORT)
        await here.press(provider_ticket.SHOW_ACTION_ID, who="gus")
        assert here.files() == []


async def test_what_cannot_be_shown_is_not_offered_to_be_sent() -> None:
    async with site(IncidentNotFound("inc-x: nothing was looked at yet")) as here:
        await here.cards.update_after_turn(here.incident, OURS, REPORT)
        await here.press(provider_ticket.SHOW_ACTION_ID)
        assert "nothing was looked at yet" in here.shown()
        assert not here.button(provider_ticket.SEND_ACTION_ID)


@pytest.mark.parametrize("stage", ["offered", "shown", "waiting", "sent", "refused"])
def test_the_card_at_each_stage_is_within_slacks_limits(stage: str) -> None:
    view = provider_ticket.ProviderTicketView("inc-1", stage, "d" * 64, "Priya", "inc-p1", "repairing", "x" * 5000, "y" * 5000, 7)
    card = provider_ticket.render_provider_ticket(view)
    assert card.blocks
    assert len(card.text) <= 1000
