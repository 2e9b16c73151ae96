"""Slack's HTTP mode: signatures over the raw bytes, a window of five minutes, replay protection, and storing before
answering.
"""

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlencode

import aiohttp
import pytest
from slack_sdk.signature import SignatureVerifier

from bot.app.http.server import serve_routes
from bot.slack.http.delivery import SIGNATURE_HEADER, TIMESTAMP_HEADER, NotSlack, SlackEventsEndpoint, parse_payload, verify_signature
from bot.slack.registry import build_slack_app
from bot.store.replay_guard import ReplayGuard
from tests.support.clock import SetClock
from tests.support.fakes_bot import OPS, TEAM, Behind, slack_side

SECRET = "8f742231b10e8888abcd99yyyzzz85a5"
JSON, FORM = "application/json", "application/x-www-form-urlencoded"


@dataclass
class Door:
    """The bot behind its HTTP port."""

    bot: Behind
    clock: SetClock
    url: str

    def headers(self, body: bytes, *, off: int = 0, secret: str = SECRET) -> dict[str, str]:
        timestamp = str(int(self.clock.now().timestamp()) + off)
        return {
            TIMESTAMP_HEADER: timestamp,
            SIGNATURE_HEADER: str(SignatureVerifier(secret).generate_signature(timestamp=timestamp, body=body)),
        }

    async def post(self, body: bytes, headers: dict[str, str] | None = None, kind: str = JSON) -> tuple[int, str]:
        given = {"Content-Type": kind, **(self.headers(body) if headers is None else headers)}
        async with aiohttp.ClientSession() as session, session.post(self.url, data=body, headers=given) as answer:
            return answer.status, await answer.text()


@pytest.fixture
async def door() -> AsyncIterator[Door]:
    async with slack_side() as bot:
        clock = SetClock()
        requests = SlackEventsEndpoint(
            await build_slack_app(bot.context.client, bot.registry), SECRET, ReplayGuard(bot.redis, timedelta(minutes=15)), clock
        )
        async with serve_routes("127.0.0.1", 0, requests.routes) as port:
            yield Door(bot, clock, f"http://127.0.0.1:{port}/slack/events")


def mention(ts: str = "1700000000.000100") -> bytes:
    said = {"type": "app_mention", "user": "U0PRIYA", "channel": OPS, "channel_type": "channel", "ts": ts}
    event = said | {"text": "<@U0RACKMED> job 4711 hangs on gpu-[017-020]"}
    return json.dumps({"type": "event_callback", "team_id": TEAM, "event_id": "Ev1", "event": event}).encode()


SENT = datetime.fromtimestamp(1531420618, UTC)


def test_slacks_own_example_is_verified() -> None:
    body = (
        b"token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V&channel_name=foobar&user_id=U2CERLKJA"
        b"&user_name=roadrunner&command=%2Fwebhook-collect&text=&response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2JH3J%2F397700885554"
        b"%2F96rGlfmibIGlgcZRskXaIFfN&trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c"
    )
    sign = "a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503"
    assert verify_signature(SECRET, {TIMESTAMP_HEADER: "1531420618", SIGNATURE_HEADER: f"v0={sign}"}, body, SENT) == sign


@pytest.mark.parametrize("timestamp", ["", "-1", "1531420618.0", "٣" * 10, " 1531420618", "9" * 13])
@pytest.mark.parametrize("sign", ["", "v0=", "v0=é", "v0=" + "A" * 64, "v1=" + "a" * 64, "v0=" + "a" * 65])
def test_headers_of_another_form_are_not_slacks(timestamp: str, sign: str) -> None:
    good = "v0=" + "a" * 64
    for headers in ({TIMESTAMP_HEADER: timestamp, SIGNATURE_HEADER: good}, {TIMESTAMP_HEADER: "1531420618", SIGNATURE_HEADER: sign}):
        with pytest.raises(NotSlack, match="headers"):
            verify_signature(SECRET, headers, b"", SENT)


