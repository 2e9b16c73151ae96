"""The interface of all trackers and their failures."""

from collections.abc import Awaitable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Literal, Protocol

from bot.trackers.ticket_draft import TrackerDraft

OnClose = Literal["nothing", "comment", "close"]
MARKER_PREFIX = "rackmedic-"  # start of the marker
OWN_COMMENT_PREFIX = "RackMedic's incident "  # start of comments written by RackMedic


def build_marker(incident: str) -> str:
    """Return the text that identifies our ticket."""
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
    """The ticket is gone."""


@dataclass(frozen=True, slots=True)
class RemoteTicket:
    """Stable id, display name, URL if known."""

    id: str
    shown: str = ""
    url: str = ""


@dataclass(frozen=True, slots=True)
class RemoteComment:
    """A comment; `kind` is the tracker's word."""

    id: str
    by: str
    lines: tuple[str, ...]
    at: datetime | None = None
    url: str = ""
    kind: str = "comment"

    @property
    def id_hash(self) -> str:
        """Stored to post a comment only once."""
        return sha256(self.id.encode("utf-8", "replace")).hexdigest()[:16]

    @property
    def is_own(self) -> bool:
        """True for a comment by RackMedic: one line, plain or fenced. Replies to it have more lines."""
        plain_lines = [line for line in self.lines if not line.startswith("```")]
        return len(plain_lines) == 1 and plain_lines[0].startswith(OWN_COMMENT_PREFIX)


@dataclass(frozen=True, slots=True)
class RemoteStatus:
    """Status in the tracker's words.

    Attributes:
        seen: passed to the next `fetch_status`.
        remarks: newest comments, oldest first.
        unread: why comments could not be read.
    """

    ticket: RemoteTicket
    state: str
    done: bool = False
    seen: str = ""
    remarks: tuple[RemoteComment, ...] = ()
    unread: str = ""


async def read_comments(asked: Awaitable[tuple[RemoteComment, ...]]) -> tuple[tuple[RemoteComment, ...], str]:
    """Return comments, or why they are unreadable. Raises TrackerUnavailable."""
    try:
        return await asked, ""
    except (TrackerRefused, TrackerAnswerTooLong) as error:
        return (), str(error)


class Tracker(Protocol):
    """One configured tracker."""

    @property
    def name(self) -> str:
        """Name in the trackers file."""
        ...

    @property
    def words(self) -> str:
        """Display name."""
        ...

    @property
    def title_most(self) -> int:
        """Characters of a title."""
        ...

    @property
    def repeatable(self) -> bool:
        """Whether a repeated creation stays one ticket."""
        ...

    @property
    def settles(self) -> timedelta:
        """Time until a created ticket is reliably found."""
        ...

    @property
    def tells(self) -> bool:
        """Whether the status can be polled."""
        ...

    @property
    def on_close(self) -> OnClose: ...

    def list_fields(self, draft: TrackerDraft) -> Mapping[str, str]:
        """Return what is sent beside title and text."""
        ...

    async def find_ticket(self, draft: TrackerDraft, since: datetime) -> RemoteTicket | None:
        """Return the draft's ticket, if any. Raises TrackerUnavailable, TrackerRefused."""
        ...

    async def create_ticket(self, draft: TrackerDraft) -> RemoteTicket:
        """Create the ticket. Raises TrackerUnavailable, TrackerRefused."""
        ...

    async def fetch_status(self, ticket: str, seen: str) -> RemoteStatus | None:
        """Return status and comments, None if unchanged. Raises TrackerUnavailable, TrackerRefused, TrackerTicketGone."""
        ...

    async def close_ticket(self, ticket: str, words: str) -> None:
        """Act as `on_close` says. Raises TrackerUnavailable, TrackerRefused, TrackerTicketGone."""
        ...

    async def check_access(self) -> str:
        """Describe the access, changing nothing. Raises TrackerUnavailable, TrackerRefused."""
        ...
