"""Load guides from YAML or Markdown with fenced YAML, and check them against the catalogues.

Reports all problems at once.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import AfterValidator, Field, PlainValidator, model_validator

from kb import fact_keys
from kb.guides.guide import Guide, GuideStep, StepCondition
from kb.redact import redact_once
from kb.schema import Flag, StrictModel, Text, Texts, squash_blanks
from kb.taxonomy.expressions import BadExpression, Expression
from kb.taxonomy.taxonomy import SYMPTOMS
from kb.yaml_files import Document, FilePosition, Problems, list_yaml_files, read_document, validate_document

BUILT_IN: Final = Path(__file__).parent
MAX_GUIDES = 64
MAX_STEPS = 24
MAX_LOOKS_PER_STEP = 12
MAX_TEXT_CHARS = 200
MAX_LOOK_DEPTH: Final = 6  # checks in sequence; bounded by the waves of a turn
MAX_WAIT: Final = timedelta(hours=1)
FENCE_OPENING = "```guide"
FENCE_CLOSING = "```"
_WAIT_PATTERN = re.compile(r"(\d{1,5}) ?(s|min|h)")
_UNIT_SECONDS = {"s": 1, "min": 60, "h": 3600}


class BadGuides(Exception):
    """Files that are refused; `problems` are `file:line: reason`, all of them."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = tuple(problems)


@dataclass(frozen=True, slots=True)
class GuideVocabulary:
    """Permitted parts; `checks` maps checks to the keys that they establish."""

    checks: Mapping[str, tuple[str, ...]]
    exclusive: frozenset[str]
    remedies: frozenset[str]


def load_guides(*folders: Path, parts: GuideVocabulary) -> Mapping[str, Guide]:
    """Return guides by id; a site's guide replaces a built-in one. Raises BadGuides."""
    problems = Problems()
    built_in_guides = _load_folder(BUILT_IN, parts, problems)
    own = {name: guide for folder in folders for name, guide in _load_folder(folder, parts, problems).items()}
    if len(own) > MAX_GUIDES:
        problems.add(FilePosition(folders[0]), f"more than {MAX_GUIDES} guides")
    if problems.found:
        raise BadGuides(problems.found)
    return {**built_in_guides, **own}


def _load_folder(folder: Path, parts: GuideVocabulary, problems: Problems) -> dict[str, Guide]:
    taken_names: set[str] = set()
    guides: dict[str, Guide] = {}
    for path in [*list_yaml_files(folder), *sorted(folder.glob("*.md"))]:
        if path.suffix == ".md" and not _has_plan(path):
            problems.add(
                FilePosition(path),
                f"holds no plan between {FENCE_OPENING} and {FENCE_CLOSING}: write the guide there as YAML (docs/guides.md)",
            )
            continue
        document = read_document(path, problems, only=_extract_fenced if path.suffix == ".md" else str)
        if document is None:
            continue
        document.note_taken_ids("guides", taken_names, problems, "{}: there is a guide of this id already")
        file = validate_document(document, _GuideFileModel, problems)
        for at, row in enumerate(file.guides if file else ()):
            guides[row.id] = _build_guide(row, at, document, parts, problems)
    return guides


def _has_plan(path: Path) -> bool:
    """True for an unreadable file, which is reported later."""
    try:
        return any(_extract_fenced(path.read_text(encoding="utf-8", errors="replace")).split("\n"))
    except OSError:
        return True


def _extract_fenced(given: str) -> str:
    """Blank all else, keeping line numbers."""
    inside, kept_lines = False, []
    for line in given.split("\n"):
        if inside and line.rstrip() == FENCE_CLOSING:
            inside = False
        kept_lines.append(line if inside else "")
        inside = inside or line.rstrip() == FENCE_OPENING
    return "\n".join(kept_lines)


