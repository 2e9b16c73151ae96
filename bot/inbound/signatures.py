"""What other products put beside what they send: HMAC-SHA256 over the raw bytes in hex, and bearer tokens. Pure, in constant time."""

import hashlib
import hmac
from collections.abc import Sequence

MOST_HEADER, MOST_OFFERED = 1000, 8
"""Characters of a header, and signatures in it, that are looked at."""


def hex_signature(secret: bytes, body: bytes) -> str:
    """In small letters, as all of them write it."""
    return hmac.new(secret, body, hashlib.sha256).hexdigest()


def hex_signed(secrets: Sequence[bytes], header: str, prefix: str, body: bytes) -> bool:
    """Whether a header holds the signature of one of these secrets: `PREFIX` and hex, several after commas. No secret signs nothing."""
    if len(header) > MOST_HEADER or not header.isascii():
        return False
    words = [word.strip() for word in header.split(",")][:MOST_OFFERED]
    offered = [word.removeprefix(prefix).encode() for word in words if word.startswith(prefix)]
    if not offered:
        return False
    known = [hex_signature(secret, body).encode() for secret in secrets]
    right = [hmac.compare_digest(ours, theirs) for ours in known for theirs in offered]
    return any(right)


def borne(secrets: Sequence[bytes], header: str) -> bool:
    """Whether an Authorization header is `Bearer` and one of these secrets."""
    given = hashlib.sha256(header[: 4 * MOST_HEADER].encode("utf-8", "surrogateescape")).digest()
    right = [hmac.compare_digest(given, hashlib.sha256(b"Bearer " + secret).digest()) for secret in secrets]
    return any(right)
