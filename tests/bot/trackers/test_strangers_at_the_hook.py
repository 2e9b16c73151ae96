"""Whatever a stranger sends to the hook of a tracker over HTTP is answered in a few words, and makes nobody ask the tracker."""

import io
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from yarl import URL

from bot.run.http.server import serving
from tests.bot.trackers.test_courier import DONE, Post, post
from tests.bot.trackers.test_hooks import followed
from tests.support.tracker_hooks import HOOK, headers_of, hex_of, hooked

BODY = json.dumps({"issue": {"id": "10000"}}).encode()
SECRET = HOOK["jira"]
GOOD = f"sha256={hex_of(SECRET, BODY)}"
SIGNED = {"X-Hub-Signature": GOOD}

Tried = tuple[str, str, Any, bytes, int]
"""Method, path, headers, body and the status that it is answered with."""
STRANGE: dict[str, Tried] = {
    "nothing": ("POST", "/trackers/jira", {}, b"", 401),
    "no signature": ("POST", "/trackers/jira", {}, BODY, 401),
    "an empty signature": ("POST", "/trackers/jira", {"X-Hub-Signature": ""}, BODY, 401),
    "the prefix alone": ("POST", "/trackers/jira", {"X-Hub-Signature": "sha256="}, BODY, 401),
    "no prefix": ("POST", "/trackers/jira", {"X-Hub-Signature": GOOD.removeprefix("sha256=")}, BODY, 401),
    "another prefix": ("POST", "/trackers/jira", {"X-Hub-Signature": GOOD.replace("256", "1")}, BODY, 401),
    "large letters": ("POST", "/trackers/jira", {"X-Hub-Signature": GOOD.upper()}, BODY, 401),
    "half of it": ("POST", "/trackers/jira", {"X-Hub-Signature": GOOD[:40]}, BODY, 401),
    "more of it": ("POST", "/trackers/jira", {"X-Hub-Signature": f"{GOOD}00"}, BODY, 401),
    "another secret": ("POST", "/trackers/jira", {"X-Hub-Signature": f"sha256={hex_of('x' * 30, BODY)}"}, BODY, 401),
    "an empty secret": ("POST", "/trackers/jira", {"X-Hub-Signature": f"sha256={hex_of('', BODY)}"}, BODY, 401),
    "the secret itself": ("POST", "/trackers/jira", {"X-Hub-Signature": f"sha256={SECRET}"}, BODY, 401),
    "over other bytes": ("POST", "/trackers/jira", SIGNED, BODY + b"\n", 401),
    "over no bytes": ("POST", "/trackers/jira", SIGNED, b"", 401),
    "GitHub's header": ("POST", "/trackers/jira", {"X-Hub-Signature-256": GOOD}, BODY, 401),
    "a bearer": ("POST", "/trackers/jira", {"Authorization": f"Bearer {SECRET}"}, BODY, 401),
    "a password": ("POST", "/trackers/jira", {"Authorization": aiohttp.encode_basic_auth("jira", SECRET)}, BODY, 401),
    "after eight others": ("POST", "/trackers/jira", {"X-Hub-Signature": ",".join(["sha256=0"] * 8 + [GOOD])}, BODY, 401),
    "a header of a kilobyte": ("POST", "/trackers/jira", {"X-Hub-Signature": GOOD + " " * 1000 + ","}, BODY, 401),
    "letters that are none": ("POST", "/trackers/jira", {"X-Hub-Signature": "sha256=é"}, BODY, 401),
    "the wrong one first": ("POST", "/trackers/jira", [("X-Hub-Signature", "sha256=0"), ("X-Hub-Signature", GOOD)], BODY, 401),
    "another tracker": ("POST", "/trackers/github", SIGNED, BODY, 401),
    "a name in large letters": ("POST", "/trackers/JIRA", SIGNED, BODY, 401),
    "a name of no length": ("POST", "/trackers/", SIGNED, BODY, 404),
    "a longer path": ("POST", "/trackers/jira/more", SIGNED, BODY, 404),
    "a way up": ("POST", "/trackers/%2e%2e%2fjira", SIGNED, BODY, 401),
    "a nul": ("POST", "/trackers/jira%00", SIGNED, BODY, 401),
    "a name that goes on and on": ("POST", f"/trackers/{'j' * 5000}", SIGNED, BODY, 401),
    "a name of a redis pattern": ("POST", "/trackers/*", SIGNED, BODY, 401),
    "GET": ("GET", "/trackers/jira", SIGNED, b"", 405),
    "PUT": ("PUT", "/trackers/jira", SIGNED, BODY, 405),
    "packed": ("POST", "/trackers/jira", {**SIGNED, "Content-Encoding": "gzip"}, BODY, 415),
    "too large": ("POST", "/trackers/jira", SIGNED, b" " * ((2 << 20) + 1), 413),
    "as a form": ("POST", "/trackers/jira", SIGNED, b"payload=" + BODY, 401),
    "of whom a proxy tells": ("POST", "/trackers/jira", {"X-Forwarded-For": "127.0.0.1"}, BODY, 401),
    "Standard Webhooks with no key": ("POST", "/trackers/jira", {"webhook-id": "msg_12345678", "webhook-signature": "v1,"}, BODY, 401),
}


