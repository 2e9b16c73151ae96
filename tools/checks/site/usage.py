"""The ways in which a program only reads, written like its own usage, and whether a command is one of them. Pure.

A form is what stands beside the options: `show|list NAME?` is one of two words and perhaps a name. Words in capitals are kinds
(`tools.checks.site.word_kinds`), `?` may be left out, `*` any number, `+` one or more. Options are named whole: `--json`, and `-n=NUM` takes a value.
`-[abc]` are letters that may stand together, as getopt reads them; without it an option is one word, and `-abc` is none of `-a -b -c`. What is
not written down is not said.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from tools.checks.site.word_kinds import KINDS, is_of_kind

_TOKEN_PATTERN = re.compile(r"([A-Za-z0-9_|-]+)([?*+]?)")


@dataclass(frozen=True)
class Usage:
    """One way of use. `before` are options in front of the form's first word, where that is a fixed one; `options` those behind it, and
    all of them where it is not. Of `must` one has to be there: without it the program does something else."""

    forms: tuple[str, ...]
    options: str = ""
    before: str = ""
    must: str = ""

    def is_allowed(self, words: Sequence[str]) -> bool:
        """Whether the words after the program are this way of use."""
        operands = self._extract_operands(list(words))
        return operands is not None and any(_matches_form(form, operands) for form in self._parsed_forms)

    @cached_property
    def _parsed_forms(self) -> tuple[tuple["_FormPart", ...], ...]:
        return tuple(tuple(_parse_form(form)) for form in self.forms)

    @cached_property
    def _required_options(self) -> frozenset[str]:
        needed = _Options.parse(self.must)
        return needed.alone | set(needed.valued)

    @cached_property
    def _known_options(self) -> tuple["_Options", "_Options"]:
        later = _Options.parse(f"{self.must} {self.options}")
        fixed = any(form and form[0].is_fixed for form in self._parsed_forms)
        return (_Options.parse(self.before) if fixed else later), later

    def _extract_operands(self, words: list[str]) -> list[str] | None:
        """The words that are no options; None when an option is not among those that are known."""
        now, later = self._known_options
        seen: set[str] = set()
        operands: list[str] = []
        while words:
            word = words.pop(0)
            if not word.startswith("-"):
                operands.append(word)
                now = later
            elif not now.accept_option(word, words, seen):
                return None
        return operands if not self.must or seen & self._required_options else None


def build_usage(*forms: str, options: str = "", before: str = "", must: str = "") -> Usage:
    """A way of use; no form is one without words."""
    return Usage(forms or ("",), options, before, must)


@dataclass(frozen=True, slots=True)
class _FormPart:
    """One token of a form: words or a kind, and how often."""

    words: frozenset[str]
    kind: str
    least: int
    most: int

    @property
    def is_fixed(self) -> bool:
        return bool(self.words)

    def accepts_word(self, word: str) -> bool:
        return word in self.words if self.words else is_of_kind(self.kind, word)


_REPEAT_BOUNDS = {"": (1, 1), "?": (0, 1), "*": (0, 64), "+": (1, 64)}


def _parse_form(form: str) -> Iterator[_FormPart]:
    for token in form.split():
        found = _TOKEN_PATTERN.fullmatch(token)
        if found is None:
            raise ValueError(f"{token!r} is no part of a form")
        name, times = found.groups()
        yield _FormPart(frozenset() if name in KINDS else frozenset(name.split("|")), name, *_REPEAT_BOUNDS[times])


def _matches_form(form: Sequence[_FormPart], operands: Sequence[str]) -> bool:
    """Whether the operands are the form: every place that could be reached after each part, so it takes no longer than their product."""
    reached = {0}
    for part in form:
        following: set[int] = set()
        for start in reached:
            end = start
            for count in range(part.most + 1):
                if count >= part.least:
                    following.add(end)
                if end == len(operands) or not part.accepts_word(operands[end]):
                    break
                end += 1
        reached = following
    return len(operands) in reached


@dataclass(frozen=True, slots=True)
class _Options:
    """The options of one side: those that stand alone, those with a value, and whether letters may stand together."""

    alone: frozenset[str]
    valued: dict[str, tuple[str, ...]]
    together: bool

    @classmethod
    def parse(cls, text: str) -> "_Options":
        alone, valued, together = set[str](), dict[str, tuple[str, ...]](), False
        for word in text.split():
            letters = re.fullmatch(r"-\[(\w*)\]", word)
            name, _, kind = word.partition("=")
            if letters:
                together = True
                alone |= {f"-{letter}" for letter in letters[1]}
            elif kind:
                valued[name] = (*valued.get(name, ()), kind)
            else:
                alone.add(name)
        return cls(frozenset(alone), valued, together)

    def accept_option(self, word: str, rest: list[str], seen: set[str]) -> bool:
        """Whether an option is known; takes its value from the rest where that is the next word, and adds it to what was seen."""
        name, equals, value = word.partition("=")
        if equals and name in self.valued and (name.startswith("--") or not self.together):
            seen.add(name)
            return _is_one_of(self.valued[name], value)
        if word in self.valued and rest and _is_one_of(self.valued[word], rest[0]):
            rest.pop(0)
        elif word not in self.alone:
            return self.together and not word.startswith("--") and self._accept_letters(word[1:], rest, seen)
        seen.add(word)
        return True

    def _accept_letters(self, letters: str, rest: list[str], seen: set[str]) -> bool:
        """`-eo pid` as getopt reads it: letters that stand alone, then perhaps one with its value."""
        for place, letter in enumerate(letters):
            kind, behind = self.valued.get(f"-{letter}"), letters[place + 1 :]
            seen.add(f"-{letter}")
            if kind is not None and (behind or rest):
                return _is_one_of(kind, behind or rest.pop(0))
            if f"-{letter}" not in self.alone:
                return False
        return bool(letters)


def _is_one_of(kinds: Sequence[str], word: str) -> bool:
    return any(is_of_kind(kind, word) for kind in kinds)
