"""Time in the hands of a test: one clock that goes when told to, and the machine's own where a real process shares it."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

T0 = datetime(2026, 5, 20, 3, 10, tzinfo=UTC)
"""When every story begins."""
PATIENCE = 180.0
"""Seconds after which a wait for something that must happen has failed. A loaded machine may be slow; nothing is measured with it."""


@dataclass
class SetClock:
    """UTC, and still until it is told to go."""

    at: datetime = T0

    def now(self) -> datetime:
        return self.at

    def stamp(self) -> float:
        """The same as seconds since 1970, as Slack counts."""
        return self.at.timestamp()

    def go(self, **span: float) -> None:
        """Go on by a `timedelta` of these words, or back where they are negative."""
        self.at += timedelta(**span)


class WallClock:
    """The machine's own."""

    def now(self) -> datetime:
        return datetime.now(UTC)
