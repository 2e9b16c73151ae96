"""Compile a site's regular expressions; refuse those that a hostile line could make slow."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import inf
from re import _parser as sre  # type: ignore[attr-defined]  # the standard library's own reading of a pattern
from typing import Any, Literal

MAX_UNBOUNDED_REPEATS = 6
MAX_PATTERN_CHARS = 2_000  # Python's compiler takes four times as long for twice the character classes
MAX_MATCH_WAYS = 1_000_000  # ways to try one text; measured: a third of a second
_UNBOUNDED_REPEAT_COUNT = 64  # longer repetitions count as endless
_MAX_EXPONENT = 40  # 2 to this power exceeds MAX_MATCH_WAYS, and MAX_MATCH_WAYS to this power still fits a float


class BadPattern(ValueError):
    """The pattern is no regular expression, or a hostile line could make it slow."""


def compile_pattern(text: str) -> re.Pattern[str]:
    """Compile a pattern. Refuse long ones and nesting that a hostile line could make slow."""
    tree, compiled = _parse_pattern(text)
    _refuse_endless(list(_iter_repeats(tree)))
    if _count_nested_ways(tree) > MAX_MATCH_WAYS:
        raise BadPattern("a choice or repetition inside a repetition can take for ever; write it flat")
    return compiled


def compile_whole_pattern(text: str, max_chars: int) -> re.Pattern[str]:
    """Compile a pattern for whole values of at most `max_chars` characters.

    Refuse it if there are more than MAX_MATCH_WAYS ways to try a value.
    """
    tree, compiled = _parse_pattern(text)
    if _count_ways(tree, max_chars + 1) > MAX_MATCH_WAYS:
        raise BadPattern("can take for ever: at most two endless repetitions (such as .*) behind each other, and none inside another")
    return compiled


MAX_LINE_MATCH_WAYS = 1_000  # ways at each character of a log line; low, because a tenant can print any number of lines
MIN_NEEDLE_CHARS = 4


@dataclass(frozen=True, slots=True)
class LinePattern:
    """A pattern for untrusted lines."""

    compiled: re.Pattern[str]
    needle: str  # text that every match contains
    ways: int  # worst cost of a try per character


def compile_line_pattern(text: str, max_chars: int) -> LinePattern:
    """Compile a pattern for lines cut at `max_chars` characters.

    Refuses patterns that match the empty line, are not linear with a small bound, or have no fixed text as needle.
    """
    compiled = compile_pattern(text)
    tree, _ = _parse_pattern(text)
    if compiled.search(""):
        raise BadPattern("matches the empty line")
    if compiled.flags & (re.IGNORECASE | re.LOCALE):
        raise BadPattern("has flags that hide its fixed words; write [Ee]rror instead of (?i)error")
    ways = _count_ways(tree, max_chars + 1)
    if ways > MAX_LINE_MATCH_WAYS:
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
    """A part of a pattern that makes the matcher try several ways."""

    kind: Literal["unbounded", "bounded", "backreference", "choice"]
    times: int  # how often the part itself can be repeated
    nested: bool  # whether it is inside an unbounded repetition


def _refuse_endless(repeats: Sequence[_Repeat]) -> None:
    if any(repeat.kind == "backreference" for repeat in repeats):
        raise BadPattern("refers back to a group, which can take for ever")
    if any(repeat.nested for repeat in repeats):
        raise BadPattern("a choice or repetition inside an unbounded repetition can take for ever; write it flat")
    if sum(repeat.times for repeat in repeats if repeat.kind == "unbounded") > MAX_UNBOUNDED_REPEATS:
        raise BadPattern(f"has more than {MAX_UNBOUNDED_REPEATS} unbounded repetitions; bound them like {{0,40}}")


def _iter_repeats(tree: Iterable[Any], times: int = 1, nested: bool = False) -> Iterator[_Repeat]:
    """Yield causes of backtracking: variable lengths, choices in repetitions, back references."""
    for operation, argument in tree:
        name = str(operation)
        if name.endswith("_REPEAT"):
            min_repeats, max_repeats, body = argument[0], int(argument[1]), argument[2]
            is_unbounded = max_repeats > _UNBOUNDED_REPEAT_COUNT
            if is_unbounded or (nested and min_repeats != max_repeats):
                yield _Repeat("unbounded" if is_unbounded else "bounded", times, nested)
            body_times = times if is_unbounded else times * max(1, max_repeats)
            yield from _iter_repeats(body, body_times, nested or is_unbounded)
        elif name.startswith("GROUPREF"):
            yield _Repeat("backreference", times, nested)
        else:
            if name == "BRANCH" and nested:
                yield _Repeat("choice", times, nested)
            yield from _iter_repeats(_list_operations(argument), times, nested)


def _count_nested_ways(tree: Iterable[Any]) -> float:
    """Return the ways of the worst bounded repetition whose body can match in several ways."""
    worst_ways = 1.0
    for operation, argument in tree:
        if str(operation).endswith("_REPEAT"):
            body, max_repeats = argument[2], int(argument[1])
            worst_ways = max(worst_ways, _count_nested_ways(body))
            body_ways = _count_ways(body, 1)
            if body_ways > 1 and max_repeats <= _UNBOUNDED_REPEAT_COUNT:
                worst_ways = max(worst_ways, _multiply_ways(body_ways, 0, max_repeats))
        else:
            worst_ways = max(worst_ways, _count_nested_ways(_list_operations(argument)))
    return worst_ways


def _count_ways(tree: Iterable[Any], unbounded_ways: int) -> float:
    """Return an upper bound of the ways to try a pattern at one place.

    Args:
        unbounded_ways: how many ways an unbounded repetition counts for.
    """
    ways = 1.0
    for operation, argument in tree:
        name = str(operation)
        if name.startswith("GROUPREF"):
            return inf
        if name == "BRANCH":
            ways *= sum(_count_ways(branch, unbounded_ways) for branch in argument[1])
        elif name.endswith("_REPEAT"):
            body_ways = _count_ways(argument[2], unbounded_ways)
            ways *= _count_repeated_ways(int(argument[0]), int(argument[1]), body_ways, unbounded_ways)
        else:
            ways *= _count_ways(_list_operations(argument), unbounded_ways)
    return ways


def _count_repeated_ways(min_repeats: int, max_repeats: int, body_ways: float, unbounded_ways: int) -> float:
    if max_repeats > _UNBOUNDED_REPEAT_COUNT:
        return float(unbounded_ways) if body_ways == 1 else inf
    return _multiply_ways(body_ways, min_repeats, max_repeats)


def _multiply_ways(body_ways: float, min_repeats: int, max_repeats: int) -> float:
    """Return the ways to match `min_repeats` to `max_repeats` bodies; inf if the number is too large for a float."""
    if body_ways == 1:
        return float(max_repeats - min_repeats + 1)
    if body_ways > MAX_MATCH_WAYS and max_repeats:
        return inf
    return sum(body_ways ** min(repeats, _MAX_EXPONENT) for repeats in range(min_repeats, max_repeats + 1))


def _list_operations(argument: Any) -> list[Any]:
    """Return the operations of all patterns inside an operation's argument."""
    if isinstance(argument, sre.SubPattern):
        return list(argument)
    if isinstance(argument, (list, tuple)):
        return [operation for part in argument for operation in _list_operations(part)]
    return []
