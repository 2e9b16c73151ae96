"""Read incidents without LangGraph, for processes that only show them and need not load that library."""

from typing import cast

from redis.asyncio import Redis

from graph.checkpoints.checkpoint_reader import KEY_PREFIX, CheckpointReader, parse_plain_value
from graph.state import IncidentState

STATE_CHANNELS = frozenset(IncidentState.__annotations__)


class IncidentStateReader:
    """Reads what turns (`graph.incident.incident_graph`) store: the checkpoint, overlaid with the writes of ended nodes."""

    def __init__(self, redis: Redis, prefix: str = KEY_PREFIX) -> None:
        self._threads = CheckpointReader(redis, prefix, parse_plain_value)

    async def load_state(self, incident: str) -> IncidentState:
        """Return the present state; empty for an unknown incident."""
        step = await self._threads.load_latest(incident, "")
        if step is None:
            return IncidentState()
        values_by_channel = {write.channel: write.value for write in step.writes}
        return cast(
            IncidentState,
            {name: parse_plain_value(raw) for name, raw in {**step.values, **values_by_channel}.items() if name in STATE_CHANNELS},
        )
