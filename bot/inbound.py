"""HTTP requests and responses as values, routes, size limits and webhook signatures. Pure; imports nothing of `bot`."""

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import AsyncIterable, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Literal

from standardwebhooks import Webhook

# Read a streamed body whole and unmodified, or not at all.

# Ask for no compression: a small compressed answer could fill the memory when unpacked.
IDENTITY_ENCODING_HEADERS: Final = {"Accept-Encoding": "identity"}


async def read_limited_body(pieces: AsyncIterable[bytes], most: int) -> bytes | None:
    """Return all bytes; None if there are more than `most`."""
    read = bytearray()
    async for piece in pieces:
        read += piece
        if len(read) > most:
            return None
    return bytes(read)


# Inbound requests, responses and routes, independent of the HTTP server.


@dataclass(frozen=True, slots=True)
class InboundRequest:
    """A request. Header names may be of any case; `parts` are the path parts that the route names."""

    headers: Mapping[str, str]
    body: bytes
    parts: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class InboundResponse:
    """The response: JSON or text. `after`: seconds before a retry. `why` is for our log only."""

    status: int = 200
    body: Mapping[str, Any] | str = ""
    after: int = 0
    headers: Mapping[str, str] = field(default_factory=dict)
    why: str = field(default="", compare=False)


RequestHandler = Callable[[InboundRequest], Awaitable[InboundResponse]]
HeaderCheck = Callable[[Mapping[str, str]], InboundResponse | None]


def accept_any_headers(headers: Mapping[str, str]) -> InboundResponse | None:
    return None


@dataclass(frozen=True, slots=True)
class InboundRoute:
    """`method path`, where `{name}` is a path part for the handler; at most `most` bytes of a body are read.

    `judge` sees the headers first and may refuse before the body is read. `hear` must check the signature or
    authorisation before anything else; what it answers with 200 is stored.
    """

    path: str
    hear: RequestHandler
    most: int
    judge: HeaderCheck = accept_any_headers
    method: Literal["GET", "POST"] = "POST"


# Sign and verify messages of Standard Webhooks (standardwebhooks.com, version 1). Pure.
#
# The library signs. Its `verify` reads the machine's clock and takes one key, so the time window and the loop over keys
# are here. A body is UTF-8, a repeated message keeps its id, and keys are `whsec_` and base64.

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


class Unsigned(Exception):
    """Not signed by a key that we know, or not now. What was wrong is for our log alone."""


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
    """Raise Unsigned if the headers alone rule a message out, before its body is read."""
    _, at, _ = _parse_headers(headers)
    if not -MAX_CLOCK_SKEW <= now - at <= MAX_CLOCK_SKEW:
        raise Unsigned(CLOCK_SKEW_TEXT)


def _parse_headers(headers: Mapping[str, str]) -> tuple[str, datetime, str]:
    """Return id, time and signatures. Raise Unsigned."""
    id_, timestamp, signature_header = (headers.get(name, "") for name in (ID_HEADER, TIMESTAMP_HEADER, SIGNATURE_HEADER))
    if (
        not _ID_PATTERN.fullmatch(id_)
        or not _TIMESTAMP_PATTERN.fullmatch(timestamp)
        or len(signature_header) > 1000
        or not signature_header.isascii()
    ):
        raise Unsigned("the headers are not those of Standard Webhooks")
    return id_, datetime.fromtimestamp(int(timestamp), UTC), signature_header


def verify_message(keys: Sequence[bytes], headers: Mapping[str, str], body: bytes, now: datetime) -> SignedMessage:
    """Return the message that one of the keys signed. Raise Unsigned. All keys are tried, because keys rotate."""
    id_, at, signature_header = _parse_headers(headers)
    try:
        signatures = [Webhook(key).sign(id_, at, body.decode()).encode() for key in keys or (_DUMMY_KEY,)]
    except UnicodeDecodeError as error:
        raise Unsigned("the body is not UTF-8") from error
    offered = [word.encode() for word in signature_header.split(" ") if word.startswith("v1,")]
    right = [hmac.compare_digest(own_signature, offered_signature) for own_signature in signatures for offered_signature in offered]
    if not (keys and any(right)):
        raise Unsigned("no signature of a key that is known")
    if abs(now - at) > MAX_CLOCK_SKEW:
        raise Unsigned(CLOCK_SKEW_TEXT)
    return SignedMessage(id_, hashlib.sha256(f"{id_}.{headers[TIMESTAMP_HEADER]}".encode()).hexdigest())
