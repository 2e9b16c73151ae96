"""GitHub issues. A marker in the text tells ours; labels are not relied on, for GitHub drops them in silence where we may not set them."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Final, Literal

from pydantic import Field

from bot.trackers.config import Secret, TrackerConfig, Url, mends_of
from bot.trackers.draft import TrackerDraft, markdown, one_line
from bot.trackers.opened import OpenedTracker
from bot.trackers.remarks import FETCHED, newest, remark_of, rows_at
from bot.trackers.tracker import RemoteRemark, RemoteStanding, RemoteTicket, TrackerAway, TrackerRefused, marker_of, read_remarks
from bot.trackers.wire import TrackerWire, safe_url, text_at, words_of
from kb.numbers import count
from tools.clock import Clock

_MENDS: Final = {
    301: "Check {name}.repo: it was renamed or moved",
    401: "Check {name}.token: it is wrong or over",
    403: "Give the token of {name}.token “Issues: read and write” on the repository; an organisation may have to allow it first",
    404: "Check {name}.repo; GitHub also says this where {name}.token may not see the repository",
    410: "Issues are switched off in the repository of {name}.repo: Settings → General → Features",
    422: "Check {name}.labels and {name}.repo",
}
PAGES, PAGE, REMARKS = 3, 100, 50
MOST_COUNTED = 1_000_000
"""Comments of an issue that we count."""
BEFORE: Final = timedelta(minutes=10)
"""How far their clock may be behind ours."""


class GitHubConfig(TrackerConfig):
    """A repository."""

    kind: Literal["github"] = Field(description="`github`")
    url: Url = Field("https://api.github.com", description="GitHub's API; of an Enterprise Server https://HOST/api/v3")
    repo: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9-]{0,38}/[A-Za-z0-9._-]{1,100}$")] = Field(description="OWNER/REPOSITORY")
    token: Secret = Field(description="fine-grained token with “Issues: read and write” on that repository")
    labels: Annotated[tuple[Annotated[str, Field(min_length=1, max_length=50)], ...], Field(max_length=10)] = Field(
        (), description="labels of the issues"
    )


@dataclass(frozen=True, slots=True)
class GitHubTracker(OpenedTracker):
    """One repository. Issues are listed, not searched for: the list is never behind, the search is."""

    name: str
    config: GitHubConfig
    wire: TrackerWire
    title_most: int = 256
    repeatable: bool = False
    settles: timedelta = timedelta(seconds=30)
    tells: bool = True

    def fields(self, draft: TrackerDraft) -> Mapping[str, str]:
        return {"Repository": self.config.repo, "Labels": ", ".join(self.config.labels) or "none", "Marker": marker_of(draft.incident)}

    async def find(self, draft: TrackerDraft, since: datetime) -> RemoteTicket | None:
        mark, begin = f"<!-- {marker_of(draft.incident)} -->", (since - BEFORE).astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        for page in range(1, PAGES + 1):
            params = {"state": "all", "since": begin, "sort": "created", "direction": "desc", "per_page": str(PAGE), "page": str(page)}
            rows = (await self.wire.ask("GET", self._issues, params=params)).data
            if not isinstance(rows, list):
                raise TrackerAway(f"{self.words} answers a list in a shape that is not known")
            for row in rows:
                if mark in text_at(row, "body"):
                    return self._ticket(row)
            if len(rows) < PAGE:
                return None
        raise TrackerAway(f"{self.words} has more than {PAGES * PAGE} newer issues: whether ours is among them cannot be told")

    async def create(self, draft: TrackerDraft) -> RemoteTicket:
        issue: dict[str, Any] = {"title": one_line(draft.title, self.title_most), "body": markdown(draft, marker_of(draft.incident))}
        if self.config.labels:
            issue["labels"] = list(self.config.labels)
        return self._ticket((await self.wire.ask("POST", self._issues, body=issue)).data)

    async def look(self, ticket: str, seen: str) -> RemoteStanding | None:
        answer = await self.wire.ask("GET", f"{self._issues}/{_number(ticket)}", headers={"If-None-Match": seen} if seen else {}, gone=True)
        if answer.status == 304:
            return None
        state, reason = text_at(answer.data, "state"), text_at(answer.data, "state_reason").replace("_", " ")
        shown = f"{state} ({reason})" if state == "closed" and reason else state
        asked = self._remarks(_number(ticket), answer.data)
        remarks, unread = await read_remarks(asked) if self.config.comments else ((), "")
        etag = answer.headers.get("etag", "")[:200]
        return RemoteStanding(self._ticket(answer.data), words_of(shown, 60), state == "closed", etag, remarks, unread)

    async def _remarks(self, number: int, issue: Any) -> tuple[RemoteRemark, ...]:
        """GitHub lists the oldest first: the last page is asked for, and the one before where that is short."""
        last = -(-count(text_at(issue, "comments"), MOST_COUNTED) // REMARKS)
        found: list[Any] = []
        for page in range(last, max(0, last - 2), -1):
            params = {"per_page": str(REMARKS), "page": str(page)}
            found = [*rows_at((await self.wire.ask("GET", f"{self._issues}/{number}/comments", params=params)).data), *found]
            if len(found) >= FETCHED:
                break
        return newest(map(self._remark, found))

    def _remark(self, row: Any) -> RemoteRemark | None:
        url = safe_url(text_at(row, "html_url"), self.config.url)
        return remark_of(text_at(row, "id"), text_at(row, "user", "login"), text_at(row, "body"), text_at(row, "created_at"), url)

    async def close(self, ticket: str, words: str) -> None:
        issue = f"{self._issues}/{_number(ticket)}"
        await self.wire.ask("POST", f"{issue}/comments", body={"body": _quoted(words)}, gone=True)
        if self.config.on_close == "close":
            await self.wire.ask("PATCH", issue, body={"state": "closed", "state_reason": "completed"}, gone=True)

    async def tried(self) -> str:
        answer = await self.wire.ask("GET", f"/repos/{self.config.repo}")
        if isinstance(answer.data, dict) and answer.data.get("has_issues") is False:
            raise TrackerRefused(f"{self.config.repo} has no issues. {self.wire.mends[410]}")
        return f"{self.config.repo} is readable"

    @property
    def _issues(self) -> str:
        return f"/repos/{self.config.repo}/issues"

    def _ticket(self, row: Any) -> RemoteTicket:
        number = text_at(row, "number")
        if not re.fullmatch(r"[0-9]{1,18}", number):
            raise TrackerAway(f"{self.words} answers in a shape that is not known", maybe=True)
        return RemoteTicket(number, f"{self.config.repo}#{number}", safe_url(text_at(row, "html_url"), self.config.url))


def open_github(name: str, config: GitHubConfig, clock: Clock) -> GitHubTracker:
    """With what its token opens."""
    headers = {
        "Authorization": f"Bearer {config.token.get_secret_value()}",
        "Accept": "application/vnd.github+json",
        "X-GitHub-Api-Version": "2022-11-28",
    }
    return GitHubTracker(name, config, TrackerWire(config.label or "GitHub", config.url, clock, headers, mends_of(name, _MENDS), _why))


def _number(ticket: str) -> int:
    return int(ticket)


def _quoted(words: str) -> str:
    """In a fence: nothing in it mentions anybody."""
    return f"```text\n{words.replace('`', 'ˋ')}\n```"


def _why(data: Any) -> str:
    rows = data.get("errors") if isinstance(data, dict) else None
    errors = (
        [f"{text_at(row, 'field')} {text_at(row, 'code') or text_at(row, 'message')}" for row in rows] if isinstance(rows, list) else []
    )
    return "; ".join([text_at(data, "message"), *errors])
