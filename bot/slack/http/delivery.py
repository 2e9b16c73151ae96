"""Slack's requests → the listeners, each signed request once. What could not be stored is not answered 200, so that Slack sends it again."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import parse_qs

from slack_bolt.async_app import AsyncApp
from slack_bolt.request.async_request import AsyncBoltRequest
from slack_bolt.response import BoltResponse

from bot.inbound.routes import InboundAnswer, InboundRequest, InboundRoute
from bot.slack.http.signing import NotSlack, slack_head, slack_sign
from bot.store.heard import HeardOnce, Hearing
from tools.clock import Clock

PATH, MOST_BODY, MOST_FIELDS = "/slack/events", 1 << 20, 64
STRANGER = InboundAnswer(401, {"error": "not signed by Slack for this app, or not now"})
BEING_HEARD = InboundAnswer(503, {"error": "this very request is being heard"}, after=1)
ACKNOWLEDGED = InboundAnswer(200, "")


class NotAcknowledged(Exception):
    """It was not stored: the same request may come again."""

    def __init__(self, answer: InboundAnswer) -> None:
        super().__init__(f"status {answer.status}")
        self.answer = answer


@dataclass(frozen=True, slots=True)
class SlackRequests:
    """Events, clicks, forms and commands come to one path."""

    app: AsyncApp
    secret: str
    heard: HeardOnce
    clock: Clock

    @property
    def routes(self) -> Sequence[InboundRoute]:
        return (InboundRoute(PATH, self.hear, MOST_BODY, self.judge),)

    def judge(self, headers: Mapping[str, str]) -> InboundAnswer | None:
        """Refuse what is not Slack's by its headers alone."""
        try:
            slack_head(headers, self.clock.now())
        except NotSlack as why:
            return replace(STRANGER, why=str(why))
        return None

    async def hear(self, request: InboundRequest) -> InboundAnswer:
        try:
            sign = slack_sign(self.secret, request.headers, request.body, self.clock.now())
        except NotSlack as why:
            return replace(STRANGER, why=str(why))
        try:
            async with self.heard.hearing("slack", sign) as what:
                if what is Hearing.FIRST:
                    return await self._first(request)
                return ACKNOWLEDGED if what is Hearing.BEFORE else BEING_HEARD
        except NotAcknowledged as why:
            return why.answer

    async def _first(self, request: InboundRequest) -> InboundAnswer:
        payload = read_payload(request.headers.get("Content-Type", ""), request.body)
        if payload is None:
            return InboundAnswer(400, {"error": "neither JSON nor a form"})
        if payload.get("type") == "url_verification":
            return InboundAnswer(200, {"challenge": str(payload.get("challenge", ""))[:200]})
        if payload.get("ssl_check"):
            return ACKNOWLEDGED
        answer = _answer(await self.app.async_dispatch(AsyncBoltRequest(body=dict(payload), mode="socket_mode")))
        if answer.status >= 500:
            raise NotAcknowledged(answer)
        return answer


def read_payload(kind: str, body: bytes) -> Mapping[str, Any] | None:
    """Events are JSON; clicks and forms are a form whose `payload` is JSON; commands are a form. None for what is neither."""
    try:
        if kind.partition(";")[0].strip().lower() == "application/json":
            said = json.loads(body)
        else:
            fields = parse_qs(body.decode(), keep_blank_values=True, max_num_fields=MOST_FIELDS)
            form = {name: values[0] for name, values in fields.items()}
            said = json.loads(form["payload"]) if "payload" in form else form
    except (ValueError, RecursionError):
        return None
    return said if isinstance(said, dict) and said else None


def _answer(said: BoltResponse) -> InboundAnswer:
    """What a listener answers; an answer with words is JSON."""
    body: str = said.body or ""
    return InboundAnswer(said.status, json.loads(body) if body.startswith("{") else body)
