"""Jira Cloud, REST v3: an issue with a label of ours. Jira has no idempotency of its own, so the label is looked for before anything is made."""

from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Annotated, Any, Final, Literal
from urllib.parse import quote

from pydantic import Field

from bot.trackers.config import Name, Secret, TrackerConfig, Url, mends_of
from bot.trackers.draft import TrackerDraft, adf, one_line, paragraph
from bot.trackers.opened import OpenedTracker
from bot.trackers.remarks import FETCHED, adf_text, newest, remark_of, rows_at
from bot.trackers.tracker import RemoteRemark, RemoteStanding, RemoteTicket, TrackerAway, TrackerRefused, marker_of, read_remarks
from bot.trackers.wire import TrackerWire, text_at, words_of
from tools.clock import Clock

_MENDS: Final = {
    301: "Check {name}.url: it must be the site itself, https://YOU.atlassian.net",
    400: "Where a field is required there, give it under {name}.fields",
    401: "Check {name}.user (an e-mail address) and {name}.token (id.atlassian.com → Security → API tokens)",
    403: "The account of {name}.user may not do that in project {name}.project: Jira → Project settings → Access",
    404: "Check {name}.project and {name}.url; Jira also says this where {name}.user may not see the project",
}
Label = Annotated[str, Field(pattern=r"^[^\s,\"]{1,100}$")]


class JiraConfig(TrackerConfig):
    """A project of a Jira Cloud site."""

    kind: Literal["jira"] = Field(description="`jira`")
    url: Url = Field(description="https://YOU.atlassian.net")
    user: Name = Field(description="e-mail address of the account that makes issues")
    token: Secret = Field(description="API token of that account")
    project: Annotated[str, Field(pattern=r"^[A-Z][A-Z0-9_]{1,30}$")] = Field(description="key of the project, OPS")
    type: Name = Field("Task", description="type of the issues")
    labels: Annotated[tuple[Label, ...], Field(max_length=10)] = Field((), description="more labels, beside `rackmedic-INCIDENT`")
    fields: Annotated[dict[str, Any], Field(max_length=20)] = Field(
        default_factory=dict,
        description="further fields as Jira's REST API takes them, `customfield_10010: {value: GPU}`; shown before it leaves",
    )


