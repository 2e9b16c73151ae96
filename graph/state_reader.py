"""Where incidents stand, for whoever never runs a turn: read without LangGraph, which a process that only shows them need not carry."""

from typing import cast

from redis.asyncio import Redis

from graph.checkpoints.checkpoint_reader import KEY_PREFIX, CheckpointReader, parse_plain_value
from graph.state import IncidentState

STATE_CHANNELS = frozenset(IncidentState.__annotations__)


class IncidentStateReader:
    """Reads what the turns (`graph.incident.turns`) store, as LangGraph would: its checkpoint, and over it what a node that has ended wrote."""

    def __init__(self, redis: Redis, prefix: str = KEY_PREFIX) -> None:
        self._threads = CheckpointReader(redis, prefix, parse_plain_value)

    async def load_state(self, incident: str) -> IncidentState:
        """As it stands now; empty of one that nobody knows."""
        step = await self._threads.load_latest(incident, "")
        if step is None:
            return IncidentState()
        written = {write.channel: write.value for write in step.writes}
        return cast(
            IncidentState, {name: parse_plain_value(raw) for name, raw in {**step.values, **written}.items() if name in STATE_CHANNELS}
        )
