"""Both HTTP ports under attack (idle connections, slow heads and bodies, unread answers) still answer honest requests.

The time limits are longer than any test, so only the connection counts can protect the ports.
"""

import asyncio
import contextlib
import os
import re
import resource
import socket
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from datetime import timedelta
from urllib.parse import urlencode

import pytest
import structlog
from aiohttp import ClientSession
from fakeredis import FakeAsyncRedis

from bot.app import health as health_room
from bot.app.health import Health, build_health_routes
from bot.app.http import server as server_room
from bot.app.http.guard import InboundLimits, LogBudget
from bot.app.http.server import serve_routes
from bot.inbound import InboundRequest, InboundResponse, InboundRoute
from bot.slack.http.delivery import SIGNATURE_HEADER, TIMESTAMP_HEADER, SlackEventsEndpoint
from bot.slack.registry import build_slack_app
from bot.store.replay_guard import ReplayGuard
from tests.bot.app.test_slack_http import FORM, SECRET, Door
from tests.support.clock import SetClock
from tests.support.fakes_approvals import ward
from tests.support.fakes_bot import OPS, TEAM
from tests.support.virtual_loop import virtually

LONG = 1e4
SMALL = InboundLimits(in_hand=4, connections=16, silent=LONG, idle=LONG, body=LONG, answer=LONG)
MANY = 1_100


def patient(limits: InboundLimits) -> InboundLimits:
    """Return the same counts with time limits that never expire in a test."""
    return InboundLimits(limits.in_hand, limits.connections, LONG, LONG, LONG, LONG)


async def told(request: InboundRequest) -> InboundResponse:
    return InboundResponse(200, "told" if request.body == b"signed" else "", headers={"X-Told": "yes"})


def judged(headers: Mapping[str, str]) -> InboundResponse | None:
    return None if headers.get("X-Key") == "ours" else InboundResponse(401, reason="another key")


ROUTES = (InboundRoute("/told", told, 100_000, judged), InboundRoute("/other", told, 100_000, judged))
BODY = b"Host: x\r\nContent-Length: 90000\r\n\r\nx"
ATTACKS: Mapping[str, bytes] = {
    "says nothing": b"",
    "one letter": b"P",
    "a head that never ends": b"POST /told HTTP/1.1\r\nHost: x\r\nX-A: ",
    "a slow body to an unknown path": b"POST /nobody HTTP/1.1\r\n" + BODY,
    "a slow body by another method": b"PUT /told HTTP/1.1\r\n" + BODY,
    "a slow body without the key": b"POST /told HTTP/1.1\r\n" + BODY,
    "a slow body with a head like ours": b"POST /told HTTP/1.1\r\nX-Key: ours\r\n" + BODY,
    "a slow body in pieces": b"POST /told HTTP/1.1\r\nX-Key: ours\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n",
    "waits to be told to go on": b"POST /told HTTP/1.1\r\nX-Key: ours\r\nExpect: 100-continue\r\n" + BODY,
    "a slow body to another route": b"POST /other HTTP/1.1\r\nX-Key: ours\r\n" + BODY,
    "idle after an answer": b"POST /told HTTP/1.1\r\nX-Key: ours\r\nHost: x\r\nContent-Length: 0\r\n\r\n",
    "no HTTP": b"\x16\x03\x01\x02\x00\x01",
}


