"""The Slack app's manifest. `python -m bot.slack.manifest` prints it."""

from collections.abc import Mapping
from typing import Any

import yaml

# Shown to users who open the conversation with the app. Slack asks for it as `agent_view`; a new app cannot have the
# older `assistant_view` (docs.slack.dev/ai/migrating-to-agent-messaging), whose events are still understood.
AGENT_DESCRIPTION = "Ask which incidents are open and what waits for your approval. Both are answered with links to their threads."
# Subscribed events. channel_shared and channel_unshared need the scopes that read channels
# (docs.slack.dev/reference/events/channel_shared, …/channel_unshared).
EVENTS = ("app_home_opened", "app_mention", "channel_shared", "channel_unshared", "message.channels", "message.groups", "message.im")
COMMAND, SHORTCUT = "/rackmedic", "diagnose_this"
# Bot scope → what it is for.
SCOPES: Mapping[str, str] = {
    "app_mentions:read": "hear that it was mentioned",
    "assistant:write": "suggest in a direct message what can be asked",
    "channels:history": "read replies in an incident's thread, and look for its own report after a crash",
    "channels:read": "ask whether another organisation can read a channel, and who is in it",
    "chat:write": "post and edit cards",
    "commands": f"{COMMAND} and the entry in a message's menu",
    "files:read": "read the logs that people attach",
    "files:write": "attach the evidence to a ticket",
    "groups:history": "the same in private channels",
    "groups:read": "the same in private channels",
    "im:history": "hear a direct message, and find its answer after a crash",
    "reactions:write": "show under the message that called it how the incident stands",
    "usergroups:read": "know who may approve, and mention their group",
    "users:read": "tell colleagues from guests and other organisations, and call people by their names",
}

DESCRIPTION = "Finds out why GPU training broke, with evidence"
LONG_DESCRIPTION = (
    "Mention RackMedic in the incident channel with what is wrong. It looks at the machines over SSH without changing anything, and "
    "answers in the thread with the root cause, the host and device, the lines of output that prove it, what was ruled out, and what it "
    "could not look at. It knows some ninety GPU, driver, fabric and framework faults and works without a language model. When it "
    "cannot tell, or when somebody presses Hand off, the thread becomes a ticket with all the evidence."
)


def build_manifest(url: str = "") -> dict[str, Any]:
    """Return the manifest; without `url` the app uses Socket Mode."""
    to, request = ({"url": url}, {"request_url": url}) if url else ({}, {})
    return {
        "display_information": {
            "name": "RackMedic",
            "description": DESCRIPTION,
            "long_description": LONG_DESCRIPTION,
            "background_color": "#1d2b36",
        },
        "features": {
            "agent_view": {"agent_description": AGENT_DESCRIPTION},
            "app_home": {"home_tab_enabled": True, "messages_tab_enabled": True, "messages_tab_read_only_enabled": False},
            "bot_user": {"display_name": "rackmedic", "always_online": True},
            "shortcuts": [
                {"name": "Diagnose this", "type": "message", "callback_id": SHORTCUT, "description": "Open an incident from this message"}
            ],
            "slash_commands": [
                {
                    "command": COMMAND,
                    "description": "What is open, what I understand, and the switch that stops every repair",
                    "usage_hint": "status | help | stop [why] | resume",
                    "should_escape": True,
                    **to,
                }
            ],
        },
        "oauth_config": {"scopes": {"bot": sorted(SCOPES)}},
        "settings": {
            "event_subscriptions": {**request, "bot_events": sorted(EVENTS)},
            "interactivity": {"is_enabled": True, **request},
            "org_deploy_enabled": False,
            "socket_mode_enabled": not url,
            "token_rotation_enabled": False,
        },
    }


def render_yaml(url: str = "") -> str:
    """Return the text of deploy/slack/manifest.yaml."""
    note = (
        "# Made by `python -m bot.slack.manifest`; a test keeps it so. Paste it at api.slack.com/apps → Create New App → From a manifest.\n"
    )
    return note + yaml.safe_dump(build_manifest(url), sort_keys=False, allow_unicode=True, width=120)


if __name__ == "__main__":
    print(render_yaml(), end="")
