"""A site's own checks, from YAML: a read-only command, and facts under `site.*`.

All problems of all files are reported at once, with file and line; until they are fixed no file is used.
"""

import json
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, PlainValidator, ValidationInfo, model_validator

from kb.needle_search import split_lines
from kb.schema import Number, StrictModel, Text, squash_blanks
from kb.taxonomy.expressions import BadExpression, Expression
from kb.yaml_files import Problems, list_yaml_files, read_document, validate_document
from tools.checks.check_types import MIB, SLOT_PATTERNS, Check, Command, Format, Unreadable
from tools.checks.site.readonly import explain_refused_command
from tools.checks.site.safe_patterns import BadPattern, compile_pattern
from tools.fact import Fact, Status, Value

# Read one fact of a site's check: by a pattern on lines or a path into JSON. Pure, linear, bounded.
#
# A missing value is `absent`, unreadable text `unreadable`; values are never made up.

KINDS = ("bool", "int", "float", "str")
MAX_LINE_CHARS = 500
MAX_FACTS = 512
MAX_VALUE_CHARS = 200


class BadPath(ValueError):
    """A path that cannot be read."""


ANY_ELEMENT = "*"
_PATH_PATTERN = re.compile(r"\$?\.?((?:[A-Za-z_][\w-]*|\[(?:\d+|\*)\])(?:\.[A-Za-z_][\w-]*|\[(?:\d+|\*)\])*)")
_STEP_PATTERN = re.compile(r"[A-Za-z_][\w-]*|\[(\d+|\*)\]")


def parse_json_path(text: str) -> tuple[str | int, ...]:
    """Parse `ports[*].state` to ("ports", "*", "state"); at most one `[*]`."""
    match = _PATH_PATTERN.fullmatch(text)
    if match is None:
        raise BadPath(f"{text!r} is no path; write names, [0] and one [*], like ports[*].state")
    steps = tuple(ANY_ELEMENT if m[1] == "*" else int(m[1]) if m[1] else m[0] for m in _STEP_PATTERN.finditer(match[1]))
    if steps.count(ANY_ELEMENT) > 1:
        raise BadPath(f"{text!r} has more than one [*]")
    return steps


@dataclass(frozen=True, slots=True)
class ValueReader:
    """Reads one key.

    Pattern: group `value` or the first group is the value, group `device` its device; without a value group, the value
    is
    whether a line matches. JSON path: the value there; `device` is a path beside it or a plain name.
    """

    check: str
    key: str
    kind: str
    unit: str
    pattern: re.Pattern[str] | None
    path: tuple[str | int, ...]
    device: str = ""
    wrong: Expression | None = None
    says: str = ""

    def extract_facts(self, text: str) -> list[Fact]:
        """Return the facts. Raise Unreadable if the text cannot be parsed."""
        rows = self._iter_line_values(text) if self.pattern else self._iter_json_values(text)
        facts = [self._build_fact(value, device, line) for value, device, line in rows][:MAX_FACTS]
        return facts or [Fact(self.check, self.key, status=Status.ABSENT, line=f"nothing of {self.key} in the output")]

    def _iter_line_values(self, text: str) -> Iterator[tuple[Any, str, str]]:
        assert self.pattern is not None  # callers ask for lines only where there is a pattern
        matches = ((match, line) for line in split_lines(text) if (match := self.pattern.search(line[:MAX_LINE_CHARS])))
        if not self.pattern.groups or set(self.pattern.groupindex) == {"device"}:
            first = next(matches, None)
            yield first is not None, "", first[1] if first else f"no line matches {self.pattern.pattern}"
            return
        name: str | int = "value" if "value" in self.pattern.groupindex else 1
        for match, line in matches:
            if match[name] is not None:
                yield match[name], match.groupdict().get("device") or self.device, line

    def _iter_json_values(self, text: str) -> Iterator[tuple[Any, str, str]]:
        try:
            root, _ = json.JSONDecoder().raw_decode(text.lstrip("\ufeff \t\r\n"))
        except (ValueError, RecursionError) as error:
            raise Unreadable(f"expected JSON: {error}") from error
        each = self.path.index(ANY_ELEMENT) if ANY_ELEMENT in self.path else len(self.path) - 1
        for parent, name in _iter_elements(root, self.path[:each], self.path[each] if ANY_ELEMENT in self.path else None):
            value = _get_at_path(parent, self.path[each + 1 :] if ANY_ELEMENT in self.path else self.path[each:])
            if value is not None and not isinstance(value, (dict, list)):
                yield value, self._find_device(parent, name), json.dumps({self.key: value}, ensure_ascii=False)

    def _find_device(self, element: Any, name: str) -> str:
        if not self.device:
            return name
        try:
            device = _get_at_path(element, parse_json_path(self.device))
        except BadPath:
            device = None
        return str(device)[:MAX_VALUE_CHARS] if isinstance(device, (str, int)) else self.device

    def _build_fact(self, raw: Any, device: str, line: str) -> Fact:
        value = _convert_value(raw, self.kind, self.key)
        fact = Fact(self.check, self.key, value, device or None, unit=self.unit, line=line.strip()[:400])
        if self.wrong is None:
            return fact
        variables: dict[str, Any] = {
            "value": value,
            "device": device,
            "attrs": {},
            "stale": False,
            "unit": self.unit,
            "expected": None,
            "majority": None,
        }
        if not self.wrong.is_true_for(variables):
            return fact
        return Fact(
            self.check, self.key, value, device or None, unit=self.unit, line=fact.line, attrs={"wrong": self.says or self.wrong.source}
        )


