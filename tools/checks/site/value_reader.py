"""Read one fact of a site's check: by a pattern on lines or a path into JSON. Linear in the text, and bounded.

A missing value is `absent`, unreadable text `unreadable`; values are never made up.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from kb.needle_search import split_lines
from kb.taxonomy.expressions import Expression
from tools.checks.check_types import Unreadable
from tools.fact import Fact, Status, Value

KINDS = ("bool", "int", "float", "str")
MAX_LINE_CHARS = 500
MAX_FACTS = 512
MAX_VALUE_CHARS = 200


class BadPath(ValueError):
    """The text is no path into JSON."""


ANY_ELEMENT = "*"
_PATH_PATTERN = re.compile(r"\$?\.?((?:[A-Za-z_][\w-]*|\[(?:\d+|\*)\])(?:\.[A-Za-z_][\w-]*|\[(?:\d+|\*)\])*)")
_STEP_PATTERN = re.compile(r"[A-Za-z_][\w-]*|\[(\d+|\*)\]")


def parse_json_path(text: str) -> tuple[str | int, ...]:
    """Parse `ports[*].state` to ("ports", "*", "state"); at most one `[*]`."""
    match = _PATH_PATTERN.fullmatch(text)
    if match is None:
        raise BadPath(f"{text!r} is no path; write names, [0] and one [*], like ports[*].state")
    steps = tuple(map(_parse_step, _STEP_PATTERN.finditer(match[1])))
    if steps.count(ANY_ELEMENT) > 1:
        raise BadPath(f"{text!r} has more than one [*]")
    return steps


def _parse_step(match: re.Match[str]) -> str | int:
    name, index = match.group(0, 1)
    if index is None:
        return name
    return ANY_ELEMENT if index == "*" else int(index)


@dataclass(frozen=True, slots=True)
class ValueReader:
    """Reads the facts of one key, by a pattern or a JSON path.

    Pattern: group `value` or the first group is the value, and group `device` its device. Without a value group the value
    is whether any line matches. JSON path: the value is what lies at the path; `device` is a plain name, or a path from
    the same element.
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
        values = self._iter_line_values(text) if self.pattern else self._iter_json_values(text)
        facts = [self._build_fact(value, device, line) for value, device, line in values][:MAX_FACTS]
        return facts or [Fact(self.check, self.key, status=Status.ABSENT, line=f"nothing of {self.key} in the output")]

    def _iter_line_values(self, text: str) -> Iterator[tuple[Any, str, str]]:
        assert self.pattern is not None  # callers ask for lines only where there is a pattern
        matches = ((match, line) for line in split_lines(text) if (match := self.pattern.search(line[:MAX_LINE_CHARS])))
        if not self.pattern.groups or set(self.pattern.groupindex) == {"device"}:
            first = next(matches, None)
            yield first is not None, "", first[1] if first else f"no line matches {self.pattern.pattern}"
            return
        value_group: str | int = "value" if "value" in self.pattern.groupindex else 1
        for match, line in matches:
            if match[value_group] is not None:
                yield match[value_group], match.groupdict().get("device") or self.device, line

    def _iter_json_values(self, text: str) -> Iterator[tuple[Any, str, str]]:
        try:
            root, _ = json.JSONDecoder().raw_decode(text.lstrip("\ufeff \t\r\n"))
        except (ValueError, RecursionError) as error:
            raise Unreadable(f"expected JSON: {error}") from error
        if ANY_ELEMENT in self.path:
            position = self.path.index(ANY_ELEMENT)
            value_path = self.path[position + 1 :]
            elements = _iter_children(_get_at_path(root, self.path[:position]))
        else:
            value_path = self.path[-1:]
            elements = iter([(_get_at_path(root, self.path[:-1]), "")])
        for element, name in elements:
            value = _get_at_path(element, value_path)
            if value is not None and not isinstance(value, (dict, list)):
                yield value, self._find_device(element, name), json.dumps({self.key: value}, ensure_ascii=False)

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
        return replace(fact, attrs={"wrong": self.says or self.wrong.source})


def _iter_children(parent: Any) -> Iterator[tuple[Any, str]]:
    """Yield each element of an object or a list, with its name or number."""
    if isinstance(parent, dict):
        yield from ((element, str(name)[:MAX_VALUE_CHARS]) for name, element in parent.items())
    elif isinstance(parent, list):
        yield from ((element, str(number)) for number, element in enumerate(parent))


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
    """Return the value as its kind. Raise Unreadable if it is no such value."""
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
