"""PagerDuty events; `dedup_key` keeps repeats one incident. State needs a REST token."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Annotated, Any, Final, Literal

from pydantic import Field

from bot.trackers.comments import build_comment, get_rows_at, hash_comments, select_newest
from bot.trackers.http import TrackerHttpClient, clean_remote_text, filter_remote_url, get_text_at
from bot.trackers.ticket_draft import TrackerDraft, format_outbound_line, render_plain_text
from bot.trackers.tracker import RemoteComment, RemoteStatus, RemoteTicket, build_marker, read_comments
from bot.trackers.tracker_base import TrackerBase, TrackerConfig, TrackerSecret, TrackerUrl, build_fix_hints
from tools.clock import Clock
from tools.inventory.host_ranges import fold_host_names

_FIX_HINTS: Final = {
    301: "Check {name}.url",
    400: "Check {name}.routing_key: PagerDuty takes 32 characters of an Events API v2 integration that is on",
    401: "Check {name}.token: PagerDuty → Integrations → API Access Keys",
    403: "The key of {name}.token may not read incidents",
    404: "Check {name}.api_url",
}

SITE_DOMAIN: Final = "pagerduty.com"  # each PagerDuty account has a subdomain of it


class PagerDutyConfig(TrackerConfig):
    """A service."""

    kind: Literal["pagerduty"] = Field(description="`pagerduty`")
    url: TrackerUrl = Field("https://events.pagerduty.com", description="where events go; in the EU https://events.eu.pagerduty.com")
    api_url: TrackerUrl = Field("https://api.pagerduty.com", description="the REST API; in the EU https://api.eu.pagerduty.com")
    routing_key: Annotated[TrackerSecret, Field(min_length=32, max_length=32)] = Field(
        description="integration key of an Events API v2 integration"
    )
    token: TrackerSecret | None = Field(None, description="read-only REST API key: with it the link and the state come back")
    severity: Literal["critical", "error", "warning", "info"] = Field("error", description="severity of the alert")


@dataclass(frozen=True, slots=True)
class PagerDutyTracker(TrackerBase):
    """Incidents follow their event later, so the link comes with the first poll."""

    name: str
    config: PagerDutyConfig
    wire: TrackerHttpClient
    api: TrackerHttpClient | None
    title_most: int = 1024
    repeatable: bool = True
    settles: timedelta = timedelta()

    @property
    def tells(self) -> bool:
        return self.api is not None

    def list_fields(self, draft: TrackerDraft) -> Mapping[str, str]:
        return {
            "Severity": self.config.severity,
            "Source": self._get_event_source(draft),
            "dedup_key": build_marker(draft.incident),
            "Client": "RackMedic",
        }

    async def find_ticket(self, draft: TrackerDraft, since: datetime) -> RemoteTicket | None:
        """Return None: `dedup_key` joins repeats."""
        return None

    async def create_ticket(self, draft: TrackerDraft) -> RemoteTicket:
        marker = build_marker(draft.incident)
        event = {
            "event_action": "trigger",
            "dedup_key": marker,
            "client": "RackMedic",
            **({"client_url": draft.thread} if draft.thread else {}),
            "payload": {
                "summary": format_outbound_line(draft.title, self.title_most),
                "source": self._get_event_source(draft),
                "severity": self.config.severity,
                "custom_details": {"text": render_plain_text(draft, marker)},
            },
        }
        await self._send_event(event)
        return RemoteTicket(marker, marker)

    async def fetch_status(self, ticket: str, seen: str) -> RemoteStatus | None:
        """Return None also before PagerDuty created the incident."""
        if self.api is None:
            return None
        answer = await self.api.send_request(
            "GET", "/incidents", params={"incident_key": ticket, "date_range": "all", "sort_by": "created_at:desc"}, gone=True
        )
        rows = answer.data.get("incidents") if isinstance(answer.data, dict) else None
        if not isinstance(rows, list) or not rows:
            return None
        row = rows[0]
        state, changed = get_text_at(row, "status"), get_text_at(row, "last_status_change_at")[:60]
        number, url = (
            clean_remote_text(get_text_at(row, "incident_number"), 20),
            filter_remote_url(get_text_at(row, "html_url"), self.config.api_url, SITE_DOMAIN),
        )
        remarks, unread = await read_comments(self._fetch_comments(self.api, row, url)) if self.config.comments else ((), "")
        now = f"{state} {changed} {hash_comments(remarks)}"
        if seen and seen == now and not unread:
            return None
        return RemoteStatus(
            RemoteTicket(ticket, f"#{number}" if number else ticket, url),
            clean_remote_text(state, 60),
            state == "resolved",
            now,
            remarks,
            unread,
        )

    async def _fetch_comments(self, api: TrackerHttpClient, incident: Any, url: str) -> tuple[RemoteComment, ...]:
        """Fetch notes each time, as they do not change the incident's fields."""
        id_ = get_text_at(incident, "id")
        if not re.fullmatch(r"[A-Za-z0-9]{1,40}", id_):
            return ()
        rows = get_rows_at((await api.send_request("GET", f"/incidents/{id_}/notes")).data, "notes")
        notes = (
            (get_text_at(row, "id"), get_text_at(row, "user", "summary"), get_text_at(row, "content"), get_text_at(row, "created_at"))
            for row in rows
        )
        return select_newest(build_comment(*words, url, "note") for words in notes)

    async def close_ticket(self, ticket: str, words: str) -> None:
        """Resolve; the Events API has no comments."""
        if self.config.on_close == "close":
            await self._send_event({"event_action": "resolve", "dedup_key": ticket})

    async def check_access(self) -> str:
        """Check the token only: an event would page someone."""
        if self.api is None:
            return "the routing key is not tried, because that would page a person; without a token neither link nor state comes back"
        await self.api.send_request("GET", "/incidents", params={"limit": "1"})
        return "the token reads incidents; the routing key is not tried, because that would page a person"

    async def _send_event(self, event: Mapping[str, Any]) -> None:
        await self.wire.send_request("POST", "/v2/enqueue", body={"routing_key": self.config.routing_key.get_secret_value(), **event})

    def _get_event_source(self, draft: TrackerDraft) -> str:
        return format_outbound_line(fold_host_names(draft.hosts)) or "RackMedic"


def open_pagerduty(name: str, config: PagerDutyConfig, clock: Clock) -> PagerDutyTracker:
    words, mends = config.label or "PagerDuty", build_fix_hints(name, _FIX_HINTS)
    headers = {"Accept": "application/vnd.pagerduty+json;version=2"}
    token = {"Authorization": f"Token token={config.token.get_secret_value()}"} if config.token else {}
    api = TrackerHttpClient(words, config.api_url, clock, {**headers, **token}, mends, _format_error) if config.token else None
    return PagerDutyTracker(name, config, TrackerHttpClient(words, config.url, clock, {}, mends, _format_error), api)


def _format_error(data: Any) -> str:
    """Return the text; the REST API nests it in `error`."""
    inside = data.get("error") if isinstance(data, dict) and isinstance(data.get("error"), dict) else data
    rows = inside.get("errors") if isinstance(inside, dict) else None
    return "; ".join([get_text_at(inside, "message"), *(str(row)[:200] for row in (rows if isinstance(rows, list) else []))])
