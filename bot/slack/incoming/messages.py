"""A message → the inbox, an answer that needs no turn, or silence. Everything that must not be lost is stored before `hear` returns.

What people say to each other in an incident's thread goes nowhere: no turn, no evidence, no ticket, no model.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

from bot.alerts.posted import read_posted
from bot.cards.blocks import Card, card
from bot.cards.incidents import home, notes
from bot.cards.personal.direct import wish
from bot.desk.pulse import MUTED, Before, May
from bot.policy import channels as policy
from bot.refusal import Refusal
from bot.slack.client import said as blocks_of
from bot.slack.context import Surface, storing
from bot.slack.incoming import grammar
from bot.slack.incoming.intake import take_in
from bot.slack.incoming.open_work import open_incidents, open_work, waits_shown
from bot.slack.incoming.payloads import Arrival, Deletion, Rewritten
from graph.conversation.addressed import Heed, Situation, as_answer, called, heed, is_request, mentions
from graph.conversation.intents import Intent
from graph.conversation.news import complains, tells_nothing
from graph.conversation.read import read
from graph.conversation.said import Said
from graph.state import Item, ItemKind, Origin

NO_INCIDENT = "There is no incident in this thread yet. Mention me with what is wrong, for example: job 4711 hangs on gpu-[017-020]."
NAME: Final = "rackmedic"
LONGEST_READ = 2000
"""Characters of a message that are read for what it asks; all of it is stored."""
SHORT = 8
"""Words that a message may have which asks for something and tells nothing."""
GET_THROUGH: Final = frozenset({Intent.STOP, Intent.HAND_OFF, Intent.CLOSE, Intent.TYPED_APPROVAL})
"""Answered with or without a mention, however many answers the thread got lately."""
ABOUT_US: Final = frozenset({Intent.HELP, Intent.META, Intent.SMALL_TALK, Intent.THANKS})
OF_AN_INCIDENT: Final = frozenset(
    {
        Intent.EXPLAIN,
        Intent.ON_APPROVE,
        Intent.WHO_MAY_APPROVE,
        Intent.WHO_IS_ON_IT,
        Intent.TAKE,
        Intent.ASSIGN,
        Intent.WAITS,
        Intent.HAND_OFF,
        Intent.SUMMARY,
        Intent.REPORT,
        Intent.RECHECK,
        Intent.RUN_GUIDE,
        Intent.UNDO,
        Intent.CLOSE,
        Intent.REOPEN,
        Intent.STOP,
        Intent.PAUSE,
        Intent.TYPED_APPROVAL,
    }
)
"""What can be asked for only where there is an incident."""


@dataclass(frozen=True, slots=True)
class Heard:
    """What became of a message: the incident it went to, if it was stored."""

    incident: str = ""
    opened: bool = False


async def hear(surface: Surface, arrival: Arrival) -> Heard:
    """Store it, answer it, or pass it over. Raises Refusal (to be said) and StoreAway (not to be acknowledged)."""
    async with surface.in_order.of(f"{arrival.channel} {arrival.root}"):
        return await _hear(surface, arrival)


async def hear_edit(surface: Surface, edit: Rewritten, first: Callable[[str], bool]) -> Heard:
    """Read it where it became a message for us, or began nothing yet; else say to its author that it is not read again, where `first` calls
    that said for the first time. What was asked first stands: others answered it, and an approval may rest on it. Raises as `hear` does."""
    async with storing():
        incident = await surface.inbox.find(edit.now.team, edit.now.channel, edit.now.root)
    if incident is None or not edit.called_before:
        return await hear(surface, edit.now)
    policy.serve(edit.now.place, surface.bound)
    if first(f"{edit.now.key} is not read again"):
        surface.tasks.spawn("not_read_again", _not_read_again(surface, edit.now))
    return Heard(incident)


async def _not_read_again(surface: Surface, arrival: Arrival) -> None:
    thread = arrival.root if arrival.in_thread else None
    told = blocks_of(notes.not_read_again())
    await surface.client.chat_postEphemeral(channel=arrival.channel, user=arrival.user, thread_ts=thread, **told)


async def hear_deletion(surface: Surface, gone: Deletion, first: Callable[[str], bool]) -> None:
    """The first message of an incident was deleted, and with it the way to its thread: those who are on call are told once, where they read,
    what still goes on there, such as a node that we hold."""
    async with storing():
        incident = await surface.inbox.find(gone.team, gone.channel, gone.ts)
    row = surface.bound.get(gone.channel)
    if incident is None or row is None:
        return
    work = await open_work(surface, incident)
    if (work.lifecycle == "closed" and not work.held) or not first(f"{gone.team}.{gone.channel}.{gone.ts} deleted"):
        return
    where = row.internal if row.kind == "tenant" else gone.channel
    if where:
        await surface.say(
            Origin(kind="slack", team=gone.team, channel=where), f"{gone.channel}.{gone.ts} deleted", notes.thread_deleted(work)
        )


async def _hear(surface: Surface, arrival: Arrival) -> Heard:
    async with storing():
        incident = await surface.inbox.find(arrival.team, arrival.channel, arrival.root)
    if incident is None and await _in_joined_thread(surface, arrival):
        return Heard()
    if incident is None and not arrival.mention:
        return Heard()
    if incident is None and arrival.place.type == "im":
        async with storing():
            await surface.direct.store(_origin(arrival), arrival.key, arrival.at, wish(grammar.people_see(arrival.raw)))
        return Heard()
    policy.serve(arrival.place, surface.bound)
    if arrival.alert:
        return await _alert(surface, arrival, incident)
    said = await understood(surface, arrival, _origin(arrival))
    if incident is not None:
        return await _reply(surface, arrival, said, incident)
    policy.colleague(await surface.people.person(arrival.user), arrival.team)
    await surface.allow(f"intent.{said.intent}", arrival.user, arrival.channel)
    return await _begin(surface, arrival, said)


async def _alert(surface: Surface, arrival: Arrival, incident: str | None) -> Heard:
    """Another bot's message: the alerts of a group where it is of a form that tells them, else a report in its words."""
    said = Said(intent=Intent.NEW_FACTS, text=grammar.people_see(arrival.raw))
    if incident:
        return await _store(surface, arrival, said, incident)
    posted = read_posted(said.text, f"{arrival.channel} {arrival.source}") if surface.posted else None
    if surface.posted is None or posted is None:
        return await _open(surface, arrival, said)
    async with storing():
        told = await surface.posted(arrival.channel, arrival.ts, posted)
    return Heard(told[0] if told else "")


