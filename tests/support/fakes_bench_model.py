"""An in-process model for the benchmark's arms: answers by question name and records the questions."""

import asyncio
import json
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from deploy.sandbox.cluster.cases.reader import parse_case
from deploy.sandbox.model.server import SandboxModel, serve
from graph.model.endpoint import EndpointFailure, ModelReply
from graph.model.prompts import ModelQuestion
from tests.bench.arms.arm import Answer, Arm
from tests.bench.case_files.truth import read_truth
from tests.bench.model.endpoint import Access, Exchange, Line
from tests.bench.run.setup import stand, without

ACCESS = Access("http://127.0.0.1:9", "sk-very-secret-1", "gpt-4o")
Answers = Callable[[str, str, Mapping[str, Any]], Any]


def listed(user: str, title: str) -> list[str]:
    """Return the ids of a list in a question."""
    block = user.partition(f"{title}:\n")[2].partition("\n\n")[0]
    return [line[2:] for line in block.splitlines() if line.startswith("- ")]


@dataclass
class FakeModel:
    """`answers(name, text, schema)` returns a mapping, a text, or an EndpointFailure."""

    answers: Answers
    model: str = "gpt-4o"
    by: str = "gpt-4o-2024-11-20"
    asked: list[tuple[str, str]] = field(default_factory=list)

    async def ask(self, asked: ModelQuestion, name: str, schema: Mapping[str, Any]) -> ModelReply | EndpointFailure:
        self.asked.append((name, asked.user))
        said = self.answers(name, asked.user, schema)
        if isinstance(said, EndpointFailure):
            return said
        return ModelReply(said if isinstance(said, str) else json.dumps(said), 100, 10, self.by)

    async def aclose(self) -> None:
        pass

    @property
    def names(self) -> list[str]:
        return [name for name, _ in self.asked]


@dataclass
class Solved:
    answer: Answer
    line: Line
    unsafe: int


async def solve(arm: Arm, raw: Mapping[str, Any], model: FakeModel | None = None, *, record: Path | None = None) -> Solved:
    """Run one case under one arm and assert that the cluster is unchanged."""
    case = parse_case(dict(raw))
    access = Access(ACCESS.url, ACCESS.key, ACCESS.name, record=record)
    line = Exchange(access, model or FakeModel(lambda *_: "")).line(case.id, "arm", 0)
    knowledge = without(frozenset(read_truth(case.truth).removed))
    async with stand(case, knowledge, line=line) as ready:
        answer = await arm.solve(ready.stage)
        assert ready.unchanged
        return Solved(answer, line, ready.cluster.unsafe_command_count)


class Served:
    """The sandbox model over HTTP in its own thread, so the code under test keeps its event loop."""

    def __init__(self) -> None:
        self.sandbox, self._loop = SandboxModel(), asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._runner, self.url = asyncio.run_coroutine_threadsafe(serve(self.sandbox), self._loop).result(10)

    @property
    def asked(self) -> list[dict[str, Any]]:
        return self.sandbox.script.asked

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self.sandbox.script.released.set)
        asyncio.run_coroutine_threadsafe(self._runner.cleanup(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()