@pytest.mark.parametrize(("secret", "body"), [(SECRET, b"\xff"), (" ", b"")])
def test_what_cannot_be_verified_is_not_slacks(secret: str, body: bytes) -> None:
    with pytest.raises(NotSlack):
        verify_signature(secret, {TIMESTAMP_HEADER: "1531420618", SIGNATURE_HEADER: "v0=" + "a" * 64}, body, SENT)


async def test_slack_asks_whether_it_is_us(door: Door) -> None:
    body = b'{"type": "url_verification", "challenge": "3eZbrw1aB"}'
    assert await door.post(body) == (200, '{"challenge": "3eZbrw1aB"}')
    assert (await door.post(body, {}))[0] == 401


async def test_what_is_forged_late_or_early_has_no_effect(door: Door) -> None:
    body = mention()
    good = door.headers(body)
    assert (await door.post(body + b" ", good))[0] == 401
    assert (await door.post(body, door.headers(body, secret="another")))[0] == 401
    assert (await door.post(body, door.headers(body, off=-301)))[0] == 401
    assert (await door.post(body, door.headers(body, off=301)))[0] == 401
    assert (await door.post(body, good | {SIGNATURE_HEADER: "v0="}))[0] == 401
    assert (await door.post(body, good | {TIMESTAMP_HEADER: "-1"}))[0] == 401
    assert await door.bot.items() == []


async def test_a_mention_is_stored_before_it_is_answered_and_once_however_often_it_is_sent(door: Door) -> None:
    body = mention()
    first = door.headers(body)
    assert (await door.post(body, first))[0] == 200
    [item] = await door.bot.items()
    assert (item.kind, item.text) == ("mention", "job 4711 hangs on gpu-[017-020]")
    assert (await door.post(body, first))[0] == 200
    retried = door.headers(body, off=3) | {"X-Slack-Retry-Num": "1", "X-Slack-Retry-Reason": "http_timeout"}
    assert (await door.post(body, retried))[0] == 200
    assert len(await door.bot.items()) == 1


async def test_what_cannot_be_stored_is_not_acknowledged_and_heard_when_it_comes_again(door: Door) -> None:
    body = mention()
    door.bot.server.connected = False
    assert (await door.post(body))[0] == 503
    door.bot.server.connected = True
    assert (await door.post(body))[0] == 200
    assert len(await door.bot.items()) == 1


async def test_a_command_is_a_form_and_answered_in_its_response(door: Door) -> None:
    asked = {"command": "/rackmedic", "text": "help", "team_id": TEAM, "channel_id": OPS, "user_id": "U0PRIYA", "trigger_id": "1.2.3"}
    status, said = await door.post(urlencode(asked).encode(), kind=FORM)
    assert status == 200
    assert json.loads(said)["response_type"] == "ephemeral"


async def test_a_click_is_a_form_with_json_in_it(door: Door) -> None:
    click: dict[str, Any] = {"type": "block_actions", "team": {"id": TEAM}, "user": {"id": "U0PRIYA", "team_id": TEAM}}
    click |= {"actions": [{"action_id": "none.of.ours", "value": ""}], "channel": {"id": OPS}, "trigger_id": "1.2.3"}
    click |= {"container": {"type": "message", "channel_id": OPS, "message_ts": "1.0"}, "message": {"ts": "1.0"}}
    assert (await door.post(urlencode({"payload": json.dumps(click)}).encode(), kind=FORM))[0] == 200


async def test_bolts_own_headers_and_what_a_proxy_says_change_nothing(door: Door) -> None:
    body = mention()
    more = {"X-Slack-Bolt-Lazy-Only": "1", "X-Slack-Bolt-Lazy-Function-Name": "x", "X-Forwarded-For": "1.2.3.4"}
    assert (await door.post(body, door.headers(body) | more))[0] == 200
    assert len(await door.bot.items()) == 1


@pytest.mark.parametrize("body", [b"", b"[]", b"no json", b"[" * 100_000, b"\xff", b"payload=no"])
def test_what_is_no_payload_is_none(body: bytes) -> None:
    assert parse_payload(JSON, body) is None
    assert not (parse_payload(FORM, body) or {}).get("type")
