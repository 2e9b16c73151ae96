"""The Redis saver: LangGraph's conformance suite, then our lifetimes, fencing and plain types, then known traps."""

import itertools
import operator
import re
from collections.abc import AsyncIterator
from typing import Annotated, Any, TypedDict, cast

import pytest
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver, Checkpoint, empty_checkpoint
from langgraph.checkpoint.conformance import checkpointer_test, validate
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, interrupt
from pydantic import BaseModel
from redis.asyncio import Redis

from graph.checkpoints.checkpoint import RedisSaver
from graph.checkpoints.checkpoint_reader import KEY_KINDS
from graph.checkpoints.fence import Fence, LostLease, enforce_fence
from graph.state import Hypothesis, InboxItem, IncidentBrief, IncidentState

pytest_plugins = ("tests.support.fixtures_redis",)
SYNC: Any = {"durability": "sync"}


class Story(TypedDict, total=False):
    told: Annotated[list[Any], operator.add]
    seen: Any


def place(thread: str) -> RunnableConfig:
    return {"configurable": {"thread_id": thread}}


def chain(saver: BaseCheckpointSaver[str], *nodes: Any) -> Any:
    """Return a graph that runs the nodes in sequence."""
    graph: Any = StateGraph(Story)
    names = [START, *(node.__name__ for node in nodes), END]
    for node in nodes:
        graph.add_node(node.__name__, node)
    for before, after in itertools.pairwise(names):
        graph.add_edge(before, after)
    return graph.compile(checkpointer=saver)


def one(state: Story) -> Story:
    return {"told": [1]}


def two(state: Story) -> Story:
    return {"told": [2]}


async def test_the_whole_conformance_suite_passes(redis: Redis) -> None:
    @checkpointer_test(name="RedisSaver")
    async def ours() -> AsyncIterator[RedisSaver]:
        yield RedisSaver(redis)

    report = await validate(ours)
    assert {name: result.failures for name, result in report.results.items() if not result.passed} == {}
    assert len(report.results) == 8


async def test_a_thread_is_six_keys_in_one_hash_tag(redis: Redis) -> None:
    await chain(RedisSaver(redis), one, two).ainvoke({"told": [0]}, place("inc-1"), **SYNC)
    keys = set(await redis.keys("*"))
    assert keys == {f"rm:thread:{{inc-1}}:{kind}".encode() for kind in KEY_KINDS}


async def test_nothing_expires_until_told_and_then_all_of_it_does(redis: Redis) -> None:
    saver = RedisSaver(redis)
    await chain(saver, one).ainvoke({"told": []}, place("inc-1"), **SYNC)
    keys = await redis.keys("*")
    assert {await redis.ttl(key) for key in keys} == {-1}
    await saver.expire("inc-1", 3600)
    assert all([0 < await redis.ttl(key) <= 3600 for key in keys])


async def test_a_put_on_an_expiring_thread_keeps_the_whole_thread(redis: Redis) -> None:
    saver = RedisSaver(redis)
    graph = chain(saver, one)
    await graph.ainvoke({"told": [0]}, place("inc-1"), **SYNC)
    await saver.expire("inc-1", 3600)
    await graph.ainvoke({"told": [5]}, place("inc-1"), **SYNC)
    assert {await redis.ttl(key) for key in await redis.keys("*")} == {-1}


async def test_writes_come_back_by_task_path_then_task_then_position(redis: Redis) -> None:
    saver = RedisSaver(redis)
    stored = await saver.aput({"configurable": {"thread_id": "t", "checkpoint_ns": ""}}, empty_checkpoint(), {}, {})
    await saver.aput_writes(stored, [("told", "b0"), ("told", "b1")], "task-b", "~a")
    await saver.aput_writes(stored, [("told", "a0")], "task-a", "~b")
    await saver.aput_writes(stored, [("told", "input")], "task-z", "")
    row = await saver.aget_tuple(stored)
    assert row
    assert [value for _, _, value in row.pending_writes or []] == ["input", "b0", "b1", "a0"]


async def test_two_branches_of_one_thread_do_not_share_a_version(redis: Redis) -> None:
    saver = RedisSaver(redis)
    first = saver.get_next_version(None, None)
    second, other = saver.get_next_version(first, None), saver.get_next_version(first, None)
    assert first < second
    assert second != other
    assert re.fullmatch(r"[0-9a-f]{8}\.[0-9a-f]{8}", second)


