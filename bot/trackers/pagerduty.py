"""PagerDuty: an alert event whose `dedup_key` is ours, so that the same sent again is one incident; its state by the REST API where a token is given."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Annotated, Any, Final, Literal

from pydantic import Field

from bot.trackers.config import Secret, TrackerConfig, Url, mends_of
from bot.trackers.draft import TrackerDraft, one_line, plain_text
from bot.trackers.opened import OpenedTracker
from bot.trackers.remarks import newest, remark_of, rows_at, signs_of
from bot.trackers.tracker import RemoteRemark, RemoteStanding, RemoteTicket, marker_of, read_remarks
from bot.trackers.wire import TrackerWire, safe_url, text_at, words_of
from tools.clock import Clock
from tools.inventory.ranges import fold

_MENDS: Final = {
    301: "Check {name}.url",
    400: "Check {name}.routing_key: PagerDuty takes 32 characters of an Events API v2 integration that is on",
    401: "Check {name}.token: PagerDuty → Integrations → API Access Keys",
    403: "The key of {name}.token may not read incidents",
    404: "Check {name}.api_url",
}

SITES: Final = "pagerduty.com"
"""Every customer of theirs has a site below it."""


class PagerDutyConfig(TrackerConfig):
    """A service."""

    kind: Literal["pagerduty"] = Field(description="`pagerduty`")
    url: Url = Field("https://events.pagerduty.com", description="where events go; in the EU https://events.eu.pagerduty.com")
    api_url: Url = Field("https://api.pagerduty.com", description="the REST API; in the EU https://api.eu.pagerduty.com")
    routing_key: Annotated[Secret, Field(min_length=32, max_length=32)] = Field(
        description="integration key of an Events API v2 integration"
    )
    token: Secret | None = Field(None, description="read-only REST API key: with it the link and the state come back")
    severity: Literal["critical", "error", "warning", "info"] = Field("error", description="severity of the alert")


@dataclass(frozen=True, slots=True)
class PagerDutyTracker(OpenedTracker):
    """One service. The event is taken before its incident is made, so the link comes with the first look."""

    name: str
    config: PagerDutyConfig
    wire: TrackerWire
    api: TrackerWire | None
    title_most: int = 1024
    repeatable: bool = True
    settles: timedelta = timedelta()

    @property
    def tells(self) -> bool:
        return self.api is not None

    def fields(self, draft: TrackerDraft) -> Mapping[str, str]:
        return {
            "Severity": self.config.severity,
            "Source": self._source(draft),
            "dedup_key": marker_of(draft.incident),
            "Client": "RackMedic",
        }

    async def find(self, draft: TrackerDraft, since: datetime) -> RemoteTicket | None:
        """What is sent again joins what is there, by its key."""
        return None

    async def create(self, draft: TrackerDraft) -> RemoteTicket:
        marker = marker_of(draft.incident)
        event = {
            "event_action": "trigger",
            "dedup_key": marker,
            "client": "RackMedic",
            **({"client_url": draft.thread} if draft.thread else {}),
            "payload": {
                "summary": one_line(draft.title, self.title_most),
                "source": self._source(draft),
                "severity": self.config.severity,
                "custom_details": {"text": plain_text(draft, marker)},
            },
        }
        await self._send(event)
        return RemoteTicket(marker, marker)

    async def look(self, ticket: str, seen: str) -> RemoteStanding | None:
        """None as well while PagerDuty has made no incident of the event yet."""
        if self.api is None:
            return None
        answer = await self.api.ask(
            "GET", "/incidents", params={"incident_key": ticket, "date_range": "all", "sort_by": "created_at:desc"}, gone=True
        )
        rows = answer.data.get("incidents") if isinstance(answer.data, dict) else None
        if not isinstance(rows, list) or not rows:
            return None
        row = rows[0]
        state, changed = text_at(row, "status"), text_at(row, "last_status_change_at")[:60]
        number, url = words_of(text_at(row, "incident_number"), 20), safe_url(text_at(row, "html_url"), self.config.api_url, SITES)
        remarks, unread = await read_remarks(self._remarks(self.api, row, url)) if self.config.comments else ((), "")
        now = f"{state} {changed} {signs_of(remarks)}"
        if seen and seen == now and not unread:
            return None
        return RemoteStanding(
            RemoteTicket(ticket, f"#{number}" if number else ticket, url),
            words_of(state, 60),
            state == "resolved",
            now,
            remarks,
            unread,
        )

    async def _remarks(self, api: TrackerWire, incident: Any, url: str) -> tuple[RemoteRemark, ...]:
        """A note changes nothing that an incident says of itself, so notes are asked for each time."""
        id_ = text_at(incident, "id")
        if not re.fullmatch(r"[A-Za-z0-9]{1,40}", id_):
            return ()
        rows = rows_at((await api.ask("GET", f"/incidents/{id_}/notes")).data, "notes")
        said = ((text_at(row, "id"), text_at(row, "user", "summary"), text_at(row, "content"), text_at(row, "created_at")) for row in rows)
        return newest(remark_of(*words, url, "note") for words in said)

    async def close(self, ticket: str, words: str) -> None:
        """The Events API has no comments; closing there is resolving."""
        if self.config.on_close == "close":
            await self._send({"event_action": "resolve", "dedup_key": ticket})

    async def tried(self) -> str:
        """An event would page somebody, so the routing key is not tried."""
        if self.api is None:
            return "the routing key is not tried, for that would page somebody; without a token neither link nor state comes back"
        await self.api.ask("GET", "/incidents", params={"limit": "1"})
        return "the token reads incidents; the routing key is not tried, for that would page somebody"

    async def _send(self, event: Mapping[str, Any]) -> None:
        await self.wire.ask("POST", "/v2/enqueue", body={"routing_key": self.config.routing_key.get_secret_value(), **event})

    def _source(self, draft: TrackerDraft) -> str:
        return one_line(fold(draft.hosts)) or "RackMedic"


def open_pagerduty(name: str, config: PagerDutyConfig, clock: Clock) -> PagerDutyTracker:
    """With what its keys open."""
    words, mends = config.label or "PagerDuty", mends_of(name, _MENDS)
    headers = {"Accept": "application/vnd.pagerduty+json;version=2"}
    token = {"Authorization": f"Token token={config.token.get_secret_value()}"} if config.token else {}
    api = TrackerWire(words, config.api_url, clock, {**headers, **token}, mends, _why) if config.token else None
    return PagerDutyTracker(name, config, TrackerWire(words, config.url, clock, {}, mends, _why), api)


def _why(data: Any) -> str:
    """Of the Events API `message` and a list of `errors`; of the REST API the same within `error`."""
    inside = data.get("error") if isinstance(data, dict) and isinstance(data.get("error"), dict) else data
    rows = inside.get("errors") if isinstance(inside, dict) else None
    return "; ".join([text_at(inside, "message"), *(str(row)[:200] for row in (rows if isinstance(rows, list) else []))])
