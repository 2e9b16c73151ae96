"""Guides from YAML, or from Markdown with the same YAML between fences; held against the catalogues. Everything wrong is refused together."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import AfterValidator, Field, PlainValidator, model_validator

from kb import keys
from kb.guides.guide import Guide, GuideStep, StepCondition
from kb.redact import cleaned
from kb.shapes import Flag, StrictModel, Text, Texts, squashed
from kb.taxonomy.expressions import BadExpression, Expression
from kb.taxonomy.labels import SYMPTOMS
from kb.yaml import Document, Problems, Spot, files_of, read, validated

BUILT_IN: Final = Path(__file__).parent
MOST_GUIDES, MOST_STEPS, MOST_LOOKS, LONGEST_SAID = 64, 24, 12, 200
MOST_DEEP: Final = 6
"""Looks that may have to come one after the other: a turn has room for so many waves."""
LONGEST_WAIT: Final = timedelta(hours=1)
OPENS, CLOSES = "```guide", "```"
_WAIT = re.compile(r"(\d{1,5}) ?(s|min|h)")
_UNITS = {"s": 1, "min": 60, "h": 3600}


class BadGuides(Exception):
    """Files that are refused; `problems` are `file:line: reason`, all of them."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = tuple(problems)


@dataclass(frozen=True, slots=True)
class GuideParts:
    """What a guide may be made of. `checks`: each with the keys that it establishes."""

    checks: Mapping[str, tuple[str, ...]]
    exclusive: frozenset[str]
    remedies: frozenset[str]


def load_guides(*folders: Path, parts: GuideParts) -> Mapping[str, Guide]:
    """Our guides and those of the folders, by id; a site's own of the same id takes ours' place. Raises BadGuides."""
    problems = Problems()
    ours = _of_folder(BUILT_IN, parts, problems)
    own = {name: guide for folder in folders for name, guide in _of_folder(folder, parts, problems).items()}
    if len(own) > MOST_GUIDES:
        problems.note(Spot(folders[0]), f"more than {MOST_GUIDES} guides")
    if problems.found:
        raise BadGuides(problems.found)
    return {**ours, **own}


def _of_folder(folder: Path, parts: GuideParts, problems: Problems) -> dict[str, Guide]:
    taken: set[str] = set()
    found: dict[str, Guide] = {}
    for path in [*files_of(folder), *sorted(folder.glob("*.md"))]:
        if path.suffix == ".md" and not _has_plan(path):
            problems.note(Spot(path), f"holds no plan between {OPENS} and {CLOSES}: write the guide there as YAML (docs/guides.md)")
            continue
        document = read(path, problems, only=_fenced if path.suffix == ".md" else str)
        if document is None:
            continue
        document.note_taken("guides", taken, problems, "{}: there is a guide of this id already")
        file = validated(document, _File, problems)
        for at, row in enumerate(file.guides if file else ()):
            found[row.id] = _guide(row, at, document, parts, problems)
    return found


def _has_plan(path: Path) -> bool:
    """Whether there is one, or the file cannot be read, which is told when it is."""
    try:
        return any(_fenced(path.read_text(encoding="utf-8", errors="replace")).split("\n"))
    except OSError:
        return True


def _fenced(given: str) -> str:
    """What stands between the fences, each line where it stood; all else is blank."""
    inside, kept = False, []
    for line in given.split("\n"):
        if inside and line.rstrip() == CLOSES:
            inside = False
        kept.append(line if inside else "")
        inside = inside or line.rstrip() == OPENS
    return "\n".join(kept)


