"""assistant.threads.*: status line, suggested prompts and title.

Arguments and errors follow docs.slack.dev/reference/methods/assistant.threads.setStatus, .setSuggestedPrompts and
.setTitle.
"""

from typing import Any

from deploy.sandbox.slack.web.calls import ApiCall
from deploy.sandbox.slack.workspace.refusal import JSON, SlackRefusal
from deploy.sandbox.slack.workspace.workspace import Channel, Message

MAX_PROMPTS = 4
MAX_LOADING_MESSAGES = 10


def set_status(call: ApiCall) -> JSON:
    """Show a thread's status until the bot posts there, two minutes pass, or it is set to ""."""
    channel = call.channel("channel_id")
    root = find_thread_root(call, channel)
    loading = call.structure("loading_messages") or []
    if len(loading) > MAX_LOADING_MESSAGES:
        raise SlackRefusal("invalid_arguments", "[ERROR] no more than 10 items allowed [json-pointer:/loading_messages]")
    call.workspace.panes.set_status(channel.id, root.ts, call.text("status"), loading)
    return {}


def set_prompts(call: ApiCall) -> JSON:
    """Set prompts of the conversation, or of an assistant's thread. An agent's thread prompts are silently ignored, as
    documented.
    """
    channel, prompts = call.channel("channel_id"), read_prompts(call)
    if call.workspace.app.view == "assistant" and call.text("thread_ts"):
        call.workspace.panes.set_prompts(channel.id, find_assistant_root(call, channel).ts, call.text("title"), prompts)
    elif not call.text("thread_ts"):
        call.workspace.panes.set_prompts(channel.id, "", call.text("title"), prompts)
    return {}


def set_title(call: ApiCall) -> JSON:
    """Set a thread's title in the assistant's history."""
    channel, title = call.channel("channel_id"), call.need("title")
    root = find_assistant_root(call, channel)
    call.workspace.edit(root, {"text": title, "assistant_app_thread": root.body["assistant_app_thread"] | {"title": title}}, by_hand=False)
    return {}


def read_prompts(call: ApiCall) -> list[JSON]:
    given: Any = call.structure("prompts")
    if not isinstance(given, list) or not 1 <= len(given) <= MAX_PROMPTS:
        raise SlackRefusal("invalid_arguments", "[ERROR] must be an array of 1 to 4 items [json-pointer:/prompts]")
    for n, prompt in enumerate(given):
        if not isinstance(prompt, dict) or not all(isinstance(prompt.get(name), str) and prompt[name] for name in ("title", "message")):
            raise SlackRefusal("invalid_arguments", f"[ERROR] missing required field: title or message [json-pointer:/prompts/{n}]")
    return given


def find_thread_root(call: ApiCall, channel: Channel) -> Message:
    found = channel.messages.get(call.need("thread_ts"))
    if found is None or found.is_reply:
        raise SlackRefusal("invalid_thread_ts", detail="Thread not found")
    return found


def find_assistant_root(call: ApiCall, channel: Channel) -> Message:
    """Return the root of a thread that began by opening the assistant."""
    root = find_thread_root(call, channel)
    if "assistant_app_thread" not in root.body:
        raise SlackRefusal("invalid_thread_ts", detail="Thread not found")
    return root
