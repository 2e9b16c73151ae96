"""Answer schemas that keep a weak model short, or never let it finish."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from graph.model.endpoint import ChatEndpoint, EndpointFailure, ModelReply
from graph.model.prompts import ModelQuestion

Schema = Mapping[str, Any]


@dataclass
class Shaped:
    """An endpoint that asks for a narrower or wider schema than the question. Records its answers."""

    inner: ChatEndpoint
    shape: Callable[[Schema], Schema]
    answers: list[tuple[Schema, ModelReply | EndpointFailure]] = field(default_factory=list)

    @property
    def model(self) -> str:
        return self.inner.model

    async def ask(self, question: ModelQuestion, name: str, schema: Schema) -> ModelReply | EndpointFailure:
        shape = self.shape(schema)
        answer = await self.inner.ask(question, name, shape)
        self.answers.append((shape, answer))
        return answer

    async def aclose(self) -> None:
        await self.inner.aclose()


def terse(schema: Schema) -> dict[str, Any]:
    """Return the schema with short lists, texts and numbers, which a weak model can finish and which still fit the
    original.
    """
    return _each(schema, {"maxItems": 1})


def endless(schema: Schema) -> dict[str, Any]:
    """Return the schema with lists too long to finish."""
    return _each(schema, {"minItems": 2_000})


def _each(schema: Schema, lists: Schema) -> dict[str, Any]:
    match schema:
        case {"enum": _}:
            return dict(schema)
        case {"type": "object", "properties": parts}:
            return {**schema, "properties": {name: _each(part, lists) for name, part in parts.items()}}
        case {"type": "array", "items": item}:
            return {**schema, "items": _each(item, lists), **lists}
        case {"type": "integer"}:
            return {"enum": [0, 1]}
        case {"type": "number"}:
            return {"enum": [0.2, 0.9]}
    return {**schema, "maxLength": 24}
