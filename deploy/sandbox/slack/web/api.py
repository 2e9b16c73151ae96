"""The Web API: a table of methods with scope and rate, and the common checks. Arguments come as form, JSON or query, by
GET or POST, because slack_sdk uses all of these.
"""

from collections import Counter
from dataclasses import dataclass, field

from aiohttp import web

from deploy.sandbox.slack.app.socket_mode import Hub
from deploy.sandbox.slack.web import assistant as web_assistant
from deploy.sandbox.slack.web import chat as web_chat
from deploy.sandbox.slack.web import files as web_files
from deploy.sandbox.slack.web import people as web_people
from deploy.sandbox.slack.web.calls import ApiCall
from deploy.sandbox.slack.web.people import MethodHandler
from deploy.sandbox.slack.web.rates import POSTING, TIER_1, TIER_2, TIER_3, TIER_4, Rate, Rates, make_tier_rate
from deploy.sandbox.slack.workspace.refusal import JSON, SlackRefusal
from deploy.sandbox.slack.workspace.views import Views
from deploy.sandbox.slack.workspace.workspace import Workspace


@dataclass(frozen=True, slots=True)
class WebMethod:
    run: MethodHandler
    scope: str
    rate: Rate


# fmt: off
METHODS: dict[str, WebMethod] = {
    "auth.test":                    WebMethod(web_people.test_auth,      "",                    make_tier_rate(600)),
    "bots.info":                    WebMethod(web_people.get_bot_info,      "users:read",          make_tier_rate(TIER_3)),
    "chat.postMessage":             WebMethod(web_chat.post_message,     "chat:write",          POSTING),
    "chat.update":                  WebMethod(web_chat.update_message,           "chat:write",          make_tier_rate(TIER_3)),
    "chat.delete":                  WebMethod(web_chat.delete_message,           "chat:write",          make_tier_rate(TIER_3)),
    "chat.postEphemeral":           WebMethod(web_chat.post_ephemeral,   "chat:write",          make_tier_rate(TIER_4)),
    "chat.getPermalink":            WebMethod(web_chat.get_permalink,        "",                    make_tier_rate(600)),
    "assistant.threads.setStatus":  WebMethod(web_assistant.set_status,  "chat:write",          make_tier_rate(600)),
    "assistant.threads.setSuggestedPrompts": WebMethod(web_assistant.set_prompts, "assistant:write", make_tier_rate(TIER_4)),
    "assistant.threads.setTitle":   WebMethod(web_assistant.set_title,   "assistant:write",     make_tier_rate(TIER_4)),
    "reactions.add":                WebMethod(web_chat.add_reaction,            "reactions:write",     make_tier_rate(TIER_3)),
    "reactions.remove":             WebMethod(web_chat.remove_reaction,          "reactions:write",     make_tier_rate(TIER_2)),
    "conversations.info":           WebMethod(web_people.get_channel_info,           "channels:read",       make_tier_rate(TIER_3)),
    "conversations.list":           WebMethod(web_people.list_channels,  "channels:read",       make_tier_rate(TIER_2)),
    "conversations.history":        WebMethod(web_people.list_history,        "channels:history",    make_tier_rate(TIER_3)),
    "conversations.replies":        WebMethod(web_people.list_replies,        "channels:history",    make_tier_rate(TIER_3)),
    "conversations.members":        WebMethod(web_people.list_members,        "channels:read",       make_tier_rate(TIER_4)),
    "conversations.open":           WebMethod(web_people.open_dm,        "im:write",            make_tier_rate(TIER_3)),
    "conversations.join":           WebMethod(web_people.join_channel,           "channels:join",       make_tier_rate(TIER_3)),
    "users.info":                   WebMethod(web_people.get_user_info,     "users:read",          make_tier_rate(TIER_4)),
    "users.list":                   WebMethod(web_people.list_users,     "users:read",          make_tier_rate(TIER_2)),
    "usergroups.list":              WebMethod(web_people.list_groups,    "usergroups:read",     make_tier_rate(TIER_2)),
    "usergroups.users.list":        WebMethod(web_people.list_group_users,    "usergroups:read",     make_tier_rate(TIER_2)),
    "views.open":                   WebMethod(web_files.open_view,       "",                    make_tier_rate(TIER_4)),
    "views.push":                   WebMethod(web_files.push_view,       "",                    make_tier_rate(TIER_4)),
    "views.update":                 WebMethod(web_files.update_view,     "",                    make_tier_rate(TIER_4)),
    "views.publish":                WebMethod(web_files.publish_home_view,    "",                    make_tier_rate(TIER_4)),
    "files.getUploadURLExternal":   WebMethod(web_files.create_upload_url,      "files:write",         make_tier_rate(TIER_4)),
    "files.completeUploadExternal": WebMethod(web_files.complete_upload, "files:write",         make_tier_rate(TIER_4)),
    "files.info":                   WebMethod(web_files.get_file_info,       "files:read",          make_tier_rate(TIER_4)),
}
# fmt: on
CONNECT_METHOD = "apps.connections.open"
METHOD_RATES = {name: row.rate for name, row in METHODS.items()} | {CONNECT_METHOD: make_tier_rate(max(TIER_1, 100))}
ALL_SCOPES = frozenset(row.scope for row in METHODS.values() if row.scope) | {"app_mentions:read", "im:history", "commands"}


@dataclass
class Api:
    workspace: Workspace
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
        args, token = await read_arguments(request)
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
        return ALL_SCOPES if self.workspace.app.scopes is None else self.workspace.app.scopes

    def _run(self, name: str, args: JSON, token: str) -> JSON:
        if name in self.refuse:
            raise SlackRefusal(self.refuse[name])
        if name != CONNECT_METHOD and name not in METHODS:
            raise SlackRefusal("unknown_method", req_method=name)
        if not token:
            raise SlackRefusal("not_authed")
        if name == CONNECT_METHOD:
            return self._connect(token)
        if token != self.bot_token:
            raise SlackRefusal("not_allowed_token_type" if token == self.app_token else "invalid_auth")
        row = METHODS[name]
        if row.scope and row.scope not in self.scopes:
            raise SlackRefusal("missing_scope", needed=row.scope, provided=",".join(sorted(self.scopes)))
        return row.run(ApiCall(self.workspace, self.views, args, self.origin))

    def _connect(self, token: str) -> JSON:
        if token != self.app_token:
            raise SlackRefusal("not_allowed_token_type" if token == self.bot_token else "invalid_auth")
        return {"url": f"{self.origin.replace('http', 'ws', 1)}/link/?ticket={self.hub.ticket()}&app_id={self.workspace.app.id}"}

    def _count(self, name: str, code: str) -> None:
        self.refusals[f"{name}:{code}"] += 1
        self.workspace.journal.wake_waiters()


async def read_arguments(request: web.Request) -> tuple[JSON, str]:
    args: JSON = dict(request.query)
    if request.content_type == "application/json":
        sent = await request.json() if request.can_read_body else {}
        args |= sent if isinstance(sent, dict) else {}
    elif request.method == "POST":
        args |= {key: value for key, value in (await request.post()).items() if isinstance(value, str)}
    bearer = request.headers.get("Authorization", "").removeprefix("Bearer ").strip()
    return args, bearer or str(args.pop("token", ""))
