"""The model as one case sees it. All questions of all arms pass here to be counted, recorded or replayed.

Nothing ever answers in a model's place: without endpoint or recording there is no line, a missing recorded answer fails
the case, and every answer carries its author, so the sandbox's stand-in is never taken for a model.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args, get_origin

from pydantic import BaseModel, ConfigDict, ValidationError

from deploy.sandbox.model.server import MODEL_NAME as STAND_IN
from graph.model.budget import Budget, find_price
from graph.model.client import CircuitBreaker, ModelReasoner
from graph.model.endpoint import ChatEndpoint, EndpointFailure, ModelReply, OpenAIEndpoint
from graph.model.prompts import ModelQuestion, build_question
from graph.model.recording import compute_question_digest
from tests.bench.arms.arm import Cost, NotRun
from tests.bench.model.recording import Key, add, read_recording, without

PROMPTS = Path(__file__).parents[1] / "prompts"
NOT_RECORDED = "not recorded"


class Typed(BaseModel):
    """What an arm wants to hear."""

    model_config = ConfigDict(extra="forbid", strict=True)


A = TypeVar("A", bound=Typed)


@dataclass(frozen=True, slots=True)
class Access:
    """An endpoint, or its recording. `tape`: the recording's digest."""

    url: str
    key: str = field(repr=False)
    name: str
    seconds: float = 30.0
    record: Path | None = None
    replay: Path | None = None
    tape: str = ""


class ModelFailed(NotRun):
    """The endpoint did not answer. The run is then no result: it is counted apart, neither right nor wrong."""


class NotRecorded(NotRun):
    """A replayed case asks what nobody recorded: the prompts, the case or the code are other ones now."""


@dataclass(frozen=True, slots=True)
class Told:
    """A question's digest and its answer."""

    name: str
    asked: str
    answer: ModelReply | EndpointFailure


class Exchange:
    """Shared by a process's lines: one client, or one recording."""

    def __init__(self, access: Access, endpoint: ChatEndpoint | None = None) -> None:
        self.access = access
        self._recorded = read_recording(access.replay) if access.replay else None
        self.endpoint = endpoint or (
            None if self._recorded else OpenAIEndpoint(access.url, access.key, access.name, seconds=access.seconds)
        )
        self.model = self._recorded.model if self._recorded else access.name

    def line(self, case: str, arm: str, attempt: int) -> "Line":
        return Line(self, case, arm, attempt)

    async def answer(self, key: Key, asked: ModelQuestion, name: str, schema: Mapping[str, Any]) -> ModelReply | EndpointFailure | None:
        """Return the recorded answer (None if missing), or ask and record."""
        if self._recorded is not None:
            return self._recorded.answers.get(key)
        assert self.endpoint is not None  # one of the two is set
        answer = without(self.access.key, await self.endpoint.ask(asked, name, schema))
        if self.access.record:
            add(self.access.record, key, name, answer)
        return answer

    async def aclose(self) -> None:
        if self.endpoint is not None:
            await self.endpoint.aclose()


class Line:
    """A `graph.model.endpoint.ChatEndpoint` for one case under one arm."""

    def __init__(self, exchange: Exchange, case: str, arm: str, attempt: int) -> None:
        self._exchange, self._scope, self._times = exchange, (case, arm, attempt), Counter[str]()
        self.told: list[Told] = []
        self.missing = ""
        """Why this case cannot be replayed."""

    @property
    def model(self) -> str:
        return self._exchange.model

    async def ask(self, asked: ModelQuestion, name: str, schema: Mapping[str, Any]) -> ModelReply | EndpointFailure:
        digest = compute_question_digest(self.model, name, asked, schema)
        key = Key(*self._scope, digest, self._times[digest])
        self._times[digest] += 1
        answer = await self._exchange.answer(key, asked, name, schema)
        if answer is None:
            self.missing = f"{NOT_RECORDED}: question {len(self.told) + 1}, {name}, {digest[:12]}"
            raise NotRecorded(self.missing)
        self.told.append(Told(name, digest, answer))
        return answer

    async def aclose(self) -> None:
        """Keep the exchange open; it outlives the case."""

    def reasoner(self, budget: Budget | None = None) -> ModelReasoner:
        """Return the product's client. Its breaker has a constant clock, so durations cannot change a replay."""
        return ModelReasoner(self, budget=budget, breaker=CircuitBreaker(clock=lambda: 0.0))

    async def put(self, name: str, offered: dict[str, list[str]], data: dict[str, str], shape: type[A], **enums: list[str]) -> A | None:
        """Ask one of the benchmark's prompts; None if the answer is unusable. `enums`: allowed ids of a list."""
        answer = await self.ask(build_question(name, offered, data, PROMPTS), name, schema_of(shape, enums))
        if isinstance(answer, EndpointFailure):
            if answer.provider:
                raise ModelFailed(answer.why)
            return None
        return read(shape, answer.text)

    def heard(self) -> None:
        """Raise ModelFailed if the provider failed on the last question; for arms that are nothing without their model."""
        last = self.told[-1].answer if self.told else None
        if isinstance(last, EndpointFailure) and last.provider:
            raise ModelFailed(last.why)

    @property
    def cost(self) -> Cost:
        """Return the cost of all questions so far."""
        tokens = sum(one.answer.tokens_in for one in self.told), sum(one.answer.tokens_out for one in self.told)
        return Cost(calls=len(self.told), tokens_in=tokens[0], tokens_out=tokens[1], usd=find_price(self.model).compute_usd(*tokens))

    @property
    def dead(self) -> str:
        """Return why every question failed, or ""."""
        troubles = [one.answer.why for one in self.told if isinstance(one.answer, EndpointFailure) and one.answer.provider]
        return troubles[-1] if troubles and len(troubles) == len(self.told) else ""

    def summary(self) -> dict[str, Any]:
        """Return authors, failures, and a digest of everything said."""
        said = [[one.name, one.asked, _said(one.answer)] for one in self.told]
        return {
            "by": sorted({one.answer.by or "?" for one in self.told if isinstance(one.answer, ModelReply)}),
            "asked": dict(Counter(one.name for one in self.told)),
            "troubles": sum(isinstance(one.answer, EndpointFailure) for one in self.told),
            "transcript": hashlib.sha256(json.dumps(said).encode()).hexdigest(),
        }


def _said(answer: ModelReply | EndpointFailure) -> str:
    return answer.text if isinstance(answer, ModelReply) else f"trouble: {answer.why}"


def is_stand_in(by: str) -> bool:
    """Return whether the sandbox's stand-in answered."""
    return by == STAND_IN


def schema_of(shape: type[Typed], enums: Mapping[str, list[str]]) -> dict[str, Any]:
    """Return a strict JSON schema: all required, nothing additional, ids from a list."""
    properties = {name: _property(field.annotation, enums.get(name)) for name, field in shape.model_fields.items()}
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


def _property(kind: Any, ids: list[str] | None) -> dict[str, Any]:
    words = ids or list(get_args(kind) if get_origin(kind) is Literal else ())
    text: dict[str, Any] = {"type": "string", "enum": words} if words else {"type": "string"}
    return {"type": "array", "items": text} if kind == list[str] else text


def read(shape: type[A], raw: str) -> A | None:
    text = raw.strip().removeprefix("```json").removeprefix("```").removesuffix("```").strip()
    try:
        return shape.model_validate_json(text)
    except ValidationError:
        return None