def _build_guide(row: "_GuideModel", at: int, document: Document, parts: GuideVocabulary, problems: Problems) -> Guide:
    steps = [_build_step(one, row.steps[n - 1].id if n else "") for n, one in enumerate(row.steps)]
    for n, step in enumerate(steps):
        for field, problem in _find_step_problems(step, steps, n, parts):
            problems.add(document.find_position("guides", at, "steps", n, field), f"{row.id}.{step.id}: {problem}")
    if len({step.id for step in steps}) < len(steps):
        return row.build_guide(steps)
    ordered = _order_steps(steps)
    if ordered is None:
        problems.add(document.find_position("guides", at, "steps"), f"{row.id}: its steps wait for each other in a circle")
        return row.build_guide(steps)
    if (deep := _compute_look_depth(ordered)) > MAX_LOOK_DEPTH:
        problems.add(
            document.find_position("guides", at, "steps"), f"{row.id}: {deep} looks one after the other, more than {MAX_LOOK_DEPTH}"
        )
    for n, field, problem in _find_unobservable_conditions(steps, ordered, parts):
        problems.add(document.find_position("guides", at, "steps", n, field), f"{row.id}.{steps[n].id}: {problem}")
    return row.build_guide(ordered)


def _build_step(row: "_StepModel", above: str) -> GuideStep:
    """Without `after`, a step follows the one above."""
    after = row.after if row.after is not None else ((above,) if above else ())
    return GuideStep(row.id, row.does, after, row.when, row.look, row.approve, row.wait, row.remedy, row.ask)


def _find_step_problems(step: GuideStep, steps: Sequence[GuideStep], at: int, parts: GuideVocabulary) -> Iterable[tuple[str, str]]:
    """Yield (field, reason) pairs."""
    names = [one.id for one in steps]
    if step.id in names[:at]:
        yield "id", "there is a step of this id already"
    yield from (("after", f"there is no step {name}") for name in step.after if name not in names)
    yield from (("look", f"unknown check {name}") for name in step.look if name not in parts.checks)
    alone = [name for name in step.look if name in parts.exclusive]
    if alone and not step.approve:
        yield "look", f"{', '.join(alone)} needs GPUs for itself: set `approve: true`, and it is proposed for approval"
    if step.approve and len(alone) < len(step.look):
        yield "approve", "what disturbs nobody needs no approval and stands in a step of its own"
    if step.approve and not step.look:
        yield "approve", "only a look is marked so; a remedy always needs approval"
    if step.remedy and step.remedy not in parts.remedies:
        yield "remedy", f"unknown remedy {step.remedy}"


def _order_steps(steps: Sequence[GuideStep]) -> list[GuideStep] | None:
    """Dependency order, otherwise as written; None for a cycle."""
    open_predecessors = {step.id: [name for name in step.after if any(name == one.id for one in steps)] for step in steps}
    try:
        TopologicalSorter(open_predecessors).prepare()
    except CycleError:
        return None
    placed: dict[str, GuideStep] = {}
    remaining_steps = {step.id: step for step in steps}
    while remaining_steps:
        step = next(one for one in remaining_steps.values() if all(name in placed for name in open_predecessors[one.id]))
        placed[step.id] = remaining_steps.pop(step.id)
    return list(placed.values())


def _compute_look_depth(ordered: Sequence[GuideStep]) -> int:
    deep: dict[str, int] = {}
    for step in ordered:
        deep[step.id] = max((deep.get(name, 0) for name in step.after), default=0) + bool(step.look and not step.approve)
    return max(deep.values(), default=0)


def _find_unobservable_conditions(
    steps: Sequence[GuideStep], ordered: Sequence[GuideStep], parts: GuideVocabulary
) -> Iterable[tuple[int, str, str]]:
    """Conditions on facts that no earlier step establishes."""
    observed_keys: dict[str, set[str]] = {}
    for step in ordered:
        before = {key for name in step.after for key in observed_keys.get(name, ())}
        for condition in step.when:
            wild = f"{condition.key.rpartition('.')[0]}.*"
            if condition.key not in before and wild not in before:
                yield steps.index(step), "when", f"no step before it looks for {condition.key}"
        observed_keys[step.id] = before | {key for name in step.look for key in parts.checks.get(name, ())}


def _validate_id(name: str) -> str:
    if not re.fullmatch(r"[a-z][a-z0-9_]{1,31}", name):
        raise ValueError(f"{name!r}: an id is snake_case, 2 to 32 characters")
    return name


