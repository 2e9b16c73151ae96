"""The desk's turns: what an item points to is fetched, then the incident graph takes it through."""

from collections.abc import Awaitable, Callable

from graph.incident.turns import IncidentTurns
from graph.memory.checkpoint import RedisSaver
from graph.ports import Ports
from graph.state import Item, Origin, Report

Fetching = Callable[[Item], Awaitable[Item]]


async def as_it_is(item: Item) -> Item:
    """Nothing to fetch (terminal, alerts, tests)."""
    return item


class GraphTurns(IncidentTurns):
    """Fetching belongs to the turn, so that an acknowledged message waits with its pointers in the inbox."""

    def __init__(self, saver: RedisSaver, ports: Ports, *, fetch: Fetching = as_it_is) -> None:
        super().__init__(saver, ports)
        self._fetch = fetch

    async def run(self, item: Item, origin: Origin | None) -> Report:
        return await super().run(await self._fetch(item), origin)
