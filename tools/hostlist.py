"""Host ranges as operators write them: `gpu-[001-004,7]`, `n1,n3`, folded back for reading. Pure; caps what a range may expand to."""

import re
from collections.abc import Iterable, Sequence
from itertools import groupby, product

MOST = 20_000
NAME = r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?"
"""What a host name may look like: it never starts with a dash, so it can never be read as an option."""


class BadRange(ValueError):
    """A host range that cannot be read. The message quotes the part at fault."""


def expand(text: str) -> list[str]:
    """`gpu-[001-003],n5` → `gpu-001 gpu-002 gpu-003 n5`, in order, without repeats. Width of the first number is kept.

    Raises BadRange for unbalanced brackets, descending ranges, names that are no host names, or more than MOST hosts.
    """
    names: dict[str, None] = {}
    for part in _split(text):
        for name in _expand_one(part, MOST - len(names)):
            if not re.fullmatch(NAME, name):
                raise BadRange(f"{name!r} is not a host name")
            names[name] = None
    return list(names)


def _split(text: str) -> list[str]:
    """Commas and blanks outside brackets separate names."""
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
    choices = [_numbers(piece, room) if i % 2 else [piece] for i, piece in enumerate(pieces)]
    total = 1
    for choice in choices:
        total *= len(choice)
    if total > room:
        raise BadRange(f"{part!r} names more than {MOST} hosts")
    return ("".join(words) for words in product(*choices))


def _numbers(body: str, room: int) -> list[str]:
    found: list[str] = []
    for part in body.split(","):
        match = re.fullmatch(r"\s*(\d{1,9})(?:\s*-\s*(\d{1,9}))?\s*", part)
        if match is None:
            raise BadRange(f"cannot read {part!r} in [{body[:60]}]")
        first, last = match.group(1), match.group(2) or match.group(1)
        if int(last) < int(first):
            raise BadRange(f"{part!r} runs backwards")
        if int(last) - int(first) >= room:
            raise BadRange(f"[{body[:60]}] names more than {MOST} hosts")
        found += [str(n).zfill(len(first)) for n in range(int(first), int(last) + 1)]
    return found


def _key(name: str) -> tuple[str, str, int, str]:
    """Prefix, number's width (as text, so that 001 and 1 do not fold together), number, rest."""
    match = re.fullmatch(r"(.*?)(\d{1,9})(\D*)", name)
    if match is None:
        return (name, "", -1, "")
    prefix, digits, rest = match.groups()
    return (prefix + "\0" + rest, str(len(digits)) if digits.startswith("0") else "", int(digits), digits)


def fold(names: Iterable[str]) -> str:
    """The inverse of `expand` for reading: `gpu-001 gpu-002 n5` → `gpu-[001-002],n5`."""
    rows = sorted({(_key(name), name) for name in names})
    folded = []
    for (stem, _width), group in groupby(rows, key=lambda row: row[0][:2]):
        members = [(key[2], key[3], name) for key, name in group]
        prefix, _, rest = stem.partition("\0")
        folded.append(members[0][2] if len(members) == 1 else f"{prefix}[{_runs([(n, d) for n, d, _ in members])}]{rest}")
    return ",".join(folded)


def _runs(numbers: Sequence[tuple[int, str]]) -> str:
    runs: list[list[tuple[int, str]]] = []
    for number in numbers:
        if runs and number[0] == runs[-1][-1][0] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ",".join(run[0][1] if len(run) == 1 else f"{run[0][1]}-{run[-1][1]}" for run in runs)
