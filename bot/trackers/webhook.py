"""A plain webhook, for every tracker that has no adapter: signed as Standard Webhooks has it, one `webhook-id` however often it is sent."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, Field, SecretStr

from bot.inbound.webhook import key_of, signed_headers
from bot.trackers.config import TrackerConfig, Url, mends_of
from bot.trackers.draft import TrackerDraft, as_data
from bot.trackers.opened import OpenedTracker
from bot.trackers.remarks import FETCHED, newest, remark_of, rows_at, signs_of
from bot.trackers.tracker import RemoteRemark, RemoteStanding, RemoteTicket, marker_of
from bot.trackers.wire import TrackerWire, safe_url, text_at, words_of
from tools.clock import Clock

OPENED, ASKED, CLOSED = "rackmedic.ticket.opened", "rackmedic.ticket.asked", "rackmedic.ticket.closed"
_MENDS: Final = {
    301: "Check {name}.url: it must answer itself, not send us on",
    400: "The receiver says that the message is none; docs/trackers.md has its shape",
    401: "Check {name}.key on both sides, and both clocks",
    403: "Check {name}.key on both sides, and both clocks",
    404: "Check {name}.url",
}


def _key(secret: SecretStr) -> SecretStr:
    key_of(secret.get_secret_value())
    return secret


class WebhookConfig(TrackerConfig):
    """A receiver of a site's own."""

    kind: Literal["webhook"] = Field(description="`webhook`")
    url: Url = Field(description="where messages go")
    key: Annotated[SecretStr, AfterValidator(_key)] = Field(description="key that signs them: whsec_$(openssl rand -base64 32)")
    asks: bool = Field(False, description="whether the receiver answers `rackmedic.ticket.asked`; with it the state comes back")


@dataclass(frozen=True, slots=True)
class WebhookTracker(OpenedTracker):
    """One receiver. It may answer with what it made of the message: `{"id", "shown", "url"}`."""

    name: str
    config: WebhookConfig
    wire: TrackerWire
    title_most: int = 255
    repeatable: bool = True
    settles: timedelta = timedelta()

    @property
    def tells(self) -> bool:
        return self.config.asks

    def fields(self, draft: TrackerDraft) -> Mapping[str, str]:
        return {
            "Address": self.config.url,
            "Type": OPENED,
            "webhook-id": self._id(OPENED, draft.incident),
            "Hosts": ", ".join(draft.hosts) or "none",
        }

    async def find(self, draft: TrackerDraft, since: datetime) -> RemoteTicket | None:
        """What is sent again has the id that it had."""
        return None

    async def create(self, draft: TrackerDraft) -> RemoteTicket:
        marker = marker_of(draft.incident)
        answer = await self._post(OPENED, draft.incident, as_data(draft, marker))
        return self._ticket(answer, marker)

    async def look(self, ticket: str, seen: str) -> RemoteStanding | None:
        answer = await self._post(ASKED, f"{ticket} {self.wire.clock.now().timestamp()}", {"id": ticket})
        state, done = words_of(text_at(answer, "state"), 60), isinstance(answer, dict) and answer.get("done") is True
        remarks = newest(map(self._remark, rows_at(answer, "comments")[-2 * FETCHED :])) if self.config.comments else ()
        now = f"{state} {done} {signs_of(remarks)}".strip()
        return RemoteStanding(self._ticket(answer, ticket), state, done, now, remarks) if state and now != seen else None

    async def close(self, ticket: str, words: str) -> None:
        await self._post(CLOSED, ticket, {"id": ticket, "words": words, "close": self.config.on_close == "close"})

    async def tried(self) -> str:
        if not self.config.asks:
            return "not tried: a message would make a ticket"
        await self._post(ASKED, f"tried {self.wire.clock.now().timestamp()}", {"id": ""})
        return "takes our signature"

    async def _post(self, type_: str, about: str, data: Mapping[str, object]) -> Any:
        now = self.wire.clock.now()
        body = json.dumps({"type": type_, "timestamp": now.isoformat(), "data": data}).encode()
        headers = signed_headers(key_of(self.config.key.get_secret_value()), self._id(type_, about), now, body)
        return (await self.wire.send(body, headers)).data

    def _id(self, type_: str, about: str) -> str:
        return f"msg_{sha256(f'{self.name} {type_} {about}'.encode()).hexdigest()[:40]}"

    def _remark(self, row: Any) -> RemoteRemark | None:
        id_, by, text, at = (text_at(row, name) for name in ("id", "by", "text", "at"))
        return remark_of(id_, by, text, at, safe_url(text_at(row, "url"), self.config.url))

    def _ticket(self, answer: Any, id_: str) -> RemoteTicket:
        theirs = words_of(text_at(answer, "id"), 100) or id_
        return RemoteTicket(theirs, words_of(text_at(answer, "shown"), 60) or theirs, safe_url(text_at(answer, "url"), self.config.url))


def open_webhook(name: str, config: WebhookConfig, clock: Clock) -> WebhookTracker:
    """With the key that signs."""
    return WebhookTracker(
        name,
        config,
        TrackerWire(config.label or "Webhook", config.url, clock, {}, mends_of(name, _MENDS), lambda data: text_at(data, "error")),
    )