async def understood(surface: Surface, arrival: Arrival, origin: Origin) -> Said:
    """What it asks for, by rules alone, read beside the loop, with the names that its place may speak of. A bare mention asks how things stand."""
    text = grammar.people_see(grammar.without_us(arrival.raw, arrival.us))
    if not text and not arrival.files:
        return Said(intent=Intent.STATUS)
    said = await asyncio.to_thread(read, text[:LONGEST_READ], surface.vocabulary_of(origin), arrival.at)
    return said.model_copy(update={"text": text})


async def _reply(surface: Surface, arrival: Arrival, said: Said, incident: str) -> Heard:
    """In an incident's thread: heard where it is said to us."""
    async with storing():
        before = await surface.pulse.heard(incident, arrival.ts, arrival.user, question=said.text.endswith("?"))
    what = await heeded(surface, arrival, said, before)
    if what is Heed.SILENCE:
        return await _passed_over(surface, arrival, said, incident) if _is_alone(surface, arrival, said, before) else Heard()
    said = as_answer(said) if what is Heed.TAKE else said
    if arrival.mention or said.kind != "reply":
        policy.colleague(await surface.people.person(arrival.user), arrival.team)
        await surface.allow(f"intent.{said.intent}", arrival.user, arrival.channel)
    async with storing():
        always = said.intent in GET_THROUGH
        may = await surface.pulse.may(incident, arrival.ts, always=always, mention=arrival.mention, alone=not before.others)
    if may is not May.GO:
        return await _answer(surface, arrival, notes.enough(MUTED)) if may is May.TRIP else Heard()
    if said.intent is Intent.HELP:
        return await _answer(surface, arrival, home.phrases(grammar.help_rows()))
    return await _store(surface, arrival, said, incident)


def _is_alone(surface: Surface, arrival: Arrival, said: Said, before: Before) -> bool:
    """Return whether one person writes with us alone, and wants to be answered there."""
    paused = before.quiet_until is not None and before.quiet_until > surface.clock.now()
    wanted = not (surface.bound[arrival.channel].mention_only or paused or before.lifecycle == "closed")
    return wanted and not before.others and bool(said.text) and not called(said.text, (arrival.us, NAME))


async def _passed_over(surface: Surface, arrival: Arrival, said: Said, incident: str) -> Heard:
    """Tell the only person in a thread that a message was not understood as addressed to the bot: once per window, but of a request each time."""
    async with storing():
        first = await surface.pulse.passes_over(incident, arrival.ts)
    return await _answer(surface, arrival, notes.passed_over()) if first or is_request(said) else Heard()


