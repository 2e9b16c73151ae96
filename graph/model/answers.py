"""Shapes of model answers: JSON schemas for the endpoint and strict pydantic models for parsing.

An answer is accepted whole or refused. Text for people is one short line that pings no user and contains no active link.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

A = TypeVar("A", bound="ModelAnswer")
TEXT_SCHEMA: Mapping[str, Any] = {"type": "string"}
INTEGER_SCHEMA: Mapping[str, Any] = {"type": "integer"}
PROBABILITY_SCHEMA: Mapping[str, Any] = {"type": "number"}
BOOLEAN_SCHEMA: Mapping[str, Any] = {"type": "boolean"}
MAX_LOCATION_CHARS = 60  # Characters of an error's location: the field name may come from the model.
_URL_SCHEME_PATTERN = re.compile(r"\b(h)(tt)(ps?)(?=:)", re.IGNORECASE)
_PING_PATTERN = re.compile(r"[<>`]|@(?=\w)")


class BadAnswer(Exception):
    """The answer is not of the asked shape, or names what was not offered. Says what."""


class ModelAnswer(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class LikelyCause(ModelAnswer):
    cause: str
    p: float = Field(ge=0, le=1)


class LookAnswer(ModelAnswer):
    check: str
    hosts: list[str]
    repeat: bool


class ReadAnswer(ModelAnswer):
    symptoms: list[str] = Field(max_length=20)
    hosts: list[str]
    job: str = Field(max_length=120)
    times: list[str] = Field(max_length=10)
    signatures: list[str] = Field(max_length=10)
    category: str
    causes: list[LikelyCause] = Field(max_length=10)
    outside: str = Field(max_length=1_000)
    looks: list[LookAnswer] = Field(default_factory=list, max_length=20)  # asked for only where checks are offered


class IdeaAnswer(ModelAnswer):
    title: str = Field(max_length=500)
    cause: str = Field(max_length=2_000)
    branch: str
    cites: list[int] = Field(max_length=60)
    quotes: list[str] = Field(max_length=10)
    confirms: str = Field(max_length=1_000)
    refutes: str = Field(max_length=1_000)
    hosts: list[str]
    looks: list[str]
    suggestions: list[str] = Field(max_length=10)
    standing: Literal["open", "supported", "refuted"]


class ExploreAnswer(ModelAnswer):
    ideas: list[IdeaAnswer] = Field(max_length=10)
    questions: list[str] = Field(max_length=10)


class ObjectionAnswer(ModelAnswer):
    claim: int
    verdict: Literal["holds", "doubtful", "contradicted"]
    because: str = Field(max_length=1_000)
    cites: list[int] = Field(max_length=60)


class CritiqueAnswer(ModelAnswer):
    objections: list[ObjectionAnswer] = Field(max_length=20)


class IntentAnswer(ModelAnswer):
    intent: str
    hosts: list[str]
    labels: list[str]
    check: str
    remedy: str


class PastAnswer(ModelAnswer):
    kind: Literal["incident", "other"]
    label: str
    cause: int
    fix: int
    summary: str = Field(max_length=2_000)
    branch: str = ""
    title: str = Field("", max_length=500)
    lasting: list[int] = Field(default_factory=list, max_length=50)


def parse_answer(shape: type[A], raw: str) -> A:
    """Parse the answer. Raises BadAnswer if it does not match its schema."""
    text = raw.strip().removeprefix("```json").removeprefix("```").removesuffix("```").strip()
    try:
        return shape.model_validate_json(text)
    except ValidationError as error:
        first = error.errors()[0]
        location = ".".join(str(part) for part in first["loc"])[:MAX_LOCATION_CHARS] or "the whole"
        raise BadAnswer(f"it is not of the asked shape ({location}: {first['msg']})") from error


def require_offered(named: Iterable[Any], among: Collection[Any], what: str) -> None:
    """Raise BadAnswer if the answer names a value that was not offered."""
    for label in named:
        if label not in among:
            raise BadAnswer(f"{what} {str(label)[:60]!r} was not among those offered")


def select_offered(named: Sequence[str], among: Collection[str], what: str) -> tuple[str, ...]:
    """Return the named values without repetition. Where none were offered the schema cannot forbid them, so they are dropped.

    Raises:
        BadAnswer: A value is not among those offered.
    """
    if not among:
        return ()
    require_offered(named, among, what)
    return tuple(dict.fromkeys(named))


def build_object_schema(**properties: Mapping[str, Any]) -> dict[str, Any]:
    """Return an object with exactly these properties, all required."""
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


def build_list_schema(ids: Sequence[str] | Mapping[str, Any] | None) -> dict[str, Any]:
    """Return a list schema: of these ids, of any text without ids, or of the given item schema."""
    if isinstance(ids, Mapping):
        return {"type": "array", "items": ids}
    return {"type": "array", "items": build_enum_schema(ids) if ids else TEXT_SCHEMA}


def build_enum_schema(ids: Iterable[str]) -> dict[str, Any]:
    return {"type": "string", "enum": list(ids)}


def sanitize_line(text: str, most: int) -> str:
    """Return model text as one line of at most `most` characters, without active links and mentions."""
    squeezed = _PING_PATTERN.sub("", _URL_SCHEME_PATTERN.sub(r"\1xx\3", " ".join(text.split())))
    return squeezed if len(squeezed) <= most else squeezed[: most - 1] + "…"
