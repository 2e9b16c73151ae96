"""A reverse proxy: buffers a request, adds its own forwarding headers, and passes it on."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import ClientConnectionError, ClientSession, web

REPLACED_HEADERS = frozenset({"host", "content-length", "connection", "transfer-encoding"})


@asynccontextmanager
async def proxy(upstream_port: int) -> AsyncIterator[int]:
    """Yield the proxy's port; answers 502 while nothing listens on the upstream port."""
    async with ClientSession(auto_decompress=False) as session:

        async def forward(request: web.Request) -> web.Response:
            forwarded_headers = {name: value for name, value in request.headers.items() if name.lower() not in REPLACED_HEADERS}
            proxy_headers = {
                "Host": "rackmedic.internal",
                "X-Forwarded-For": "203.0.113.7",
                "X-Forwarded-Proto": "https",
                "X-Forwarded-Host": "rackmedic.example.com",
            }
            url = f"http://127.0.0.1:{upstream_port}{request.rel_url}"
            body = await request.read()
            try:
                async with session.request(request.method, url, data=body, headers=forwarded_headers | proxy_headers) as answer:
                    return web.Response(status=answer.status, body=await answer.read(), content_type=answer.content_type)
            except ClientConnectionError:
                return web.Response(status=502)

        app = web.Application(client_max_size=4 << 20)
        app.router.add_route("*", "/{path:.*}", forward)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        try:
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            yield int(runner.addresses[0][1])
        finally:
            await runner.cleanup()
