"""Model answers: JSON schemas for the endpoint, strict models for parsing, and their conversion into values. Pure."""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from statistics import fmean
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from graph.model.reasoner import Idea, Ideas, Objection, PromptMaterial, ReportExtraction
from kb.schema import squash_blanks

# Shapes of model answers: JSON schemas for the endpoint and strict pydantic models for parsing. Pure.
#
# An answer is taken whole or refused. Text for people is one short line that pings no user and contains no active link.

A = TypeVar("A", bound="ModelAnswer")
TEXT_SCHEMA: Mapping[str, Any] = {"type": "string"}
INTEGER_SCHEMA: Mapping[str, Any] = {"type": "integer"}
PROBABILITY_SCHEMA: Mapping[str, Any] = {"type": "number"}
MAX_LOCATION_CHARS = 60  # Characters of an error's location: the field name may come from the model.


class BadAnswer(Exception):
    """The answer is not of the asked shape, or names what was not offered. Says what."""


class ModelAnswer(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class LikelyCause(ModelAnswer):
    cause: str
    p: float = Field(ge=0, le=1)


class ReadAnswer(ModelAnswer):
    symptoms: list[str] = Field(max_length=20)
    hosts: list[str]
    job: str = Field(max_length=120)
    times: list[str] = Field(max_length=10)
    signatures: list[str] = Field(max_length=10)
    category: str
    causes: list[LikelyCause] = Field(max_length=10)
    outside: str = Field(max_length=1_000)


class JudgeAnswer(ModelAnswer):
    verdict: Literal["confirmed", "rejected", "inconclusive"]
    because: str = Field(max_length=1_000)
    cites: list[int]


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
    """Parse the answer. Raises BadAnswer."""
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


_URL_SCHEME_PATTERN = re.compile(r"\b(h)(tt)(ps?)(?=:)", re.IGNORECASE)
_PING_PATTERN = re.compile(r"[<>`]|@(?=\w)")


def sanitize_line(text: str, most: int) -> str:
    """Return model text as one line of at most `most` characters, without active links and mentions."""
    squeezed = _PING_PATTERN.sub("", _URL_SCHEME_PATTERN.sub(r"\1xx\3", " ".join(text.split())))
    return squeezed if len(squeezed) <= most else squeezed[: most - 1] + "…"


# Convert model answers into values: keep what the prompt contains, drop what the model invented, merge several
# answers.

MAX_LINE_CHARS = 240
MAX_TITLE_CHARS = 80
MAX_SENTENCE_CHARS = 160
MAX_CAUSES = 3
MAX_IDEAS = 3
MAX_CITES = 4
MAX_QUOTES = 3
MAX_SUGGESTIONS = 2
MAX_QUESTIONS = 3
MAX_LOOKS = 4
MAX_SIGNATURES = 5
MAX_TIMES = 2
NO_OBJECTION = Objection("holds")
T = TypeVar("T")


def build_extraction(answer: ReadAnswer, material: PromptMaterial) -> ReportExtraction:
    """Keep only text found in the material; ids were validated."""
    report, all_read = material.report, f"{material.report}\n{material.logs}\n{material.findings}"
    likely: dict[str, float] = {}
    for row in sorted(answer.causes, key=lambda row: -row.p):
        likely.setdefault(row.cause, round(row.p, 3))
    return ReportExtraction(
        symptoms=remove_duplicates(answer.symptoms),
        hosts=remove_duplicates(answer.hosts),
        job=answer.job.strip() if answer.job.strip() in report else "",
        times=keep_verbatim_quotes(answer.times, report)[:MAX_TIMES],
        signatures=keep_verbatim_quotes(answer.signatures, all_read)[:MAX_SIGNATURES],
        category=answer.category,
        causes=tuple(likely.items())[:MAX_CAUSES],
        outside=sanitize_line(answer.outside, MAX_LINE_CHARS),
    )


def build_ideas(answer: ExploreAnswer, material: PromptMaterial) -> Ideas:
    """Return ideas that rest on shown material. Raises BadAnswer where neither an idea nor a question is left."""
    ideas = [_build_idea(row, material) for row in answer.ideas]
    resting = {idea.title.lower(): idea for idea in reversed(ideas) if idea.title and idea.cause and (idea.cites or idea.quotes)}
    questions = remove_duplicates(sanitize_line(one, MAX_LINE_CHARS) for one in answer.questions if one.strip().endswith("?"))
    kept_ideas = tuple(idea for idea in ideas if resting.get(idea.title.lower()) is idea)[:MAX_IDEAS]
    if not kept_ideas and not questions:
        raise BadAnswer("it has no idea that rests on what was shown, and asks nothing")
    return Ideas(kept_ideas, questions[:MAX_QUESTIONS])


def _build_idea(row: IdeaAnswer, material: PromptMaterial) -> Idea:
    cites = remove_duplicates(row.cites)[:MAX_CITES]
    return Idea(
        title=sanitize_line(row.title, MAX_TITLE_CHARS).rstrip("."),
        cause=sanitize_line(row.cause, MAX_LINE_CHARS),
        branch=row.branch,
        cites=cites,
        quotes=keep_verbatim_quotes(row.quotes, f"{material.report}\n{material.logs}", MAX_SENTENCE_CHARS)[:MAX_QUOTES],
        confirms=sanitize_line(row.confirms, MAX_SENTENCE_CHARS),
        refutes=sanitize_line(row.refutes, MAX_SENTENCE_CHARS),
        hosts=remove_duplicates(row.hosts),
        looks=remove_duplicates(row.looks)[:MAX_LOOKS],
        suggestions=remove_duplicates(sanitize_line(one, MAX_SENTENCE_CHARS) for one in row.suggestions if one.strip())[:MAX_SUGGESTIONS],
        standing=row.standing if cites else "open",
    )


def build_objections(answer: CritiqueAnswer, claims: int) -> tuple[Objection, ...]:
    """Return one objection per claim; one without citations counts as `holds`."""
    first: dict[int, ObjectionAnswer] = {}
    for row in answer.objections:
        first.setdefault(row.claim, row)
    return tuple(_build_objection(first[at]) if at in first else NO_OBJECTION for at in range(claims))


def _build_objection(row: ObjectionAnswer) -> Objection:
    if row.verdict == "holds" or not row.cites:
        return NO_OBJECTION
    return Objection(row.verdict, sanitize_line(row.because, MAX_LINE_CHARS), remove_duplicates(row.cites)[:MAX_CITES])


def merge_extractions(readings: Sequence[ReportExtraction]) -> ReportExtraction:
    """Merge readings: mean probability per cause, majority for category and `outside`, the rest from the first."""
    if len(readings) == 1:
        return readings[0]
    labels = remove_duplicates(label for reading in readings for label, _ in reading.causes)
    means = {label: round(fmean(dict(reading.causes).get(label, 0.0) for reading in readings), 3) for label in labels}
    outside = [reading.outside for reading in readings if reading.outside]
    first = readings[0]
    return ReportExtraction(
        first.symptoms,
        first.hosts,
        first.job,
        first.times,
        first.signatures,
        Counter(reading.category for reading in readings).most_common(1)[0][0],
        tuple(sorted(means.items(), key=lambda row: (-row[1], row[0])))[:MAX_CAUSES],
        outside[0] if len(outside) * 2 > len(readings) else "",
    )


def merge_objections(answers: Sequence[tuple[Objection, ...]]) -> tuple[Objection, ...]:
    """Return, per claim, the objection of more than half of the answers, else `holds`."""
    return tuple(_select_majority([answer[at] for answer in answers]) for at in range(len(answers[0])))


def _select_majority(objections: Sequence[Objection]) -> Objection:
    verdict, votes = Counter(one.verdict for one in objections).most_common(1)[0]
    return next(one for one in objections if one.verdict == verdict) if votes * 2 > len(objections) else NO_OBJECTION


def keep_verbatim_quotes(quotes: Iterable[str], text: str, most: int = MAX_LINE_CHARS) -> tuple[str, ...]:
    """Return quotes found in the text, ignoring whitespace differences, each cut to `most` characters."""
    squashed_text = squash_blanks(text)
    return remove_duplicates(
        kept_quote for quote in quotes if (kept_quote := squash_blanks(quote)[:most].strip()) and kept_quote in squashed_text
    )


def remove_duplicates(values: Iterable[T]) -> tuple[T, ...]:
    return tuple(dict.fromkeys(values))
