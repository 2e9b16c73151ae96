"""Which people may ask what in which channel. Tables and pure functions. An unbound channel is refused with a text.

Everyone in a channel can read it. Operators' channels see all hosts or those of their groups; a tenant's channel sees
only its tenant's hosts and names an operators' channel for internal messages.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from bot.refusal import Refusal
from graph.closed_incidents import DisclosureLevel
from graph.state import Origin
from tools.inventory.inventory import ChannelRow

ChannelType = Literal["channel", "group", "im", "mpim", "app_home", ""]

# Outsiders read these, so they name no host, group or tenant.
REFUSAL_TEXTS: Mapping[str, str] = {
    "im": "I do not take incidents in direct messages, because your colleagues would not see them. Mention me in the incident channel.",
    "shared": "This channel is shared with another organisation, so I stay silent here. Mention me in a channel of your own that I work in.",
    "tenant": "I do not answer in this channel yet. Please write to the people who run the machines for you; they can mention me in theirs.",
    "mentions": "In this channel I answer only when mentioned: mention me, and say what is wrong and on which machines or in which job.",
    "unbound": "I do not know this channel, so I do nothing here. Mention me in the incident channel, or ask my administrator to add this channel.",
}
NOT_A_MEMBER_TEXT = "I show incidents to people of the incident channels only. Ask to be added to one."
NOT_FULL_MEMBER_TEXT = (
    "I answer full members of this workspace only, not guests, apps or other organisations. A full member can ask me for you."
)
MAX_NAMED_CHANNELS = 3


class ChannelNotServed(Refusal):
    """RackMedic does not work in this channel. `instead`: ids of channels to go to, where whoever asks is one of us."""

    def __init__(self, why: str, instead: Iterable[str] = ()) -> None:
        super().__init__(REFUSAL_TEXTS[why])
        self.why = why
        self.instead = tuple(channel for channel in instead if why in ("im", "unbound") and not channel.startswith("D"))[
            :MAX_NAMED_CHANNELS
        ]


class NotAllowed(Refusal):
    """This person may not see or do this."""


@dataclass(frozen=True, slots=True)
class SlackPlace:
    """Where a message was sent. `shared`: Slack says that another organisation can read it."""

    team: str
    channel: str
    type: ChannelType = ""
    shared: bool = False


@dataclass(frozen=True, slots=True)
class Person:
    """A Slack user, as `users.info` describes it."""

    id: str
    team: str
    name: str = ""
    human: bool = False  # Active, no bot, no guest, of no other organisation.


def build_channel_bindings(rows: Iterable[ChannelRow]) -> Mapping[str, ChannelRow]:
    return {row.channel: row for row in rows}


def require_operator_channel(place: SlackPlace, bound: Mapping[str, ChannelRow]) -> ChannelRow:
    """Return the operators' binding. Raise ChannelNotServed, also for a channel that other organisations can read."""
    row = bound.get(place.channel)
    if place.type in ("im", "mpim") or place.channel.startswith("D"):
        raise ChannelNotServed("im", list_operator_channels(bound))
    if place.shared:
        raise ChannelNotServed("shared")
    if row is None:
        raise ChannelNotServed("unbound", list_operator_channels(bound))
    if row.kind != "operators":
        raise ChannelNotServed("tenant")
    return row


def require_tenant_channel(place: SlackPlace, bound: Mapping[str, ChannelRow]) -> ChannelRow:
    """Return the tenant's binding; the channel may be shared with the tenant's workspace. Raise ChannelNotServed.

    The binding needs an operators' channel for internal threads.
    """
    row = bound.get(place.channel)
    if place.type in ("im", "mpim") or place.channel.startswith("D"):
        raise ChannelNotServed("im")
    if row is None or row.kind != "tenant":
        raise ChannelNotServed("unbound")
    if not _has_internal_channel(row, bound):
        raise ChannelNotServed("tenant")
    return row


def find_tenant_channel(origin: Origin, bound: Mapping[str, ChannelRow]) -> ChannelRow | None:
    """Return the binding of the channel in which a tenant reported this.

    None if the channel is no longer that tenant's: then nothing is shown there, and no message or click there counts.
    """
    row = bound.get(origin.customer.channel) if origin.customer else None
    return row if row is not None and row.kind == "tenant" and row.tenant == origin.tenant else None


def can_read_channel(reader: ChannelRow, other: ChannelRow) -> bool:
    """Return whether messages of `other` may be shown in `reader`.

    Both must belong to one tenant or to operators, and `other` may cover no hosts outside `reader`'s groups (no groups:
    all hosts).
    """
    if reader.channel == other.channel:
        return True
    among = (reader.kind, reader.tenant) == (other.kind, other.tenant) and (reader.kind == "operators" or bool(reader.tenant))
    return among and (not reader.groups or (bool(other.groups) and set(other.groups) <= set(reader.groups)))


def can_follow_thread(reader: Origin, other: Origin, bound: Mapping[str, ChannelRow]) -> bool:
    """Return whether `other` may be linked to and joined in `reader`."""
    own_binding, other_binding = bound.get(reader.channel), bound.get(other.channel)
    slack = reader.kind == "slack" and other.kind == "slack" and reader.team == other.team
    return slack and own_binding is not None and other_binding is not None and can_read_channel(own_binding, other_binding)


def get_incident_visibility(reader: Origin, other: Origin, bound: Mapping[str, ChannelRow]) -> DisclosureLevel:
    """Return how much of `other`'s closed incident may be shown in `reader`.

    Operators see what happened to their own hosts; a tenant sees only its own incidents.
    """
    if can_follow_thread(reader, other, bound):
        return "whole"
    own_binding, other_binding = bound.get(reader.channel), bound.get(other.channel)
    slack = reader.kind == "slack" and other.kind == "slack" and reader.team == other.team
    both = own_binding is not None and other_binding is not None and own_binding.kind == other_binding.kind == "operators"
    return "own_hosts" if slack and both else "nothing"


def list_operator_channels(bound: Mapping[str, ChannelRow]) -> tuple[str, ...]:
    return tuple(sorted(channel for channel, row in bound.items() if row.kind == "operators"))


def list_tenant_channels(bound: Mapping[str, ChannelRow]) -> tuple[str, ...]:
    """Return the tenant channels that are set up completely."""
    return tuple(sorted(channel for channel, row in bound.items() if row.kind == "tenant" and _has_internal_channel(row, bound)))


def _has_internal_channel(row: ChannelRow, bound: Mapping[str, ChannelRow]) -> bool:
    inside = bound.get(row.internal)
    return inside is not None and inside.kind == "operators"


def parse_person(user: Mapping[str, Any]) -> Person:
    """Parse a Slack user. A missing flag counts against the user, except two flags that Slack sends for few."""
    profile = user.get("profile") or {}
    is_full_member = all(user.get(flag) is False for flag in ("deleted", "is_bot", "is_restricted", "is_ultra_restricted"))
    human = is_full_member and not any(user.get(doubt) for doubt in ("is_stranger", "is_workflow_bot"))
    human = human and bool(user.get("id")) and user.get("id") != "USLACKBOT"
    name = profile.get("display_name") or user.get("real_name") or profile.get("real_name") or user.get("name") or user.get("id", "")
    return Person(str(user.get("id", "")), str(user.get("team_id", "")), str(name), human)


def require_colleague(who: Person, team: str) -> None:
    """Refuse everyone but active human full members of our own workspace."""
    if not who.human or not who.team or who.team != team:
        raise NotAllowed(NOT_FULL_MEMBER_TEXT)