def _guide(row: "_Guide", at: int, document: Document, parts: GuideParts, problems: Problems) -> Guide:
    """The guide, its steps in an order in which each comes after those it waits for. What it gets wrong is noted at its place."""
    steps = [_step(one, row.steps[n - 1].id if n else "") for n, one in enumerate(row.steps)]
    for n, step in enumerate(steps):
        for field, why in _wrong(step, steps, n, parts):
            problems.note(document.place("guides", at, "steps", n, field), f"{row.id}.{step.id}: {why}")
    if len({step.id for step in steps}) < len(steps):
        return row.guide(steps)
    ordered = _ordered(steps)
    if ordered is None:
        problems.note(document.place("guides", at, "steps"), f"{row.id}: its steps wait for each other in a circle")
        return row.guide(steps)
    if (deep := _deep(ordered)) > MOST_DEEP:
        problems.note(document.place("guides", at, "steps"), f"{row.id}: {deep} looks one after the other, more than {MOST_DEEP}")
    for n, field, why in _untold(steps, ordered, parts):
        problems.note(document.place("guides", at, "steps", n, field), f"{row.id}.{steps[n].id}: {why}")
    return row.guide(ordered)


def _step(row: "_Step", above: str) -> GuideStep:
    """Without `after` a step follows the one above it."""
    after = row.after if row.after is not None else ((above,) if above else ())
    return GuideStep(row.id, row.does, after, row.when, row.look, row.approve, row.wait, row.remedy, row.ask)


def _wrong(step: GuideStep, steps: Sequence[GuideStep], at: int, parts: GuideParts) -> Iterable[tuple[str, str]]:
    """(field, reason) pairs."""
    names = [one.id for one in steps]
    if step.id in names[:at]:
        yield "id", "there is a step of this id already"
    yield from (("after", f"there is no step {name}") for name in step.after if name not in names)
    yield from (("look", f"unknown check {name}") for name in step.look if name not in parts.checks)
    alone = [name for name in step.look if name in parts.exclusive]
    if alone and not step.approve:
        yield "look", f"{', '.join(alone)} needs GPUs for itself: say `approve: true`, and it is put up for decision"
    if step.approve and len(alone) < len(step.look):
        yield "approve", "what disturbs nobody needs no approval and stands in a step of its own"
    if step.approve and not step.look:
        yield "approve", "only a look is marked so; a remedy always needs approval"
    if step.remedy and step.remedy not in parts.remedies:
        yield "remedy", f"unknown remedy {step.remedy}"


def _ordered(steps: Sequence[GuideStep]) -> list[GuideStep] | None:
    """As they stand, but each after those it waits for; None where they go in a circle."""
    waits = {step.id: [name for name in step.after if any(name == one.id for one in steps)] for step in steps}
    try:
        TopologicalSorter(waits).prepare()
    except CycleError:
        return None
    placed: dict[str, GuideStep] = {}
    left = {step.id: step for step in steps}
    while left:
        step = next(one for one in left.values() if all(name in placed for name in waits[one.id]))
        placed[step.id] = left.pop(step.id)
    return list(placed.values())


def _deep(ordered: Sequence[GuideStep]) -> int:
    """Looks on the longest way through."""
    deep: dict[str, int] = {}
    for step in ordered:
        deep[step.id] = max((deep.get(name, 0) for name in step.after), default=0) + bool(step.look and not step.approve)
    return max(deep.values(), default=0)


def _untold(steps: Sequence[GuideStep], ordered: Sequence[GuideStep], parts: GuideParts) -> Iterable[tuple[int, str, str]]:
    """Conditions on facts that no step before looks for: nobody could ever tell whether they are so."""
    told: dict[str, set[str]] = {}
    for step in ordered:
        before = {key for name in step.after for key in told.get(name, ())}
        for condition in step.when:
            wild = f"{condition.key.rpartition('.')[0]}.*"
            if condition.key not in before and wild not in before:
                yield steps.index(step), "when", f"no step before it looks for {condition.key}"
        told[step.id] = before | {key for name in step.look for key in parts.checks.get(name, ())}


def _id(name: str) -> str:
    if not re.fullmatch(r"[a-z][a-z0-9_]{1,31}", name):
        raise ValueError(f"{name!r}: an id is snake_case, 2 to 32 characters")
    return name


