"""CEL expressions over one fact. An evaluation error means "no match" and is counted, never raised."""

import re
from collections import Counter
from collections.abc import Mapping
from typing import Any

import cel

VARIABLES = frozenset({"value", "device", "attrs", "stale", "expected", "majority", "unit"})
_FUNCTIONS = frozenset({"size", "matches", "contains", "startsWith", "endsWith", "int", "double", "string", "type", "min", "max"})


MAX_CACHED_RESULTS = 128  # cached answers per expression
MAX_KEPT_KEY_CHARS = 400  # their key length: a fleet repeats the same values


# attributes read by name; "" if read otherwise, possibly all
_ATTRS_PATTERN = re.compile(r"\battrs\b(?:\.([A-Za-z_][A-Za-z0-9_]*))?")

_LITERAL = r"(?:-?\d{1,9}|true|false|'[^'\\]{0,80}')"
_BEGINS_PATTERN = re.compile(rf"\s*value (?:== (?P<one>{_LITERAL})|in \[(?P<some>{_LITERAL}(?:, {_LITERAL})*)\])\s*(?:$|&&)")
_QUOTED_PATTERN = re.compile(r"'[^'\\]*'|\"[^\"\\]*\"")
_NESTED_PATTERN = re.compile(r"[(\[{][^()\[\]{}]*[)\]}]")


class BadExpression(ValueError):
    """An expression that cannot be used. Says what is wrong in one line."""


class Expression:
    """A compiled expression. `troubles` counts evaluation errors by message."""

    __slots__ = ("_attrs", "_cache", "_names", "_program", "mentions", "source", "troubles", "values")

    def __init__(self, source: str) -> None:
        try:
            self._program = cel.compile(source)
        except ValueError as error:
            raise BadExpression(_get_first_line(str(error))) from None
        self.source = source
        self.mentions = frozenset(self._program.variables())
        self.values = find_possible_values(source)
        self.troubles: Counter[str] = Counter()
        self._names, self._cache = tuple(sorted(self.mentions)), dict[str, bool]()
        read = _ATTRS_PATTERN.findall(source)
        self._attrs = None if "" in read else tuple(sorted(set(read)))
        _refuse_unknown("variable", self.mentions - VARIABLES, VARIABLES)
        _refuse_unknown("function", {name for name in self._program.functions() if name.isidentifier() and name[0] not in "_@"}, _FUNCTIONS)

    def is_true_for(self, variables: Mapping[str, Any]) -> bool:
        """Return False on errors."""
        names = self._names
        cache_key = repr(
            self._read_variable(names[0], variables) if len(names) == 1 else [self._read_variable(name, variables) for name in names]
        )
        cached = self._cache.get(cache_key)
        if cached is not None:
            return cached
        try:
            is_true = self._program.execute(dict(variables)) is True
        except (KeyError, TypeError, ValueError, RuntimeError, OverflowError) as error:
            self.troubles[_get_first_line(str(error))] += 1
            return False
        if len(cache_key) <= MAX_KEPT_KEY_CHARS:
            self._cache_result(cache_key, is_true)
        return is_true

    def _read_variable(self, name: str, variables: Mapping[str, Any]) -> Any:
        """Of `attrs` only those in use, so that cached answers match more often."""
        value = variables.get(name, ...)
        if name != "attrs" or self._attrs is None or not isinstance(value, dict):
            return value
        return [(attr, value[attr]) for attr in self._attrs if attr in value]

    def _cache_result(self, cache_key: str, is_true: bool) -> None:
        if len(self._cache) >= MAX_CACHED_RESULTS:
            self._cache.clear()
        self._cache[cache_key] = is_true


def find_possible_values(source: str) -> frozenset[bool | int | str] | None:
    """Return the only values for which it can hold; None for any."""
    begins = _BEGINS_PATTERN.match(source)
    rest = _QUOTED_PATTERN.sub("", source)
    while (outer := _NESTED_PATTERN.sub("", rest)) != rest:
        rest = outer
    if begins is None or "||" in rest or "?" in rest:
        return None
    return frozenset(map(_parse_literal, re.findall(_LITERAL, begins["one"] or begins["some"])))


def _parse_literal(word: str) -> bool | int | str:
    if word[0] == "'":
        return word[1:-1]
    return word == "true" if word in ("true", "false") else int(word)


def _refuse_unknown(what: str, names: set[str] | frozenset[str], known: frozenset[str]) -> None:
    # One-letter names are left alone: they are the bound variables of exists() and all().
    unknown = sorted(name for name in names - known if len(name) > 1)
    if unknown:
        raise BadExpression(f"unknown {what} {', '.join(unknown)}; there are {', '.join(sorted(known))}")


def _get_first_line(text: str) -> str:
    return " ".join(text.split("\n", 1)[0].split())[:200]
