"""Jira Cloud, REST v3. It has no idempotency key, so our label is searched before creation."""

from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Annotated, Any, Final, Literal
from urllib.parse import quote

from pydantic import Field

from bot.trackers.comments import MAX_FETCHED_COMMENTS, build_comment, extract_adf_text, get_rows_at, select_newest
from bot.trackers.http import TrackerHttpClient, clean_remote_text, get_text_at
from bot.trackers.ticket_draft import TrackerDraft, build_adf_paragraph, format_outbound_line, render_adf
from bot.trackers.tracker import RemoteComment, RemoteStatus, RemoteTicket, TrackerRefused, TrackerUnavailable, build_marker, read_comments
from bot.trackers.tracker_base import ShortText, TrackerBase, TrackerConfig, TrackerSecret, TrackerUrl, build_fix_hints
from tools.clock import Clock

_FIX_HINTS: Final = {
    301: "Check {name}.url: it must be the site itself, https://YOU.atlassian.net",
    400: "Where a field is required there, give it under {name}.fields",
    401: "Check {name}.user (an e-mail address) and {name}.token (id.atlassian.com → Security → API tokens)",
    403: "The account of {name}.user may not do that in project {name}.project: Jira → Project settings → Access",
    404: "Check {name}.project and {name}.url; Jira also says this where {name}.user may not see the project",
}
JiraLabel = Annotated[str, Field(pattern=r"^[^\s,\"]{1,100}$")]


class JiraConfig(TrackerConfig):
    """A project of a Jira Cloud site."""

    kind: Literal["jira"] = Field(description="`jira`")
    url: TrackerUrl = Field(description="https://YOU.atlassian.net")
    user: ShortText = Field(description="e-mail address of the account that makes issues")
    token: TrackerSecret = Field(description="API token of that account")
    project: Annotated[str, Field(pattern=r"^[A-Z][A-Z0-9_]{1,30}$")] = Field(description="key of the project, OPS")
    type: ShortText = Field("Task", description="type of the issues")
    labels: Annotated[tuple[JiraLabel, ...], Field(max_length=10)] = Field((), description="more labels, beside `rackmedic-INCIDENT`")
    fields: Annotated[dict[str, Any], Field(max_length=20)] = Field(
        default_factory=dict,
        description="further fields as Jira's REST API takes them, `customfield_10010: {value: GPU}`; shown before it leaves",
    )


