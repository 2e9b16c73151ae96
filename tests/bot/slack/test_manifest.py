"""The committed Slack manifest matches what the code uses and what Slack allows."""

from pathlib import Path

import pytest
import yaml

from bot.slack import manifest
from deploy.sandbox.slack.web.api import METHODS
from deploy.sandbox.slack.workspace.people import App

COMMITTED = Path(__file__).parents[3] / "deploy" / "slack" / "manifest.yaml"
# Web API methods called by `bot`
CALLS = {
    "assistant.threads.setStatus", "assistant.threads.setSuggestedPrompts", "assistant.threads.setTitle", "auth.test",
    "chat.postMessage", "chat.update", "conversations.info",
    "conversations.members", "conversations.replies", "files.completeUploadExternal", "files.getUploadURLExternal", "reactions.add",
    "reactions.remove", "usergroups.users.list", "users.info", "views.open", "views.publish",
}  # fmt: skip


def test_the_committed_manifest_is_what_the_code_makes() -> None:
    assert COMMITTED.read_text() == manifest.render_yaml(), "run: python -m bot.slack.manifest > deploy/slack/manifest.yaml"
    assert yaml.safe_load(COMMITTED.read_text()) == manifest.build_manifest()


def test_it_keeps_to_slacks_limits() -> None:
    made = manifest.build_manifest()
    shown = made["display_information"]
    assert len(shown["name"]) <= 35
    assert len(shown["description"]) <= 140
    assert 174 <= len(shown["long_description"]) <= 4000
    assert all(len(row["name"]) <= 24 for row in made["features"]["shortcuts"])


def test_every_scope_is_used_and_every_use_has_its_scope() -> None:
    needed = {METHODS[call].scope for call in CALLS} - {""}
    heard = {"app_mentions:read", "channels:history", "groups:history", "im:history", "commands"}
    fetched = {"files:read"}
    private = {"groups:read"}
    assert set(manifest.SCOPES) == needed | heard | fetched | private


@pytest.mark.parametrize("event", ["app_mention", "app_home_opened", "message.channels", "message.groups", "message.im"])
def test_it_subscribes_to_what_is_listened_to(event: str) -> None:
    assert App.from_manifest(manifest.build_manifest()).is_subscribed_to(event)


def test_it_offers_the_command_and_the_entry_in_a_messages_menu() -> None:
    app = App.from_manifest(manifest.build_manifest())
    assert [row["command"] for row in app.commands] == [manifest.COMMAND]
    assert [row["callback_id"] for row in app.shortcuts] == [manifest.SHORTCUT]


def test_its_conversation_is_one_that_new_apps_may_have() -> None:
    made = manifest.build_manifest()
    assert App.from_manifest(made).view == "agent"
    assert 0 < len(made["features"]["agent_view"]["agent_description"]) <= 300


def test_for_http_mode_everything_is_sent_to_one_address_and_nothing_else_changes() -> None:
    url = "https://rackmedic.example.com/slack/events"
    made, socket = manifest.build_manifest(url), manifest.build_manifest()
    settings = made["settings"]
    assert settings["event_subscriptions"]["request_url"] == settings["interactivity"]["request_url"] == url
    assert (settings["socket_mode_enabled"], made["features"]["slash_commands"][0]["url"]) == (False, url)
    assert made["oauth_config"] == socket["oauth_config"]
    assert "request_url" not in str(socket)
