"""The incident graph as a table; each inbox item is exactly one turn.

The graph never waits: the next item starts the next turn, after one cut off by a crash is finished. Node names are
stored with every checkpoint and must not change; a change of shape bumps GRAPH_VERSION.
"""

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any, NamedTuple, Protocol, cast

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import Runtime

from graph.checkpoints.checkpoint import RedisSaver, build_plain_serde, has_pending_tasks
from graph.context import GraphContext
from graph.extraction.pasted_text import store_attachments
from graph.incident.conclude import conclude
from graph.incident.plan import plan, route_after_plan
from graph.incident.reflect import reflect, route_after_reflect
from graph.incident.run_checks import execute
from graph.incident.summarise import route_after_summarise, summarise
from graph.incident_view import parse_remediations, serialize_remediations
from graph.model.budget import SpendLoader
from graph.remediation.outcomes import end_outdated_remediations
from graph.report import Report
from graph.state import GRAPH_VERSION, InboxItem, IncidentState, Origin

IncidentGraph = CompiledStateGraph[IncidentState, GraphContext, IncidentState, IncidentState]
MAX_TURN_STEPS = 60  # nodes in one turn; `plan` bounds the rounds, so only a bug reaches this


class NodeFunction(Protocol):
    """A node: takes the state, returns the update."""

    __name__: str

    def __call__(self, state: IncidentState, *, runtime: Runtime[GraphContext]) -> Awaitable[dict[str, Any]]: ...


class GraphNode(NamedTuple):
    """A node and its successor: a name, or a choice among names."""

    node: NodeFunction
    then: str | Callable[[IncidentState], str]
    among: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return self.node.__name__


# fmt: off
GRAPH_NODES = (
    #    node       then             among
    GraphNode(summarise, route_after_summarise, ("plan", "conclude")),
    GraphNode(plan,      route_after_plan,      ("execute", "conclude")),
    GraphNode(execute,   "reflect"),
    GraphNode(reflect,   route_after_reflect,   ("plan", "conclude")),
    GraphNode(conclude,  END),
)

# fmt: on


def build_incident_graph(checkpointer: BaseCheckpointSaver[Any]) -> IncidentGraph:
    graph = StateGraph(IncidentState, context_schema=GraphContext)
    for step in GRAPH_NODES:
        graph.add_node(step.name, step.node)
        if callable(step.then):
            graph.add_conditional_edges(step.name, step.then, list(step.among))
        else:
            graph.add_edge(step.name, step.then)
    graph.add_edge(START, GRAPH_NODES[0].name)
    return graph.compile(checkpointer=checkpointer, name="incident")


async def run_turn(graph: IncidentGraph, ports: GraphContext, item: InboxItem, origin: Origin | None = None) -> Report:
    """Run the item's turn and return its report. Idempotent per item; an unfinished turn is completed first."""
    config = RunnableConfig(configurable={"thread_id": item.incident}, recursion_limit=MAX_TURN_STEPS)
    state = await _finish_open_turn(graph, ports, config)
    if item.id not in state.get("done_items", []):
        turn_input = _build_turn_input(state, await store_attachments(item, ports.evidence), origin)
        state = await graph.ainvoke(turn_input, config, context=ports, durability="sync")  # type: ignore[assignment]
    return Report.model_validate(state["report"])


class EphemeralTurns:
    """Turns of incidents that live in memory only."""

    def __init__(self, ports: GraphContext) -> None:
        self._graph, self._ports = build_incident_graph(InMemorySaver(serde=build_plain_serde())), ports

    async def run(self, item: InboxItem, origin: Origin) -> tuple[IncidentState, Report]:
        """Return the state after the item's turn, and its report."""
        report = await run_turn(self._graph, self._ports, item, origin)
        state = await self._graph.aget_state(RunnableConfig(configurable={"thread_id": item.incident}))
        return cast(IncidentState, state.values), report


async def run_single_turn(ports: GraphContext, item: InboxItem, origin: Origin) -> tuple[IncidentState, Report]:
    """Run the only turn of an ephemeral incident."""
    return await EphemeralTurns(ports).run(item, origin)


async def _finish_open_turn(graph: IncidentGraph, ports: GraphContext, config: RunnableConfig) -> IncidentState:
    snapshot = await graph.aget_state(config)
    state: IncidentState = snapshot.values  # type: ignore[assignment]
    if not state or not state.get("item"):
        return state
    if state.get("version") != GRAPH_VERSION:
        return await _replan(graph, ports, config, state)
    if has_pending_tasks(snapshot):
        return await graph.ainvoke(None, config, context=ports, durability="sync")  # type: ignore[return-value]
    return state


async def _replan(graph: IncidentGraph, ports: GraphContext, config: RunnableConfig, state: IncidentState) -> IncidentState:
    """Migrate a state of another graph version: keep messages and facts, plan anew, answer an unfinished item again."""
    anew: IncidentState = {
        "version": GRAPH_VERSION,
        "walk": {},
        "hypotheses": [],
        "to_look": [],
        "tier": "history",
        "rounds": 0,
        "turn": {},
    }
    if state.get("ladders"):
        anew["ladders"] = serialize_remediations(end_outdated_remediations(parse_remediations(state["ladders"])))
    if state["item"]["id"] in state.get("done_items", []):
        return {**state, **anew}
    incident_state: IncidentState = {**anew, "item": state["item"]}
    return await graph.ainvoke(incident_state, config, context=ports, durability="sync")  # type: ignore[return-value]


def _build_turn_input(state: IncidentState, item: InboxItem, origin: Origin | None) -> IncidentState:
    turn_input: IncidentState = {
        "id": item.incident,
        "version": GRAPH_VERSION,
        "item": item.model_dump(mode="json"),
        "to_look": [],
        "rounds": 0,
    }
    if not state.get("opened_at"):
        turn_input["opened_at"] = item.at.isoformat()
        turn_input["lifecycle"] = "open"
    if origin is not None and not state.get("origin"):
        turn_input["origin"] = origin.model_dump(mode="json", exclude_defaults=True)
    if (state and state.get("version") != GRAPH_VERSION) or not state.get("turn"):
        turn_input |= {"walk": {}, "turn": {}}
        if state.get("ladders"):
            turn_input["ladders"] = state["ladders"]
    return turn_input


# The incident graph as the dispatcher uses it: run or abandon a turn, load the state, prune checkpoints.


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
