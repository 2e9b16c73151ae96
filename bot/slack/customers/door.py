"""What happens in a customer's channel → the inbox. Whoever is in that channel may report, reply and press; nobody there decides anything.

Who somebody is comes from the payload's user and their workspace. A button counts only in the thread of its own incident. What a customer says
is never a command: of all intents they have four, and the rest of it is evidence of low trust.
"""

import contextlib
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from bot.cards.blocks import Card
from bot.cards.buttons import OldButton
from bot.cards.customers import inside, living
from bot.cards.customers.answers import Answered, answered
from bot.cards.customers.phrases import phrase
from bot.desk.fair import FairPlaces
from bot.desk.pulse import May
from bot.policy import channels as policy
from bot.policy.channels import Place
from bot.refusal import Refusal
from bot.slack.client import said as blocks_of
from bot.slack.context import Surface, storing
from bot.slack.customers.refusals import TheirWords
from bot.slack.incoming import grammar
from bot.slack.incoming.messages import GET_THROUGH, heeded, item_of, understood
from bot.slack.incoming.payloads import Arrival, Payload, Rewritten, thread_of
from bot.slack.outgoing.customers import CustomerCards, place_of
from graph.conversation.addressed import Heed
from graph.conversation.customers import ANY_TIME, Want, as_wanted
from graph.conversation.intents import Intent
from graph.conversation.news import complains, tells_nothing
from graph.conversation.said import Said
from graph.incident.visible import visible_hosts
from graph.state import CUSTOMER, SIDE, WITHDRAWN, CustomerThread, Item, ItemKind, Origin
from tools.inventory.hosts import ChannelRow, Inventory

WITHDREW = "The customer took their report back. The incident stays open here until somebody closes it."

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
"""What a customer may ask for, by what was understood. What `answered` has an answer to is answered; everything else is news."""
PRESSED: Final[Mapping[str, Intent]] = {"broken": Intent.STILL_BROKEN, "works": Intent.FIXED, "person": Intent.HAND_OFF}
"""What a button does → what is stored."""
HEARD: Final[Mapping[Intent, str]] = {
    Intent.STILL_BROKEN: "heard_broken",
    Intent.FIXED: "heard_works",
    Intent.HAND_OFF: "heard_person",
    Intent.NEW_FACTS: "heard_broken",
}
"""What is stored → the phrase that answers it."""
AT_ONCE: Final = 16
"""Messages that are taken in at one time. Whoever is at it is done before Slack's patience is; the others wait in turns, a customer having half
of the places at most: of a storm that is begun all at once nothing would be stored in time, and another's one message would come last."""