async def test_what_was_put_last_is_the_latest_though_another_machines_clock_was_behind(redis: Redis) -> None:
    saver = RedisSaver(redis)
    later, earlier = ({**empty_checkpoint(), "id": f"1f1aa000-0000-6000-8000-00000000000{n}"} for n in (2, 1))
    first = await saver.aput({"configurable": {"thread_id": "t", "checkpoint_ns": ""}}, cast(Checkpoint, later), {}, {})
    await saver.aput(first, cast(Checkpoint, earlier), {}, {})
    for _ in range(2):
        row = await saver.aget_tuple({"configurable": {"thread_id": "t"}})
        assert row
        assert row.checkpoint["id"] == earlier["id"]
        await saver.aprune(["t"])
    assert await redis.hlen("rm:thread:{t}:checkpoints") == 1


async def test_a_thread_stored_before_heads_were_goes_by_its_names(redis: Redis) -> None:
    graph = chain(RedisSaver(redis), one, two)
    await graph.ainvoke({"told": [0]}, place("inc-1"), **SYNC)
    await redis.delete("rm:thread:{inc-1}:heads")
    assert (await graph.aget_state(place("inc-1"))).values["told"] == [0, 1, 2]
    assert (await graph.ainvoke({"told": [9]}, place("inc-1"), **SYNC))["told"] == [0, 1, 2, 9, 1, 2]


async def test_when_the_latest_is_deleted_the_one_before_it_is_the_latest(redis: Redis) -> None:
    saver = RedisSaver(redis)
    at: RunnableConfig = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
    first = await saver.aput(at, empty_checkpoint(), {}, {})
    await saver.aput({**first, "metadata": {"run_id": "gone"}}, empty_checkpoint(), {"run_id": "gone"}, {})
    await saver.adelete_for_runs(["gone"])
    row = await saver.aget_tuple(at)
    assert row
    assert row.config["configurable"]["checkpoint_id"] == first["configurable"]["checkpoint_id"]


async def test_pruning_keeps_the_latest_whole_and_nothing_else(redis: Redis) -> None:
    saver = RedisSaver(redis)
    graph = chain(saver, one, two)
    for n in range(3):
        await graph.ainvoke({"told": [n], "seen": n}, place("inc-1"), **SYNC)
    before = (await graph.aget_state(place("inc-1"))).values
    await saver.aprune(["inc-1"])
    assert (await graph.aget_state(place("inc-1"))).values == before
    assert await redis.hlen("rm:thread:{inc-1}:checkpoints") == 1
    assert await redis.hlen("rm:thread:{inc-1}:writes") == 0
    await graph.ainvoke({"told": [9]}, place("inc-1"), **SYNC)
    assert (await graph.aget_state(place("inc-1"))).values["told"] == [*before["told"], 9, 1, 2]


async def test_a_put_under_a_held_lease_is_written(redis: Redis) -> None:
    await redis.set("lease", "7:me")
    with enforce_fence(Fence("lease", "7:me")):
        out = await chain(RedisSaver(redis), one, two).ainvoke({"told": []}, place("inc-1"), **SYNC)
    assert out["told"] == [1, 2]


async def test_a_stale_worker_is_stopped_at_its_next_put(redis: Redis) -> None:
    saver, ran = RedisSaver(redis), []
    await redis.set("lease", "7:me")

    async def steal(state: Story) -> Story:
        ran.append("steal")
        await redis.set("lease", "8:other")
        return {"told": ["stolen"]}

    def never(state: Story) -> Story:
        ran.append("never")
        return {}

    graph = chain(saver, one, steal, never)
    with enforce_fence(Fence("lease", "7:me")), pytest.raises(LostLease, match="no longer ours"):
        await graph.ainvoke({"told": []}, place("inc-1"), **SYNC)
    assert ran == ["steal"]
    state = await graph.aget_state(place("inc-1"))
    assert state.next == ("steal",)
    assert state.values["told"] == [1]


async def test_an_incident_comes_back_byte_for_byte(redis: Redis) -> None:
    incident: IncidentState = {
        "id": "inc-1",
        "brief": IncidentBrief(text="hangs", hosts=("gpu-017",), symptoms=("hang",)).model_dump(mode="json"),
        "hypotheses": [Hypothesis(label="GPU.memory.X", hosts=("gpu-017",)).model_dump(mode="json")],
        "done_items": ["a", "b"],
    }
    graph = chain(RedisSaver(redis), one)
    await graph.ainvoke({"told": [], "seen": incident}, place("inc-1"), **SYNC)
    back = (await graph.aget_state(place("inc-1"))).values["seen"]
    assert back == incident
    assert IncidentBrief.model_validate(back["brief"]).hosts == ("gpu-017",)


