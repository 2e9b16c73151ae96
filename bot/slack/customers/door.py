"""What happens in a customer's channel → the inbox. Whoever is in that channel may report, reply and press; nobody there decides anything.

Who somebody is comes from the payload's user and their workspace. A button counts only in the thread of its own incident. What a customer says
is never a command: of all intents they have four, and the rest of it is evidence of low trust.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from bot.cards.blocks import Card
from bot.cards.buttons import BadForm, OldButton
from bot.cards.customers import inside, living
from bot.cards.customers.answers import ANSWERS
from bot.cards.customers.phrases import phrase
from bot.desk.pulse import May
from bot.policy import channels as policy
from bot.policy.channels import Place
from bot.policy.leaks import Inside
from bot.refusal import Refusal
from bot.slack.client import post
from bot.slack.client import said as blocks_of
from bot.slack.context import Surface, storing
from bot.slack.incoming import grammar
from bot.slack.incoming.messages import heeded, item_of, understood
from bot.slack.incoming.payloads import Arrival, Payload, thread_of
from bot.slack.outgoing.customers import CustomerCards, place_of
from graph.conversation.addressed import Heed
from graph.conversation.intents import Intent
from graph.conversation.news import tells_nothing
from graph.conversation.said import Said
from graph.state import CUSTOMER, SIDE, CustomerThread, Item, Origin
from tools.inventory.hosts import ChannelRow, Inventory

ASKS: Final[Mapping[Intent, Intent]] = {
    Intent.RECHECK: Intent.STILL_BROKEN,
    Intent.STILL_BROKEN: Intent.STILL_BROKEN,
    Intent.REOPEN: Intent.STILL_BROKEN,
    Intent.FIXED: Intent.FIXED,
    Intent.CLOSE: Intent.FIXED,
    Intent.HAND_OFF: Intent.HAND_OFF,
    Intent.STATUS: Intent.STATUS,
    Intent.SAFE_TO: Intent.STATUS,
    Intent.WHO_IS_ON_IT: Intent.STATUS,
    Intent.WHAT_NOW: Intent.STATUS,
    Intent.SUMMARY: Intent.STATUS,
}
"""What a customer may ask for, by what was understood. What `bot.cards.customers.answers` has an answer to is answered; everything else is news."""
PRESSED: Final[Mapping[str, Intent]] = {"broken": Intent.STILL_BROKEN, "works": Intent.FIXED, "person": Intent.HAND_OFF}
"""What a button does → what is stored."""
HEARD: Final[Mapping[Intent, str]] = {
    Intent.STILL_BROKEN: "heard_broken",
    Intent.FIXED: "heard_works",
    Intent.HAND_OFF: "heard_person",
    Intent.NEW_FACTS: "heard_broken",
}
"""What is stored → the phrase that answers it."""
MOST_PEOPLE = 60
"""Members of the operators' channel whose names are looked for; each is asked of Slack once a minute at most."""
LONGEST_COMPLAINT = 900
"""Characters of what Slack shows under a field."""


