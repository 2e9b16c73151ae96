"""The action graph: ask, act, prove; one LangGraph thread for each action. It is progress only: what may run and what ran is the ledger's to say.

`ask` holds the interrupt and nothing else. Every node begins by reading the ledger, so that whatever crashed, and wherever, is found out
and never run again.
"""

from datetime import datetime, timedelta
from typing import Any, TypedDict

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import Runtime
from langgraph.types import Command, interrupt

from graph.actions.carry_out import ActionPorts, Changed, StillRunning, begin, carry_out, claimed_at, ran, supersede
from graph.actions.looks import proof_of
from graph.memory.checkpoint import RedisSaver
from graph.memory.resume import cut_off
from tools.ledger import record
from tools.ledger.record import Record
from tools.ledger.states import State

ACTION_VERSION = 1
"""Bump when a node is renamed. A thread of another version is begun anew: the ledger knows what happened."""


class ActionProgress(TypedDict, total=False):
    """Plain JSON. `state` is the ledger's when a node last looked, `why` the reason of a supersession as a word."""

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


ActionGraph = CompiledStateGraph[ActionProgress, ActionPorts, ActionProgress, ActionProgress]


async def ask(state: ActionProgress) -> ActionProgress:
    """Wait for a decision. What it was is read from the ledger."""
    interrupt({"approval": state["approval"]})
    return {}


async def act(state: ActionProgress, runtime: Runtime[ActionPorts]) -> ActionProgress:
    """Begin what is approved; of what somebody else began, find out how it ended."""
    ports = runtime.context
    seen = await ports.ledger.record(state["approval"])
    if seen.state is State.APPROVED:
        return await _start(seen, ports)
    if seen.state is State.EXECUTING:
        return await _find_out(seen, ports)
    since = state.get("since") or claimed_at(seen, ports.reading.clock.now()).isoformat()
    return {"state": seen.state.value, "ran": ran(seen), "since": since}


async def _start(seen: Record, ports: ActionPorts) -> ActionProgress:
    since = ports.reading.clock.now()
    try:
        claim = await begin(seen, ports)
    except Changed as why:
        after = await supersede(seen.approval, why, ports)
        return {"state": after.state.value, "why": why.why}
    except record.VersionChanged:
        return {"state": State.SUPERSEDED.value, "why": "versions"}
    except (record.NotOpen, record.TooLate):
        return {"state": (await ports.ledger.record(seen.approval)).state.value}
    await ports.began(seen.approval)
    after = await carry_out(claim, ports)
    return {"state": after.state.value, "ran": ran(after), "since": since.isoformat()}


async def _find_out(seen: Record, ports: ActionPorts) -> ActionProgress:
    claim = await ports.ledger.adopt(seen.approval, ports.worker)
    if claim is None:
        raise StillRunning(seen.approval)
    after = await carry_out(claim, ports)
    return {"state": after.state.value, "ran": ran(after), "since": claimed_at(seen, ports.reading.clock.now()).isoformat()}


async def prove(state: ActionProgress, runtime: Runtime[ActionPorts]) -> ActionProgress:
    """Look again at the target, and keep what it shows. An outcome that is kept already is not judged twice."""
    ports = runtime.context
    seen = await ports.ledger.record(state["approval"])
    if seen.outcome:
        return {"says": state.get("says", "")}
    proof, facts = await proof_of(seen, datetime.fromisoformat(state["since"]), ports)
    await ports.ledger.judge(seen.approval, proof.outcome)
    sha = await ports.reading.evidence.put_facts(seen.action.incident, facts) if facts else ""
    return {"says": proof.says, "facts": sha, "new": list(proof.new)}


def after_act(state: ActionProgress) -> str:
    """A proof follows a command that ran; anything else is over."""
    return "prove" if state.get("ran") and state.get("state") in (State.DONE.value, State.FAILED.value) else END


def build_action_graph(checkpointer: BaseCheckpointSaver[Any]) -> ActionGraph:
    """Ports are given with each call."""
    graph = StateGraph(ActionProgress, context_schema=ActionPorts)
    graph.add_node("ask", ask)
    graph.add_node("act", act)
    graph.add_node("prove", prove)
    graph.add_edge(START, "ask")
    graph.add_edge("ask", "act")
    graph.add_conditional_edges("act", after_act, ["prove", END])
    graph.add_edge("prove", END)
    return graph.compile(checkpointer=checkpointer, name="action")


def thread_of(approval: str) -> str:
    return f"action:{approval}"


class ActionThreads:
    """The threads as the driver needs them: each call brings one to where the ledger says it should be."""

    def __init__(self, saver: RedisSaver, ports: ActionPorts) -> None:
        self._saver = saver
        self._graph = build_action_graph(saver)
        self._ports = ports

    async def wait(self, seen: Record) -> None:
        """Make sure that the thread stands before its decision."""
        config = _config(seen.approval)
        snapshot = await self._graph.aget_state(config)
        if not snapshot.values:
            await self._graph.ainvoke(_opening(seen), config, context=self._ports, durability="sync")

    async def go_on(self, seen: Record) -> ActionProgress:
        """Past the decision, to the end or to where it cannot go on now (NotNow, StillRunning, LostClaim)."""
        config = _config(seen.approval)
        snapshot = await self._graph.aget_state(config)
        if not snapshot.values or snapshot.values.get("version") != ACTION_VERSION:
            await self._graph.ainvoke(_opening(seen), config, context=self._ports, durability="sync")
            snapshot = await self._graph.aget_state(config)
        if snapshot.interrupts:
            await self._graph.ainvoke(Command(resume={"state": seen.state.value}), config, context=self._ports, durability="sync")
        elif cut_off(snapshot):
            await self._graph.ainvoke(None, config, context=self._ports, durability="sync")
        elif _left_in_doubt(snapshot.values, seen):
            await self._graph.aupdate_state(config, {"state": seen.state.value, "ran": ran(seen)}, as_node="act")
            await self._graph.ainvoke(None, config, context=self._ports, durability="sync")
        return (await self._graph.aget_state(config)).values  # type: ignore[return-value]

    async def tidy(self, approval: str, keep: timedelta) -> None:
        """The thread is at its end: one checkpoint is enough, and that for a while."""
        await self._saver.aprune([thread_of(approval)])
        await self._saver.expire(thread_of(approval), int(keep.total_seconds()))


def _left_in_doubt(values: Any, seen: Record) -> bool:
    """The thread ended without a proof, and a human has since said what happened."""
    return (
        seen.state in (State.DONE, State.FAILED) and not seen.outcome and values.get("state") not in (State.DONE.value, State.FAILED.value)
    )


def _opening(seen: Record) -> ActionProgress:
    return {"approval": seen.approval, "incident": seen.action.incident, "version": ACTION_VERSION}


def _config(approval: str) -> RunnableConfig:
    return RunnableConfig(configurable={"thread_id": thread_of(approval)}, recursion_limit=10)
