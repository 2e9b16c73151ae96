"""Match names as people write them: look-alike letters, accents, invisible characters, separators. Pure."""

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
    """A folded text with original positions. `cased` keeps case."""

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
    """Fold look-alike letters and dashes; drop invisible characters."""
    if text.isascii() and text.isprintable():
        return FoldedText(text.lower(), text, range(len(text)))
    cased, at = [], []
    for place, char in enumerate(text):
        for part in _fold_char(char):
            cased.append(part)
            at.append(place)
    cased_text = "".join(cased)
    return FoldedText(
        "".join(char.lower() if len(char.lower()) == 1 else char for char in cased_text).translate(_LOOKALIKES), cased_text, at
    )


def split_name(name: str) -> tuple[str, ...]:
    """Return equal parts for `Acme Corp.` and `acme-corp`."""
    return tuple(filter(None, re.split(r"[\W_]+", fold_text(name).text)))


@dataclass(frozen=True, slots=True)
class NameMatcher:
    """Names to find, and ordinary words that contain one."""

    known: Collection[str]
    ordinary: Collection[str] = frozenset()

    def build_pattern(self) -> re.Pattern[str] | None:
        """Match longest names first; None without names."""
        forms = {r"[\W_]{0,3}".join(map(re.escape, parts)) for name in self.known if (parts := split_name(name))}
        return re.compile("|".join(sorted(forms, key=lambda one: (-len(one), one)))) if forms else None

    def iter_places(self, folded: FoldedText, pattern: re.Pattern[str]) -> Iterator[tuple[int, int]]:
        """Yield folded spans, standalone or inside a word that is not ordinary."""
        at, words = 0, [letters.span() for letters in _LETTERS_PATTERN.finditer(folded.text)]
        while match := pattern.search(folded.text, at):
            start, end = match.span()
            is_standalone = self._is_standalone(folded, start, end, words)
            at = end if is_standalone else start + 1
            if is_standalone:
                yield start, end

    def _is_standalone(self, folded: FoldedText, start: int, end: int, words: Sequence[tuple[int, int]]) -> bool:
        text = folded.text
        joins_left = start > 0 and text[start - 1].isalpha() and text[start].isalpha()
        right = end < len(text) and text[end].isalpha() and text[end - 1].isalpha()
        if not joins_left and not right:
            return True
        if sum(char.isalnum() for char in text[start:end]) <= MAX_SHORT_NAME_CHARS or text[start:end] in self.ordinary:
            return (not joins_left or _is_case_change(folded.cased, start)) and (not right or _is_case_change(folded.cased, end))
        first = words[bisect_right(words, (start, len(text))) - 1][0] if joins_left else start
        last = words[bisect_right(words, (end, 0)) - 1][1] if right else end
        return text[first:last] not in self.ordinary


def _is_case_change(cased: str, at: int) -> bool:
    """`trainIBM`, `IBMcluster`."""
    return cased[at - 1].isupper() != cased[at].isupper()
