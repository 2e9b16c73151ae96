"""HTTP responses of trackers: bounded, complete or ignored, never decompressed, and links only to the tracker's own
address.
"""

import asyncio
import gzip
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime

import pytest
from aiohttp import web

from bot.provider.link import HttpProviderLink, LinkUnavailable, _check_response
from bot.trackers.github import GitHubConfig, open_github
from bot.trackers.http import DEFAULT_RETRY_SECONDS, MAX_ANSWER_BYTES, TrackerHttpClient, filter_remote_url, get_text_at, parse_retry_after
from bot.trackers.tracker import TrackerUnavailable
from tests.support.clock import SetClock

PIECE, TURNS = 1000, 50
NOW = datetime(2026, 5, 20, 3, 10, tzinfo=UTC)


@asynccontextmanager
async def answering(body: bytes, **headers: str) -> AsyncIterator[str]:
    """Serve this body to every request in pieces and yield the address."""

    async def answer(request: web.Request) -> web.StreamResponse:
        said = web.StreamResponse(headers=headers)
        await said.prepare(request)
        for start in range(0, len(body), PIECE):
            await said.write(body[start : start + PIECE])
            for _ in range(TURNS if start == 0 else 0):
                await asyncio.sleep(0)  # let the client receive the first piece alone
        await said.write_eof()
        return said

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        host, port = runner.addresses[0]
        yield f"http://{host}:{port}"
    finally:
        await runner.cleanup()


def wire(url: str) -> TrackerHttpClient:
    return TrackerHttpClient("GitHub", url, SetClock(), {}, {}, lambda _: "")


async def test_a_long_answer_that_comes_in_pieces_is_read_whole() -> None:
    issues = [{"number": number, "body": "x" * 200} for number in range(100)]
    async with answering(json.dumps(issues).encode()) as url:
        assert (await wire(url).send_request("GET", "/issues")).data == issues


async def test_an_answer_that_is_too_large_is_no_answer_and_whether_it_was_done_is_not_known() -> None:
    async with answering(b" " * (MAX_ANSWER_BYTES + 1)) as url:
        with pytest.raises(TrackerUnavailable, match="more than") as why:
            await wire(url).send_request("POST", "/issues", body={})
    assert why.value.maybe


async def test_a_packed_answer_is_not_unpacked() -> None:
    async with answering(gzip.compress(b'{"number": 1}'), **{"Content-Encoding": "gzip"}) as url:
        assert (await wire(url).send_request("GET", "/issues")).data is None


async def test_an_intake_that_answers_in_pieces_is_understood_and_one_that_says_too_much_is_away() -> None:
    answer = {"ticket": "inc-aaaaaa", "state": "received", "ignored": ["x" * 100 for _ in range(40)]}
    async with answering(json.dumps(answer).encode()) as url:
        assert (await HttpProviderLink(url, b"k" * 32, SetClock()).send_ticket("msg_12345678", b"{}")).ticket == "inc-aaaaaa"
    async with answering(b" " * (1 << 20)) as url:
        with pytest.raises(LinkUnavailable, match="more than"):
            await HttpProviderLink(url, b"k" * 32, SetClock()).send_ticket("msg_12345678", b"{}")


@pytest.mark.parametrize(
    ("url", "base", "below"),
    [
        ("https://github.com/acme/ops/issues/7", "https://api.github.com", ""),
        ("https://git.corp.example/acme/ops/issues/7", "https://git.corp.example/api/v3", ""),
        ("https://tickets.example:8443/t/7?x=1#top", "https://tickets.example:8443/hook", ""),
        ("https://acme.pagerduty.com/incidents/Q1", "https://api.eu.pagerduty.com", "pagerduty.com"),
        ("http://127.0.0.1:8000/t/7", "http://127.0.0.1:8000", ""),
    ],
)
def test_an_address_of_the_tracker_itself_is_linked(url: str, base: str, below: str) -> None:
    assert filter_remote_url(url, base, below) == url


