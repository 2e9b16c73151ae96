"""Places for turns, given in turns: of all who wait the next place goes to the customer who had the fewest for their weight, so that the storm
of one is a storm of one. Our own people are one party among them; they alone may take every place.
"""

import asyncio
import contextlib
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable

OURS = ""
"""The party of incidents that no customer reported."""


def nobody_weighs(party: str) -> int:
    """All the same."""
    return 1


class FairPlaces:
    """So many at once; one customer never has more than half of them (where there is more than one), so that another's begins at once.
    Weighted turns as in stride scheduling: each place that a party gets puts it back by the inverse of its weight."""

    def __init__(self, places: int, weight: Callable[[str], int] = nobody_weighs) -> None:
        self._places, self._weight = places, weight
        self._half = max(1, places // 2)
        self._taken: Counter[str] = Counter()
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}
        self._had: dict[str, float] = {}
        """How much each party had, in turns by its weight, since nobody waited or worked."""
        self._now = 0.0
        """What the latest to get a place had had before: whoever comes new begins there, not with the past on their side."""

    @contextlib.asynccontextmanager
    async def of(self, party: str) -> AsyncIterator[None]:
        """A place, in this party's turn."""
        mine: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if not self._taken[party] and party not in self._waiting:
            self._had[party] = max(self._had.get(party, 0.0), self._now)
        self._waiting.setdefault(party, deque()).append(mine)
        self._give()
        try:
            await mine
        except asyncio.CancelledError:
            self._leave(party, mine)
            raise
        try:
            yield
        finally:
            self._back(party)

    def _give(self) -> None:
        while self._taken.total() < self._places and (party := self._next()) is not None:
            queue = self._waiting[party]
            mine = queue.popleft()
            if not queue:
                del self._waiting[party]
            if mine.cancelled():
                continue
            self._taken[party] += 1
            self._now = self._had[party]
            self._had[party] += 1 / self._weight(party)
            mine.set_result(None)

    def _next(self) -> str | None:
        free = [party for party in self._waiting if party == OURS or self._taken[party] < self._half]
        return min(free, key=lambda party: self._had[party], default=None)

    def _leave(self, party: str, mine: "asyncio.Future[None]") -> None:
        """Cancelled while waiting, or just as the place was given."""
        if not mine.cancelled():
            self._back(party)
        elif mine in (queue := self._waiting.get(party, ())):
            self._waiting[party].remove(mine)
            if not queue:
                del self._waiting[party]

    def _back(self, party: str) -> None:
        self._taken[party] -= 1
        if not self._taken[party]:
            del self._taken[party]
        if not self._taken and not self._waiting:
            self._had.clear()
            self._now = 0.0
        self._give()
