"""GitHub issues. A marker in the text identifies ours: GitHub silently drops labels that the token may not set."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Final, Literal

from pydantic import Field

from bot.trackers.comments import MAX_FETCHED_COMMENTS, build_comment, get_rows_at, select_newest
from bot.trackers.http import TrackerHttpClient, clean_remote_text, filter_remote_url, get_text_at
from bot.trackers.ticket_draft import TrackerDraft, format_outbound_line, render_markdown
from bot.trackers.tracker import RemoteComment, RemoteStatus, RemoteTicket, TrackerRefused, TrackerUnavailable, build_marker, read_comments
from bot.trackers.tracker_base import TrackerBase, TrackerConfig, TrackerSecret, TrackerUrl, build_fix_hints
from kb.numbers import parse_bounded_count
from tools.clock import Clock

_FIX_HINTS: Final = {
    301: "Check {name}.repo: it was renamed or moved",
    401: "Check {name}.token: it is wrong or over",
    403: "Give the token of {name}.token “Issues: read and write” on the repository; an organisation may have to allow it first",
    404: "Check {name}.repo; GitHub also says this where {name}.token may not see the repository",
    410: "Issues are switched off in the repository of {name}.repo: Settings → General → Features",
    422: "Check {name}.labels and {name}.repo",
}
MAX_PAGES = 3
PAGE_SIZE = 100
COMMENTS_PER_PAGE = 50
MAX_COUNTED_COMMENTS = 1_000_000  # per issue
MAX_CLOCK_SKEW: Final = timedelta(minutes=10)  # GitHub's clock may lag this much


class GitHubConfig(TrackerConfig):
    """A repository."""

    kind: Literal["github"] = Field(description="`github`")
    url: TrackerUrl = Field("https://api.github.com", description="GitHub's API; of an Enterprise Server https://HOST/api/v3")
    repo: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9-]{0,38}/[A-Za-z0-9._-]{1,100}$")] = Field(description="OWNER/REPOSITORY")
    token: TrackerSecret = Field(description="fine-grained token with “Issues: read and write” on that repository")
    labels: Annotated[tuple[Annotated[str, Field(min_length=1, max_length=50)], ...], Field(max_length=10)] = Field(
        (), description="labels of the issues"
    )


@dataclass(frozen=True, slots=True)
class GitHubTracker(TrackerBase):
    """Lists issues, as the search index lags."""

    name: str
    config: GitHubConfig
    wire: TrackerHttpClient
    title_most: int = 256
    repeatable: bool = False
    settles: timedelta = timedelta(seconds=30)
    tells: bool = True

    def list_fields(self, draft: TrackerDraft) -> Mapping[str, str]:
        return {"Repository": self.config.repo, "Labels": ", ".join(self.config.labels) or "none", "Marker": build_marker(draft.incident)}

    async def find_ticket(self, draft: TrackerDraft, since: datetime) -> RemoteTicket | None:
        mark, begin = f"<!-- {build_marker(draft.incident)} -->", (since - MAX_CLOCK_SKEW).astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        for page in range(1, MAX_PAGES + 1):
            params = {"state": "all", "since": begin, "sort": "created", "direction": "desc", "per_page": str(PAGE_SIZE), "page": str(page)}
            rows = (await self.wire.send_request("GET", self._issues_path, params=params)).data
            if not isinstance(rows, list):
                raise TrackerUnavailable(f"{self.words} answers a list in a shape that is not known")
            for row in rows:
                if mark in get_text_at(row, "body"):
                    return self._parse_ticket(row)
            if len(rows) < PAGE_SIZE:
                return None
        raise TrackerUnavailable(
            f"{self.words} has more than {MAX_PAGES * PAGE_SIZE} newer issues: whether ours is among them cannot be told"
        )

    async def create_ticket(self, draft: TrackerDraft) -> RemoteTicket:
        issue: dict[str, Any] = {
            "title": format_outbound_line(draft.title, self.title_most),
            "body": render_markdown(draft, build_marker(draft.incident)),
        }
        if self.config.labels:
            issue["labels"] = list(self.config.labels)
        return self._parse_ticket((await self.wire.send_request("POST", self._issues_path, body=issue)).data)

    async def fetch_status(self, ticket: str, seen: str) -> RemoteStatus | None:
        answer = await self.wire.send_request(
            "GET", f"{self._issues_path}/{_parse_number(ticket)}", headers={"If-None-Match": seen} if seen else {}, gone=True
        )
        if answer.status == 304:
            return None
        state, reason = get_text_at(answer.data, "state"), get_text_at(answer.data, "state_reason").replace("_", " ")
        state_text = f"{state} ({reason})" if state == "closed" and reason else state
        comments = self._fetch_comments(_parse_number(ticket), answer.data)
        remarks, unread = await read_comments(comments) if self.config.comments else ((), "")
        etag = answer.headers.get("etag", "")[:200]
        return RemoteStatus(self._parse_ticket(answer.data), clean_remote_text(state_text, 60), state == "closed", etag, remarks, unread)

    async def _fetch_comments(self, number: int, issue: Any) -> tuple[RemoteComment, ...]:
        """Fetch the last one or two pages: GitHub lists oldest first."""
        last = -(-parse_bounded_count(get_text_at(issue, "comments"), MAX_COUNTED_COMMENTS) // COMMENTS_PER_PAGE)
        rows: list[Any] = []
        for page in range(last, max(0, last - 2), -1):
            params = {"per_page": str(COMMENTS_PER_PAGE), "page": str(page)}
            rows = [
                *get_rows_at((await self.wire.send_request("GET", f"{self._issues_path}/{number}/comments", params=params)).data),
                *rows,
            ]
            if len(rows) >= MAX_FETCHED_COMMENTS:
                break
        return select_newest(map(self._parse_comment, rows))

    def _parse_comment(self, row: Any) -> RemoteComment | None:
        url = filter_remote_url(get_text_at(row, "html_url"), self.config.url)
        return build_comment(
            get_text_at(row, "id"), get_text_at(row, "user", "login"), get_text_at(row, "body"), get_text_at(row, "created_at"), url
        )

    async def close_ticket(self, ticket: str, words: str) -> None:
        issue = f"{self._issues_path}/{_parse_number(ticket)}"
        await self.wire.send_request("POST", f"{issue}/comments", body={"body": _fence_words(words)}, gone=True)
        if self.config.on_close == "close":
            await self.wire.send_request("PATCH", issue, body={"state": "closed", "state_reason": "completed"}, gone=True)

    async def check_access(self) -> str:
        answer = await self.wire.send_request("GET", f"/repos/{self.config.repo}")
        if isinstance(answer.data, dict) and answer.data.get("has_issues") is False:
            raise TrackerRefused(f"{self.config.repo} has no issues. {self.wire.mends[410]}")
        return f"{self.config.repo} is readable"

    @property
    def _issues_path(self) -> str:
        return f"/repos/{self.config.repo}/issues"

    def _parse_ticket(self, row: Any) -> RemoteTicket:
        number = get_text_at(row, "number")
        if not re.fullmatch(r"[0-9]{1,18}", number):
            raise TrackerUnavailable(f"{self.words} answers in a shape that is not known", maybe=True)
        return RemoteTicket(number, f"{self.config.repo}#{number}", filter_remote_url(get_text_at(row, "html_url"), self.config.url))


def open_github(name: str, config: GitHubConfig, clock: Clock) -> GitHubTracker:
    headers = {
        "Authorization": f"Bearer {config.token.get_secret_value()}",
        "Accept": "application/vnd.github+json",
        "X-GitHub-Api-Version": "2022-11-28",
    }
    return GitHubTracker(
        name,
        config,
        TrackerHttpClient(config.label or "GitHub", config.url, clock, headers, build_fix_hints(name, _FIX_HINTS), _format_error),
    )


def _parse_number(ticket: str) -> int:
    return int(ticket)


def _fence_words(words: str) -> str:
    """Fence the words, so that they mention no one."""
    return f"```text\n{words.replace('`', 'ˋ')}\n```"


def _format_error(data: Any) -> str:
    rows = data.get("errors") if isinstance(data, dict) else None
    errors = (
        [f"{get_text_at(row, 'field')} {get_text_at(row, 'code') or get_text_at(row, 'message')}" for row in rows]
        if isinstance(rows, list)
        else []
    )
    return "; ".join([get_text_at(data, "message"), *errors])
