"""*Tell the customer…*: what our people write to a customer. A form with a draft, a leak check that names what it found, a preview, and then it goes:
into the thread of their channel, or to their own RackMedic when that asks.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from bot.cards.blocks import Block, Card
from bot.cards.buttons import BadForm, OldButton
from bot.cards.customers import inside, living
from bot.cards.customers.view import CustomerView
from bot.policy import channels as policy
from bot.policy.channels import Place
from bot.policy.leaks import Inside
from bot.provider.arrivals import TOLD_BY
from bot.refusal import Refusal
from bot.slack.context import Surface, storing
from bot.slack.incoming.payloads import Payload
from bot.slack.outgoing.customers import place_of
from bot.slack.outgoing.posts import Once, PostedCards
from graph.state import Origin
from tools.inventory.hosts import Inventory

MOST_PEOPLE = 60
"""Members of the operators' channel whose names are looked for; each is asked of Slack once a minute at most."""
LONGEST_COMPLAINT = 900
"""Characters of what Slack shows under a field."""
TOLD = "rackmedic_customer_told_by_people"
NOT_FETCHED = "Nobody would fetch it: no intake is open here (RACKMEDIC_INTAKE_KEYS), so tell them another way."
CLOSED = "Their ticket is closed, and their RackMedic asks no more. Write in this thread what is new; it opens again, and then tell them."
NO_ROOM = "Too much was said to this ticket already; tell them another way."
ViewOf = Callable[[str, Origin], Awaitable[CustomerView | None]]


class KeepsWords(Protocol):
    """Where what is told waits for a customer's own RackMedic."""

    async def tell(self, incident: str, key: str, words: str) -> int: ...


@dataclass(frozen=True, slots=True)
class Telling:
    """Its button and forms, handed to the listeners. `view_of`: what the customer's card says now. `kept`: where words for a ticket wait to be
    fetched; none where no intake is open."""

    surface: Surface
    cards: PostedCards
    inventory: Inventory
    view_of: ViewOf
    kept: KeepsWords | None = None

    async def press(self, payload: Payload) -> None:
        """Open the form. Raises Refusal."""
        pressed = inside.read(payload)
        origin = await self._ours(payload, pressed.incident, f"button.{inside.TELL}", f"form.{inside.TELL_FORM}")
        self._reaches(origin)
        view = await self.view_of(pressed.incident, origin)
        form = inside.form(pressed.incident, origin.tenant, living.draft(view) if view else "")
        await self.surface.client.views_open(trigger_id=str(payload["trigger_id"]), view=form)

    async def preview(self, payload: Payload) -> Block:
        """What they would read. Raises BadForm while it carries what must not cross."""
        incident, words = inside.read_form(payload)
        origin = await self._ours(payload, incident, f"form.{inside.TELL_FORM}")
        await self._checked(payload, incident, origin, words)
        return inside.preview(incident, origin.tenant, words, living.from_people(words, self._language(origin)))

    async def send(self, payload: Payload) -> None:
        """Send what the preview showed, once. Raises Refusal and BadForm: it is asked again, for names and people come and go."""
        incident, words = inside.read_form(payload)
        origin = await self._ours(payload, incident, f"form.{inside.TELL_FORM}", f"form.{inside.TELL_SEND}")
        who = await self._checked(payload, incident, origin, words)
        key = str(payload["view"].get("root_view_id") or payload["view"]["id"])
        if origin.customer is not None:
            where, said = place_of(origin.customer), living.from_people(words, self._language(origin))
            await self._once(where, incident, f"told_by:{key}", said)
        else:
            await self._keep(incident, key, words)
        self.surface.tasks.spawn("customer_told", self._note(incident, origin, key, inside.told(who, words, fetched=not origin.customer)))

    async def _keep(self, incident: str, key: str, words: str) -> None:
        if self.kept is None:
            raise Refusal(NOT_FETCHED)
        async with storing():
            if await self.surface.inbox.lifecycle(incident) == "closed":
                raise Refusal(CLOSED)
            if not await self.kept.tell(incident, key, words):
                raise Refusal(NO_ROOM)

    async def _note(self, incident: str, origin: Origin, key: str, card: Card) -> None:
        if origin.thread_ts and not await self.surface.people.shared(origin.channel):
            await self._once(origin, incident, f"told_note:{key}", card)

    async def _once(self, where: Origin, incident: str, name: str, card: Card) -> None:
        marked = {"event_type": TOLD, "event_payload": {"form": name}}
        await Once(self.surface.client, self.cards).post(where, incident, name, card, marked)

    async def _checked(self, payload: Payload, incident: str, origin: Origin, words: str) -> str:
        """Who tells it, where nothing of it must stay inside. Raises BadForm."""
        if not words:
            raise BadForm({inside.WORDS: "Nothing to send."})
        who = await self.surface.people.name(str(payload["user"]["id"]))
        names = {who, *(await self._people(incident, origin))}
        theirs = origin.ticket.partition("/")[2]
        if found := Inside(self.inventory, origin.tenant, incident, names, theirs).leaks(words):
            raise BadForm({inside.WORDS: f"Not sent. Take out: {'; '.join(map(str, found))}."[:LONGEST_COMPLAINT]})
        return who

    async def _ours(self, payload: Payload, incident: str, *acts: str) -> Origin:
        """The origin of a customer's incident, for one of our own people: a colleague, in the operators' channel, which nobody else reads at
        this moment."""
        async with storing():
            origin = await self.surface.inbox.origin(incident)
        if origin is None or not (origin.customer or origin.ticket):
            raise OldButton
        if origin.customer is not None and policy.customers_row(origin, self.surface.bound) is None:
            raise OldButton
        user = payload.get("user") or {}
        team = origin.team or str((await self.surface.client.auth_test())["team_id"])  # a ticket's thread may be a moment old
        if str(user.get("team_id") or "") != team:
            raise policy.NotAllowed(policy.NOT_OURS)
        await self.surface.admit(Place(team, origin.channel), str(user["id"]), fresh=True)
        for act in acts:
            await self.surface.allow(act, str(user["id"]), origin.channel, origin)
        return origin

    def _reaches(self, origin: Origin) -> None:
        if origin.customer is None and self.kept is None:
            raise Refusal(NOT_FETCHED)

    def _language(self, origin: Origin) -> str:
        row = self.surface.bound.get(origin.customer.channel) if origin.customer else None
        return row.language if row else "en"

    async def _people(self, incident: str, origin: Origin) -> set[str]:
        """Names of those who had a hand in it, none of which is told."""
        state = await self.surface.state_of(incident)
        ticket: Mapping[str, Any] = state.get("ticket") or {}
        users = {str(state.get("owner") or ""), str(ticket.get("taken_by") or ""), *_said_by(state.get("said") or [], origin)}
        users |= set(sorted(await self.surface.people.inside(origin.channel))[:MOST_PEOPLE])
        return {name for name in await asyncio.gather(*(self.surface.people.name(user) for user in users if user)) if name}


def _said_by(rows: Any, origin: Origin) -> set[str]:
    theirs = origin.customer.user if origin.customer else TOLD_BY
    return {str(row.get("user") or "") for row in rows} - {theirs}
