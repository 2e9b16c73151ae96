"""Who may ask what where: tables and pure functions. Channels are bound by the inventory; what is not bound is refused, in words.

What is said in a channel can be read by everybody in it: operators' channels see every host, or those of their groups, and a customer's channel
its tenant's alone, with a channel of the operators for what stays inside.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from bot.refusal import Refusal
from graph.closed_incidents import DisclosureLevel
from graph.state import Origin
from tools.inventory.inventory import ChannelRow

ChannelType = Literal["channel", "group", "im", "mpim", "app_home", ""]

REFUSAL_TEXTS: Mapping[str, str] = {
    "im": "I do not take incidents in direct messages, because nobody else would see them. Mention me in the incident channel.",
    "shared": "This channel is shared with another organisation, so I stay silent here. Mention me in a channel of your own that I work in.",
    "tenant": "I do not answer in this channel yet. Please write to the people who run the machines for you; they can mention me in theirs.",
    "mentions": "In this channel I answer mentions alone: mention me, and say what is wrong and on which machines or in which job.",
    "unbound": "I do not know this channel, so I do nothing here. Mention me in the incident channel; whoever runs me can let me in here too.",
}
"""For strangers' eyes: which hosts, groups and customers there are is none of their business."""
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
    """Where somebody spoke. `shared` is what Slack said about it: known to reach another organisation."""

    team: str
    channel: str
    type: ChannelType = ""
    shared: bool = False


@dataclass(frozen=True, slots=True)
class Person:
    """Somebody, as `users.info` describes them."""

    id: str
    team: str
    name: str = ""
    human: bool = False
    """Active, no bot, no guest, of no other organisation."""


def build_channel_bindings(rows: Iterable[ChannelRow]) -> Mapping[str, ChannelRow]:
    """Channel id → how the inventory binds it."""
    return {row.channel: row for row in rows}


def require_operator_channel(place: SlackPlace, bound: Mapping[str, ChannelRow]) -> ChannelRow:
    """The binding that serves this place, or NotServed. A binding to the operators does not open a channel that others can read."""
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
    """The binding of a customer's channel, which may be shared with their workspace, or NotServed. It needs a channel of the operators for the
    internal thread of each incident."""
    row = bound.get(place.channel)
    if place.type in ("im", "mpim") or place.channel.startswith("D"):
        raise ChannelNotServed("im")
    if row is None or row.kind != "tenant":
        raise ChannelNotServed("unbound")
    if not _has_internal_channel(row, bound):
        raise ChannelNotServed("tenant")
    return row


def find_tenant_channel(origin: Origin, bound: Mapping[str, ChannelRow]) -> ChannelRow | None:
    """The binding of the channel in which a customer reported this; None where it is by now bound to somebody else, or to nobody: nothing of the
    incident is shown there, and nothing said or pressed there counts for it."""
    row = bound.get(origin.customer.channel) if origin.customer else None
    return row if row is not None and row.kind == "tenant" and row.tenant == origin.tenant else None


def can_read_channel(reader: ChannelRow, other: ChannelRow) -> bool:
    """Whether what is said in `other` may be told, and linked to, in `reader`: within one tenant or among operators, and where that speaks
    of no hosts that this may not (a row without groups speaks of all)."""
    if reader.channel == other.channel:
        return True
    among = (reader.kind, reader.tenant) == (other.kind, other.tenant) and (reader.kind == "operators" or bool(reader.tenant))
    return among and (not reader.groups or (bool(other.groups) and set(other.groups) <= set(reader.groups)))


def can_follow_thread(reader: Origin, other: Origin, bound: Mapping[str, ChannelRow]) -> bool:
    """Whether the thread `other` may be linked to, and joined, in the thread `reader`."""
    here, there = bound.get(reader.channel), bound.get(other.channel)
    slack = reader.kind == "slack" and other.kind == "slack" and reader.team == other.team
    return slack and here is not None and there is not None and can_read_channel(here, there)


def get_incident_visibility(reader: Origin, other: Origin, bound: Mapping[str, ChannelRow]) -> DisclosureLevel:
    """What the thread `reader` may hear of a closed incident of the thread `other`: operators of what befell hosts of their own, whoever reported
    it; a tenant of its own incidents only."""
    if can_follow_thread(reader, other, bound):
        return "whole"
    here, there = bound.get(reader.channel), bound.get(other.channel)
    slack = reader.kind == "slack" and other.kind == "slack" and reader.team == other.team
    both = here is not None and there is not None and here.kind == there.kind == "operators"
    return "own_hosts" if slack and both else "nothing"


def list_operator_channels(bound: Mapping[str, ChannelRow]) -> tuple[str, ...]:
    """The channels whose members are operators."""
    return tuple(sorted(channel for channel, row in bound.items() if row.kind == "operators"))


def list_tenant_channels(bound: Mapping[str, ChannelRow]) -> tuple[str, ...]:
    """The channels of customers that are set up."""
    return tuple(sorted(channel for channel, row in bound.items() if row.kind == "tenant" and _has_internal_channel(row, bound)))


def _has_internal_channel(row: ChannelRow, bound: Mapping[str, ChannelRow]) -> bool:
    inside = bound.get(row.internal)
    return inside is not None and inside.kind == "operators"


def parse_person(user: Mapping[str, Any]) -> Person:
    """A Slack user as we judge it. A flag that Slack leaves out is a doubt and counts against them, but for two that it tells of few."""
    profile = user.get("profile") or {}
    known = all(user.get(flag) is False for flag in ("deleted", "is_bot", "is_restricted", "is_ultra_restricted"))
    human = known and not any(user.get(doubt) for doubt in ("is_stranger", "is_workflow_bot"))
    human = human and bool(user.get("id")) and user.get("id") != "USLACKBOT"
    name = profile.get("display_name") or user.get("real_name") or profile.get("real_name") or user.get("name") or user.get("id", "")
    return Person(str(user.get("id", "")), str(user.get("team_id", "")), str(name), human)


def require_colleague(who: Person, team: str) -> None:
    """Refuses everybody but active human full members of our own workspace."""
    if not who.human or not who.team or who.team != team:
        raise NotAllowed(NOT_FULL_MEMBER_TEXT)
