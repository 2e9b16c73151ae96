"""Reduce a log's templates: merge similar ones, keep the most informative, and count the lines of the others."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import log

from kb.logs.template_filters import TROUBLE_PATTERN

_MIN_SHARED_WORD_RATIO = 0.6
KEPT_LINE_BYTES = 400
_MAX_COMPARED_TEMPLATES = 30  # per shape; further ones are not merged


@dataclass(slots=True)
class TemplateTally:
    """A template and its lines so far. A `fixed` template, such as an Xid, is never merged."""

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

    def merge_tally(self, other: "TemplateTally") -> None:
        self.add_lines(other.count, other.offset, other.last_offset, other.first, other.last)


def select_templates(groups: Sequence[TemplateTally], limit: int) -> tuple[list[TemplateTally], int]:
    """Return at most `limit` templates in the order of the log, and the number of lines of the others."""
    tallies = _merge_similar(groups) if len(groups) > limit else list(groups)
    size = max((tally.last_offset for tally in tallies), default=0) + 1
    ranked = sorted(tallies, key=lambda tally: -score_template(tally.text, tally.count, tally.last_offset / size, fixed=tally.fixed))
    chosen, left_out = ranked[:limit], ranked[limit:]
    return sorted(chosen, key=lambda tally: tally.offset), sum(tally.count for tally in left_out)


def score_template(text: str, count: int, position: float, *, fixed: bool = False) -> float:
    """Return a score: higher for Xids, trouble words, rare templates and late lines (`position` is 0 to 1)."""
    return (8.0 if fixed else 0.0) + (5.0 if has_trouble_word(text) else 0.0) + 2.0 * position - log(1 + count)


def has_trouble_word(text: str) -> bool:
    """Return whether a template matches TROUBLE_PATTERN."""
    return TROUBLE_PATTERN.search(text.lower()) is not None


def _merge_similar(groups: Sequence[TemplateTally]) -> list[TemplateTally]:
    """Merge templates with the same number of words, the same first word and enough other words in common."""
    tallies_by_shape: dict[tuple[int, str], list[TemplateTally]] = {}
    tallies: list[TemplateTally] = []
    for group in groups:
        words = group.text.split(" ")
        if group.fixed:
            tallies.append(group)
            continue
        same_shape = tallies_by_shape.setdefault((len(words), words[0]), [])
        for tally in same_shape[:_MAX_COMPARED_TEMPLATES]:
            if text := _find_common_words(tally.text.split(" "), words):
                tally.merge_tally(group)
                tally.text = text
                break
        else:
            same_shape.append(group)
            tallies.append(group)
    return tallies


def _find_common_words(words: list[str], other_words: list[str]) -> str | None:
    """Return the template with `<*>` for each word that differs; None if too few are equal or a trouble word differs."""
    pairs = list(zip(words, other_words, strict=True))
    differing_pairs = [(word, other_word) for word, other_word in pairs if word != other_word]
    if len(differing_pairs) > (1 - _MIN_SHARED_WORD_RATIO) * len(words):
        return None
    if any(TROUBLE_PATTERN.search(f"{word} {other_word}".lower()) for word, other_word in differing_pairs):
        return None
    return " ".join(word if word == other_word else "<*>" for word, other_word in pairs)
