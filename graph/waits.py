"""How long fixes wait before somebody hears of them again; the site's to set."""

from dataclasses import dataclass
from datetime import timedelta


@dataclass(frozen=True, slots=True)
class Waits:
    """`reproof`: from the first proof to the second. `quiet`: from the second to the incident's quiet end.

    `busy`: how long a drained node may go on with a stuck job before its cancelling is proposed; `idle`: before people hear that it is
    still not idle; `back`: the same of a host that does not answer. `asks`: how often an undecided action is put up for decision.
    """

    reproof: timedelta = timedelta(hours=2)
    quiet: timedelta = timedelta(hours=1)
    busy: timedelta = timedelta(minutes=10)
    idle: timedelta = timedelta(hours=24)
    back: timedelta = timedelta(hours=1)
    asks: int = 3