@contextlib.contextmanager
def crowd() -> Iterator[list[socket.socket]]:
    """Return a list for the attackers' sockets, closed at the end."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, 4 * MANY)), hard))
    strangers: list[socket.socket] = []
    try:
        yield strangers
    finally:
        for one in strangers:
            one.close()


async def come(strangers: list[socket.socket], port: int, count: int, says: bytes) -> None:
    """Open `count` connections and send `says` on each."""
    for n in range(count):
        one = socket.create_connection(("127.0.0.1", port))
        one.setblocking(False)
        if says:
            one.send(says)
        strangers.append(one)
        if n % 20 == 19:
            await turns()
    await turns()


async def turns() -> None:
    """Let the server finish everything it can do now."""
    for _ in range(12):
        await asyncio.sleep(0)


def held(strangers: Sequence[socket.socket]) -> int:
    """Return the number of connections that the server has not closed."""
    return sum(_is_open(one) for one in strangers)


def _is_open(one: socket.socket) -> bool:
    try:
        while piece := one.recv(65536):
            assert piece
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


async def honest(port: int, path: str = "/told") -> str:
    url = f"http://127.0.0.1:{port}{path}"
    async with asyncio.timeout(30), ClientSession() as http, http.post(url, data=b"signed", headers={"X-Key": "ours"}) as answer:
        assert answer.status == 200
        return await answer.text()


@pytest.mark.parametrize("attack", ATTACKS)
async def test_honest_requests_are_answered_during_every_attack(attack: str) -> None:
    async with serve_routes("127.0.0.1", 0, ROUTES, SMALL) as port:
        with crowd() as strangers:
            for _ in range(3):
                await come(strangers, port, 30, ATTACKS[attack])
                assert held(strangers) <= SMALL.connections
                assert await honest(port) == "told"
                assert await honest(port, "/other") == "told"


async def test_a_stranger_who_reads_no_answer_is_ended_all_the_same() -> None:
    async def long(_: InboundRequest) -> InboundResponse:
        return InboundResponse(200, "x" * (4 << 20))

    routes = (*ROUTES, InboundRoute("/long", long, 0, method="GET"))
    limits = InboundLimits(in_hand=4, connections=6, silent=LONG, idle=LONG, body=LONG, answer=LONG)
    async with serve_routes("127.0.0.1", 0, routes, limits) as port:
        before = len(os.listdir("/dev/fd"))
        with crowd() as strangers:
            for more in (b"", b"Connection: close\r\n"):
                await come(strangers, port, 30, b"GET /long HTTP/1.1\r\nHost: x\r\n" + more + b"\r\n")
                assert await honest(port) == "told"
                assert len(os.listdir("/dev/fd")) - before - len(strangers) <= limits.connections


async def test_what_is_being_heard_is_not_given_up_for_strangers() -> None:
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def slow(_: InboundRequest) -> InboundResponse:
        begun.set()
        await go_on.wait()
        return InboundResponse(200, "heard")

    async with serve_routes("127.0.0.1", 0, (*ROUTES, InboundRoute("/slow", slow, 100)), SMALL) as port:
        heard = asyncio.create_task(honest(port, "/slow"))
        await begun.wait()
        with crowd() as strangers:
            for says in ATTACKS.values():
                await come(strangers, port, 20, says)
            go_on.set()
            assert await heard == "heard"


PORTS = {"http": (ROUTES, server_room.LIMITS, "/told"), "health": (build_health_routes(Health(ready=True)), health_room.LIMITS, "/healthz")}


@pytest.mark.parametrize("port_of", PORTS)
async def test_a_thousand_idle_connections_take_no_more_descriptors_than_a_port_may_have(port_of: str) -> None:
    routes, limits, path = PORTS[port_of]
    async with serve_routes("127.0.0.1", 0, routes, patient(limits)) as port:
        before = len(os.listdir("/dev/fd"))
        with crowd() as strangers:
            await come(strangers, port, MANY, b"")
            assert len(os.listdir("/dev/fd")) - before - MANY <= limits.connections
            assert held(strangers) <= limits.connections
            async with ClientSession() as http:
                how = http.get if port_of == "health" else http.post
                async with how(f"http://127.0.0.1:{port}{path}", headers={"X-Key": "ours"}) as answer:
                    assert answer.status == 200


@pytest.mark.parametrize("port_of", PORTS)
async def test_a_burst_ends_no_request_that_is_there_already(port_of: str) -> None:
    routes, limits, path = PORTS[port_of]
    method = b"GET " if port_of == "health" else b"POST "
    request = method + path.encode() + b" HTTP/1.1\r\nHost: x\r\nX-Key: ours\r\nContent-Length: 0\r\n\r\n"
    async with serve_routes("127.0.0.1", 0, routes, patient(limits)) as port:
        with crowd() as strangers:
            for n in range(900):  # all wait in the kernel's accept queue
                strangers.append(socket.create_connection(("127.0.0.1", port)))
                strangers[-1].setblocking(False)
                if n % 100 == 50:
                    strangers[-1].send(request)
            async with asyncio.timeout(30):
                loop = asyncio.get_running_loop()
                assert all([b" 200 OK" in await loop.sock_recv(one, 4096) for one in strangers[50::100]])


@pytest.mark.parametrize("room", [server_room, health_room])
def test_what_is_in_hand_of_all_routes_leaves_connections_to_give_up(room: object) -> None:
    limits: InboundLimits = room.LIMITS  # type: ignore[attr-defined]
    routes = 4 if room is server_room else len(build_health_routes(Health()))
    assert limits.in_hand * routes < limits.connections


@contextlib.asynccontextmanager
async def besieged() -> AsyncIterator[tuple[Door, list[socket.socket], int]]:
    """Run the bot with approvals behind both ports while every attack is in progress."""
    async with ward() as place:
        clock = SetClock()
        requests = SlackEventsEndpoint(
            await build_slack_app(place.bot.context.client, place.bot.registry),
            SECRET,
            ReplayGuard(place.bot.redis, timedelta(minutes=15)),
            clock,
        )
        health = build_health_routes(Health(ready=True, redis=FakeAsyncRedis()))
        async with (
            serve_routes("127.0.0.1", 0, requests.routes, patient(server_room.LIMITS)) as port,
            serve_routes("127.0.0.1", 0, health, patient(health_room.LIMITS)) as health_port,
        ):
            door = Door(place.bot, clock, f"http://127.0.0.1:{port}/slack/events")
            with crowd() as strangers:
                await come(strangers, health_port, 100, b"")
                for says in (*ATTACKS.values(), forged(door)):
                    await come(strangers, port, 60, says)
                yield door, strangers, health_port


def forged(door: Door) -> bytes:
    """Return a request head in Slack's format, with a body that never ends."""
    head = {TIMESTAMP_HEADER: str(int(door.clock.now().timestamp())), SIGNATURE_HEADER: "v0=" + "0" * 64}
    return b"POST /slack/events HTTP/1.1\r\n" + b"".join(f"{name}: {value}\r\n".encode() for name, value in head.items()) + BODY


