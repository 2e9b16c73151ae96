"""The one choke point for secrets: everything that is stored, shown, sent to a model or logged has passed `redact`.

It takes out what opens a door (tokens, keys, passwords) and keeps what names a thing (PCI addresses, UUIDs, GUIDs, digests, hosts, IPs).
Every pattern is bounded, so the cost is linear in the text; redacting twice changes nothing.
"""

import json
import re
import unicodedata
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from kb.scan import Needles
from kb.secrets.bodies import bodies, like_a_body
from kb.secrets.disguise import hiding, may_hide, unmasked
from kb.secrets.escapes import LEVELS, escaped, meant, unescaped
from kb.secrets.spread import GONE, REACH, keys, may_spread, spread
from kb.secrets.tokens import FORMS, WITHIN
from kb.secrets.within import ASSIGNED, EXACTLY_PASSWORD, LONGEST_NAME, LONGEST_PREFIX, MAYBE_ASSIGNED, RULES, SIGN_FOLLOWS, Rule

_PEM = re.compile(
    r"-----BEGIN (?P<what>[A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?)-----"
    r"(?:(?:\s|\\{1,8}[nr]|\")+(?:(?:Proc-Type|DEK-Info|Comment|Version)[^\n]{0,120}|[A-Za-z0-9+/=]{24,}(?![^\s\\\"])))*"
    r"(?:(?:\s|\\{1,8}[nr]|\")+[A-Za-z0-9+/=]{1,80}(?=(?:\s|\\{1,8}[nr])*-----END))?(?:(?:\s|\\{1,8}[nr])*-----END [A-Z0-9 ]{0,60}-----)?"
)
_BYTES = re.compile(r'("MESSAGE"\s{0,2}:\s{0,2})\[([\d, ]{1,262144})\]')
_PLAIN = re.compile(
    r"\[redacted\]|\*{2,}|x{4,}|<[^>]{0,40}>|\$[({]?[A-Za-z_]|%[A-Za-z_]+%|none$|null$|true$|false$|yes$|no$|[\d.]{1,12}$|\W*$",
    re.IGNORECASE,
)


_OF_A_FILE = re.compile(r"""[_-]?(?:file|path)\\{0,6}["'`*]{0,3}[ \t]{0,8}(?:=|:)[ \t]{0,8}$""", re.IGNORECASE)
"""A name that says where the secret lies, which is none."""
SHORTEST_PIN = 4
"""Digits of a password that has nothing else; fewer are a count."""


def _keep_head(found: re.Match[str]) -> str:
    """The value gone, its quotes kept; a value that is plainly no secret (a number, a flag, a placeholder) stays."""
    head, value = found["head"], found["value"]
    opening = re.match(r"""\\*["']?""", value)
    quote = opening[0] if opening else ""
    inner = value[len(quote) :]
    closing = quote if quote and inner.endswith(quote) else ""
    inner = inner[: len(inner) - len(closing)] if closing else inner
    if inner.startswith(("/", "~/", "./")) and _OF_A_FILE.search(head):
        return found[0]
    if not inner or (_PLAIN.match(inner) and not (inner.isdigit() and len(inner) >= SHORTEST_PIN and EXACTLY_PASSWORD.search(head))):
        return found[0]
    return f"{head}{quote}{GONE}{closing}"


_RULES: tuple[Rule, ...] = (*RULES, *(Rule(needles, form) for needles, form in FORMS))
_MASK = bytes(ord("0") if chr(code).isdigit() else ord(chr(code).lower()) for code in range(128)).ljust(256, b"?")
"""In lower case, and every digit alike: lines that differ in their numbers alone (times, counters, addresses) are one to whoever looks for a
needle."""


_LOWER = {upper: upper + 32 for upper in range(ord("A"), ord("Z") + 1)}


def _lowered(text: str) -> str:
    """In lower case and in ASCII, every character at the place that it had: needles are ASCII, and one byte a character is searched fastest."""
    lower = text.lower()
    lower = lower if len(lower) == len(text) else text.translate(_LOWER)
    return lower if lower.isascii() else lower.encode("ascii", "replace").decode("ascii")


