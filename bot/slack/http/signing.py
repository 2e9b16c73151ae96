"""Verify that Slack signed a request. Pure.

https://docs.slack.dev/authentication/verifying-requests-from-slack
"""

import re
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Final

from slack_sdk.signature import Clock, SignatureVerifier

TIMESTAMP_HEADER, SIGNATURE_HEADER = "X-Slack-Request-Timestamp", "X-Slack-Signature"
MAX_CLOCK_SKEW: Final = timedelta(minutes=5)


class NotSlack(Exception):
    """Not signed with the app's secret, or not now. What was wrong is for our log alone."""


class FixedClock(Clock):
    """The request's time, for the verifier's window of ±5 minutes."""

    def __init__(self, at: datetime) -> None:
        self._at = at

    def now(self) -> float:
        return self._at.timestamp()


def check_signature_headers(headers: Mapping[str, str], now: datetime) -> tuple[str, str]:
    """Return timestamp and signature, before the body is read. Raises NotSlack."""
    timestamp, given = _parse_signature_headers(headers)
    if abs(now.timestamp() - int(timestamp)) > MAX_CLOCK_SKEW.total_seconds():
        raise NotSlack("more than five minutes from our time")
    return timestamp, given


def _parse_signature_headers(headers: Mapping[str, str]) -> tuple[str, str]:
    timestamp, given = headers.get(TIMESTAMP_HEADER, ""), headers.get(SIGNATURE_HEADER, "")
    if not re.fullmatch(r"[0-9]{1,12}", timestamp) or not re.fullmatch(r"v0=[0-9a-f]{64}", given):
        raise NotSlack("the headers are not Slack's")
    return timestamp, given


def verify_signature(secret: str, headers: Mapping[str, str], body: bytes, now: datetime) -> str:
    """Return the request's replay id, which is its signature. Raises NotSlack."""
    timestamp, given = _parse_signature_headers(headers)
    try:
        signed = SignatureVerifier(secret, FixedClock(now)).is_valid(body, timestamp, given)
    except ValueError as error:  # the body is not UTF-8, or the secret is blank
        raise NotSlack(str(error)) from error
    if not signed:
        raise NotSlack("another secret, another body, or more than five minutes from our time")
    return given.removeprefix("v0=")
