"""The whole sandbox: `async with SlackSandbox() as slack:` starts the server; tests act through `slack`."""

import asyncio
import secrets
import time
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Self, TypeVar

from aiohttp import web

from deploy.sandbox.slack.app import events
from deploy.sandbox.slack.app.http_mode import HttpHub
from deploy.sandbox.slack.app.socket_mode import DeliveryTimeouts, Hub, SocketDelivery
from deploy.sandbox.slack.app.user_actions import Files, UserActions
from deploy.sandbox.slack.change_feed import ChangeFeed
from deploy.sandbox.slack.control import ControlRoutes
from deploy.sandbox.slack.page_routes import ANY_HOST, PageRoutes, create_session, refuse_other_hosts
from deploy.sandbox.slack.web.api import METHOD_RATES, Api
from deploy.sandbox.slack.web.rates import Rates
from deploy.sandbox.slack.workspace.journal import Change
from deploy.sandbox.slack.workspace.people import App
from deploy.sandbox.slack.workspace.refusal import JSON
from deploy.sandbox.slack.workspace.views import Views
from deploy.sandbox.slack.workspace.workspace import Channel, Clock, Workspace

T = TypeVar("T")
MAX_UPLOAD_BYTES = 200 * 2**20
WAIT_SECONDS = 180.0  # seconds a caller waits for something that must happen; generous for loaded machines