def _masked(text: str) -> str:
    return (text if text.isascii() else _lowered(text)).encode().translate(_MASK).decode()


def _rules_of(rules: range) -> dict[str, list[int]]:
    """Needle, its digits masked → the rules that may apply to a line with it. A line that holds `--token` holds `token`: the shorter needle
    finds it as well."""
    every = {number: [_masked(needle) for needle in _RULES[number].needles] for number in rules}
    masked = dict.fromkeys(needle for needles in every.values() for needle in needles)
    short = [needle for needle in masked if not any(other in needle for other in masked if other != needle)]
    return {one: [number for number, needles in every.items() if any(one in needle for needle in needles)] for one in short}


_BESIDE = _rules_of(range(len(RULES)))
_SEARCH = Needles(_BESIDE)
_MASKED = tuple(tuple(map(_masked, rule.needles)) for rule in _RULES)
_EXACT = frozenset(number for number, rule in enumerate(_RULES) if any(map(str.isdigit, "".join(rule.needles))))
_WITH_HEAD = frozenset(number for number, rule in enumerate(_RULES) if "value" in rule.pattern.groupindex)
_APART = bytes(code if chr(code).isalnum() and code < 128 else ord(" ") for code in range(256))
"""What is no letter and no digit parts words."""


def _forms_of(rules: range) -> dict[str, list[tuple[str, int]]]:
    """How a word begins, three characters at most → the needles that begin so, and their rules; "" → those that may stand anywhere."""
    found: dict[str, list[tuple[str, int]]] = {}
    for number in rules:
        for needle in _RULES[number].needles:
            masked = _masked(needle)
            found.setdefault("" if needle in WITHIN else masked.encode().translate(_APART).decode().split(" ")[0][:3], []).append(
                (masked, number)
            )
    return found


BODY = -1
"""In place of a rule's number: the line looks like one of a key's, whatever it holds."""
_BY_FORM = _forms_of(range(len(RULES), len(_RULES)))
SHORTEST = 20
"""Characters without a blank or a slash in every token that tells itself by its form: most lines have no such word, and are not searched for any."""
_WORDS = bytes(
    ord("a") if chr(code).isalnum() or chr(code) in "_-." else code if chr(code) == "\n" else ord(" ") for code in range(128)
).ljust(256)
BLOCK = 4 << 20
"""Characters that are searched at a time, up to the next end of a line."""
_ROUNDS = 6


def redact(text: str) -> str:
    """The text without its secrets."""
    for _ in range(_ROUNDS):
        before, plain = text, _over_lines(text)
        text = "".join(_settled(plain[start:end]) for start, end in _blocks(plain))
        if text == before or _over_lines(text) == text:
            break
    return text


class Clean(str):
    """Text that has passed `redact`: what is made of it holds no secret either, and it need not be searched again. `cleaned` alone makes it."""

    __slots__ = ()


def cleaned(text: str) -> Clean:
    """The text without its secrets, searched once however many doors it passes."""
    return text if isinstance(text, Clean) else Clean(redact(text))


BEYOND = 4096
"""Characters that are read beyond what is kept: more than any secret that a bound could cut in two."""


def cleaned_start(text: str, most: int) -> Clean:
    """As much of the text without its secrets as `most` characters. It is cleaned before it is cut: half a secret is known to no rule. Of a text
    that is too long to be read whole, the last word that was read goes, for it may be half of one."""
    read = text[: 4 * most + BEYOND]
    clean = cleaned(read)
    if len(read) < len(text):
        clean = Clean(clean[: max(len(clean) - BEYOND, _last_blank(clean))])
    return clean if len(clean) <= most else Clean(clean[:most])


def _last_blank(text: str) -> int:
    return max(text.rfind(" "), text.rfind("\n"), text.rfind("\t"), 0)