@dataclass(frozen=True, slots=True)
class CustomerDoor:
    """Handed to the listeners. Raises Refusal (to be said) and StoreAway (not to be acknowledged) as the operators' side does."""

    surface: Surface
    cards: CustomerCards
    inventory: Inventory

    def serves(self, place: Place) -> bool:
        """Whether it is a channel of a customer's, and set up."""
        row = self.surface.bound.get(place.channel)
        return row is not None and row.kind == "tenant"

    async def hear(self, arrival: Arrival) -> None:
        """Store it, answer it, or pass it over."""
        row = policy.serve_customer(arrival.place, self.surface.bound)
        if arrival.alert:
            return
        async with self.surface.in_order.of(f"{arrival.channel} {arrival.root}"):
            async with storing():
                incident = await self.surface.inbox.find(arrival.team, arrival.channel, arrival.root)
            if arrival.mention and not arrival.twin:
                self.surface.tasks.spawn("as_they_see", self._as_they_see(arrival, row))
            if incident is not None:
                await self._reply(arrival, row, incident)
            elif arrival.mention:
                await self._begin(arrival, row)

    # -- messages -----------------------------------------------------------------------------------------------------

    async def _begin(self, arrival: Arrival, row: ChannelRow) -> None:
        origin = self._origin(arrival, row)
        said = await understood(self.surface, arrival, origin)
        if not (arrival.files or arrival.in_thread) and (not said.text or tells_nothing(said, arrival.at)):
            self._say(arrival, living.said(phrase("say_more", row.language)))
            return
        async with storing():
            make = partial(item_of, arrival, said, kind="mention", data={SIDE: CUSTOMER})
            received = await self.surface.inbox.open(origin, arrival.key, make)
        if not received.duplicate:
            self.surface.stored(received.incident)
            self.surface.tasks.spawn("customer_card", self.cards.paint_quietly(received.incident))

    async def _reply(self, arrival: Arrival, row: ChannelRow, incident: str) -> None:
        """What people say to each other there is quoted to our own people, and looked at by nobody."""
        async with storing():
            origin = await self.surface.inbox.origin(incident)
        if origin is None or origin.customer is None:
            raise policy.NotServed("tenant")
        said = _asked_for_a_person(await understood(self.surface, arrival, origin))
        async with storing():
            before = await self.surface.pulse.heard(incident, arrival.ts, arrival.user, question=said.text.endswith("?"))
        if await heeded(self.surface, arrival, said, before) is Heed.SILENCE:
            self._quote(origin, incident, arrival)
            return
        async with storing():
            may = await self.surface.pulse.may(incident, arrival.ts, always=arrival.mention, mention=arrival.mention)
        if may is not May.GO:
            self._quote(origin, incident, arrival)
            return
        if said.intent in ANSWERS and not arrival.files:
            self._quote(origin, incident, arrival)
            if not arrival.twin:
                self.surface.tasks.spawn("customer_answer", self.cards.answer(incident, said))
            return
        intent = ASKS.get(said.intent, Intent.NEW_FACTS)
        if intent is Intent.STATUS:
            self.surface.tasks.spawn("customer_card", self.cards.again(incident))
            return
        told = Said(intent=intent, text=said.text)
        item = item_of(arrival, told, incident, kind=told.kind, data={**told.data(), SIDE: CUSTOMER})
        async with storing():
            new = await self.surface.inbox.enqueue(item, arrival.key)
        if new:
            self.surface.stored(incident)
            self._say(arrival, living.said(phrase(HEARD[intent], row.language)))

    def _origin(self, arrival: Arrival, row: ChannelRow) -> Origin:
        came = CustomerThread(
            team=arrival.team,
            channel=arrival.channel,
            thread_ts=arrival.root,
            user=arrival.user,
            user_team=arrival.user_team or arrival.team,
        )
        return Origin(kind="slack", team=arrival.team, channel=row.internal, user=arrival.user, tenant=row.tenant, customer=came)

    def _quote(self, origin: Origin, incident: str, arrival: Arrival) -> None:
        if origin.thread_ts and not arrival.twin:
            names = [file.name for file in arrival.files]
            words = grammar.people_see(arrival.raw)
            self.surface.tasks.spawn("customer_quote", self.cards.quote(origin, incident, arrival.key, words, names))

    def _say(self, arrival: Arrival, card: Card) -> None:
        """In the thread, once: of a mention's two events the other one speaks."""
        if not arrival.twin:
            self.surface.tasks.spawn("customer_answer", post(self.surface.client, arrival.channel, arrival.root, card))

    async def _as_they_see(self, arrival: Arrival, row: ChannelRow) -> None:
        """One of our own people who calls us there is told, and nobody else, that they are answered as the customer is. Whom Slack does not
        tell of is none of them."""
        people = self.surface.people
        try:
            policy.colleague(await people.person(arrival.user), arrival.team)
            ours = arrival.user_team in ("", arrival.team) and await people.in_any(arrival.user, (row.internal,))
        except Refusal:
            return
        if ours:
            thread = arrival.root if arrival.in_thread else None
            shown = blocks_of(inside.as_they_see(row.tenant, row.internal))
            await self.surface.client.chat_postEphemeral(channel=arrival.channel, user=arrival.user, thread_ts=thread, **shown)

    # -- clicks -------------------------------------------------------------------------------------------------------

    async def press(self, payload: Payload) -> None:
        """A button on the customer's message, or the one of ours that tells them something."""
        if payload["actions"][0].get("action_id") in inside.BUTTONS:
            await self._open_form(payload)
            return
        pressed = living.read(payload)
        origin, row = await self._theirs(payload, pressed.incident)
        if pressed.does == "withdraw":
            self.surface.tasks.spawn("customer_withdraws", self._withdraw(origin, pressed.incident))
            return
        intent = PRESSED[pressed.does]
        action, user = payload["actions"][0], payload["user"]
        key = (
            f"{user.get('team_id')}.{row.channel}.{action['action_id']}.{user['id']}.{action.get('action_ts') or payload.get('trigger_id')}"
        )
        told = Said(intent=intent)
        data = {**told.data(), SIDE: CUSTOMER}
        item = Item(id=key, kind=told.kind, incident=pressed.incident, at=self.surface.clock.now(), user=str(user["id"]), data=data)
        async with storing():
            new = await self.surface.inbox.enqueue(item, key)
        if new:
            self.surface.stored(pressed.incident)
            where = place_of(origin.customer) if origin.customer else origin
            shown = living.said(phrase(HEARD[intent], row.language))
            self.surface.tasks.spawn("customer_answer", post(self.surface.client, where.channel, where.thread_ts, shown))

    async def tell(self, payload: Payload) -> None:
        """The form of ours, submitted. Raises BadForm while it would carry what must not cross."""
        incident, words = inside.read_form(payload)
        origin, row = await self._ours(payload, incident)
        who = await self.surface.people.name(str(payload["user"]["id"]))
        names = {who, *(await self._people(incident, origin))}
        if found := Inside(self.inventory, origin.tenant, incident, names).leaks(words):
            raise BadForm({inside.WORDS: f"Not sent. Take out: {'; '.join(map(str, found))}."[:LONGEST_COMPLAINT]})
        if origin.customer is None or not words:
            raise BadForm({inside.WORDS: "Nothing to send."})
        where = place_of(origin.customer)
        await post(self.surface.client, where.channel, where.thread_ts, living.from_people(words, row.language))
        self.surface.tasks.spawn("customer_told", self.cards.note(origin, inside.told(who, words)))

    async def _withdraw(self, origin: Origin, incident: str) -> None:
        await self.cards.withdraw(incident)
        await self.cards.note(
            origin, inside.noted("The customer took their report back. The incident stays open here until somebody closes it.")
        )

    async def _open_form(self, payload: Payload) -> None:
        pressed = inside.read(payload)
        origin, _ = await self._ours(payload, pressed.incident)
        view = inside.form(pressed.incident, origin.tenant)
        await self.surface.client.views_open(trigger_id=str(payload["trigger_id"]), view=view)

    async def _theirs(self, payload: Payload, incident: str) -> tuple[Origin, ChannelRow]:
        """The incident's origin, where the click came from its customer's own thread; else OldButton."""
        channel = str(payload["channel"]["id"])
        row = policy.serve_customer(Place("", channel), self.surface.bound)
        async with storing():
            origin = await self.surface.inbox.origin(incident)
        if (
            origin is None
            or origin.customer is None
            or (origin.customer.channel, origin.customer.thread_ts) != (channel, thread_of(payload))
        ):
            raise OldButton
        return origin, row

    async def _ours(self, payload: Payload, incident: str) -> tuple[Origin, ChannelRow]:
        """The same for one of our own people: a colleague, in the operators' channel, which nobody else reads at this moment."""
        async with storing():
            origin = await self.surface.inbox.origin(incident)
        if origin is None or origin.customer is None or (row := self.surface.bound.get(origin.customer.channel)) is None:
            raise OldButton
        user = payload.get("user") or {}
        if str(user.get("team_id") or "") != origin.team:
            raise policy.NotAllowed(policy.NOT_OURS)
        await self.surface.admit(Place(origin.team, origin.channel), str(user["id"]), fresh=True)
        await self.surface.allow(f"form.{inside.TELL_FORM}", str(user["id"]), origin.channel)
        return origin, row

    async def _people(self, incident: str, origin: Origin) -> set[str]:
        """Names of those who had a hand in it, none of which is told."""
        state = await self.surface.state_of(incident)
        ticket: Mapping[str, Any] = state.get("ticket") or {}
        users = {str(state.get("owner") or ""), str(ticket.get("taken_by") or ""), *self._said_by(state.get("said") or [], origin)}
        users |= set(sorted(await self.surface.people.inside(origin.channel))[:MOST_PEOPLE])
        return {name for name in await asyncio.gather(*(self.surface.people.name(user) for user in users if user)) if name}

    @staticmethod
    def _said_by(said: Any, origin: Origin) -> set[str]:
        theirs = origin.customer.user if origin.customer else ""
        return {str(row.get("user") or "") for row in said} - {theirs}


def _asked_for_a_person(said: Said) -> Said:
    """What nearly asks for a person does: there is always one behind a customer's thread, and too many cost less than one in vain."""
    nearly = said.intent is Intent.NOT_UNDERSTOOD and Intent.HAND_OFF in said.suggestions
    return said.model_copy(update={"intent": Intent.HAND_OFF, "sure": True}) if nearly else said
