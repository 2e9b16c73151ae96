"""Find what a text to a tenant must not contain. A text with a leak is not sent.

It catches slips and proves nothing: automatic texts are safe by construction (`bot.tenants.cards.view`), and a person
reads what they send.
"""

import contextlib
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from ipaddress import IPv6Address
from typing import Literal

from graph.ticket_export.common_words import COMMON_WORDS
from kb.names import FoldedText, NameMatcher, fold_text
from kb.redact import redact
from tools.inventory.inventory import Inventory

LeakKind = Literal[
    "another customer", "a machine that is not theirs", "a person", "a secret", "an internal word", "an address", "another incident"
]
MIN_NAME_CHARS = 3  # Shorter names would match any text.
MAX_READ_CHARS = 6000  # A text to a tenant is shorter.
MAX_GPUS_PER_HOST = 16  # `GPU 3` is a device. From this number on, or written `003`, it is the host of that name.
# Commands that we run, and words of our decisions.
INTERNAL_WORDS = (
    *("scontrol", "scancel", "sacctmgr", "ipmitool", "kubectl", "systemctl", "modprobe", "sudo", "rackmedic-act", "rackmedic-look"),
    *(
        "nvidia-smi -r",
        "nvidia-smi --gpu-reset",
        "bmc",
        "idrac",
        "approver",
        "approved by",
        "ipmi",
        "break-glass",
        "run-book",
        "post-mortem",
    ),
    *("pager", "pagerduty", "confidence"),
)
# What people write between the parts of a host name.
_SEPARATOR_PATTERN = r"[ ._:/#-]{0,4}"
_NUMBER_WORD_PATTERN = r"(?:(?:no|nr|number|nummer)[. ]{1,2})?"
_RANGE_PATTERN = re.compile(r" {0,2}(?:\.{2,3}|-|~|\b(?:to|up to|upto|through|thru|until|bis)\b) {0,2}")
_LIST_SEPARATOR_PATTERN = re.compile(r" {0,2}(?:[,;/&+]|\b(?:and|or|und|oder|sowie|et|y)\b){1,2} {0,2}-?(?:(?:and|or|und|oder) )?")
_BRACKET_LIST_PATTERN = re.compile(r"(\d{0,6})[\[({]([\d,;. -]{1,80})[\])}]")
_RANGE_ITEM_PATTERN = re.compile(r" *(\d{1,6})(?: *(?:-|\.{2,3}) *(\d{1,6}))? *")
_WILDCARD_PATTERN = re.compile(r"(\d{0,5})(?:\*|x{1,4}(?!\w)|\?{1,4}(?![ \n]|$))")
_NUMBER_PATTERN = re.compile(r"\d{1,9}")
_WORD_CONTINUES_PATTERN = re.compile(r"[\w%]|:\d|\.\d")
_MACHINE_NUMBER_PATTERN = re.compile(
    r"\b(?:node|host|machine|server|box|knoten|rechner|maschine)[sn]?[ -]{1,2}(?:#|(?:no|nr)\.? )?(\d{2,6})(?!\w|[.:]\d)"
)
_LEAK_PATTERNS: tuple[tuple[LeakKind, re.Pattern[str]], ...] = (
    (
        "a person",
        re.compile(
            r"<@[A-Z0-9]{2,20}[^>]{0,80}>|(?<![\w.])[\w.+-]{1,64} ?(?:@|\(at\)|\[at\]) ?[\w-]{1,63}(?:(?:\.| ?[(\[]dot[)\]] ?)[\w-]{1,63}){1,4}",
            re.IGNORECASE,
        ),
    ),
    (
        "an address",
        re.compile(
            r"(?<![\w.])(?:(?:25[0-5]|2[0-4]\d|1?\d?\d)(?:\.|\[\.\])){3}(?:25[0-5]|2[0-4]\d|1?\d?\d|x)(?![\w]|\.\d)"
            r"|(?<![\w:])fe80::[0-9a-f:]{1,30}|(?<![\w:-])(?:[0-9a-f]{2}[:-]){5}[0-9a-f]{2}(?![\w:-])",
            re.IGNORECASE,
        ),
    ),
    (
        "an internal word",
        re.compile(
            r"(?<![\w-])apr[-_][0-9a-f]{6,}(?![\w-])|(?<![\w-])apr (?=[0-9a-f]*[a-f])(?=[0-9a-f]*\d)[0-9a-f]{8,}|<!?subteam|<#[A-Z0-9]{2,20}"
        ),
    ),
    (
        "an address",
        re.compile(
            r"\bhttps?://(?:[\w-]{1,63}(?=[:/?#\s]|$)|(?:[\w-]{1,63}\.){1,6}(?:internal|intern|intra|local|lan|corp|home\.arpa)(?![\w.-]))"
            r"|(?<![\w.-])(?:[a-z][\w-]{1,62}\.){1,6}(?:internal|intranet|intra|lan|corp|home\.arpa)(?!\w|[.-]\w)",
            re.IGNORECASE,
        ),
    ),
)
_INCIDENT_ID_PATTERN = re.compile(
    r"(?<![\w-])inc(?:ident)?(?:[-_#:]{1,2}|[ #:._-]{0,3}(?=[0-9a-f]{0,5}\d))([0-9a-f]{6})(?![\w-])", re.IGNORECASE
)
_IPV6_PATTERN = re.compile(r"(?<![\w:])[0-9a-f]{0,4}:[0-9a-f:]{4,38}(?![\w:])", re.IGNORECASE)
_LEET_TRANSLATION = str.maketrans("01345", "oieas")
_ON_CALL_PATTERN = re.compile(r"\bon-?call\b|\bon call\b(?! (?:to|of|for|order|stack|graph|number|site)\b)")


