"""Generic tracker over signed Standard Webhooks, with one `webhook-id` for all retries."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, Field, SecretStr

from bot.inbound import build_signed_headers, parse_webhook_key
from bot.trackers.comments import MAX_FETCHED_COMMENTS, build_comment, get_rows_at, hash_comments, select_newest
from bot.trackers.http import TrackerHttpClient, clean_remote_text, filter_remote_url, get_text_at
from bot.trackers.ticket_draft import TrackerDraft, build_draft_data
from bot.trackers.tracker import RemoteComment, RemoteStatus, RemoteTicket, build_marker
from bot.trackers.tracker_base import TrackerBase, TrackerConfig, TrackerUrl, build_fix_hints
from tools.clock import Clock

OPENED_TYPE = "rackmedic.ticket.opened"
ASKED_TYPE = "rackmedic.ticket.asked"
CLOSED_TYPE = "rackmedic.ticket.closed"
_FIX_HINTS: Final = {
    301: "Check {name}.url: it must answer itself, not send us on",
    400: "The receiver says that the message is none; docs/trackers.md has its shape",
    401: "Check {name}.key on both sides, and both clocks",
    403: "Check {name}.key on both sides, and both clocks",
    404: "Check {name}.url",
}


def _validate_key(secret: SecretStr) -> SecretStr:
    parse_webhook_key(secret.get_secret_value())
    return secret


class WebhookConfig(TrackerConfig):
    """A receiver of a site's own."""

    kind: Literal["webhook"] = Field(description="`webhook`")
    url: TrackerUrl = Field(description="where messages go")
    key: Annotated[SecretStr, AfterValidator(_validate_key)] = Field(description="key that signs them: whsec_$(openssl rand -base64 32)")
    asks: bool = Field(False, description="whether the receiver answers `rackmedic.ticket.asked`; with it the state comes back")


@dataclass(frozen=True, slots=True)
class WebhookTracker(TrackerBase):
    """The receiver may answer `{"id", "shown", "url"}`."""

    name: str
    config: WebhookConfig
    wire: TrackerHttpClient
    title_most: int = 255
    repeatable: bool = True
    settles: timedelta = timedelta()

    @property
    def tells(self) -> bool:
        return self.config.asks

    def list_fields(self, draft: TrackerDraft) -> Mapping[str, str]:
        return {
            "Address": self.config.url,
            "Type": OPENED_TYPE,
            "webhook-id": self._build_message_id(OPENED_TYPE, draft.incident),
            "Hosts": ", ".join(draft.hosts) or "none",
        }

    async def find_ticket(self, draft: TrackerDraft, since: datetime) -> RemoteTicket | None:
        """Return None: `webhook-id` identifies retries."""
        return None

    async def create_ticket(self, draft: TrackerDraft) -> RemoteTicket:
        marker = build_marker(draft.incident)
        answer = await self._post_message(OPENED_TYPE, draft.incident, build_draft_data(draft, marker))
        return self._parse_ticket(answer, marker)

    async def fetch_status(self, ticket: str, seen: str) -> RemoteStatus | None:
        answer = await self._post_message(ASKED_TYPE, f"{ticket} {self.wire.clock.now().timestamp()}", {"id": ticket})
        state, is_done = clean_remote_text(get_text_at(answer, "state"), 60), isinstance(answer, dict) and answer.get("done") is True
        remarks = (
            select_newest(map(self._parse_comment, get_rows_at(answer, "comments")[-2 * MAX_FETCHED_COMMENTS :]))
            if self.config.comments
            else ()
        )
        now = f"{state} {is_done} {hash_comments(remarks)}".strip()
        return RemoteStatus(self._parse_ticket(answer, ticket), state, is_done, now, remarks) if state and now != seen else None

    async def close_ticket(self, ticket: str, words: str) -> None:
        await self._post_message(CLOSED_TYPE, ticket, {"id": ticket, "words": words, "close": self.config.on_close == "close"})

    async def check_access(self) -> str:
        if not self.config.asks:
            return "not tried: a message would make a ticket"
        await self._post_message(ASKED_TYPE, f"tried {self.wire.clock.now().timestamp()}", {"id": ""})
        return "takes our signature"

    async def _post_message(self, type_: str, about: str, data: Mapping[str, object]) -> Any:
        now = self.wire.clock.now()
        body = json.dumps({"type": type_, "timestamp": now.isoformat(), "data": data}).encode()
        headers = build_signed_headers(
            parse_webhook_key(self.config.key.get_secret_value()), self._build_message_id(type_, about), now, body
        )
        return (await self.wire.send_signed_body(body, headers)).data

    def _build_message_id(self, type_: str, about: str) -> str:
        return f"msg_{sha256(f'{self.name} {type_} {about}'.encode()).hexdigest()[:40]}"

    def _parse_comment(self, row: Any) -> RemoteComment | None:
        id_, author, text, at = (get_text_at(row, name) for name in ("id", "by", "text", "at"))
        return build_comment(id_, author, text, at, filter_remote_url(get_text_at(row, "url"), self.config.url))

    def _parse_ticket(self, answer: Any, id_: str) -> RemoteTicket:
        ticket_id = clean_remote_text(get_text_at(answer, "id"), 100) or id_
        return RemoteTicket(
            ticket_id,
            clean_remote_text(get_text_at(answer, "shown"), 60) or ticket_id,
            filter_remote_url(get_text_at(answer, "url"), self.config.url),
        )


def open_webhook(name: str, config: WebhookConfig, clock: Clock) -> WebhookTracker:
    return WebhookTracker(
        name,
        config,
        TrackerHttpClient(
            config.label or "Webhook", config.url, clock, {}, build_fix_hints(name, _FIX_HINTS), lambda data: get_text_at(data, "error")
        ),
    )
