"""Reduce templates: merge similar ones, keep the informative, count the rest."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import log

from kb.logs.template_filters import TROUBLE_PATTERN

_MIN_SHARED_WORD_RATIO = 0.6
KEPT_LINE_BYTES = 400
_MAX_COMPARED_TEMPLATES = 30  # per shape; further ones are not merged


@dataclass(slots=True)
class TemplateTally:
    """A template being counted. `fixed` ones (Xids) are never merged."""

    text: str
    count: int
    offset: int
    last_offset: int
    first: bytes
    last: bytes
    fixed: bool = False

    def add_lines(self, count: int, offset: int, last_offset: int, first: bytes, last: bytes) -> None:
        if offset < self.offset:
            self.offset = offset
            self.first = first[:KEPT_LINE_BYTES]
        if last_offset > self.last_offset:
            self.last_offset = last_offset
            self.last = last[:KEPT_LINE_BYTES]
        self.count += count

    def absorb(self, other: "TemplateTally") -> None:
        self.add_lines(other.count, other.offset, other.last_offset, other.first, other.last)


def select_templates(groups: Sequence[TemplateTally], limit: int) -> tuple[list[TemplateTally], int]:
    """Return at most `limit` templates in order, and the others' line count."""
    groups_kept = _merge_alike(groups) if len(groups) > limit else list(groups)
    size = max((group.last_offset for group in groups_kept), default=0) + 1
    ranked = sorted(groups_kept, key=lambda group: -score_template(group.text, group.count, group.last_offset / size, fixed=group.fixed))
    chosen, rest = ranked[:limit], ranked[limit:]
    return sorted(chosen, key=lambda group: group.offset), sum(group.count for group in rest)


def score_template(text: str, count: int, place: float, *, fixed: bool = False) -> float:
    """Score by Xid, trouble word, rarity and lateness (`place`: 0 to 1)."""
    return (8.0 if fixed else 0.0) + (5.0 if has_trouble_word(text) else 0.0) + 2.0 * place - log(1 + count)


def has_trouble_word(text: str) -> bool:
    """Return whether a template matches TROUBLE_PATTERN."""
    return TROUBLE_PATTERN.search(text.lower()) is not None


def _merge_alike(groups: Sequence[TemplateTally]) -> list[TemplateTally]:
    shapes: dict[tuple[int, str], list[TemplateTally]] = {}
    tallies: list[TemplateTally] = []
    for group in groups:
        words = group.text.split(" ")
        if group.fixed:
            tallies.append(group)
            continue
        same_shape = shapes.setdefault((len(words), words[0]), [])
        for other in same_shape[:_MAX_COMPARED_TEMPLATES]:
            if text := _find_common_words(other.text.split(" "), words):
                other.absorb(group)
                other.text = text
                break
        else:
            same_shape.append(group)
            tallies.append(group)
    return tallies


def _find_common_words(one: list[str], other: list[str]) -> str | None:
    """`<*>` where words differ; None if too few are shared or a trouble word differs."""
    differing = [place for place, (a, b) in enumerate(zip(one, other, strict=True)) if a != b]
    if len(differing) > (1 - _MIN_SHARED_WORD_RATIO) * len(one) or any(
        TROUBLE_PATTERN.search(f"{one[at]} {other[at]}".lower()) for at in differing
    ):
        return None
    return " ".join("<*>" if place in differing else word for place, word in enumerate(one))
