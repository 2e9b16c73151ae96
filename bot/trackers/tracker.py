"""What every tracker can do, whichever product it is, and the ways in which it can fail."""

from collections.abc import Awaitable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Literal, Protocol

from bot.trackers.ticket_draft import TrackerDraft

OnClose = Literal["nothing", "comment", "close"]
MARKER_PREFIX, OWN_COMMENT_PREFIX = "rackmedic-", "RackMedic's incident "
"""How our marker begins, and how what we write there ourselves does."""


def build_marker(incident: str) -> str:
    """By what a ticket of ours is found again in a tracker."""
    return f"{MARKER_PREFIX}{incident}"


class TrackerUnavailable(Exception):
    """It does not answer, or not now: it is tried again, not before `after` seconds. `maybe`: what was asked may have been done all the same."""

    def __init__(self, why: str, after: float = 0.0, *, maybe: bool = False) -> None:
        super().__init__(why)
        self.after, self.maybe = after, maybe


class TrackerAnswerTooLong(TrackerUnavailable):
    """It answers more than we read."""


class TrackerRefused(Exception):
    """It will not have it, however often it is asked. Says how to mend it."""


class TrackerTicketGone(Exception):
    """The ticket is not there any more."""


@dataclass(frozen=True, slots=True)
class RemoteTicket:
    """A ticket of theirs: its id, which never changes, what people call it, and where they read it (empty where nobody says)."""

    id: str
    shown: str = ""
    url: str = ""


@dataclass(frozen=True, slots=True)
class RemoteComment:
    """One comment, its text line by line; `at` and `url` where they say it. `kind`: what they call it."""

    id: str
    by: str
    lines: tuple[str, ...]
    at: datetime | None = None
    url: str = ""
    kind: str = "comment"

    @property
    def id_hash(self) -> str:
        """What is kept of it, so that it is shown once."""
        return sha256(self.id.encode("utf-8", "replace")).hexdigest()[:16]

    @property
    def is_own(self) -> bool:
        """What we wrote there ourselves comes back to nobody. It is a line, alone or in a fence; who answers below it is heard."""
        said = [line for line in self.lines if not line.startswith("```")]
        return len(said) == 1 and said[0].startswith(OWN_COMMENT_PREFIX)


@dataclass(frozen=True, slots=True)
class RemoteStatus:
    """How far it is, in their words; `seen` is given back when it is asked for again. `remarks`: the newest of what people wrote below it, oldest
    first; `unread`: why that could not be read."""

    ticket: RemoteTicket
    state: str
    done: bool = False
    seen: str = ""
    remarks: tuple[RemoteComment, ...] = ()
    unread: str = ""


async def read_comments(asked: Awaitable[tuple[RemoteComment, ...]]) -> tuple[tuple[RemoteComment, ...], str]:
    """Comments, or why they are not for us: how far the ticket is, is told all the same. Raises TrackerAway."""
    try:
        return await asked, ""
    except (TrackerRefused, TrackerAnswerTooLong) as no:
        return (), str(no)


class Tracker(Protocol):
    """One configured tracker."""

    @property
    def name(self) -> str:
        """As the file calls it."""
        ...

    @property
    def words(self) -> str:
        """As people call it."""
        ...

    @property
    def title_most(self) -> int:
        """Characters that a title may have."""
        ...

    @property
    def repeatable(self) -> bool:
        """The same sent again is still one ticket: they tell it by its marker."""
        ...

    @property
    def settles(self) -> timedelta:
        """After so long one that was made is found for certain."""
        ...

    @property
    def tells(self) -> bool:
        """Whether it can be asked how far a ticket is."""
        ...

    @property
    def on_close(self) -> OnClose:
        """What is done there when the incident is closed here."""
        ...

    def list_fields(self, draft: TrackerDraft) -> Mapping[str, str]:
        """What leaves beside title and text."""
        ...

    async def find_ticket(self, draft: TrackerDraft, since: datetime) -> RemoteTicket | None:
        """The ticket that was made of it, if there is one. Raises TrackerAway and TrackerRefused."""
        ...

    async def create_ticket(self, draft: TrackerDraft) -> RemoteTicket:
        """Make it. Raises TrackerAway and TrackerRefused."""
        ...

    async def fetch_status(self, ticket: str, seen: str) -> RemoteStatus | None:
        """How far it is, and what people wrote there; None where nothing changed since. Raises TrackerAway, TrackerRefused and TrackerGone."""
        ...

    async def close_ticket(self, ticket: str, words: str) -> None:
        """Say there that the incident is closed, as `on_close` has it. Raises TrackerAway, TrackerRefused and TrackerGone."""
        ...

    async def check_access(self) -> str:
        """What could be seen without changing anything. Raises TrackerAway and TrackerRefused."""
        ...
