"""The workspace's state: people, channels, messages, threads, reactions, homes. No I/O; every change goes to the
journal.
"""

import re
import secrets
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count

from deploy.sandbox.slack.workspace.files import FileStore
from deploy.sandbox.slack.workspace.journal import WorkspaceJournal
from deploy.sandbox.slack.workspace.pane import Panes
from deploy.sandbox.slack.workspace.people import (
    ACME_TEAM,
    BOT_USER,
    EPOCH,
    HOME_TEAM,
    TEAMS,
    App,
    User,
    UserGroup,
    create_groups,
    create_users,
)
from deploy.sandbox.slack.workspace.refusal import JSON, SlackRefusal

Clock = Callable[[], float]
ID_LETTERS = "ABCDEFGHJKLMNPQRSTUVWXYZ0123456789"


def create_short_id(prefix: str) -> str:
    return prefix + "".join(secrets.choice(ID_LETTERS) for _ in range(9))


@dataclass
class Message:
    """A message as Slack returns it (`body`), and Slack's internal fields."""

    channel: str
    body: JSON
    ephemeral_to: str = ""

    @property
    def ts(self) -> str:
        return str(self.body["ts"])

    @property
    def root(self) -> str:
        return str(self.body.get("thread_ts", self.ts))

    @property
    def is_reply(self) -> bool:
        return self.root != self.ts


@dataclass
class Channel:
    id: str
    name: str
    members: list[str]
    topic: str = ""
    is_im: bool = False
    is_archived: bool = False
    shared_with: set[str] = field(default_factory=set)
    messages: dict[str, Message] = field(default_factory=dict)

    def thread(self, ts: str) -> list[Message]:
        return [message for message in self.messages.values() if message.root == ts]

    @property
    def partner(self) -> str:
        """The person in a direct message with the app."""
        return next(member for member in self.members if member != BOT_USER)


