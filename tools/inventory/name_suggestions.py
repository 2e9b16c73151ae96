"""Suggestions for unknown host names, never substituted for them.

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


def find_suggestions(names: Iterable[str], host_names: Collection[str], tenant: str = "") -> tuple[UnknownName, ...]:
    """Return suggestions for unknown names. With `tenant`, `host_names` holds only its hosts."""
    return tuple(replace(_build_unknown_name(name, host_names), tenant=tenant) for name in dict.fromkeys(names))


def format_unknown_names(unknown: Sequence[UnknownName]) -> str:
    """Return `not in the inventory: gpu-099 (did you mean gpu-019?)` or `none of acme's hosts: …`, or ""."""
    tenant = next((name.tenant for name in unknown if name.tenant), "")
    description = f"none of {tenant}'s hosts" if tenant else "not in the inventory"
    absent = [_format_suggestion(name.name, name.nearest) for name in unknown if not name.why]
    unreadable = [f"{_format_suggestion(name.name, name.nearest)} cannot be read: {name.why}" for name in unknown if name.why]
    sentences = unreadable[:MAX_LISTED_NAMES]
    if absent:
        more = f", … {len(absent) - MAX_LISTED_NAMES} more" if len(absent) > MAX_LISTED_NAMES else ""
        sentences.insert(0, f"{description}: {', '.join(absent[:MAX_LISTED_NAMES])}{more}")
    return "; ".join(sentences)


def _format_suggestion(name: str, nearest: Sequence[str]) -> str:
    if not nearest:
        return name
    first, last = ", ".join(nearest[:-1]), nearest[-1]
    return f"{name} (did you mean {f'{first} or {last}' if first else last}?)"


def _build_unknown_name(name: str, host_names: Collection[str]) -> UnknownName:
    if "[" not in name:
        return UnknownName(name, find_nearest_hosts(name, host_names))
    try:
        expanded = expand_host_range(name)
    except BadRange as error:
        return UnknownName(name, _repair_range(name, host_names), str(error))
    return UnknownName(name, (), f"{len(expanded)} hosts are too many at once")


def find_nearest_hosts(name: str, host_names: Collection[str]) -> tuple[str, ...]:
    """Return at most MAX_SUGGESTIONS hosts: equal letters and number, else least edit distance, then number."""
    stem, number, digits = _split_name(name)
    candidates: list[tuple[int, int, str]] = []
    for host in host_names:
        host_stem, host_number, host_digits = _split_name(host)
        if stem != host_stem and number != host_number:
            continue
        distance = 0
        if (stem, number) != (host_stem, host_number):
            distance = compute_edit_distance(f"{stem}{digits}", f"{host_stem}{host_digits}")
        if distance <= MAX_EDIT_DISTANCE:
            candidates.append((distance, abs(number - host_number), host))
    least_distance = min(candidates, default=(0, 0, ""))[0]
    return tuple(host for distance, _, host in sorted(candidates)[:MAX_SUGGESTIONS] if distance == least_distance)


def _split_name(name: str) -> tuple[str, int, str]:
    """Return the first label's letters, number (-1 if absent) and digits."""
    short = name[:MAX_COMPARED_CHARS].lower().partition(".")[0]
    match = _NUMBER_PATTERN.match(short)
    stem, digits = (match[1], match[2]) if match else (short, "")
    return re.sub(r"[-_]", "", stem), int(digits) if digits else -1, digits


def compute_edit_distance(one: str, other: str) -> int:
    """Return the edit distance with adjacent swaps."""
    before: list[int] = []
    distances = list(range(len(other) + 1))
    for i, a in enumerate(one, 1):
        above, distances = distances, [i]
        for j, b in enumerate(other, 1):
            cost = min(above[j] + 1, distances[j - 1] + 1, above[j - 1] + (a != b))
            if before and j > 1 and a == other[j - 2] and one[i - 2] == b:
                cost = min(cost, before[j - 2] + 1)
            distances.append(cost)
        before = above
    return distances[-1]


def _repair_range(text: str, host_names: Collection[str]) -> tuple[str, ...]:
    """Return the range with ordered, padded ends, limited to hosts that exist; empty if none does."""
    try:
        names = expand_host_range(_SPAN_PATTERN.sub(lambda ends: _repair_span(ends[1], ends[2]), text))
    except BadRange:
        return ()
    existing_names = [name for name in names if name in host_names]
    return (fold_host_names(existing_names),) if existing_names else ()


def _repair_span(first: str, last: str) -> str:
    low, high = sorted((int(first), int(last)))
    return f"{str(low).zfill(len(first))}-{str(high).zfill(len(first))}"
