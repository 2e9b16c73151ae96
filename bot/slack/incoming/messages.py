"""A message → the inbox, or an answer that needs no turn. Everything that must not be lost is stored before `hear` returns."""

from dataclasses import dataclass
from functools import partial
from typing import Any

from bot.cards.blocks import Card, card
from bot.cards.incidents import home
from bot.policy import channels as policy
from bot.refusal import Refusal
from bot.slack.client import post
from bot.slack.context import Surface, storing
from bot.slack.incoming import grammar
from bot.slack.incoming.grammar import Spoken
from bot.slack.incoming.intake import take_in
from bot.slack.incoming.open_work import open_incidents
from bot.slack.incoming.payloads import Arrival
from graph.state import Item, Origin

NO_INCIDENT = "There is no incident in this thread yet. Mention me with what is wrong, for example: job 4711 hangs on gpu-[017-020]."


@dataclass(frozen=True, slots=True)
class Heard:
    """What became of a message: the incident it went to, if it was stored."""

    incident: str = ""
    opened: bool = False


async def hear(surface: Surface, arrival: Arrival) -> Heard:
    """Store it, answer it, or pass it over. Raises Refusal (to be said) and StoreAway (not to be acknowledged)."""
    async with storing():
        incident = await surface.inbox.find(arrival.team, arrival.channel, arrival.root)
        closed = incident is not None and not arrival.mention and await surface.inbox.lifecycle(incident) == "closed"
    if closed or (incident is None and not arrival.mention):
        return Heard()
    policy.serve(arrival.place, surface.bound)
    said = Spoken("reply", grammar.people_see(arrival.raw)) if arrival.alert else grammar.read_reply(arrival.raw)
    if not arrival.alert and (arrival.mention or said.kind != "reply"):
        policy.colleague(await surface.people.person(arrival.user), arrival.team)
    if said.kind == "help":
        return await _answer(surface, arrival, home.phrases(grammar.help_rows()))
    if incident is not None:
        return await _reply(surface, arrival, said, incident)
    return await _open(surface, arrival, said)


async def _reply(surface: Surface, arrival: Arrival, said: Spoken, incident: str) -> Heard:
    silent = not said.text and not arrival.files
    async with storing():
        new = await surface.inbox.enqueue(_item(arrival, said, incident, kind="status" if silent else said.kind), arrival.key)
    if new:
        surface.stored(incident)
    return Heard(incident)


async def _open(surface: Surface, arrival: Arrival, said: Spoken) -> Heard:
    if said.kind == "status":
        return await _listing(surface, arrival)
    if said.kind != "reply":
        raise Refusal(NO_INCIDENT)
    if not said.text and not arrival.files and not arrival.in_thread:
        return await _answer(surface, arrival, home.phrases(grammar.help_rows()))
    origin = Origin(kind="slack", team=arrival.team, channel=arrival.channel, thread_ts=arrival.root, user=arrival.user)
    make = partial(_item, arrival, said, kind="mention")
    received = await take_in(surface, origin, arrival.key, said.text, make, alert=arrival.alert)
    return Heard(received.incident, received.opened)


def _item(arrival: Arrival, said: Spoken, incident: str, *, kind: str) -> Item:
    data: dict[str, Any] = dict(said.data)
    if arrival.files:
        data["files"] = [file.to_json() for file in arrival.files]
    if kind == "mention" and arrival.in_thread:
        data["root"] = {"channel": arrival.channel, "ts": arrival.thread_ts, "upto": arrival.ts}
    row = {"id": arrival.key, "kind": kind, "incident": incident, "at": arrival.at, "user": arrival.user, "text": said.text, "data": data}
    return Item.model_validate(row)


async def _answer(surface: Surface, arrival: Arrival, shown: Card) -> Heard:
    """Say it in the thread, once: of a mention's two events the other one speaks."""
    if not arrival.twin:
        surface.tasks.spawn("answer", post(surface.client, arrival.channel, arrival.root, shown))
    return Heard()


async def _listing(surface: Surface, arrival: Arrival) -> Heard:
    rows = await open_incidents(surface)
    return await _answer(surface, arrival, card("Open incidents", home.listing(rows, surface.clock.now())))