async def _in_joined_thread(surface: Surface, arrival: Arrival) -> bool:
    """Answer a request in a thread whose report joined another thread's incident with a link to that thread. Return whether the message is done with.
    A mention that tells something is read as a report: it joins again, or begins an incident of its own."""
    if not arrival.in_thread or arrival.alert or surface.bound.get(arrival.channel) is None:
        return False
    async with storing():
        incident = await surface.inbox.joined_from(arrival.team, arrival.channel, arrival.root)
        other = await surface.inbox.origin(incident) if incident else None
    if other is None or not policy.may_follow(_origin(arrival), other, surface.bound):
        return False
    said = await understood(surface, arrival, _origin(arrival))
    us = (arrival.us, NAME)
    mentioned = arrival.mention or mentions(said.text, us)
    to_somebody_else = bool(called(said.text, us)) and not mentioned
    if arrival.mention and not (said.text and asks_only(said) and said.intent in OF_AN_INCIDENT):
        return False
    if to_somebody_else or not is_request(said) or (surface.bound[arrival.channel].mention_only and not mentioned):
        return not arrival.mention
    policy.serve(arrival.place, surface.bound)
    await _answer(surface, arrival, notes.ask_there(other.team, other.channel, other.thread_ts))
    return True


async def heeded(surface: Surface, arrival: Arrival, said: Said, before: Before) -> Heed:
    """Whether it is said to us. Who speaks there is asked of Slack only where a name at the beginning could make a difference."""
    row, us = surface.bound[arrival.channel], (arrival.us, NAME)
    here = Situation(
        mentioned=arrival.mention or mentions(said.text, us),
        called=called(said.text, us),
        follows=before.follows,
        after_question=before.after_question,
        asked=before.asked,
        mention_only=row.mention_only,
        paused=before.quiet_until is not None and before.quiet_until > surface.clock.now(),
        closed=before.lifecycle == "closed",
        files=bool(arrival.files),
        alone=not before.others,
    )
    what = heed(said, here)
    if what is Heed.SILENCE or here.mentioned or here.called or " " not in said.text:
        return what
    told = await asyncio.gather(*(surface.people.name(user) for user in before.others))
    names = {word for name in told for word in name.split() if len(word) > 2}
    return heed(said, replace(here, called=called(said.text, us, names)))


async def _store(surface: Surface, arrival: Arrival, said: Said, incident: str) -> Heard:
    data = {} if arrival.alert else said.data()
    async with storing():
        new = await surface.inbox.enqueue(item_of(arrival, said, incident, kind=said.kind, data=data), arrival.key)
    if new:
        surface.stored(incident)
    return Heard(incident)


async def _begin(surface: Surface, arrival: Arrival, said: Said) -> Heard:
    """A mention where there is no incident: the list of what is open, help, or a new one."""
    bare = said.text == "" and not arrival.files
    if bare and arrival.in_thread:
        return await _open(surface, arrival, said)
    if bare or (asks_only(said) and said.intent in ABOUT_US and not arrival.files and not complains(said.text, arrival.at)):
        return await _answer(surface, arrival, home.phrases(grammar.help_rows()))
    if asks_only(said) and said.intent is Intent.STATUS:
        return await _listing(surface, arrival)
    if asks_only(said) and said.intent in OF_AN_INCIDENT and not arrival.files:
        raise Refusal(NO_INCIDENT)
    if not (arrival.in_thread or arrival.files) and tells_nothing(said, arrival.at):
        return await _answer(surface, arrival, notes.nothing_said())
    return await _open(surface, arrival, said)


def asks_only(said: Said) -> bool:
    """Whether a message asks for something and tells nothing that could be looked into."""
    names = said.hosts or said.unknown_hosts or said.group or said.job or said.device or said.labels or said.category
    return said.sure and not names and len(said.text.split()) <= SHORT


async def _open(surface: Surface, arrival: Arrival, said: Said) -> Heard:
    make = partial(item_of, arrival, said, kind="mention", data={})
    received = await take_in(surface, _origin(arrival), arrival.key, said.text, make, alert=arrival.alert)
    return Heard(received.incident, received.opened)


def _origin(arrival: Arrival) -> Origin:
    return Origin(kind="slack", team=arrival.team, channel=arrival.channel, thread_ts=arrival.root, user=arrival.user)


def item_of(arrival: Arrival, said: Said, incident: str, *, kind: ItemKind, data: dict[str, Any]) -> Item:
    """A message as the inbox holds it, with pointers to its files and to what its thread said before."""
    more: dict[str, Any] = {"files": [file.to_json() for file in arrival.files]} if arrival.files else {}
    if kind == "mention" and arrival.in_thread:
        more["root"] = {"channel": arrival.channel, "ts": arrival.thread_ts, "upto": arrival.ts}
    return Item(id=arrival.key, kind=kind, incident=incident, at=arrival.at, user=arrival.user, text=said.text, data={**data, **more})


async def _answer(surface: Surface, arrival: Arrival, shown: Card) -> Heard:
    """Say it in the thread, once: of a mention's two events the other one speaks."""
    if not arrival.twin:
        await surface.say(_origin(arrival), arrival.key, shown)
    return Heard()


async def _listing(surface: Surface, arrival: Arrival) -> Heard:
    rows = await open_incidents(surface)
    return await _answer(surface, arrival, card("Open incidents", home.listing(rows, surface.clock.now(), await waits_shown(surface))))