def _compile_word_pattern(word: str) -> re.Pattern[str]:
    parts = (re.escape(part).replace(r"\-", "[-_ ]?") if part[0] != "-" else re.escape(part) for part in word.split())
    return re.compile(rf"(?<![\w.]){' {1,3}'.join(parts)}(?:'?s|d|\d{{1,2}})?(?!\w)")


_INTERNAL_WORD_PATTERNS: tuple[tuple[str, re.Pattern[str]], ...] = (
    *((word, _compile_word_pattern(word)) for word in INTERNAL_WORDS),
    ("on-call", _ON_CALL_PATTERN),
)


@dataclass(frozen=True, slots=True)
class Leak:
    """A leak with the words that leak. A secret is not repeated."""

    kind: LeakKind
    words: str = ""

    def __str__(self) -> str:
        return f"{self.kind} ({self.words})" if self.words else self.kind


@dataclass(frozen=True, slots=True)
class MachineName:
    """A host name as its parts before the last number, and that number as written."""

    stem: tuple[str, ...]
    number: str

    @classmethod
    def parse(cls, name: str) -> "MachineName | None":
        """Parse a host name. Return None if it does not end with a number."""
        *stem, number = re.findall(r"[^\W\d_]+|\d+", fold_text(name).text) or [""]
        if not stem or stem[0].isdigit() or not re.fullmatch(r"[0-9]{1,6}", number):
            return None
        unpadded_stem = [(part.lstrip("0") or "0") if part.isdigit() else part for part in stem]
        return cls(tuple(unpadded_stem), number)


