"""auth, users, user groups, bots and conversations."""

from collections.abc import Callable

from deploy.sandbox.slack.web.calls import Call
from deploy.sandbox.slack.web.chat import hidden_metadata
from deploy.sandbox.slack.workspace.people import BOT, HOME, App, User
from deploy.sandbox.slack.workspace.refusal import JSON, SlackRefusal
from deploy.sandbox.slack.workspace.workspace import Channel, Message


def auth_test(call: Call) -> JSON:
    team = call.ws.teams[HOME]
    who = {"user": call.ws.users[BOT].name, "user_id": BOT, "bot_id": App.bot_id, "app_id": App.id}
    return {"url": f"{call.origin}/", "team": team.name, "team_id": HOME, **who, "is_enterprise_install": False}


def bots_info(call: Call) -> JSON:
    if call.text("bot") not in ("", App.bot_id):
        raise SlackRefusal("bot_not_found")
    return {"bot": call.ws.bot_profile() | {"user_id": BOT}}


def shown(call: Call, user: User) -> JSON:
    return user.wire(call.ws.is_stranger(user))


def users_info(call: Call) -> JSON:
    user = call.ws.users.get(call.text("user"))
    if user is None:
        raise SlackRefusal("user_not_found")
    return {"user": shown(call, user)}


def users_list(call: Call) -> JSON:
    mine = [shown(call, user) for user in call.ws.users.values() if user.team_id == HOME]
    page, cursor = paged(call, mine, 200)
    return {"members": page, "response_metadata": {"next_cursor": cursor}}


def groups_list(call: Call) -> JSON:
    return {"usergroups": [group.wire(call.flag("include_users")) for group in call.ws.groups.values()]}


def group_users(call: Call) -> JSON:
    group = call.ws.groups.get(call.text("usergroup"))
    if group is None:
        raise SlackRefusal("no_such_subteam")
    return {"users": list(group.users)}


def info(call: Call) -> JSON:
    """Return a public channel even if the bot is not a member, as Slack does."""
    ref = call.text("channel")
    return {"channel": call.ws.channel_wire(call.ws.channel(ref))}


def list_channels(call: Call) -> JSON:
    types = (call.text("types") or "public_channel").split(",")
    found = [c for c in call.ws.channels.values() if ("im" if c.is_im else "public_channel") in types]
    if call.flag("exclude_archived"):
        found = [c for c in found if not c.is_archived]
    page, cursor = paged(call, [call.ws.channel_wire(c) for c in found], 100)
    return {"channels": page, "response_metadata": {"next_cursor": cursor}}


def members(call: Call) -> JSON:
    page, cursor = paged(call, [{"id": m} for m in call.ws.channel(call.text("channel")).members], 100)
    return {"members": [row["id"] for row in page], "response_metadata": {"next_cursor": cursor}}


def open_dm(call: Call) -> JSON:
    if ref := call.text("channel"):
        return {"channel": {"id": call.ws.channel(ref).id}}
    users = [user for user in call.text("users").split(",") if user]
    if len(users) != 1:
        raise SlackRefusal("users_list_not_supplied" if not users else "method_not_supported_for_channel_type")
    return {"channel": {"id": call.ws.dm(users[0]).id}}


def join(call: Call) -> JSON:
    channel = call.ws.channel(call.text("channel"))
    if BOT not in channel.members:
        channel.members.append(BOT)
        call.ws.journal.add("joined", {"user": BOT, "id": channel.id}, channel.id)
    return {"channel": call.ws.channel_wire(channel)}


def history(call: Call) -> JSON:
    """Return thread roots, newest first."""
    channel = readable(call)
    roots = [m for m in channel.messages.values() if not m.is_reply and within(call, m)]
    return said(call, roots[::-1])


def replies(call: Call) -> JSON:
    """Return the thread, oldest first, always with its root."""
    channel, ts = readable(call), call.need("ts")
    if ts not in channel.messages:
        raise SlackRefusal("thread_not_found")
    return said(call, [m for m in channel.thread(channel.messages[ts].root) if m.ts == ts or within(call, m)])


def readable(call: Call) -> Channel:
    channel = call.ws.channel(call.text("channel"))
    if BOT not in channel.members:
        raise SlackRefusal("not_in_channel")
    return channel


def said(call: Call, messages: list[Message]) -> JSON:
    show = call.flag("include_all_metadata")
    page, cursor = paged(call, [hidden_metadata(call.ws, message, show) for message in messages], 100)
    return {"messages": page, "has_more": bool(cursor), "response_metadata": {"next_cursor": cursor}}


def within(call: Call, message: Message) -> bool:
    oldest, latest, ts = float(call.text("oldest") or 0), float(call.text("latest") or "inf"), float(message.ts)
    return oldest <= ts <= latest if call.flag("inclusive") else oldest < ts < latest


def paged(call: Call, entries: list[JSON], otherwise: int) -> tuple[list[JSON], str]:
    limit, cursor = min(call.number("limit", otherwise) or otherwise, 1000), call.text("cursor")
    if cursor and not cursor.removeprefix("at:").isdigit():
        raise SlackRefusal("invalid_cursor")
    start = int(cursor.removeprefix("at:") or 0)
    return entries[start : start + limit], f"at:{start + limit}" if start + limit < len(entries) else ""


Method = Callable[[Call], JSON]
