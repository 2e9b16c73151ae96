"""HTTP server of both ports: routes behind one guard, bounded in bytes, time and number.

Each route authenticates its sender. Proxy headers (`X-Forwarded-…`) are ignored; a TLS proxy is expected in front. Path
and headers are checked before a body is read. Each route has its own slots, so none can starve another.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace

import structlog
from aiohttp import web
from redis.exceptions import RedisError

from bot.app.http.guard import SILENT_LOGGER, ConnectionGuard, InboundLimits, LogBudget, RouteFull, RoutePool
from bot.inbound import InboundRequest, InboundResponse, InboundRoute, read_limited_body
from bot.refusal import Refusal
from bot.settings import ENV_PREFIX, Settings

log = structlog.get_logger()
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

LIMITS = InboundLimits()
ROUTE_BUSY = InboundResponse(503, {"error": "too much at once"}, after=5)
TOO_LARGE = InboundResponse(413, {"error": "too large"})
TOO_SLOW = InboundResponse(408, {"error": "the body took too long"})
UNSUPPORTED_ENCODING = InboundResponse(415, {"error": "send it as it is: a signature is over the bytes, and nothing is unpacked here"})
STORE_UNAVAILABLE = InboundResponse(503, {"error": "the store is away"}, after=30)
INTERNAL_ERROR = InboundResponse(500, {"error": "something went wrong here; the log says what"})


def run_inbound_server(settings: Settings, routes: Sequence[InboundRoute]) -> AbstractAsyncContextManager[object]:
    """Serve the routes, if any."""
    return _run_on_http_port(settings, routes) if routes else contextlib.nullcontext()


@contextlib.asynccontextmanager
async def _run_on_http_port(settings: Settings, routes: Sequence[InboundRoute]) -> AsyncIterator[None]:
    async with serve_on_setting("HTTP_PORT", settings.http_host, settings.http_port, routes):
        log.info("http.open", host=settings.http_host, port=settings.http_port, paths=[route.path for route in routes])
        yield


@contextlib.asynccontextmanager
async def serve_on_setting(
    setting: str, host: str, port: int, routes: Sequence[InboundRoute], limits: InboundLimits = LIMITS
) -> AsyncIterator[None]:
    """Serve on a setting's port. Raises Refusal naming the setting."""
    async with contextlib.AsyncExitStack() as stack:
        try:
            await stack.enter_async_context(serve_routes(host, port, routes, limits))
        except OSError as why:
            raise Refusal(f"{ENV_PREFIX}{setting}: cannot listen on {host}: {why.strerror or why}") from why
        yield


@contextlib.asynccontextmanager
async def serve_routes(host: str, port: int, routes: Sequence[InboundRoute], limits: InboundLimits = LIMITS) -> AsyncIterator[int]:
    """Serve on `port` (0: any free one), which is yielded. Raises OSError."""
    budget = LogBudget(limits.log_lines)

    @web.middleware
    async def guarded(request: web.Request, handler: Handler) -> web.StreamResponse:
        with guard.hold_request(request.protocol):
            try:
                return await handler(request)
            except web.HTTPException as no:  # unknown path or method: the body is not read
                return _build_response(InboundResponse(no.status))

    app = web.Application(middlewares=[guarded])
    for route in routes:
        made = web.get if route.method == "GET" else web.post
        app.add_routes([made(route.path, RouteHandler(route, limits, budget).handle)])
    app.on_response_prepare.append(_drop_server_header)
    runner = web.AppRunner(app, access_log=None, logger=SILENT_LOGGER, shutdown_timeout=5.0)
    await runner.setup()
    assert runner.server is not None
    guard = ConnectionGuard(runner.server, limits)
    try:
        server = await guard.listen(host, port)
        try:
            yield int(server.sockets[0].getsockname()[1])
        finally:
            server.close()
            guard.close()
    finally:
        await runner.cleanup()


async def _drop_server_header(_: web.Request, response: web.StreamResponse) -> None:
    response.headers.pop("Server", None)


class RouteHandler:
    """Handles one route's requests, in its own slots."""

    def __init__(self, route: InboundRoute, limits: InboundLimits, budget: LogBudget) -> None:
        self._route = route
        self._limits = limits
        self._budget = budget
        self._pool = RoutePool(limits.in_hand)

    async def handle(self, request: web.Request) -> web.Response:
        answer = await self._answer_request(request)
        if answer.reason and (left_out := self._budget.spend(self._route.path, answer.status)) is not None:
            log.warning("http.refused", path=self._route.path, status=answer.status, why=answer.reason, **left_out)
        return _build_response(answer)

    async def _answer_request(self, request: web.Request) -> InboundResponse:
        if request.headers.get("Content-Encoding", "identity").lower() != "identity":
            return UNSUPPORTED_ENCODING
        if (request.content_length or 0) > self._route.max_bytes:
            return TOO_LARGE
        if (no := self._route.judge(request.headers)) is not None:
            return no
        try:
            async with asyncio.timeout(self._limits.body) as patience:
                with self._pool.hold_body_slot(patience):
                    body = await read_limited_body(request.content.iter_any(), self._route.max_bytes)
        except TimeoutError:
            return TOO_SLOW
        except RouteFull:
            return ROUTE_BUSY
        if body is None:
            return TOO_LARGE
        with self._pool.hold_handler_slot():
            return await self._call_route(InboundRequest(request.headers, body, request.match_info))

    async def _call_route(self, request: InboundRequest) -> InboundResponse:
        try:
            async with asyncio.timeout(self._limits.answer):
                return await self._route.hear(request)
        except (RedisError, TimeoutError, OSError) as why:
            return replace(STORE_UNAVAILABLE, reason=f"the store is away: {why}"[:200])
        except Exception as bug:  # the sender gets no details
            if (left_out := self._budget.spend(self._route.path, INTERNAL_ERROR.status)) is not None:
                log.exception("http.bug", path=self._route.path, exc_info=bug, **left_out)
            return INTERNAL_ERROR


def _build_response(answer: InboundResponse) -> web.Response:
    """Return the answer as HTTP; any status from 300 closes the connection."""
    headers = dict(answer.headers)
    if answer.after:
        headers["Retry-After"] = str(answer.after)
    if isinstance(answer.body, str):
        made = web.Response(text=answer.body, status=answer.status, headers=headers)
    else:
        made = web.json_response(dict(answer.body), status=answer.status, headers=headers)
    if answer.status >= 300:
        made.force_close()
    return made
