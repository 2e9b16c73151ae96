"""The single choke point for secrets: what is stored, shown, logged or sent to a model passes `redact`.

Removes what grants access (tokens, keys, passwords); keeps identifiers (PCI addresses, UUIDs, digests, hosts, IPs).
Every pattern is bounded: cost is linear in the text. Redacting twice changes nothing.
"""

import json
import re
import unicodedata
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from kb.needle_search import Needles
from kb.secrets.disguise import (
    MAX_ESCAPE_LEVELS,
    has_escapes,
    may_hide,
    redact_disguised,
    redact_escaped,
    select_hiding_test,
    unescape_once,
)
from kb.secrets.line_secrets import (
    ASSIGNED_PATTERN,
    MAX_NAME_CHARS,
    MAX_PREFIX_CHARS,
    MAYBE_ASSIGNED_PATTERN,
    PASSWORD_NAME_PATTERN,
    SECRET_RULES,
    SIGN_FOLLOWS_PATTERN,
    SecretRule,
)
from kb.secrets.spread import MAX_REACH_LINES, REDACTED, may_be_key_body, may_spread, redact_key_bodies, redact_private_keys, redact_spread
from kb.secrets.tokens import INNER_NEEDLES, TOKEN_FORMS

_PEM_PATTERN = re.compile(
    r"-----BEGIN (?P<what>[A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?)-----"
    r"(?:(?:\s|\\{1,8}[nr]|\")+(?:(?:Proc-Type|DEK-Info|Comment|Version)[^\n]{0,120}|[A-Za-z0-9+/=]{24,}(?![^\s\\\"])))*"
    r"(?:(?:\s|\\{1,8}[nr]|\")+[A-Za-z0-9+/=]{1,80}(?=(?:\s|\\{1,8}[nr])*-----END))?(?:(?:\s|\\{1,8}[nr])*-----END [A-Z0-9 ]{0,60}-----)?"
)
_BYTES_PATTERN = re.compile(r'("MESSAGE"\s{0,2}:\s{0,2})\[([\d, ]{1,262144})\]')
_PLAIN_PATTERN = re.compile(
    r"\[redacted\]|\*{2,}|x{4,}|<[^>]{0,40}>|\$[({]?[A-Za-z_]|%[A-Za-z_]+%|none$|null$|true$|false$|yes$|no$|[\d.]{1,12}$|\W*$",
    re.IGNORECASE,
)


# names the place of a secret, not the secret
_FILE_NAME_PATTERN = re.compile(r"""[_-]?(?:file|path)\\{0,6}["'`*]{0,3}[ \t]{0,8}(?:=|:)[ \t]{0,8}$""", re.IGNORECASE)
MIN_PIN_DIGITS = 4  # of an all-digit password; fewer are a count


def _redact_value(found: re.Match[str]) -> str:
    """Keep quotes, and obvious non-secrets: numbers, flags, placeholders."""
    head, value = found["head"], found["value"]
    opening = re.match(r"""\\*["']?""", value)
    quote = opening[0] if opening else ""
    inner = value[len(quote) :]
    closing = quote if quote and inner.endswith(quote) else ""
    inner = inner[: len(inner) - len(closing)] if closing else inner
    if inner.startswith(("/", "~/", "./")) and _FILE_NAME_PATTERN.search(head):
        return found[0]
    if not inner or (
        _PLAIN_PATTERN.match(inner) and not (inner.isdigit() and len(inner) >= MIN_PIN_DIGITS and PASSWORD_NAME_PATTERN.search(head))
    ):
        return found[0]
    return f"{head}{quote}{REDACTED}{closing}"


_ALL_RULES: tuple[SecretRule, ...] = (*SECRET_RULES, *(SecretRule(needles, form) for needles, form in TOKEN_FORMS))
# Lower-cases and merges digits, so lines that differ only in numbers share one needle search.
_MASK_TABLE = bytes(ord("0") if chr(code).isdigit() else ord(chr(code).lower()) for code in range(128)).ljust(256, b"?")


_LOWER_TABLE = {upper: upper + 32 for upper in range(ord("A"), ord("Z") + 1)}


