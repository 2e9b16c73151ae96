"""What a text of ours must not carry to a customer, by name of what it is. Pure; a text with any of it is not sent.

It is a net for slips, not a proof: what crosses by itself is made by leaving out (`bot.cards.customers.view`), and a person reads what they send.
"""

import contextlib
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from ipaddress import IPv6Address
from typing import Literal

from graph.exchange.ordinary import ORDINARY
from kb.names import FoldedText, Names, fold
from kb.redact import redact
from tools.inventory.hosts import Inventory

Kind = Literal[
    "another customer", "a machine that is not theirs", "a person", "a secret", "an internal word", "an address", "another incident"
]
SHORTEST_NAME = 3
"""Shorter names would be found in any text."""
LONGEST_READ = 6000
"""Characters; a text to a customer is shorter."""
MOST_GPUS = 16
"""`GPU 3` is a device of a machine. From this number on, or written `003`, it is the machine of that name."""
INTERNAL = (
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
"""Words of the inside: commands that we run, and how we decide."""
_BETWEEN = r"[ ._:/#-]{0,4}"
"""What stands between the parts of a machine's name, as people write it."""
_NUMBERED_AS = r"(?:(?:no|nr|number|nummer)[. ]{1,2})?"
_THROUGH = re.compile(r" {0,2}(?:\.{2,3}|-|~|\b(?:to|up to|upto|through|thru|until|bis)\b) {0,2}")
_AND = re.compile(r" {0,2}(?:[,;/&+]|\b(?:and|or|und|oder|sowie|et|y)\b){1,2} {0,2}-?(?:(?:and|or|und|oder) )?")
_BRACKET = re.compile(r"(\d{0,6})[\[({]([\d,;. -]{1,80})[\])}]")
_PIECE = re.compile(r" *(\d{1,6})(?: *(?:-|\.{2,3}) *(\d{1,6}))? *")
_WILD = re.compile(r"(\d{0,5})(?:\*|x{1,4}(?!\w)|\?{1,4}(?![ \n]|$))")
_NUMBER = re.compile(r"\d{1,9}")
_GOES_ON = re.compile(r"[\w%]|:\d|\.\d")
_ANY_MACHINE = re.compile(
    r"\b(?:node|host|machine|server|box|knoten|rechner|maschine)[sn]?[ -]{1,2}(?:#|(?:no|nr)\.? )?(\d{2,6})(?!\w|[.:]\d)"
)
_SHAPES: tuple[tuple[Kind, re.Pattern[str]], ...] = (
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
_INCIDENT = re.compile(r"(?<![\w-])inc(?:ident)?(?:[-_#:]{1,2}|[ #:._-]{0,3}(?=[0-9a-f]{0,5}\d))([0-9a-f]{6})(?![\w-])", re.IGNORECASE)
_IPV6 = re.compile(r"(?<![\w:])[0-9a-f]{0,4}:[0-9a-f:]{4,38}(?![\w:])", re.IGNORECASE)
_LEET = str.maketrans("01345", "oieas")
_ON_CALL = re.compile(r"\bon-?call\b|\bon call\b(?! (?:to|of|for|order|stack|graph|number|site)\b)")


def _said(word: str) -> re.Pattern[str]:
    parts = (re.escape(part).replace(r"\-", "[-_ ]?") if part[0] != "-" else re.escape(part) for part in word.split())
    return re.compile(rf"(?<![\w.]){' {1,3}'.join(parts)}(?:'?s|d|\d{{1,2}})?(?!\w)")


_INTERNAL_FORMS: tuple[tuple[str, re.Pattern[str]], ...] = (*((word, _said(word)) for word in INTERNAL), ("on-call", _ON_CALL))


@dataclass(frozen=True, slots=True)
class Leak:
    """One thing that must not cross: what it is, and the words as they stand in the text; a secret's are not repeated."""

    kind: Kind
    words: str = ""

    def __str__(self) -> str:
        return f"{self.kind} ({self.words})" if self.words else self.kind


@dataclass(frozen=True, slots=True)
class MachineName:
    """What stands before the last number of a machine's name, in its letters and numbers alone, and that number as it is written."""

    stem: tuple[str, ...]
    number: str

    @classmethod
    def of(cls, name: str) -> "MachineName | None":
        """None for a name that does not end with a number."""
        *stem, number = re.findall(r"[^\W\d_]+|\d+", fold(name).text) or [""]
        if not stem or stem[0].isdigit() or not re.fullmatch(r"[0-9]{1,6}", number):
            return None
        return cls(tuple(part.lstrip("0") or "0" if part.isdigit() else part for part in stem), number)


@dataclass(frozen=True, slots=True)
class NumberedMachines:
    """Machines whose names begin alike and end with a number, as people write them. `numbers`: those that are not the customer's, as written."""

    begins: re.Pattern[str]
    again: re.Pattern[str]
    numbers: Mapping[int, str]
    device: bool
    """What they are called is also what a GPU is called."""
    word: bool
    """What they are called is a word of everybody's: after a space only a number that is written as in a name is one."""

    @classmethod
    def of(cls, stem: Sequence[str], numbers: Mapping[int, str]) -> "NumberedMachines":
        parts = [rf"0{{0,4}}{part}" if part.isdigit() else re.escape(part) for part in stem]
        body = _BETWEEN.join(parts) + ("" if stem[-1].isdigit() else "s?")
        begins = re.compile(rf"(?<!\w)(?<!\w[.-]){body}{_BETWEEN}{_NUMBERED_AS}(?=[\d\[({{*?x])")
        return cls(begins, re.compile(rf"{body}{_BETWEEN}(?=\d)"), numbers, tuple(stem) == ("gpu",), len(stem) == 1 and stem[0] in ORDINARY)

    def found(self, text: str) -> Iterator[tuple[int, int]]:
        """Start and end of each place that names one of the numbers: alone, in a list, in a range, or by a sign for any."""
        at = 0
        while found := self.begins.search(text, at):
            at, named = self._read(text, found.end())
            if named:
                yield found.start(), at

    def _read(self, text: str, at: int) -> tuple[int, bool]:
        """Where the expression of numbers ends that begins there, and whether it names one of the numbers."""
        if found := _BRACKET.match(text, at):
            pieces = filter(None, (_PIECE.fullmatch(piece) for piece in re.split("[,;]", found[2])))
            spans = [(int(found[1] + piece[1]), int(found[1] + (piece[2] or piece[1]))) for piece in pieces]
            return found.end(), self._among(spans)
        if found := _WILD.match(text, at):
            return found.end(), any(written.startswith(found[1]) for written in self.numbers.values())
        first = _NUMBER.match(text, at)
        if first is None or text[first.end() : first.end() + 1].isalpha() or self._is_no_machine(text, first):
            return at, False
        spans, end = [(int(first[0]), int(first[0]))], first.end()
        while (more := self._more(text, end)) is not None:
            through, number = more
            if not through and not len(number[0]) == len(first[0]) > 1:
                break
            least, most = (spans[-1][0] if through else int(number[0])), int(number[0])
            spans.append((most, least) if most < least and len(number[0]) == len(first[0]) else (least, most))
            end = number.end()
        return end, self._among(spans)

    def _is_no_machine(self, text: str, number: re.Match[str]) -> bool:
        """`GPU 3` of a machine, `train 1 model`, `train 01:30 hours`."""
        before = text[number.start() - 1]
        if self.device:
            return before not in "-_" and not number[0].startswith("0") and int(number[0]) < MOST_GPUS
        written = number[0] in self.numbers.values() and not re.match(r":\d", text[number.end() : number.end() + 2])
        return self.word and before == " " and not written

    def _more(self, text: str, end: int) -> tuple[bool, re.Match[str]] | None:
        """The number after this one, and whether it ends a range."""
        through = _THROUGH.match(text, end)
        sign = through or _AND.match(text, end)
        if sign is None:
            return None
        begins = again.end() if (again := self.again.match(text, sign.end())) else sign.end()
        number = _NUMBER.match(text, begins)
        return (through is not None, number) if number and not _GOES_ON.match(text, number.end()) else None

    def _among(self, spans: Iterable[tuple[int, int]]) -> bool:
        return any(low <= number <= high for low, high in spans for number in self.numbers)


@dataclass(frozen=True)
class Inside:
    """What is inside for one tenant. `people`: names of our own people that may stand in a thread."""

    inventory: Inventory
    tenant: str
    incident: str = ""
    people: Collection[str] = field(default_factory=tuple)
    ticket: str = ""
    """What the customer's own RackMedic calls the incident."""

    def leaks(self, text: str) -> tuple[Leak, ...]:
        """Everything in a text that must not cross, each once, in the order of the kinds."""
        said = fold(text[:LONGEST_READ])
        found = [*self._names(said), *self._hosts(said), *_shapes(said.cased), *_addresses(said.text), *self._incidents(said.text)]
        secret = [Leak("a secret")] if redact(text) != text else []
        return tuple(dict.fromkeys((*found, *secret)))

    def _names(self, said: FoldedText) -> Iterator[Leak]:
        others = self._but_theirs(said)
        yield from (Leak("another customer", name) for name in self._others if _stands_within(name, others))
        for name in dict.fromkeys(part for person in self.people for part in (person, *person.split())):
            if len(name) >= SHORTEST_NAME and _person(name, said):
                yield Leak("a person", name)
        yield from (Leak("a person", name) for name in self._short_names if re.search(rf"(?<!\w){re.escape(name)}(?!\w)", said.cased))
        yield from (Leak("an internal word", word) for word, form in _INTERNAL_FORMS if form.search(said.text))
        yield from (Leak("an internal word", name) for name in self._channels if re.search(_word(name), said.text))

    def _hosts(self, said: FoldedText) -> Iterator[Leak]:
        """Names of machines in the text without the customer's own, and numbers in all of it: a range may begin with one of theirs."""
        others = self._but_theirs(said).text
        letters = _squeezed(others)
        for name in self._named:
            if _squeezed(fold(name).text) in letters and _spelt(name).search(others):
                yield Leak("a machine that is not theirs", name)
        theirs = list(self._their_places(said))
        for machines in self._numbered:
            for start, end in machines.found(said.text):
                if not any(first <= start and end < last for first, last in theirs):
                    yield Leak("a machine that is not theirs", said.cased[start:end])
        for found in _ANY_MACHINE.finditer(said.text):
            if found[1] in self._written_numbers:
                yield Leak("a machine that is not theirs", found[0])

    def _incidents(self, plain: str) -> Iterator[Leak]:
        theirs = {number for name in (self.incident, self.ticket) for number in (name.casefold().rpartition("-")[2],) if number}
        yield from (Leak("another incident", found[0]) for found in _INCIDENT.finditer(plain) if found[1] not in theirs)

    def _but_theirs(self, said: FoldedText) -> FoldedText:
        """Without the customer's own names, which may hold a shorter one of somebody else's."""
        text = said.text
        for start, end in self._their_places(said):
            text = f"{text[:start]}{' ' * (end - start)}{text[end:]}"
        return FoldedText(text, said.cased, said.at)

    def _their_places(self, said: FoldedText) -> Iterator[tuple[int, int]]:
        for name in (fold(one).text for one in self._theirs):
            if name in said.text:
                yield from (found.span() for found in re.finditer(rf"(?<![\w.-]){re.escape(name)}(?![\w-])", said.text))

    @cached_property
    def _theirs(self) -> frozenset[str]:
        named = (name for host in self.inventory.hosts.values() if host.tenant == self.tenant for name in (host.name, host.called))
        return frozenset(name for name in (self.tenant, *named) if name)

    @cached_property
    def _others(self) -> tuple[str, ...]:
        rows = (*(host.tenant for host in self.inventory.hosts.values()), *(row.tenant for row in self.inventory.channels))
        return tuple(sorted({name for name in rows if len(name) >= SHORTEST_NAME and name.casefold() != self.tenant.casefold()}))

    @cached_property
    def _short_names(self) -> tuple[str, ...]:
        """`Bo` as it is written: in lower case it could be a word."""
        return tuple({part for name in self.people for part in name.split() if len(part) == SHORTEST_NAME - 1 and part[0].isupper()})

    @cached_property
    def _channels(self) -> tuple[str, ...]:
        """Ids and names of all channels but the customer's own. A name of several parts is known without its `#`."""
        rows = [row for row in self.inventory.channels if row.tenant != self.tenant]
        named = {row.name.lstrip("#") for row in rows if row.name}
        return tuple(sorted({row.channel for row in rows} | {name if re.search(r"[-_]", name) else f"#{name}" for name in named}))

    @cached_property
    def _machines(self) -> frozenset[str]:
        """Hosts of others and of ourselves, what they are reached by, and the switches above all of them."""
        foreign = [host for host in self.inventory.hosts.values() if host.tenant != self.tenant]
        shared = {name for host in self.inventory.hosts.values() for name in (host.leaf, host.controller, host.jump) if name}
        named = {name for host in foreign for name in (host.name, host.address, host.alias) if name}
        return frozenset(named | shared) - self._theirs

    @cached_property
    def _named(self) -> tuple[str, ...]:
        return tuple(sorted(name for name in self._machines if len(name) >= SHORTEST_NAME))

    @cached_property
    def _numbered(self) -> tuple[NumberedMachines, ...]:
        """By what stands before their numbers: how people write it, and the numbers that are not the customer's."""
        rows: dict[tuple[str, ...], dict[int, str]] = defaultdict(dict)
        for machine in filter(None, map(MachineName.of, self._machines)):
            rows[machine.stem][int(machine.number)] = machine.number
        for machine in filter(None, map(MachineName.of, self._theirs)):
            rows[machine.stem].pop(int(machine.number), None)
        return tuple(NumberedMachines.of(stem, numbers) for stem, numbers in rows.items() if numbers)

    @cached_property
    def _written_numbers(self) -> frozenset[str]:
        """`001` of `gpu-001`, where no machine of the customer's has the same number."""
        theirs = {int(one.number) for one in filter(None, map(MachineName.of, self._theirs))}
        found = {one.number for one in filter(None, map(MachineName.of, self._machines))}
        return frozenset(number for number in found if number.startswith("0") and int(number) not in theirs)


def _squeezed(text: str) -> str:
    return re.sub(r"[\W_]+", "", text)


def _spelt(name: str) -> re.Pattern[str]:
    """A name with other signs between its parts, or none between two of which one is no number; `x-gpu-001` is another name."""
    parts = re.split(r"([\W_]+)", fold(name).text)
    form = re.escape(parts[0])
    for before, _, after in zip(parts[0::2], parts[1::2], parts[2::2], strict=False):
        form += ("[-_. ]" if before[-1:].isdigit() and after[:1].isdigit() else "[-_.]?") + re.escape(after)
    return re.compile(rf"(?<!\w)(?<!\w[.-]){form}(?!\w)")


def _stands_within(name: str, said: FoldedText) -> bool:
    """Whether a customer's name stands there: by itself, put together with other words, spaced out, or with digits that look like letters."""
    names = Names((name,), ORDINARY)
    pattern = names.pattern()
    if pattern is None:
        return False
    if any(names.places(said, pattern)):
        return True
    letters = _squeezed(fold(name).text)
    if len(letters) <= SHORTEST_NAME:
        return False
    if letters.isalpha() and any(letters in run.translate(_LEET) for run in re.findall(r"\w{4,80}", said.text) if not run.isalpha()):
        return True
    return re.search(rf"(?<!\w){'[ ._-]'.join(map(re.escape, letters))}(?!\w)", said.text) is not None


def _person(name: str, said: FoldedText) -> bool:
    """Whether a person is named. A name that is also a word of everybody's counts where it is written as a name."""
    plain = fold(name).text
    if plain in ORDINARY:
        return re.search(rf"(?<=[^.!?:\n] ){re.escape(name)}(?!\w)", said.cased) is not None
    form = r"[^\w\n]{0,3}".join(map(re.escape, plain.split()))
    return re.search(rf"(?<![^\W\d_]){form}s?(?![^\W\d_])", said.text) is not None


def _word(name: str) -> str:
    parts = re.split("[-_]", fold(name).text)
    return rf"(?<![\w.-]){'[-_]'.join(map(re.escape, parts))}(?![\w-])"


def _shapes(plain: str) -> Iterator[Leak]:
    yield from (Leak(kind, found[0][:80]) for kind, shape in _SHAPES for found in shape.finditer(plain))


def _addresses(plain: str) -> Iterator[Leak]:
    """Of IPv6; a time of day is none."""
    for found in _IPV6.findall(plain):
        with contextlib.suppress(ValueError):
            yield Leak("an address", str(IPv6Address(found)))