@dataclass(frozen=True, slots=True)
class NumberedMachines:
    """The hosts of other tenants whose names have one stem."""

    stem_pattern: re.Pattern[str]
    repeated_stem_pattern: re.Pattern[str]  # the stem before a further number of a list
    numbers: Mapping[int, str]  # number → as it is written in the host's name
    is_device_stem: bool  # The stem is also what a GPU is called.
    is_word_stem: bool  # The stem is a common word: after a space only a number written as in a host name counts.

    @classmethod
    def build(cls, stem: Sequence[str], numbers: Mapping[int, str]) -> "NumberedMachines":
        parts = [rf"0{{0,4}}{part}" if part.isdigit() else re.escape(part) for part in stem]
        body = _SEPARATOR_PATTERN.join(parts) + ("" if stem[-1].isdigit() else "s?")
        stem_pattern = re.compile(rf"(?<!\w)(?<!\w[.-]){body}{_SEPARATOR_PATTERN}{_NUMBER_WORD_PATTERN}(?=[\d\[({{*?x])")
        return cls(
            stem_pattern,
            re.compile(rf"{body}{_SEPARATOR_PATTERN}(?=\d)"),
            numbers,
            tuple(stem) == ("gpu",),
            len(stem) == 1 and stem[0] in COMMON_WORDS,
        )

    def find_spans(self, text: str) -> Iterator[tuple[int, int]]:
        """Yield the spans that name one of the numbers: alone, in a list or range, or by a wildcard."""
        position = 0
        while match := self.stem_pattern.search(text, position):
            position, has_number = self._parse_numbers(text, match.end())
            if has_number:
                yield match.start(), position

    def _parse_numbers(self, text: str, at: int) -> tuple[int, bool]:
        """Return where the number expression ends, and whether it names one of the numbers."""
        if match := _BRACKET_LIST_PATTERN.match(text, at):
            pieces = filter(None, (_RANGE_ITEM_PATTERN.fullmatch(piece) for piece in re.split("[,;]", match[2])))
            spans = [(int(match[1] + piece[1]), int(match[1] + (piece[2] or piece[1]))) for piece in pieces]
            return match.end(), self._contains_number(spans)
        if match := _WILDCARD_PATTERN.match(text, at):
            return match.end(), any(known_number.startswith(match[1]) for known_number in self.numbers.values())
        first = _NUMBER_PATTERN.match(text, at)
        if first is None or text[first.end() : first.end() + 1].isalpha() or self._is_not_machine(text, first):
            return at, False
        spans, end = [(int(first[0]), int(first[0]))], first.end()
        while (next_number := self._match_next_number(text, end)) is not None:
            ends_range, match = next_number
            number, has_same_width = int(match[0]), len(match[0]) == len(first[0])
            if not ends_range and not (has_same_width and len(first[0]) > 1):
                break
            range_start = spans[-1][0] if ends_range else number
            is_reversed = number < range_start and has_same_width
            spans.append((number, range_start) if is_reversed else (range_start, number))
            end = match.end()
        return end, self._contains_number(spans)

    def _is_not_machine(self, text: str, number: re.Match[str]) -> bool:
        """Exclude `GPU 3`, `train 1 model`, `train 01:30 hours`."""
        before = text[number.start() - 1]
        if self.is_device_stem:
            return before not in "-_" and not number[0].startswith("0") and int(number[0]) < MAX_GPUS_PER_HOST
        is_known_number = number[0] in self.numbers.values() and not re.match(r":\d", text[number.end() : number.end() + 2])
        return self.is_word_stem and before == " " and not is_known_number

    def _match_next_number(self, text: str, end: int) -> tuple[bool, re.Match[str]] | None:
        """Return whether the next number ends a range, and the number."""
        range_sign = _RANGE_PATTERN.match(text, end)
        separator = range_sign or _LIST_SEPARATOR_PATTERN.match(text, end)
        if separator is None:
            return None
        repeated_stem = self.repeated_stem_pattern.match(text, separator.end())
        number = _NUMBER_PATTERN.match(text, repeated_stem.end() if repeated_stem else separator.end())
        if number is None or _WORD_CONTINUES_PATTERN.match(text, number.end()):
            return None
        return range_sign is not None, number

    def _contains_number(self, spans: Iterable[tuple[int, int]]) -> bool:
        return any(low <= number <= high for low, high in spans for number in self.numbers)