@asynccontextmanager
async def at_the_door(tmp_path: Path, kind: str = "jira") -> AsyncIterator[tuple[Post, str]]:
    async with post(tmp_path, kind, hook=HOOK[kind]) as at, serving("127.0.0.1", 0, at.hooks.routes) as port:
        yield at, f"http://127.0.0.1:{port}"


async def sent(url: str, method: str, headers: Any, body: bytes) -> tuple[int, str]:
    async with aiohttp.ClientSession() as http, http.request(method, url, headers=headers, data=io.BytesIO(body)) as answer:
        return answer.status, await answer.text()


@pytest.mark.parametrize("strange", STRANGE)
async def test_a_stranger_is_told_nothing_and_has_no_effect(tmp_path: Path, strange: str) -> None:
    method, path, headers, body, status = STRANGE[strange]
    async with at_the_door(tmp_path) as (at, url):
        await followed(at)
        async with (
            aiohttp.ClientSession() as http,
            http.request(method, URL(f"{url}{path}", encoded=True), headers=headers, data=io.BytesIO(body)) as answer,
        ):
            assert (answer.status, SECRET in await answer.text()) == (status, False)
        assert (await at.sweep(), await at.hooks.tickets.last("jira")) == (0, None)


@pytest.mark.parametrize(
    "body",
    [
        b'{"issue": {"id": "10000"}, "issue": {"id": "7"}}',
        b'{"issue": {"id": ' + b"9" * 4000 + b"}}",
        b'{"issue": {"id": "' + b"x" * 100_000 + b'"}}',
        b'{"issue": {"id": "\\ud800"}}',
        b'{"issue": {"id": {"a": ["10000"]}}}',
        b'{"issue": {"id": NaN}}',
        b'{"issue": {"id": "*"}}',
        b'{"issue": {"id": "10000\\u0000"}}',
        b'[{"issue": {"id": "10000"}}]',
    ],
)
async def test_what_is_signed_and_odd_makes_nobody_ask(tmp_path: Path, body: bytes) -> None:
    async with at_the_door(tmp_path) as (at, url):
        await followed(at)
        assert (await sent(f"{url}/trackers/jira", "POST", headers_of("jira", body, at.clock.now()), body))[0] == 202
        assert await at.sweep() == 0


@pytest.mark.parametrize("body", [b"[" * 1_000_000, b'{"issue": {"id": ' + b"9" * 5000 + b"}}", b"\xff\xfe", b'{"a":' * 200_000])
async def test_what_is_signed_and_cannot_be_read_is_refused(tmp_path: Path, body: bytes) -> None:
    async with at_the_door(tmp_path) as (at, url):
        assert (await sent(f"{url}/trackers/jira", "POST", headers_of("jira", body, at.clock.now()), body))[0] == 400


@pytest.mark.parametrize("kind", DONE)
async def test_the_tracker_itself_is_heard_over_http(tmp_path: Path, kind: str) -> None:
    async with at_the_door(tmp_path, kind) as (at, url):
        ticket = await followed(at)
        ticket |= {"state": DONE[kind], "done": True}
        body, headers = hooked(kind, ticket, at.clock.now())
        assert await sent(f"{url}/trackers/{kind}", "POST", headers, body) == (202, "{}")
        await at.sweep()
        assert (await at.row()).notes["done"] == "1"