def _iter_elements(root: Any, path: tuple[str | int, ...], each: object) -> Iterator[tuple[Any, str]]:
    """Yield the value at the path; with [*] each element with its name or number."""
    elements = _get_at_path(root, path)
    if each is None:
        yield elements, ""
    elif isinstance(elements, dict):
        yield from ((value, str(name)[:MAX_VALUE_CHARS]) for name, value in elements.items())
    elif isinstance(elements, list):
        yield from ((value, str(place)) for place, value in enumerate(elements))


def _get_at_path(value: Any, path: tuple[str | int, ...]) -> Any:
    for step in path:
        if isinstance(step, str) and isinstance(value, dict):
            value = value.get(step)
        elif isinstance(step, int) and isinstance(value, list) and step < len(value):
            value = value[step]
        else:
            return None
    return value


_BOOLEAN_WORDS = {
    "true": True,
    "yes": True,
    "on": True,
    "1": True,
    "enabled": True,
    "false": False,
    "no": False,
    "off": False,
    "0": False,
    "disabled": False,
}


def _convert_value(raw: Any, kind: str, key: str) -> Value:
    """Raise Unreadable if the value is not of its kind."""
    if kind == "str":
        return str(raw)[:MAX_VALUE_CHARS]
    try:
        if kind == "bool":
            return raw if isinstance(raw, bool) else _BOOLEAN_WORDS[str(raw).strip().lower()]
        number = float(str(raw).strip().replace(",", "")[:40])
        whole_number = int(number)
    except (KeyError, ValueError, OverflowError) as error:
        raise Unreadable(f"{key}: {str(raw)[:60]!r} is no {kind}") from error
    if kind == "float":
        return number
    if whole_number != number:
        raise Unreadable(f"{key}: {str(raw)[:60]!r} is no whole number")
    return whole_number


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
    """Return the checks by id. Raise BadChecks.

    Args:
        known: ids already taken.
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
        checks |= {row.id: row.check for row in file.checks} if file else {}
    if problems.found:
        raise BadChecks(problems.found)
    return checks


def _validate_id(name: str) -> str:
    if not re.fullmatch(r"[a-z][a-z0-9_]{1,31}", name):
        raise ValueError("id must be snake_case, 2 to 32 characters")
    return name


def _validate_command(given: Any, info: ValidationInfo) -> tuple[str, ...]:
    """Raise all reasons against it at once."""
    if not isinstance(given, list) or not all(isinstance(word, str) for word in given):
        raise ValueError("command must be a list of words, like [cat, /proc/mounts]; there is no shell to split a line")
    bare = tuple(re.sub(r"{([a-z_]+)}", lambda slot: _SLOT_SAMPLES.get(slot[1], "1"), word) for word in given)
    slots = [
        slot for word in given for slot in re.findall(r"{([a-z_]*)}", word) if slot not in INVENTORY_SLOTS or slot not in SLOT_PATTERNS
    ]
    reasons = [f"command refused: {refusal}" for refusal in explain_refused_command(bare, info.context or ())]
    reasons += [f"unknown slot {{{slot}}}; there are {', '.join(sorted(INVENTORY_SLOTS))}" for slot in slots]
    if reasons:
        raise ValueError(*reasons)
    return tuple(given)


def _build_maximum_validator(most: float, name: str) -> AfterValidator:
    def check(value: float) -> float:
        if not 0 < value <= most:
            raise ValueError(f"{name} must lie above 0 and be at most {most:g}")
        return value

    return AfterValidator(check)


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


def _build_parse_validator(name: str, read_as: Callable[[str], Any]) -> PlainValidator:
    def check(given: Any) -> Any:
        if not isinstance(given, str) or not given:
            raise ValueError(f"{name} must be text")
        try:
            return read_as(given)
        except (BadPattern, BadPath) as error:
            raise ValueError(f"{name}: {error}") from error

    return PlainValidator(check)


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