@dataclass(frozen=True, slots=True)
class JiraTracker(TrackerBase):
    """`settles`: Jira indexes labels late."""

    name: str
    config: JiraConfig
    wire: TrackerHttpClient
    title_most: int = 255
    repeatable: bool = False
    settles: timedelta = timedelta(seconds=90)
    tells: bool = True

    def list_fields(self, draft: TrackerDraft) -> Mapping[str, str]:
        labels = ", ".join(self._list_labels(draft))
        return {
            "Project": self.config.project,
            "Type": self.config.type,
            "Labels": labels,
            **{k: str(v)[:300] for k, v in self.config.fields.items()},
        }

    async def find_ticket(self, draft: TrackerDraft, since: datetime) -> RemoteTicket | None:
        jql = f'project = "{self.config.project}" AND labels = "{build_marker(draft.incident)}" ORDER BY created ASC'
        answer = await self.wire.send_request("POST", "/rest/api/3/search/jql", body={"jql": jql, "fields": ["status"], "maxResults": 2})
        issues = answer.data.get("issues") if isinstance(answer.data, dict) else None
        if not isinstance(issues, list):
            raise TrackerUnavailable(f"{self.words} answers a search in a shape that is not known")
        return self._parse_ticket(issues[0]) if issues else None

    async def create_ticket(self, draft: TrackerDraft) -> RemoteTicket:
        config = self.config
        fields = {
            **config.fields,
            "project": {"key": config.project},
            "issuetype": {"name": config.type},
            "summary": format_outbound_line(draft.title, self.title_most),
            "description": render_adf(draft, build_marker(draft.incident)),
            "labels": self._list_labels(draft),
        }
        return self._parse_ticket((await self.wire.send_request("POST", "/rest/api/3/issue", body={"fields": fields})).data)

    async def fetch_status(self, ticket: str, seen: str) -> RemoteStatus | None:
        answer = await self.wire.send_request(
            "GET", f"/rest/api/3/issue/{quote(ticket, safe='')}", params={"fields": "status,updated"}, gone=True
        )
        updated = get_text_at(answer.data, "fields", "updated")[:60]
        if updated and updated == seen:
            return None
        remarks, unread = await read_comments(self._fetch_comments(self._parse_ticket(answer.data))) if self.config.comments else ((), "")
        state, category = (get_text_at(answer.data, "fields", "status", *way) for way in (("name",), ("statusCategory", "key")))
        return RemoteStatus(self._parse_ticket(answer.data), clean_remote_text(state, 60), category == "done", updated, remarks, unread)

    async def _fetch_comments(self, ticket: RemoteTicket) -> tuple[RemoteComment, ...]:
        """Fetch comments, without restricted ones: the thread's readers may lack access."""
        path = f"/rest/api/3/issue/{quote(ticket.id, safe='')}/comment"
        answer = await self.wire.send_request("GET", path, params={"orderBy": "-created", "maxResults": str(MAX_FETCHED_COMMENTS)})
        rows = [row for row in get_rows_at(answer.data, "comments") if isinstance(row, dict) and not row.get("visibility")]
        return select_newest(_parse_comment(row, ticket.url) for row in reversed(rows))

    async def close_ticket(self, ticket: str, words: str) -> None:
        issue = f"/rest/api/3/issue/{quote(ticket, safe='')}"
        await self.wire.send_request("POST", f"{issue}/comment", body={"body": build_adf_paragraph(words)}, gone=True)
        if self.config.on_close == "close" and (way := await self._find_done_transition(issue)):
            await self.wire.send_request("POST", f"{issue}/transitions", body={"transition": {"id": way}}, gone=True)

    async def check_access(self) -> str:
        """Ask for the issue types, which must include `type`."""
        answer = await self.wire.send_request("GET", f"/rest/api/3/issue/createmeta/{self.config.project}/issuetypes")
        rows = answer.data.get("issueTypes") or answer.data.get("values") or [] if isinstance(answer.data, dict) else []
        names = [get_text_at(row, "name") for row in rows]
        if self.config.type not in names:
            missing_names = clean_remote_text(", ".join(names))
            raise TrackerRefused(
                f"project {self.config.project} has no type {self.config.type!r} that we may make. Set {self.name}.type to one of: {missing_names}"
            )
        return f"project {self.config.project}, type {self.config.type}"

    async def _find_done_transition(self, issue: str) -> str:
        """Return the first transition to a done status, if any."""
        answer = await self.wire.send_request("GET", f"{issue}/transitions", gone=True)
        rows = answer.data.get("transitions") or [] if isinstance(answer.data, dict) else []
        return next((get_text_at(row, "id") for row in rows if get_text_at(row, "to", "statusCategory", "key") == "done"), "")

    def _list_labels(self, draft: TrackerDraft) -> list[str]:
        return [build_marker(draft.incident), *self.config.labels]

    def _parse_ticket(self, row: Any) -> RemoteTicket:
        id_, key = get_text_at(row, "id")[:40], clean_remote_text(get_text_at(row, "key"), 60)
        if not id_ or not key:
            raise TrackerUnavailable(f"{self.words} answers in a shape that is not known", maybe=True)
        return RemoteTicket(id_, key, f"{self.config.url}/browse/{quote(key, safe='-')}")


def open_jira(name: str, config: JiraConfig, clock: Clock) -> JiraTracker:
    basic = b64encode(f"{config.user}:{config.token.get_secret_value()}".encode()).decode()
    wire = TrackerHttpClient(
        config.label or "Jira", config.url, clock, {"Authorization": f"Basic {basic}"}, build_fix_hints(name, _FIX_HINTS), _format_error
    )
    return JiraTracker(name, config, wire)


def _parse_comment(row: Any, url: str) -> RemoteComment | None:
    id_, author = get_text_at(row, "id"), get_text_at(row, "author", "displayName")
    link = f"{url}?focusedCommentId={id_}" if id_.isascii() and id_.isdigit() and len(id_) < 20 else url
    return build_comment(id_, author, extract_adf_text(row.get("body")), get_text_at(row, "created"), link)


def _format_error(data: Any) -> str:
    if not isinstance(data, dict):
        return ""
    messages, fields = data.get("errorMessages"), data.get("errors")
    texts = [str(one) for one in messages] if isinstance(messages, list) else [get_text_at(data, "message")]
    return "; ".join(
        [word for word in texts if word] + ([f"{field}: {words}" for field, words in fields.items()] if isinstance(fields, dict) else [])
    )
