"""Other routes: page files, uploads, private downloads, response_urls, and the cluster's control."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from importlib.resources import files
from pathlib import PurePosixPath

from aiohttp import ClientError, ClientSession, ClientTimeout, web

from deploy.sandbox.slack.app.user_actions import UserActions
from deploy.sandbox.slack.workspace.refusal import SlackRefusal
from deploy.sandbox.slack.workspace.workspace import Workspace

PAGE_FOLDER = files("deploy.sandbox.slack") / "page"
CONTENT_TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".json": "application/json", ".svg": "image/svg+xml"}
SECURITY_HEADERS = {
    "Content-Security-Policy": "default-src 'self'; img-src 'self' data:; object-src 'none'; base-uri 'none'; frame-ancestors 'self'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
SIGN_IN = "<!doctype html><title>Sign in | Slack</title><p>Sign in to see this file."
CLUSTER_READS = {"faults", "node", "state"}
CLUSTER_CHANGES = {"break", "case", "heal", "modify"}


@dataclass
class PageRoutes:
    workspace: Workspace
    acts: UserActions
    bot_token: str
    cluster_url: str | None
    session: ClientSession | None = None

    def routes(self) -> list[web.RouteDef]:
        return [
            web.get("/", self.page),
            web.get("/page/{name}", self.page),
            web.get("/archives/{channel}/{ts}", self.page),
            web.post("/upload/v1/{ticket}", self.upload),
            web.get("/files-pri/{id}/{name}", self.download),
            web.get("/control/file/{id}", self.file),
            web.post("/respond/{key}", self.respond),
            web.route("*", "/cluster/{what}", self.cluster),
        ]

    async def page(self, request: web.Request) -> web.Response:
        name = PurePosixPath(request.match_info.get("name", "index.html")).name
        source = PAGE_FOLDER / name
        kind = CONTENT_TYPES.get(PurePosixPath(name).suffix)
        if kind is None or not source.is_file():
            return web.Response(status=404)
        return web.Response(body=source.read_bytes(), content_type=kind, charset="utf-8", headers=SECURITY_HEADERS)

    async def upload(self, request: web.Request) -> web.Response:
        file = self.workspace.files.find_by_ticket(request.match_info["ticket"])
        if file is None:
            return web.Response(status=404, text="no such upload")
        content = await self._body(request)
        if len(content) != file.length:
            return web.Response(status=400, text=f"promised {file.length} bytes, got {len(content)}")
        file.content = content
        return web.Response(text=f"OK - {len(content)}")

    @staticmethod
    async def _body(request: web.Request) -> bytes:
        if not request.content_type.startswith("multipart/"):
            return await request.read()
        for part in (await request.post()).values():
            if isinstance(part, web.FileField):
                return part.file.read()
        return b""

    async def download(self, request: web.Request) -> web.Response:
        """Return a file. Without the token Slack answers a sign-in page instead of 401, which bots have stored as a
        log.
        """
        if request.headers.get("Authorization") != f"Bearer {self.bot_token}":
            return web.Response(text=SIGN_IN, content_type="text/html")
        try:
            file = self.workspace.files.get(request.match_info["id"])
        except SlackRefusal:
            return web.Response(status=404)
        return web.Response(body=file.content or b"", content_type=file.mimetype)

    async def file(self, request: web.Request) -> web.Response:
        """Serve a file to the page as text or an image only, sandboxed, so it cannot run as our page."""
        try:
            file = self.workspace.files.get(request.match_info["id"])
        except SlackRefusal:
            return web.Response(status=404)
        kind = file.mimetype if file.mimetype in ("image/png", "image/jpeg", "image/gif") else "text/plain"
        headers = {"X-Content-Type-Options": "nosniff", "Content-Security-Policy": "sandbox"}
        return web.Response(body=file.content or b"", content_type=kind, headers=headers)

    async def respond(self, request: web.Request) -> web.Response:
        try:
            self.acts.respond(request.match_info["key"], await request.json())
        except SlackRefusal as error:
            return web.json_response(error.answer(), status=404)
        return web.Response(text="ok")

    async def cluster(self, request: web.Request) -> web.Response:
        """Forward the allowed requests to the simulated cluster's control."""
        what = request.match_info["what"]
        is_allowed = (request.method == "GET" and what in CLUSTER_READS) or (request.method == "POST" and what in CLUSTER_CHANGES)
        if self.cluster_url is None or self.session is None or not is_allowed:
            return web.json_response({"ok": False, "error": "no_cluster"}, status=404)
        if request.method == "POST" and request.content_type != "application/json":
            return web.json_response({"ok": False, "error": "json_expected"}, status=415)
        url = f"{self.cluster_url.rstrip('/')}/{what}"
        headers = {"Content-Type": "application/json"}
        try:
            async with self.session.request(
                request.method, url, params=request.query, data=await request.read() or None, headers=headers
            ) as answer:
                return web.Response(body=await answer.read(), status=answer.status, content_type=answer.content_type)
        except (ClientError, TimeoutError) as error:
            return web.json_response({"ok": False, "error": f"the cluster does not answer: {error}"}, status=502)


def create_session() -> ClientSession:
    return ClientSession(timeout=ClientTimeout(total=10))


Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@web.middleware
async def refuse_other_hosts(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Refuse other host names, as protection from DNS rebinding."""
    name = request.host.rpartition(":")[0] if ":" in request.host else request.host
    if name not in ("127.0.0.1", "localhost", "[::1]") and not request.app[ANY_HOST]:
        return web.Response(status=403, text="this sandbox answers on 127.0.0.1 only")
    return await handler(request)


ANY_HOST: web.AppKey[bool] = web.AppKey("any_host", bool)
