"""Whether Slack signed a request: HMAC-SHA256 over `v0:TIMESTAMP:BODY`, the raw bytes, not more than five minutes off in either direction. Pure.

https://docs.slack.dev/authentication/verifying-requests-from-slack
"""

import hashlib
import hmac
import re
from collections.abc import Mapping
from datetime import datetime

TIMESTAMP, SIGNATURE = "X-Slack-Request-Timestamp", "X-Slack-Signature"
FRESH_SECONDS = 300


class NotSlack(Exception):
    """Not signed with the app's secret, or not now. What was wrong is for our log alone."""


def slack_signature(secret: str, timestamp: str, body: bytes) -> str:
    return "v0=" + hmac.new(secret.encode(), f"v0:{timestamp}:".encode() + body, hashlib.sha256).hexdigest()


def slack_sign(secret: str, headers: Mapping[str, str], body: bytes, now: datetime) -> str:
    """What tells this very request from all others, once its signature holds. Raises NotSlack."""
    timestamp, given = headers.get(TIMESTAMP, ""), headers.get(SIGNATURE, "")
    if not re.fullmatch(r"[0-9]{1,12}", timestamp) or not re.fullmatch(r"v0=[0-9a-f]{64}", given):
        raise NotSlack("the headers are not Slack's")
    if not hmac.compare_digest(slack_signature(secret, timestamp, body), given):
        raise NotSlack("signed with another secret, or another body")
    if abs(now.timestamp() - int(timestamp)) > FRESH_SECONDS:
        raise NotSlack(f"its time is more than {FRESH_SECONDS} seconds from ours")
    return given.removeprefix("v0=")