@dataclass(frozen=True, slots=True)
class CustomerDoor:
    """Handed to the listeners. Raises Refusal (to be said) and StoreAway (not to be acknowledged) as the operators' side does."""

    surface: Surface
    cards: CustomerCards
    inventory: Inventory
    places: FairPlaces = field(default_factory=lambda: FairPlaces(AT_ONCE))

    def serves(self, place: Place) -> bool:
        """Whether it is a channel of a customer's, and set up."""
        row = self.surface.bound.get(place.channel)
        return row is not None and row.kind == "tenant"

    async def hear(self, arrival: Arrival) -> None:
        """Store it, answer it, or pass it over."""
        row = policy.serve_customer(arrival.place, self.surface.bound)
        if arrival.alert:
            return
        async with self.surface.in_order.of(f"{arrival.channel} {arrival.root}"), self.places.of(row.tenant):
            async with storing():
                incident = await self.surface.inbox.find(arrival.team, arrival.channel, arrival.root)
            if arrival.mention and not arrival.twin:
                self.surface.tasks.spawn("as_they_see", self._as_they_see(arrival, row))
            if incident is not None:
                await self._reply(arrival, row, incident)
            elif arrival.mention:
                await self._begin(arrival, row)

    async def hear_edit(self, edit: Rewritten, first: Callable[[str], bool]) -> None:
        """Read it where it became a message for us, or began nothing yet; else say to its author, where `first` calls that said for the first
        time, that it is not read again. Raises as `hear` does."""
        row = policy.serve_customer(edit.now.place, self.surface.bound)
        async with storing():
            incident = await self.surface.inbox.find(edit.now.team, edit.now.channel, edit.now.root)
        if incident is None or not edit.called_before:
            await self.hear(edit.now)
        elif first(f"{edit.now.key} is not read again"):
            thread = edit.now.root if edit.now.in_thread else None
            told = blocks_of(living.said(phrase("not_read_again", row.language)))
            whisper = self.surface.client.chat_postEphemeral(channel=row.channel, user=edit.now.user, thread_ts=thread, **told)
            self.surface.tasks.spawn("not_read_again", whisper)

    def words(self, channel: str) -> TheirWords | None:
        """What is read there where nothing came of what somebody did; None where it is no channel of a customer's."""
        row = self.surface.bound.get(channel)
        return TheirWords(row.language) if row is not None and row.kind == "tenant" else None

    # -- messages -----------------------------------------------------------------------------------------------------

    async def _begin(self, arrival: Arrival, row: ChannelRow) -> None:
        origin = self._origin(arrival, row)
        said = await understood(self.surface, arrival, origin)
        if not (arrival.files or arrival.in_thread) and (not said.text or tells_nothing(said, arrival.at)):
            await self._say(arrival, living.said(phrase("say_more", row.language)))
            return
        async with storing():
            kind, data = _first(said, arrival)
            make = partial(item_of, arrival, said, kind=kind, data={**data, SIDE: CUSTOMER})
            received = await self.surface.inbox.open(origin, arrival.key, make)
        if not received.duplicate:
            self.surface.stored(received.incident)
            self.surface.tasks.spawn("customer_card", self.cards.paint_first(received.incident, row.channel))

    async def _reply(self, arrival: Arrival, row: ChannelRow, incident: str) -> None:
        """What people say to each other there is quoted to our own people, and looked at by nobody."""
        origin = await self._still_theirs(arrival, incident)
        if origin is None:
            return
        said, want = as_wanted(self._as_named(await understood(self.surface, arrival, origin), origin), arrival.at)
        said = _asked_for_a_person(said)
        async with storing():
            before = await self.surface.pulse.heard(incident, arrival.ts, arrival.user, question=said.text.endswith("?"))
        heed = await heeded(self.surface, arrival, said, before)
        if heed is Heed.SILENCE:
            self._quote(origin, incident, arrival)
            return
        always = arrival.mention or said.intent in GET_THROUGH or want in ANY_TIME
        if not await self._may_answer(arrival, row, incident, always=always, alone=not before.others):
            self._quote(origin, incident, arrival)
            return
        facts = bool(arrival.files) or (heed is Heed.TAKE and want not in ANY_TIME)
        if want is Want.WITHDRAW and not facts:
            self._quote(origin, incident, arrival)
            await self._withdraw(origin, incident, arrival.key)
            await self._say(arrival, living.said(phrase("withdrawn", row.language)))
            return
        if kind := answered(said, arrival.at, facts=facts, want=want):
            self._quote(origin, incident, arrival)
            self._beside(arrival, self._answered(arrival.key, origin, incident, said, kind))
            return
        intent = ASKS.get(said.intent, Intent.NEW_FACTS)
        if intent is Intent.STATUS:
            self._beside(arrival, self._say_how_it_stands(arrival.key, incident))
            return
        told = Said(intent=intent, text=said.text)
        item = item_of(arrival, told, incident, kind=told.kind, data={**told.data(), SIDE: CUSTOMER})
        async with storing():
            new = await self.surface.inbox.enqueue(item, arrival.key)
        if new:
            self.surface.stored(incident)
            await self._say(arrival, living.said(phrase(HEARD[intent], row.language)))

    async def _may_answer(self, arrival: Arrival, row: ChannelRow, incident: str, *, always: bool, alone: bool) -> bool:
        """Whether the thread gets one more answer now; that it does not is said in one."""
        async with storing():
            may = await self.surface.pulse.may(incident, arrival.ts, always=always, mention=arrival.mention, alone=alone)
        if may is May.TRIP:
            await self._say(arrival, living.said(phrase("enough", row.language)))
        return may is May.GO

    async def _say_how_it_stands(self, key: str, incident: str) -> None:
        if answer := await self.cards.again(incident):
            await self.surface.say(answer[0], key, answer[1])

    async def _answered(self, key: str, origin: Origin, incident: str, said: Said, kind: Answered) -> None:
        """In words; and the page that they may have into their thread, where that was asked for: one that is being written comes there already."""
        if answer := await self.cards.answer(incident, said, kind):
            await self.surface.say(answer[0], key, answer[1])
        where = self.cards.theirs(origin)
        if kind != "report" or self.surface.writing is None or where is None:
            return
        side, withdrawn = await self.cards.side(incident)
        with contextlib.suppress(Refusal):
            self.surface.writing.begin_theirs(incident, where, side, withdrawn=withdrawn)

    async def _still_theirs(self, arrival: Arrival, incident: str) -> Origin | None:
        """The incident's origin; None where the channel is by now somebody else's, who are refused when they call."""
        async with storing():
            origin = await self.surface.inbox.origin(incident)
        if origin is not None and policy.customers_row(origin, self.surface.bound) is not None:
            return origin
        if arrival.mention:
            raise policy.NotServed("tenant")
        return None

    def _as_named(self, said: Said, origin: Origin) -> Said:
        """A machine of somebody else's is one that nobody knows."""
        own = visible_hosts(self.inventory, origin)
        others = tuple(host for host in said.hosts if host not in own)
        named = {"hosts": tuple(host for host in said.hosts if host in own), "unknown_hosts": (*said.unknown_hosts, *others)}
        return said.model_copy(update=named) if others else said

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

    async def _say(self, arrival: Arrival, card: Card) -> None:
        """In the thread, once. Of a mention's two events the other one speaks."""
        if not arrival.twin:
            place = Origin(kind="slack", team=arrival.team, channel=arrival.channel, thread_ts=arrival.root, user=arrival.user)
            await self.surface.say(place, arrival.key, card)

    def _beside(self, arrival: Arrival, speaks: Coroutine[Any, Any, object]) -> None:
        """Of a mention's two events the other one speaks."""
        if arrival.twin:
            speaks.close()
        else:
            self.surface.tasks.spawn("customer_answer", speaks)

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
        """A button on the customer's message."""
        pressed = living.read(payload)
        origin, row = await self._theirs(payload, pressed.incident)
        if pressed.does == "withdraw":
            await self._withdraw(origin, pressed.incident, _key(payload, row))
            return
        intent, user, key = PRESSED[pressed.does], payload["user"], _key(payload, row)
        told = Said(intent=intent)
        data = {**told.data(), SIDE: CUSTOMER}
        item = Item(id=key, kind=told.kind, incident=pressed.incident, at=self.surface.clock.now(), user=str(user["id"]), data=data)
        async with storing():
            new = await self.surface.inbox.enqueue(item, key)
        if new:
            self.surface.stored(pressed.incident)
            where = place_of(origin.customer) if origin.customer else origin
            shown = living.said(phrase(HEARD[intent], row.language))
            await self.surface.say(where, key, shown)

    async def _withdraw(self, origin: Origin, incident: str, key: str) -> None:
        """They need it no more: from now on nobody reminds them, and whoever is at it decides what that means."""
        item = Item(id=key, kind="timer", incident=incident, at=self.surface.clock.now(), data={"why": WITHDRAWN})
        async with storing():
            new = await self.surface.inbox.enqueue(item, key)
        if new:
            self.surface.stored(incident)
            self.surface.tasks.spawn("customer_withdraws", self._withdrawn(origin, incident))

    async def _withdrawn(self, origin: Origin, incident: str) -> None:
        await self.cards.withdraw(incident)
        await self.cards.note(origin, inside.noted(WITHDREW))

    async def _theirs(self, payload: Payload, incident: str) -> tuple[Origin, ChannelRow]:
        """The incident's origin, where the click came from its customer's own thread; else OldButton."""
        channel = str(payload["channel"]["id"])
        row = policy.serve_customer(Place("", channel), self.surface.bound)
        async with storing():
            origin = await self.surface.inbox.origin(incident)
        if (
            origin is None
            or origin.customer is None
            or policy.customers_row(origin, self.surface.bound) is None
            or (origin.customer.channel, origin.customer.thread_ts) != (channel, thread_of(payload))
        ):
            raise OldButton
        return origin, row


def _key(payload: Payload, row: ChannelRow) -> str:
    """One click, however often it comes."""
    action, user = payload["actions"][0], payload["user"]
    return f"{user.get('team_id')}.{row.channel}.{action['action_id']}.{user['id']}.{action.get('action_ts') or payload.get('trigger_id')}"


def _first(said: Said, arrival: Arrival) -> tuple[ItemKind, dict[str, Any]]:
    """What a first message is: a report, at which we look; or only the wish for a person, who is called without a look."""
    wish = _asked_for_a_person(as_wanted(said, arrival.at)[0])
    named = said.hosts or said.unknown_hosts or said.job or said.device
    if wish.intent is not Intent.HAND_OFF or named or arrival.files or arrival.in_thread or complains(said.text, arrival.at):
        return "mention", {}
    told = Said(intent=Intent.HAND_OFF, text=said.text)
    return told.kind, told.data()


def _asked_for_a_person(said: Said) -> Said:
    """What nearly asks for a person does: there is always one behind a customer's thread, and too many cost less than one in vain."""
    nearly = said.intent is Intent.NOT_UNDERSTOOD and Intent.HAND_OFF in said.suggestions
    return said.model_copy(update={"intent": Intent.HAND_OFF, "sure": True}) if nearly else said