def _validate_short_text(text: str) -> str:
    if len(text) > MAX_TEXT_CHARS:
        raise ValueError(f"longer than {MAX_TEXT_CHARS} characters")
    return str(redact_once(text))


def _validate_symptom(symptom: str) -> str:
    if symptom not in SYMPTOMS:
        raise ValueError(f"unknown symptom {symptom}; there are {', '.join(sorted(SYMPTOMS))}")
    return symptom


def _validate_word(word: str) -> str:
    if word != word.lower() or len(word) < 4:
        raise ValueError(f"{word!r}: words are lower case, of four letters or more")
    return word


def _validate_key(key: str) -> str:
    if fact_keys.find_key(key) is None or key.endswith("*"):
        raise ValueError(f"unknown fact key {key}")
    return key


def _parse_condition(given: Any) -> Expression:
    if not isinstance(given, str):
        raise ValueError(f"an expression must be text, not {given!r}")  # noqa: TRY004  # a validator's refusal is a ValueError
    try:
        expression = Expression(squash_blanks(given) or "true")
    except BadExpression as error:
        raise ValueError(f"when: {error}") from error
    if "majority" in expression.mentions:
        raise ValueError("when: a guide knows no majority; say what is expected")
    return expression


def _parse_wait(given: Any) -> timedelta:
    match = _WAIT_PATTERN.fullmatch(given) if isinstance(given, str) else None
    wait = timedelta(seconds=int(match[1]) * _UNIT_SECONDS[match[2]]) if match else timedelta()
    if not timedelta() < wait <= MAX_WAIT:
        raise ValueError(f"wait must be a time such as 90s or 5min, at most {MAX_WAIT}, not {given!r:.40}")
    return wait


_GuideId = Annotated[Text, AfterValidator(_validate_id)]
_ShortText = Annotated[Text, AfterValidator(_validate_short_text)]
_ConditionExpression = Annotated[Expression, PlainValidator(_parse_condition)]


class _ConditionModel(StrictModel):
    key: Annotated[Text, AfterValidator(_validate_key)]
    any: _ConditionExpression | None = None
    none: _ConditionExpression | None = None

    @model_validator(mode="after")
    def _require_one_quantifier(self) -> "_ConditionModel":
        if (self.any is None) == (self.none is None):
            raise ValueError("a condition has either any or none")
        return self

    @property
    def condition(self) -> StepCondition:
        if self.any is not None:
            return StepCondition(self.key, "any", self.any)
        assert self.none is not None
        return StepCondition(self.key, "none", self.none)


class _StepModel(StrictModel):
    id: _GuideId
    does: _ShortText = ""
    after: tuple[_GuideId, ...] | None = None
    conditions: tuple[_ConditionModel, ...] = Field(default=(), alias="when")
    look: Annotated[Texts, Field(max_length=MAX_LOOKS_PER_STEP)] = ()
    approve: Flag = False
    wait: Annotated[timedelta, PlainValidator(_parse_wait)] = timedelta()
    remedy: Text = ""
    ask: _ShortText = ""

    @model_validator(mode="after")
    def _require_one_action(self) -> "_StepModel":
        if sum(map(bool, (self.look, self.wait, self.remedy, self.ask))) != 1:
            raise ValueError("a step has exactly one of look, wait, remedy and ask")
        return self

    @property
    def when(self) -> tuple[StepCondition, ...]:
        return tuple(row.condition for row in self.conditions)


class _GuideModel(StrictModel):
    id: _GuideId
    title: Annotated[_ShortText, Field(min_length=3)]
    symptoms: tuple[Annotated[Text, AfterValidator(_validate_symptom)], ...] = ()
    words: tuple[Annotated[Text, AfterValidator(_validate_word)], ...] = ()
    steps: Annotated[tuple[_StepModel, ...], Field(min_length=1, max_length=MAX_STEPS)]

    def build_guide(self, steps: Sequence[GuideStep]) -> Guide:
        return Guide(self.id, self.title, tuple(steps), self.symptoms, self.words)


class _GuideFileModel(StrictModel):
    guides: Annotated[tuple[_GuideModel, ...], Field(min_length=1)]
