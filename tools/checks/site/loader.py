"""A site's own checks, from YAML: a read-only command, and facts under `site.*`.

All problems of all files are reported at once, with file and line; until they are fixed no file is used.
"""

import re
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, PlainValidator, ValidationInfo, model_validator

from kb.schema import Number, StrictModel, Text, squash_blanks
from kb.taxonomy.expressions import BadExpression, Expression
from kb.yaml_files import Problems, list_yaml_files, read_document, validate_document
from tools.checks.check_types import MIB, SLOT_PATTERNS, Check, Command, Format
from tools.checks.site.readonly import explain_refused_command
from tools.checks.site.safe_patterns import BadPattern, compile_pattern
from tools.checks.site.value_reader import KINDS, BadPath, ValueReader, parse_json_path

INVENTORY_SLOTS = frozenset({"gpus", "job_logs", "nccl_tests"})  # command slots that the inventory fills
# stand-in slot values while a command is validated
_SLOT_SAMPLES = {"gpus": "8", "job_logs": "/shared/job-logs", "nccl_tests": "/opt/nccl-tests"}
MAX_TIMEOUT_SECONDS = 120.0
MAX_CAP_BYTES = 4 * MIB


class BadChecks(Exception):
    """Files that are refused; `problems` are `file:line: reason`, all of them."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = tuple(problems)


def load_site_checks(*folders: Path, known: Collection[str] = (), programs: Sequence[str] = ()) -> dict[str, Check]:
    """Return the checks of all folders by id. Raise BadChecks if any file has a problem.

    Args:
        folders: where the YAML files are.
        known: ids that are already taken.
        programs: folders of the site's own programs.
    """
    problems = Problems()
    checks: dict[str, Check] = {}
    taken_ids = set(known)
    for path in (path for folder in folders for path in list_yaml_files(folder)):
        document = read_document(path, problems)
        if document is None:
            continue
        document.note_taken_ids("checks", taken_ids, problems, "{}: there is a check of this id already")
        file = validate_document(document, _CheckFileModel, problems, tuple(programs))
        checks |= {model.id: model.check for model in file.checks} if file else {}
    if problems.found:
        raise BadChecks(problems.found)
    return checks


def _validate_id(name: str) -> str:
    if not re.fullmatch(r"[a-z][a-z0-9_]{1,31}", name):
        raise ValueError("id must be snake_case, 2 to 32 characters")
    return name


def _validate_command(given: Any, info: ValidationInfo) -> tuple[str, ...]:
    """Return the command as a tuple. Raise ValueError with all reasons against it at once."""
    if not isinstance(given, list) or not all(isinstance(word, str) for word in given):
        raise ValueError("command must be a list of words, like [cat, /proc/mounts]; there is no shell to split a line")
    sample_command = tuple(re.sub(r"{([a-z_]+)}", lambda slot: _SLOT_SAMPLES.get(slot[1], "1"), word) for word in given)
    slots = [slot for word in given for slot in re.findall(r"{([a-z_]*)}", word)]
    unknown_slots = [slot for slot in slots if slot not in INVENTORY_SLOTS or slot not in SLOT_PATTERNS]
    reasons = [f"command refused: {refusal}" for refusal in explain_refused_command(sample_command, info.context or ())]
    reasons += [f"unknown slot {{{slot}}}; there are {', '.join(sorted(INVENTORY_SLOTS))}" for slot in unknown_slots]
    if reasons:
        raise ValueError(*reasons)
    return tuple(given)


def _build_maximum_validator(maximum: float, name: str) -> AfterValidator:
    def validate(value: float) -> float:
        if not 0 < value <= maximum:
            raise ValueError(f"{name} must lie above 0 and be at most {maximum:g}")
        return value

    return AfterValidator(validate)


def _validate_exit_statuses(given: Any) -> frozenset[int]:
    values = given if isinstance(given, list) else [given]
    if not values or any(isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 124 for value in values):
        raise ValueError("exit_statuses must be a list of whole numbers from 0 to 123")
    return frozenset(values)


def _validate_key(key: str) -> str:
    if not re.fullmatch(r"site\.[a-z][a-z0-9_]{0,47}", key):
        raise ValueError(f"key {key!r} must be site.NAME, NAME in snake_case")
    return key


def _validate_kind(kind: str) -> str:
    if kind not in KINDS:
        raise ValueError(f"kind {kind!r} is none of {', '.join(KINDS)}")
    return kind


def _build_parse_validator(name: str, parse: Callable[[str], Any]) -> PlainValidator:
    def validate(given: Any) -> Any:
        if not isinstance(given, str) or not given:
            raise ValueError(f"{name} must be text")
        try:
            return parse(given)
        except (BadPattern, BadPath) as error:
            raise ValueError(f"{name}: {error}") from error

    return PlainValidator(validate)


def _parse_wrong_when(given: Any) -> Expression | None:
    if not isinstance(given, str):
        raise ValueError(f"wrong_when must be text, not {given!r}")  # noqa: TRY004  # a validator's refusal is a ValueError
    try:
        return Expression(squash_blanks(given)) if given.strip() else None
    except BadExpression as error:
        raise ValueError(f"wrong_when: {error}") from error


class _FactModel(StrictModel):
    key: Annotated[Text, AfterValidator(_validate_key)]
    kind: Annotated[Text, AfterValidator(_validate_kind)]
    unit: Text = ""
    regex: Annotated[re.Pattern[str] | None, _build_parse_validator("regex", compile_pattern)] = None
    path: Annotated[tuple[str | int, ...], _build_parse_validator("json", parse_json_path)] = Field((), alias="json")
    device: Text = ""
    wrong_when: Annotated[Expression | None, PlainValidator(_parse_wrong_when)] = None
    says: Text = ""

    @model_validator(mode="after")
    def _require_one_source(self) -> "_FactModel":
        if bool(self.regex) == bool(self.path):
            raise ValueError("a fact is found by either regex or json")
        return self

    def build_reader(self, check: str) -> ValueReader:
        sources = (self.regex, self.path)
        return ValueReader(check, self.key, self.kind, self.unit, *sources, device=self.device, wrong=self.wrong_when, says=self.says)


class _CheckModel(StrictModel):
    id: Annotated[Text, AfterValidator(_validate_id)]
    asks: Text
    command: Annotated[tuple[str, ...], BeforeValidator(_validate_command)]
    timeout: Annotated[Number, _build_maximum_validator(MAX_TIMEOUT_SECONDS, "timeout")]
    cap_bytes: Annotated[Number, _build_maximum_validator(MAX_CAP_BYTES, "cap_bytes")]
    seconds: Number | None = None
    exit_statuses: Annotated[frozenset[int], PlainValidator(_validate_exit_statuses)] = frozenset({0})
    facts: Annotated[tuple[_FactModel, ...], Field(min_length=1)]

    @property
    def check(self) -> Check:
        readers = tuple(fact.build_reader(self.id) for fact in self.facts)

        def parse(text: str) -> list[Any]:
            return [fact for reader in readers for fact in reader.extract_facts(text)]

        return Check(
            id=self.id,
            asks=self.asks,
            commands=(Command("run", self.command),),
            formats=(Format(f"{self.id} of this site", lambda text: True, parse),),
            establishes=tuple(dict.fromkeys(reader.key for reader in readers)),
            seconds=min(2.0, self.timeout) if self.seconds is None else self.seconds,
            timeout=self.timeout,
            cap=int(self.cap_bytes),
            statuses=self.exit_statuses,
        )


class _CheckFileModel(StrictModel):
    checks: Annotated[tuple[_CheckModel, ...], Field(min_length=1)]
