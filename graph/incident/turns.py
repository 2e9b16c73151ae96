"""The incident graph as the desk needs it: run a turn, read the state, give a broken turn up, drop what is no longer needed."""

from datetime import timedelta
from typing import cast

from langchain_core.runnables import RunnableConfig
from langgraph.graph import END

from graph.incident.flow import IncidentGraph, build_incident_graph, run_turn
from graph.memory.checkpoint import RedisSaver
from graph.memory.resume import cut_off
from graph.model.budget import Remembering
from graph.ports import Ports
from graph.report import Report
from graph.state import Incident, Item, Origin


class IncidentTurns:
    """The real turns, over one saver."""

    def __init__(self, saver: RedisSaver, ports: Ports) -> None:
        self._saver = saver
        self._ports = ports
        self._graph: IncidentGraph = build_incident_graph(saver)

    async def run(self, item: Item, origin: Origin | None) -> Report:
        """Complete the turn of this item, wherever it was cut off."""
        if isinstance(self._ports.model, Remembering):
            await self._ports.model.load(item.incident)
        return await run_turn(self._graph, self._ports, item, origin)

    async def state(self, incident: str) -> Incident:
        return cast(Incident, (await self._graph.aget_state(_thread(incident))).values)

    async def abandon(self, item: Item) -> None:
        """End the unfinished turn without a report, so that the next item begins its own."""
        config = _thread(item.incident)
        if cut_off(await self._graph.aget_state(config)):
            await self._graph.aupdate_state(config, None, as_node=END)

    async def tidy(self, incident: str, keep: timedelta | None) -> None:
        """Between turns one checkpoint is enough; a closed incident's goes after `keep`."""
        await self._saver.aprune([incident])
        if keep is not None:
            await self._saver.expire(incident, int(keep.total_seconds()))


def _thread(incident: str) -> RunnableConfig:
    return {"configurable": {"thread_id": incident}}
