"""Stand-in trackers over real local HTTP that refuse what the real ones do, from `tests.support.tracker_rules`."""

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

from aiohttp import web

from bot.inbound import Unsigned, verify_message
from tests.support.tracker_rules import refused
from tools.clock import Clock

KEY = "whsec_" + base64.b64encode(b"k" * 32).decode()
ROUTING = "r" * 32


@dataclass
class StandInTracker:
    """Tickets by id, requests, and failures to come. `fails`: statuses or rules for the next writes; 0 drops the
    connection after the work is done.
    """

    clock: Clock
    tickets: dict[str, dict[str, Any]] = field(default_factory=dict)
    fails: list[int | str] = field(default_factory=list)
    # rules in force for every request, such as disabled issues or a missing right
    now: set[str] = field(default_factory=set)
    asked: list[str] = field(default_factory=list)
    comments: list[str] = field(default_factory=list)
    # people's comments on a ticket: id, by, text, at, and more
    remarks: dict[str, list[dict[str, str]]] = field(default_factory=dict)
    closed_to_us: bool = False  # our account may not read comments
    hidden: bool = False  # Jira's index is behind and finds nothing
    drops_correlation: bool = False
    url: str = ""
    raw: bytes = b""
    # hold a creation until `let_go`, then cut it, before or after the ticket is made
    holds: Literal["", "before", "after"] = ""
    held: asyncio.Event = field(default_factory=asyncio.Event)
    let_go: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def made(self) -> int:
        return len(self.tickets)

    def write(self, ticket: str, text: str, by: str = "Beth", **more: str) -> str:
        """Comment on a ticket as a person and return the comment's id."""
        rows = self.remarks.setdefault(ticket, [])
        id_ = str(100 + sum(map(len, self.remarks.values())))
        rows.append({"id": id_, "by": by, "text": text, "at": self.clock.now().isoformat(), **more})
        return id_

    async def serve(self, request: web.Request) -> web.StreamResponse:
        """Refuse, answer, or do and cut one request."""
        self.asked.append(f"{request.method} {request.path}")
        writes = request.method == "POST" and not request.path.endswith("/jql")
        fails = self.fails.pop(0) if writes and self.fails else 200
        if fails == 429:
            fails = f"{_kind(request.path)}.limit"
        if isinstance(fails, str):
            return self._no(fails)
        if fails == 503:
            return web.json_response({"message": "down"}, status=503)
        holds = self.holds if writes else ""
        answer = web.Response() if holds == "before" else await self._routed(request)
        if holds:
            self.held.set()
            await self.let_go.wait()
        if (holds or fails == 0) and request.transport:
            request.transport.abort()
        return answer

    async def _routed(self, request: web.Request) -> web.Response:
        rows: Mapping[str, Callable[[web.Request, Any], web.Response]] = {
            "/rest/api/3/": self._jira,
            "/repos/": self._github,
            "/v2/enqueue": self._event,
            "/incidents": self._incidents,
            "/api/now/table/": self._table,
            "/hook": self._hook,
        }
        take = next((row for start, row in rows.items() if request.path.startswith(start)), None)
        raw = await request.read()
        self.raw = raw
        return take(request, json.loads(raw) if raw else {}) if take else web.json_response({}, status=404)

    def _no(self, *rules: str) -> web.Response:
        return refused(*rules, reset=self.clock.now().timestamp() + 30)

    def _jira(self, request: web.Request, body: Any) -> web.Response:
        if request.headers.get("Authorization") != "Basic " + base64.b64encode(b"bot@acme.example:secret-token").decode():
            return self._no("jira.auth")
        path = request.path.removeprefix("/rest/api/3")
        if path == "/search":
            return self._no("jira.search_old")
        if path == "/search/jql":
            if "=" not in body["jql"]:
                return self._no("jira.search_unbounded")
            found = [] if self.hidden else [row for row in self.tickets.values() if any(f'"{one}"' in body["jql"] for one in row["labels"])]
            return web.json_response({"issues": [_jira_found(row, body.get("fields", ())) for row in found], "isLast": True})
        if path.startswith("/issue/createmeta/"):
            known = path.split("/")[3] == "OPS"
            missing = web.json_response({"errorMessages": ["No project could be found with key."]}, status=404)
            return web.json_response({"issueTypes": [{"name": "Task"}, {"name": "Bug"}]}) if known else missing
        return self._jira_made(body) if path == "/issue" else self._jira_issue(request, path, body)

    def _jira_made(self, body: Any) -> web.Response:
        fields, summary = body["fields"], body["fields"].get("summary") or ""
        document = fields.get("description")
        broken = {
            "jira.project": fields["project"]["key"] != "OPS",
            "jira.type": fields["issuetype"]["name"] not in ("Task", "Bug"),
            "jira.summary_missing": not summary,
            "jira.summary_long": len(summary) > 255,
            "jira.summary_lines": "\n" in summary,
            "jira.description": not isinstance(document, dict) or document.get("type") != "doc",
            "jira.description_long": len(_all_text(document)) > 32_767,
            "jira.text_empty": _empty_text(document),
            "jira.field": bool(fields.keys() - {"project", "summary", "description", "issuetype", "labels"}),
            "jira.label": any(" " in label for label in fields.get("labels", ())),
        }
        if rules := [rule for rule, is_so in broken.items() if is_so]:
            return self._no(*rules)
        n = str(10000 + len(self.tickets))
        row = {"id": n, "key": f"OPS-{n}", "labels": fields["labels"], "title": summary, "body": json.dumps(fields["description"])}
        self.tickets[n] = {**row, "state": "To Do", "done": False}
        return web.json_response({"id": n, "key": row["key"], "self": f"{self.url}/rest/api/3/issue/{n}"}, status=201)

    def _jira_issue(self, request: web.Request, path: str, body: Any) -> web.Response:
        _, _, id_, *rest = path.split("/")
        row = self.tickets.get(id_)
        if row is None:
            return self._no("jira.issue")
        if rest == ["comment"] and request.method == "GET":
            if self.closed_to_us:
                return self._no("jira.comments")
            assert request.query["orderBy"] == "-created"
            rows = [_jira_comment(one) for one in reversed(self.remarks.get(id_, []))]
            return web.json_response({"comments": rows[: int(request.query["maxResults"])], "total": len(rows)})
        if rest == ["comment"]:
            self.comments.append(json.dumps(body["body"]))
            return web.json_response({"id": self.write(id_, body["body"]["content"][0]["content"][0]["text"], "RackMedic")}, status=201)
        if rest == ["transitions"] and request.method == "GET":
            return web.json_response({"transitions": [{"id": "31", "to": {"statusCategory": {"key": "done"}}}]})
        if rest == ["transitions"]:
            row |= {"state": "Done", "done": True}
            return web.Response(status=204)
        status = {"name": row["state"], "statusCategory": {"key": "done" if row["done"] else "new"}}
        return web.json_response(
            {"id": id_, "key": row["key"], "fields": {"status": status, "updated": f"{row['state']} at {self._said(id_)}"}}
        )

    def _said(self, ticket: str) -> str:
        """Return a value that changes with each comment."""
        return f"{len(self.remarks.get(ticket, []))} comments"

    def _github(self, request: web.Request, body: Any) -> web.Response:
        if not request.headers.get("User-Agent"):
            return self._no("github.agent")
        if request.headers.get("Authorization") != "Bearer secret-token":
            return self._no("github.auth")
        parts = request.path.split("/")[2:]
        if parts[:2] != ["acme", "ops"]:
            return self._no("github.hidden")
        if len(parts) == 2:
            return web.json_response({"has_issues": "github.issues_off" not in self.now})
        if "github.issues_off" in self.now:
            return self._no("github.issues_off")
        if "github.rights" in self.now and request.method != "GET":
            return self._no("github.rights")
        return self._list_or_make(request, body) if len(parts) == 3 else self._one_issue(request, parts, body)

    def _list_or_make(self, request: web.Request, body: Any) -> web.Response:
        if request.method == "GET":
            assert request.query["state"] == "all"
            return web.json_response([self._issue(row) for row in reversed(self.tickets.values())])
        title, text = body.get("title") or "", body.get("body") or ""
        broken = {"github.title": not title, "github.title_long": len(title) > 256, "github.body_long": len(text) > 65_536}
        if rules := [rule for rule, is_so in broken.items() if is_so]:
            return self._no(*rules)
        n = str(len(self.tickets) + 1)
        labels = [] if "github.labels" in self.now else body.get("labels", [])
        self.tickets[n] = {"id": n, "title": title, "body": text, "labels": labels, "state": "open", "done": False}
        return web.json_response(self._issue(self.tickets[n]), status=201)

    def _one_issue(self, request: web.Request, parts: list[str], body: Any) -> web.Response:
        row = self.tickets.get(parts[3])
        if row is None:
            return self._no("github.hidden")
        if parts[4:] == ["comments"] and request.method == "GET":
            if self.closed_to_us:
                return self._no("github.rights")
            size, page = int(request.query["per_page"]), int(request.query["page"])
            rows = [self._github_comment(parts[3], one) for one in self.remarks.get(parts[3], [])]
            return web.json_response(rows[size * (page - 1) : size * page])
        if parts[4:] == ["comments"]:
            self.comments.append(body["body"])
            return web.json_response({"id": int(self.write(parts[3], body["body"], "octobot"))}, status=201)
        if request.method == "PATCH":
            row |= {"state": body["state"], "done": body["state"] == "closed"}
        etag = f'W/"{row["state"]} {self._said(parts[3])}"'
        if request.headers.get("If-None-Match") == etag:
            return web.Response(status=304)
        return web.json_response(self._issue(row), headers={"ETag": etag})

    def _issue(self, row: Mapping[str, Any]) -> dict[str, Any]:
        number, closed = int(row["id"]), row["state"] == "closed"
        html = f"{self.url}/acme/ops/issues/{number}"
        return {
            "number": number,
            "body": row["body"],
            "labels": [{"name": label} for label in row.get("labels", ())],
            "state": row["state"],
            "state_reason": "completed" if closed else None,
            "html_url": html,
            "comments": len(self.remarks.get(row["id"], [])),
        }

    def _github_comment(self, issue: str, one: Mapping[str, str]) -> dict[str, Any]:
        url = one.get("url", f"{self.url}/acme/ops/issues/{issue}#issuecomment-{one['id']}")
        return {"id": int(one["id"]), "user": {"login": one["by"]}, "body": one["text"], "created_at": one["at"], "html_url": url}

    def _event(self, request: web.Request, body: Any) -> web.Response:
        routing, action, payload = body.get("routing_key") or "", body.get("event_action"), body.get("payload") or {}
        triggers = action == "trigger"
        broken = {
            "pagerduty.key": len(routing) != 32,
            "pagerduty.key_unknown": len(routing) == 32 and routing != ROUTING,
            "pagerduty.action": action not in ("trigger", "acknowledge", "resolve"),
            "pagerduty.dedup_long": len(body.get("dedup_key") or "") > 255,
            "pagerduty.summary": triggers and not payload.get("summary"),
            "pagerduty.summary_long": len(payload.get("summary") or "") > 1024,
            "pagerduty.source": triggers and not payload.get("source"),
            "pagerduty.severity": triggers and payload.get("severity") not in ("critical", "error", "warning", "info"),
        }
        if rules := [rule for rule, is_so in broken.items() if is_so]:
            return self._no(*rules)
        key = body["dedup_key"]
        if action == "resolve":
            self.tickets[key] |= {"state": "resolved", "done": True}
        elif action == "trigger":
            if self.tickets.get(key, {}).get("state") == "resolved":
                self.tickets[f"{key} before {len(self.tickets)}"] = self.tickets.pop(key)
            details = json.dumps(payload.get("custom_details"))
            self.tickets.setdefault(key, {"id": key, "title": payload["summary"], "body": details, "state": "triggered"})
        return web.json_response({"status": "success", "message": "Event processed", "dedup_key": key}, status=202)

    def _incidents(self, request: web.Request, body: Any) -> web.Response:
        if request.headers.get("Authorization") != "Token token=secret-token":
            return self._no("pagerduty.token")
        if "pagerduty.rest_limit" in self.now:
            return self._no("pagerduty.rest_limit")
        if request.path.endswith("/notes"):
            if self.closed_to_us:
                return self._no("pagerduty.denied")
            [key] = self.tickets
            said = self.remarks.get(key, [])
            notes = [{"id": one["id"], "user": {"summary": one["by"]}, "content": one["text"], "created_at": one["at"]} for one in said]
            return web.json_response({"notes": notes if request.path == "/incidents/P7/notes" else []})
        rows = [row for key, row in self.tickets.items() if key == request.query.get("incident_key")]
        return web.json_response(
            {
                "incidents": [
                    {"id": "P7", "status": row["state"], "incident_number": 7, "html_url": f"{self.url}/incidents/P7"} for row in rows
                ]
            }
        )

    def _table(self, request: web.Request, body: Any) -> web.Response:
        if request.headers.get("Authorization") != "Basic " + base64.b64encode(b"bot:secret-token").decode():
            return self._no("servicenow.auth")
        parts = request.path.split("/")[4:]
        if parts[0] == "sys_journal_field":
            return self._no("servicenow.rights") if "servicenow.rights" in self.now else self._journal(request)
        if parts[0] != "incident":
            return self._no("servicenow.table")
        if len(parts) == 1:
            return self._table_rows(request, body)
        row = self.tickets.get(parts[1], {})
        if not row:
            return self._no("servicenow.record")
        if request.method == "PATCH":
            self.comments.append(body["work_notes"])
            self.write(parts[1], body["work_notes"], "bot", element="work_notes")
            row |= {"state": body.get("state", row["state"])}
        words = {"1": "New", "2": "In Progress", "6": "Resolved"}
        shown = {name: {"value": row[name], "display_value": words.get(row[name], row[name])} for name in ("sys_id", "number", "state")}
        updated = {"value": f"at {row['state']} {self._said(parts[1])}", "display_value": ""}
        return web.json_response({"result": {**shown, "sys_updated_on": updated}})

    def _table_rows(self, request: web.Request, body: Any) -> web.Response:
        if request.method == "GET":
            query = request.query.get("sysparm_query", "")
            found = [row for row in self.tickets.values() if f"correlation_id={row['correlation_id']}^" in query]
            return web.json_response({"result": found})
        if "servicenow.policy" in self.now:
            return self._no("servicenow.policy")
        n = f"{len(self.tickets):032x}"
        kept = {name: body.get(name, "") for name in ("short_description", "description", "correlation_id")}
        kept |= {"correlation_id": ""} if self.drops_correlation else {}
        row = {"id": n, "sys_id": n, "number": f"INC{len(self.tickets):07}", "state": "1", "title": kept["short_description"]}
        self.tickets[n] = {**row, "body": kept["description"], **kept}
        return web.json_response({"result": self.tickets[n]}, status=201)

    def _journal(self, request: web.Request) -> web.Response:
        ticket = request.query["sysparm_query"].partition("element_id=")[2].partition("^")[0]
        rows = [
            {
                "sys_id": one["id"],
                "element": one.get("element", "comments"),
                "value": one["text"],
                "sys_created_on": one["at"][:19].replace("T", " "),
                "sys_created_by": one["by"],
            }
            for one in reversed(self.remarks.get(ticket, []))
        ][: int(request.query["sysparm_limit"])]
        return web.json_response({"result": [] if self.closed_to_us else rows}, headers={"X-Total-Count": str(len(rows))})

    def _hook(self, request: web.Request, body: Any) -> web.Response:
        try:
            message = verify_message([b"k" * 32], request.headers, self.raw, self.clock.now())
        except Unsigned as error:
            return self._no("webhook.late" if "its time is" in str(error) else "webhook.signature")
        if body["type"] == "rackmedic.ticket.asked":
            row = self.tickets.get(body["data"]["id"], {})
            said = {"comments": self.remarks.get(str(row.get("id")), [])}
            return web.json_response(
                {"id": row.get("id"), "shown": "T-1", "state": row.get("state"), "done": row.get("state") == "done", **said}
            )
        if body["type"] == "rackmedic.ticket.closed":
            self.comments.append(body["data"]["words"])
            self.write(body["data"]["id"], body["data"]["words"], "RackMedic")
            return web.json_response({})
        self.tickets.setdefault(
            message.id, {"id": message.id, "title": body["data"]["title"], "body": json.dumps(body["data"]), "state": "new"}
        )
        return web.json_response({"id": message.id, "shown": "T-1", "url": f"{self.url}/t/1"})


