"""/control/changes and /control/stream: the journal visible to one person, by long poll or as server-sent events."""

import json
from dataclasses import dataclass

from aiohttp import web

from deploy.sandbox.slack.workspace.journal import Change, WorkspaceJournal
from deploy.sandbox.slack.workspace.refusal import JSON
from deploy.sandbox.slack.workspace.workspace import Workspace

HEARTBEAT_SECONDS = 15.0


@dataclass
class ChangeFeed:
    workspace: Workspace

    def routes(self) -> list[web.RouteDef]:
        return [web.get("/control/changes", self.changes), web.get("/control/stream", self.stream)]

    def _sees(self, user: str, change: Change) -> bool:
        if not user:
            return True
        mine = change.user in ("", user)
        return mine and (not change.channel or self.workspace.sees(user, change.channel))

    async def changes(self, request: web.Request) -> web.Response:
        """Return changes after `since`, waiting up to `wait` seconds (at most 60)."""
        user, since = self._who(request), int(request.query.get("since", "0"))
        rows = await self._next(user, since, min(60.0, float(request.query.get("wait", "0"))))
        return web.json_response({"ok": True, "changes": rows, "seq": self.workspace.journal.seq})

    async def _next(self, user: str, since: int, wait: float) -> list[JSON]:
        journal = self.workspace.journal

        def news() -> list[JSON] | bool:
            return [c.wire() for c in journal.since(since) if self._sees(user, c)] or journal.closed

        try:
            found = await journal.until(news, wait) if wait else news()
        except TimeoutError:
            return []
        return found if isinstance(found, list) else []

    def _who(self, request: web.Request) -> str:
        ref = request.query.get("user", "")
        return self.workspace.user(ref).id if ref else ""

    async def stream(self, request: web.Request) -> web.StreamResponse:
        """Stream changes as server-sent events."""
        user, since = self._who(request), int(request.headers.get("Last-Event-ID") or request.query.get("since", "0"))
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream", "Cache-Control": "no-store"})
        await response.prepare(request)
        journal = self.workspace.journal
        while not journal.closed:
            rows = [change.wire() for change in journal.since(since) if self._sees(user, change)]
            since = journal.seq
            try:
                for row in rows:
                    await response.write(f"id: {row['seq']}\ndata: {json.dumps(row)}\n\n".encode())
                await self._beat(response, journal, since)
            except ConnectionError:
                break
        return response

    @staticmethod
    async def _beat(response: web.StreamResponse, journal: WorkspaceJournal, since: int) -> None:
        try:
            await journal.until(lambda: journal.seq > since or journal.closed, HEARTBEAT_SECONDS)
        except TimeoutError:
            await response.write(b": still here\n\n")