class Workspace:
    def __init__(self, clock: Clock = time.time, app: App | None = None) -> None:
        self.clock = clock
        self.app = app or App()
        self.journal = WorkspaceJournal()
        self.teams = {team.id: team for team in TEAMS}
        self.users: dict[str, User] = {user.id: user for user in create_users()}
        self.groups: dict[str, UserGroup] = {group.id: group for group in create_groups()}
        self.channels: dict[str, Channel] = {channel.id: channel for channel in create_channels()}
        self.ephemerals: dict[str, Message] = {}
        self.homes: dict[str, JSON] = {}
        self.files = FileStore(clock)
        self.panes = Panes(clock, self.journal)
        self.unknown_blocks: frozenset[str] = frozenset()  # kinds of blocks that this Slack refuses
        self._last = 0
        self._ids = count(1)

    def next_ts(self) -> str:
        self._last = max(int(self.clock() * 1_000_000), self._last + 1)
        return f"{self._last // 1_000_000}.{self._last % 1_000_000:06d}"

    def user(self, ref: str) -> User:
        name = ref.removeprefix("@").lower()
        for user in self.users.values():
            if ref == user.id or name == user.name:
                return user
        raise SlackRefusal("user_not_found")

    def channel(self, ref: str) -> Channel:
        for channel in self.channels.values():
            if ref == channel.id or ref.removeprefix("#") == channel.name:
                return channel
        raise SlackRefusal("channel_not_found")

    def is_stranger(self, user: User) -> bool:
        if user.stranger is not None:
            return user.stranger
        shares_channel = any(user.id in channel.members and BOT_USER in channel.members for channel in self.channels.values())
        return user.team_id != HOME_TEAM and not shares_channel

    def sees(self, user: str, channel: str) -> bool:
        return user in self.channels[channel].members

    def dm(self, user_id: str) -> Channel:
        """Return the conversation between the app and this person, opening it if needed."""
        self.user(user_id)
        if (channel := self.channels.get(f"D{user_id[1:]}")) is None:
            channel = Channel(f"D{user_id[1:]}", f"dm-{user_id}", [user_id, BOT_USER], is_im=True)
            self.channels[channel.id] = channel
            self.journal.add("channel", {"id": channel.id}, channel.id)
        return channel

    def message(self, channel: str, ts: str) -> Message:
        message = self.channel(channel).messages.get(ts) or self.ephemerals.get(ts)
        if message is None:
            raise SlackRefusal("message_not_found")
        return message

    def post(self, user_id: str, channel: Channel, body: JSON) -> Message:
        """Post a message; `body` holds the author's fields (text, blocks, files, thread_ts, metadata)."""
        user = self.user(user_id)
        fields: JSON = {"type": "message", "user": user.id, "ts": self.next_ts(), "team": user.team_id, **body}
        if user.is_bot:
            fields |= {"bot_id": App.bot_id, "app_id": App.id, "bot_profile": self.bot_profile()}
        else:
            fields["client_msg_id"] = f"{secrets.token_hex(4)}-{secrets.token_hex(6)}"
        message = Message(channel.id, fields)
        if message.is_reply and (parent := channel.messages.get(message.root)):
            fields["parent_user_id"] = parent.body["user"]
        channel.messages[message.ts] = message
        self.journal.add("message", self.build_displayed_message(message), channel.id)
        if user.is_bot and message.is_reply:
            self.panes.clear_status(channel.id, message.root)
        return message

    def begin_chat(self, channel: Channel) -> Message:
        """Start an assistant thread, whose root Slack writes for the app
        (docs.slack.dev/reference/events/message/assistant_app_thread).
        """
        thread_info: JSON = {"title": "New chat", "title_blocks": [], "artifacts": []}
        return self.post(BOT_USER, channel, {"text": "New chat", "subtype": "assistant_app_thread", "assistant_app_thread": thread_info})

    def edit(self, message: Message, fields: JSON, by_hand: bool = True) -> None:
        """Change a message. `by_hand`: mark it as edited."""
        before = dict(message.body)
        message.body.update(fields)
        if by_hand:
            message.body["edited"] = {"user": message.body["user"], "ts": self.next_ts()}
        self.journal.add("message_changed", {"message": self.build_displayed_message(message), "previous": before}, message.channel)

    def delete(self, message: Message) -> None:
        del self.channels[message.channel].messages[message.ts]
        self.journal.add("message_deleted", {"ts": message.ts, "previous": dict(message.body)}, message.channel)

    def whisper(self, channel: Channel, user_id: str, body: JSON) -> Message:
        """Post an ephemeral message: one person sees it and the API cannot fetch it."""
        fields = {"type": "message", "user": BOT_USER, "bot_id": App.bot_id, "ts": self.next_ts(), "is_ephemeral": True, **body}
        message = Message(channel.id, fields, ephemeral_to=user_id)
        self.ephemerals[message.ts] = message
        self.journal.add("ephemeral", dict(fields), channel.id, user_id)
        return message

    def unwhisper(self, message: Message) -> None:
        self.ephemerals.pop(message.ts, None)
        self.journal.add("ephemeral_gone", {"ts": message.ts}, message.channel, message.ephemeral_to)

    def react(self, user_id: str, message: Message, name: str) -> None:
        reactions: list[JSON] = message.body.setdefault("reactions", [])
        reaction = next((entry for entry in reactions if entry["name"] == name), None)
        if reaction is None:
            reaction = {"name": name, "users": [], "count": 0}
            reactions.append(reaction)
        if user_id in reaction["users"]:
            raise SlackRefusal("already_reacted")
        reaction["users"].append(user_id)
        reaction["count"] += 1
        data = {"user": user_id, "name": name, "ts": message.ts, "message": self.build_displayed_message(message)}
        self.journal.add("reaction", data, message.channel)

    def unreact(self, user_id: str, message: Message, name: str) -> None:
        reactions: list[JSON] = message.body.get("reactions", [])
        reaction = next((entry for entry in reactions if entry["name"] == name and user_id in entry["users"]), None)
        if reaction is None:
            raise SlackRefusal("no_reaction")
        reaction["users"].remove(user_id)
        reaction["count"] -= 1
        if not reaction["users"]:
            reactions.remove(reaction)
        data = {"user": user_id, "name": name, "ts": message.ts, "message": self.build_displayed_message(message)}
        self.journal.add("reaction_gone", data, message.channel)

    def share(self, channel: Channel, team_id: str) -> None:
        """Make it a Slack Connect channel and add the other team's people."""
        if team_id not in self.teams:
            raise SlackRefusal("team_not_found")
        channel.shared_with.add(team_id)
        new_members = [user.id for user in self.users.values() if user.team_id == team_id and user.id not in channel.members]
        channel.members.extend(new_members)
        self.journal.add("shared", {"id": channel.id, "team": team_id}, channel.id)

    def unshare(self, channel: Channel, team_id: str) -> None:
        """Remove the other team's people; their messages stay."""
        if team_id not in channel.shared_with:
            raise SlackRefusal("team_not_found")
        channel.shared_with.remove(team_id)
        channel.members = [member for member in channel.members if self.users[member].team_id != team_id]
        self.journal.add("unshared", {"id": channel.id, "team": team_id, "still": bool(channel.shared_with)}, channel.id)

    def publish(self, user_id: str, view: JSON) -> None:
        self.homes[user_id] = view
        self.journal.add("home", {"view": view}, user=user_id)

    def build_displayed_message(self, message: Message) -> JSON:
        """Return the message as people see it, a root with its thread's counts."""
        body = dict(message.body)
        replies = [reply for reply in self.channels[message.channel].thread(message.ts) if reply.is_reply]
        if replies and not message.is_reply:
            users = list(dict.fromkeys(reply.body["user"] for reply in replies))
            body |= {"thread_ts": message.ts, "reply_count": len(replies), "reply_users": users[:5]}
            body |= {"reply_users_count": len(users), "latest_reply": replies[-1].ts}
        return body

    def bot_profile(self) -> JSON:
        return {"id": App.bot_id, "app_id": App.id, "name": self.app.name, "team_id": HOME_TEAM, "deleted": False, "updated": EPOCH}

    def channel_wire(self, channel: Channel) -> JSON:
        base: JSON = {"id": channel.id, "created": EPOCH, "is_archived": channel.is_archived, "context_team_id": HOME_TEAM}
        if channel.is_im:
            return base | {"is_im": True, "is_channel": False, "user": channel.partner, "is_ext_shared": False, "is_open": True}
        shared, teams = bool(channel.shared_with), sorted(channel.shared_with)
        return base | {
            "name": channel.name,
            "name_normalized": channel.name,
            "is_channel": True,
            "is_group": False,
            "is_im": False,
            "is_mpim": False,
            "is_private": False,
            "is_general": False,
            "is_shared": shared,
            "is_ext_shared": shared,
            "is_org_shared": False,
            "is_pending_ext_shared": False,
            "is_member": BOT_USER in channel.members,
            "creator": "U0OLGA",
            "topic": {"value": channel.topic, "creator": "", "last_set": 0},
            "purpose": {"value": "", "creator": "", "last_set": 0},
            "shared_team_ids": [HOME_TEAM, *teams],
            "connected_team_ids": teams,
            "num_members": len(channel.members),
        }

    def convert_typed_text(self, text: str) -> str:
        """Return typed text as Slack stores it: mentions resolved, links marked, the rest escaped."""
        return "".join(self._iter_stored_pieces(text))

    def _iter_stored_pieces(self, text: str) -> Iterator[str]:
        for piece in re.split(r"(<@[UW][A-Z0-9]+>|(?<!\w)@[\w.-]+|https?://[^\s<>|]+)", text):
            name = piece.removeprefix("@")
            user = next((candidate for candidate in self.users.values() if piece in (f"<@{candidate.id}>", f"@{candidate.name}")), None)
            group = next((candidate for candidate in self.groups.values() if piece.startswith("@") and candidate.handle == name), None)
            if user:
                yield f"<@{user.id}>"
            elif group:
                yield f"<!subteam^{group.id}>"
            elif piece.startswith(("http://", "https://")):
                yield f"<{escape_text(piece)}>"
            else:
                yield escape_text(piece)


def escape_text(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def create_channels() -> Iterator[Channel]:
    operators = ["U0OLGA", "U0PRIYA", "U0ANTON", "U0DMITRI"]
    yield Channel("C0GPUINC", "gpu-incidents", [*operators, "U0GUEST", BOT_USER], "GPU cluster incidents, operators only")
    yield Channel("C0CUSTACME", "cust-acme", [*operators, "U0CARLA", BOT_USER], "Shared with Acme AI", shared_with={ACME_TEAM})
    yield Channel("C0RANDOM", "random", [*operators, "U0GUEST", BOT_USER], "Anything else")
