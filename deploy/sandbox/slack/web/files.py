"""files.* and views.*."""

from typing import Any

from deploy.sandbox.slack.web.calls import ApiCall
from deploy.sandbox.slack.web.chat import read_thread
from deploy.sandbox.slack.workspace.files import File
from deploy.sandbox.slack.workspace.people import BOT_USER
from deploy.sandbox.slack.workspace.refusal import JSON, SlackRefusal


def create_upload_url(call: ApiCall) -> JSON:
    name, length = call.need("filename"), call.number("length", 0)
    if not length:
        raise SlackRefusal("invalid_arguments", "[ERROR] must be greater than 0 [json-pointer:/length]")
    file = call.workspace.files.create_pending(BOT_USER, name, length)
    file.alt = call.text("alt_txt")
    return {"upload_url": f"{call.origin}/upload/v1/{file.ticket}", "file_id": file.id}


def complete_upload(call: ApiCall) -> JSON:
    rows: Any = call.structure("files")
    if not isinstance(rows, list) or not rows:
        raise SlackRefusal("invalid_arguments", "[ERROR] missing required field: files")
    files = [finish_upload(call, row) for row in rows]
    named_channels = [name for name in (call.text("channel_id") or call.text("channels")).split(",") if name]
    for ref in named_channels:
        share_files(call, ref, files)
    return {"files": [call.workspace.files.wire(file) for file in files]}


def finish_upload(call: ApiCall, upload: JSON) -> File:
    file = call.workspace.files.get(str(upload.get("id", "")))
    if file.content is None:
        raise SlackRefusal("file_not_found")
    file.title = str(upload.get("title") or file.name)
    return file


def share_files(call: ApiCall, ref: str, files: list[File]) -> None:
    at = ApiCall(call.workspace, call.views, call.args | {"channel": ref}, call.origin)
    channel = at.channel()
    for file in files:
        file.channels.append(channel.id)
    wires = [call.workspace.files.wire(file) for file in files]
    body = {"text": call.text("initial_comment"), "files": wires, "subtype": "file_share", "upload": True, **read_thread(call, channel)}
    call.workspace.post(BOT_USER, channel, body)


def get_file_info(call: ApiCall) -> JSON:
    return {
        "file": call.workspace.files.wire(call.workspace.files.get(call.text("file"))),
        "comments": [],
        "response_metadata": {"next_cursor": ""},
    }


def open_view(call: ApiCall) -> JSON:
    return {"view": call.views.open(call.need("trigger_id"), call.structure("view"))}


def push_view(call: ApiCall) -> JSON:
    return {"view": call.views.push(call.need("trigger_id"), call.structure("view"))}


def update_view(call: ApiCall) -> JSON:
    return {"view": call.views.update(call.structure("view"), call.text("view_id"), call.text("external_id"), call.text("hash"))}


def publish_home_view(call: ApiCall) -> JSON:
    return {"view": call.views.publish(call.workspace.user(call.need("user_id")).id, call.structure("view"))}
