"""The line over which the questions go to a model: counted, and the same question asked once. Recorded and replayed by the product's own recording."""

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
    """An `ChatEndpoint` that counts what is asked over it and what stayed unanswered."""

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
        """The product's client; it never rests, since what is asked again was asked on purpose."""
        return ModelReasoner(self, budget=BUDGET, breaker=CircuitBreaker(trips=1_000_000))


class Shared:
    """An `ChatEndpoint` over which the same question is asked once, whoever asks it and however often."""

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
