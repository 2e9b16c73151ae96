"""From the button on a ticket's card to a ticket elsewhere and back: what leaves is shown, confirmed, sent once and followed in the thread."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

import pytest

from bot.cards.incidents import diagnosis, ticket
from bot.cards.incidents.handoff import handoff
from bot.cards.trackers import opening
from bot.slack.client import post
from bot.slack.context import Surface
from bot.slack.outgoing.posts import KeptMessages, PostedCards
from bot.slack.trackers.office import TrackerCards, TrackerDesk
from bot.store.outbox import Outbox, tracker_box
from bot.trackers.courier import Courier
from bot.trackers.kinds import KINDS
from graph.state import Incident
from tests.support.clock import SetClock, WallClock
from tests.support.fakes_bot import OPS, Behind, slack_side
from tests.support.trackers import StandInTracker, config_of, stand_in

STATE: Incident = {
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

        await Courier(self.cards.outbox, self.cards.trackers, self.clock, self.cards.paint, open_still, self.cards.tell).sweep()
        await self.bot.settled()

    async def opened(self, who: str = "priya") -> Any:
        await self.bot.slack.click(who, self.card, opening.OPEN)
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

        def dress(surface: Surface, redis: Any) -> Surface:
            kept, outbox = KeptMessages(surface.client, PostedCards(redis)), Outbox(redis, clock, tracker_box())
            made.append(TrackerCards(surface.client, kept, surface.inbox, surface.people, outbox, {kind: tracker}, surface.bound))
            return replace(surface, tracking=TrackerDesk(surface, made[0], {}, ()))

        async with slack_side(dress) as bot:
            thread = await bot.slack.say("priya", OPS, "@rackmedic job 4711 hangs on gpu-003")
            await bot.settled()
            incident = str(await bot.inbox.find("T0RACK", OPS, thread))
            bot.states[incident] = {**STATE, "id": incident}
            elsewhere = opening.offers(incident, [(kind, tracker.words)])
            card = await post(bot.surface.client, OPS, thread, ticket.render(handoff(bot.states[incident]), elsewhere=elsewhere))
            yield Office(bot, theirs, made[0], clock, thread, incident, card)


async def test_a_ticket_is_shown_confirmed_sent_and_followed_until_it_is_done_there() -> None:
    async with office() as at:
        view = await at.opened()
        words = json.dumps(view, ensure_ascii=False)
        assert [word for word in ("Nothing was sent yet", "OPS", "rackmedic-inc", "job 4711 hangs") if word not in words] == []
        assert at.theirs.made == 0
        assert await at.bot.slack.submit("priya", view["id"], {opening.TITLE: "Riser of gpu-003, password=hunter2hunter2"}) == {}
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
        assert "nothing was proved here" in at.shown()
        assert diagnosis.RECHECK in at.shown()
        assert await at.bot.inbox.lifecycle(at.incident) != "closed"


STATES = {"jira": "Done", "servicenow": "6", "pagerduty": "resolved", "github": "closed", "webhook": "done"}
"""What each calls it when somebody there is through with it."""


@pytest.mark.parametrize("kind", KINDS)
async def test_every_tracker_is_asked_by_a_person_linked_in_the_thread_and_heard_of_when_it_is_done(kind: str) -> None:
    async with office(kind) as at:
        view = await at.opened()
        assert at.theirs.made == 0
        await at.bot.slack.submit("priya", view["id"], {opening.TITLE: "Riser of gpu-003"})
        await at.bot.settled()
        await at.sweep(seconds=1)
        [theirs] = at.theirs.tickets.values()
        assert theirs["title"] == "Riser of gpu-003"
        await at.sweep(seconds=6)
        assert f"<{at.theirs.url}" in at.shown(), "the link"
        assert "nothing was proved here" not in at.shown()
        theirs |= {"state": STATES[kind], "done": True}
        await at.sweep(seconds=61)
        assert "nothing was proved here" in at.shown()
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
