"""Read-only usages of programs in a usage notation.

A form lists the words besides options: `show|list NAME?` is one of two words and an optional name. Capitals are kinds
(`tools.checks.site.word_kinds`); `?` is optional, `*` any number, `+` one or more. Options are whole words: `--json`;
`-n=NUM` takes a value. `-[abc]` are letters that may be combined as in getopt; without it `-abc` is one option.
Anything not listed is refused.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from tools.checks.site.word_kinds import KINDS, is_of_kind

_TOKEN_PATTERN = re.compile(r"([A-Za-z0-9_|-]+)([?*+]?)")


@dataclass(frozen=True)
class Usage:
    """`before`: options before the form's first word if that is fixed; `options`: those after it, else all options.

    One option of `must` is required, because without it the program does something else.
    """

    forms: tuple[str, ...]
    options: str = ""
    before: str = ""
    must: str = ""

    def is_allowed(self, words: Sequence[str]) -> bool:
        """Return whether the words after the program fit."""
        operands = self._extract_operands(list(words))
        return operands is not None and any(_matches_form(form, operands) for form in self._parsed_forms)

    @cached_property
    def _parsed_forms(self) -> tuple[tuple["_FormPart", ...], ...]:
        return tuple(tuple(_parse_form(form)) for form in self.forms)

    @cached_property
    def _required_options(self) -> frozenset[str]:
        needed = _Options.parse(self.must)
        return needed.flags | set(needed.value_kinds)

    @cached_property
    def _known_options(self) -> tuple["_Options", "_Options"]:
        later = _Options.parse(f"{self.must} {self.options}")
        fixed = any(form and form[0].is_fixed for form in self._parsed_forms)
        return (_Options.parse(self.before) if fixed else later), later

    def _extract_operands(self, words: list[str]) -> list[str] | None:
        """Return the non-options; None if an option is unknown or a required one is missing."""
        current_options, later_options = self._known_options
        used_options: set[str] = set()
        operands: list[str] = []
        while words:
            word = words.pop(0)
            if not word.startswith("-"):
                operands.append(word)
                current_options = later_options
            elif not current_options.accept_option(word, words, used_options):
                return None
        return operands if not self.must or used_options & self._required_options else None


def build_usage(*forms: str, options: str = "", before: str = "", must: str = "") -> Usage:
    """Return a usage, which takes no words without forms."""
    return Usage(forms or ("",), options, before, must)


@dataclass(frozen=True, slots=True)
class _FormPart:
    """One part of a form: fixed words or a kind, and how often it may occur."""

    words: frozenset[str]
    kind: str
    min_count: int
    max_count: int

    @property
    def is_fixed(self) -> bool:
        return bool(self.words)

    def accepts_word(self, word: str) -> bool:
        return word in self.words if self.words else is_of_kind(self.kind, word)


_REPEAT_BOUNDS = {"": (1, 1), "?": (0, 1), "*": (0, 64), "+": (1, 64)}


def _parse_form(form: str) -> Iterator[_FormPart]:
    for token in form.split():
        match = _TOKEN_PATTERN.fullmatch(token)
        if match is None:
            raise ValueError(f"{token!r} is not a part of a form")
        name, times = match.groups()
        yield _FormPart(frozenset() if name in KINDS else frozenset(name.split("|")), name, *_REPEAT_BOUNDS[times])


def _matches_form(form: Sequence[_FormPart], operands: Sequence[str]) -> bool:
    """Track the positions reachable after each part: no backtracking, so the time stays polynomial."""
    reached = {0}
    for part in form:
        following: set[int] = set()
        for start in reached:
            end = start
            for count in range(part.max_count + 1):
                if count >= part.min_count:
                    following.add(end)
                if end == len(operands) or not part.accepts_word(operands[end]):
                    break
                end += 1
        reached = following
    return len(operands) in reached


@dataclass(frozen=True, slots=True)
class _Options:
    """Known options: flags without a value, and the kinds of the value of each other option.

    `combines_letters` says that one-letter options may be combined, as in `-eo pid`.
    """

    flags: frozenset[str]
    value_kinds: dict[str, tuple[str, ...]]
    combines_letters: bool

    @classmethod
    def parse(cls, text: str) -> "_Options":
        flags, value_kinds, combines_letters = set[str](), dict[str, tuple[str, ...]](), False
        for word in text.split():
            letters = re.fullmatch(r"-\[(\w*)\]", word)
            name, _, kind = word.partition("=")
            if letters:
                combines_letters = True
                flags |= {f"-{letter}" for letter in letters[1]}
            elif kind:
                value_kinds[name] = (*value_kinds.get(name, ()), kind)
            else:
                flags.add(name)
        return cls(frozenset(flags), value_kinds, combines_letters)

    def accept_option(self, word: str, rest: list[str], used_options: set[str]) -> bool:
        """Return whether the option is known; take its value from `rest` if needed and add it to `used_options`."""
        name, equals, value = word.partition("=")
        if equals and name in self.value_kinds and (name.startswith("--") or not self.combines_letters):
            used_options.add(name)
            return _is_one_of(self.value_kinds[name], value)
        if word in self.value_kinds and rest and _is_one_of(self.value_kinds[word], rest[0]):
            rest.pop(0)
        elif word not in self.flags:
            return self.combines_letters and not word.startswith("--") and self._accept_letters(word[1:], rest, used_options)
        used_options.add(word)
        return True

    def _accept_letters(self, letters: str, rest: list[str], used_options: set[str]) -> bool:
        """Accept `-eo pid` as getopt does: letters without value, then at most one letter with its value."""
        for position, letter in enumerate(letters):
            kinds, attached_value = self.value_kinds.get(f"-{letter}"), letters[position + 1 :]
            used_options.add(f"-{letter}")
            if kinds is not None and (attached_value or rest):
                return _is_one_of(kinds, attached_value or rest.pop(0))
            if f"-{letter}" not in self.flags:
                return False
        return bool(letters)


def _is_one_of(kinds: Sequence[str], word: str) -> bool:
    return any(is_of_kind(kind, word) for kind in kinds)
