"""ServiceNow, Table API: a row of `incident` whose `correlation_id` is ours. The table takes the same twice, so that field is looked for first."""

from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Annotated, Any, Final, Literal
from urllib.parse import quote

from pydantic import Field

from bot.trackers.config import Name, Secret, TrackerConfig, Url, mends_of
from bot.trackers.draft import TrackerDraft, one_line, plain_text
from bot.trackers.opened import OpenedTracker
from bot.trackers.remarks import FETCHED, newest, remark_of, rows_at
from bot.trackers.tracker import RemoteRemark, RemoteStanding, RemoteTicket, TrackerAway, TrackerRefused, marker_of, read_remarks
from bot.trackers.wire import TrackerWire, text_at, words_of
from tools.clock import Clock

_MENDS: Final = {
    301: "Check {name}.url: it must be the instance itself, https://YOU.service-now.com",
    400: "Check {name}.fields: the table refuses a value",
    401: "Check {name}.user and {name}.password; the account needs “web service access”",
    403: "The account of {name}.user needs a role that may write {name}.table (itil), or a data policy wants a field under {name}.fields",
    404: "Check {name}.table and {name}.url",
}
DONE: Final = frozenset({"6", "7", "8"})
"""Resolved, closed, cancelled."""
SHOWN: Final = "sys_id,number,state,correlation_id,sys_updated_on,sys_mod_count"
JOURNAL: Final = "sys_id,element,value,sys_created_on,sys_created_by"


class ServiceNowConfig(TrackerConfig):
    """A table of a ServiceNow instance."""

    kind: Literal["servicenow"] = Field(description="`servicenow`")
    url: Url = Field(description="https://YOU.service-now.com")
    user: Name = Field(description="account that makes incidents")
    password: Secret = Field(description="its password")
    table: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{1,60}$")] = Field("incident", description="table that rows are made in")
    fields: Annotated[dict[str, str], Field(max_length=20)] = Field(
        default_factory=dict, description="further fields, `assignment_group: GPU operations`; shown before it leaves"
    )
    close_code: Name = Field("Solution provided", description="`close_code` of a row that is closed with the incident")


