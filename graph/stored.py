"""Where incidents stand, for whoever never runs a turn: read without LangGraph, which a process that only shows them need not carry."""

from typing import cast

from redis.asyncio import Redis

from graph.memory.stored import PREFIX, StoredThreads, plain
from graph.state import Incident

CHANNELS = frozenset(Incident.__annotations__)


class StoredIncidents:
    """Reads what the turns (`graph.incident.turns`) store, as LangGraph would: its checkpoint, and over it what a node that has ended wrote."""

    def __init__(self, redis: Redis, prefix: str = PREFIX) -> None:
        self._threads = StoredThreads(redis, prefix, plain)

    async def state(self, incident: str) -> Incident:
        """As it stands now; empty of one that nobody knows."""
        step = await self._threads.latest(incident, "")
        if step is None:
            return Incident()
        written = {write.channel: write.value for write in step.writes}
        return cast(Incident, {name: plain(raw) for name, raw in {**step.values, **written}.items() if name in CHANNELS})
