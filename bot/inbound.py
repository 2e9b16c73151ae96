"""HTTP requests and responses as values, routes and size limits, independent of the HTTP server."""

from collections.abc import AsyncIterable, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

# Ask for no compression: a small compressed answer could fill the memory when unpacked.
IDENTITY_ENCODING_HEADERS: Final = {"Accept-Encoding": "identity"}


async def read_limited_body(pieces: AsyncIterable[bytes], max_bytes: int) -> bytes | None:
    """Return all bytes. Return None if there are more than `max_bytes`."""
    read = bytearray()
    async for piece in pieces:
        read += piece
        if len(read) > max_bytes:
            return None
    return bytes(read)


@dataclass(frozen=True, slots=True)
class InboundRequest:
    """A request. Header names may be of any case; `parts` are the path parts that the route names."""

    headers: Mapping[str, str]
    body: bytes
    parts: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class InboundResponse:
    """The response: JSON or text. `after`: seconds before a retry. `reason` is for our log only."""

    status: int = 200
    body: Mapping[str, Any] | str = ""
    after: int = 0
    headers: Mapping[str, str] = field(default_factory=dict)
    reason: str = field(default="", compare=False)


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
    max_bytes: int
    judge: HeaderCheck = accept_any_headers
    method: Literal["GET", "POST"] = "POST"
