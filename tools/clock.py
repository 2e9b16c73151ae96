"""Clock, injected: only the composition root reads the machine's clock."""

from datetime import datetime
from typing import Protocol


class Clock(Protocol):
    """A source of the current time in UTC."""

    def now(self) -> datetime:
        """Return the time with its zone."""
        ...