def _kind(path: str) -> str:
    starts = {"/rest/": "jira", "/repos/": "github", "/v2/": "pagerduty", "/incidents": "pagerduty", "/api/now/": "servicenow"}
    return next((kind for start, kind in starts.items() if path.startswith(start)), "webhook")


def _jira_found(row: Mapping[str, Any], fields: Iterable[str]) -> dict[str, Any]:
    known = {"summary": row["title"], "status": {"name": row["state"]}}
    asked = {name: known[name] for name in fields if name in known}
    return {"id": row["id"], "key": row["key"], **({"fields": asked} if asked else {})}


def _all_text(node: Any) -> str:
    inside = node.get("content", []) if isinstance(node, dict) else []
    return "".join([str(node.get("text", "")) if isinstance(node, dict) else str(node or ""), *map(_all_text, inside)])


def _jira_comment(one: Mapping[str, str]) -> dict[str, Any]:
    lines = [{"type": "paragraph", "content": [{"type": "text", "text": line}]} for line in one["text"].split("\n")]
    only = {"visibility": {"type": "role", "value": one["visibility"]}} if "visibility" in one else {}
    return {
        "id": one["id"],
        "author": {"displayName": one["by"]},
        "body": {"type": "doc", "version": 1, "content": lines},
        "created": one["at"].replace("+00:00", ".000+0000"),
        **only,
    }


def _empty_text(node: Any) -> bool:
    if not isinstance(node, dict):
        return False
    inside = node.get("content", [])
    return (node.get("type") == "text" and not node.get("text")) or any(map(_empty_text, inside))


def config_of(kind: str, url: str, **more: Any) -> dict[str, Any]:
    """Return a tracker's row of the site file for this address."""
    rows: Mapping[str, dict[str, Any]] = {
        "jira": {"url": url, "user": "bot@acme.example", "token": "secret-token", "project": "OPS"},
        "servicenow": {"url": url, "user": "bot", "password": "secret-token"},
        "pagerduty": {"url": url, "api_url": url, "routing_key": ROUTING, "token": "secret-token"},
        "github": {"url": url, "repo": "acme/ops", "token": "secret-token"},
        "webhook": {"url": f"{url}/hook", "key": KEY, "asks": True},
    }
    return {"kind": kind, **rows[kind], **more}


@asynccontextmanager
async def stand_in(clock: Clock) -> AsyncIterator[StandInTracker]:
    """Serve all five on a free port."""
    tracker = StandInTracker(clock)
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", tracker.serve)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        host, port = runner.addresses[0][:2]
        tracker.url = f"http://{host}:{port}"
        yield tracker
    finally:
        await runner.cleanup()
