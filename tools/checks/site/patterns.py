"""Regular expressions that a site writes, and which of them a hostile line could keep busy: those are refused when the file is read. Pure."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import inf
from re import _parser as sre  # type: ignore[attr-defined]  # the standard library's own reading of a pattern
from typing import Any

MOST_REPEATS = 6
LONGEST_PATTERN = 2_000
"""Characters. Python's own compiler takes four times as long for a pattern of twice the classes."""
MOST_WAYS = 1_000_000
"""In which a text may be tried. Measured: a third of a second."""
_UNBOUNDED = 64
"""A repetition that may go on longer than this counts as endless."""
_ENOUGH = 40
"""Powers beyond this are too many ways of whatever they are; a float holds MOST_WAYS so often."""


class BadPattern(ValueError):
    """A pattern that cannot be used, or that could take for ever."""


def pattern(text: str) -> re.Pattern[str]:
    """The compiled pattern. Refused: what is nested or repeated so that a hostile line could keep it busy, and what is very long."""
    tree, compiled = _read(text)
    _refuse_endless(list(_repeats(tree)))
    if _nested_ways(tree) > MOST_WAYS:
        raise BadPattern("a choice or repetition inside a repetition can take for ever; write it flat")
    return compiled


def whole_pattern(text: str, longest: int) -> re.Pattern[str]:
    """The compiled pattern, for whole values of at most so many characters. Refused: what could be tried in more than MOST_WAYS."""
    tree, compiled = _read(text)
    if _ways(tree, longest + 1) > MOST_WAYS:
        raise BadPattern("can take for ever: at most two endless repetitions (such as .*) behind each other, and none inside another")
    return compiled


MOST_LINE_WAYS = 1_000
"""In which a line of a log may be tried at each of its characters: a tenant prints as many lines as it likes."""
SHORTEST_NEEDLE = 4


@dataclass(frozen=True, slots=True)
class LinePattern:
    """A pattern for lines that anybody can print. `needle`: what every line that matches holds; `ways`: how much a try can cost, a character."""

    compiled: re.Pattern[str]
    needle: str
    ways: int


def line_pattern(text: str, longest: int) -> LinePattern:
    """For lines cut at so many characters. Refused: what is not linear with a small bound, what finds nothing, and what no fixed word tells of."""
    compiled = pattern(text)
    tree, _ = _read(text)
    if compiled.search(""):
        raise BadPattern("matches the empty line")
    if compiled.flags & (re.IGNORECASE | re.LOCALE):
        raise BadPattern("has flags that hide its fixed words; write [Ee]rror instead of (?i)error")
    if (ways := _ways(tree, longest + 1)) > MOST_LINE_WAYS:
        raise BadPattern(
            f"can be tried in more than {MOST_LINE_WAYS} ways at one place; bound its repetitions like {{1,10}}, or leave some out"
        )
    needle = max("".join(_literals(tree)).split("\n"), key=len)
    if len(needle.strip()) < SHORTEST_NEEDLE:
        raise BadPattern(f"holds no fixed text of {SHORTEST_NEEDLE} characters outside choices and repetitions")
    return LinePattern(compiled, needle, int(ways))


def _literals(tree: Iterable[Any]) -> Iterator[str]:
    """The characters that every match holds, in order; a new line where something else may stand in between."""
    for operation, argument in tree:
        name = str(operation)
        if name == "LITERAL":
            yield chr(argument)
        elif name == "SUBPATTERN" and not argument[1] and not argument[2]:
            yield from _literals(argument[3])
        elif name != "AT":
            yield "\n"


def _read(text: str) -> tuple[Any, re.Pattern[str]]:
    if len(text) > LONGEST_PATTERN:
        raise BadPattern(f"is longer than {LONGEST_PATTERN} characters")
    try:
        return sre.parse(text), re.compile(text)
    except (re.error, RecursionError, OverflowError) as why:
        raise BadPattern(f"is no regular expression: {why}") from why


@dataclass(frozen=True, slots=True)
class _Repeat:
    """One repetition of a pattern. `times`: how often it can itself be repeated; `nested`: without end."""

    what: str
    times: int
    nested: bool


def _refuse_endless(repeats: Sequence[_Repeat]) -> None:
    if any(repeat.what == "backreference" for repeat in repeats):
        raise BadPattern("refers back to a group, which can take for ever")
    if any(repeat.nested for repeat in repeats):
        raise BadPattern("a choice or repetition inside an unbounded repetition can take for ever; write it flat")
    if sum(repeat.times for repeat in repeats if repeat.what == "unbounded") > MOST_REPEATS:
        raise BadPattern(f"has more than {MOST_REPEATS} unbounded repetitions; bound them like {{0,40}}")


def _repeats(tree: Iterable[Any], times: int = 1, nested: bool = False) -> Iterator[_Repeat]:
    """What can make a search go back and try again: everything of a variable length, choices inside repetitions, back references."""
    for operation, argument in tree:
        name = str(operation)
        if name.endswith("_REPEAT"):
            least, most, body = argument[0], int(argument[1]), argument[2]
            unbounded = most > _UNBOUNDED
            if unbounded or (nested and least != most):
                yield _Repeat("unbounded" if unbounded else "bounded", times, nested)
            yield from _repeats(body, times * (1 if unbounded else max(1, most)), nested or unbounded)
        elif name.startswith("GROUPREF"):
            yield _Repeat("backreference", times, nested)
        else:
            if name == "BRANCH" and nested:
                yield _Repeat("choice", times, nested)
            yield from _repeats(_inside(argument), times, nested)


def _nested_ways(tree: Iterable[Any]) -> float:
    """In how many ways the worst of the bounded repetitions can be tried whose body can itself be tried in several."""
    worst = 1.0
    for operation, argument in tree:
        if str(operation).endswith("_REPEAT"):
            body, most = argument[2], int(argument[1])
            inside = _ways(body, 1)
            worst = max(worst, _nested_ways(body), _times(inside, 0, most) if inside > 1 and most <= _UNBOUNDED else 1)
        else:
            worst = max(worst, _nested_ways(_inside(argument)))
    return worst


def _ways(tree: Iterable[Any], endless: int) -> float:
    """In how many ways a pattern can be tried at one place, never fewer than there are. `endless`: those of an endless repetition."""
    found = 1.0
    for operation, argument in tree:
        name = str(operation)
        if name.startswith("GROUPREF"):
            return inf
        if name == "BRANCH":
            found *= sum(_ways(branch, endless) for branch in argument[1])
        elif name.endswith("_REPEAT"):
            found *= _repeated(int(argument[0]), int(argument[1]), _ways(argument[2], endless), endless)
        else:
            found *= _ways(_inside(argument), endless)
    return found


def _repeated(least: int, most: int, inside: float, endless: int) -> float:
    if most > _UNBOUNDED:
        return float(endless) if inside == 1 else inf
    return _times(inside, least, most)


def _times(inside: float, least: int, most: int) -> float:
    """The ways of what stands so often behind itself; inf where they are too many anyway."""
    if inside == 1:
        return float(most - least + 1)
    if inside > MOST_WAYS and most:
        return inf
    return sum(inside ** min(times, _ENOUGH) for times in range(least, most + 1))


def _inside(argument: Any) -> list[Any]:
    """The operations that lie in an argument of the parsed pattern, however it keeps them."""
    if isinstance(argument, sre.SubPattern):
        return list(argument)
    if isinstance(argument, (list, tuple)):
        return [row for part in argument for row in _inside(part)]
    return []