def cleaned_line(text: str, most: int) -> Clean:
    """The same on one line. Its lines are joined once they are clean, and what they say together is looked at again."""
    start = cleaned_start(text, 4 * most)
    line = " ".join(start.split())
    return Clean((cleaned(line) if "\n" in start.strip() else line)[:most])


def cleaned_within(value: Any, but: Collection[str] = ()) -> Any:
    """Plain data with every text in it clean, except what stands under the names `but`: ids that whoever reads them compares."""
    if isinstance(value, str):
        return cleaned(value)
    if isinstance(value, Mapping):
        return {name: part if name in but else cleaned_within(part, but) for name, part in value.items()}
    return [cleaned_within(part, but) for part in value] if isinstance(value, list | tuple) else value


def without_secrets(value: Any) -> Any:
    """Plain data as it may be stored: the very same where no text in it holds a secret, which is seen in one search of all of them."""
    said = "\n\n\n".join(dict.fromkeys(_texts(value)))
    return value if not said or redact(said) == said else _plain_texts(value)


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        if not isinstance(value, Clean):
            yield value
    elif isinstance(value, Mapping):
        yield from (text for part in value.values() for text in _texts(part))
    elif isinstance(value, list | tuple):
        yield from (text for part in value for text in _texts(part))


def _plain_texts(value: Any) -> Any:
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, dict):
        return {name: _plain_texts(part) for name, part in value.items()}
    if type(value) in (list, tuple):
        return type(value)(_plain_texts(part) for part in value)
    return value


def _over_lines(text: str) -> str:
    """Without what goes over several lines, or hides in numbers."""
    if "PRIVATE KEY" in text or "Private-Lines: " in text:
        text = _PEM.sub(lambda found: f"[redacted {found['what'].lower()}]", _keys_gone(text))
    return _BYTES.sub(_bytes, text) if '"MESSAGE"' in text else text


def _keys_gone(text: str) -> str:
    lines = text.split("\n")
    keys(lines)
    return "\n".join(lines)


def _blocks(text: str) -> Iterator[tuple[int, int]]:
    """Whole lines, some megabytes at a time: a large log is not split into lines all at once."""
    start = 0
    while start < len(text):
        end = text.find("\n", start + BLOCK) + 1 or len(text)
        yield start, end
        start = end


def _settled(text: str) -> str:
    """A block without its secrets. Taking one out may bring another within a pattern's bounds: what changed is looked at again, with the lines
    from which it can be reached; a second look is rare, a third unheard of."""
    clean = _block(text)
    if clean == text:
        return text
    lines = clean.split("\n")
    changed = _differing(text.split("\n"), lines)
    for _ in range(_ROUNDS - 1):
        before = lines.copy()
        _look(lines, sorted({near for at in changed for near in range(max(0, at - REACH), min(len(lines), at + REACH + 1))}))
        if not (changed := _differing(before, lines)):
            break
    return "\n".join(lines)


def _differing(before: Sequence[str], after: Sequence[str]) -> list[int]:
    return [at for at, (one, other) in enumerate(zip(before, after, strict=True)) if one != other]


def _block(text: str) -> str:
    """What is disguised, what is written plainly, and then what texts within the text hold: what a quote ends is known before it is read as one."""
    text = _shown(text)
    return _unescaped(text) if escaped(text) else text


def _unescaped(text: str) -> str:
    """Without the secrets of texts within the text. Few lines with escapes hold any: all are asked together first."""
    lines = text.split("\n")
    some = [at for at, line in enumerate(lines) if escaped(line)]
    said = "\n".join(lines[at] for at in some)
    for _ in range(LEVELS):
        said = meant(said)
        if _within(said) != said:
            break
        if not escaped(said):
            return text
    else:
        return text
    for at in some:
        lines[at] = unescaped(lines[at], _within)
    return "\n".join(lines)


def _within(text: str) -> str:
    """What an escaped text holds, without its secrets."""
    return _shown(_over_lines(text))


