"""One Web API call: its arguments, however sent, and the workspace."""

import json
from dataclasses import dataclass
from typing import Any

from deploy.sandbox.slack.workspace.people import BOT_USER
from deploy.sandbox.slack.workspace.refusal import JSON, SlackRefusal
from deploy.sandbox.slack.workspace.views import Views
from deploy.sandbox.slack.workspace.workspace import Channel, Message, Workspace


@dataclass(frozen=True)
class ApiCall:
    workspace: Workspace
    views: Views
    args: JSON
    origin: str  # this server's address, for the URLs it returns

    def text(self, name: str) -> str:
        value = self.args.get(name)
        return "" if value is None else str(value)

    def flag(self, name: str) -> bool:
        return str(self.args.get(name, "")).lower() in ("1", "true")

    def need(self, name: str) -> str:
        if not (value := self.text(name)):
            raise SlackRefusal("invalid_arguments", f"[ERROR] missing required field: {name}")
        return value

    def number(self, name: str, default: int) -> int:
        value = self.text(name) or str(default)
        if not value.isdigit():
            raise SlackRefusal("invalid_arguments", f"[ERROR] must be an integer [json-pointer:/{name}]")
        return int(value)

    def structure(self, name: str) -> Any:
        """Return a list or object; forms carry it as JSON text."""
        value = self.args.get(name)
        if isinstance(value, str) and value:
            try:
                return json.loads(value)
            except ValueError as error:
                raise SlackRefusal("invalid_json" if name != "blocks" else "invalid_blocks_format") from error
        return value

    def channel(self, name: str = "channel") -> Channel:
        """Return the named channel, which the bot must be in. A user id means the direct message with that user."""
        ref = self.text(name)
        if ref in self.workspace.users:
            return self.workspace.dm(ref)
        channel = self.workspace.channel(ref)
        if BOT_USER not in channel.members:
            raise SlackRefusal("not_in_channel")
        if channel.is_archived:
            raise SlackRefusal("is_archived")
        return channel

    def message(self, ts: str = "ts") -> Message:
        channel = self.channel()
        message = channel.messages.get(self.need(ts))
        if message is None:
            raise SlackRefusal("message_not_found")
        return message
