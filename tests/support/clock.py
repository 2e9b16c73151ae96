"""Clocks for tests: one that is set by hand, and the machine's own for tests with real processes."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

T0 = datetime(2026, 5, 20, 3, 10, tzinfo=UTC)  # start time of every story
PATIENCE = 180.0  # timeout in seconds for something that must happen; generous for loaded machines, measures nothing


@dataclass
class SetClock:
    """A UTC clock that moves only on `go`."""

    at: datetime = T0

    def now(self) -> datetime:
        return self.at

    def stamp(self) -> float:
        """Return Unix seconds, as Slack uses."""
        return self.at.timestamp()

    def go(self, **span: float) -> None:
        """Move by `timedelta(**span)`, backwards if negative."""
        self.at += timedelta(**span)


class WallClock:
    def now(self) -> datetime:
        return datetime.now(UTC)
