"""From many templates to few: alike ones are merged, the telling ones are kept, the rest is counted."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import log

from kb.logs.templates.filters import TROUBLE

_ALIKE = 0.6
SHOWN = 400
"""Bytes of a line that are kept."""
_PAIRS = 30
"""Templates of one shape that are compared with each other: the rest keep to themselves."""


@dataclass(slots=True)
class Tally:
    """One template while it is counted. `fixed` ones are never merged (Xids)."""

    text: str
    count: int
    offset: int
    last_offset: int
    first: bytes
    last: bytes
    fixed: bool = False

    def add(self, count: int, offset: int, last_offset: int, first: bytes, last: bytes) -> None:
        """Counts further lines of it."""
        if offset < self.offset:
            self.offset, self.first = offset, first[:SHOWN]
        if last_offset > self.last_offset:
            self.last_offset, self.last = last_offset, last[:SHOWN]
        self.count += count

    def absorb(self, other: "Tally") -> None:
        """The other's lines become this one's."""
        self.add(other.count, other.offset, other.last_offset, other.first, other.last)


def few(groups: Sequence[Tally], limit: int) -> tuple[list[Tally], int]:
    """At most `limit` templates in order of first sight, and how many lines the others had."""
    kept = _merged(groups) if len(groups) > limit else list(groups)
    size = max((group.last_offset for group in kept), default=0) + 1
    ranked = sorted(kept, key=lambda group: -telling(group.text, group.count, group.last_offset / size, fixed=group.fixed))
    chosen, rest = ranked[:limit], ranked[limit:]
    return sorted(chosen, key=lambda group: group.offset), sum(group.count for group in rest)


def telling(text: str, count: int, place: float, *, fixed: bool = False) -> float:
    """How much a template tells, high is more: an Xid, a word of trouble, rare, late in the log (`place`: 0 its beginning, 1 its end)."""
    return (8.0 if fixed else 0.0) + (5.0 if sounds_bad(text) else 0.0) + 2.0 * place - log(1 + count)


def sounds_bad(text: str) -> bool:
    """Whether a template holds a word of trouble."""
    return TROUBLE.search(text.lower()) is not None


def _merged(groups: Sequence[Tally]) -> list[Tally]:
    shapes: dict[tuple[int, str], list[Tally]] = {}
    kept: list[Tally] = []
    for group in groups:
        words = group.text.split(" ")
        if group.fixed:
            kept.append(group)
            continue
        alike = shapes.setdefault((len(words), words[0]), [])
        for other in alike[:_PAIRS]:
            if text := _common(other.text.split(" "), words):
                other.absorb(group)
                other.text = text
                break
        else:
            alike.append(group)
            kept.append(group)
    return kept


def _common(one: list[str], other: list[str]) -> str | None:
    """The words both share, `<*>` elsewhere; None when they share too little, or differ in a word of trouble."""
    differing = [place for place, (a, b) in enumerate(zip(one, other, strict=True)) if a != b]
    if len(differing) > (1 - _ALIKE) * len(one) or any(TROUBLE.search(f"{one[at]} {other[at]}".lower()) for at in differing):
        return None
    return " ".join("<*>" if place in differing else word for place, word in enumerate(one))
