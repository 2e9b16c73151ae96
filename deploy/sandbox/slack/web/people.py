"""auth, users, user groups, bots and conversations."""

from collections.abc import Callable

from deploy.sandbox.slack.web.calls import ApiCall
from deploy.sandbox.slack.web.chat import show_message
from deploy.sandbox.slack.workspace.people import BOT_USER, HOME_TEAM, App, User
from deploy.sandbox.slack.workspace.refusal import JSON, SlackRefusal
from deploy.sandbox.slack.workspace.workspace import Channel, Message


def test_auth(call: ApiCall) -> JSON:
    team = call.workspace.teams[HOME_TEAM]
    who = {"user": call.workspace.users[BOT_USER].name, "user_id": BOT_USER, "bot_id": App.bot_id, "app_id": App.id}
    return {"url": f"{call.origin}/", "team": team.name, "team_id": HOME_TEAM, **who, "is_enterprise_install": False}


def get_bot_info(call: ApiCall) -> JSON:
    if call.text("bot") not in ("", App.bot_id):
        raise SlackRefusal("bot_not_found")
    return {"bot": call.workspace.bot_profile() | {"user_id": BOT_USER}}


def show_user(call: ApiCall, user: User) -> JSON:
    return user.wire(call.workspace.is_stranger(user))


def get_user_info(call: ApiCall) -> JSON:
    user = call.workspace.users.get(call.text("user"))
    if user is None:
        raise SlackRefusal("user_not_found")
    return {"user": show_user(call, user)}


def list_users(call: ApiCall) -> JSON:
    mine = [show_user(call, user) for user in call.workspace.users.values() if user.team_id == HOME_TEAM]
    page, cursor = page_entries(call, mine, 200)
    return {"members": page, "response_metadata": {"next_cursor": cursor}}


def list_groups(call: ApiCall) -> JSON:
    return {"usergroups": [group.wire(call.flag("include_users")) for group in call.workspace.groups.values()]}


def list_group_users(call: ApiCall) -> JSON:
    group = call.workspace.groups.get(call.text("usergroup"))
    if group is None:
        raise SlackRefusal("no_such_subteam")
    return {"users": list(group.users)}


def get_channel_info(call: ApiCall) -> JSON:
    """Return a public channel even if the bot is not a member, as Slack does."""
    ref = call.text("channel")
    return {"channel": call.workspace.channel_wire(call.workspace.channel(ref))}


def list_channels(call: ApiCall) -> JSON:
    types = (call.text("types") or "public_channel").split(",")
    found = [c for c in call.workspace.channels.values() if ("im" if c.is_im else "public_channel") in types]
    if call.flag("exclude_archived"):
        found = [c for c in found if not c.is_archived]
    page, cursor = page_entries(call, [call.workspace.channel_wire(c) for c in found], 100)
    return {"channels": page, "response_metadata": {"next_cursor": cursor}}


def list_members(call: ApiCall) -> JSON:
    page, cursor = page_entries(call, [{"id": m} for m in call.workspace.channel(call.text("channel")).members], 100)
    return {"members": [row["id"] for row in page], "response_metadata": {"next_cursor": cursor}}


def open_dm(call: ApiCall) -> JSON:
    if ref := call.text("channel"):
        return {"channel": {"id": call.workspace.channel(ref).id}}
    users = [user for user in call.text("users").split(",") if user]
    if len(users) != 1:
        raise SlackRefusal("users_list_not_supplied" if not users else "method_not_supported_for_channel_type")
    return {"channel": {"id": call.workspace.dm(users[0]).id}}


def join_channel(call: ApiCall) -> JSON:
    channel = call.workspace.channel(call.text("channel"))
    if BOT_USER not in channel.members:
        channel.members.append(BOT_USER)
        call.workspace.journal.add("joined", {"user": BOT_USER, "id": channel.id}, channel.id)
    return {"channel": call.workspace.channel_wire(channel)}


def list_history(call: ApiCall) -> JSON:
    """Return thread roots, newest first."""
    channel = get_readable_channel(call)
    roots = [m for m in channel.messages.values() if not m.is_reply and is_within_range(call, m)]
    return page_messages(call, roots[::-1])


def list_replies(call: ApiCall) -> JSON:
    """Return the thread, oldest first, always with its root."""
    channel, ts = get_readable_channel(call), call.need("ts")
    if ts not in channel.messages:
        raise SlackRefusal("thread_not_found")
    return page_messages(call, [m for m in channel.thread(channel.messages[ts].root) if m.ts == ts or is_within_range(call, m)])


def get_readable_channel(call: ApiCall) -> Channel:
    channel = call.workspace.channel(call.text("channel"))
    if BOT_USER not in channel.members:
        raise SlackRefusal("not_in_channel")
    return channel


def page_messages(call: ApiCall, messages: list[Message]) -> JSON:
    show = call.flag("include_all_metadata")
    page, cursor = page_entries(call, [show_message(call.workspace, message, show) for message in messages], 100)
    return {"messages": page, "has_more": bool(cursor), "response_metadata": {"next_cursor": cursor}}


def is_within_range(call: ApiCall, message: Message) -> bool:
    oldest, latest, ts = float(call.text("oldest") or 0), float(call.text("latest") or "inf"), float(message.ts)
    return oldest <= ts <= latest if call.flag("inclusive") else oldest < ts < latest


def page_entries(call: ApiCall, entries: list[JSON], otherwise: int) -> tuple[list[JSON], str]:
    limit, cursor = min(call.number("limit", otherwise) or otherwise, 1000), call.text("cursor")
    if cursor and not cursor.removeprefix("at:").isdigit():
        raise SlackRefusal("invalid_cursor")
    start = int(cursor.removeprefix("at:") or 0)
    return entries[start : start + limit], f"at:{start + limit}" if start + limit < len(entries) else ""


MethodHandler = Callable[[ApiCall], JSON]