class SlackSandbox:
    """A workspace behind a real local HTTP and websocket server.

    `manifest` (the app's own) decides scopes, events, commands and shortcuts; without one everything is granted.
    `clock` drives message times, trigger expiry and rate limits. `events_url` and `signing_secret` select HTTP mode
    instead of Socket Mode.
    """

    def __init__(
        self,
        host: str = "127.0.0.1",
        port: int = 0,
        cluster_url: str | None = None,
        *,
        manifest: JSON | None = None,
        clock: Clock = time.time,
        patience: DeliveryTimeouts | None = None,
        any_host: bool = False,
        bot_token: str = "",
        app_token: str = "",
        events_url: str = "",
        signing_secret: str = "",
    ) -> None:
        self._host = host
        self._port = port
        self._any_host = any_host
        self.bot_token = bot_token or f"xoxb-{secrets.token_hex(16)}"
        self.app_token = app_token or f"xapp-1-{App.id}-{secrets.token_hex(16)}"
        self.workspace = Workspace(clock, App.from_manifest(manifest) if manifest else None)
        self.views = Views(self.workspace)
        self.rates = Rates(clock, dict(METHOD_RATES))
        patience = patience or DeliveryTimeouts()
        self.http = HttpHub(self.workspace.journal, patience, url=events_url, secret=signing_secret) if events_url else None
        self.hub: Hub = self.http or Hub(self.workspace.journal, patience)
        self.acts = UserActions(self.workspace, self.views, self.hub)
        self.api = Api(self.workspace, self.views, self.rates, self.hub, self.bot_token, self.app_token)
        self.control = ControlRoutes(self.workspace, self.views, self.hub, self.acts, self.api, cluster=cluster_url is not None)
        self._doors = PageRoutes(self.workspace, self.acts, self.bot_token, cluster_url)
        self.url = ""
        self._runner: web.AppRunner | None = None

    @property
    def api_url(self) -> str:
        return f"{self.url}/api/"

    async def __aenter__(self) -> Self:
        app = web.Application(middlewares=[refuse_other_hosts], client_max_size=MAX_UPLOAD_BYTES)
        app[ANY_HOST] = self._any_host
        app.add_routes([web.route("*", "/api/{method}", self.api.handle), web.get("/link/", self.hub.link)])
        app.add_routes(self._doors.routes() + self.control.routes() + ChangeFeed(self.workspace).routes())
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
        await self._runner.setup()
        site = web.TCPSite(self._runner, self._host, self._port)
        await site.start()
        self._port = int(self._runner.addresses[0][1])
        self._live_at(f"http://{'127.0.0.1' if self._host == '0.0.0.0' else self._host}:{self._port}")
        self._doors.session = create_session()
        self.workspace.journal.listeners.append(self._tell)
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.workspace.journal.close()
        await self.hub.close()
        if self._doors.session:
            await self._doors.session.close()
        if self._runner:
            await self._runner.cleanup()

    def _live_at(self, url: str) -> None:
        self.url = self.api.origin = self.acts.origin = self.workspace.files.origin = url

    def _tell(self, change: Change) -> None:
        for payload in events.iter_payloads(self.workspace, change):
            self.hub.event(payload)

    async def say(self, user: str, channel: str, text: str, thread_ts: str | None = None, files: Files = (), *, raw: bool = False) -> str:
        """Post as a person and return the ts. `files` are (name, content). `@rackmedic` becomes a mention."""
        return self.acts.say(user, channel, text, thread_ts or "", files, raw=raw).ts

    async def edit(self, user: str, channel: str, ts: str, text: str) -> None:
        self.acts.edit(user, channel, ts, text)

    async def delete(self, user: str, channel: str, ts: str) -> None:
        self.acts.delete(user, channel, ts)

    async def click(
        self, user: str, message_ts: str, action_id: str, *, value: Any = None, block_id: str = "", inputs: Mapping[str, Any] | None = None
    ) -> SocketDelivery:
        """Click in a message; return after the app's ack or its timeout."""
        return await self.acts.click(user, message_ts, action_id, value=value, block_id=block_id, inputs=inputs)

    async def click_view(self, user: str, view_id: str, action_id: str, *, value: Any = None, values: JSON | None = None) -> SocketDelivery:
        return await self.acts.click_view(user, view_id, action_id, value=value, values=values)

    async def submit(self, user: str, view_id: str, values: JSON | None = None) -> JSON:
        return await self.acts.submit(user, view_id, values)

    async def close(self, user: str, view_id: str) -> None:
        await self.acts.close(user, view_id)

    async def command(self, user: str, channel: str, command: str, text: str = "") -> SocketDelivery:
        return await self.acts.command(user, channel, command, text)

    async def shortcut(self, user: str, channel: str, message_ts: str, callback_id: str) -> SocketDelivery:
        return await self.acts.shortcut(user, channel, message_ts, callback_id)

    async def open_home(self, user: str) -> None:
        self.acts.open_home(user)

    def open_pane(self, user: str, viewing: str = "") -> str:
        """Open the app's conversation as a person; return its thread, if any."""
        return self.acts.open_pane(user, viewing)

    def pane(self, user: str, thread_ts: str = "") -> JSON:
        """Return the prompts and status that a person sees for a thread or the whole conversation."""
        return self.control.shown_pane({"user": user, "thread_ts": thread_ts})

    def dm(self, user: str) -> Channel:
        return self.workspace.dm(self.workspace.user(user).id)

    def share(self, channel: str, team: str = "T0GLOBEX") -> None:
        self.workspace.share(self.workspace.channel(channel), team)

    def unshare(self, channel: str, team: str = "T0GLOBEX") -> None:
        self.workspace.unshare(self.workspace.channel(channel), team)

    def messages(self, channel: str, user: str = "") -> list[JSON]:
        return list(self.control.messages({"channel": channel, "user": user})["messages"])

    def thread(self, channel: str, ts: str, user: str = "") -> list[JSON]:
        return list(self.control.thread({"channel": channel, "ts": ts, "user": user})["messages"])

    def view(self, user: str) -> JSON | None:
        return self.views.top(self.workspace.user(user).id)

    def home(self, user: str) -> JSON | None:
        return self.workspace.homes.get(self.workspace.user(user).id)

    def whispers(self, user: str) -> list[JSON]:
        who = self.workspace.user(user).id
        return [dict(message.body) for message in self.workspace.ephemerals.values() if message.ephemeral_to == who]

    def stats(self) -> JSON:
        return self.control.stats()

    async def wait_for(self, predicate: Callable[[], T | None], timeout: float = WAIT_SECONDS) -> T:
        """Return the first truthy value of `predicate()`, retried after every change. Raises TimeoutError."""
        return await self.workspace.journal.wait_until(predicate, timeout)

    async def connected(self, connections: int = 1, timeout: float = WAIT_SECONDS) -> None:
        """Wait for the app's connection; in HTTP mode, for its URL verification."""
        if self.http:
            async with asyncio.timeout(timeout):
                await self.http.verify()
        else:
            await self.wait_for(lambda: len(self.hub.live) >= connections, timeout)

    async def quiet(self, timeout: float = WAIT_SECONDS) -> None:
        """Wait until every sent envelope is answered."""
        await self.wait_for(lambda: not self.hub.busy, timeout)