def _lower_ascii(text: str) -> str:
    """Same length. Needles are ASCII, and one byte per character is searched fastest."""
    lower = text.lower()
    lower = lower if len(lower) == len(text) else text.translate(_LOWER_TABLE)
    return lower if lower.isascii() else lower.encode("ascii", "replace").decode("ascii")


def _mask_text(text: str) -> str:
    return (text if text.isascii() else _lower_ascii(text)).encode().translate(_MASK_TABLE).decode()


def _map_needles_to_rules(rules: range) -> dict[str, list[int]]:
    """The shorter needle covers a longer one that contains it."""
    masked_needles = {number: [_mask_text(needle) for needle in _ALL_RULES[number].needles] for number in rules}
    masked = dict.fromkeys(needle for needles in masked_needles.values() for needle in needles)
    short = [needle for needle in masked if not any(other in needle for other in masked if other != needle)]
    return {one: [number for number, needles in masked_needles.items() if any(one in needle for needle in needles)] for one in short}


_RULES_BY_NEEDLE = _map_needles_to_rules(range(len(SECRET_RULES)))
_NEEDLES = Needles(_RULES_BY_NEEDLE)
_MASKED_NEEDLES = tuple(tuple(map(_mask_text, rule.needles)) for rule in _ALL_RULES)
_RULES_WITH_DIGITS = frozenset(number for number, rule in enumerate(_ALL_RULES) if any(map(str.isdigit, "".join(rule.needles))))
_RULES_WITH_VALUE = frozenset(number for number, rule in enumerate(_ALL_RULES) if "value" in rule.pattern.groupindex)
# non-alphanumeric characters separate words
_WORD_TABLE = bytes(code if chr(code).isalnum() and code < 128 else ord(" ") for code in range(256))


def _map_beginnings_to_forms(rules: range) -> dict[str, list[tuple[str, int]]]:
    """First three characters → needles and rules; "" for those found anywhere."""
    forms_by_beginning: dict[str, list[tuple[str, int]]] = {}
    for number in rules:
        for needle in _ALL_RULES[number].needles:
            masked = _mask_text(needle)
            forms_by_beginning.setdefault(
                "" if needle in INNER_NEEDLES else masked.encode().translate(_WORD_TABLE).decode().split(" ")[0][:3], []
            ).append((masked, number))
    return forms_by_beginning


KEY_BODY_RULE = -1  # pseudo rule number: the line looks like part of a key
_FORMS_BY_BEGINNING = _map_beginnings_to_forms(range(len(SECRET_RULES), len(_ALL_RULES)))
# Minimum run of every recognisable token. Lines without such a run, which are most, skip the token search.
MIN_TOKEN_CHARS = 20
_TOKEN_TABLE = bytes(
    ord("a") if chr(code).isalnum() or chr(code) in "_-." else code if chr(code) == "\n" else ord(" ") for code in range(128)
).ljust(256)
BLOCK_CHARS = 4 << 20  # searched at a time, up to the next line end
_MAX_ROUNDS = 6


def redact(text: str) -> str:
    """Return the text without its secrets."""
    for _ in range(_MAX_ROUNDS):
        before, plain = text, _redact_over_lines(text)
        text = "".join(_redact_until_stable(plain[start:end]) for start, end in _iter_blocks(plain))
        if text == before or _redact_over_lines(text) == text:
            break
    return text


class RedactedText(str):
    """Text that passed `redact`; its parts need no second search."""

    __slots__ = ()


def redact_once(text: str) -> RedactedText:
    """Redact, unless it is RedactedText already."""
    return text if isinstance(text, RedactedText) else RedactedText(redact(text))


LOOKAHEAD_CHARS = 4096  # read beyond what is kept; longer than any secret that the limit could cut


def redact_start(text: str, most: int) -> RedactedText:
    """Return at most `most` redacted characters.

    Redacts before cutting, because no rule recognises half a secret; for that reason the last word of an incomplete
    read is dropped.
    """
    read = text[: 4 * most + LOOKAHEAD_CHARS]
    clean = redact_once(read)
    if len(read) < len(text):
        clean = RedactedText(clean[: max(len(clean) - LOOKAHEAD_CHARS, _find_last_blank(clean))])
    return clean if len(clean) <= most else RedactedText(clean[:most])


