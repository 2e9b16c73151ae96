"""Socket Mode: envelopes, acks, retries of unacknowledged events, and ack latencies. Several connections may be open:
an envelope goes to one, an ack may come from any. Events are retried, clicks are not.
"""

import asyncio
import json
import secrets
import time
from collections import Counter, defaultdict, deque
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any, Literal
from uuid import uuid4

from aiohttp import WSMsgType, web

from deploy.sandbox.slack.workspace.journal import WorkspaceJournal
from deploy.sandbox.slack.workspace.people import App
from deploy.sandbox.slack.workspace.refusal import JSON

MAX_CONNECTIONS = 10
MAX_SENT_ENVELOPES = 5_000
Kind = Literal["events_api", "interactive", "slash_commands"]


@dataclass
class DeliveryTimeouts:
    """Slack's limits in seconds: wait for an ack, pauses before retries, and how long an event is kept while no app is
    connected.
    """

    ack: float = 3.0
    retries: tuple[float, ...] = (0.0, 60.0, 300.0)
    offline: float = 360.0


@dataclass(frozen=True)
class SocketDelivery:
    """The result of an envelope; `payload` is the ack's."""

    acked: bool
    seconds: float = 0.0
    payload: JSON = field(default_factory=dict)
    attempts: int = 1
    reason: str = ""


@dataclass(eq=False)
class Connection:
    socket: web.WebSocketResponse
    leaving: bool = False
    id: str = field(default_factory=lambda: secrets.token_hex(4))


