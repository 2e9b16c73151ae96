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
        if change.user not in ("", user):
            return False
        return not change.channel or self.workspace.sees(user, change.channel)

    async def changes(self, request: web.Request) -> web.Response:
        """Return changes after `since`, waiting up to `wait` seconds (at most 60)."""
        user, since = self._read_user_id(request), int(request.query.get("since", "0"))
        changes = await self._wait_for_changes(user, since, min(60.0, float(request.query.get("wait", "0"))))
        return web.json_response({"ok": True, "changes": changes, "seq": self.workspace.journal.seq})

    async def _wait_for_changes(self, user: str, since: int, wait: float) -> list[JSON]:
        journal = self.workspace.journal

        def read_changes() -> list[JSON] | bool:
            changes = [change.wire() for change in journal.list_changes_after(since) if self._sees(user, change)]
            return changes or journal.closed

        try:
            changes = await journal.wait_until(read_changes, wait) if wait else read_changes()
        except TimeoutError:
            return []
        return changes if isinstance(changes, list) else []

    def _read_user_id(self, request: web.Request) -> str:
        ref = request.query.get("user", "")
        return self.workspace.user(ref).id if ref else ""

    async def stream(self, request: web.Request) -> web.StreamResponse:
        """Stream changes as server-sent events."""
        user, since = self._read_user_id(request), int(request.headers.get("Last-Event-ID") or request.query.get("since", "0"))
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream", "Cache-Control": "no-store"})
        await response.prepare(request)
        journal = self.workspace.journal
        while not journal.closed:
            changes = [change.wire() for change in journal.list_changes_after(since) if self._sees(user, change)]
            since = journal.seq
            try:
                for change in changes:
                    await response.write(f"id: {change['seq']}\ndata: {json.dumps(change)}\n\n".encode())
                await self._wait_or_send_heartbeat(response, journal, since)
            except ConnectionError:
                break
        return response

    @staticmethod
    async def _wait_or_send_heartbeat(response: web.StreamResponse, journal: WorkspaceJournal, since: int) -> None:
        try:
            await journal.wait_until(lambda: journal.seq > since or journal.closed, HEARTBEAT_SECONDS)
        except TimeoutError:
            await response.write(b": still here\n\n")
