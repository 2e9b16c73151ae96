"""The Web API: a table of methods with scope and rate, and the common checks. Arguments come as form, JSON or query, by
GET or POST, because slack_sdk uses all of these.
"""

from collections import Counter
from dataclasses import dataclass, field

from aiohttp import web

from deploy.sandbox.slack.app.socketmode import Hub
from deploy.sandbox.slack.web import assistant as web_assistant
from deploy.sandbox.slack.web import chat as web_chat
from deploy.sandbox.slack.web import files as web_files
from deploy.sandbox.slack.web import people as web_people
from deploy.sandbox.slack.web.calls import Call
from deploy.sandbox.slack.web.people import Method
from deploy.sandbox.slack.web.rates import POSTING, TIER_1, TIER_2, TIER_3, TIER_4, Rate, Rates, tier
from deploy.sandbox.slack.workspace.refusal import JSON, SlackRefusal
from deploy.sandbox.slack.workspace.views import Views
from deploy.sandbox.slack.workspace.workspace import Workspace


@dataclass(frozen=True, slots=True)
class WebMethod:
    run: Method
    scope: str
    rate: Rate


# fmt: off
METHODS: dict[str, WebMethod] = {
    "auth.test":                    WebMethod(web_people.auth_test,      "",                    tier(600)),
    "bots.info":                    WebMethod(web_people.bots_info,      "users:read",          tier(TIER_3)),
    "chat.postMessage":             WebMethod(web_chat.post_message,     "chat:write",          POSTING),
    "chat.update":                  WebMethod(web_chat.update,           "chat:write",          tier(TIER_3)),
    "chat.delete":                  WebMethod(web_chat.delete,           "chat:write",          tier(TIER_3)),
    "chat.postEphemeral":           WebMethod(web_chat.post_ephemeral,   "chat:write",          tier(TIER_4)),
    "chat.getPermalink":            WebMethod(web_chat.permalink,        "",                    tier(600)),
    "assistant.threads.setStatus":  WebMethod(web_assistant.set_status,  "chat:write",          tier(600)),
    "assistant.threads.setSuggestedPrompts": WebMethod(web_assistant.set_prompts, "assistant:write", tier(TIER_4)),
    "assistant.threads.setTitle":   WebMethod(web_assistant.set_title,   "assistant:write",     tier(TIER_4)),
    "reactions.add":                WebMethod(web_chat.react,            "reactions:write",     tier(TIER_3)),
    "reactions.remove":             WebMethod(web_chat.unreact,          "reactions:write",     tier(TIER_2)),
    "conversations.info":           WebMethod(web_people.info,           "channels:read",       tier(TIER_3)),
    "conversations.list":           WebMethod(web_people.list_channels,  "channels:read",       tier(TIER_2)),
    "conversations.history":        WebMethod(web_people.history,        "channels:history",    tier(TIER_3)),
    "conversations.replies":        WebMethod(web_people.replies,        "channels:history",    tier(TIER_3)),
    "conversations.members":        WebMethod(web_people.members,        "channels:read",       tier(TIER_4)),
    "conversations.open":           WebMethod(web_people.open_dm,        "im:write",            tier(TIER_3)),
    "conversations.join":           WebMethod(web_people.join,           "channels:join",       tier(TIER_3)),
    "users.info":                   WebMethod(web_people.users_info,     "users:read",          tier(TIER_4)),
    "users.list":                   WebMethod(web_people.users_list,     "users:read",          tier(TIER_2)),
    "usergroups.list":              WebMethod(web_people.groups_list,    "usergroups:read",     tier(TIER_2)),
    "usergroups.users.list":        WebMethod(web_people.group_users,    "usergroups:read",     tier(TIER_2)),
    "views.open":                   WebMethod(web_files.open_view,       "",                    tier(TIER_4)),
    "views.push":                   WebMethod(web_files.push_view,       "",                    tier(TIER_4)),
    "views.update":                 WebMethod(web_files.update_view,     "",                    tier(TIER_4)),
    "views.publish":                WebMethod(web_files.publish_view,    "",                    tier(TIER_4)),
    "files.getUploadURLExternal":   WebMethod(web_files.upload_url,      "files:write",         tier(TIER_4)),
    "files.completeUploadExternal": WebMethod(web_files.complete_upload, "files:write",         tier(TIER_4)),
    "files.info":                   WebMethod(web_files.file_info,       "files:read",          tier(TIER_4)),
}
# fmt: on
CONNECT = "apps.connections.open"
RULES = {name: row.rate for name, row in METHODS.items()} | {CONNECT: tier(max(TIER_1, 100))}
ALL_SCOPES = frozenset(row.scope for row in METHODS.values() if row.scope) | {"app_mentions:read", "im:history", "commands"}


@dataclass
class Api:
    ws: Workspace
    views: Views
    rates: Rates
    hub: Hub
    bot_token: str
    app_token: str
    origin: str = ""
    calls: Counter[str] = field(default_factory=Counter)
    refusals: Counter[str] = field(default_factory=Counter)
    # method and the error code of every call, for methods that a workspace lacks
    refuse: dict[str, str] = field(default_factory=dict)

    async def handle(self, request: web.Request) -> web.Response:
        name = request.match_info["method"]
        args, token = await arguments(request)
        self.calls[name] += 1
        wait = self.rates.wait(name, str(args.get("channel", ""))) if name in self.rates.rules else 0
        if wait:
            self._count(name, "ratelimited")
            return web.json_response({"ok": False, "error": "ratelimited"}, status=429, headers={"Retry-After": str(wait)})
        try:
            body = {"ok": True, **self._run(name, args, token)}
        except SlackRefusal as error:
            self._count(name, error.code)
            body = error.answer()
        return web.json_response(body, headers={"x-oauth-scopes": ",".join(sorted(self.scopes))})

    @property
    def scopes(self) -> frozenset[str]:
        return ALL_SCOPES if self.ws.app.scopes is None else self.ws.app.scopes

    def _run(self, name: str, args: JSON, token: str) -> JSON:
        if name in self.refuse:
            raise SlackRefusal(self.refuse[name])
        if name != CONNECT and name not in METHODS:
            raise SlackRefusal("unknown_method", req_method=name)
        if not token:
            raise SlackRefusal("not_authed")
        if name == CONNECT:
            return self._connect(token)
        if token != self.bot_token:
            raise SlackRefusal("not_allowed_token_type" if token == self.app_token else "invalid_auth")
        row = METHODS[name]
        if row.scope and row.scope not in self.scopes:
            raise SlackRefusal("missing_scope", needed=row.scope, provided=",".join(sorted(self.scopes)))
        return row.run(Call(self.ws, self.views, args, self.origin))

    def _connect(self, token: str) -> JSON:
        if token != self.app_token:
            raise SlackRefusal("not_allowed_token_type" if token == self.bot_token else "invalid_auth")
        return {"url": f"{self.origin.replace('http', 'ws', 1)}/link/?ticket={self.hub.ticket()}&app_id={self.ws.app.id}"}

    def _count(self, name: str, code: str) -> None:
        self.refusals[f"{name}:{code}"] += 1
        self.ws.journal.ring()


async def arguments(request: web.Request) -> tuple[JSON, str]:
    args: JSON = dict(request.query)
    if request.content_type == "application/json":
        sent = await request.json() if request.can_read_body else {}
        args |= sent if isinstance(sent, dict) else {}
    elif request.method == "POST":
        args |= {key: value for key, value in (await request.post()).items() if isinstance(value, str)}
    bearer = request.headers.get("Authorization", "").removeprefix("Bearer ").strip()
    return args, bearer or str(args.pop("token", ""))
