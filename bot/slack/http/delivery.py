"""Deliver signed Slack requests, each once. An unstored request gets no 200, so that Slack resends it."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import parse_qs

from slack_bolt.async_app import AsyncApp
from slack_bolt.request.async_request import AsyncBoltRequest
from slack_bolt.response import BoltResponse

from bot.inbound import InboundRequest, InboundResponse, InboundRoute
from bot.slack.http.signing import NotSlack, check_signature_headers, verify_signature
from bot.store.replay_guard import ReplayGuard, ReplayState
from tools.clock import Clock

EVENTS_PATH, MAX_BODY_BYTES, MAX_FORM_FIELDS = "/slack/events", 1 << 20, 64
UNAUTHENTICATED = InboundResponse(401, {"error": "not signed by Slack for this app, or not now"})
REQUEST_IN_PROGRESS = InboundResponse(503, {"error": "this request is already being processed"}, after=1)
ACKNOWLEDGED = InboundResponse(200, "")


class NotAcknowledged(Exception):
    """It was not stored: the same request may come again."""

    def __init__(self, answer: InboundResponse) -> None:
        super().__init__(f"status {answer.status}")
        self.answer = answer


@dataclass(frozen=True, slots=True)
class SlackEventsEndpoint:
    """One path for events, clicks, forms and commands."""

    app: AsyncApp
    secret: str
    heard: ReplayGuard
    clock: Clock

    @property
    def routes(self) -> Sequence[InboundRoute]:
        return (InboundRoute(EVENTS_PATH, self.handle_request, MAX_BODY_BYTES, self.check_headers),)

    def check_headers(self, headers: Mapping[str, str]) -> InboundResponse | None:
        try:
            check_signature_headers(headers, self.clock.now())
        except NotSlack as error:
            return replace(UNAUTHENTICATED, why=str(error))
        return None

    async def handle_request(self, request: InboundRequest) -> InboundResponse:
        try:
            sign = verify_signature(self.secret, request.headers, request.body, self.clock.now())
        except NotSlack as error:
            return replace(UNAUTHENTICATED, why=str(error))
        try:
            async with self.heard.guard_message("slack", sign) as what:
                if what is ReplayState.FIRST:
                    return await self._dispatch_request(request)
                return ACKNOWLEDGED if what is ReplayState.BEFORE else REQUEST_IN_PROGRESS
        except NotAcknowledged as error:
            return error.answer

    async def _dispatch_request(self, request: InboundRequest) -> InboundResponse:
        payload = parse_payload(request.headers.get("Content-Type", ""), request.body)
        if payload is None:
            return InboundResponse(400, {"error": "neither JSON nor a form"})
        if payload.get("type") == "url_verification":
            return InboundResponse(200, {"challenge": str(payload.get("challenge", ""))[:200]})
        if payload.get("ssl_check"):
            return ACKNOWLEDGED
        answer = _convert_response(await self.app.async_dispatch(AsyncBoltRequest(body=dict(payload), mode="socket_mode")))
        if answer.status >= 500:
            raise NotAcknowledged(answer)
        return answer


def parse_payload(kind: str, body: bytes) -> Mapping[str, Any] | None:
    """Parse JSON (events), a form with JSON in `payload` (clicks, modals), or a form (commands); else None."""
    try:
        if kind.partition(";")[0].strip().lower() == "application/json":
            said = json.loads(body)
        else:
            fields = parse_qs(body.decode(), keep_blank_values=True, max_num_fields=MAX_FORM_FIELDS)
            form = {name: values[0] for name, values in fields.items()}
            said = json.loads(form["payload"]) if "payload" in form else form
    except (ValueError, RecursionError):
        return None
    return said if isinstance(said, dict) and said else None


def _convert_response(said: BoltResponse) -> InboundResponse:
    body: str = said.body or ""
    return InboundResponse(said.status, json.loads(body) if body.startswith("{") else body)
