"""Parse Slack payloads.

A mention arrives as `app_mention` and as `message`; the same `key` de-duplicates them.
"""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, cast

from bot.policy.channels import ChannelType, SlackPlace
from kb.numbers import parse_bounded_count

Payload = Mapping[str, Any]  # as Bolt passes it on; there is no schema, so each field is checked where it is read

MAX_FILES = 10
MAX_DECLARED_FILE_BYTES = 1 << 40  # bound on the size that Slack declares for a file
_TIMESTAMP_PATTERN = re.compile(r"[0-9]{1,10}(?:\.[0-9]{1,9})?")
# Subtypes of messages that a person wrote; edits, deletions, joins and bots have others.
HUMAN_SUBTYPES = frozenset({"", "file_share", "thread_broadcast"})
CHANNEL_TYPES = frozenset({"channel", "group", "im", "mpim", "app_home"})


@dataclass(frozen=True, slots=True)
class SlackFile:
    """Fetching `url` needs the bot token."""

    id: str
    name: str
    size: int
    url: str

    def to_json(self) -> dict[str, Any]:
        return {"id": self.id, "name": self.name, "size": self.size, "url": self.url}


@dataclass(frozen=True, slots=True)
class IncomingMessage:
    """`twin`: an app_mention event of it arrives too. `alert`: an alert source wrote it."""

    team: str
    place: SlackPlace
    ts: str
    thread_ts: str
    user: str
    raw: str
    mention: bool
    twin: bool
    files: tuple[SlackFile, ...] = field(default=())
    alert: bool = False
    source: str = ""  # of an alert: its bot, and the link of its first attachment
    us: str = ""  # RackMedic's own user id
    user_team: str = ""  # the user's workspace, where Slack names it

    @property
    def key(self) -> str:
        return f"{self.team}.{self.place.channel}.{self.ts}"

    @property
    def channel(self) -> str:
        return self.place.channel

    @property
    def root(self) -> str:
        return self.thread_ts or self.ts

    @property
    def in_thread(self) -> bool:
        return self.thread_ts not in ("", self.ts)

    @property
    def at(self) -> datetime:
        return parse_slack_timestamp(self.ts)


def get_thread_ts(payload: Payload) -> str:
    """Return a click's thread; for a message that is not a reply, its own ts."""
    container, message = payload.get("container") or {}, payload.get("message") or {}
    return str(container.get("thread_ts") or message.get("thread_ts") or container.get("message_ts") or message.get("ts") or "")


def parse_slack_timestamp(ts: str) -> datetime:
    return datetime.fromtimestamp(float(ts), UTC)


def parse_message(body: Mapping[str, Any], bot_user: str, alert_bots: Collection[str] = ()) -> IncomingMessage | None:
    """Parse a message event; None unless a person or one of `alert_bots` wrote it. An alert counts as a mention."""
    event: Mapping[str, Any] = body.get("event") or {}
    bot, ts, channel = (str(event.get(key) or "") for key in ("bot_id", "ts", "channel"))
    if not _TIMESTAMP_PATTERN.fullmatch(ts):
        return None
    user = str(event.get("user") or bot)
    alert = bot in alert_bots
    spoken = str(event.get("subtype") or "") in (HUMAN_SUBTYPES | {"bot_message"} if alert else HUMAN_SUBTYPES)
    if not (user and ts and channel and spoken) or user == bot_user or (bot and not alert):
        return None
    team = str(body.get("team_id") or event.get("team") or "")
    kind = str(event.get("channel_type") or "")
    raw = get_full_text(event) if alert else str(event.get("text") or "")
    called = event.get("type") == "app_mention"
    return IncomingMessage(
        team=team,
        place=SlackPlace(team, channel, cast(ChannelType, kind if kind in CHANNEL_TYPES else ""), bool(body.get("is_ext_shared_channel"))),
        ts=ts,
        thread_ts=str(event.get("thread_ts") or ""),
        user=user,
        raw=raw,
        mention=alert or called or f"<@{bot_user}>" in raw or kind == "im",
        twin=not called and f"<@{bot_user}>" in raw and kind not in ("im", "mpim"),
        files=parse_files(event),
        alert=alert,
        source=f"{bot} {_get_first_link(event)}" if alert else "",
        us=bot_user,
        user_team=str(event.get("user_team") or ""),
    )


@dataclass(frozen=True, slots=True)
class EditedMessage:
    """`called_before`: it mentioned us before the edit too."""

    now: IncomingMessage
    called_before: bool


def parse_edit(body: Mapping[str, Any], bot_user: str) -> EditedMessage | None:
    """Parse an edit of a message that now mentions us.

    Slack reports unfurled links as edits with unchanged text. An edit arrives once, so it has no twin.
    """
    event: Mapping[str, Any] = body.get("event") or {}
    if event.get("subtype") != "message_changed":
        return None
    message, before = event.get("message") or {}, event.get("previous_message") or {}
    same = {key: event.get(key) for key in ("channel", "channel_type")} | {"type": "message"}
    now = parse_message({**body, "event": {**message, **same}}, bot_user)
    if now is None or not now.mention or now.place.type == "im" or message.get("text") == before.get("text"):
        return None
    return EditedMessage(replace(now, twin=False), f"<@{bot_user}>" in str(before.get("text") or ""))


@dataclass(frozen=True, slots=True)
class DeletedMessage:
    """A deleted message that was not a reply."""

    team: str
    channel: str
    ts: str


def parse_deletion(body: Mapping[str, Any]) -> DeletedMessage | None:
    """Parse a deletion; with replies, Slack reports a change into a tombstone. None for a reply."""
    event: Mapping[str, Any] = body.get("event") or {}
    message = event.get("message") or {}
    buried = event.get("subtype") == "message_changed" and message.get("subtype") == "tombstone"
    if not (buried or event.get("subtype") == "message_deleted"):
        return None
    ts, root = str(message.get("ts") or event.get("deleted_ts") or ""), (event.get("previous_message") or {}).get("thread_ts")
    if not ts or (root and root != ts):
        return None
    return DeletedMessage(str(body.get("team_id") or event.get("team") or ""), str(event.get("channel") or ""), ts)


def parse_files(message: Mapping[str, Any]) -> tuple[SlackFile, ...]:
    rows = [row for row in message.get("files") or [] if isinstance(row, Mapping)]
    return tuple(
        SlackFile(
            str(row.get("id") or ""),
            str(row.get("name") or row.get("title") or "file"),
            parse_bounded_count(row.get("size"), MAX_DECLARED_FILE_BYTES),
            str(row.get("url_private") or ""),
        )
        for row in rows[:MAX_FILES]
    )


def _get_first_link(message: Mapping[str, Any]) -> str:
    rows = [row for row in message.get("attachments") or [] if isinstance(row, Mapping)]
    return str(rows[0].get("title_link") or "")[:1000] if rows else ""


def get_full_text(message: Mapping[str, Any]) -> str:
    """Return the text with attachments, in which alerting bots write."""
    rows = [row for row in message.get("attachments") or [] if isinstance(row, Mapping)]
    more = [str(row.get(key) or "") for row in rows for key in ("pretext", "title", "text")] if rows else []
    more += [str(row.get("fallback") or "") for row in rows if not any(row.get(key) for key in ("pretext", "title", "text"))]
    return "\n".join(part for part in (str(message.get("text") or ""), *more) if part)
