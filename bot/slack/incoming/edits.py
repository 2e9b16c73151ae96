"""A message that was written anew: read as the message where it became one for us, or began nothing yet; else its author is told that it is not read
again. What was asked first stands: others answered it, and an approval may rest on it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from bot.cards.incidents import notes
from bot.policy import channels as policy
from bot.slack.client import said
from bot.slack.context import Surface, storing
from bot.slack.incoming.messages import Heard, hear
from bot.slack.incoming.payloads import Arrival, read_message


@dataclass(frozen=True, slots=True)
class Edit:
    """A message with a mention, as it reads now; `called_before`: it mentioned us before it was edited, too."""

    now: Arrival
    called_before: bool


def read_edit(body: Mapping[str, Any], bot_user: str) -> Edit | None:
    """An Events API payload of an edit, where a person changed words that mention us, or that do now. Slack tells of unfurled links in
    the same way: no word changed, nobody wrote."""
    event: Mapping[str, Any] = body.get("event") or {}
    if event.get("subtype") != "message_changed":
        return None
    message, before = event.get("message") or {}, event.get("previous_message") or {}
    same = {key: event.get(key) for key in ("channel", "channel_type")} | {"type": "message"}
    # it comes once, so it speaks for itself: an event of the other kind is not to be waited for
    now = read_message({**body, "event": {**message, **same}}, bot_user)
    if now is None or not now.mention or now.place.type == "im" or message.get("text") == before.get("text"):
        return None
    return Edit(replace(now, twin=False), f"<@{bot_user}>" in str(before.get("text") or ""))


async def hear_edit(surface: Surface, edit: Edit, first: Callable[[str], bool]) -> Heard:
    """Read it, or say that it is not read again, where `first` calls that said for the first time. Raises Refusal and StoreAway as `hear`
    does. Of one message no more than once is stored."""
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
    await surface.client.chat_postEphemeral(channel=arrival.channel, user=arrival.user, thread_ts=thread, **said(notes.not_read_again()))
