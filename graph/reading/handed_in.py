"""One text that people handed in: its facts, and its templates where it is a long log. Pure, and of a large text not for the event loop."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from graph.reading.logs import read_log
from graph.reading.pasted import Pasted, read_pasted
from graph.state import LogDigest
from tools.checks.row import Check


@dataclass(frozen=True, slots=True)
class HandedIn:
    """What was read of it."""

    pasted: Pasted
    digest: LogDigest | None = None


class Reader(Protocol):
    """Reads a text without holding up the loop; None where it takes longer than anybody would wait for."""

    async def __call__(self, name: str, sha256: str, text: str, now: datetime) -> HandedIn | None: ...


def read_handed_in(name: str, sha256: str, text: str, now: datetime, checks: Mapping[str, Check]) -> HandedIn:
    """All of it."""
    return HandedIn(read_pasted(text, checks), read_log(name, sha256, text, now))
