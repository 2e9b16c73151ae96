"""Names that no host has: which of the known hosts may have been meant, and how that is said. Pure; nothing is ever taken for another name.

Whoever asks gives the hosts that may be spoken of, so that a host of somebody else reads like one that does not exist.
"""

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from tools.inventory.host_ranges import BadRange, expand_host_range, fold_host_names

MAX_SUGGESTIONS, MAX_LISTED_NAMES = 3, 8
"""Hosts offered for one name, and names said before the rest is counted."""
MAX_COMPARED_CHARS = 64
"""Characters of a name that are compared."""
MAX_EDIT_DISTANCE = 2
"""Slips of the finger beyond which two names are not alike."""
_NUMBER_PATTERN = re.compile(r"(.*?)(\d{1,9})$")
_SPAN_PATTERN = re.compile(r"(\d{1,6})-(\d{1,6})")


@dataclass(frozen=True, slots=True)
class UnknownName:
    """A name or range as it was written, hosts (or one range) that may be meant, and why it cannot even be read, if so."""

    name: str
    nearest: tuple[str, ...] = ()
    why: str = ""
    tenant: str = ""
    """Whose hosts alone it was looked for among: it may be another's, which is then not said."""


def find_suggestions(names: Iterable[str], known: Collection[str], tenant: str = "") -> tuple[UnknownName, ...]:
    """What is said of names that are not among the known hosts, in their order. `tenant`: the known ones are those of one tenant."""
    return tuple(replace(_build_unknown_name(name, known), tenant=tenant) for name in dict.fromkeys(names))


def format_unknown_names(unknown: Sequence[UnknownName]) -> str:
    """`not in the inventory: gpu-099 (did you mean gpu-019 or gpu-009?)`, or `none of acme's hosts: …`: the same sentence wherever it is refused;
    empty without any."""
    tenant = next((row.tenant for row in unknown if row.tenant), "")
    where = f"none of {tenant}'s hosts" if tenant else "not in the inventory"
    absent = [_format_suggestion(row.name, row.nearest) for row in unknown if not row.why]
    parts = [f"{_format_suggestion(row.name, row.nearest)} cannot be read: {row.why}" for row in unknown if row.why]
    more = f", … {len(absent) - MAX_LISTED_NAMES} more" if len(absent) > MAX_LISTED_NAMES else ""
    return "; ".join(([f"{where}: {', '.join(absent[:MAX_LISTED_NAMES])}{more}"] if absent else []) + parts[:MAX_LISTED_NAMES])


def _format_suggestion(name: str, nearest: Sequence[str]) -> str:
    if not nearest:
        return name
    first, last = ", ".join(nearest[:-1]), nearest[-1]
    return f"{name} (did you mean {f'{first} or {last}' if first else last}?)"


def _build_unknown_name(name: str, known: Collection[str]) -> UnknownName:
    if "[" not in name:
        return UnknownName(name, find_nearest_hosts(name, known))
    try:
        whole = expand_host_range(name)
    except BadRange as why:
        return UnknownName(name, _repair_range(name, known), str(why))
    return UnknownName(name, (), f"{len(whole)} hosts are too many at once")


def find_nearest_hosts(name: str, known: Collection[str]) -> tuple[str, ...]:
    """The known hosts most like it, at most MOST: letters and number spelt otherwise, else the fewest slips, then the closest number."""
    stem, number, digits = _split_name(name)
    found: list[tuple[int, int, str]] = []
    for host in known:
        theirs, their_number, their_digits = _split_name(host)
        if stem != theirs and number != their_number:
            continue
        far = 0 if (stem, number) == (theirs, their_number) else compute_edit_distance(f"{stem}{digits}", f"{theirs}{their_digits}")
        if far <= MAX_EDIT_DISTANCE:
            found.append((far, abs(number - their_number), host))
    least = min(found, default=(0, 0, ""))[0]
    return tuple(host for far, _, host in sorted(found)[:MAX_SUGGESTIONS] if far == least)


def _split_name(name: str) -> tuple[str, int, str]:
    """Letters without separators, the number, and its digits as written; -1 where there is none. A full name counts by its first label."""
    short = name[:MAX_COMPARED_CHARS].lower().partition(".")[0]
    found = _NUMBER_PATTERN.match(short)
    stem, digits = (found[1], found[2]) if found else (short, "")
    return re.sub(r"[-_]", "", stem), int(digits) if digits else -1, digits


def compute_edit_distance(one: str, other: str) -> int:
    """Letters to add, leave out, change, or swap with their neighbour, to make one of the other."""
    before: list[int] = []
    row = list(range(len(other) + 1))
    for i, a in enumerate(one, 1):
        above, row = row, [i]
        for j, b in enumerate(other, 1):
            cost = min(above[j] + 1, row[j - 1] + 1, above[j - 1] + (a != b))
            if before and j > 1 and a == other[j - 2] and one[i - 2] == b:
                cost = min(cost, before[j - 2] + 1)
            row.append(cost)
        before = above
    return row[-1]


def _repair_range(text: str, known: Collection[str]) -> tuple[str, ...]:
    """The range with both ends as wide as the first, lowest first, as far as its hosts are known."""
    try:
        names = expand_host_range(_SPAN_PATTERN.sub(lambda ends: _repair_span(ends[1], ends[2]), text))
    except BadRange:
        return ()
    real = [name for name in names if name in known]
    return (fold_host_names(real),) if real else ()


def _repair_span(first: str, last: str) -> str:
    low, high = sorted((int(first), int(last)))
    return f"{str(low).zfill(len(first))}-{str(high).zfill(len(first))}"
