"""files.* and views.*."""

from typing import Any

from deploy.sandbox.slack.web.calls import Call
from deploy.sandbox.slack.web.chat import thread
from deploy.sandbox.slack.workspace.files import File
from deploy.sandbox.slack.workspace.people import BOT
from deploy.sandbox.slack.workspace.refusal import JSON, SlackRefusal


def upload_url(call: Call) -> JSON:
    name, length = call.need("filename"), call.number("length", 0)
    if not length:
        raise SlackRefusal("invalid_arguments", "[ERROR] must be greater than 0 [json-pointer:/length]")
    file = call.ws.files.promise(BOT, name, length)
    file.alt = call.text("alt_txt")
    return {"upload_url": f"{call.origin}/upload/v1/{file.ticket}", "file_id": file.id}


def complete_upload(call: Call) -> JSON:
    rows: Any = call.structure("files")
    if not isinstance(rows, list) or not rows:
        raise SlackRefusal("invalid_arguments", "[ERROR] missing required field: files")
    files = [finished(call, row) for row in rows]
    named_channels = [name for name in (call.text("channel_id") or call.text("channels")).split(",") if name]
    for ref in named_channels:
        share(call, ref, files)
    return {"files": [call.ws.files.wire(file) for file in files]}


def finished(call: Call, upload: JSON) -> File:
    file = call.ws.files.get(str(upload.get("id", "")))
    if file.content is None:
        raise SlackRefusal("file_not_found")
    file.title = str(upload.get("title") or file.name)
    return file


def share(call: Call, ref: str, files: list[File]) -> None:
    at = Call(call.ws, call.views, call.args | {"channel": ref}, call.origin)
    channel = at.channel()
    for file in files:
        file.channels.append(channel.id)
    wires = [call.ws.files.wire(file) for file in files]
    body = {"text": call.text("initial_comment"), "files": wires, "subtype": "file_share", "upload": True, **thread(call, channel)}
    call.ws.post(BOT, channel, body)


def file_info(call: Call) -> JSON:
    return {"file": call.ws.files.wire(call.ws.files.get(call.text("file"))), "comments": [], "response_metadata": {"next_cursor": ""}}


def open_view(call: Call) -> JSON:
    return {"view": call.views.open(call.need("trigger_id"), call.structure("view"))}


def push_view(call: Call) -> JSON:
    return {"view": call.views.push(call.need("trigger_id"), call.structure("view"))}


def update_view(call: Call) -> JSON:
    return {"view": call.views.update(call.structure("view"), call.text("view_id"), call.text("external_id"), call.text("hash"))}


def publish_view(call: Call) -> JSON:
    return {"view": call.views.publish(call.ws.user(call.need("user_id")).id, call.structure("view"))}
