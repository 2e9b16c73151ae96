"""The questions' model endpoint: counted, each question asked once, recorded and replayed by the product's recording."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from graph.model.budget import Budget
from graph.model.client import CircuitBreaker, ModelReasoner
from graph.model.endpoint import ChatEndpoint, EndpointFailure, ModelReply
from graph.model.prompts import ModelQuestion
from graph.model.recording import compute_question_digest

BUDGET: Final = Budget(calls=100_000, tokens=1_000_000_000, usd=100_000)


@dataclass
class Heard:
    """A `ChatEndpoint` that counts questions and missing answers."""

    inner: ChatEndpoint
    asked: int = 0
    missing: int = 0
    tokens: list[int] = field(default_factory=lambda: [0, 0])

    @property
    def model(self) -> str:
        return self.inner.model

    async def ask(self, asked: ModelQuestion, name: str, schema: Mapping[str, Any]) -> ModelReply | EndpointFailure:
        answer = await self.inner.ask(asked, name, schema)
        self.asked += 1
        self.missing += isinstance(answer, EndpointFailure)
        if isinstance(answer, ModelReply):
            self.tokens = [self.tokens[0] + answer.tokens_in, self.tokens[1] + answer.tokens_out]
        return answer

    async def aclose(self) -> None:
        await self.inner.aclose()

    def reasoner(self) -> ModelReasoner:
        """Return the product's client with a breaker that never opens, because repeated questions are intended."""
        return ModelReasoner(self, budget=BUDGET, breaker=CircuitBreaker(trips=1_000_000))


class Shared:
    """A `ChatEndpoint` that asks equal questions once."""

    def __init__(self, inner: ChatEndpoint) -> None:
        self.model = inner.model
        self._inner = inner
        self._open: dict[str, asyncio.Task[ModelReply | EndpointFailure]] = {}

    async def ask(self, asked: ModelQuestion, name: str, schema: Mapping[str, Any]) -> ModelReply | EndpointFailure:
        digest = compute_question_digest(self.model, name, asked, schema)
        if digest not in self._open:
            self._open[digest] = asyncio.ensure_future(self._inner.ask(asked, name, schema))
        return await self._open[digest]

    async def aclose(self) -> None:
        await self._inner.aclose()
