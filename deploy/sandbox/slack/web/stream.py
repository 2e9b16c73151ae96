"""chat.startStream, appendStream, stopStream: a message that grows by chunks until it is stopped, or is too old."""

from typing import Any

from deploy.sandbox.slack.web.calls import Call
from deploy.sandbox.slack.web.chat import MARKDOWN_TEXT, checked, metadata, own, streams, thread
from deploy.sandbox.slack.workspace.people import BOT
from deploy.sandbox.slack.workspace.refusal import JSON, SlackRefusal
from deploy.sandbox.slack.workspace.views import named
from deploy.sandbox.slack.workspace.workspace import Message

STATUSES = frozenset({"pending", "in_progress", "complete", "error"})


def start(call: Call) -> JSON:
    channel = call.channel()
    place = thread(call, channel)
    if not place:
        raise SlackRefusal("invalid_arguments", "[ERROR] missing required field: thread_ts")
    if not channel.is_im:
        for name in ("recipient_user_id", "recipient_team_id"):
            if not call.text(name):
                raise SlackRefusal(f"missing_{name}")
    if call.text("task_display_mode") not in ("", "timeline", "plan"):
        raise SlackRefusal("invalid_arguments", "[ERROR] must be one of: timeline, plan [json-pointer:/task_display_mode]")
    chunks = given(call)
    stream = {"mode": call.text("task_display_mode") or "timeline", "began": call.ws.clock()}
    body: JSON = {"text": "", "streaming_state": "in_progress", "stream": stream, **place}
    message = call.ws.post(BOT, channel, body | {"blocks": []})
    message.streaming = True
    grow(call, message, chunks)
    return {"channel": channel.id, "ts": message.ts}


def append(call: Call) -> JSON:
    message = open_stream(call)
    chunks = given(call)
    if not chunks:
        raise SlackRefusal("no_text")
    grow(call, message, chunks)
    return {"channel": message.channel, "ts": message.ts}


def stop(call: Call) -> JSON:
    message = open_stream(call)
    blocks = call.structure("blocks")
    extra = checked(blocks) if blocks else []
    more = metadata(call)
    grow(call, message, given(call))
    message.streaming = False
    done = {"blocks": message.body["blocks"] + extra, "streaming_state": "completed", **more}
    call.ws.edit(message, done, by_hand=False)
    return {"channel": message.channel, "ts": message.ts, "message": call.ws.shown(message)}


def open_stream(call: Call) -> Message:
    message = own(call, "message_not_owned_by_app")
    if not streams(call, message):
        raise SlackRefusal("message_not_in_streaming_state")
    return message


def given(call: Call) -> list[JSON]:
    """The call's chunks, with markdown_text as one of them."""
    chunks: Any = call.structure("chunks") or []
    if not isinstance(chunks, list) or not all(isinstance(chunk, dict) and valid(chunk) for chunk in chunks):
        raise SlackRefusal("invalid_chunks")
    text = call.text("markdown_text")
    if sum(len(str(c.get("text", ""))) for c in chunks) + len(text) > MARKDOWN_TEXT:
        raise SlackRefusal("msg_too_long")
    return [*([{"type": "markdown_text", "text": text}] if text else []), *chunks]


def valid(chunk: JSON) -> bool:
    match chunk:
        case {"type": "markdown_text", "text": str()} | {"type": "plan_update", "title": str()} | {"type": "blocks", "blocks": list()}:
            return True
        case {"type": "task_update", "id": str(), "title": str()}:
            return chunk.get("status", "pending") in STATUSES
        case _:
            return False


def grow(call: Call, message: Message, chunks: list[JSON]) -> None:
    blocks: list[JSON] = [dict(block) for block in message.body["blocks"]]
    for chunk in chunks:
        match chunk["type"]:
            case "markdown_text":
                extend_text(blocks, chunk["text"])
            case "task_update":
                put(blocks, "task_id", {"type": "task_card", "task_id": chunk["id"], **without(chunk, "type", "id")})
            case "plan_update":
                put(blocks, "type", {"type": "plan", "title": chunk["title"]})
            case _:
                blocks += checked(chunk["blocks"])
    text = "\n".join(str(block["text"]) for block in blocks if block["type"] == "markdown")
    call.ws.edit(message, {"blocks": named(blocks), "text": text}, by_hand=False)


def extend_text(blocks: list[JSON], text: str) -> None:
    if blocks and blocks[-1]["type"] == "markdown":
        blocks[-1]["text"] += text
    else:
        blocks.append({"type": "markdown", "text": text})


def put(blocks: list[JSON], key: str, block: JSON) -> None:
    """Replace the block with the same key, or add it: a task keeps its place while its status changes."""
    for n, old in enumerate(blocks):
        if old["type"] == block["type"] and old.get(key) == block[key]:
            blocks[n] = old | block
            return
    blocks.append(block)


def without(chunk: JSON, *keys: str) -> JSON:
    return {key: value for key, value in chunk.items() if key not in keys}