async def test_the_kill_switch_is_pulled_over_a_port_that_is_besieged() -> None:
    async with besieged() as (door, strangers, health_port):
        approvals = door.bot.context.approvals
        assert approvals is not None
        asked = {"command": "/rackmedic", "text": "stop looking at the racks", "team_id": TEAM, "channel_id": OPS, "user_id": "U0PRIYA"}
        status, _ = await door.post(urlencode(asked | {"trigger_id": "1.2.3"}).encode(), kind=FORM)
        assert (status, (await approvals.brakes.get_brake_status()).stopped_by) == (200, f"{TEAM}:U0PRIYA")
        async with ClientSession() as http, http.get(f"http://127.0.0.1:{health_port}/readyz") as answer:
            assert (answer.status, await answer.text()) == (200, "ready\n")
        assert held(strangers) <= server_room.LIMITS.connections + health_room.LIMITS.connections


# -- what error pages and the log reveal -----------------------------------------------------------

NO_HTTP: Mapping[str, bytes] = {
    "no HTTP at all": b"\x16\x03\x01\x02\x00\x01\r\n\r\n",
    "no version": b"GET /\r\n\r\n",
    "another version": b"GET / HTTP/9.9\r\n\r\n",
    "another method": b"\x1b[31mBREW /told HTTP/1.1\r\n\r\n",
    "two lengths": b"POST /told HTTP/1.1\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n",
    "a length that is none": b"POST /told HTTP/1.1\r\nContent-Length: \xe2\x80\xae3\r\n\r\n",
    "a head without end": b"POST /told HTTP/1.1\r\nX-A: " + b"a" * 20_000 + b"\r\n\r\n",
    "too many headers": b"POST /told HTTP/1.1\r\n" + b"X-A: a\r\n" * 5_000 + b"\r\n",
    "a broken piece": b"POST /told HTTP/1.1\r\nX-Key: ours\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    "an expectation": b"POST /told HTTP/1.1\r\nX-Key: ours\r\nHost: x\r\nExpect: \x1b[31m\r\nContent-Length: 0\r\n\r\n",
    "an unknown path": b"POST /nobody HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n",
    "an upgrade": b"POST /told HTTP/1.1\r\nX-Key: ours\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nContent-Length: 0\r\n\r\n",
}


@pytest.mark.parametrize("port_of", PORTS)
@pytest.mark.parametrize("what", NO_HTTP)
async def test_no_page_tells_what_we_are_or_repeats_what_was_sent(what: str, port_of: str, caplog: pytest.LogCaptureFixture) -> None:
    async with serve_routes("127.0.0.1", 0, PORTS[port_of][0]) as port:
        with structlog.testing.capture_logs() as lines:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(NO_HTTP[what])
            writer.write_eof()
            with contextlib.suppress(ConnectionResetError):
                said = await reader.read()
                assert not re.search(rb"(?i)aiohttp|python|server:|\d+\.\d+\.\d+|\x1b|BREW|zz", said), said
            writer.close()
    assert [*lines, *caplog.records] == []


async def test_of_requests_that_come_to_nothing_a_few_lines_a_minute_are_written() -> None:
    request = b"POST /told HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n"
    async with serve_routes("127.0.0.1", 0, ROUTES) as port:
        with structlog.testing.capture_logs() as lines:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(request * 1_000)
            with contextlib.suppress(ConnectionResetError):
                await reader.read()
            writer.close()
            assert [(line["event"], line["status"], line["why"]) for line in lines] == [("http.refused", 401, "another key")]
            with crowd() as strangers:
                await come(strangers, port, 100, request)
            assert len(lines) == 10


def test_the_next_minute_says_how_many_lines_were_left_out() -> None:
    async def story() -> None:
        budget = LogBudget(2)
        assert [budget.spend("/told", 401) for _ in range(5)] == [{}, {}, None, None, None]
        assert budget.spend("/told", 503) == {}
        await asyncio.sleep(60)
        assert [budget.spend("/told", 401) for _ in range(2)] == [{"left_out": 3}, {}]

    virtually(story())