def _find_last_blank(text: str) -> int:
    return max(text.rfind(" "), text.rfind("\n"), text.rfind("\t"), 0)


def redact_to_line(text: str, most: int) -> RedactedText:
    """Do as `redact_start`, on one line; redact the joined lines again."""
    start = redact_start(text, 4 * most)
    line = " ".join(start.split())
    return RedactedText((redact_once(line) if "\n" in start.strip() else line)[:most])


def redact_data(value: Any, but: Collection[str] = ()) -> Any:
    """Redact every text in plain data, except under names in `but`: ids that are compared."""
    if isinstance(value, str):
        return redact_once(value)
    if isinstance(value, Mapping):
        return {name: part if name in but else redact_data(part, but) for name, part in value.items()}
    return [redact_data(part, but) for part in value] if isinstance(value, list | tuple) else value


def redact_stored_data(value: Any) -> Any:
    """Return the same object if one search of all texts finds no secret."""
    joined_text = "\n\n\n".join(dict.fromkeys(_iter_texts(value)))
    return value if not joined_text or redact(joined_text) == joined_text else _redact_texts(value)


def _iter_texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        if not isinstance(value, RedactedText):
            yield value
    elif isinstance(value, Mapping):
        yield from (text for part in value.values() for text in _iter_texts(part))
    elif isinstance(value, list | tuple):
        yield from (text for part in value for text in _iter_texts(part))


def _redact_texts(value: Any) -> Any:
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, dict):
        return {name: _redact_texts(part) for name, part in value.items()}
    if type(value) in (list, tuple):
        return type(value)(_redact_texts(part) for part in value)
    return value


def _redact_over_lines(text: str) -> str:
    """Multi-line keys, and byte arrays."""
    if "PRIVATE KEY" in text or "Private-Lines: " in text:
        text = _PEM_PATTERN.sub(lambda found: f"[redacted {found['what'].lower()}]", _redact_private_keys(text))
    return _BYTES_PATTERN.sub(_redact_byte_array, text) if '"MESSAGE"' in text else text


def _redact_private_keys(text: str) -> str:
    lines = text.split("\n")
    redact_private_keys(lines)
    return "\n".join(lines)


def _iter_blocks(text: str) -> Iterator[tuple[int, int]]:
    """Whole lines: a large log is not split at once."""
    start = 0
    while start < len(text):
        end = text.find("\n", start + BLOCK_CHARS) + 1 or len(text)
        yield start, end
        start = end


def _redact_until_stable(text: str) -> str:
    """Repeat around changed lines: a removal may bring another secret within a pattern's bounds."""
    clean = _redact_block(text)
    if clean == text:
        return text
    lines = clean.split("\n")
    changed = _list_changed_lines(text.split("\n"), lines)
    for _ in range(_MAX_ROUNDS - 1):
        before = lines.copy()
        _redact_lines(
            lines,
            sorted(
                {
                    neighbour
                    for at in changed
                    for neighbour in range(max(0, at - MAX_REACH_LINES), min(len(lines), at + MAX_REACH_LINES + 1))
                }
            ),
        )
        if not (changed := _list_changed_lines(before, lines)):
            break
    return "\n".join(lines)


def _list_changed_lines(before: Sequence[str], after: Sequence[str]) -> list[int]:
    return [at for at, (one, other) in enumerate(zip(before, after, strict=True)) if one != other]


def _redact_block(text: str) -> str:
    """Plain secrets before escaped ones: a quote's end must be known before it is unescaped."""
    text = _redact_disguised(text)
    return _redact_escaped(text) if has_escapes(text) else text


def _redact_escaped(text: str) -> str:
    """Few lines hold secrets, so all are checked together first."""
    lines = text.split("\n")
    some = [at for at, line in enumerate(lines) if has_escapes(line)]
    unescaped = "\n".join(lines[at] for at in some)
    for _ in range(MAX_ESCAPE_LEVELS):
        unescaped = unescape_once(unescaped)
        if _redact_inner_text(unescaped) != unescaped:
            break
        if not has_escapes(unescaped):
            return text
    else:
        return text
    for at in some:
        lines[at] = redact_escaped(lines[at], _redact_inner_text)
    return "\n".join(lines)


def _redact_inner_text(text: str) -> str:
    return _redact_disguised(_redact_over_lines(text))