@pytest.mark.parametrize(
    ("url", "base"),
    [
        ("https://evil.co.uk/t/7", "https://tickets.corp.co.uk"),
        ("https://66.66.0.5/t/7", "https://10.0.0.5"),
        ("https://evil.s3.amazonaws.com/login", "https://hook.execute-api.eu-west-1.amazonaws.com/t"),
        ("https://evil.github.com/t/7", "https://api.github.com"),
        ("https://evilgithub.com/t/7", "https://api.github.com"),
        ("https://pagerduty.com.evil.example/t/7", "https://api.pagerduty.com"),
        ("http://github.com/acme/ops", "https://api.github.com"),
        ("https://github.com:8443/acme/ops", "https://api.github.com"),
        ("https://priya@github.com/acme/ops", "https://api.github.com"),
        ("https://github.com@evil.example/acme", "https://api.github.com"),
        ("https://github.com", "https://api.github.com"),
        ("https://github.com/é", "https://api.github.com"),
        ("https://github.com/<!channel>|x", "https://api.github.com"),
        ("https://[x", "https://api.github.com"),
        ("https://github.com:99999999/x", "https://api.github.com"),
        ("javascript://github.com/%0aalert(1)", "https://api.github.com"),
        (7, "https://api.github.com"),
    ],
)
def test_a_foreign_or_malformed_address_is_no_link(url: object, base: str) -> None:
    assert filter_remote_url(url, base, "pagerduty.com" if "pagerduty" in base else "") == ""


@pytest.mark.parametrize("after", ["Sun, 31 Dec 9999 23:59:59 -0100", "Sun, 99 Foo", "²", "-5", "9" * 400, "nan"])
def test_an_unreasonable_retry_after_is_a_minute(after: str) -> None:
    assert parse_retry_after({"retry-after": after}, NOW) == DEFAULT_RETRY_SECONDS


@pytest.mark.parametrize("after", ["²", "٣", "99999999", "nan"])
def test_a_wait_of_an_intake_that_is_no_number_is_none(after: str) -> None:
    with pytest.raises(LinkUnavailable) as why:
        _check_response(503, after, b"")
    assert why.value.after == 0


@pytest.mark.parametrize("number", [10**4000, "9" * 5000, -5, "٣", True, None, "7\ud800"])
def test_a_number_that_is_none_makes_no_ticket(number: object) -> None:
    github = open_github("github", GitHubConfig.model_validate({"kind": "github", "repo": "acme/ops", "token": "t"}), SetClock())
    with pytest.raises(TrackerUnavailable, match="shape"):
        github._parse_ticket({"number": number})


async def test_what_cannot_be_written_down_is_replaced_in_bodies_and_headers() -> None:
    async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b'HTTP/1.1 200 OK\r\nETag: \xff\r\nContent-Length: 22\r\n\r\n{"updated": "\\ud800x"}')
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        answered = await wire(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}").send_request("GET", "/issue")
    assert (get_text_at(answered.data, "updated"), answered.headers["etag"]) == ("?x", "?")


@pytest.mark.parametrize(
    ("headers", "wait"),
    [
        ({"ratelimit-remaining": "0", "ratelimit-reset": "20"}, 20),
        ({"ratelimit-remaining": "7", "ratelimit-reset": "20"}, DEFAULT_RETRY_SECONDS),
        ({"ratelimit-remaining": "0", "ratelimit-reset": "٣"}, DEFAULT_RETRY_SECONDS),
        ({"x-ratelimit-remaining": "0", "x-ratelimit-reset": "2026-05-20T03:12Z"}, 120),
        ({"x-ratelimit-remaining": "0", "x-ratelimit-reset": f"{int(NOW.timestamp()) + 90}"}, 90),
        ({"x-ratelimit-remaining": "0", "x-ratelimit-reset": "1999-01-01T00:00Z"}, 1),
        ({"x-ratelimit-remaining": "0", "x-ratelimit-reset": "9999-12-31T23:59:59-23:59"}, DEFAULT_RETRY_SECONDS),
        ({"x-ratelimit-remaining": "0", "x-ratelimit-reset": "soon"}, DEFAULT_RETRY_SECONDS),
        ({"retry-after": "5", "ratelimit-remaining": "0", "ratelimit-reset": "20"}, 5),
    ],
)
def test_every_form_of_retry_after_is_parsed(headers: dict[str, str], wait: float) -> None:
    assert parse_retry_after(headers, NOW) == wait
