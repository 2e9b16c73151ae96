"""A person's actions: message, attach, react, click, submit, command. Each changes the workspace and notifies the app."""

import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from deploy.sandbox.slack.app import events
from deploy.sandbox.slack.app.socket_mode import Hub, SocketDelivery
from deploy.sandbox.slack.workspace.blockkit import list_elements
from deploy.sandbox.slack.workspace.people import BOT_USER, User
from deploy.sandbox.slack.workspace.refusal import JSON, SlackRefusal
from deploy.sandbox.slack.workspace.views import Views, build_element_state, read_submission, validate_view
from deploy.sandbox.slack.workspace.workspace import Channel, Message, Workspace

Files = Sequence[tuple[str, bytes]]
MAX_RESPONSES = 5
RESPONSE_LIFETIME_SECONDS = 1800.0
DELIVERY_FAILURE_TEXTS = {
    "timeout": "RackMedic took too long to answer. Slack does not try again; you can.",
    "nobody_connected": "RackMedic is not connected, so this went nowhere.",
}


@dataclass
class ResponseUrl:
    """A response_url: five answers within half an hour."""

    channel: str
    user: str
    message: Message | None
    expires: float
    left: int = MAX_RESPONSES


@dataclass
class UserActions:
    """What people do in the workspace."""

    workspace: Workspace
    views: Views
    hub: Hub
    origin: str = ""
    hooks: dict[str, ResponseUrl] = field(default_factory=dict)

    def say(self, user: str, channel: str, text: str, thread_ts: str = "", files: Files = (), *, raw: bool = False) -> Message:
        """Post a message; `raw`: the text is already in Slack's markup."""
        who, where = self.workspace.user(user), self._get_joined_channel(user, channel)
        body: JSON = {"text": text if raw else self.workspace.convert_typed_text(text)}
        if thread_ts:
            body["thread_ts"] = self.workspace.message(where.id, thread_ts).root
        if files:
            body |= {"files": list(self._store_files(who, where, files)), "subtype": "file_share", "upload": True}
        elif not text.strip():
            raise SlackRefusal("no_text")
        return self.workspace.post(who.id, where, body)

    def _store_files(self, who: User, where: Channel, files: Files) -> Iterable[JSON]:
        for name, content in files:
            file = self.workspace.files.add(who.id, name, content)
            file.channels.append(where.id)
            yield self.workspace.files.wire(file)

    def edit(self, user: str, channel: str, ts: str, text: str) -> None:
        self.workspace.edit(self._get_own_message(user, channel, ts), {"text": self.workspace.convert_typed_text(text)})

    def delete(self, user: str, channel: str, ts: str) -> None:
        self.workspace.delete(self._get_own_message(user, channel, ts))

    def react(self, user: str, channel: str, ts: str, name: str) -> None:
        self.workspace.react(self.workspace.user(user).id, self.workspace.message(self._get_joined_channel(user, channel).id, ts), name)

    async def click(
        self, user: str, message_ts: str, action_id: str, *, value: Any = None, block_id: str = "", inputs: Mapping[str, Any] | None = None
    ) -> SocketDelivery:
        """Use a button, menu or checkbox of a message. `value` selects an option, or one of several buttons with this
        action_id.
        """
        message = self._find_message(message_ts)
        who = self._require_visible(user, message)
        block, element = find_element(message.body.get("blocks", []), action_id, block_id, value)
        allowed = element.get("visible_to_user_ids")
        if allowed is not None and who.id not in allowed:
            raise SlackRefusal("action_not_visible")
        body = events.build_interaction(self.workspace, "block_actions", who, self.views.trigger(who.id)) | events.build_message_container(
            self.workspace, message
        )
        state, _ = read_submission(message.body, dict(inputs or {}))
        body |= {"state": {"values": state}, "response_url": self._create_response_url(who.id, message.channel, message)}
        return await self._send_action(who, body, block, element, value, message.channel)

    async def click_view(self, user: str, view_id: str, action_id: str, *, value: Any = None, values: JSON | None = None) -> SocketDelivery:
        """Use an element in a modal or home tab."""
        who = self.workspace.user(user)
        view = self.views.find(who.id, view_id)
        block, element = find_element(view["blocks"], action_id, "", value)
        if values is not None:
            view["state"] = {"values": read_submission(view, values)[0]}
        body = events.build_interaction(self.workspace, "block_actions", who, self.views.trigger(who.id))
        body |= {"container": {"type": "view", "view_id": view["id"]}, "view": view}
        return await self._send_action(who, body, block, element, value)

    async def _send_action(self, who: User, body: JSON, block: JSON, element: JSON, value: Any, channel: str = "") -> SocketDelivery:
        entry = {} if element["type"] in ("button", "icon_button") else build_element_state(convert_overflow(element), value)
        body["actions"] = [events.build_action(self.workspace, block["block_id"], element, entry)]
        return self._record_delivery(await self.hub.ask("interactive", body), who.id, channel)

    async def submit(self, user: str, view_id: str, values: JSON | None = None) -> JSON:
        """Submit a modal: return errors by block if it stays open, {} if the app accepted it."""
        who = self.workspace.user(user)
        view = self.views.find(who.id, view_id)
        state, errors = read_submission(view, values or {})
        if errors:
            return {"errors": errors}
        view["state"] = {"values": state}
        body = events.build_interaction(self.workspace, "view_submission", who, self.views.trigger(who.id)) | {
            "view": view,
            "response_urls": [],
        }
        delivery = self._record_delivery(await self.hub.ask("interactive", body, answerable=True), who.id)
        if not delivery.acked:
            return {"trouble": delivery.reason}
        return self._apply_response_action(who.id, view, delivery.payload)

    def _apply_response_action(self, user: str, view: JSON, answer: JSON) -> JSON:
        """Apply the response_action of a submission's ack."""
        match answer.get("response_action"):
            case "errors":
                known = {block["block_id"] for block in view["blocks"]}
                wrong = {key: text for key, text in answer.get("errors", {}).items() if key in known}
                return {"errors": wrong} if wrong else {"trouble": "invalid_errors"}
            case "update":
                self.views.update(answer["view"], view["id"])
            case "push":
                validate_view(answer["view"], "modal")
                self.views.push_for(user, answer["view"])
            case "clear":
                self.views.close(user, everything=True)
            case _:
                self.views.close(user)
        return {}

    async def close(self, user: str, view_id: str, everything: bool = False) -> None:
        """Dismiss a modal; notify the app if the view has notify_on_close."""
        who = self.workspace.user(user)
        everything = everything or bool(self.views.find(who.id, view_id)["clear_on_close"])
        for view in self.views.close(who.id, everything):
            if view["notify_on_close"]:
                body = events.build_interaction(self.workspace, "view_closed", who, "") | {"view": view, "is_cleared": everything}
                await self.hub.ask("interactive", body)

    async def command(self, user: str, channel: str, command: str, text: str = "") -> SocketDelivery:
        who, where = self.workspace.user(user), self._get_joined_channel(user, channel)
        row = next((row for row in self.workspace.app.commands if row["command"] == command), None)
        if row is None:
            raise SlackRefusal("unknown_command", f"{command} is not one of the app's commands")
        body = {
            "token": events.VERIFICATION,
            "team_id": "T0RACK",
            "team_domain": self.workspace.teams["T0RACK"].domain,
            "channel_id": where.id,
            "channel_name": "directmessage" if where.is_im else where.name,
            "user_id": who.id,
            "user_name": who.name,
            "command": command,
            "text": self.workspace.convert_typed_text(text) if row.get("should_escape") else text,
            "api_app_id": self.workspace.app.id,
            "is_enterprise_install": "false",
            "response_url": self._create_response_url(who.id, where.id),
            "trigger_id": self.views.trigger(who.id),
        }
        delivery = self._record_delivery(await self.hub.ask("slash_commands", body, answerable=True), who.id, where.id)
        if delivery.payload:
            self._post_response(ResponseUrl(where.id, who.id, None, 0), delivery.payload)
        return delivery

    async def shortcut(self, user: str, channel: str, message_ts: str, callback_id: str) -> SocketDelivery:
        """Use the app's message shortcut."""
        message = self.workspace.message(channel, message_ts)
        who = self._require_visible(user, message)
        if callback_id not in {row["callback_id"] for row in self.workspace.app.shortcuts}:
            raise SlackRefusal("unknown_shortcut", f"{callback_id} is not one of the app's shortcuts")
        body = events.build_interaction(self.workspace, "message_action", who, self.views.trigger(who.id)) | events.build_message_container(
            self.workspace, message
        )
        body |= {"callback_id": callback_id, "message_ts": message.ts, "action_ts": events.get_event_time(self.workspace)}
        body["response_url"] = self._create_response_url(who.id, message.channel, None)
        return self._record_delivery(await self.hub.ask("interactive", body), who.id, message.channel)

    def open_home(self, user: str) -> None:
        who = self.workspace.user(user)
        self._deliver_event("app_home_opened", events.build_home_opened(self.workspace, who))

    def open_pane(self, user: str, viewing: str = "") -> str:
        """Open the app's conversation; return the thread's ts in assistant view."""
        who = self.workspace.user(user)
        if self.workspace.app.view != "assistant":
            self.workspace.dm(who.id)
            self._deliver_event("app_home_opened", events.build_home_opened(self.workspace, who, "messages"))
            return ""
        root = self.workspace.begin_chat(self.workspace.dm(who.id))
        self._deliver_event(
            "assistant_thread_started", events.build_thread_event(self.workspace, "assistant_thread_started", who, root, viewing)
        )
        return root.ts

    def look_at(self, user: str, viewing: str, thread_ts: str = "") -> None:
        """View another channel while the conversation stays open."""
        who = self.workspace.user(user)
        if thread_ts:
            kind = "assistant_thread_context_changed"
            self._deliver_event(
                kind,
                events.build_thread_event(
                    self.workspace, kind, who, self.workspace.message(self.workspace.dm(who.id).id, thread_ts), viewing
                ),
            )
        else:
            self._deliver_event("app_context_changed", events.build_context_changed(self.workspace, who, viewing))

    def press_prompt(self, user: str, title: str, thread_ts: str = "") -> Message:
        """Send a suggested prompt's message as the user's own."""
        channel = self.workspace.dm(self.workspace.user(user).id).id
        offered = self.workspace.panes.prompts.get((channel, thread_ts)) or self.workspace.panes.prompts.get((channel, ""), {"prompts": []})
        for prompt in offered["prompts"]:
            if prompt["title"] == title:
                return self.say(user, channel, prompt["message"], thread_ts)
        raise SlackRefusal("prompt_not_found", f"no prompt is called {title}")

    def _deliver_event(self, subscription: str, event: JSON) -> None:
        if self.workspace.app.is_subscribed_to(subscription):
            self.hub.event(event)

    def respond(self, key: str, body: JSON) -> None:
        """Accept a post to a response_url."""
        hook = self.hooks.get(key)
        if hook is None or self.workspace.clock() > hook.expires:
            raise SlackRefusal("expired_url")
        if not hook.left:
            raise SlackRefusal("too_many_responses")
        hook.left -= 1
        self._post_response(hook, body)

    def _post_response(self, hook: ResponseUrl, body: JSON) -> None:
        content = {key: body[key] for key in ("text", "blocks", "attachments", "thread_ts") if body.get(key) is not None}
        if hook.message and (body.get("delete_original") or body.get("replace_original")):
            self._replace_message(hook.message, content, bool(body.get("delete_original")))
        elif body.get("response_type") == "in_channel":
            self.workspace.post(BOT_USER, self.workspace.channels[hook.channel], {"text": "", **content})
        else:
            self.workspace.whisper(self.workspace.channels[hook.channel], hook.user, {"text": "", **content})

    def _replace_message(self, message: Message, content: JSON, gone: bool) -> None:
        if message.ephemeral_to:
            self.workspace.unwhisper(message)
            if not gone:
                place = {"thread_ts": message.root} if message.is_reply else {}
                self.workspace.whisper(self.workspace.channels[message.channel], message.ephemeral_to, {"text": "", **place, **content})
        elif gone:
            self.workspace.delete(message)
        else:
            self.workspace.edit(message, content)

    def _create_response_url(self, user: str, channel: str, message: Message | None = None) -> str:
        key = secrets.token_urlsafe(18)
        self.hooks[key] = ResponseUrl(channel, user, message, self.workspace.clock() + RESPONSE_LIFETIME_SECONDS)
        return f"{self.origin}/respond/{key}"

    def _record_delivery(self, delivery: SocketDelivery, user: str, channel: str = "") -> SocketDelivery:
        """Show the person that a click got no answer."""
        if not delivery.acked:
            self.workspace.journal.add(
                "trouble", {"text": DELIVERY_FAILURE_TEXTS[delivery.reason], "reason": delivery.reason}, channel, user
            )
        return delivery

    def _get_joined_channel(self, user: str, channel: str) -> Channel:
        who, where = self.workspace.user(user), self.workspace.channel(channel)
        if who.id not in where.members:
            raise SlackRefusal("not_in_channel")
        if who.deleted:
            raise SlackRefusal("account_inactive")
        return where

    def _find_message(self, ts: str) -> Message:
        for channel in self.workspace.channels.values():
            if found := channel.messages.get(ts):
                return found
        if found := self.workspace.ephemerals.get(ts):
            return found
        raise SlackRefusal("message_not_found")

    def _require_visible(self, user: str, message: Message) -> User:
        who = self.workspace.user(user)
        self._get_joined_channel(user, message.channel)
        if message.ephemeral_to not in ("", who.id):
            raise SlackRefusal("message_not_found")
        return who

    def _get_own_message(self, user: str, channel: str, ts: str) -> Message:
        message = self.workspace.message(channel, ts)
        if message.body["user"] != self.workspace.user(user).id:
            raise SlackRefusal("cant_update_message")
        return message


def convert_overflow(element: JSON) -> JSON:
    """Treat an overflow menu as a select."""
    return element | {"type": "static_select"} if element["type"] == "overflow" else element


def find_element(blocks: list[JSON], action_id: str, block_id: str, value: Any) -> tuple[JSON, JSON]:
    """Return the element with this action_id; block and button value choose among several."""
    rows = [(block, element) for block in blocks for element in list_elements(block) if element.get("action_id") == action_id]
    rows = [row for row in rows if block_id in ("", row[0]["block_id"])]
    exact = [row for row in rows if value is not None and row[1].get("value") == value]
    if not (found := exact or rows):
        raise SlackRefusal("action_not_found", f"no element with action_id {action_id}")
    return found[0]