def _redact_disguised(text: str) -> str:
    if hides := select_hiding_test(text):
        text = "\n".join(redact_disguised(line, _redact_plain) if hides(line) else line for line in text.split("\n"))
    return _redact_plain(text)


def _redact_lines(lines: list[str], some: Sequence[int]) -> None:
    for at in some:
        if may_hide(lines[at]):
            lines[at] = redact_disguised(lines[at], _redact_plain)
    masked = _mask_text("\n".join(lines[at] for at in some)).split("\n")
    plans = _build_plans(masked)
    for at, line in zip(some, masked, strict=True):
        if plan := plans.get(line):
            _apply_plan(plan, lines, at, line)
    if keys_of := [at for at, line in zip(some, masked, strict=True) if (plan := plans.get(line)) and plan.body]:
        redact_key_bodies(lines, keys_of)
    for at in filter(lambda at: has_escapes(lines[at]), some):
        lines[at] = redact_escaped(lines[at], _redact_inner_text)


def _redact_plain(text: str) -> str:
    """One plan per masked line: machines repeat lines that differ only in numbers."""
    masked = _mask_text(text).split("\n")
    plans = _build_plans(masked)
    if not plans:
        return text
    lines = text.split("\n")
    keys_of = []
    for at, plan in enumerate(map(plans.get, masked)):
        if plan:
            _apply_plan(plan, lines, at, masked[at])
            if plan.body:
                keys_of.append(at)
    if keys_of:
        redact_key_bodies(lines, keys_of)
    return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class _LinePlan:
    """Rules for a line. `spreads`: it may affect other lines. `body`: it looks like part of a key.

    `exact` rules have digits in their needles, so the raw line decides; `sure`: another rule's needle is present.
    """

    rules: tuple[int, ...]
    exact: tuple[int, ...]
    sure: bool
    spreads: bool
    body: bool = False


def _apply_plan(plan: _LinePlan, lines: list[str], at: int, masked: str) -> None:
    exact: set[int] = set()
    if plan.exact:
        lowered = _lower_ascii(lines[at])
        exact = {number for number in plan.exact if _holds_needle(lowered, _ALL_RULES[number].needles)}
    for number in plan.rules:
        if number in exact or number not in _RULES_WITH_DIGITS:
            pattern = _ALL_RULES[number].pattern
            lines[at] = pattern.sub(_redact_value if number in _RULES_WITH_VALUE else REDACTED, lines[at])
    if plan.spreads and (plan.sure or exact):
        redact_spread(lines, at, masked)


def _build_plans(masked: Iterable[str]) -> dict[str, _LinePlan]:
    plans = {}
    for line, numbers in _find_suspect_lines("\n".join(dict.fromkeys(masked))).items():
        plan = _build_plan(line, numbers)
        if plan.rules or plan.spreads or plan.body:
            plans[line] = plan
    return plans


def _build_plan(masked: str, numbers: Iterable[int]) -> _LinePlan:
    ordinary_rules = [number for number in sorted(numbers) if number != KEY_BODY_RULE]
    exact = tuple(number for number in ordinary_rules if number in _RULES_WITH_DIGITS)
    rules = tuple(number for number in ordinary_rules if _may_apply(masked, _ALL_RULES[number]))
    return _LinePlan(rules, exact, len(exact) < len(ordinary_rules), bool(ordinary_rules) and may_spread(masked), KEY_BODY_RULE in numbers)


def _may_apply(masked: str, rule: SecretRule) -> bool:
    return (not rule.also or _holds_needle(masked, rule.also)) and (
        rule.pattern is not ASSIGNED_PATTERN or _may_assign(masked, rule.needles)
    )


@lru_cache(4096)
def _list_rules_for(needles: frozenset[str]) -> tuple[Sequence[int], Sequence[int]]:
    """Return sure rules, and those with a longer needle still to be checked."""
    sure = {number for needle in needles for number in _RULES_BY_NEEDLE[needle] if needle in _MASKED_NEEDLES[number]}
    return tuple(sure), tuple({number for needle in needles for number in _RULES_BY_NEEDLE[needle]} - sure)


