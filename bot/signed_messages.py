"""Sign and verify messages of Standard Webhooks (standardwebhooks.com, version 1).

The library signs. Its `verify` reads the machine's clock and takes one key, so the time window and the loop over keys are
here. A body is UTF-8, a repeated message keeps its id, and keys are `whsec_` and base64.
"""

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from standardwebhooks import Webhook

MAX_CLOCK_SKEW = timedelta(minutes=5)  # Between a message's time and ours.
CLOCK_SKEW_TEXT = f"its time is more than {MAX_CLOCK_SKEW.total_seconds():.0f} seconds from ours"
ID_HEADER = "webhook-id"
TIMESTAMP_HEADER = "webhook-timestamp"
SIGNATURE_HEADER = "webhook-signature"
KEY_PREFIX = "whsec_"
MIN_KEY_BYTES = 24
MAX_KEY_BYTES = 64
_ID_PATTERN = re.compile(r"[A-Za-z0-9_-]{8,80}")
_TIMESTAMP_PATTERN = re.compile(r"[1-9][0-9]{0,10}")  # no leading zeros: one moment has one form, and so one replay id
_DUMMY_KEY = b"0" * 32  # Verifies nothing, so that an unknown sender takes as long as a known one.


class UnsignedMessage(Exception):
    """No known key signed the message, or it is too old. The reason is for our log alone."""


@dataclass(frozen=True, slots=True)
class SignedMessage:
    """A verified message: its id, and the nonce that detects replays."""

    id: str
    nonce: str


def parse_webhook_key(text: str) -> bytes:
    """Return the bytes of a key. Raise ValueError that says what a key looks like."""
    try:
        raw = base64.b64decode(text.removeprefix(KEY_PREFIX), validate=True) if text.startswith(KEY_PREFIX) else b""
    except binascii.Error:
        raw = b""
    if not MIN_KEY_BYTES <= len(raw) <= MAX_KEY_BYTES:
        raise ValueError(
            f"must be {KEY_PREFIX} and {MIN_KEY_BYTES} to {MAX_KEY_BYTES} bytes in base64; make one: echo {KEY_PREFIX}$(openssl rand -base64 32)"
        )
    return raw


def build_signed_headers(key: bytes, id_: str, at: datetime, body: bytes) -> dict[str, str]:
    return {
        ID_HEADER: id_,
        TIMESTAMP_HEADER: str(int(at.timestamp())),
        SIGNATURE_HEADER: Webhook(key).sign(id_, at.astimezone(UTC), body.decode()),
    }


def check_headers(headers: Mapping[str, str], now: datetime) -> None:
    """Raise UnsignedMessage if the headers alone rule a message out, before its body is read."""
    _, at, _ = _parse_headers(headers)
    if not -MAX_CLOCK_SKEW <= now - at <= MAX_CLOCK_SKEW:
        raise UnsignedMessage(CLOCK_SKEW_TEXT)


def _parse_headers(headers: Mapping[str, str]) -> tuple[str, datetime, str]:
    """Return id, time and signatures. Raise UnsignedMessage."""
    id_, timestamp, signature_header = (headers.get(name, "") for name in (ID_HEADER, TIMESTAMP_HEADER, SIGNATURE_HEADER))
    if (
        not _ID_PATTERN.fullmatch(id_)
        or not _TIMESTAMP_PATTERN.fullmatch(timestamp)
        or len(signature_header) > 1000
        or not signature_header.isascii()
    ):
        raise UnsignedMessage("the headers are not those of Standard Webhooks")
    return id_, datetime.fromtimestamp(int(timestamp), UTC), signature_header


def verify_message(keys: Sequence[bytes], headers: Mapping[str, str], body: bytes, now: datetime) -> SignedMessage:
    """Return the message that one of the keys signed. Raise UnsignedMessage. All keys are tried, because keys rotate."""
    id_, at, signature_header = _parse_headers(headers)
    try:
        signatures = [Webhook(key).sign(id_, at, body.decode()).encode() for key in keys or (_DUMMY_KEY,)]
    except UnicodeDecodeError as error:
        raise UnsignedMessage("the body is not UTF-8") from error
    offered = [word.encode() for word in signature_header.split(" ") if word.startswith("v1,")]
    right = [hmac.compare_digest(own_signature, offered_signature) for own_signature in signatures for offered_signature in offered]
    if not (keys and any(right)):
        raise UnsignedMessage("no signature of a key that is known")
    if abs(now - at) > MAX_CLOCK_SKEW:
        raise UnsignedMessage(CLOCK_SKEW_TEXT)
    return SignedMessage(id_, hashlib.sha256(f"{id_}.{headers[TIMESTAMP_HEADER]}".encode()).hexdigest())
