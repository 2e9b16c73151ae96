"""The one port on which others may call us: routes of several rooms behind one server, bounded in bytes, time and number.

It decides nothing and trusts nothing: who sends is judged by the room that hears, by a signature or a secret; what a proxy says of an address
(`X-Forwarded-…`) is read by nobody. A proxy with TLS stands in front.
"""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from functools import partial

import structlog
from aiohttp import web
from redis.exceptions import RedisError

from bot.inbound.pieces import whole
from bot.inbound.routes import InboundAnswer, InboundRequest, InboundRoute
from bot.refusal import Refusal
from bot.settings import PREFIX, Settings

log = structlog.get_logger()
Protocol = web.RequestHandler
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass(frozen=True, slots=True)
class InboundLimits:
    """`silent`: seconds for which a connection may say nothing at first; `idle`: until it has sent another whole head; `body`: for which a body
    may take; `answer`: for which hearing it may."""

    in_hand: int = 64
    connections: int = 256
    silent: float = 10.0
    idle: float = 20.0
    body: float = 10.0
    answer: float = 25.0


LIMITS = InboundLimits()
QUIET = logging.Logger("http", logging.CRITICAL)
"""For what is no HTTP: strangers do not fill our log."""
CROWDED = InboundAnswer(503, {"error": "too much at once"}, after=5)
TOO_LARGE = InboundAnswer(413, {"error": "too large"})
TOO_SLOW = InboundAnswer(408, {"error": "the body took too long"})
PACKED = InboundAnswer(415, {"error": "send it as it is: a signature is over the bytes, and nothing is unpacked here"})
STORE_AWAY = InboundAnswer(503, {"error": "the store is away"}, after=30)
OUR_BUG = InboundAnswer(500, {"error": "something went wrong here; the log says what"})


def inbound(settings: Settings, routes: Sequence[InboundRoute]) -> AbstractAsyncContextManager[object]:
    """The server while it is open; nothing where no room has a route."""
    return _named(settings, routes) if routes else contextlib.nullcontext()


@contextlib.asynccontextmanager
async def _named(settings: Settings, routes: Sequence[InboundRoute]) -> AsyncIterator[None]:
    async with contextlib.AsyncExitStack() as stack:
        try:
            await stack.enter_async_context(serving(settings.http_host, settings.http_port, routes))
        except OSError as why:
            raise Refusal(f"{PREFIX}HTTP_PORT: cannot listen on {settings.http_host}: {why.strerror or why}") from why
        log.info("http.open", host=settings.http_host, port=settings.http_port, paths=[route.path for route in routes])
        yield


@contextlib.asynccontextmanager
async def serving(host: str, port: int, routes: Sequence[InboundRoute], limits: InboundLimits = LIMITS) -> AsyncIterator[int]:
    """The routes on that port, or on a free one where it is 0; yields the port. Raises OSError where it cannot listen."""
    hand, silence = Hand(limits), Silence(limits.silent)

    @web.middleware
    async def spoken(request: web.Request, handler: Handler) -> web.StreamResponse:
        silence.broken(request.protocol)
        return await handler(request)

    app = web.Application(middlewares=[spoken])
    app.add_routes([web.post(route.path, partial(hand.handle, route)) for route in routes])
    app.on_response_prepare.append(_nameless)
    runner = web.AppRunner(app, access_log=None, logger=QUIET, auto_decompress=False, shutdown_timeout=5.0, keepalive_timeout=limits.idle)
    await runner.setup()
    assert runner.server is not None
    most = ConnectionLimit(runner.server, limits.connections, silence)
    try:
        server = await asyncio.get_running_loop().create_server(most.opened, host, port)
        try:
            yield int(server.sockets[0].getsockname()[1])
        finally:
            server.close()
    finally:
        await runner.cleanup()


@dataclass(frozen=True, slots=True)
class ConnectionLimit:
    """Lets so many connections in at once: a process that has no descriptor left reaches neither its store nor a host."""

    server: web.Server
    most: int
    silence: "Silence"

    def opened(self) -> asyncio.Protocol:
        """For a connection that somebody makes."""
        return Shut() if len(self.server.connections) >= self.most else self.silence.begins(self.server)


class Shut(asyncio.Protocol):
    """Hangs up."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See `asyncio.Protocol`."""
        transport.close()


class Silence:
    """Closes connections that send no whole head in time: for the first one aiohttp itself waits without end."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._waits: dict[asyncio.BaseProtocol, asyncio.TimerHandle] = {}

    def begins(self, make: Callable[[], Protocol]) -> Protocol:
        """A connection, made."""
        protocol = make()
        self._waits[protocol] = asyncio.get_running_loop().call_later(self._seconds, self._ends, protocol)
        return protocol

    def broken(self, protocol: Protocol) -> None:
        """Somebody spoke."""
        if wait := self._waits.pop(protocol, None):
            wait.cancel()

    def _ends(self, protocol: Protocol) -> None:
        del self._waits[protocol]
        if protocol.transport is not None:
            protocol.transport.close()


async def _nameless(_: web.Request, response: web.StreamResponse) -> None:
    """Who serves is nobody's business."""
    response.headers.pop("Server", None)


@dataclass(slots=True)
class Hand:
    """What is in hand at once, and how each is handled."""

    limits: InboundLimits
    busy: int = field(default=0)

    async def handle(self, route: InboundRoute, request: web.Request) -> web.Response:
        if self.busy >= self.limits.in_hand:
            return _said(CROWDED)
        self.busy += 1
        try:
            return _said(await self._answer(route, request))
        finally:
            self.busy -= 1

    async def _answer(self, route: InboundRoute, request: web.Request) -> InboundAnswer:
        if request.headers.get("Content-Encoding", "identity").lower() != "identity":
            return PACKED
        try:
            async with asyncio.timeout(self.limits.body):
                body = await _body(request, route.most)
        except TimeoutError:
            return TOO_SLOW
        return TOO_LARGE if body is None else await self._heard(route, InboundRequest(request.headers, body, request.match_info))

    async def _heard(self, route: InboundRoute, request: InboundRequest) -> InboundAnswer:
        try:
            async with asyncio.timeout(self.limits.answer):
                return await route.hear(request)
        except (RedisError, TimeoutError, OSError) as why:
            log.warning("http.store_away", path=route.path, error=str(why)[:200])
            return STORE_AWAY
        except Exception as bug:  # whoever sends gets no words of it
            log.exception("http.bug", path=route.path, exc_info=bug)
            return OUR_BUG


async def _body(request: web.Request, most: int) -> bytes | None:
    """The bytes as they came; None where there are more."""
    return None if (request.content_length or 0) > most else await whole(request.content.iter_any(), most)


def _said(answer: InboundAnswer) -> web.Response:
    headers = {**answer.headers, **({"Retry-After": str(answer.after)} if answer.after else {})}
    if isinstance(answer.body, str):
        return web.Response(text=answer.body, status=answer.status, headers=headers)
    return web.json_response(dict(answer.body), status=answer.status, headers=headers)
