"""HTTP mode: signed posts to the app's URL, with retries for events and none for clicks.

Follows https://docs.slack.dev/apis/events-api (retries, headers), …/authentication/verifying-requests-from-slack
(signature) and
…/interactivity/handling-user-interaction (`payload` forms, three seconds).
"""

import asyncio
import hashlib
import hmac
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from urllib.parse import urlencode
from uuid import uuid4

from aiohttp import ClientConnectionError, ClientError, ClientResponse, ClientSession

from deploy.sandbox.slack.app.socket_mode import Hub, Kind, SocketDelivery
from deploy.sandbox.slack.workspace.refusal import JSON

JSON_TYPE, FORM_TYPE = "application/json", "application/x-www-form-urlencoded"
VERIFY_INTERVAL_SECONDS = 0.1  # seconds between verification attempts


def build_signature_headers(secret: str, at: float, body: bytes) -> dict[str, str]:
    """Return the timestamp and signature headers."""
    timestamp = str(int(at))
    signature = hmac.new(secret.encode(), f"v0:{timestamp}:".encode() + body, hashlib.sha256).hexdigest()
    return {"X-Slack-Request-Timestamp": timestamp, "X-Slack-Signature": f"v0={signature}"}


def encode_request(kind: Kind, payload: JSON) -> tuple[str, bytes]:
    """Return content type and body: JSON for events, JSON in a form for clicks, a form for commands."""
    if kind == "events_api":
        return JSON_TYPE, json.dumps(payload).encode()
    fields = payload if kind == "slash_commands" else {"payload": json.dumps(payload)}
    return FORM_TYPE, urlencode(fields).encode()


@dataclass
class HttpHub(Hub):
    """Delivery by posts to `url`. `clock_error`: seconds by which the clock is wrong."""

    url: str = ""
    secret: str = ""
    clock: Callable[[], float] = time.time
    clock_error: float = 0.0
    verified: bool = False
    # of each request: (kind and attempt number, status), status 0 for no answer
    statuses: list[tuple[str, int]] = field(default_factory=list)
    _session: ClientSession | None = None

    async def verify(self) -> None:
        """Repeat url_verification until the app answers it."""
        body: JSON = {"token": "sandbox", "type": "url_verification", "challenge": uuid4().hex}
        while True:
            status, answer = await self._post("events_api", body, {})
            if status == 200 and answer == {"challenge": body["challenge"]}:
                break
            await asyncio.sleep(VERIFY_INTERVAL_SECONDS)
        self.verified = True
        self.journal.add("connections", {"connections": 1})

    async def ask(self, kind: Kind, payload: JSON, answerable: bool = False) -> SocketDelivery:
        return await self._send(kind, payload, answerable)

    @property
    def listeners(self) -> int:
        return int(self.verified)

    async def _wait_for_app(self) -> bool:
        """Return true: only a post can tell whether the app listens."""
        return True

    async def _send(self, kind: Kind, payload: JSON, answerable: bool, attempt: int = 0, reason: str = "") -> SocketDelivery:
        retry_headers = {"X-Slack-Retry-Num": str(attempt), "X-Slack-Retry-Reason": reason} if attempt else {}
        key, began = str(uuid4()), time.perf_counter()
        self._awaited[key] = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(self.patience.ack):
                status, answer = await self._post(kind, payload, retry_headers)
        except TimeoutError:
            status, answer, reason = 0, {}, "http_timeout"
        else:
            reason = "http_error" if status else "connection_failed"
            if 200 <= status < 300:
                reason = ""
        finally:
            del self._awaited[key]
            self.journal.wake_waiters()
        self.statuses.append((f"{kind} {attempt}", status))
        if self.drop and not reason:
            self.drop -= 1
            self.counts["dropped"] += 1
            reason = "http_timeout"
        return self._record_result(kind, reason, time.perf_counter() - began, answer, attempt)

    def _record_result(self, kind: Kind, reason: str, seconds: float, answer: JSON, attempt: int) -> SocketDelivery:
        self.counts[kind] += 1
        if reason:
            self.counts["timeouts"] += reason == "http_timeout"
            shown_reason = reason if kind == "events_api" else "timeout"
            return SocketDelivery(acked=False, attempts=attempt + 1, reason=shown_reason)
        self.latencies[kind].append(seconds)
        self.counts["acked"] += 1
        return SocketDelivery(True, seconds, answer, attempt + 1)

    async def _post(self, kind: Kind, payload: JSON, extra_headers: Mapping[str, str]) -> tuple[int, JSON]:
        """Return status and answer; 0 without a connection."""
        content, body = encode_request(kind, payload)
        headers = {
            "Content-Type": content,
            "User-Agent": "Slackbot 1.0",
            **build_signature_headers(self.secret, self.clock() + self.clock_error, body),
            **extra_headers,
        }
        self._session = self._session or ClientSession()
        try:
            async with self._session.post(self.url, data=body, headers=headers, allow_redirects=False) as answer:
                return answer.status, await _read_answer(answer)
        except (ClientConnectionError, ClientError):
            return 0, {}

    async def close(self) -> None:
        await super().close()
        if self._session:
            await self._session.close()


async def _read_answer(answer: ClientResponse) -> JSON:
    """Return a JSON answer; plain text becomes {"text": …}."""
    text = await answer.text()
    try:
        answer_body = json.loads(text)
    except ValueError:
        return {"text": text} if text else {}
    return answer_body if isinstance(answer_body, dict) else {}
