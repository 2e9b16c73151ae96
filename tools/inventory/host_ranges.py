"""Expand (with a cap) and fold host ranges such as `gpu-[001-004,7]`."""

import re
from collections.abc import Iterable, Sequence
from itertools import product

MAX_HOSTS = 20_000
# never starts with a dash, so a name cannot be read as an option
HOST_NAME_PATTERN = r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?"


class BadRange(ValueError):
    """A host range that cannot be read. The message quotes the part at fault."""


def expand_host_range(text: str) -> list[str]:
    """Expand `gpu-[001-003],n5` to `gpu-001 gpu-002 gpu-003 n5`: ordered, unique, padded like the first number.

    Raises BadRange for unbalanced brackets, descending ranges, differently padded ends, invalid names or more than
    MAX_HOSTS.
    """
    names: dict[str, None] = {}
    for part in _split_range(text):
        for name in _expand_one(part, MAX_HOSTS - len(names)):
            if not re.fullmatch(HOST_NAME_PATTERN, name):
                raise BadRange(f"{name!r} is not a host name")
            names[name] = None
    return list(names)


def _split_range(text: str) -> list[str]:
    parts, depth, word = [], 0, ""
    for char in text:
        depth += {"[": 1, "]": -1}.get(char, 0)
        if depth not in (0, 1):
            raise BadRange(f"unbalanced brackets in {text[:80]!r}")
        if depth == 0 and (char == "," or char.isspace()):
            parts.append(word)
            word = ""
        else:
            word += char
    if depth:
        raise BadRange(f"unbalanced brackets in {text[:80]!r}")
    return [part for part in (*parts, word) if part]


def _expand_one(part: str, room: int) -> Iterable[str]:
    pieces = re.split(r"\[([^\]]*)\]", part)
    choices = [_expand_numbers(piece, room) if i % 2 else [piece] for i, piece in enumerate(pieces)]
    total = 1
    for choice in choices:
        total *= len(choice)
    if total > room:
        raise BadRange(f"{part!r} names more than {MAX_HOSTS} hosts")
    return ("".join(words) for words in product(*choices))


def _expand_numbers(body: str, room: int) -> list[str]:
    names: list[str] = []
    for part in body.split(","):
        match = re.fullmatch(r"\s*(\d{1,9})(?:\s*-\s*(\d{1,9}))?\s*", part)
        if match is None:
            raise BadRange(f"cannot read {part!r} in [{body[:60]}]")
        first, last = match.group(1), match.group(2) or match.group(1)
        if int(last) < int(first):
            raise BadRange(f"{part!r} runs backwards")
        if last.startswith("0") and len(last) != len(first):
            raise BadRange(f"the ends of {part!r} are not written with the same number of digits")
        if int(last) - int(first) >= room:
            raise BadRange(f"[{body[:60]}] names more than {MAX_HOSTS} hosts")
        names += [str(n).zfill(len(first)) for n in range(int(first), int(last) + 1)]
    return names


def _split_name(name: str) -> tuple[str, str, str]:
    """Return the prefix, the last number as written, and the suffix."""
    match = re.fullmatch(r"(.*?)(\d{1,9})(\D*)", name)
    return (match.group(1), match.group(2), match.group(3)) if match else (name, "", "")


def fold_host_names(names: Iterable[str]) -> str:
    """Fold `gpu-001 gpu-002 n5` to `gpu-[001-002],n5`."""
    numbers: dict[tuple[str, str, bool], list[str]] = {}
    for name in sorted(set(names)):
        prefix, digits, suffix = _split_name(name)
        numbers.setdefault((prefix, suffix, bool(digits)), []).append(digits)
    return ",".join(_fold_one(prefix, ranges, suffix) for (prefix, suffix, _), ranges in numbers.items())


def _fold_one(prefix: str, numbers: list[str], suffix: str) -> str:
    if len(numbers) == 1:
        return f"{prefix}{numbers[0]}{suffix}"
    ordered_numbers = sorted(numbers, key=lambda digits: (int(digits), len(digits)))
    return f"{prefix}[{_format_runs(ordered_numbers)}]{suffix}"


def _format_runs(numbers: Sequence[str]) -> str:
    """Format `001 002 007` as `001-002,007`."""
    runs: list[list[str]] = []
    for number in numbers:
        if runs and number == str(int(runs[-1][-1]) + 1).zfill(len(runs[-1][0])):
            runs[-1].append(number)
        else:
            runs.append([number])
    return ",".join(run[0] if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)
