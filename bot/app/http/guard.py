"""Limits on an HTTP port: connections, stalling clients and concurrent requests per route.

Clients are untrusted and may be slow: at a limit, the connection or body that has waited longest is dropped, never a
complete request.
"""

import asyncio
import contextlib
import logging
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from aiohttp import web

SILENT_LOGGER: Final = logging.Logger("http", logging.CRITICAL)  # drops malformed requests, so that strangers cannot fill the log
MAX_HEADERS: Final = 64
ACCEPT_BACKLOG: Final = 1024  # connections that the kernel queues until they are accepted
ACCEPT_BATCH_DIVISOR: Final = 8  # one eighth of a port's connections is accepted before earlier ones are read again
LINGERING_SECONDS: Final = 1.0  # the rest of a refused body is read, so that the client receives the refusal


@dataclass(frozen=True, slots=True)
class InboundLimits:
    """Bounds of one port.

    Attributes:
        in_hand: concurrent requests per route; their sum stays below `connections`, so a waiting one can always be
            dropped.
        silent: seconds for a new connection to send a request head.
        idle: seconds for an answered connection to send the next head.
        body: seconds to receive a body.
        answer: seconds for the handler to answer.
    """

    in_hand: int = 32
    connections: int = 256
    silent: float = 10.0
    idle: float = 20.0
    body: float = 10.0
    answer: float = 25.0
    log_lines: int = 10  # per minute, route and status


