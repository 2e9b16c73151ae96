"""The action graph: ask, act, prove, with one LangGraph thread per action.

The thread holds progress only; the ledger decides what may run and records what ran. `ask` holds only the interrupt.
Every node first reads the ledger, so an action interrupted by a crash is found and never run twice.
"""

from datetime import datetime, timedelta
from typing import Any, TypedDict

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import Runtime
from langgraph.types import Command, interrupt

from graph.checkpoints.checkpoint import RedisSaver, has_pending_tasks
from graph.execution.action_effects import (
    ActionGraphContext,
    ApprovalOutdated,
    StillRunning,
    claim_action,
    estimate_claim_time,
    execute_claim,
    has_started,
    supersede_action,
)
from graph.execution.verification import verify_outcome
from tools.ledger import record
from tools.ledger.record import ActionRecord
from tools.ledger.states import State

# Bump when a node is renamed. A thread of another version restarts; the ledger knows what happened.
ACTION_GRAPH_VERSION = 1


class ActionProgress(TypedDict, total=False):
    """Plain JSON. `state` is the ledger's state at a node's last read, `why` a one-word reason for a supersession."""

    approval: str
    incident: str
    version: int
    state: str
    why: str
    ran: bool
    since: str
    facts: str
    says: str
    new: list[str]


ActionGraph = CompiledStateGraph[ActionProgress, ActionGraphContext, ActionProgress, ActionProgress]


async def await_decision(state: ActionProgress) -> ActionProgress:
    """Wait for a decision, which later nodes read from the ledger."""
    interrupt({"approval": state["approval"]})
    return {}


async def execute_action(state: ActionProgress, runtime: Runtime[ActionGraphContext]) -> ActionProgress:
    """Start an approved action, or find out how one that another worker started ended."""
    ports = runtime.context
    record = await ports.ledger.get_record(state["approval"])
    if record.state is State.APPROVED:
        return await _start_action(record, ports)
    if record.state is State.EXECUTING:
        return await _adopt_action(record, ports)
    since = state.get("since") or estimate_claim_time(record, ports.reading.clock.now()).isoformat()
    return {"state": record.state.value, "ran": has_started(record), "since": since}


async def _start_action(seen: ActionRecord, ports: ActionGraphContext) -> ActionProgress:
    since = ports.reading.clock.now()
    try:
        claim = await claim_action(seen, ports)
    except ApprovalOutdated as error:
        after = await supersede_action(seen.approval, error, ports)
        return {"state": after.state.value, "why": error.why}
    except record.VersionChanged:
        return {"state": State.SUPERSEDED.value, "why": "versions"}
    except (record.NotOpen, record.TooLate):
        return {"state": (await ports.ledger.get_record(seen.approval)).state.value}
    await ports.began(seen.approval)
    after = await execute_claim(claim, ports)
    return {"state": after.state.value, "ran": has_started(after), "since": since.isoformat()}


async def _adopt_action(record: ActionRecord, ports: ActionGraphContext) -> ActionProgress:
    claim = await ports.ledger.adopt(record.approval, ports.worker)
    if claim is None:
        raise StillRunning(record.approval)
    after = await execute_claim(claim, ports)
    return {
        "state": after.state.value,
        "ran": has_started(after),
        "since": estimate_claim_time(record, ports.reading.clock.now()).isoformat(),
    }


async def verify_action(state: ActionProgress, runtime: Runtime[ActionGraphContext]) -> ActionProgress:
    """Check the target again and store the facts. A recorded outcome is not judged twice."""
    ports = runtime.context
    record = await ports.ledger.get_record(state["approval"])
    if record.outcome:
        return {"says": state.get("says", "")}
    proof, facts = await verify_outcome(record, datetime.fromisoformat(state["since"]), ports)
    await ports.ledger.record_outcome(record.approval, proof.outcome)
    sha = await ports.reading.evidence.put_facts(record.action.incident, facts) if facts else ""
    return {"says": proof.says, "facts": sha, "new": list(proof.new)}


def route_after_act(state: ActionProgress) -> str:
    """Return `prove` after a command that ran, else the end."""
    return "prove" if state.get("ran") and state.get("state") in (State.DONE.value, State.FAILED.value) else END


def build_action_graph(checkpointer: BaseCheckpointSaver[Any]) -> ActionGraph:
    """Compile the graph; the context comes with each call."""
    graph = StateGraph(ActionProgress, context_schema=ActionGraphContext)
    graph.add_node("ask", await_decision)
    graph.add_node("act", execute_action)
    graph.add_node("prove", verify_action)
    graph.add_edge(START, "ask")
    graph.add_edge("ask", "act")
    graph.add_conditional_edges("act", route_after_act, ["prove", END])
    graph.add_edge("prove", END)
    return graph.compile(checkpointer=checkpointer, name="action")


def build_thread_id(approval: str) -> str:
    return f"action:{approval}"


class ActionThreads:
    """The action threads: each call advances one to where the ledger says it should be."""

    def __init__(self, saver: RedisSaver, ports: ActionGraphContext) -> None:
        self._saver = saver
        self._graph = build_action_graph(saver)
        self._ports = ports

    async def ensure_waiting(self, record: ActionRecord) -> None:
        """Create the thread, if missing, up to its decision."""
        config = _build_config(record.approval)
        snapshot = await self._graph.aget_state(config)
        if not snapshot.values:
            await self._graph.ainvoke(_build_initial_state(record), config, context=self._ports, durability="sync")

    async def resume_action(self, record: ActionRecord) -> ActionProgress:
        """Continue past the decision. Raises ActionDeferred, StillRunning or LostClaim."""
        config = _build_config(record.approval)
        snapshot = await self._graph.aget_state(config)
        if not snapshot.values or snapshot.values.get("version") != ACTION_GRAPH_VERSION:
            await self._graph.ainvoke(_build_initial_state(record), config, context=self._ports, durability="sync")
            snapshot = await self._graph.aget_state(config)
        if snapshot.interrupts:
            await self._graph.ainvoke(Command(resume={"state": record.state.value}), config, context=self._ports, durability="sync")
        elif has_pending_tasks(snapshot):
            await self._graph.ainvoke(None, config, context=self._ports, durability="sync")
        elif _was_resolved_by_human(snapshot.values, record):
            await self._graph.aupdate_state(config, {"state": record.state.value, "ran": has_started(record)}, as_node="act")
            await self._graph.ainvoke(None, config, context=self._ports, durability="sync")
        return (await self._graph.aget_state(config)).values  # type: ignore[return-value]

    async def prune_thread(self, approval: str, keep: timedelta) -> None:
        """Keep one checkpoint of a finished thread, for `keep`."""
        await self._saver.aprune([build_thread_id(approval)])
        await self._saver.expire(build_thread_id(approval), int(keep.total_seconds()))


def _was_resolved_by_human(values: Any, record: ActionRecord) -> bool:
    """The thread ended without a proof, and a human has since recorded the result."""
    return (
        record.state in (State.DONE, State.FAILED)
        and not record.outcome
        and values.get("state") not in (State.DONE.value, State.FAILED.value)
    )


def _build_initial_state(record: ActionRecord) -> ActionProgress:
    return {"approval": record.approval, "incident": record.action.incident, "version": ACTION_GRAPH_VERSION}


def _build_config(approval: str) -> RunnableConfig:
    return RunnableConfig(configurable={"thread_id": build_thread_id(approval)}, recursion_limit=10)
