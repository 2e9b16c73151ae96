"""Verify that Slack signed a request, and deliver it once. A request that was not stored gets no 200, so that Slack resends it.

https://docs.slack.dev/authentication/verifying-requests-from-slack
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Final
from urllib.parse import parse_qs

from slack_bolt.async_app import AsyncApp
from slack_bolt.request.async_request import AsyncBoltRequest
from slack_bolt.response import BoltResponse
from slack_sdk.signature import Clock as SlackClock
from slack_sdk.signature import SignatureVerifier

from bot.inbound import InboundRequest, InboundResponse, InboundRoute
from bot.store.replay_guard import ReplayGuard, ReplayState
from tools.clock import Clock

EVENTS_PATH, MAX_BODY_BYTES, MAX_FORM_FIELDS = "/slack/events", 1 << 20, 64
UNAUTHENTICATED = InboundResponse(401, {"error": "not signed by Slack for this app, or not now"})
REQUEST_IN_PROGRESS = InboundResponse(503, {"error": "this request is already being processed"}, after=1)
ACKNOWLEDGED = InboundResponse(200, "")
TIMESTAMP_HEADER, SIGNATURE_HEADER = "X-Slack-Request-Timestamp", "X-Slack-Signature"
MAX_CLOCK_SKEW: Final = timedelta(minutes=5)


class NotSlack(Exception):
    """The request is not signed with the app's secret, or not within the last minutes. The text is for our log only."""


class FixedClock(SlackClock):
    """A clock that stands at the arrival of a request. The verifier accepts signatures within five minutes of that time."""

    def __init__(self, at: datetime) -> None:
        self._at = at

    def now(self) -> float:
        return self._at.timestamp()


class NotAcknowledged(Exception):
    """The request was not stored. Slack sends it again."""

    def __init__(self, answer: InboundResponse) -> None:
        super().__init__(f"status {answer.status}")
        self.answer = answer


@dataclass(frozen=True, slots=True)
class SlackEventsEndpoint:
    """Serves the one path to which Slack posts events, clicks, forms and commands."""

    app: AsyncApp
    secret: str
    replay_guard: ReplayGuard
    clock: Clock

    @property
    def routes(self) -> Sequence[InboundRoute]:
        return (InboundRoute(EVENTS_PATH, self.handle_request, MAX_BODY_BYTES, self.check_headers),)

    def check_headers(self, headers: Mapping[str, str]) -> InboundResponse | None:
        try:
            check_signature_headers(headers, self.clock.now())
        except NotSlack as error:
            return replace(UNAUTHENTICATED, reason=str(error))
        return None

    async def handle_request(self, request: InboundRequest) -> InboundResponse:
        try:
            replay_id = verify_signature(self.secret, request.headers, request.body, self.clock.now())
        except NotSlack as error:
            return replace(UNAUTHENTICATED, reason=str(error))
        try:
            async with self.replay_guard.guard_message("slack", replay_id) as replay_state:
                if replay_state is ReplayState.FIRST:
                    return await self._dispatch_request(request)
                return ACKNOWLEDGED if replay_state is ReplayState.DONE else REQUEST_IN_PROGRESS
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


def parse_payload(content_type: str, body: bytes) -> Mapping[str, Any] | None:
    """Parse a request body. Return None if it is neither JSON nor a form.

    Slack sends events as JSON, clicks and modals as a form with JSON in `payload`, and commands as a form.
    """
    try:
        if content_type.partition(";")[0].strip().lower() == "application/json":
            payload = json.loads(body)
        else:
            fields = parse_qs(body.decode(), keep_blank_values=True, max_num_fields=MAX_FORM_FIELDS)
            form = {name: values[0] for name, values in fields.items()}
            payload = json.loads(form["payload"]) if "payload" in form else form
    except (ValueError, RecursionError):
        return None
    return payload if isinstance(payload, dict) and payload else None


def check_signature_headers(headers: Mapping[str, str], now: datetime) -> tuple[str, str]:
    """Return timestamp and signature. Called before the body is read. Raises NotSlack if a header is wrong or too old."""
    timestamp, signature = _parse_signature_headers(headers)
    if abs(now.timestamp() - int(timestamp)) > MAX_CLOCK_SKEW.total_seconds():
        raise NotSlack("more than five minutes from our time")
    return timestamp, signature


def verify_signature(secret: str, headers: Mapping[str, str], body: bytes, now: datetime) -> str:
    """Return the request's replay id, which is its signature. Raises NotSlack if the signature is wrong."""
    timestamp, signature = _parse_signature_headers(headers)
    try:
        is_signed = SignatureVerifier(secret, FixedClock(now)).is_valid(body, timestamp, signature)
    except ValueError as error:  # the body is not UTF-8, or the secret is blank
        raise NotSlack(str(error)) from error
    if not is_signed:
        raise NotSlack("another secret, another body, or more than five minutes from our time")
    return signature.removeprefix("v0=")


def _convert_response(response: BoltResponse) -> InboundResponse:
    body: str = response.body or ""
    return InboundResponse(response.status, json.loads(body) if body.startswith("{") else body)


def _parse_signature_headers(headers: Mapping[str, str]) -> tuple[str, str]:
    timestamp, signature = headers.get(TIMESTAMP_HEADER, ""), headers.get(SIGNATURE_HEADER, "")
    if not re.fullmatch(r"[0-9]{1,12}", timestamp) or not re.fullmatch(r"v0=[0-9a-f]{64}", signature):
        raise NotSlack("the headers are not Slack's")
    return timestamp, signature