async def test_a_tuple_comes_back_as_a_list_so_states_hold_lists(redis: Redis) -> None:
    graph = chain(RedisSaver(redis), one)
    await graph.ainvoke({"told": [], "seen": ("a", "b")}, place("inc-1"), **SYNC)
    assert (await graph.aget_state(place("inc-1"))).values["seen"] == ["a", "b"]


class Foreign(BaseModel):
    x: int


async def test_a_type_that_is_not_plain_is_not_rebuilt_into_an_object(redis: Redis) -> None:
    graph = chain(RedisSaver(redis), one)
    await graph.ainvoke({"told": [], "seen": Foreign(x=1)}, place("inc-1"), **SYNC)
    assert not isinstance((await graph.aget_state(place("inc-1"))).values["seen"], Foreign)


async def test_a_node_that_was_cut_off_runs_again_from_its_start(redis: Redis) -> None:
    saver, runs = RedisSaver(redis), []

    def flaky(state: Story) -> Story:
        runs.append("flaky")
        if len(runs) == 1:
            raise RuntimeError("cut off")
        return {"told": ["flaky"]}

    graph = chain(saver, one, flaky)
    with pytest.raises(RuntimeError):
        await graph.ainvoke({"told": []}, place("inc-1"), **SYNC)
    assert (await graph.aget_state(place("inc-1"))).next == ("flaky",)
    assert (await graph.ainvoke(None, place("inc-1"), **SYNC))["told"] == [1, "flaky"]
    assert runs == ["flaky", "flaky"]


async def test_new_input_drops_an_unfinished_turn_so_the_desk_continues_it_first(redis: Redis) -> None:
    broken = [True]

    def flaky(state: Story) -> Story:
        if broken:
            raise RuntimeError("cut off")
        return {"told": ["flaky"]}

    graph = chain(RedisSaver(redis), one, flaky, two)
    with pytest.raises(RuntimeError):
        await graph.ainvoke({"told": ["first"]}, place("inc-1"), **SYNC)
    broken.clear()
    out = await graph.ainvoke({"told": ["second"]}, place("inc-1"), **SYNC)
    assert out["told"] == ["first", 1, "second", 1, "flaky", 2]  # the first turn never completed


async def test_resuming_an_unknown_thread_would_start_it_so_it_is_looked_up_first(redis: Redis) -> None:
    asked = []

    def ask(state: Story) -> Story:
        asked.append(interrupt("approve?"))
        return {}

    graph = chain(RedisSaver(redis), ask)
    state = await graph.aget_state(place("nobody"))
    assert state.next == ()
    assert state.interrupts == ()
    await graph.ainvoke(Command(resume="yes"), place("nobody"), **SYNC)
    assert asked == []  # it resumed nothing: it started a run and stopped at its interrupt


async def test_an_item_is_stored_as_plain_json(redis: Redis) -> None:
    item = InboxItem.model_validate({"id": "T.C.1", "kind": "mention", "incident": "inc-1", "at": "2026-05-20T03:10:00Z", "text": "hang"})
    graph = chain(RedisSaver(redis), one)
    await graph.ainvoke({"told": [], "seen": item.model_dump(mode="json")}, place("inc-1"), **SYNC)
    assert InboxItem.model_validate((await graph.aget_state(place("inc-1"))).values["seen"]) == item


async def test_what_a_bug_says_is_kept_without_its_secrets(redis: Redis) -> None:
    """LangGraph stores a node's exception, which may quote any input."""

    def broken(state: Story) -> Story:
        raise ValueError(f"cannot read the line 'login with password=tk-9fQ2xAyu71b' {'.' * 5000}")

    saver = RedisSaver(redis)
    with pytest.raises(ValueError, match="cannot read"):
        await chain(saver, one, broken).ainvoke({"told": []}, place("inc-1"), **SYNC)
    writes: Any = await cast(Any, redis).hgetall("rm:thread:{inc-1}:writes")
    [kept] = [value for value in writes.values() if b"cannot read" in value]
    assert (b"tk-9fQ2xAyu71b" in kept, b"ValueError" in kept, len(kept) < 1000) == (False, True, True)
    found = await saver.aget_tuple(place("inc-1"))
    assert found is not None
    assert [channel for _, channel, _ in found.pending_writes or ()] == ["__error__"]
