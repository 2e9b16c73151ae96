"""Events API payloads from journal entries, and the bodies of clicks and commands. A channel mention yields two events,
`app_mention` and `message`; the app also gets its own messages.
"""

import re
from collections.abc import Iterator
from typing import Any

from deploy.sandbox.slack.workspace.journal import Change
from deploy.sandbox.slack.workspace.people import BOT_USER, HOME_TEAM, App, User
from deploy.sandbox.slack.workspace.refusal import JSON
from deploy.sandbox.slack.workspace.workspace import Channel, Message, Workspace, create_short_id

VERIFICATION = "sandbox-verification-token"


def iter_payloads(workspace: Workspace, change: Change) -> Iterator[JSON]:
    """Yield the events of one change; none if the bot is not a member or not subscribed."""
    if change.channel and not workspace.sees(BOT_USER, change.channel):
        return
    for subscription, event in EVENTS.get(change.kind, lambda _ws, _change: iter(()))(workspace, change):
        if workspace.app.is_subscribed_to(subscription):
            yield build_callback(workspace, event, change.channel)


def build_callback(workspace: Workspace, event: JSON, channel: str = "") -> JSON:
    shared = bool(channel and workspace.channels[channel].shared_with)
    speaker = workspace.users.get(str(event.get("user", "")))
    return {
        "token": VERIFICATION,
        "team_id": HOME_TEAM,
        "context_team_id": speaker.team_id if speaker and shared else HOME_TEAM,
        "context_enterprise_id": None,
        "api_app_id": App.id,
        "event": event,
        "type": "event_callback",
        "event_id": create_short_id("Ev"),
        "event_time": int(float(event["event_ts"])),
        "authorizations": [
            {"enterprise_id": None, "team_id": HOME_TEAM, "user_id": BOT_USER, "is_bot": True, "is_enterprise_install": False},
        ],
        "is_ext_shared_channel": shared,
        "event_context": create_short_id("4-"),
    }


EventPayloads = Iterator[tuple[str, JSON]]


def build_message_events(workspace: Workspace, change: Change) -> EventPayloads:
    channel, body = workspace.channels[change.channel], dict(change.data)
    event = build_message_body(workspace, channel, body) | {
        "channel": channel.id,
        "event_ts": body["ts"],
        "channel_type": get_channel_type(channel),
    }
    if not channel.is_im and body["user"] != BOT_USER and f"<@{BOT_USER}>" in body.get("text", ""):
        mention = {key: value for key, value in event.items() if key not in ("subtype", "channel_type", "upload")}
        yield "app_mention", mention | {"type": "app_mention"}
    yield get_subscription(channel), event
    for file in body.get("files", []):
        shared = {"file_id": file["id"], "file": {"id": file["id"]}, "user_id": body["user"]}
        yield "file_shared", {"type": "file_shared", **shared, "channel_id": channel.id, "event_ts": body["ts"]}


def build_message_body(workspace: Workspace, channel: Channel, body: JSON) -> JSON:
    """Return a message as an event carries it: with the author's team in shared channels, and foreign files as
    references.
    """
    event = {key: value for key, value in body.items() if key not in ("reply_count", "reply_users", "reply_users_count", "latest_reply")}
    user = workspace.users[body["user"]]
    if channel.shared_with:
        event |= {"user_team": user.organisation or user.team_id, "source_team": user.team_id}
        if user.team_id != HOME_TEAM and "files" in body:
            event["files"] = [{"id": f["id"], "mode": "file_access", "file_access": "check_file_info"} for f in body["files"]]
    if not user.is_bot and "blocks" not in event and body.get("text"):
        event["blocks"] = [build_rich_text(body["text"])]
    return event


def build_edit_events(workspace: Workspace, change: Change) -> EventPayloads:
    channel, message, previous = workspace.channels[change.channel], change.data["message"], change.data["previous"]
    same = {"channel": channel.id, "channel_type": get_channel_type(channel), "hidden": True}
    event = {"type": "message", "subtype": "message_changed", "message": message, "previous_message": previous, **same}
    yield get_subscription(channel), event | {"ts": message["ts"], "event_ts": get_event_time(workspace)}


def build_deletion_events(workspace: Workspace, change: Change) -> EventPayloads:
    channel = workspace.channels[change.channel]
    same = {"channel": channel.id, "channel_type": get_channel_type(channel), "hidden": True, "event_ts": get_event_time(workspace)}
    event = {"type": "message", "subtype": "message_deleted", "deleted_ts": change.data["ts"], "ts": get_event_time(workspace)}
    yield get_subscription(channel), event | same | {"previous_message": change.data["previous"]}


def build_reaction_events(workspace: Workspace, change: Change) -> EventPayloads:
    data = change.data
    item = {"type": "message", "channel": change.channel, "ts": data["ts"]}
    who = {"user": data["user"], "item_user": data["message"]["user"]}
    yield "reaction_added", {"type": "reaction_added", "reaction": data["name"], "item": item, **who, "event_ts": get_event_time(workspace)}


def build_shared_events(workspace: Workspace, change: Change) -> EventPayloads:
    """docs.slack.dev/reference/events/channel_shared: also for each further workspace."""
    data = change.data
    yield (
        "channel_shared",
        {"type": "channel_shared", "connected_team_id": data["team"], "channel": data["id"], "event_ts": get_event_time(workspace)},
    )