@dataclass(frozen=True, slots=True)
class ServiceNowTracker(OpenedTracker):
    """One table."""

    name: str
    config: ServiceNowConfig
    wire: TrackerWire
    title_most: int = 160
    repeatable: bool = False
    settles: timedelta = timedelta(seconds=30)
    tells: bool = True

    def fields(self, draft: TrackerDraft) -> Mapping[str, str]:
        return {
            "Table": self.config.table,
            "correlation_id": marker_of(draft.incident),
            "correlation_display": "RackMedic",
            **self.config.fields,
        }

    async def find(self, draft: TrackerDraft, since: datetime) -> RemoteTicket | None:
        query = f"correlation_id={marker_of(draft.incident)}^ORDERBYsys_created_on"
        answer = await self.wire.ask("GET", self._table, params={"sysparm_query": query, "sysparm_limit": "2", "sysparm_fields": SHOWN})
        found = answer.data.get("result") if isinstance(answer.data, dict) else None
        if not isinstance(found, list):
            raise TrackerAway(f"{self.words} answers a search in a shape that is not known")
        return self._ticket(found[0]) if found else None

    async def create(self, draft: TrackerDraft) -> RemoteTicket:
        """ServiceNow passes over fields that a table has not and those that we may not write, so what came back is compared."""
        marker = marker_of(draft.incident)
        row = {
            **self.config.fields,
            "short_description": one_line(draft.title, self.title_most),
            "description": plain_text(draft, marker),
            "correlation_id": marker,
            "correlation_display": "RackMedic",
        }
        params = {"sysparm_input_display_value": "true", "sysparm_exclude_reference_link": "true"}
        made = _row((await self.wire.ask("POST", self._table, params=params, body=row)).data)
        if text_at(made, "correlation_id") != marker:
            raise TrackerRefused(
                f"{self.words} made {words_of(text_at(made, 'number'), 60) or 'a row'} and passed over correlation_id, by which it would be found "
                f"again. Let the account of {self.name}.user write that field of {self.config.table}, and delete the row"
            )
        return self._ticket(made)

    async def look(self, ticket: str, seen: str) -> RemoteStanding | None:
        params = {"sysparm_fields": SHOWN, "sysparm_display_value": "all"}
        row = _row((await self.wire.ask("GET", f"{self._table}/{quote(ticket, safe='')}", params=params, gone=True)).data)
        updated = " ".join(text_at(row, field, "value")[:60] for field in ("sys_updated_on", "sys_mod_count")).strip()
        if updated and updated == seen:
            return None
        plain = {field: text_at(row, field, "value") for field in ("sys_id", "number")}
        state, code = (text_at(row, "state", side) for side in ("display_value", "value"))
        remarks, unread = await read_remarks(self._remarks(self._ticket(plain))) if self.config.comments else ((), "")
        return RemoteStanding(self._ticket(plain), words_of(state, 60), code in DONE, updated, remarks, unread)

    async def _remarks(self, ticket: RemoteTicket) -> tuple[RemoteRemark, ...]:
        """Rows of the journal. ServiceNow leaves out in silence those that we may not read, and counts them all the same."""
        query = f"name={self.config.table}^element_id={ticket.id}^elementINcomments,work_notes^ORDERBYDESCsys_created_on"
        params = {"sysparm_query": query, "sysparm_limit": str(FETCHED), "sysparm_fields": JOURNAL}
        answer = await self.wire.ask("GET", "/api/now/table/sys_journal_field", params=params)
        rows = rows_at(answer.data, "result")
        if not rows and answer.headers.get("x-total-count", "0") != "0":
            raise TrackerRefused(
                f"{self.words} shows no comments to the account of {self.name}.user: let it read sys_journal_field, or set {self.name}.comments: false"
            )
        return newest(_remark(row, ticket.url) for row in reversed(rows))

    async def close(self, ticket: str, words: str) -> None:
        closing = {"state": "6", "close_code": self.config.close_code, "close_notes": words} if self.config.on_close == "close" else {}
        await self.wire.ask("PATCH", f"{self._table}/{quote(ticket, safe='')}", body={"work_notes": words, **closing}, gone=True)

    async def tried(self) -> str:
        await self.wire.ask("GET", self._table, params={"sysparm_limit": "1", "sysparm_fields": "sys_id"})
        return f"table {self.config.table} is readable as {self.config.user}"

    @property
    def _table(self) -> str:
        return f"/api/now/table/{self.config.table}"

    def _ticket(self, row: Any) -> RemoteTicket:
        id_, number = text_at(row, "sys_id")[:40], words_of(text_at(row, "number"), 60)
        if not id_:
            raise TrackerAway(f"{self.words} answers in a shape that is not known", maybe=True)
        url = f"{self.config.url}/nav_to.do?uri={quote(f'{self.config.table}.do?sys_id={id_}', safe='')}"
        return RemoteTicket(id_, number or id_, url)


def open_servicenow(name: str, config: ServiceNowConfig, clock: Clock) -> ServiceNowTracker:
    """With what its password opens."""
    basic = b64encode(f"{config.user}:{config.password.get_secret_value()}".encode()).decode()
    wire = TrackerWire(config.label or "ServiceNow", config.url, clock, {"Authorization": f"Basic {basic}"}, mends_of(name, _MENDS), _why)
    return ServiceNowTracker(name, config, wire)


def _remark(row: Any, url: str) -> RemoteRemark | None:
    kind = "work note" if text_at(row, "element") == "work_notes" else "comment"
    return remark_of(
        text_at(row, "sys_id"), text_at(row, "sys_created_by"), text_at(row, "value"), text_at(row, "sys_created_on"), url, kind
    )


def _row(data: Any) -> Any:
    return data.get("result") if isinstance(data, dict) else None


def _why(data: Any) -> str:
    return ", ".join(said for part in ("message", "detail") if (said := text_at(data, "error", part)))
