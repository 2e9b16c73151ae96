"""ServiceNow Table API. It does not deduplicate, so `correlation_id` is searched before creation."""

from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Annotated, Any, Final, Literal
from urllib.parse import quote

from pydantic import Field

from bot.trackers.comments import MAX_FETCHED_COMMENTS, build_comment, get_rows_at, select_newest
from bot.trackers.http import TrackerHttpClient, clean_remote_text, get_text_at
from bot.trackers.ticket_draft import TrackerDraft, format_outbound_line, render_plain_text
from bot.trackers.tracker import RemoteComment, RemoteStatus, RemoteTicket, TrackerRefused, TrackerUnavailable, build_marker, read_comments
from bot.trackers.tracker_base import ShortText, TrackerBase, TrackerConfig, TrackerSecret, TrackerUrl, build_fix_hints
from tools.clock import Clock

_FIX_HINTS: Final = {
    301: "Check {name}.url: it must be the instance itself, https://YOU.service-now.com",
    400: "Check {name}.fields: the table refuses a value",
    401: "Check {name}.user and {name}.password; the account needs “web service access”",
    403: "The account of {name}.user needs a role that may write {name}.table (itil), or a data policy wants a field under {name}.fields",
    404: "Check {name}.table and {name}.url",
}
DONE_STATES: Final = frozenset({"6", "7", "8"})  # resolved, closed, cancelled
ROW_FIELDS: Final = "sys_id,number,state,correlation_id,sys_updated_on,sys_mod_count"
JOURNAL_FIELDS: Final = "sys_id,element,value,sys_created_on,sys_created_by"


class ServiceNowConfig(TrackerConfig):
    """A table of a ServiceNow instance."""

    kind: Literal["servicenow"] = Field(description="`servicenow`")
    url: TrackerUrl = Field(description="https://YOU.service-now.com")
    user: ShortText = Field(description="account that makes incidents")
    password: TrackerSecret = Field(description="its password")
    table: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{1,60}$")] = Field("incident", description="table that rows are made in")
    fields: Annotated[dict[str, str], Field(max_length=20)] = Field(
        default_factory=dict, description="further fields, `assignment_group: GPU operations`; shown before it leaves"
    )
    close_code: ShortText = Field("Solution provided", description="`close_code` of a row that is closed with the incident")


