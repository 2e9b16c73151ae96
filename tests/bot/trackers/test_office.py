"""From the ticket card's button to an external ticket and back: preview, confirm, send once, follow in the thread."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from bot.incidents.cards import diagnosis, handoff_card
from bot.incidents.cards.handoff_content import build_handoff
from bot.incidents.handlers.services import MessageServices
from bot.slack.client import post_message
from bot.slack.posted_messages import EditableMessages, PostedCards
from bot.store.external_outbox import Outbox, build_tracker_outbox_keys
from bot.trackers import cards as ticket_form
from bot.trackers.handlers import TrackerCards, TrackerHandlers
from bot.trackers.ticket_sync import TicketSync
from bot.trackers.tracker_kinds import KINDS
from graph.state import IncidentState
from tests.support.clock import SetClock, WallClock
from tests.support.fakes_bot import OPS, Behind, Features, slack_side
from tests.support.trackers import StandInTracker, config_of, stand_in

STATE: IncidentState = {
    "brief": {"text": "job 4711 hangs", "hosts": ["gpu-003"]},
    "report": {"item": "x", "outcome": "handed_off", "headline": "GPU 7 of gpu-003 <fell> & off the bus"},
    "ticket": {"state": "open"},
}


@dataclass
class Office:
    bot: Behind
    theirs: StandInTracker
    cards: TrackerCards
    clock: SetClock
    thread: str
    incident: str
    card: str

    async def sweep(self, **later: float) -> None:
        self.clock.go(**later)

        async def open_still(_: str) -> str | None:
            return None

        await TicketSync(
            self.cards.outbox, self.cards.trackers, self.clock, self.cards.update_card, open_still, self.cards.quote_remark
        ).sweep()
        await self.bot.settled()

    async def opened(self, who: str = "priya") -> Any:
        await self.bot.slack.click(who, self.card, ticket_form.OPEN_ACTION_ID)
        await self.bot.settled()
        return self.bot.slack.view(who)

    def shown(self) -> str:
        rows = self.bot.slack.thread(OPS, self.thread)
        return json.dumps([[row["text"], row.get("blocks")] for row in rows if row.get("bot_id")], ensure_ascii=False)


@asynccontextmanager
async def office(kind: str = "jira") -> AsyncIterator[Office]:
    clock, made = SetClock(WallClock().now()), list[TrackerCards]()
    async with stand_in(clock) as theirs:
        row = KINDS[kind]
        tracker = row.open(kind, row.config.model_validate(config_of(kind, theirs.url)), clock)

        def features(messages: MessageServices, redis: Any) -> Features:
            context = messages.context
            kept, outbox = EditableMessages(context.client, PostedCards(redis)), Outbox(redis, clock, build_tracker_outbox_keys())
            made.append(
                TrackerCards(context.client, kept, context.inbox, context.people, outbox, {kind: tracker}, context.channel_bindings)
            )
            return Features(trackers=TrackerHandlers(context, made[0], {}, ()))

        async with slack_side(features_of=features) as bot:
            thread = await bot.slack.say("priya", OPS, "@rackmedic job 4711 hangs on gpu-003")
            await bot.settled()
            incident = str(await bot.inbox.find_incident("T0RACK", OPS, thread))
            bot.states[incident] = {**STATE, "id": incident}
            elsewhere = ticket_form.render_open_buttons(incident, [(kind, tracker.words)])
            card = await post_message(
                bot.context.client, OPS, thread, handoff_card.render_ticket(build_handoff(bot.states[incident]), elsewhere=elsewhere)
            )
            yield Office(bot, theirs, made[0], clock, thread, incident, card)


async def test_a_ticket_is_shown_confirmed_sent_and_followed_until_it_is_done_there() -> None:
    async with office() as at:
        view = await at.opened()
        words = json.dumps(view, ensure_ascii=False)
        assert [word for word in ("Nothing was sent yet", "OPS", "rackmedic-inc", "job 4711 hangs") if word not in words] == []
        assert at.theirs.made == 0
        assert (
            await at.bot.slack.submit("priya", view["id"], {ticket_form.TITLE_BLOCK_ID: "Riser of gpu-003, password=hunter2hunter2"}) == {}
        )
        await at.bot.settled()
        assert "On its way to Jira" in at.shown()
        await at.sweep(seconds=1)
        [theirs] = at.theirs.tickets.values()
        assert (theirs["title"].startswith("Riser of gpu-003"), "hunter2" in theirs["title"]) == (True, False)
        assert f"{at.theirs.url}/browse/OPS-10000" in at.shown()
        await at.sweep(seconds=6)
        assert "To Do" in at.shown()
        theirs |= {"state": "Done", "done": True}
        await at.sweep(seconds=61)
        assert "I verified nothing" in at.shown()
        assert diagnosis.RECHECK_ACTION_ID in at.shown()
        assert await at.bot.inbox.get_lifecycle(at.incident) != "closed"


# each tracker's name for a finished ticket
STATES = {"jira": "Done", "servicenow": "6", "pagerduty": "resolved", "github": "closed", "webhook": "done"}


@pytest.mark.parametrize("kind", KINDS)
async def test_every_tracker_is_asked_by_a_person_linked_in_the_thread_and_heard_of_when_it_is_done(kind: str) -> None:
    async with office(kind) as at:
        view = await at.opened()
        assert at.theirs.made == 0
        await at.bot.slack.submit("priya", view["id"], {ticket_form.TITLE_BLOCK_ID: "Riser of gpu-003"})
        await at.bot.settled()
        await at.sweep(seconds=1)
        [theirs] = at.theirs.tickets.values()
        assert theirs["title"] == "Riser of gpu-003"
        await at.sweep(seconds=6)
        assert f"<{at.theirs.url}" in at.shown(), "the link"
        assert "I verified nothing" not in at.shown()
        theirs |= {"state": STATES[kind], "done": True}
        await at.sweep(seconds=61)
        assert "I verified nothing" in at.shown()
        assert not await at.opened("anton")
        assert at.theirs.made == 1


async def test_once_it_is_there_the_button_says_so_and_opens_nothing() -> None:
    async with office() as at:
        view = await at.opened()
        await at.bot.slack.submit("priya", view["id"], {})
        await at.bot.settled()
        await at.sweep(seconds=1)
        assert not await at.opened("anton")
        assert "has it already" in str(at.bot.slack.whispers("anton"))


async def test_what_was_shown_to_one_is_not_sent_once_another_was_shown_something_newer() -> None:
    async with office() as at:
        old = await at.opened("priya")
        at.bot.states[at.incident]["report"]["headline"] = "Something else"
        await at.opened("anton")
        answer = await at.bot.slack.submit("priya", old["id"], {})
        assert "moved on meanwhile" in str(answer["errors"])
        assert at.theirs.made == 0


async def test_a_guest_sees_nothing_of_what_would_leave() -> None:
    async with office() as at:
        assert not await at.opened("gus")
