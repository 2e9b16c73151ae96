"""/control: actions and queries of people and tests, as JSON. Requires `application/json` and our own Host, so pages of
other origins cannot post here.
"""

import base64
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from aiohttp import web

from deploy.sandbox.slack.app.socket_mode import Hub, SocketDelivery
from deploy.sandbox.slack.app.user_actions import UserActions
from deploy.sandbox.slack.web.api import Api
from deploy.sandbox.slack.workspace.people import HOME_TEAM
from deploy.sandbox.slack.workspace.refusal import JSON, SlackRefusal
from deploy.sandbox.slack.workspace.views import Views
from deploy.sandbox.slack.workspace.workspace import Channel, Workspace


@dataclass
class ControlRoutes:
    workspace: Workspace
    views: Views
    hub: Hub
    acts: UserActions
    api: Api
    cluster: bool = False

    def routes(self) -> list[web.RouteDef]:
        doing = [web.post(f"/control/{name}", self._post(run)) for name, run in self._acts().items()]
        looking = [web.get(f"/control/{name}", self._get(run)) for name, run in self._looks().items()]
        return [*doing, *looking]

    def _acts(self) -> dict[str, Callable[[JSON], Awaitable[JSON]]]:
        return {
            "say": self.say,
            "edit": self.edit,
            "delete": self.delete,
            "react": self.react,
            "click": self.click,
            "submit": self.submit,
            "close": self.close,
            "command": self.command,
            "shortcut": self.shortcut,
            "home": self.home,
            "pane": self.pane,
            "prompt": self.prompt,
            "dm": self.dm,
            "share": self.share,
            "unshare": self.unshare,
            "user": self.user,
            "group": self.group,
            "disconnect": self.disconnect,
            "rate": self.rate,
            "acks": self.acks,
        }

    def _looks(self) -> dict[str, Callable[[JSON], JSON]]:
        return {
            "boot": self.boot,
            "channels": self.channels,
            "messages": self.messages,
            "thread": self.thread,
            "pane": self.shown_pane,
            "views": lambda query: {"views": self.views.stacks.get(self.workspace.user(query["user"]).id, [])},
            "home": lambda query: {"view": self.workspace.homes.get(self.workspace.user(query["user"]).id)},
            "stats": lambda _query: self.stats(),
        }

    def _post(self, run: Callable[[JSON], Awaitable[JSON]]) -> Callable[[web.Request], Awaitable[web.Response]]:
        async def handler(request: web.Request) -> web.Response:
            if request.content_type != "application/json":
                return web.json_response({"ok": False, "error": "json_expected"}, status=415)
            body = await request.json()
            try:
                return web.json_response({"ok": True, **await run(body)})
            except SlackRefusal as error:
                return web.json_response(error.answer(), status=400)
            except KeyError as error:
                return web.json_response({"ok": False, "error": f"missing field {error}"}, status=400)

        return handler

    def _get(self, run: Callable[[JSON], JSON]) -> Callable[[web.Request], Awaitable[web.Response]]:
        async def handler(request: web.Request) -> web.Response:
            try:
                return web.json_response({"ok": True, **run(dict(request.query))})
            except SlackRefusal as error:
                return web.json_response(error.answer(), status=400)
            except KeyError as error:
                return web.json_response({"ok": False, "error": f"missing field {error}"}, status=400)

        return handler

    async def say(self, body: JSON) -> JSON:
        files = [(file["name"], read_attachment(file)) for file in body.get("files", [])]
        message = self.acts.say(body["user"], body["channel"], body.get("text", ""), body.get("thread_ts") or "", files)
        return {"ts": message.ts, "channel": message.channel}

    async def edit(self, body: JSON) -> JSON:
        self.acts.edit(body["user"], body["channel"], body["ts"], body["text"])
        return {}

    async def delete(self, body: JSON) -> JSON:
        self.acts.delete(body["user"], body["channel"], body["ts"])
        return {}

    async def react(self, body: JSON) -> JSON:
        self.acts.react(body["user"], body["channel"], body["ts"], body["name"])
        return {}

    async def click(self, body: JSON) -> JSON:
        if "view_id" in body:
            values = body.get("values")
            done = await self.acts.click_view(body["user"], body["view_id"], body["action_id"], value=body.get("value"), values=values)
        else:
            block_id, inputs = body.get("block_id", ""), body.get("values")
            where = body["user"], body["message_ts"], body["action_id"]
            done = await self.acts.click(*where, value=body.get("value"), block_id=block_id, inputs=inputs)
        return describe_delivery(done)

    async def submit(self, body: JSON) -> JSON:
        return await self.acts.submit(body["user"], body["view_id"], body.get("values"))

    async def close(self, body: JSON) -> JSON:
        await self.acts.close(body["user"], body["view_id"], bool(body.get("everything")))
        return {}

    async def command(self, body: JSON) -> JSON:
        return describe_delivery(await self.acts.command(body["user"], body["channel"], body["command"], body.get("text", "")))

    async def shortcut(self, body: JSON) -> JSON:
        return describe_delivery(await self.acts.shortcut(body["user"], body["channel"], body["message_ts"], body["callback_id"]))

    async def home(self, body: JSON) -> JSON:
        self.acts.open_home(body["user"])
        return {}

    async def pane(self, body: JSON) -> JSON:
        """Open the app's conversation, or with `thread_ts` and `viewing` view another channel."""
        if "thread_ts" in body:
            self.acts.look_at(body["user"], body["viewing"], body["thread_ts"])
            return {}
        return {"thread_ts": self.acts.open_pane(body["user"], body.get("viewing", ""))}

    async def prompt(self, body: JSON) -> JSON:
        message = self.acts.press_prompt(body["user"], body["title"], body.get("thread_ts") or "")
        return {"ts": message.ts, "channel": message.channel}

    async def dm(self, body: JSON) -> JSON:
        return {"channel": self._channel(self.workspace.dm(self.workspace.user(body["user"]).id))}

    async def unshare(self, body: JSON) -> JSON:
        self.workspace.unshare(self.workspace.channel(body["channel"]), body.get("team", "T0GLOBEX"))
        return {}

    async def share(self, body: JSON) -> JSON:
        self.workspace.share(self.workspace.channel(body["channel"]), body.get("team", "T0GLOBEX"))
        return {}

    async def user(self, body: JSON) -> JSON:
        """Change a user: deleted, is_restricted, stranger, team_id …"""
        who = self.workspace.user(body["user"])
        for name in body.keys() & {"deleted", "is_restricted", "is_ultra_restricted", "stranger", "team_id"}:
            setattr(who, name, body[name])
        self.workspace.journal.add("user", {"id": who.id})
        return {}

    async def group(self, body: JSON) -> JSON:
        group = next((g for g in self.workspace.groups.values() if body["group"] in (g.id, g.handle)), None)
        if group is None:
            raise SlackRefusal("no_such_subteam")
        group.users = [self.workspace.user(ref).id for ref in body["users"]]
        return {}

    async def disconnect(self, body: JSON) -> JSON:
        if body.get("reason") == "cut":
            await self.hub.cut()
            return {"connections": 0}
        return {"connections": await self.hub.disconnect(body.get("reason", "refresh_requested"))}

    async def rate(self, body: JSON) -> JSON:
        """{method, fail_next, retry_after} forces 429s; {method, per_minute, burst} sets a limit, null for none."""
        rates, method = self.api.rates, body["method"]
        if "fail_next" in body:
            rates.fail_next(method, int(body["fail_next"]), int(body.get("retry_after", 1)))
        else:
            rates.set(method, body["per_minute"], body.get("burst"), bool(body.get("per_channel")))
        return {}

    async def acks(self, body: JSON) -> JSON:
        """Lose the next `drop` acks; wait `seconds` for an ack; `retries`: pauses in seconds before retries."""
        self.hub.drop = int(body.get("drop", self.hub.drop))
        self.hub.patience.ack = float(body.get("seconds", self.hub.patience.ack))
        if "retries" in body:
            self.hub.patience.retries = tuple(float(pause) for pause in body["retries"])
        return {}

    def boot(self, query: JSON) -> JSON:
        """Return the page's initial data for one person. People of other workspaces have the app only in shared
        channels.
        """
        me = self.workspace.user(query["user"]).id if query.get("user") else "U0OLGA"
        team = self.workspace.teams[self.workspace.users[me].team_id]
        ours = team.id == HOME_TEAM
        people = [user.wire(self.workspace.is_stranger(user)) | {"role": user.role} for user in self.workspace.users.values()]
        return {
            "team": {"id": team.id, "name": team.name, "installed": ours},
            "teams": {one.id: one.name for one in self.workspace.teams.values()},
            "me": me,
            "users": people,
            "groups": [group.wire(True) for group in self.workspace.groups.values()],
            "app": {
                "name": self.workspace.app.name,
                "commands": self.workspace.app.commands if ours else [],
                "shortcuts": self.workspace.app.shortcuts if ours else [],
                "view": self.workspace.app.view,
            },
            "view": self.views.top(me),
            "cluster": self.cluster,
            "connections": self.hub.listeners,
            **self.channels({"user": me}),
        }

    def channels(self, query: JSON) -> JSON:
        me = self.workspace.user(query["user"]).id if query.get("user") else ""
        rows = [self._channel(c) for c in self.workspace.channels.values() if not me or me in c.members]
        return {"channels": rows, "seq": self.workspace.journal.seq}

    def _channel(self, channel: Channel) -> JSON:
        return self.workspace.channel_wire(channel) | {"members": channel.members}

    def shown_pane(self, query: JSON) -> JSON:
        """Return status and prompts of a conversation's thread, or of the whole conversation."""
        channel, thread = self.workspace.dm(self.workspace.user(query["user"]).id).id, query.get("thread_ts", "")
        offered = self.workspace.panes.prompts.get((channel, thread), {"title": "", "prompts": []})
        return {"channel": channel, "status": self.workspace.panes.get_status(channel, thread), **offered}

    def messages(self, query: JSON) -> JSON:
        channel = self.workspace.channel(query["channel"])
        return {"messages": self._said(channel, query.get("user", ""), ""), "seq": self.workspace.journal.seq}

    def thread(self, query: JSON) -> JSON:
        channel = self.workspace.channel(query["channel"])
        return {"messages": self._said(channel, query.get("user", ""), query["ts"]), "seq": self.workspace.journal.seq}

    def _said(self, channel: Channel, user: str, root: str) -> list[JSON]:
        """Return all messages or one thread's, oldest first, including ephemeral ones for this person."""
        me = self.workspace.user(user).id if user else ""
        if me and me not in channel.members:
            raise SlackRefusal("not_in_channel")
        whispered = [m for m in self.workspace.ephemerals.values() if m.channel == channel.id and m.ephemeral_to == me]
        found = [m for m in [*channel.messages.values(), *whispered] if root in ("", m.root)]
        return [self.workspace.build_displayed_message(message) for message in sorted(found, key=lambda m: m.ts)]

    def stats(self) -> JSON:
        calls = {"calls": dict(self.api.calls), "refusals": dict(self.api.refusals)}
        return self.hub.stats() | calls | {"seq": self.workspace.journal.seq}


def read_attachment(file: JSON) -> bytes:
    if "base64" in file:
        return base64.b64decode(file["base64"])
    return str(file["content"]).encode()


def describe_delivery(done: SocketDelivery) -> JSON:
    return {"acked": done.acked, "seconds": done.seconds, "reason": done.reason}
