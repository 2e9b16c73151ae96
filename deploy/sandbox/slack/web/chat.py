"""chat.* and reactions.*, with Slack's checks."""

from typing import Any

from deploy.sandbox.slack.web.calls import ApiCall
from deploy.sandbox.slack.workspace.blockkit import MAX_BLOCK_TEXT_CHARS, exceeds_text_limit, find_problems, format_problem
from deploy.sandbox.slack.workspace.people import BOT_USER
from deploy.sandbox.slack.workspace.refusal import JSON, SlackRefusal
from deploy.sandbox.slack.workspace.views import add_missing_ids
from deploy.sandbox.slack.workspace.workspace import Channel, Message, Workspace

MAX_POST_CHARS = 40_000
MAX_UPDATE_BYTES = 4_000
MAX_MARKDOWN_CHARS = 12_000
MAX_METADATA_BYTES = 16_000


def post_message(call: ApiCall) -> JSON:
    channel = call.channel()
    body = read_content(call)
    if len(body["text"]) > MAX_POST_CHARS:
        raise SlackRefusal("msg_too_long")
    message = call.workspace.post(BOT_USER, channel, body | read_thread(call, channel))
    return {"channel": channel.id, "ts": message.ts, "message": call.workspace.build_displayed_message(message)}


def update_message(call: ApiCall) -> JSON:
    channel, message = call.channel(), find_own_message(call, "cant_update_message")
    body = read_content(call, earlier=message.body)
    if len(body["text"].encode()) > MAX_UPDATE_BYTES:
        raise SlackRefusal("msg_too_long")
    call.workspace.edit(message, body)
    return {"channel": channel.id, "ts": message.ts, "text": body["text"], "message": call.workspace.build_displayed_message(message)}


def delete_message(call: ApiCall) -> JSON:
    message = find_own_message(call, "cant_delete_message")
    call.workspace.delete(message)
    return {"channel": message.channel, "ts": message.ts}


def post_ephemeral(call: ApiCall) -> JSON:
    channel, user = call.channel(), call.workspace.user(call.need("user"))
    if user.id not in channel.members:
        raise SlackRefusal("user_not_in_channel")
    message = call.workspace.whisper(channel, user.id, read_content(call) | read_thread(call, channel))
    return {"message_ts": message.ts}


def get_permalink(call: ApiCall) -> JSON:
    message = call.message("message_ts")
    link = f"{call.origin}/archives/{message.channel}/p{message.ts.replace('.', '')}"
    thread_part = f"?thread_ts={message.root}&cid={message.channel}" if message.is_reply else ""
    return {"channel": message.channel, "permalink": link + thread_part}


def add_reaction(call: ApiCall) -> JSON:
    name = call.need("name").strip(":")
    if not name.replace("_", "").replace("-", "").replace("+", "").isalnum():
        raise SlackRefusal("invalid_name")
    call.workspace.react(BOT_USER, call.message("timestamp"), name)
    return {}


def remove_reaction(call: ApiCall) -> JSON:
    call.workspace.unreact(BOT_USER, call.message("timestamp"), call.need("name").strip(":"))
    return {}


def find_own_message(call: ApiCall, otherwise: str) -> Message:
    message = call.message()
    if message.body["user"] != BOT_USER:
        raise SlackRefusal(otherwise)
    return message


def read_thread(call: ApiCall, channel: Channel) -> JSON:
    if not (ts := call.text("thread_ts")):
        return {}
    if ts not in channel.messages or channel.messages[ts].is_reply:
        raise SlackRefusal("thread_not_found")
    return {"thread_ts": ts}


def read_content(call: ApiCall, earlier: JSON | None = None) -> JSON:
    """Return text, blocks, attachments and metadata after Slack's checks."""
    blocks, text, markdown = call.structure("blocks"), call.text("text"), call.text("markdown_text")
    if markdown and (text or blocks):
        raise SlackRefusal("markdown_text_conflict")
    if len(markdown) > MAX_MARKDOWN_CHARS:
        raise SlackRefusal("msg_too_long")
    attachments = call.structure("attachments")
    if not (blocks or text.strip() or markdown or attachments):
        raise SlackRefusal("no_text")
    body: JSON = {"text": text or markdown}
    if blocks is not None:
        body["blocks"] = validate_blocks(blocks, call.workspace.unknown_blocks)
    elif markdown:
        body["blocks"] = add_missing_ids([{"type": "markdown", "text": markdown}])
    elif earlier and "blocks" in earlier:
        body["blocks"] = []
    if attachments:
        body["attachments"] = [attachment | {"blocks": validate_blocks(attachment.get("blocks", []))} for attachment in attachments]
    return body | read_metadata(call)


def validate_blocks(blocks: Any, unknown: frozenset[str] = frozenset()) -> list[JSON]:
    """Return validated blocks with ids; `unknown` block types are refused."""
    if not isinstance(blocks, list):
        raise SlackRefusal("invalid_blocks_format")
    if strange := [block["type"] for block in blocks if isinstance(block, dict) and block.get("type") in unknown]:
        raise SlackRefusal("invalid_blocks", format_problem(f"unsupported type: {strange[0]}", "/blocks"))
    if found := find_problems(blocks, "message"):
        raise SlackRefusal("invalid_blocks", *found, errors=[line.removeprefix("[ERROR] ") for line in found])
    if exceeds_text_limit(blocks):
        raise SlackRefusal(
            "msg_blocks_too_long", format_problem(f"block text is limited to about {MAX_BLOCK_TEXT_CHARS} characters together", "/blocks")
        )
    return add_missing_ids(blocks)


def read_metadata(call: ApiCall) -> JSON:
    given = call.structure("metadata")
    if not given:
        return {}
    if not isinstance(given, dict) or not isinstance(given.get("event_type"), str) or not isinstance(given.get("event_payload"), dict):
        raise SlackRefusal("invalid_metadata_format")
    if len(str(given).encode()) > MAX_METADATA_BYTES:
        raise SlackRefusal("metadata_too_large")
    return {"metadata": given}


def show_message(workspace: Workspace, message: Message, show: bool) -> JSON:
    """Return the message, with metadata only on request."""
    body = workspace.build_displayed_message(message)
    return body if show else {key: value for key, value in body.items() if key != "metadata"}
