"""A report → its own incident, or the open one that concerns the same and that whoever asks may read about.

Whoever joins is told so, once, with a link, however many join at once; it pings nobody. Where that thread is not for them they get their own, in
which nothing is put up for decision that is decided there. An alert that repeats is noted and neither told nor looked at again.
"""

from collections.abc import Callable

from bot.cards.incidents import notes
from bot.desk.concern import concern_of
from bot.desk.inbox import Received
from bot.policy import channels as policy
from bot.slack.context import Surface, storing
from graph.state import Item, Origin


async def take_in(surface: Surface, origin: Origin, key: str, text: str, make: Callable[[str], Item], *, alert: bool = False) -> Received:
    """Store what `make` makes for the incident it goes to, and wake somebody. `text` is what was written."""
    about = concern_of(text, surface.vocabulary_of(origin).hosts, alert=alert)

    async def joins(incident: str) -> bool:
        other = await surface.inbox.origin(incident)
        return other is not None and policy.may_follow(origin, other, surface.bound)

    async with storing():
        received = await surface.inbox.open(origin, key, make, about=about, joins=joins)
        elsewhere = received.joined or (received.duplicate and await surface.inbox.find(*origin.door) != received.incident)
        other = await surface.inbox.origin(received.incident) if elsewhere and not alert else None
    if not received.duplicate:
        surface.stored(received.incident, opened=received.opened)
    if (
        other is not None
    ):  # that its thread may be followed was asked before joining; whoever died before telling tells it when Slack sends it again
        await surface.say(origin, key, notes.joined(other.team, other.channel, other.thread_ts))
    if received.beside and about.hosts and not alert and not received.duplicate:
        await surface.say(origin, key, notes.beside())
    return received
