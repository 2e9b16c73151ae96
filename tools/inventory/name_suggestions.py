"""Suggestions for unknown host names, never substituted for them. Pure.

The caller passes only hosts that it may reveal, so another tenant's host looks nonexistent.
"""

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from tools.inventory.host_ranges import BadRange, expand_host_range, fold_host_names

MAX_SUGGESTIONS = 3  # suggestions per name
MAX_LISTED_NAMES = 8  # names listed before the rest is counted
MAX_COMPARED_CHARS = 64
MAX_EDIT_DISTANCE = 2  # typing errors up to which names count as similar
_NUMBER_PATTERN = re.compile(r"(.*?)(\d{1,9})$")
_SPAN_PATTERN = re.compile(r"(\d{1,6})-(\d{1,6})")


@dataclass(frozen=True, slots=True)
class UnknownName:
    """A name or range, suggestions, and why it cannot be parsed."""

    name: str
    nearest: tuple[str, ...] = ()
    why: str = ""
    tenant: str = ""  # the tenant whose hosts were searched; the name may be another tenant's, which is not revealed


def find_suggestions(names: Iterable[str], known: Collection[str], tenant: str = "") -> tuple[UnknownName, ...]:
    """Return suggestions for unknown names. With `tenant`, `known` holds only its hosts."""
    return tuple(replace(_build_unknown_name(name, known), tenant=tenant) for name in dict.fromkeys(names))


def format_unknown_names(unknown: Sequence[UnknownName]) -> str:
    """Return `not in the inventory: gpu-099 (did you mean gpu-019?)` or `none of acme's hosts: …`, or ""."""
    tenant = next((row.tenant for row in unknown if row.tenant), "")
    description = f"none of {tenant}'s hosts" if tenant else "not in the inventory"
    absent = [_format_suggestion(row.name, row.nearest) for row in unknown if not row.why]
    parts = [f"{_format_suggestion(row.name, row.nearest)} cannot be read: {row.why}" for row in unknown if row.why]
    more = f", … {len(absent) - MAX_LISTED_NAMES} more" if len(absent) > MAX_LISTED_NAMES else ""
    return "; ".join(([f"{description}: {', '.join(absent[:MAX_LISTED_NAMES])}{more}"] if absent else []) + parts[:MAX_LISTED_NAMES])


def _format_suggestion(name: str, nearest: Sequence[str]) -> str:
    if not nearest:
        return name
    first, last = ", ".join(nearest[:-1]), nearest[-1]
    return f"{name} (did you mean {f'{first} or {last}' if first else last}?)"


def _build_unknown_name(name: str, known: Collection[str]) -> UnknownName:
    if "[" not in name:
        return UnknownName(name, find_nearest_hosts(name, known))
    try:
        expanded = expand_host_range(name)
    except BadRange as error:
        return UnknownName(name, _repair_range(name, known), str(error))
    return UnknownName(name, (), f"{len(expanded)} hosts are too many at once")


def find_nearest_hosts(name: str, known: Collection[str]) -> tuple[str, ...]:
    """Return at most MAX_SUGGESTIONS hosts: equal letters and number, else least edit distance, then number."""
    stem, number, digits = _split_name(name)
    candidates: list[tuple[int, int, str]] = []
    for host in known:
        host_stem, their_number, their_digits = _split_name(host)
        if stem != host_stem and number != their_number:
            continue
        far = 0 if (stem, number) == (host_stem, their_number) else compute_edit_distance(f"{stem}{digits}", f"{host_stem}{their_digits}")
        if far <= MAX_EDIT_DISTANCE:
            candidates.append((far, abs(number - their_number), host))
    least = min(candidates, default=(0, 0, ""))[0]
    return tuple(host for far, _, host in sorted(candidates)[:MAX_SUGGESTIONS] if far == least)


def _split_name(name: str) -> tuple[str, int, str]:
    """Return the first label's letters, number (-1 if absent) and digits."""
    short = name[:MAX_COMPARED_CHARS].lower().partition(".")[0]
    match = _NUMBER_PATTERN.match(short)
    stem, digits = (match[1], match[2]) if match else (short, "")
    return re.sub(r"[-_]", "", stem), int(digits) if digits else -1, digits


def compute_edit_distance(one: str, other: str) -> int:
    """Return the edit distance with adjacent swaps."""
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
    """Order and pad both ends; keep known hosts only."""
    try:
        names = expand_host_range(_SPAN_PATTERN.sub(lambda ends: _repair_span(ends[1], ends[2]), text))
    except BadRange:
        return ()
    real = [name for name in names if name in known]
    return (fold_host_names(real),) if real else ()


def _repair_span(first: str, last: str) -> str:
    low, high = sorted((int(first), int(last)))
    return f"{str(low).zfill(len(first))}-{str(high).zfill(len(first))}"
