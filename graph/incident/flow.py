"""The incident graph as a table, and how one inbox item becomes exactly one turn of it.

The graph never waits: a turn ends, and the next item starts the next one. A turn that a crash cut off is continued first.
Node names are stored with every checkpoint, so they stay; when the shape changes GRAPH_VERSION is bumped.
"""

from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple, Protocol, cast

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import Runtime

from graph.incident.conclude import conclude
from graph.incident.execute import execute
from graph.incident.plan import after_plan, plan
from graph.incident.reflect import after_reflect, reflect
from graph.incident.summarise import after_summarise, summarise
from graph.ladders.ends import outgrown
from graph.memory.resume import cut_off
from graph.memory.serde import plain_serde
from graph.ports import Ports
from graph.reading.pasted import shelve
from graph.report import Report
from graph.rows import read_ladders, write_ladders
from graph.state import GRAPH_VERSION, Incident, Item, Origin

IncidentGraph = CompiledStateGraph[Incident, Ports, Incident, Incident]
MOST_STEPS = 60
"""Nodes in one turn; rounds are bounded in `plan`, so this is only ever hit by a bug."""


class NodeFunction(Protocol):
    """State in, what changes out."""

    __name__: str

    def __call__(self, state: Incident, *, runtime: Runtime[Ports]) -> Awaitable[dict[str, Any]]: ...


class FlowRow(NamedTuple):
    """A node and where it leads: a name, or a choice among names."""

    node: NodeFunction
    then: str | Callable[[Incident], str]
    among: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return self.node.__name__


# fmt: off
FLOW = (
    #    node       then             among
    FlowRow(summarise, after_summarise, ("plan", "conclude")),
    FlowRow(plan,      after_plan,      ("execute", "conclude")),
    FlowRow(execute,   "reflect"),
    FlowRow(reflect,   after_reflect,   ("plan", "conclude")),
    FlowRow(conclude,  END),
)
# fmt: on


def build_incident_graph(checkpointer: BaseCheckpointSaver[Any]) -> IncidentGraph:
    """The graph, compiled. Ports are given with each call."""
    graph = StateGraph(Incident, context_schema=Ports)
    for step in FLOW:
        graph.add_node(step.name, step.node)
        if callable(step.then):
            graph.add_conditional_edges(step.name, step.then, list(step.among))
        else:
            graph.add_edge(step.name, step.then)
    graph.add_edge(START, FLOW[0].name)
    return graph.compile(checkpointer=checkpointer, name="incident")


async def run_turn(graph: IncidentGraph, ports: Ports, item: Item, origin: Origin | None = None) -> Report:
    """The report of `item`'s turn. A turn left unfinished is completed first; an item already answered is not answered twice."""
    config = RunnableConfig(configurable={"thread_id": item.incident}, recursion_limit=MOST_STEPS)
    state = await _finish(graph, ports, config)
    if item.id not in state.get("done_items", []):
        given = _opening(state, await shelve(item, ports.evidence), origin)
        state = await graph.ainvoke(given, config, context=ports, durability="sync")  # type: ignore[assignment]
    return Report.model_validate(state["report"])


class PassingTurns:
    """Turns of incidents that nothing outlives: LangGraph's own memory keeps them."""

    def __init__(self, ports: Ports) -> None:
        self._graph, self._ports = build_incident_graph(InMemorySaver(serde=plain_serde())), ports

    async def run(self, item: Item, origin: Origin) -> tuple[Incident, Report]:
        """The incident as this item's turn leaves it, and the turn's report."""
        report = await run_turn(self._graph, self._ports, item, origin)
        state = await self._graph.aget_state(RunnableConfig(configurable={"thread_id": item.incident}))
        return cast(Incident, state.values), report


async def single_turn(ports: Ports, item: Item, origin: Origin) -> tuple[Incident, Report]:
    """The same of an incident's only turn."""
    return await PassingTurns(ports).run(item, origin)


async def _finish(graph: IncidentGraph, ports: Ports, config: RunnableConfig) -> Incident:
    """The stored state, after whatever turn was under way has ended."""
    snapshot = await graph.aget_state(config)
    state: Incident = snapshot.values  # type: ignore[assignment]
    if not state or not state.get("item"):
        return state
    if state.get("version") != GRAPH_VERSION:
        return await _replan(graph, ports, config, state)
    if cut_off(snapshot):
        return await graph.ainvoke(None, config, context=ports, durability="sync")  # type: ignore[return-value]
    return state


async def _replan(graph: IncidentGraph, ports: Ports, config: RunnableConfig, state: Incident) -> Incident:
    """Stored by another shape of the graph: what was said and seen stays, plans are made anew; an unfinished item is answered again."""
    anew: Incident = {"version": GRAPH_VERSION, "walk": {}, "hypotheses": [], "to_look": [], "tier": "history", "rounds": 0, "turn": {}}
    if state.get("ladders"):
        anew["ladders"] = write_ladders(outgrown(read_ladders(state["ladders"])))
    if state["item"]["id"] in state.get("done_items", []):
        return {**state, **anew}
    given: Incident = {**anew, "item": state["item"]}
    return await graph.ainvoke(given, config, context=ports, durability="sync")  # type: ignore[return-value]


def _opening(state: Incident, item: Item, origin: Origin | None) -> Incident:
    """What a turn starts with."""
    given: Incident = {"id": item.incident, "version": GRAPH_VERSION, "item": item.model_dump(mode="json"), "to_look": [], "rounds": 0}
    if not state.get("opened_at"):
        given["opened_at"] = item.at.isoformat()
        given["lifecycle"] = "open"
    if origin is not None and not state.get("origin"):
        given["origin"] = origin.model_dump(mode="json", exclude_defaults=True)
    if (state and state.get("version") != GRAPH_VERSION) or not state.get("turn"):
        given |= {"walk": {}, "turn": {}}
        if state.get("ladders"):
            given["ladders"] = state["ladders"]
    return given
