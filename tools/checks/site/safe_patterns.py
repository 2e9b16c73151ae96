"""Compile a site's regular expressions; refuse those that a hostile line could make slow. Pure."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import inf
from re import _parser as sre  # type: ignore[attr-defined]  # the standard library's own reading of a pattern
from typing import Any

MAX_UNBOUNDED_REPEATS = 6
MAX_PATTERN_CHARS = 2_000  # Python's compiler takes four times as long for twice the character classes
MAX_MATCH_WAYS = 1_000_000  # ways to try one text; measured: a third of a second
_UNBOUNDED_REPEAT_COUNT = 64  # longer repetitions count as endless
_MAX_EXPONENT = 40  # 2 to this power exceeds MAX_MATCH_WAYS, and MAX_MATCH_WAYS to this power still fits a float


class BadPattern(ValueError):
    """A pattern that cannot be used, or that could take for ever."""


def compile_pattern(text: str) -> re.Pattern[str]:
    """Compile a pattern. Refuse long ones and nesting that a hostile line could make slow."""
    tree, compiled = _parse_pattern(text)
    _refuse_endless(list(_iter_repeats(tree)))
    if _count_nested_ways(tree) > MAX_MATCH_WAYS:
        raise BadPattern("a choice or repetition inside a repetition can take for ever; write it flat")
    return compiled


def compile_whole_pattern(text: str, longest: int) -> re.Pattern[str]:
    """Compile a pattern for whole values of at most `longest` characters. Refuse more than MAX_MATCH_WAYS."""
    tree, compiled = _parse_pattern(text)
    if _count_ways(tree, longest + 1) > MAX_MATCH_WAYS:
        raise BadPattern("can take for ever: at most two endless repetitions (such as .*) behind each other, and none inside another")
    return compiled


MAX_LINE_MATCH_WAYS = 1_000  # ways at each character of a log line; low, because a tenant can print any number of lines
MIN_NEEDLE_CHARS = 4


@dataclass(frozen=True, slots=True)
class LinePattern:
    """A pattern for untrusted lines. `needle`: text in every match; `ways`: worst cost of a try per character."""

    compiled: re.Pattern[str]
    needle: str
    ways: int


def compile_line_pattern(text: str, longest: int) -> LinePattern:
    """Compile a pattern for lines cut at `longest` characters.

    Refuses patterns that match the empty line, are not linear with a small bound, or have no fixed text as needle.
    """
    compiled = compile_pattern(text)
    tree, _ = _parse_pattern(text)
    if compiled.search(""):
        raise BadPattern("matches the empty line")
    if compiled.flags & (re.IGNORECASE | re.LOCALE):
        raise BadPattern("has flags that hide its fixed words; write [Ee]rror instead of (?i)error")
    if (ways := _count_ways(tree, longest + 1)) > MAX_LINE_MATCH_WAYS:
        raise BadPattern(
            f"can be tried in more than {MAX_LINE_MATCH_WAYS} ways at one place; bound its repetitions like {{1,10}}, or leave some out"
        )
    needle = max("".join(_iter_literals(tree)).split("\n"), key=len)
    if len(needle.strip()) < MIN_NEEDLE_CHARS:
        raise BadPattern(f"holds no fixed text of {MIN_NEEDLE_CHARS} characters outside choices and repetitions")
    return LinePattern(compiled, needle, int(ways))


def _iter_literals(tree: Iterable[Any]) -> Iterator[str]:
    """Yield characters of every match in order; a line feed where other text may intervene."""
    for operation, argument in tree:
        name = str(operation)
        if name == "LITERAL":
            yield chr(argument)
        elif name == "SUBPATTERN" and not argument[1] and not argument[2]:
            yield from _iter_literals(argument[3])
        elif name != "AT":
            yield "\n"


def _parse_pattern(text: str) -> tuple[Any, re.Pattern[str]]:
    if len(text) > MAX_PATTERN_CHARS:
        raise BadPattern(f"is longer than {MAX_PATTERN_CHARS} characters")
    try:
        return sre.parse(text), re.compile(text)
    except (re.error, RecursionError, OverflowError) as error:
        raise BadPattern(f"is no regular expression: {error}") from error


@dataclass(frozen=True, slots=True)
class _Repeat:
    """`times`: how often it can itself be repeated; `nested`: inside an endless repetition."""

    what: str
    times: int
    nested: bool


def _refuse_endless(repeats: Sequence[_Repeat]) -> None:
    if any(repeat.what == "backreference" for repeat in repeats):
        raise BadPattern("refers back to a group, which can take for ever")
    if any(repeat.nested for repeat in repeats):
        raise BadPattern("a choice or repetition inside an unbounded repetition can take for ever; write it flat")
    if sum(repeat.times for repeat in repeats if repeat.what == "unbounded") > MAX_UNBOUNDED_REPEATS:
        raise BadPattern(f"has more than {MAX_UNBOUNDED_REPEATS} unbounded repetitions; bound them like {{0,40}}")


def _iter_repeats(tree: Iterable[Any], times: int = 1, nested: bool = False) -> Iterator[_Repeat]:
    """Yield causes of backtracking: variable lengths, choices in repetitions, back references."""
    for operation, argument in tree:
        name = str(operation)
        if name.endswith("_REPEAT"):
            least, most, body = argument[0], int(argument[1]), argument[2]
            unbounded = most > _UNBOUNDED_REPEAT_COUNT
            if unbounded or (nested and least != most):
                yield _Repeat("unbounded" if unbounded else "bounded", times, nested)
            yield from _iter_repeats(body, times * (1 if unbounded else max(1, most)), nested or unbounded)
        elif name.startswith("GROUPREF"):
            yield _Repeat("backreference", times, nested)
        else:
            if name == "BRANCH" and nested:
                yield _Repeat("choice", times, nested)
            yield from _iter_repeats(_list_operations(argument), times, nested)


def _count_nested_ways(tree: Iterable[Any]) -> float:
    """Return the ways of the worst bounded repetition of an ambiguous body."""
    worst = 1.0
    for operation, argument in tree:
        if str(operation).endswith("_REPEAT"):
            body, most = argument[2], int(argument[1])
            inside = _count_ways(body, 1)
            worst = max(
                worst, _count_nested_ways(body), _multiply_ways(inside, 0, most) if inside > 1 and most <= _UNBOUNDED_REPEAT_COUNT else 1
            )
        else:
            worst = max(worst, _count_nested_ways(_list_operations(argument)))
    return worst


def _count_ways(tree: Iterable[Any], endless: int) -> float:
    """Return an upper bound of ways at one place. `endless`: ways of an endless repetition."""
    ways = 1.0
    for operation, argument in tree:
        name = str(operation)
        if name.startswith("GROUPREF"):
            return inf
        if name == "BRANCH":
            ways *= sum(_count_ways(branch, endless) for branch in argument[1])
        elif name.endswith("_REPEAT"):
            ways *= _count_repeated_ways(int(argument[0]), int(argument[1]), _count_ways(argument[2], endless), endless)
        else:
            ways *= _count_ways(_list_operations(argument), endless)
    return ways


def _count_repeated_ways(least: int, most: int, inside: float, endless: int) -> float:
    if most > _UNBOUNDED_REPEAT_COUNT:
        return float(endless) if inside == 1 else inf
    return _multiply_ways(inside, least, most)


def _multiply_ways(inside: float, least: int, most: int) -> float:
    """Return the ways of `least` to `most` repeats; inf if too many."""
    if inside == 1:
        return float(most - least + 1)
    if inside > MAX_MATCH_WAYS and most:
        return inf
    return sum(inside ** min(times, _MAX_EXPONENT) for times in range(least, most + 1))


def _list_operations(argument: Any) -> list[Any]:
    if isinstance(argument, sre.SubPattern):
        return list(argument)
    if isinstance(argument, (list, tuple)):
        return [row for part in argument for row in _list_operations(part)]
    return []
