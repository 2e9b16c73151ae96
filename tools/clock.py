"""Clock: what time it is, as a value handed in. Nothing below the composition root asks the machine."""

from datetime import datetime
from typing import Protocol


class Clock(Protocol):
    """UTC now. Tests and the sandbox have their own."""

    def now(self) -> datetime:
        """The moment, with its time zone."""
        ...
