"""One turn that nothing outlives, in the memory of this process: for a terminal, which keeps no incidents."""

from typing import cast

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver

from graph.incident.flow import build_incident_graph, run_turn
from graph.memory.serde import plain_serde
from graph.ports import Ports
from graph.state import Incident, Item, Origin, Report


async def single_turn(ports: Ports, item: Item, origin: Origin) -> tuple[Incident, Report]:
    """The incident as it ends, and the report of its only turn. The same nodes as everywhere, over LangGraph's own memory."""
    graph = build_incident_graph(InMemorySaver(serde=plain_serde()))
    report = await run_turn(graph, ports, item, origin)
    state = await graph.aget_state(RunnableConfig(configurable={"thread_id": item.incident}))
    return cast(Incident, state.values), report