@dataclass(frozen=True, slots=True)
class JiraTracker(OpenedTracker):
    """One project. Labels are indexed a moment after an issue is made, hence `settles`."""

    name: str
    config: JiraConfig
    wire: TrackerWire
    title_most: int = 255
    repeatable: bool = False
    settles: timedelta = timedelta(seconds=90)
    tells: bool = True

    def fields(self, draft: TrackerDraft) -> Mapping[str, str]:
        labels = ", ".join(self._labels(draft))
        return {
            "Project": self.config.project,
            "Type": self.config.type,
            "Labels": labels,
            **{k: str(v)[:300] for k, v in self.config.fields.items()},
        }

    async def find(self, draft: TrackerDraft, since: datetime) -> RemoteTicket | None:
        jql = f'project = "{self.config.project}" AND labels = "{marker_of(draft.incident)}" ORDER BY created ASC'
        answer = await self.wire.ask("POST", "/rest/api/3/search/jql", body={"jql": jql, "fields": ["status"], "maxResults": 2})
        found = answer.data.get("issues") if isinstance(answer.data, dict) else None
        if not isinstance(found, list):
            raise TrackerAway(f"{self.words} answers a search in a shape that is not known")
        return self._ticket(found[0]) if found else None

    async def create(self, draft: TrackerDraft) -> RemoteTicket:
        config = self.config
        fields = {
            **config.fields,
            "project": {"key": config.project},
            "issuetype": {"name": config.type},
            "summary": one_line(draft.title, self.title_most),
            "description": adf(draft, marker_of(draft.incident)),
            "labels": self._labels(draft),
        }
        return self._ticket((await self.wire.ask("POST", "/rest/api/3/issue", body={"fields": fields})).data)

    async def look(self, ticket: str, seen: str) -> RemoteStanding | None:
        answer = await self.wire.ask("GET", f"/rest/api/3/issue/{quote(ticket, safe='')}", params={"fields": "status,updated"}, gone=True)
        updated = text_at(answer.data, "fields", "updated")[:60]
        if updated and updated == seen:
            return None
        remarks, unread = await read_remarks(self._remarks(self._ticket(answer.data))) if self.config.comments else ((), "")
        state, category = (text_at(answer.data, "fields", "status", *way) for way in (("name",), ("statusCategory", "key")))
        return RemoteStanding(self._ticket(answer.data), words_of(state, 60), category == "done", updated, remarks, unread)

    async def _remarks(self, ticket: RemoteTicket) -> tuple[RemoteRemark, ...]:
        """Those that are for some people alone there stay there: who reads the thread may be none of them."""
        path = f"/rest/api/3/issue/{quote(ticket.id, safe='')}/comment"
        answer = await self.wire.ask("GET", path, params={"orderBy": "-created", "maxResults": str(FETCHED)})
        rows = [row for row in rows_at(answer.data, "comments") if isinstance(row, dict) and not row.get("visibility")]
        return newest(_remark(row, ticket.url) for row in reversed(rows))

    async def close(self, ticket: str, words: str) -> None:
        issue = f"/rest/api/3/issue/{quote(ticket, safe='')}"
        await self.wire.ask("POST", f"{issue}/comment", body={"body": paragraph(words)}, gone=True)
        if self.config.on_close == "close" and (way := await self._way_to_done(issue)):
            await self.wire.ask("POST", f"{issue}/transitions", body={"transition": {"id": way}}, gone=True)

    async def tried(self) -> str:
        """The project is asked for by its issue types: `type` must be one of them."""
        answer = await self.wire.ask("GET", f"/rest/api/3/issue/createmeta/{self.config.project}/issuetypes")
        rows = answer.data.get("issueTypes") or answer.data.get("values") or [] if isinstance(answer.data, dict) else []
        names = [text_at(row, "name") for row in rows]
        if self.config.type not in names:
            known = words_of(", ".join(names))
            raise TrackerRefused(
                f"project {self.config.project} has no type {self.config.type!r} that we may make. Set {self.name}.type to one of: {known}"
            )
        return f"project {self.config.project}, type {self.config.type}"

    async def _way_to_done(self, issue: str) -> str:
        """The first transition that ends in a status of the category done; empty where there is none."""
        answer = await self.wire.ask("GET", f"{issue}/transitions", gone=True)
        rows = answer.data.get("transitions") or [] if isinstance(answer.data, dict) else []
        return next((text_at(row, "id") for row in rows if text_at(row, "to", "statusCategory", "key") == "done"), "")

    def _labels(self, draft: TrackerDraft) -> list[str]:
        return [marker_of(draft.incident), *self.config.labels]

    def _ticket(self, row: Any) -> RemoteTicket:
        id_, key = text_at(row, "id")[:40], words_of(text_at(row, "key"), 60)
        if not id_ or not key:
            raise TrackerAway(f"{self.words} answers in a shape that is not known", maybe=True)
        return RemoteTicket(id_, key, f"{self.config.url}/browse/{quote(key, safe='-')}")


def open_jira(name: str, config: JiraConfig, clock: Clock) -> JiraTracker:
    """With what its token opens."""
    basic = b64encode(f"{config.user}:{config.token.get_secret_value()}".encode()).decode()
    wire = TrackerWire(config.label or "Jira", config.url, clock, {"Authorization": f"Basic {basic}"}, mends_of(name, _MENDS), _why)
    return JiraTracker(name, config, wire)


def _remark(row: Any, url: str) -> RemoteRemark | None:
    id_, by = text_at(row, "id"), text_at(row, "author", "displayName")
    link = f"{url}?focusedCommentId={id_}" if id_.isascii() and id_.isdigit() and len(id_) < 20 else url
    return remark_of(id_, by, adf_text(row.get("body")), text_at(row, "created"), link)


def _why(data: Any) -> str:
    """Jira's own words: of the whole, then of each field."""
    if not isinstance(data, dict):
        return ""
    whole, fields = data.get("errorMessages"), data.get("errors")
    said = [str(one) for one in whole] if isinstance(whole, list) else [text_at(data, "message")]
    return "; ".join(
        [word for word in said if word] + ([f"{field}: {words}" for field, words in fields.items()] if isinstance(fields, dict) else [])
    )