@dataclass(frozen=True)
class LeakDetector:
    """Finds leaks in texts to one tenant. `people` are the operators whose names a text might contain."""

    inventory: Inventory
    tenant: str
    incident: str = ""
    people: Collection[str] = field(default_factory=tuple)
    ticket: str = ""  # The incident's id in the tenant's own RackMedic.

    def find_leaks(self, text: str) -> tuple[Leak, ...]:
        """Return all leaks, each once."""
        folded = fold_text(text[:MAX_READ_CHARS])
        leaks = [
            *self._find_names(folded),
            *self._find_hosts(folded),
            *_find_pattern_leaks(folded.cased),
            *_find_ipv6_addresses(folded.text),
            *self._find_incidents(folded.text),
        ]
        if redact(text) != text:
            leaks.append(Leak("a secret"))
        return tuple(dict.fromkeys(leaks))

    def _find_names(self, folded: FoldedText) -> Iterator[Leak]:
        other_text = self._blank_tenant_names(folded)
        for tenant in self._other_tenants:
            if _is_tenant_named(tenant, other_text):
                yield Leak("another customer", tenant)
        yield from self._find_people(folded)
        for word, pattern in _INTERNAL_WORD_PATTERNS:
            if pattern.search(folded.text):
                yield Leak("an internal word", word)
        for channel in self._internal_channels:
            if re.search(_build_word_pattern(channel), folded.text):
                yield Leak("an internal word", channel)

    def _find_people(self, folded: FoldedText) -> Iterator[Leak]:
        for name in dict.fromkeys(part for person in self.people for part in (person, *person.split())):
            if len(name) >= MIN_NAME_CHARS and _is_person_named(name, folded):
                yield Leak("a person", name)
        for name in self._short_names:
            if re.search(rf"(?<!\w){re.escape(name)}(?!\w)", folded.cased):
                yield Leak("a person", name)

    def _find_hosts(self, folded: FoldedText) -> Iterator[Leak]:
        """Search names outside the tenant's own, but numbers everywhere: a range may begin with a host of the tenant."""
        other_text = self._blank_tenant_names(folded).text
        letters = _strip_separators(other_text)
        for name in self._foreign_machine_names:
            if _strip_separators(fold_text(name).text) in letters and _compile_name_pattern(name).search(other_text):
                yield Leak("a machine that is not theirs", name)
        tenant_spans = list(self._find_tenant_name_spans(folded))
        for machines in self._numbered_machines:
            for start, end in machines.find_spans(folded.text):
                if not any(first <= start and end < last for first, last in tenant_spans):
                    yield Leak("a machine that is not theirs", folded.cased[start:end])
        for match in _MACHINE_NUMBER_PATTERN.finditer(folded.text):
            if match[1] in self._padded_machine_numbers:
                yield Leak("a machine that is not theirs", match[0])

    def _find_incidents(self, plain: str) -> Iterator[Leak]:
        tenant_numbers = {incident.casefold().rpartition("-")[2] for incident in (self.incident, self.ticket)}
        for match in _INCIDENT_ID_PATTERN.finditer(plain):
            if match[1] not in tenant_numbers:
                yield Leak("another incident", match[0])

    def _blank_tenant_names(self, folded: FoldedText) -> FoldedText:
        """Blank the tenant's own names, which may contain a shorter foreign one."""
        text = folded.text
        for start, end in self._find_tenant_name_spans(folded):
            text = f"{text[:start]}{' ' * (end - start)}{text[end:]}"
        return FoldedText(text, folded.cased, folded.at)

    def _find_tenant_name_spans(self, folded: FoldedText) -> Iterator[tuple[int, int]]:
        for name in (fold_text(tenant_name).text for tenant_name in self._tenant_names):
            if name in folded.text:
                yield from (match.span() for match in re.finditer(rf"(?<![\w.-]){re.escape(name)}(?![\w-])", folded.text))

    @cached_property
    def _tenant_names(self) -> frozenset[str]:
        names = {self.tenant}
        for host in self.inventory.hosts.values():
            if host.tenant == self.tenant:
                names |= {host.name, host.name_for_tenant}
        return frozenset(names - {""})

    @cached_property
    def _other_tenants(self) -> tuple[str, ...]:
        tenants = {host.tenant for host in self.inventory.hosts.values()} | {channel.tenant for channel in self.inventory.channels}
        return tuple(sorted(name for name in tenants if len(name) >= MIN_NAME_CHARS and name.casefold() != self.tenant.casefold()))

    @cached_property
    def _short_names(self) -> tuple[str, ...]:
        """Two-letter names, which are searched for with their capital: `bo` could be a word."""
        name_parts = {part for name in self.people for part in name.split()}
        return tuple(part for part in name_parts if len(part) == MIN_NAME_CHARS - 1 and part[0].isupper())

    @cached_property
    def _internal_channels(self) -> tuple[str, ...]:
        """Ids and names of all other channels. Only a name of several parts counts without `#`."""
        channels = [channel for channel in self.inventory.channels if channel.tenant != self.tenant]
        names = {channel.name.lstrip("#") for channel in channels if channel.name}
        searched_names = {name if re.search(r"[-_]", name) else f"#{name}" for name in names}
        return tuple(sorted({channel.channel for channel in channels} | searched_names))

    @cached_property
    def _foreign_machines(self) -> frozenset[str]:
        """Other tenants' and our hosts, their addresses, and all switches, controllers and jump hosts."""
        foreign = [host for host in self.inventory.hosts.values() if host.tenant != self.tenant]
        shared = {name for host in self.inventory.hosts.values() for name in (host.leaf, host.controller, host.jump) if name}
        machine_names = {name for host in foreign for name in (host.name, host.address, host.alias) if name}
        return frozenset(machine_names | shared) - self._tenant_names

    @cached_property
    def _foreign_machine_names(self) -> tuple[str, ...]:
        return tuple(sorted(name for name in self._foreign_machines if len(name) >= MIN_NAME_CHARS))

    @cached_property
    def _numbered_machines(self) -> tuple[NumberedMachines, ...]:
        """Foreign hosts by name stem, without numbers that the tenant also has."""
        rows: dict[tuple[str, ...], dict[int, str]] = defaultdict(dict)
        for machine in filter(None, map(MachineName.parse, self._foreign_machines)):
            rows[machine.stem][int(machine.number)] = machine.number
        for machine in filter(None, map(MachineName.parse, self._tenant_names)):
            rows[machine.stem].pop(int(machine.number), None)
        return tuple(NumberedMachines.build(stem, numbers) for stem, numbers in rows.items() if numbers)

    @cached_property
    def _padded_machine_numbers(self) -> frozenset[str]:
        """`001` of `gpu-001`, if no host of the tenant has that number."""
        tenant_numbers = {int(one.number) for one in filter(None, map(MachineName.parse, self._tenant_names))}
        foreign_machines = {one.number for one in filter(None, map(MachineName.parse, self._foreign_machines))}
        return frozenset(number for number in foreign_machines if number.startswith("0") and int(number) not in tenant_numbers)


