"""A name as people write it: other letters that look alike, accents, what is not visible, and other signs between its parts. Pure."""

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

LONGEST_SHORT = 3
"""A name of no more letters, or that is itself a word of everybody's, is found within another word only where case or a digit sets it off:
`IBMcluster`, never `sap` in `sapphire`."""
_UNSEEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp", "Mn", "Me"})
_LOOKS = str.maketrans("аеорсухіјѕԁһкмтвнгαεορτυνικχß", "aeopcyxijsdhkmtbhraeoptuvikxs")
_SHOWN_LINES = "\n\t"
_LETTERS = re.compile(r"[^\W\d_]+")


@dataclass(frozen=True, slots=True)
class FoldedText:
    """A text as it is compared, and where each of its characters stands in the text as written. `cased` is the same before its case is folded."""

    text: str
    cased: str
    at: Sequence[int]

    def place(self, start: int, end: int) -> tuple[int, int]:
        """Where in the text as written a part of the folded one stands."""
        return self.at[start], self.at[end - 1] + 1 if end > start else self.at[start]


def _folded(char: str) -> str:
    if char in _SHOWN_LINES or (char.isascii() and char.isprintable()):
        return char
    found = []
    for part in unicodedata.normalize("NFKD", char):
        kind = unicodedata.category(part)
        if kind == "Pd" or part == "\u2212":
            found.append("-")
        elif kind == "Zs":
            found.append(" ")
        elif kind not in _UNSEEN:
            found.append(part)
    return "".join(found)


def fold(text: str) -> FoldedText:
    """As a reader sees it: look-alikes as the letters that they look like, every dash as the one on keyboards, nothing that is not visible."""
    if text.isascii() and text.isprintable():
        return FoldedText(text.lower(), text, range(len(text)))
    cased, at = [], []
    for place, char in enumerate(text):
        for part in _folded(char):
            cased.append(part)
            at.append(place)
    whole = "".join(cased)
    return FoldedText("".join(char.lower() if len(char.lower()) == 1 else char for char in whole).translate(_LOOKS), whole, at)


def parts_of(name: str) -> tuple[str, ...]:
    """The parts of a name, as they are compared: `Acme Corp.` and `acme-corp` have the same."""
    return tuple(filter(None, re.split(r"[\W_]+", fold(name).text)))


@dataclass(frozen=True, slots=True)
class Names:
    """Names to look for, and the words that are everybody's although they hold one."""

    known: Collection[str]
    ordinary: Collection[str] = frozenset()

    def pattern(self) -> re.Pattern[str] | None:
        """All of them, the longest first; None for none."""
        forms = {r"[\W_]{0,3}".join(map(re.escape, parts)) for name in self.known if (parts := parts_of(name))}
        return re.compile("|".join(sorted(forms, key=lambda one: (-len(one), one)))) if forms else None

    def places(self, said: FoldedText, pattern: re.Pattern[str]) -> Iterator[tuple[int, int]]:
        """Start and end, in the folded text, of each name that stands for itself or within a word that is nobody's."""
        at, words = 0, [found.span() for found in _LETTERS.finditer(said.text)]
        while found := pattern.search(said.text, at):
            start, end = found.span()
            stands = self._stands(said, start, end, words)
            at = end if stands else start + 1
            if stands:
                yield start, end

    def _stands(self, said: FoldedText, start: int, end: int, words: Sequence[tuple[int, int]]) -> bool:
        text = said.text
        left = start > 0 and text[start - 1].isalpha() and text[start].isalpha()
        right = end < len(text) and text[end].isalpha() and text[end - 1].isalpha()
        if not left and not right:
            return True
        if sum(char.isalnum() for char in text[start:end]) <= LONGEST_SHORT or text[start:end] in self.ordinary:
            return (not left or _set_off(said.cased, start)) and (not right or _set_off(said.cased, end))
        first = words[bisect_right(words, (start, len(text))) - 1][0] if left else start
        last = words[bisect_right(words, (end, 0)) - 1][1] if right else end
        return text[first:last] not in self.ordinary


def _set_off(cased: str, at: int) -> bool:
    """Whether the case changes there: `trainIBM`, `IBMcluster`."""
    return cased[at - 1].isupper() != cased[at].isupper()