@dataclass(frozen=True, slots=True)
class ServiceNowTracker(TrackerBase):
    name: str
    config: ServiceNowConfig
    wire: TrackerHttpClient
    title_most: int = 160
    repeatable: bool = False
    settles: timedelta = timedelta(seconds=30)
    tells: bool = True

    def list_fields(self, draft: TrackerDraft) -> Mapping[str, str]:
        return {
            "Table": self.config.table,
            "correlation_id": build_marker(draft.incident),
            "correlation_display": "RackMedic",
            **self.config.fields,
        }

    async def find_ticket(self, draft: TrackerDraft, since: datetime) -> RemoteTicket | None:
        query = f"correlation_id={build_marker(draft.incident)}^ORDERBYsys_created_on"
        answer = await self.wire.send_request(
            "GET", self._table_path, params={"sysparm_query": query, "sysparm_limit": "2", "sysparm_fields": ROW_FIELDS}
        )
        records = answer.data.get("result") if isinstance(answer.data, dict) else None
        if not isinstance(records, list):
            raise TrackerUnavailable(f"{self.words} answers a search in a shape that is not known")
        return self._parse_ticket(records[0]) if records else None

    async def create_ticket(self, draft: TrackerDraft) -> RemoteTicket:
        """Create and compare: ServiceNow silently ignores unknown and read-only fields."""
        marker = build_marker(draft.incident)
        row = {
            **self.config.fields,
            "short_description": format_outbound_line(draft.title, self.title_most),
            "description": render_plain_text(draft, marker),
            "correlation_id": marker,
            "correlation_display": "RackMedic",
        }
        params = {"sysparm_input_display_value": "true", "sysparm_exclude_reference_link": "true"}
        record = _get_result((await self.wire.send_request("POST", self._table_path, params=params, body=row)).data)
        if get_text_at(record, "correlation_id") != marker:
            raise TrackerRefused(
                f"{self.words} made {clean_remote_text(get_text_at(record, 'number'), 60) or 'a row'} and passed over correlation_id, by which it would be found "
                f"again. Let the account of {self.name}.user write that field of {self.config.table}, and delete the row"
            )
        return self._parse_ticket(record)

    async def fetch_status(self, ticket: str, seen: str) -> RemoteStatus | None:
        params = {"sysparm_fields": ROW_FIELDS, "sysparm_display_value": "all"}
        row = _get_result(
            (await self.wire.send_request("GET", f"{self._table_path}/{quote(ticket, safe='')}", params=params, gone=True)).data
        )
        updated = " ".join(get_text_at(row, field, "value")[:60] for field in ("sys_updated_on", "sys_mod_count")).strip()
        if updated and updated == seen:
            return None
        plain = {field: get_text_at(row, field, "value") for field in ("sys_id", "number")}
        state, code = (get_text_at(row, "state", side) for side in ("display_value", "value"))
        remarks, unread = await read_comments(self._fetch_comments(self._parse_ticket(plain))) if self.config.comments else ((), "")
        return RemoteStatus(self._parse_ticket(plain), clean_remote_text(state, 60), code in DONE_STATES, updated, remarks, unread)

    async def _fetch_comments(self, ticket: RemoteTicket) -> tuple[RemoteComment, ...]:
        """Fetch journal rows; unreadable ones are silently omitted but counted."""
        query = f"name={self.config.table}^element_id={ticket.id}^elementINcomments,work_notes^ORDERBYDESCsys_created_on"
        params = {"sysparm_query": query, "sysparm_limit": str(MAX_FETCHED_COMMENTS), "sysparm_fields": JOURNAL_FIELDS}
        answer = await self.wire.send_request("GET", "/api/now/table/sys_journal_field", params=params)
        rows = get_rows_at(answer.data, "result")
        if not rows and answer.headers.get("x-total-count", "0") != "0":
            raise TrackerRefused(
                f"{self.words} shows no comments to the account of {self.name}.user: let it read sys_journal_field, or set {self.name}.comments: false"
            )
        return select_newest(_parse_comment(row, ticket.url) for row in reversed(rows))

    async def close_ticket(self, ticket: str, words: str) -> None:
        closing = {"state": "6", "close_code": self.config.close_code, "close_notes": words} if self.config.on_close == "close" else {}
        await self.wire.send_request(
            "PATCH", f"{self._table_path}/{quote(ticket, safe='')}", body={"work_notes": words, **closing}, gone=True
        )

    async def check_access(self) -> str:
        await self.wire.send_request("GET", self._table_path, params={"sysparm_limit": "1", "sysparm_fields": "sys_id"})
        return f"table {self.config.table} is readable as {self.config.user}"

    @property
    def _table_path(self) -> str:
        return f"/api/now/table/{self.config.table}"

    def _parse_ticket(self, row: Any) -> RemoteTicket:
        id_, number = get_text_at(row, "sys_id")[:40], clean_remote_text(get_text_at(row, "number"), 60)
        if not id_:
            raise TrackerUnavailable(f"{self.words} answers in a shape that is not known", maybe=True)
        url = f"{self.config.url}/nav_to.do?uri={quote(f'{self.config.table}.do?sys_id={id_}', safe='')}"
        return RemoteTicket(id_, number or id_, url)


def open_servicenow(name: str, config: ServiceNowConfig, clock: Clock) -> ServiceNowTracker:
    basic = b64encode(f"{config.user}:{config.password.get_secret_value()}".encode()).decode()
    wire = TrackerHttpClient(
        config.label or "ServiceNow",
        config.url,
        clock,
        {"Authorization": f"Basic {basic}"},
        build_fix_hints(name, _FIX_HINTS),
        _format_error,
    )
    return ServiceNowTracker(name, config, wire)


def _parse_comment(row: Any, url: str) -> RemoteComment | None:
    kind = "work note" if get_text_at(row, "element") == "work_notes" else "comment"
    return build_comment(
        get_text_at(row, "sys_id"),
        get_text_at(row, "sys_created_by"),
        get_text_at(row, "value"),
        get_text_at(row, "sys_created_on"),
        url,
        kind,
    )


def _get_result(data: Any) -> Any:
    return data.get("result") if isinstance(data, dict) else None


def _format_error(data: Any) -> str:
    return ", ".join(error_text for part in ("message", "detail") if (error_text := get_text_at(data, "error", part)))