class ConnectionGuard:
    """The connections of a port. At the limit the one that waits longest is closed.

    Bounding them keeps descriptors free for Redis and SSH.
    """

    def __init__(self, server: web.Server, limits: InboundLimits) -> None:
        self._server = server
        self._limits = limits
        self._open: set[GuardedConnection] = set()
        self._waiting: OrderedDict[GuardedConnection, asyncio.TimerHandle] = OrderedDict()

    async def listen(self, host: str, port: int) -> asyncio.Server:
        """Listen with small accept batches, so that a burst cannot evict connections with an unread request.

        Reading takes about six loop rounds. The kernel's backlog stays at ACCEPT_BACKLOG.
        """
        server = await asyncio.get_running_loop().create_server(
            self.accept, host, port, backlog=max(1, self._limits.connections // ACCEPT_BATCH_DIVISOR)
        )
        for listening in server.sockets:
            with listening.dup() as same:
                same.listen(ACCEPT_BACKLOG)
        return server

    def accept(self) -> asyncio.Protocol:
        """Return a new connection's protocol; at the limit the longest waiting one is closed."""
        if len(self._open) >= self._limits.connections:
            if not self._waiting:
                return RejectedConnection()
            self._end_connection(next(iter(self._waiting)))
        connection = GuardedConnection(self, self._server)
        self._open.add(connection)
        self._start_timer(connection, self._limits.silent)
        return connection

    @contextlib.contextmanager
    def hold_request(self, connection: web.RequestHandler) -> Iterator[None]:
        """Suspend the timer during a request, then start the idle timer."""
        assert isinstance(connection, GuardedConnection)
        self._cancel_timer(connection)
        try:
            yield
        finally:
            if connection in self._open:
                self._start_timer(connection, self._limits.idle)

    def close(self) -> None:
        """Close all connections without a request in progress."""
        for connection in list(self._waiting):
            self._end_connection(connection)

    def forget_connection(self, connection: "GuardedConnection") -> None:
        self._cancel_timer(connection)
        self._open.discard(connection)

    def _start_timer(self, connection: "GuardedConnection", seconds: float) -> None:
        self._cancel_timer(connection)
        self._waiting[connection] = asyncio.get_running_loop().call_later(seconds, self._end_connection, connection)

    def _cancel_timer(self, connection: "GuardedConnection") -> None:
        if timer := self._waiting.pop(connection, None):
            timer.cancel()

    def _end_connection(self, connection: "GuardedConnection") -> None:
        self.forget_connection(connection)
        connection.abort()


class GuardedConnection(web.RequestHandler):
    """A connection that can be closed at once and whose error pages reveal nothing."""

    __slots__ = ("_aborted", "_guard", "_own_transport")

    def __init__(self, guard: ConnectionGuard, server: web.Server) -> None:
        super().__init__(
            server,
            loop=asyncio.get_running_loop(),
            logger=SILENT_LOGGER,
            access_log=None,  # type: ignore[arg-type]  # None is documented to switch it off
            auto_decompress=False,
            lingering_time=LINGERING_SECONDS,
            max_headers=MAX_HEADERS,
        )
        self._guard = guard
        self._aborted = False
        self._own_transport: asyncio.Transport | None = (
            None  # kept here: aiohttp forgets a transport that it closes, although the client may never read the rest
        )

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._own_transport = transport if isinstance(transport, asyncio.Transport) else None
        if self._aborted:
            self.abort()

    def connection_lost(self, exc: BaseException | None) -> None:
        self._guard.forget_connection(self)
        super().connection_lost(exc)

    def abort(self) -> None:
        self._aborted = True
        if self._own_transport is not None:
            self._own_transport.abort()

    def handle_error(
        self, request: web.BaseRequest, status: int = 500, exc: BaseException | None = None, message: str | None = None
    ) -> web.StreamResponse:
        """Answer with a bare status: aiohttp's page names its version and echoes the input."""
        if request.writer.output_size > 0:
            raise ConnectionError("the answer has begun")
        return _BareErrorPage(status=status, headers={"Connection": "close"})


class _BareErrorPage(web.Response):
    """An error response that drops the `Server` header."""

    async def _prepare_headers(self) -> None:
        await super()._prepare_headers()
        self.headers.pop("Server", None)


class RejectedConnection(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        if isinstance(transport, asyncio.Transport):
            transport.abort()


class RouteFull(Exception):
    """Too many requests of this route are being processed."""


class RoutePool:
    """The requests of one route. When full, the longest awaited body gives way."""

    def __init__(self, max_requests: int) -> None:
        self._max_requests = max_requests
        self._heard = 0
        self._reading: OrderedDict[asyncio.Timeout, None] = OrderedDict()

    @contextlib.contextmanager
    def hold_body_slot(self, patience: asyncio.Timeout) -> Iterator[None]:
        """Hold a slot while reading; `patience` expires when the slot is needed. Raises RouteFull."""
        if self._heard + len(self._reading) >= self._max_requests:
            self._make_room()
        self._reading[patience] = None
        try:
            yield
        finally:
            self._reading.pop(patience, None)

    @contextlib.contextmanager
    def hold_handler_slot(self) -> Iterator[None]:
        self._heard += 1
        try:
            yield
        finally:
            self._heard -= 1

    def _make_room(self) -> None:
        if not self._reading:
            raise RouteFull
        longest, _ = self._reading.popitem(last=False)
        if not longest.expired():
            longest.reschedule(0.0)


class LogBudget:
    """A limit on log lines per minute and kind, counting omitted lines."""

    def __init__(self, lines: int) -> None:
        self._lines = lines
        self._spent: dict[tuple[object, ...], _MinuteBudget] = {}

    def spend(self, *kind: object) -> dict[str, int] | None:
        """Return extra fields for the next line, or None to omit it."""
        now = asyncio.get_running_loop().time()
        minute = self._spent.setdefault(kind, _MinuteBudget(now))
        if now - minute.since >= 60:
            minute.since = now
            minute.lines = 0
        if minute.lines >= self._lines:
            minute.left_out += 1
            return None
        said = {"left_out": minute.left_out} if minute.left_out else {}
        minute.lines = minute.lines + 1
        minute.left_out = 0
        return said


@dataclass(slots=True)
class _MinuteBudget:
    since: float
    lines: int = 0
    left_out: int = 0
