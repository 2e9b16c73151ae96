"""`/healthz` (the process lives), `/readyz` (it listens and its Redis answers) and `/metrics`, for whoever supervises the process."""

import contextlib
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Final

from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from redis.asyncio import Redis
from redis.exceptions import RedisError

from bot.app.http.guard import InboundLimits
from bot.app.http.server import serve_on_setting
from bot.inbound.routes import InboundRequest, InboundResponse, InboundRoute

LIMITS: Final = InboundLimits(in_hand=4, connections=32, silent=5.0, idle=60.0, body=2.0, answer=5.0)
"""A probe and a scraper need a few connections; what watches us must not take the descriptors that we work with."""


@dataclass(slots=True)
class Health:
    """What the process says of itself."""

    ready: bool = False
    was_ready: bool = False
    """It has worked: whatever comes now is no trouble of the start."""
    redis: Redis | None = None
    """Asked at each look; None until it has answered once."""
    waits: str = ""
    """What keeps the start back."""

    def mark_ready(self) -> None:
        """It works from now on."""
        self.ready = self.was_ready = True


@contextlib.asynccontextmanager
async def run_health_server(host: str, port: int, health: Health) -> AsyncIterator[None]:
    """Serve on that address; nothing at all when the port is 0. Raises Refusal where it cannot listen."""
    if not port:
        yield
        return
    async with serve_on_setting("HEALTH_PORT", host, port, build_health_routes(health), LIMITS):
        yield


def build_health_routes(health: Health) -> Sequence[InboundRoute]:
    """Return the three routes."""

    async def alive(_: InboundRequest) -> InboundResponse:
        return InboundResponse(200, "ok\n")

    async def ready(_: InboundRequest) -> InboundResponse:
        if health.redis is None or health.waits:
            return InboundResponse(503, f"{health.waits or 'starting'}\n")
        try:
            await health.redis.ping()
        except RedisError as why:
            return InboundResponse(503, "Redis does not answer\n", why=f"redis: {why}"[:200])
        return InboundResponse(200, "ready\n") if health.ready else InboundResponse(503, "starting or stopping\n")

    async def metrics(_: InboundRequest) -> InboundResponse:
        return InboundResponse(200, generate_latest().decode(), headers={"Content-Type": CONTENT_TYPE_LATEST})

    paths = {"/healthz": alive, "/readyz": ready, "/metrics": metrics}
    return [InboundRoute(path, hear, 0, method="GET") for path, hear in paths.items()]
