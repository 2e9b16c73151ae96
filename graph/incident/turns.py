"""The incident graph as the dispatcher uses it: run or abandon a turn, load the state, prune checkpoints."""

from datetime import timedelta
from typing import cast

from langchain_core.runnables import RunnableConfig
from langgraph.graph import END

from graph.checkpoints.checkpoint import RedisSaver
from graph.checkpoints.run_status import has_pending_tasks
from graph.context import GraphContext
from graph.incident.incident_graph import IncidentGraph, build_incident_graph, run_turn
from graph.model.budget import SpendLoader
from graph.report import Report
from graph.state import InboxItem, IncidentState, Origin


class IncidentTurns:
    """Turns stored by the Redis checkpointer."""

    def __init__(self, saver: RedisSaver, ports: GraphContext) -> None:
        self._saver = saver
        self._ports = ports
        self._graph: IncidentGraph = build_incident_graph(saver)

    async def run_turn(self, item: InboxItem, origin: Origin | None) -> Report:
        """Run the item's turn, or complete it from where it was cut off."""
        if isinstance(self._ports.model, SpendLoader):
            await self._ports.model.load_spend(item.incident)
        return await run_turn(self._graph, self._ports, item, origin)

    async def load_state(self, incident: str) -> IncidentState:
        return cast(IncidentState, (await self._graph.aget_state(_build_config(incident))).values)

    async def abandon_turn(self, item: InboxItem) -> None:
        """End an unfinished turn without a report, so that the next item starts its own."""
        config = _build_config(item.incident)
        if has_pending_tasks(await self._graph.aget_state(config)):
            await self._graph.aupdate_state(config, None, as_node=END)

    async def prune_thread(self, incident: str, keep: timedelta | None) -> None:
        """Keep one checkpoint between turns; with `keep`, expire it after that time."""
        await self._saver.aprune([incident])
        if keep is not None:
            await self._saver.expire(incident, int(keep.total_seconds()))


def _build_config(incident: str) -> RunnableConfig:
    return {"configurable": {"thread_id": incident}}
