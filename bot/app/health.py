"""`/healthz` (process runs), `/readyz` (ready and Redis answers) and `/metrics`."""

import contextlib
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Final

from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from redis.asyncio import Redis
from redis.exceptions import RedisError

from bot.app.http.guard import InboundLimits
from bot.app.http.server import serve_on_setting
from bot.inbound import InboundRequest, InboundResponse, InboundRoute

# Low, because monitoring must not exhaust the file descriptors that the bot needs.
LIMITS: Final = InboundLimits(in_hand=4, connections=32, silent=5.0, idle=60.0, body=2.0, answer=5.0)


@dataclass(slots=True)
class Health:
    """The process's state, as its probes see it."""

    ready: bool = False
    was_ready: bool = False  # stays True, so that a later failure does not count as a failed start
    redis: Redis | None = None  # pinged at each probe; None until the store is open
    waits: str = ""  # what the start waits for

    def mark_ready(self) -> None:
        self.ready = self.was_ready = True


@contextlib.asynccontextmanager
async def run_health_server(host: str, port: int, health: Health) -> AsyncIterator[None]:
    """Serve the health routes unless the port is 0. Raises Refusal if it cannot listen."""
    if not port:
        yield
        return
    async with serve_on_setting("HEALTH_PORT", host, port, build_health_routes(health), LIMITS):
        yield


def build_health_routes(health: Health) -> Sequence[InboundRoute]:
    async def answer_alive(_: InboundRequest) -> InboundResponse:
        return InboundResponse(200, "ok\n")

    async def answer_ready(_: InboundRequest) -> InboundResponse:
        if health.redis is None or health.waits:
            return InboundResponse(503, f"{health.waits or 'starting'}\n")
        try:
            await health.redis.ping()
        except RedisError as why:
            return InboundResponse(503, "Redis does not answer\n", reason=f"redis: {why}"[:200])
        return InboundResponse(200, "ready\n") if health.ready else InboundResponse(503, "starting or stopping\n")

    async def answer_metrics(_: InboundRequest) -> InboundResponse:
        return InboundResponse(200, generate_latest().decode(), headers={"Content-Type": CONTENT_TYPE_LATEST})

    handlers = {"/healthz": answer_alive, "/readyz": answer_ready, "/metrics": answer_metrics}
    return [InboundRoute(path, handler, 0, method="GET") for path, handler in handlers.items()]
