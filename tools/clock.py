"""Clock: the current time as an injected dependency. Only the composition root reads the machine's clock."""

from datetime import datetime
from typing import Protocol


class Clock(Protocol):
    """UTC now. Tests and the sandbox have their own."""

    def now(self) -> datetime:
        """Return the current time, with its time zone."""
        ...
