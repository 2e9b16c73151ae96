"""chat.* and reactions.*, with Slack's checks."""

from typing import Any

from deploy.sandbox.slack.web.calls import Call
from deploy.sandbox.slack.workspace.blockkit import BLOCK_TEXT_TOGETHER, error, problems, too_long_together
from deploy.sandbox.slack.workspace.people import BOT
from deploy.sandbox.slack.workspace.refusal import JSON, SlackRefusal
from deploy.sandbox.slack.workspace.views import named
from deploy.sandbox.slack.workspace.workspace import Channel, Message, Workspace

POST_TEXT = 40_000
UPDATE_TEXT_BYTES = 4_000
MARKDOWN_TEXT = 12_000
METADATA_BYTES = 16_000


def post_message(call: Call) -> JSON:
    channel = call.channel()
    body = content(call)
    if len(body["text"]) > POST_TEXT:
        raise SlackRefusal("msg_too_long")
    message = call.ws.post(BOT, channel, body | thread(call, channel))
    return {"channel": channel.id, "ts": message.ts, "message": call.ws.shown(message)}


def update(call: Call) -> JSON:
    channel, message = call.channel(), own(call, "cant_update_message")
    body = content(call, earlier=message.body)
    if len(body["text"].encode()) > UPDATE_TEXT_BYTES:
        raise SlackRefusal("msg_too_long")
    call.ws.edit(message, body)
    return {"channel": channel.id, "ts": message.ts, "text": body["text"], "message": call.ws.shown(message)}


def delete(call: Call) -> JSON:
    message = own(call, "cant_delete_message")
    call.ws.delete(message)
    return {"channel": message.channel, "ts": message.ts}


def post_ephemeral(call: Call) -> JSON:
    channel, user = call.channel(), call.ws.user(call.need("user"))
    if user.id not in channel.members:
        raise SlackRefusal("user_not_in_channel")
    message = call.ws.whisper(channel, user.id, content(call) | thread(call, channel))
    return {"message_ts": message.ts}


def permalink(call: Call) -> JSON:
    message = call.message("message_ts")
    link = f"{call.origin}/archives/{message.channel}/p{message.ts.replace('.', '')}"
    thread_part = f"?thread_ts={message.root}&cid={message.channel}" if message.is_reply else ""
    return {"channel": message.channel, "permalink": link + thread_part}


def react(call: Call) -> JSON:
    name = call.need("name").strip(":")
    if not name.replace("_", "").replace("-", "").replace("+", "").isalnum():
        raise SlackRefusal("invalid_name")
    call.ws.react(BOT, call.message("timestamp"), name)
    return {}


def unreact(call: Call) -> JSON:
    call.ws.unreact(BOT, call.message("timestamp"), call.need("name").strip(":"))
    return {}


def own(call: Call, otherwise: str) -> Message:
    message = call.message()
    if message.body["user"] != BOT:
        raise SlackRefusal(otherwise)
    return message


def thread(call: Call, channel: Channel) -> JSON:
    if not (ts := call.text("thread_ts")):
        return {}
    if ts not in channel.messages or channel.messages[ts].is_reply:
        raise SlackRefusal("thread_not_found")
    return {"thread_ts": ts}


def content(call: Call, earlier: JSON | None = None) -> JSON:
    """Return text, blocks, attachments and metadata after Slack's checks."""
    blocks, text, markdown = call.structure("blocks"), call.text("text"), call.text("markdown_text")
    if markdown and (text or blocks):
        raise SlackRefusal("markdown_text_conflict")
    if len(markdown) > MARKDOWN_TEXT:
        raise SlackRefusal("msg_too_long")
    attachments = call.structure("attachments")
    if not (blocks or text.strip() or markdown or attachments):
        raise SlackRefusal("no_text")
    body: JSON = {"text": text or markdown}
    if blocks is not None:
        body["blocks"] = checked(blocks, call.ws.unknown_blocks)
    elif markdown:
        body["blocks"] = named([{"type": "markdown", "text": markdown}])
    elif earlier and "blocks" in earlier:
        body["blocks"] = []
    if attachments:
        body["attachments"] = [attachment | {"blocks": checked(attachment.get("blocks", []))} for attachment in attachments]
    return body | metadata(call)


def checked(blocks: Any, unknown: frozenset[str] = frozenset()) -> list[JSON]:
    """Return validated blocks with ids; `unknown` block types are refused."""
    if not isinstance(blocks, list):
        raise SlackRefusal("invalid_blocks_format")
    if strange := [block["type"] for block in blocks if isinstance(block, dict) and block.get("type") in unknown]:
        raise SlackRefusal("invalid_blocks", error(f"unsupported type: {strange[0]}", "/blocks"))
    if found := problems(blocks, "message"):
        raise SlackRefusal("invalid_blocks", *found, errors=[line.removeprefix("[ERROR] ") for line in found])
    if too_long_together(blocks):
        raise SlackRefusal(
            "msg_blocks_too_long", error(f"block text is limited to about {BLOCK_TEXT_TOGETHER} characters together", "/blocks")
        )
    return named(blocks)


def metadata(call: Call) -> JSON:
    given = call.structure("metadata")
    if not given:
        return {}
    if not isinstance(given, dict) or not isinstance(given.get("event_type"), str) or not isinstance(given.get("event_payload"), dict):
        raise SlackRefusal("invalid_metadata_format")
    if len(str(given).encode()) > METADATA_BYTES:
        raise SlackRefusal("metadata_too_large")
    return {"metadata": given}


def hidden_metadata(ws: Workspace, message: Message, show: bool) -> JSON:
    """Return the message, with metadata only on request."""
    body = ws.shown(message)
    return body if show else {key: value for key, value in body.items() if key != "metadata"}