def _shown(text: str) -> str:
    if hides := hiding(text):
        text = "\n".join(unmasked(line, _plain) if hides(line) else line for line in text.split("\n"))
    return _plain(text)


def _look(lines: list[str], some: Sequence[int]) -> None:
    """The same for some of the lines, in place."""
    for at in some:
        if may_hide(lines[at]):
            lines[at] = unmasked(lines[at], _plain)
    masked = _masked("\n".join(lines[at] for at in some)).split("\n")
    plans = _plans(masked)
    for at, line in zip(some, masked, strict=True):
        if plan := plans.get(line):
            _carry_out(plan, lines, at, line)
    if keys_of := [at for at, line in zip(some, masked, strict=True) if (plan := plans.get(line)) and plan.body]:
        bodies(lines, keys_of)
    for at in filter(lambda at: escaped(lines[at]), some):
        lines[at] = unescaped(lines[at], _within)


def _plain(text: str) -> str:
    """Machines print the same lines over and over, and nearly all of them hold no needle: what to do is settled once for all lines that differ
    in their numbers alone."""
    masked = _masked(text).split("\n")
    plans = _plans(masked)
    if not plans:
        return text
    lines = text.split("\n")
    keys_of = []
    for at, plan in enumerate(map(plans.get, masked)):
        if plan:
            _carry_out(plan, lines, at, masked[at])
            if plan.body:
                keys_of.append(at)
    if keys_of:
        bodies(lines, keys_of)
    return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class _Plan:
    """What may find something in a line: these rules, and `spread` if one of them holds. Of the `exact` ones it is to be seen first whether
    they hold, for their needles have digits; `sure` where another does. `body`: it looks like a line of a key."""

    rules: tuple[int, ...]
    exact: tuple[int, ...]
    sure: bool
    spreads: bool
    body: bool = False


def _carry_out(plan: _Plan, lines: list[str], at: int, masked: str) -> None:
    exact: set[int] = set()
    if plan.exact:
        lowered = _lowered(lines[at])
        exact = {number for number in plan.exact if _holds(lowered, _RULES[number].needles)}
    for number in plan.rules:
        if number in exact or number not in _EXACT:
            pattern = _RULES[number].pattern
            lines[at] = pattern.sub(_keep_head if number in _WITH_HEAD else GONE, lines[at])
    if plan.spreads and (plan.sure or exact):
        spread(lines, at, masked)


def _plans(masked: Iterable[str]) -> dict[str, _Plan]:
    """What to do with each masked line that may hold a secret."""
    plans = {}
    for line, numbers in _suspects("\n".join(dict.fromkeys(masked))).items():
        plan = _plan(line, numbers)
        if plan.rules or plan.spreads or plan.body:
            plans[line] = plan
    return plans


def _plan(masked: str, numbers: Iterable[int]) -> _Plan:
    held = [number for number in sorted(numbers) if number != BODY]
    exact = tuple(number for number in held if number in _EXACT)
    rules = tuple(number for number in held if _applies(masked, _RULES[number]))
    return _Plan(rules, exact, len(exact) < len(held), bool(held) and may_spread(masked), BODY in numbers)


def _applies(masked: str, rule: Rule) -> bool:
    return (not rule.also or _holds(masked, rule.also)) and (rule.pattern is not ASSIGNED or _assigns(masked, rule.needles))


@lru_cache(4096)
def _rules_for(needles: frozenset[str]) -> tuple[Sequence[int], Sequence[int]]:
    """The rules that have one of these needles, and those that have a longer one, which is still to be looked for."""
    sure = {number for needle in needles for number in _BESIDE[needle] if needle in _MASKED[number]}
    return tuple(sure), tuple({number for needle in needles for number in _BESIDE[needle]} - sure)


