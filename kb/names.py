"""Match names in any spelling: with look-alike letters, accents, invisible characters or other separators."""

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

# A name up to this length, or one that is an ordinary word, matches inside a word only at a case change or a digit:
# `IBMcluster`, never `sap` in `sapphire`.
MAX_SHORT_NAME_CHARS = 3
_INVISIBLE_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp", "Mn", "Me"})
_LOOKALIKES = str.maketrans("аеорсухіјѕԁһкмтвнгαεορτυνικχß", "aeopcyxijsdhkmtbhraeoptuvikxs")
_KEPT_WHITESPACE = "\n\t"
_LETTERS_PATTERN = re.compile(r"[^\W\d_]+")


@dataclass(frozen=True, slots=True)
class FoldedText:
    """A folded text, the same with its case kept, and the original position of each character."""

    text: str
    cased: str
    at: Sequence[int]

    def get_original_span(self, start: int, end: int) -> tuple[int, int]:
        return self.at[start], self.at[end - 1] + 1 if end > start else self.at[start]


def _fold_char(char: str) -> str:
    if char in _KEPT_WHITESPACE or (char.isascii() and char.isprintable()):
        return char
    folded = []
    for part in unicodedata.normalize("NFKD", char):
        kind = unicodedata.category(part)
        if kind == "Pd" or part == "\u2212":
            folded.append("-")
        elif kind == "Zs":
            folded.append(" ")
        elif kind not in _INVISIBLE_CATEGORIES:
            folded.append(part)
    return "".join(folded)


def fold_text(text: str) -> FoldedText:
    """Fold case, look-alike letters and dashes, and drop invisible characters."""
    if text.isascii() and text.isprintable():
        return FoldedText(text.lower(), text, range(len(text)))
    cased, at = [], []
    for position, char in enumerate(text):
        for part in _fold_char(char):
            cased.append(part)
            at.append(position)
    cased_text = "".join(cased)
    return FoldedText(
        "".join(char.lower() if len(char.lower()) == 1 else char for char in cased_text).translate(_LOOKALIKES), cased_text, at
    )


def split_name(name: str) -> tuple[str, ...]:
    """Split a name into folded words. `Acme Corp.` and `acme-corp` give the same."""
    return tuple(filter(None, re.split(r"[\W_]+", fold_text(name).text)))


@dataclass(frozen=True, slots=True)
class NameMatcher:
    """Matcher of names in a folded text.

    Attributes:
        names: Names to find.
        ordinary_words: Words in which a name does not count.
    """

    names: Collection[str]
    ordinary_words: Collection[str] = frozenset()

    def build_pattern(self) -> re.Pattern[str] | None:
        """Return a pattern of all names, longest first, or None without names."""
        split_names = [words for name in self.names if (words := split_name(name))]
        if not split_names:
            return None
        alternatives = {r"[\W_]{0,3}".join(map(re.escape, words)) for words in split_names}
        return re.compile("|".join(sorted(alternatives, key=lambda alternative: (-len(alternative), alternative))))

    def iter_places(self, folded: FoldedText, pattern: re.Pattern[str]) -> Iterator[tuple[int, int]]:
        """Yield the span of each name that stands alone or is part of a word that is not ordinary."""
        at = 0
        words = [match.span() for match in _LETTERS_PATTERN.finditer(folded.text)]
        while match := pattern.search(folded.text, at):
            start, end = match.span()
            is_standalone = self._is_standalone(folded, start, end, words)
            at = end if is_standalone else start + 1
            if is_standalone:
                yield start, end

    def _is_standalone(self, folded: FoldedText, start: int, end: int, words: Sequence[tuple[int, int]]) -> bool:
        text = folded.text
        joins_left = start > 0 and text[start - 1].isalpha() and text[start].isalpha()
        joins_right = end < len(text) and text[end].isalpha() and text[end - 1].isalpha()
        if not joins_left and not joins_right:
            return True
        if sum(char.isalnum() for char in text[start:end]) <= MAX_SHORT_NAME_CHARS or text[start:end] in self.ordinary_words:
            starts_at_boundary = not joins_left or _is_case_change(folded.cased, start)
            ends_at_boundary = not joins_right or _is_case_change(folded.cased, end)
            return starts_at_boundary and ends_at_boundary
        first = words[bisect_right(words, (start, len(text))) - 1][0] if joins_left else start
        last = words[bisect_right(words, (end, 0)) - 1][1] if joins_right else end
        return text[first:last] not in self.ordinary_words


def _is_case_change(cased: str, at: int) -> bool:
    """Return whether the case changes at a position, as in `trainIBM` or `IBMcluster`."""
    return cased[at - 1].isupper() != cased[at].isupper()
