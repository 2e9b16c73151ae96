"""A request as a room hears it, its answer, and the routes that a room has. No room knows the server."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal


@dataclass(frozen=True, slots=True)
class InboundRequest:
    """What somebody sent, whole: the body as its bytes, the headers by names in any case, the parts of the path that the route names."""

    headers: Mapping[str, str]
    body: bytes
    parts: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class InboundResponse:
    """What the client is told: JSON, or a text. `after`: not again before so many seconds. `why` it is refused is for our log alone."""

    status: int = 200
    body: Mapping[str, Any] | str = ""
    after: int = 0
    headers: Mapping[str, str] = field(default_factory=dict)
    why: str = field(default="", compare=False)


RequestHandler = Callable[[InboundRequest], Awaitable[InboundResponse]]
HeaderCheck = Callable[[Mapping[str, str]], InboundResponse | None]


def accept_any_headers(headers: Mapping[str, str]) -> InboundResponse | None:
    """Let every head pass."""
    return None


@dataclass(frozen=True, slots=True)
class InboundRoute:
    """`POST path` (or GET), where `{name}` is a part that is handed on; `most` bytes of a body are read. `judge` sees the headers before any of the
    body is read, and answers what they alone rule out. Whoever hears judges who sends, before anything else: nothing that is not signed or
    authorised has an effect, and what is answered 200 is stored."""

    path: str
    hear: RequestHandler
    most: int
    judge: HeaderCheck = accept_any_headers
    method: Literal["GET", "POST"] = "POST"
