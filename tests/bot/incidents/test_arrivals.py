"""A Slack event is parsed as one message, or ignored."""

from typing import Any

import pytest

from bot.slack.payloads import MAX_FILES, SlackFile, get_full_text, parse_message

BOT = "U0RACKMED"


def body(**event: Any) -> dict[str, Any]:
    base = {"type": "message", "user": "U1", "ts": "1700000000.000100", "channel": "C1", "channel_type": "channel", "text": "hello"}
    return {"team_id": "T1", "is_ext_shared_channel": False, "event": base | event}


def test_both_events_of_a_mention_have_one_key_and_one_of_them_is_the_twin() -> None:
    text = f"<@{BOT}> look"
    one, two = parse_message(body(text=text), BOT), parse_message(body(type="app_mention", channel_type=None, text=text), BOT)
    assert one
    assert two
    assert one.key == two.key == "T1.C1.1700000000.000100"
    assert (one.mention, one.twin, two.mention, two.twin) == (True, True, True, False)


@pytest.mark.parametrize(
    "event",
    [
        {"subtype": "message_changed"},
        {"subtype": "message_deleted"},
        {"subtype": "channel_join"},
        {"subtype": "bot_message", "user": None},
        {"bot_id": "B1"},
        {"user": BOT},
        {"user": ""},
        {"ts": None},
    ],
)
def test_events_without_a_persons_text_are_ignored(event: dict[str, Any]) -> None:
    assert parse_message(body(**event), BOT) is None


def test_of_bots_only_the_named_alert_sources_are_heard() -> None:
    alert = {
        "subtype": "bot_message",
        "bot_id": "B0ALERT",
        "user": None,
        "text": "",
        "attachments": [{"title": "GPU down", "text": "gpu-017"}],
    }
    assert parse_message(body(**alert), BOT) is None
    assert parse_message(body(**alert), BOT, {"B0OTHER"}) is None
    heard = parse_message(body(**alert), BOT, {"B0ALERT"})
    assert heard
    assert (heard.alert, heard.mention, heard.user, heard.raw) == (True, True, "B0ALERT", "GPU down\ngpu-017")
    assert parse_message(body(**alert | {"subtype": "message_changed"}), BOT, {"B0ALERT"}) is None
    assert parse_message(body(**alert | {"user": BOT}), BOT, {"B0ALERT"}) is None


def test_a_direct_message_needs_no_mention() -> None:
    arrival = parse_message(body(channel_type="im", channel="D1"), BOT)
    assert arrival
    assert (arrival.mention, arrival.twin) == (True, False)


def test_a_thread_is_told_from_its_beginning() -> None:
    reply, root = parse_message(body(thread_ts="1600000000.000001"), BOT), parse_message(body(thread_ts="1700000000.000100"), BOT)
    assert reply
    assert root
    assert (reply.root, reply.in_thread) == ("1600000000.000001", True)
    assert (root.root, root.in_thread) == ("1700000000.000100", False)


def test_a_channel_that_others_can_read_is_known_as_such() -> None:
    arrival = parse_message(body() | {"is_ext_shared_channel": True}, BOT)
    assert arrival
    assert arrival.place.shared


def test_files_are_pointers_and_not_too_many() -> None:
    rows = [{"id": f"F{n}", "name": "a.log", "size": 3, "url_private": "https://files.slack.com/a"} for n in range(30)]
    arrival = parse_message(body(subtype="file_share", files=rows), BOT)
    assert arrival
    assert len(arrival.files) == MAX_FILES
    assert arrival.files[0] == SlackFile("F0", "a.log", 3, "https://files.slack.com/a")


def test_an_alert_that_is_only_an_attachment_has_words() -> None:
    assert get_full_text({"text": "", "attachments": [{"title": "GPU down", "text": "gpu-017"}, {"fallback": "see dashboard"}]}) == (
        "GPU down\ngpu-017\nsee dashboard"
    )
