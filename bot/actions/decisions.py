"""What a click on an approval card may ask for. The action driver answers `Decisions`, the ledger is the book; the Slack side only carries.

Everything raises a `Refused` of the ledger (its text is what the clicker is told) and then has changed nothing. People are `TEAM:USER`,
taken from Slack's own payload. What was decided is driven on, and its card brought up to date, by whoever answers.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from bot.actions.driver import Show
from tools.ledger.book import Book
from tools.ledger.record import Counted, Record

Verdict = Literal["approve", "deny"]


class Decisions(Protocol):
    """The entry points of the action driver."""

    async def vote(self, approval: str, digest: str, voter: str, verdict: Verdict, *, delivery: str, reason: str = "") -> Record:
        """Count one person's word; when it was the last that was needed, start. `delivery` is the click's own id."""
        ...

    async def approve_each(self, each: Sequence[tuple[str, str]], voter: str, *, delivery: str) -> list[Counted]:
        """One person's approval of several actions of one incident, named with their digests: a vote for each, and each counts or not by
        itself. Refused as a whole only where the person may not speak at all."""
        ...

    async def ask_again(self, approval: str, digest: str, asker: str) -> Record:
        """RackMedic proposes an expired action again, under a new approval id; asking twice gives the same one."""
        ...

    async def edit(self, approval: str, digest: str, editor: str, args: Mapping[str, str]) -> Record:
        """Supersede a pending action by the same remedy with other arguments; the editor becomes its requester. BadArgument names fields."""
        ...

    async def revoke(self, approval: str, digest: str, by: str, why: str) -> Record:
        """Take back what has not begun."""
        ...

    async def reconcile(self, approval: str, digest: str, human: str, ran: bool, note: str) -> Record:
        """A human looked at the host and says what became of an `unknown` action."""
        ...


@dataclass(frozen=True, slots=True)
class Approvals:
    """Handed to the Slack side by the composition root where remedies may be approved at all."""

    decisions: Decisions
    book: Book
    cards: Show
    always: frozenset[str] = frozenset()
    """User ids from the settings that are approvers everywhere."""
