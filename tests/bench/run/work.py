"""One case under several arms in a worker process, as plain JSON rows. A crashed arm is a row too, marked wrong."""

import asyncio
import gc
import time
import traceback
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from deploy.sandbox.cluster.access.cluster import Cluster
from deploy.sandbox.cluster.cases.case import SimulatedCase
from deploy.sandbox.cluster.cases.reader import parse_case
from tests.bench.arms.arm import Account, Answer, Arm, Cost, Knowledge, NotRun
from tests.bench.arms.table import ARMS
from tests.bench.case_files.truth import read_truth
from tests.bench.model.endpoint import Access, Exchange, Line, ModelFailed, NotRecorded
from tests.bench.run.setup import everything, renamed, stand, without, world_seed
from tests.bench.score import Marked

CRASHED = "CRASHED"  # the answer of an arm that raised: never right


@dataclass(frozen=True, slots=True)
class Job:
    """One attempt at one case by some arms. `permuted`: seed that shuffles label names. `kb`: a site folder."""

    raw: Mapping[str, Any]
    arms: tuple[str, ...]
    attempt: int = 0
    transport: str = "inprocess"
    access: Access | None = None
    permuted: int | None = None
    kb: Path | None = None


_runner: asyncio.Runner | None = None


def work(job: Job) -> list[dict[str, Any]]:
    """Return a row per arm."""
    global _runner  # one loop per process: clients and indexes outlive a case
    _runner = _runner or asyncio.Runner()
    case = parse_case(dict(job.raw), str(job.raw.get("id", "case")))
    before = Cluster.from_case(case, world_seed(case, job.attempt)).state_hash()
    gc.disable()  # a case creates a million small objects and hardly any cycle; collection took a tenth of the time
    try:
        return [_runner.run(_row(case, job, name, before)) for name in job.arms]
    finally:
        gc.enable()


async def _row(case: SimulatedCase, job: Job, name: str, before: str) -> dict[str, Any]:
    row: dict[str, Any] = {"case": case.id, "arm": name, "attempt": job.attempt}
    began = time.perf_counter()
    removed = frozenset(read_truth(case.truth, case.id).removed)
    names, knowledge = (
        ({}, without(removed, job.kb)) if job.permuted is None else (permutation(job.permuted), _permuted(job.permuted, removed))
    )
    line = _exchange(job.access).line(case.id, name, job.attempt) if ARMS[name].model and job.access else None
    async with stand(case, knowledge, attempt=job.attempt, transport=job.transport, oracle=ARMS[name].sees_cluster, line=line,
                     before=before) as ready:  # fmt: skip
        try:
            answer = await _arm(name).solve(ready.stage)
            if line:
                _answered(line)
        except NotRun as error:
            return row | {"failed": str(error), "unrecorded": isinstance(error, NotRecorded)}
        except Exception as error:  # any exception leaves the case without an answer
            answer = Answer((CRASHED,))
            row |= {"crashed": f"{type(error).__name__}: {error}"[:300], "where": _place(error)}
        back = {new: old for old, new in names.items()}
        # Rounded, so that a process's order of float additions does not show.
        sure = None if answer.confidence is None else round(answer.confidence, 6)
        named = {"labels": [back.get(label, label) for label in answer.labels], "likely": back.get(answer.likely, answer.likely)}
        row |= {"answer": asdict(answer) | named | {"confidence": sure}}
        row |= {"unsafe": ready.cluster.unsafe_command_count, "unchanged": ready.unchanged, "commands": ready.meter.commands}
        row |= {"model": line.summary()} if line else {}
    return row | {"wall": round(time.perf_counter() - began, 4)}


def _place(why: Exception) -> str:
    """Return file and line of the exception."""
    frames = traceback.extract_tb(why.__traceback__)
    return f"{Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""


def _answered(line: Line) -> None:
    """Raise if every question failed or the recording lacks one: the row would say nothing about the arm."""
    if line.missing:
        raise NotRecorded(line.missing)
    if line.dead:
        raise ModelFailed(line.dead)


@cache
def _arm(name: str) -> Arm:
    return ARMS[name].make()


@cache
def _exchange(access: Access) -> Exchange:
    return Exchange(access)


@lru_cache(maxsize=4)
def _permuted(seed: int, removed: frozenset[str]) -> Knowledge:
    return renamed(permutation(seed), removed)


@cache
def permutation(seed: int) -> dict[str, str]:
    """Return every label under a meaningless name."""
    import random

    order = list(everything().taxonomy.leaves)
    random.Random(seed).shuffle(order)
    # The branch stays, because it decides which evidence is trusted. The last part becomes a number.
    return {label: f"{label.rpartition('.')[0]}.L{i:03}" for i, label in enumerate(order)}


def marked(row: Mapping[str, Any], raw: Mapping[str, Any]) -> Marked:
    """Return a worker's row with its case's truth."""
    told = row["answer"]
    answer = Answer(
        labels=tuple(told["labels"]),
        hosts=tuple(told["hosts"]),
        devices=tuple(told["devices"]),
        evidence=tuple((check, host) for check, host in told["evidence"]),
        cost=Cost(**told["cost"]),
        confidence=told["confidence"],
        plans=tuple(told["plans"]),
        writes=told.get("writes", 0),
        account=_account(told.get("account")),
        likely=told.get("likely", ""),
    )
    truth = read_truth(raw["truth"], str(raw["id"]))
    return Marked(str(raw["id"]), scored_as(str(raw["layer"])), truth, answer, row["attempt"], row["unsafe"], row["unchanged"])


def scored_as(layer: str) -> str:
    """Map look-alikes and multi-node faults to layer hard."""
    return "hard" if layer in ("lookalike", "multinode") else layer


def _account(told: Mapping[str, Any] | None) -> Account | None:
    return Account(str(told["says"]), *(tuple(told[name]) for name in ("saw", "suspected", "could_not_look"))) if told else None