def build_unshared_events(workspace: Workspace, change: Change) -> EventPayloads:
    """docs.slack.dev/reference/events/channel_unshared: `is_ext_shared` is true while others remain."""
    data = change.data
    about = {"channel": data["id"], "previously_connected_team_id": data["team"], "is_ext_shared": data["still"]}
    yield "channel_unshared", {"type": "channel_unshared", **about, "event_ts": get_event_time(workspace)}


def build_join_events(workspace: Workspace, change: Change) -> EventPayloads:
    who = {"user": change.data["user"], "channel": change.channel, "channel_type": "C", "team": HOME_TEAM}
    yield "member_joined_channel", {"type": "member_joined_channel", **who, "event_ts": get_event_time(workspace)}


EVENTS = {
    "message": build_message_events,
    "message_changed": build_edit_events,
    "message_deleted": build_deletion_events,
    "reaction": build_reaction_events,
    "shared": build_shared_events,
    "unshared": build_unshared_events,
    "joined": build_join_events,
}


def build_home_opened(workspace: Workspace, user: User, tab: str = "home") -> JSON:
    """docs.slack.dev/reference/events/app_home_opened: tab `home`, or `messages` for the conversation."""
    event: JSON = {
        "type": "app_home_opened",
        "user": user.id,
        "channel": f"D{user.id[1:]}",
        "tab": tab,
        "event_ts": get_event_time(workspace),
    }
    if tab == "home" and user.id in workspace.homes:
        event["view"] = workspace.homes[user.id]
    return build_callback(workspace, event)


def build_thread_event(workspace: Workspace, kind: str, user: User, root: Message, viewing: str) -> JSON:
    """Return `assistant_thread_started` or `assistant_thread_context_changed`: user, thread and viewed channel
    (docs.slack.dev/reference/events/assistant_thread_started, …/assistant_thread_context_changed).
    """
    context = {"channel_id": viewing, "team_id": HOME_TEAM, "enterprise_id": None} if viewing else {}
    about = {"user_id": user.id, "context": context, "channel_id": root.channel, "thread_ts": root.ts}
    return build_callback(workspace, {"type": kind, "assistant_thread": about, "event_ts": get_event_time(workspace)})


def build_context_changed(workspace: Workspace, user: User, viewing: str) -> JSON:
    """Return an agent's `app_context_changed` (docs.slack.dev/reference/events/app_context_changed)."""
    entities = [{"type": "slack#/types/channel_id", "value": viewing, "team_id": HOME_TEAM}]
    return build_callback(
        workspace,
        {"type": "app_context_changed", "user": user.id, "context": {"entities": entities}, "event_ts": get_event_time(workspace)},
    )


def get_event_time(workspace: Workspace) -> str:
    return f"{workspace.clock():.6f}"


def get_channel_type(channel: Channel) -> str:
    return "im" if channel.is_im else "channel"


def get_subscription(channel: Channel) -> str:
    return "message.im" if channel.is_im else "message.channels"


def build_rich_text(text: str) -> JSON:
    """Return the block that Slack's composer makes of typed text."""
    pieces = re.split(r"(<@\w+>|<!subteam\^\w+>|<https?://[^>]+>)", text)
    elements = [build_rich_text_element(piece) for piece in pieces if piece]
    return {"type": "rich_text", "block_id": create_short_id("")[:5], "elements": [{"type": "rich_text_section", "elements": elements}]}


def build_rich_text_element(piece: str) -> JSON:
    inside = piece[1:-1]
    if piece.startswith("<@"):
        return {"type": "user", "user_id": inside[1:]}
    if piece.startswith("<!subteam^"):
        return {"type": "usergroup", "usergroup_id": inside.removeprefix("!subteam^")}
    if piece.startswith("<http"):
        return {"type": "link", "url": inside}
    return {"type": "text", "text": piece.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")}


def build_interaction(workspace: Workspace, kind: str, user: User, trigger_id: str) -> JSON:
    """Return the common fields of clicks, submissions and shortcuts."""
    team = workspace.teams[HOME_TEAM]
    return {
        "type": kind,
        "user": {"id": user.id, "username": user.name, "name": user.name, "team_id": user.team_id},
        "api_app_id": App.id,
        "token": VERIFICATION,
        "trigger_id": trigger_id,
        "team": {"id": team.id, "domain": team.domain},
        "enterprise": None,
        "is_enterprise_install": False,
    }


def build_message_container(workspace: Workspace, message: Message) -> JSON:
    """Return a click's message; for an ephemeral one Slack sends only its place."""
    channel = workspace.channels[message.channel]
    container: JSON = {"type": "message", "message_ts": message.ts, "channel_id": channel.id, "is_ephemeral": bool(message.ephemeral_to)}
    if message.is_reply:
        container["thread_ts"] = message.root
    body: JSON = {"container": container, "channel": {"id": channel.id, "name": "directmessage" if channel.is_im else channel.name}}
    return body if message.ephemeral_to else body | {"message": workspace.build_displayed_message(message)}


def build_action(workspace: Workspace, block_id: str, element: JSON, entry: JSON) -> JSON:
    """Return one entry of `actions`: the element and the chosen value."""
    done: Any = {"action_id": element["action_id"], "block_id": block_id, "type": element["type"], "action_ts": get_event_time(workspace)}
    kept = {key: element[key] for key in ("text", "value", "style") if key in element}
    return {**done, **kept, **{key: value for key, value in entry.items() if key != "type"}}
