"""Where people see actions: what the action driver asks of the cards. The ledger's record says what is true; a card only shows it.

Everything may be asked twice (a crash between showing and noting it) and shows it once: a card is known by its approval id.
"""

from typing import Protocol

from graph.state import Incident
from tools.ledger.record import Record


class Show(Protocol):
    """Cards of one action, in the incident's thread. Trouble with Slack is the implementer's to wait out or to raise; nothing is decided here."""

    async def approval(self, record: Record, incident_state: Incident) -> None:
        """Post the approval card as a new message that mentions the approver group; once for each approval id."""
        ...

    async def changed(self, record: Record) -> None:
        """The record moved (a vote, approved, running, settled, expired, superseded): bring its card up to date."""
        ...

    async def outcome(self, record: Record) -> None:
        """The proof is in (`record.outcome`), or the action ended without one: say it in the thread, once for each (approval, outcome)."""
        ...

    async def remind(self, record: Record) -> None:
        """The time to decide is nearly over: mention the approver group once more in the thread, once for each approval id."""
        ...

    async def held(self, record: Record, why: str) -> None:
        """Approved, but it cannot start yet (kill switch, busy target, host away …): show `why` on its card. It is tried again by itself."""
        ...


class Unseen:
    """Where nobody looks (tests, a terminal without a thread)."""

    async def approval(self, record: Record, incident_state: Incident) -> None:
        pass

    async def changed(self, record: Record) -> None:
        pass

    async def outcome(self, record: Record) -> None:
        pass

    async def remind(self, record: Record) -> None:
        pass

    async def held(self, record: Record, why: str) -> None:
        pass
