"""Saver puts and gets on a private Redis with `appendfsync always`, in ms and relative to bare commands.

`python -m tests.bench.perf.checkpoint [THREADS]`: prints one JSON document.
"""

import asyncio
import json
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, cast

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import ChannelVersions, Checkpoint, empty_checkpoint
from redis.asyncio import Redis

from bot.store.store import open_store
from graph.checkpoints.checkpoint import RedisSaver
from graph.checkpoints.fence import Fence, enforce_fence
from graph.state import Evidence, Hypothesis, IncidentBrief

STEPS = 6  # checkpoints of one turn: input and five nodes


def _hypothesis(n: int) -> dict[str, Any]:
    line = "[Wed May 20 03:09:58 2026] NVRM: Xid (PCI:0000:9b:00): 79, pid=4711, GPU has fallen off the bus."
    evidence = tuple(
        Evidence(host=f"gpu-{h:03d}", check="dmesg", key="kernel.xid", device="gpu5", line=line, sha256="e" * 64) for h in range(2)
    )
    row = Hypothesis(label=f"GPU.bus.Fallen_Off_{n}", hosts=("gpu-017",), devices=("gpu-017/gpu5",), confidence=0.5, evidence=evidence)
    return row.model_dump(mode="json")


def _values(step: int) -> dict[str, Any]:
    """Return an ordinary incident's values after `step` nodes."""
    brief = IncidentBrief(
        text="job 4711 hangs, NCCL timeout on gpu-[017-020]", symptoms=("hang",), hosts=tuple(f"gpu-{h:03d}" for h in range(17, 21))
    )
    return {
        "id": "inc-7f3a9c",
        "item": {"id": "T.C.1", "kind": "mention", "text": brief.text},
        "brief": brief.model_dump(mode="json"),
        "hypotheses": [_hypothesis(n) for n in range(min(step, 4))],
        "facts": "f" * 64,
        "done_items": [],
        "rounds": step,
    }


# channels written by each step
CHANGED = (("id", "item"), ("brief",), ("hypotheses", "rounds"), ("facts",), ("hypotheses", "rounds"), ("done_items",))


def _checkpoints(saver: RedisSaver) -> list[tuple[Checkpoint, ChannelVersions]]:
    rows, versions = [], ChannelVersions()
    for step in range(STEPS):
        new: ChannelVersions = {channel: saver.get_next_version(cast(str | None, versions.get(channel)), None) for channel in CHANGED[step]}
        versions.update(new)
        checkpoint = empty_checkpoint()
        checkpoint["channel_values"], checkpoint["channel_versions"] = _values(step), dict(versions)
        rows.append((checkpoint, new))
    return rows


async def _timed(into: list[float], act: Callable[[], Awaitable[Any]]) -> Any:
    begun = time.perf_counter()
    result = await act()
    into.append((time.perf_counter() - begun) * 1000)
    return result


async def _turns(saver: RedisSaver, threads: int, times: dict[str, list[float]], label: str) -> None:
    for n in range(threads):
        config: RunnableConfig = {"configurable": {"thread_id": f"{label}-{n}", "checkpoint_ns": ""}}
        for step, (checkpoint, new) in enumerate(_checkpoints(saver)):
            config = await _timed(times[label], lambda: saver.aput(config, checkpoint, {"source": "loop", "step": step}, new))  # noqa: B023
            await _timed(times["put_writes"], lambda: saver.aput_writes(config, [("hypotheses", [])], "task", "~p"))  # noqa: B023
        await _timed(times["get"], lambda: saver.aget_tuple({"configurable": {"thread_id": f"{label}-{n}"}}))  # noqa: B023


async def _bytes(redis: Redis, pattern: str) -> int:
    return sum([await redis.memory_usage(key, samples=0) or 0 async for key in redis.scan_iter(match=pattern)])


def _shown(times: list[float]) -> dict[str, float]:
    cuts = statistics.quantiles(times, n=100)
    return {"p50": round(cuts[49], 3), "p95": round(cuts[94], 3), "p99": round(cuts[98], 3)}


async def measure(threads: int, directory: Path) -> dict[str, Any]:
    store = await open_store(None, directory)
    saver = RedisSaver(store.redis)
    times: dict[str, list[float]] = {"bare_set": [], "put": [], "put_fenced": [], "put_writes": [], "get": []}
    payload = json.dumps(_values(3)).encode()
    for n in range(threads * STEPS):
        await _timed(times["bare_set"], lambda: store.redis.set(f"bare-{n}", payload))  # noqa: B023
    await _turns(saver, threads, times, "put")
    await store.redis.set("lease", "1:me")
    with enforce_fence(Fence("lease", "1:me")):
        await _turns(saver, threads, times, "put_fenced")
    whole = await _bytes(store.redis, "rm:thread:{put-*")
    await saver.aprune([f"put-{n}" for n in range(threads)])
    pruned = await _bytes(store.redis, "rm:thread:{put-*")
    result = {
        "schema": 1,
        "redis": (await store.get_durability()).version,
        "ms": {label: _shown(row) for label, row in times.items()},
        "put_over_bare_set": round(statistics.median(times["put"]) / statistics.median(times["bare_set"]), 2),
        "bytes_per_checkpoint": whole // (threads * STEPS),
        "bytes_per_incident_after_pruning": pruned // threads,
    }
    await store.aclose()
    return result


def main() -> None:
    directory = Path(tempfile.mkdtemp(prefix="rackmedic-bench-"))
    try:
        sys.stdout.write(json.dumps(asyncio.run(measure(int(sys.argv[1]) if len(sys.argv) > 1 else 100, directory))) + "\n")
    finally:
        shutil.rmtree(directory)


if __name__ == "__main__":
    main()