def _short(text: str) -> str:
    if len(text) > LONGEST_SAID:
        raise ValueError(f"longer than {LONGEST_SAID} characters")
    return str(cleaned(text))


def _symptom(symptom: str) -> str:
    if symptom not in SYMPTOMS:
        raise ValueError(f"unknown symptom {symptom}; there are {', '.join(sorted(SYMPTOMS))}")
    return symptom


def _word(word: str) -> str:
    if word != word.lower() or len(word) < 4:
        raise ValueError(f"{word!r}: words are lower case, of four letters or more")
    return word


def _key(key: str) -> str:
    if keys.find(key) is None or key.endswith("*"):
        raise ValueError(f"unknown fact key {key}")
    return key


def _when(given: Any) -> Expression:
    if not isinstance(given, str):
        raise ValueError(f"an expression must be text, not {given!r}")  # noqa: TRY004  # a validator's refusal is a ValueError
    try:
        found = Expression(squashed(given) or "true")
    except BadExpression as why:
        raise ValueError(f"when: {why}") from why
    if "majority" in found.mentions:
        raise ValueError("when: a guide knows no majority; say what is expected")
    return found


def _wait(given: Any) -> timedelta:
    found = _WAIT.fullmatch(given) if isinstance(given, str) else None
    wait = timedelta(seconds=int(found[1]) * _UNITS[found[2]]) if found else timedelta()
    if not timedelta() < wait <= LONGEST_WAIT:
        raise ValueError(f"wait must be a time such as 90s or 5min, at most {LONGEST_WAIT}, not {given!r:.40}")
    return wait


_Id = Annotated[Text, AfterValidator(_id)]
_Said = Annotated[Text, AfterValidator(_short)]
_Holds = Annotated[Expression, PlainValidator(_when)]


class _Condition(StrictModel):
    key: Annotated[Text, AfterValidator(_key)]
    any: _Holds | None = None
    none: _Holds | None = None

    @model_validator(mode="after")
    def _one_of_both(self) -> "_Condition":
        if (self.any is None) == (self.none is None):
            raise ValueError("a condition has either any or none")
        return self

    @property
    def condition(self) -> StepCondition:
        """As the walk asks it."""
        if self.any is not None:
            return StepCondition(self.key, "any", self.any)
        assert self.none is not None
        return StepCondition(self.key, "none", self.none)


class _Step(StrictModel):
    id: _Id
    does: _Said = ""
    after: tuple[_Id, ...] | None = None
    conditions: tuple[_Condition, ...] = Field(default=(), alias="when")
    look: Annotated[Texts, Field(max_length=MOST_LOOKS)] = ()
    approve: Flag = False
    wait: Annotated[timedelta, PlainValidator(_wait)] = timedelta()
    remedy: Text = ""
    ask: _Said = ""

    @model_validator(mode="after")
    def _does_one_thing(self) -> "_Step":
        if sum(map(bool, (self.look, self.wait, self.remedy, self.ask))) != 1:
            raise ValueError("a step has exactly one of look, wait, remedy and ask")
        return self

    @property
    def when(self) -> tuple[StepCondition, ...]:
        """Its conditions."""
        return tuple(row.condition for row in self.conditions)


class _Guide(StrictModel):
    id: _Id
    title: Annotated[_Said, Field(min_length=3)]
    symptoms: tuple[Annotated[Text, AfterValidator(_symptom)], ...] = ()
    words: tuple[Annotated[Text, AfterValidator(_word)], ...] = ()
    steps: Annotated[tuple[_Step, ...], Field(min_length=1, max_length=MOST_STEPS)]

    def guide(self, steps: Sequence[GuideStep]) -> Guide:
        """The guide with these steps."""
        return Guide(self.id, self.title, tuple(steps), self.symptoms, self.words)


class _File(StrictModel):
    guides: Annotated[tuple[_Guide, ...], Field(min_length=1)]