def _suspects(masked: str) -> dict[str, set[int]]:
    """Masked lines that may hold a secret, and the numbers of the rules that may find it."""
    found: dict[str, set[int]] = {}
    for (start, end), needles in _SEARCH.in_text(masked).items():
        sure, maybe = _rules_for(frozenset(needles))
        line = masked[start:end]
        found[line] = {*sure, *(number for number in maybe if _holds(line, _MASKED[number]))}
    long = _with_long_words(masked)
    for needle, rule in _forms_in(long) if long else ():
        for line in _lines_with(long, needle):
            found.setdefault(line, set()).add(rule)
    for line in filter(like_a_body, long.split("\n") if long else ()):
        found.setdefault(line, set()).add(BODY)
    return found


def _forms_in(long: str) -> Iterator[tuple[str, int]]:
    """Needles of tokens that are there. A hundred are not searched for where no word begins as they do."""
    begin = {word[:3].decode() for word in set(long.encode().translate(_APART).split())}
    for head in (*(_BY_FORM.keys() & begin), ""):
        yield from (row for row in _BY_FORM[head] if row[0] in long)


def _lines_with(text: str, needle: str) -> Iterator[str]:
    """Every line that holds it, once."""
    at = text.find(needle)
    while at >= 0:
        end = text.find("\n", at)
        end = len(text) if end < 0 else end
        yield text[text.rfind("\n", 0, at) + 1 : end]
        at = text.find(needle, end)


def _with_long_words(masked: str) -> str:
    """The lines that have a word long enough to be a token."""
    words, run = masked.encode().translate(_WORDS), b"a" * SHORTEST
    lines, at = [], words.find(run)
    while at >= 0:
        end = words.find(b"\n", at)
        end = len(words) if end < 0 else end
        lines.append(masked[words.rfind(b"\n", 0, at) + 1 : end])
        at = words.find(run, end)
    return "\n".join(lines)


def _holds(line: str, needles: tuple[str, ...]) -> bool:
    for needle in needles:  # noqa: SIM110  it is run for every line that says `token`, and a generator takes three times as long
        if needle in line:
            return True
    return False


def _assigns(masked: str, needles: tuple[str, ...]) -> bool:
    """Whether something may be assigned to a secret's name: only the parts of the line around a needle that a sign follows are looked at."""
    sign = max(masked.rfind("="), masked.rfind(":")) + 1
    for needle in needles:
        at = masked.find(needle, 0, sign)
        while at >= 0:
            if SIGN_FOLLOWS.match(masked, at) and MAYBE_ASSIGNED.search(
                masked, max(0, at - LONGEST_PREFIX), at + LONGEST_PREFIX + LONGEST_NAME
            ):
                return True
            at = masked.find(needle, at + 1, sign)
    return False


def _bytes(found: re.Match[str]) -> str:
    """journald writes an unclean message as an array of bytes: a secret may hide there, so it is read before it is kept."""
    numbers = [int(number) for number in found[2].split(",") if number.strip().isdigit()]
    said = bytes(number for number in numbers if number < 256).decode("utf-8", "replace")
    clean = redact(said)
    return found[0] if clean == said else found[1] + json.dumps(clean)


_INVISIBLE = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
BLANKS = frozenset("\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000")
"""What looks like a space and is none."""
_SHOWS_NOTHING = BLANKS | frozenset("\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u2800\u3164\uffa0")
_VARIATIONS = ((0xFE00, 0xFE0F), (0xE0100, 0xE01EF))
"""Variation selectors: whole texts have been smuggled past readers in them."""
_ODD = re.compile(r"[^\x20-\x7e\n\t]")


def visible(text: str) -> str:
    """Control, bidi, zero-width and blank look-alike characters become their code, `‹U+202E›`, so that text shows what it holds; new lines
    and tabs stay."""
    return _ODD.sub(_spelled, text)


def _spelled(found: re.Match[str]) -> str:
    char = found[0]
    code = ord(char)
    varies = any(first <= code <= last for first, last in _VARIATIONS)
    return f"‹U+{code:04X}›" if varies or char in _SHOWS_NOTHING or unicodedata.category(char) in _INVISIBLE else char