@dataclass
class Hub:
    journal: WorkspaceJournal
    patience: DeliveryTimeouts = field(default_factory=DeliveryTimeouts)
    connections: list[Connection] = field(default_factory=list)
    latencies: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list[float]))
    counts: Counter[str] = field(default_factory=Counter)
    sent: deque[JSON] = field(default_factory=lambda: deque(maxlen=MAX_SENT_ENVELOPES))  # latest envelopes in order, for tests
    drop: int = 0  # number of coming acks to lose
    _tickets: set[str] = field(default_factory=set)
    _awaited: dict[str, asyncio.Future[JSON]] = field(default_factory=dict)
    _tasks: set[asyncio.Task[Any]] = field(default_factory=set)
    _turn: int = 0

    def ticket(self) -> str:
        ticket = str(uuid4())
        self._tickets.add(ticket)
        return ticket

    async def link(self, request: web.Request) -> web.StreamResponse:
        """Serve one connection from hello to close. A ticket from apps.connections.open works once."""
        ticket = request.query.get("ticket", "")
        if ticket not in self._tickets:
            return web.Response(status=401, text="link_disabled")
        self._tickets.discard(ticket)
        connection = Connection(web.WebSocketResponse())
        await connection.socket.prepare(request)
        if len(self.connections) >= MAX_CONNECTIONS:
            await connection.socket.send_json(build_disconnect("too_many_websockets"))
            await connection.socket.close()
            return connection.socket
        self.connections.append(connection)
        try:
            await connection.socket.send_json(build_hello(len(self.connections)))
            self.counts["connections"] += 1
            self.journal.add("connections", {"connections": len(self.live)})
            await self._listen(connection)
        finally:
            self._forget(connection)
        return connection.socket

    async def _listen(self, connection: Connection) -> None:
        async for message in connection.socket:
            if message.type == WSMsgType.TEXT and message.data.startswith("{"):
                self._receive_ack(json.loads(message.data))

    def _receive_ack(self, ack: JSON) -> None:
        if self.drop:
            self.drop -= 1
            self.counts["dropped"] += 1
            self.journal.wake_waiters()
            return
        future = self._awaited.get(str(ack.get("envelope_id")))
        if future is None or future.done():
            self.counts["late_acks"] += 1
        else:
            future.set_result(ack.get("payload") or {})

    def _forget(self, connection: Connection) -> None:
        if connection in self.connections:
            self.connections.remove(connection)
        self.journal.add("connections", {"connections": len(self.live)})

    async def disconnect(self, reason: str = "refresh_requested") -> int:
        """Ask every connection to reconnect, as Slack does; send no more envelopes on them."""
        leaving = [connection for connection in self.connections if not connection.leaving]
        for connection in leaving:
            connection.leaving = True
            await connection.socket.send_json(build_disconnect(reason))
        return len(leaving)

    async def cut(self) -> None:
        """Close all sockets without notice."""
        for connection in list(self.connections):
            await connection.socket.close()

    @property
    def live(self) -> list[Connection]:
        return [connection for connection in self.connections if not connection.leaving and not connection.socket.closed]

    @property
    def listeners(self) -> int:
        """Return the number of connections to the app."""
        return len(self.connections)

    @property
    def busy(self) -> bool:
        """Return whether an envelope is in flight or an event is queued."""
        return bool(self._awaited or self._tasks)

    def event(self, payload: JSON) -> None:
        """Deliver an event in the background, with Slack's retries."""
        self._spawn(self._with_retries(payload))

    async def ask(self, kind: Kind, payload: JSON, answerable: bool = False) -> SocketDelivery:
        """Deliver a click, submission or command once."""
        if not self.live:
            self.counts["nobody_connected"] += 1
            return SocketDelivery(acked=False, reason="nobody_connected")
        return await self._send(kind, payload, answerable)

    async def _with_retries(self, payload: JSON) -> SocketDelivery:
        delivery = SocketDelivery(acked=False, reason="")
        for attempt, delay in enumerate((0.0, *self.patience.retries)):
            if delay:
                await asyncio.sleep(delay)
            if not await self._wait_for_app():
                self.counts["lost_events"] += 1
                return SocketDelivery(acked=False, attempts=attempt, reason="nobody_connected")
            delivery = await self._send("events_api", payload, False, attempt, delivery.reason)
            if delivery.acked:
                return delivery
        self.counts["lost_events"] += 1
        return delivery

    async def _wait_for_app(self) -> bool:
        try:
            await self.journal.wait_until(lambda: self.live, self.patience.offline)
        except TimeoutError:
            return False
        return True

    async def _send(self, kind: Kind, payload: JSON, answerable: bool, attempt: int = 0, reason: str = "") -> SocketDelivery:
        envelope: JSON = {"envelope_id": str(uuid4()), "type": kind, "accepts_response_payload": answerable, "payload": payload}
        if kind == "events_api":
            envelope |= {"retry_attempt": attempt, "retry_reason": reason}
        future: asyncio.Future[JSON] = asyncio.get_running_loop().create_future()
        self._awaited[envelope["envelope_id"]] = future
        began = time.perf_counter()
        try:
            async with asyncio.timeout(self.patience.ack):
                await self._choose_connection().socket.send_json(envelope)
                self.sent.append(envelope)
                self.counts[kind] += 1
                answer = await future
        except (TimeoutError, ConnectionError):
            self.counts["timeouts"] += 1
            return SocketDelivery(acked=False, attempts=attempt + 1, reason="timeout")
        finally:
            del self._awaited[envelope["envelope_id"]]
            self.journal.wake_waiters()
        seconds = time.perf_counter() - began
        self.latencies[kind].append(seconds)
        self.counts["acked"] += 1
        return SocketDelivery(True, seconds, answer, attempt + 1)

    def _choose_connection(self) -> Connection:
        live = self.live
        self._turn += 1
        return live[self._turn % len(live)]

    def _spawn(self, work: Coroutine[Any, Any, Any]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._forget_task)

    def _forget_task(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        self.journal.wake_waiters()

    async def close(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.cut()

    def stats(self) -> JSON:
        everything = [seconds for rows in self.latencies.values() for seconds in rows]
        return {
            "connections": self.listeners,
            "counts": dict(self.counts),
            "in_flight": len(self._awaited),
            "ack_seconds": {kind: summarize_seconds(rows) for kind, rows in self.latencies.items()}
            | {"all": summarize_seconds(everything)},
        }


def summarize_seconds(seconds: list[float]) -> JSON:
    """Return p50, p99 and maximum, by nearest rank."""
    if not seconds:
        return {"count": 0, "p50": None, "p99": None, "max": None}
    rows = sorted(seconds)
    rank = [rows[min(len(rows) - 1, int(len(rows) * p))] for p in (0.50, 0.99)]
    return {"count": len(rows), "p50": rank[0], "p99": rank[1], "max": rows[-1]}


def build_hello(connections: int) -> JSON:
    debug = {"host": "applink-sandbox", "build_number": 1, "approximate_connection_time": 18060}
    return {"type": "hello", "num_connections": connections, "debug_info": debug, "connection_info": {"app_id": App.id}}


def build_disconnect(reason: str) -> JSON:
    return {"type": "disconnect", "reason": reason, "debug_info": {"host": "applink-sandbox"}}
