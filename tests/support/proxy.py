"""A reverse proxy: buffers a request, adds its own forwarding headers, and passes it on."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import ClientConnectionError, ClientSession, web

OWN = frozenset({"host", "content-length", "connection", "transfer-encoding"})


@asynccontextmanager
async def proxy(behind: int) -> AsyncIterator[int]:
    """Yield the proxy's port; answers 502 while the server behind does not listen."""
    async with ClientSession(auto_decompress=False) as session:

        async def passed_on(request: web.Request) -> web.Response:
            kept = {name: value for name, value in request.headers.items() if name.lower() not in OWN}
            told = {"X-Forwarded-For": "203.0.113.7", "X-Forwarded-Proto": "https", "X-Forwarded-Host": "rackmedic.example.com"}
            body, url = await request.read(), f"http://127.0.0.1:{behind}{request.rel_url}"
            try:
                async with session.request(request.method, url, data=body, headers=kept | told | {"Host": "rackmedic.internal"}) as answer:
                    return web.Response(status=answer.status, body=await answer.read(), content_type=answer.content_type)
            except ClientConnectionError:
                return web.Response(status=502)

        app = web.Application(client_max_size=4 << 20)
        app.router.add_route("*", "/{path:.*}", passed_on)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        try:
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            yield int(runner.addresses[0][1])
        finally:
            await runner.cleanup()