def _find_suspect_lines(masked: str) -> dict[str, set[int]]:
    """Masked lines with candidate rules."""
    lines_by_rule: dict[str, set[int]] = {}
    for (start, end), needles in _NEEDLES.find_in_text(masked).items():
        sure, maybe = _list_rules_for(frozenset(needles))
        line = masked[start:end]
        lines_by_rule[line] = {*sure, *(number for number in maybe if _holds_needle(line, _MASKED_NEEDLES[number]))}
    long = _select_lines_with_long_words(masked)
    for needle, rule in _iter_forms_in(long) if long else ():
        for line in _iter_lines_with(long, needle):
            lines_by_rule.setdefault(line, set()).add(rule)
    for line in filter(may_be_key_body, long.split("\n") if long else ()):
        lines_by_rule.setdefault(line, set()).add(KEY_BODY_RULE)
    return lines_by_rule


def _iter_forms_in(long: str) -> Iterator[tuple[str, int]]:
    """Search only needles that match a word's beginning."""
    begin = {word[:3].decode() for word in set(long.encode().translate(_WORD_TABLE).split())}
    for head in (*(_FORMS_BY_BEGINNING.keys() & begin), ""):
        yield from (row for row in _FORMS_BY_BEGINNING[head] if row[0] in long)


def _iter_lines_with(text: str, needle: str) -> Iterator[str]:
    at = text.find(needle)
    while at >= 0:
        end = text.find("\n", at)
        end = len(text) if end < 0 else end
        yield text[text.rfind("\n", 0, at) + 1 : end]
        at = text.find(needle, end)


def _select_lines_with_long_words(masked: str) -> str:
    """Lines with a word long enough for a token."""
    words, run = masked.encode().translate(_TOKEN_TABLE), b"a" * MIN_TOKEN_CHARS
    lines, at = [], words.find(run)
    while at >= 0:
        end = words.find(b"\n", at)
        end = len(words) if end < 0 else end
        lines.append(masked[words.rfind(b"\n", 0, at) + 1 : end])
        at = words.find(run, end)
    return "\n".join(lines)


def _holds_needle(line: str, needles: tuple[str, ...]) -> bool:
    for needle in needles:  # noqa: SIM110  it is run for every line that says `token`, and a generator takes three times as long
        if needle in line:
            return True
    return False


def _may_assign(masked: str, needles: tuple[str, ...]) -> bool:
    """Check only around needles followed by a sign."""
    sign = max(masked.rfind("="), masked.rfind(":")) + 1
    for needle in needles:
        at = masked.find(needle, 0, sign)
        while at >= 0:
            if SIGN_FOLLOWS_PATTERN.match(masked, at) and MAYBE_ASSIGNED_PATTERN.search(
                masked, max(0, at - MAX_PREFIX_CHARS), at + MAX_PREFIX_CHARS + MAX_NAME_CHARS
            ):
                return True
            at = masked.find(needle, at + 1, sign)
    return False


def _redact_byte_array(found: re.Match[str]) -> str:
    """journald encodes an unclean message as bytes, which could hide a secret."""
    numbers = [int(number) for number in found[2].split(",") if number.strip().isdigit()]
    decoded = bytes(number for number in numbers if number < 256).decode("utf-8", "replace")
    clean = redact(decoded)
    return found[0] if clean == decoded else found[1] + json.dumps(clean)


_INVISIBLE_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
# look like a space
BLANK_CHARS = frozenset("\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000")
_INVISIBLE_CHARS = BLANK_CHARS | frozenset("\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u2800\u3164\uffa0")
_VARIATION_RANGES = ((0xFE00, 0xFE0F), (0xE0100, 0xE01EF))  # variation selectors, which can smuggle whole texts
_ODD_PATTERN = re.compile(r"[^\x20-\x7e\n\t]")


def show_invisible(text: str) -> str:
    """Show control, bidi, zero-width and blank characters as `‹U+202E›`. New lines and tabs stay."""
    return _ODD_PATTERN.sub(_spell_char, text)


def _spell_char(found: re.Match[str]) -> str:
    char = found[0]
    code = ord(char)
    varies = any(first <= code <= last for first, last in _VARIATION_RANGES)
    return f"‹U+{code:04X}›" if varies or char in _INVISIBLE_CHARS or unicodedata.category(char) in _INVISIBLE_CATEGORIES else char
