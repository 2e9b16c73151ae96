"""`/healthz` (the process lives), `/readyz` (it listens and its Redis answers) and `/metrics`, for whoever supervises the process."""

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from redis.asyncio import Redis
from redis.exceptions import RedisError


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

    def begin(self) -> None:
        """It works from now on."""
        self.ready = self.was_ready = True


@contextlib.asynccontextmanager
async def health_server(port: int, health: Health) -> AsyncIterator[None]:
    """Serve on `port` on all addresses; nothing at all when it is 0."""
    if not port:
        yield
        return

    async def alive(_: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def ready(_: web.Request) -> web.Response:
        if health.redis is None or health.waits:
            return web.Response(status=503, text=f"{health.waits or 'starting'}\n")
        try:
            await health.redis.ping()
        except RedisError as why:
            return web.Response(status=503, text=f"redis: {why}\n")
        return web.Response(status=200 if health.ready else 503, text="ready\n" if health.ready else "starting or stopping\n")

    async def metrics(_: web.Request) -> web.Response:
        return web.Response(body=generate_latest(), headers={"Content-Type": CONTENT_TYPE_LATEST})

    app = web.Application()
    app.add_routes([web.get("/healthz", alive), web.get("/readyz", ready), web.get("/metrics", metrics)])
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, port=port).start()
    try:
        yield
    finally:
        await runner.cleanup()
