"""A fair semaphore: the next slot goes to the waiting tenant with the least use for its weight."""

import asyncio
import contextlib
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable

NO_TENANT = ""  # the party of incidents without a tenant; only it may take every slot


def get_equal_weight(party: str) -> int:
    return 1


class FairSemaphore:
    """A tenant holds at most half of the slots, so that another's turn begins at once.

    Stride scheduling: each slot moves its party back by the inverse of its weight.
    """

    def __init__(self, places: int, weight: Callable[[str], int] = get_equal_weight) -> None:
        self._places = places
        self._weight = weight
        self._half = max(1, places // 2)
        self._taken: Counter[str] = Counter()
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}
        self._had: dict[str, float] = {}  # slots each party had, divided by its weight, since the semaphore was last idle
        self._now = 0.0  # `_had` of the latest party served: a new party starts here, without credit for the past

    @contextlib.asynccontextmanager
    async def hold_slot(self, party: str) -> AsyncIterator[None]:
        mine: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if not self._taken[party] and party not in self._waiting:
            self._had[party] = max(self._had.get(party, 0.0), self._now)
        self._waiting.setdefault(party, deque()).append(mine)
        self._grant_slots()
        try:
            await mine
        except asyncio.CancelledError:
            self._cancel_waiter(party, mine)
            raise
        try:
            yield
        finally:
            self._release_slot(party)

    def _grant_slots(self) -> None:
        while self._taken.total() < self._places and (party := self._pick_next_party()) is not None:
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

    def _pick_next_party(self) -> str | None:
        free = [party for party in self._waiting if party == NO_TENANT or self._taken[party] < self._half]
        return min(free, key=lambda party: self._had[party], default=None)

    def _cancel_waiter(self, party: str, mine: "asyncio.Future[None]") -> None:
        """The slot may have been granted already."""
        if not mine.cancelled():
            self._release_slot(party)
        elif mine in (queue := self._waiting.get(party, ())):
            self._waiting[party].remove(mine)
            if not queue:
                del self._waiting[party]

    def _release_slot(self, party: str) -> None:
        self._taken[party] -= 1
        if not self._taken[party]:
            del self._taken[party]
        if not self._taken and not self._waiting:
            self._had.clear()
            self._now = 0.0
        self._grant_slots()
