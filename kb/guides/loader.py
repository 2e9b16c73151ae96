"""Load guides from YAML files or from fenced YAML in Markdown, check them, and report all their problems at once."""

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
    """Guide files are invalid; `problems` lists every one as `file:line: reason`."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = tuple(problems)


@dataclass(frozen=True, slots=True)
class GuideVocabulary:
    """The checks and remedies that guides may use; `checks` maps each check to the fact keys that it establishes."""

    checks: Mapping[str, tuple[str, ...]]
    exclusive: frozenset[str]
    remedies: frozenset[str]


def load_guides(*folders: Path, parts: GuideVocabulary) -> Mapping[str, Guide]:
    """Return guides by id; a site's guide replaces a built-in one of the same id.

    Raises:
        BadGuides: A file is invalid, or there are too many guides.
    """
    problems = Problems()
    built_in_guides = _load_folder(BUILT_IN, parts, problems)
    site_guides: dict[str, Guide] = {}
    for folder in folders:
        site_guides |= _load_folder(folder, parts, problems)
    if len(site_guides) > MAX_GUIDES:
        problems.add(FilePosition(folders[0]), f"more than {MAX_GUIDES} guides")
    if problems.found:
        raise BadGuides(problems.found)
    return {**built_in_guides, **site_guides}


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
        for number, model in enumerate(file.guides if file else ()):
            guides[model.id] = _build_guide(model, number, document, parts, problems)
    return guides


def _has_plan(path: Path) -> bool:
    """Return whether a Markdown file holds a guide. An unreadable file counts as one, so that it is reported later."""
    try:
        return any(_extract_fenced(path.read_text(encoding="utf-8", errors="replace")).split("\n"))
    except OSError:
        return True


def _extract_fenced(text: str) -> str:
    """Return the text with every line outside the fences blank, so that line numbers stay."""
    is_inside = False
    lines: list[str] = []
    for line in text.split("\n"):
        if is_inside and line.rstrip() == FENCE_CLOSING:
            is_inside = False
        lines.append(line if is_inside else "")
        is_inside = is_inside or line.rstrip() == FENCE_OPENING
    return "\n".join(lines)


def _build_guide(model: "_GuideModel", number: int, document: Document, parts: GuideVocabulary, problems: Problems) -> Guide:
    steps: list[GuideStep] = []
    for step_model in model.steps:
        steps.append(_build_step(step_model, previous_id=steps[-1].id if steps else ""))
    for index, step in enumerate(steps):
        for field, problem in _find_step_problems(step, steps, index, parts):
            problems.add(document.find_position("guides", number, "steps", index, field), f"{model.id}.{step.id}: {problem}")
    if len({step.id for step in steps}) < len(steps):
        return model.build_guide(steps)
    ordered = _order_steps(steps)
    if ordered is None:
        problems.add(document.find_position("guides", number, "steps"), f"{model.id}: its steps wait for each other in a circle")
        return model.build_guide(steps)
    depth = _compute_look_depth(ordered)
    if depth > MAX_LOOK_DEPTH:
        position = document.find_position("guides", number, "steps")
        problems.add(position, f"{model.id}: {depth} looks one after the other, more than {MAX_LOOK_DEPTH}")
    for index, field, problem in _find_unobservable_conditions(steps, ordered, parts):
        problems.add(document.find_position("guides", number, "steps", index, field), f"{model.id}.{steps[index].id}: {problem}")
    return model.build_guide(ordered)


def _build_step(model: "_StepModel", previous_id: str) -> GuideStep:
    """Build a step. Without `after` it follows the step written before it."""
    after = model.after
    if after is None:
        after = (previous_id,) if previous_id else ()
    return GuideStep(model.id, model.does, after, model.when, model.look, model.approve, model.wait, model.remedy, model.ask)


def _find_step_problems(step: GuideStep, steps: Sequence[GuideStep], index: int, parts: GuideVocabulary) -> Iterable[tuple[str, str]]:
    """Yield each problem as the field that has it and the reason."""
    step_ids = [other_step.id for other_step in steps]
    if step.id in step_ids[:index]:
        yield "id", "there is a step of this id already"
    yield from (("after", f"there is no step {name}") for name in step.after if name not in step_ids)
    yield from (("look", f"unknown check {name}") for name in step.look if name not in parts.checks)
    exclusive_checks = [name for name in step.look if name in parts.exclusive]
    if exclusive_checks and not step.approve:
        yield "look", f"{', '.join(exclusive_checks)} needs GPUs for itself: set `approve: true`, and it is proposed for approval"
    if step.approve and len(exclusive_checks) < len(step.look):
        yield "approve", "what disturbs nobody needs no approval and stands in a step of its own"
    if step.approve and not step.look:
        yield "approve", "only a look is marked so; a remedy always needs approval"
    if step.remedy and step.remedy not in parts.remedies:
        yield "remedy", f"unknown remedy {step.remedy}"


def _order_steps(steps: Sequence[GuideStep]) -> list[GuideStep] | None:
    """Return the steps with each after its predecessors, otherwise as written; None for a cycle."""
    remaining_steps = {step.id: step for step in steps}
    predecessors = {step.id: [name for name in step.after if name in remaining_steps] for step in steps}
    try:
        TopologicalSorter(predecessors).prepare()
    except CycleError:
        return None
    ordered: dict[str, GuideStep] = {}
    while remaining_steps:
        for step_id in remaining_steps:
            if all(name in ordered for name in predecessors[step_id]):
                ordered[step_id] = remaining_steps.pop(step_id)
                break
    return list(ordered.values())


def _compute_look_depth(ordered: Sequence[GuideStep]) -> int:
    """Return the largest number of steps in sequence that run checks without an approval."""
    depths: dict[str, int] = {}
    for step in ordered:
        depth_before = max((depths.get(name, 0) for name in step.after), default=0)
        depths[step.id] = depth_before + bool(step.look and not step.approve)
    return max(depths.values(), default=0)


def _find_unobservable_conditions(
    steps: Sequence[GuideStep], ordered: Sequence[GuideStep], parts: GuideVocabulary
) -> Iterable[tuple[int, str, str]]:
    """Yield conditions on facts that no earlier step establishes, as step index, field and reason."""
    observed_keys: dict[str, set[str]] = {}
    for step in ordered:
        step_keys: set[str] = set()
        for name in step.after:
            step_keys |= observed_keys.get(name, set())
        for condition in step.when:
            wildcard = f"{condition.key.rpartition('.')[0]}.*"
            if condition.key not in step_keys and wildcard not in step_keys:
                yield steps.index(step), "when", f"no step before it looks for {condition.key}"
        for check in step.look:
            step_keys.update(parts.checks.get(check, ()))
        observed_keys[step.id] = step_keys


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


def _parse_condition(value: Any) -> Expression:
    if not isinstance(value, str):
        raise ValueError(f"an expression must be text, not {value!r}")  # noqa: TRY004  # a validator's refusal is a ValueError
    try:
        expression = Expression(squash_blanks(value) or "true")
    except BadExpression as error:
        raise ValueError(f"when: {error}") from error
    if "majority" in expression.mentions:
        raise ValueError("when: a guide knows no majority; say what is expected")
    return expression


def _parse_wait(value: Any) -> timedelta:
    match = _WAIT_PATTERN.fullmatch(value) if isinstance(value, str) else None
    wait = timedelta(seconds=int(match[1]) * _UNIT_SECONDS[match[2]]) if match else timedelta()
    if not timedelta() < wait <= MAX_WAIT:
        raise ValueError(f"wait must be a time such as 90s or 5min, at most {MAX_WAIT}, not {value!r:.40}")
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
        return tuple(condition.condition for condition in self.conditions)


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
