"""The inbound HTTP port: limits on bytes, time and concurrency, and answers that reveal nothing about internal errors."""

import asyncio
import contextlib
import gzip
from collections.abc import AsyncIterator

import aiohttp
import pytest
from redis.exceptions import ConnectionError as RedisAway

from bot.app.http.guard import InboundLimits
from bot.app.http.server import serve_routes
from bot.inbound import InboundRequest, InboundResponse, InboundRoute, RequestHandler


async def heard(request: InboundRequest) -> InboundResponse:
    return InboundResponse(200, {"who": request.parts["who"], "bytes": len(request.body), "of": request.headers["x-of"]})


@contextlib.asynccontextmanager
async def at(hear: RequestHandler, most: int = 100, limits: InboundLimits | None = None) -> AsyncIterator[str]:
    """Serve one route and yield its URL."""
    async with serve_routes("127.0.0.1", 0, [InboundRoute("/told/{who}", hear, most)], limits or InboundLimits()) as port:
        yield f"http://127.0.0.1:{port}/told/priya"


async def post(url: str, body: bytes = b"", **headers: str) -> tuple[int, str, str]:
    """Return status, text and Retry-After."""
    async with aiohttp.ClientSession() as session, session.post(url, data=body, headers=headers) as answer:
        assert "Server" not in answer.headers
        return answer.status, await answer.text(), answer.headers.get("Retry-After", "")


def port_of(url: str) -> int:
    return int(url.split(":")[2].split("/")[0])


async def test_a_room_hears_the_bytes_the_headers_and_the_parts_of_the_path() -> None:
    async with at(heard) as url:
        assert await post(url, b"\x00\xff", **{"X-Of": "ada"}) == (200, '{"who": "priya", "bytes": 2, "of": "ada"}', "")
        async with aiohttp.ClientSession() as session, session.get(url) as answer:
            assert answer.status == 405
        assert (await post(url + "/more"))[0] == 404


async def test_a_body_is_read_up_to_what_its_route_takes_whether_or_not_it_says_its_size() -> None:
    async def in_pieces() -> AsyncIterator[bytes]:
        for _ in range(3):
            yield b"x" * 50

    async with at(heard) as url, aiohttp.ClientSession() as session:
        assert (await post(url, b"x" * 100, **{"X-Of": "ada"}))[0] == 200
        assert (await post(url, b"x" * 101))[0] == 413
        async with session.post(url, data=in_pieces()) as answer:
            assert answer.status == 413


async def test_what_is_packed_is_not_unpacked() -> None:
    async with at(heard) as url:
        assert (await post(url, gzip.compress(b"0" * 10_000), **{"Content-Encoding": "gzip"}))[0] == 415


async def test_who_says_nothing_or_never_ends_is_hung_up_on() -> None:
    async with at(heard, limits=InboundLimits(silent=0.05, body=0.05)) as url:
        port = port_of(url)
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"POST /told/pri")
        assert await reader.read() == b""
        writer.close()
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"POST /told/priya HTTP/1.1\r\nHost: x\r\nContent-Length: 50\r\n\r\nbegun")
        assert b"408" in await reader.readline()
        writer.close()


async def test_who_was_answered_once_and_never_ends_the_next_is_hung_up_on() -> None:
    async with at(heard, limits=InboundLimits(idle=0.05)) as url:
        reader, writer = await asyncio.open_connection("127.0.0.1", port_of(url))
        writer.write(b"POST /told/priya HTTP/1.1\r\nHost: x\r\nX-Of: ada\r\nContent-Length: 0\r\n\r\n")
        assert b"200" in await reader.readline()
        writer.write(b"POST /told/priya HTTP/1.1\r\nX-Of: a")
        async with asyncio.timeout(5):
            assert b"priya" in await reader.read()
        writer.close()


async def test_who_was_refused_connects_anew_and_who_was_answered_need_not() -> None:
    async with at(heard) as url:
        for path, kept in ((b"/told/priya", True), (b"/nobody", False)):
            reader, writer = await asyncio.open_connection("127.0.0.1", port_of(url))
            writer.write(b"POST " + path + b" HTTP/1.1\r\nHost: x\r\nX-Of: ada\r\nContent-Length: 0\r\n\r\n")
            head = await reader.readuntil(b"\r\n\r\n")
            assert (b"connection: close" not in head.lower()) is kept
            writer.close()


async def test_more_at_once_than_we_have_hands_for_come_again() -> None:
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def waits(_: InboundRequest) -> InboundResponse:
        begun.set()
        await go_on.wait()
        return InboundResponse(200, "ok")

    async with at(waits, limits=InboundLimits(in_hand=1)) as url:
        first = asyncio.create_task(post(url))
        await begun.wait()
        assert (await post(url))[::2] == (503, "5")
        go_on.set()
        assert (await first)[:2] == (200, "ok")
        assert (await post(url))[0] == 200


@pytest.mark.parametrize(
    ("trouble", "status"), [(RedisAway("redis://:hunter2@redis"), 503), (OSError("away"), 503), (ValueError("hunter2"), 500)]
)
async def test_an_outage_is_reported_and_a_bug_is_not_disclosed(trouble: Exception, status: int) -> None:
    async def breaks(_: InboundRequest) -> InboundResponse:
        raise trouble

    async with at(breaks) as url:
        answer = await post(url)
    assert (answer[0], "hunter2" in answer[1]) == (status, False)


async def test_hearing_that_takes_too_long_is_said_to_be_tried_again() -> None:
    async def hangs(_: InboundRequest) -> InboundResponse:
        await asyncio.Event().wait()
        raise AssertionError("unreachable")

    async with at(hangs, limits=InboundLimits(answer=0.05)) as url:
        assert (await post(url))[0] == 503