def _strip_separators(text: str) -> str:
    return re.sub(r"[\W_]+", "", text)


def _compile_name_pattern(name: str) -> re.Pattern[str]:
    """Match a name with other or missing separators, but two numbers need one. `x-gpu-001` is another name."""
    parts = re.split(r"([\W_]+)", fold_text(name).text)
    form = re.escape(parts[0])
    for before, _, after in zip(parts[0::2], parts[1::2], parts[2::2], strict=False):
        form += ("[-_. ]" if before[-1:].isdigit() and after[:1].isdigit() else "[-_.]?") + re.escape(after)
    return re.compile(rf"(?<!\w)(?<!\w[.-]){form}(?!\w)")


def _is_tenant_named(name: str, folded: FoldedText) -> bool:
    """Return whether a tenant is named: alone, in a compound, spaced out, or with digits for letters."""
    names = NameMatcher((name,), COMMON_WORDS)
    pattern = names.build_pattern()
    if pattern is None:
        return False
    if any(names.iter_places(folded, pattern)):
        return True
    letters = _strip_separators(fold_text(name).text)
    if len(letters) <= MIN_NAME_CHARS:
        return False
    if letters.isalpha() and any(
        letters in run.translate(_LEET_TRANSLATION) for run in re.findall(r"\w{4,80}", folded.text) if not run.isalpha()
    ):
        return True
    return re.search(rf"(?<!\w){'[ ._-]'.join(map(re.escape, letters))}(?!\w)", folded.text) is not None


def _is_person_named(name: str, folded: FoldedText) -> bool:
    """Return whether a person is named. A name that is a common word counts only in its own case, inside a sentence."""
    plain = fold_text(name).text
    if plain in COMMON_WORDS:
        return re.search(rf"(?<=[^.!?:\n] ){re.escape(name)}(?!\w)", folded.cased) is not None
    form = r"[^\w\n]{0,3}".join(map(re.escape, plain.split()))
    return re.search(rf"(?<![^\W\d_]){form}s?(?![^\W\d_])", folded.text) is not None


def _build_word_pattern(name: str) -> str:
    parts = re.split("[-_]", fold_text(name).text)
    return rf"(?<![\w.-]){'[-_]'.join(map(re.escape, parts))}(?![\w-])"


def _find_pattern_leaks(plain: str) -> Iterator[Leak]:
    yield from (Leak(kind, match[0][:80]) for kind, shape in _LEAK_PATTERNS for match in shape.finditer(plain))


def _find_ipv6_addresses(plain: str) -> Iterator[Leak]:
    """Times of day do not parse as IPv6 and are skipped."""
    for address in _IPV6_PATTERN.findall(plain):
        with contextlib.suppress(ValueError):
            yield Leak("an address", str(IPv6Address(address)))
