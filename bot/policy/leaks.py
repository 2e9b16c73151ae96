"""What a text of ours must not carry to a customer, by name of what it is. Pure; a text with any of it is not sent.

It is a net for slips, not a proof: what crosses by itself is made by leaving out (`bot.cards.customers.view`), and a person reads what they send.
"""

import contextlib
import re
import unicodedata
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from ipaddress import IPv6Address
from typing import Literal

from kb.redact import redact
from tools.inventory.hosts import Inventory
from tools.inventory.ranges import BadRange, expand

Kind = Literal[
    "another customer", "a machine that is not theirs", "a person", "a secret", "an internal word", "an address", "another incident"
]
SHORTEST_NAME = 3
"""Shorter names would be found in any text."""
LONGEST_READ = 6000
"""Characters; a text to a customer is shorter."""
INTERNAL = (
    *(
        "scontrol",
        "scancel",
        "sacctmgr",
        "ipmitool",
        "kubectl",
        "systemctl",
        "modprobe",
        "sudo",
        "rackmedic-act",
        "rackmedic-look",
        "nvidia-smi -r",
    ),
    *(
        "bmc",
        "idrac",
        "approver",
        "approvers",
        "approved by",
        "break-glass",
        "runbook",
        "postmortem",
        "on-call",
        "oncall",
        "pager",
        "confidence",
    ),
)
"""Words of the inside: commands that we run, and how we decide."""
_WORD = r"(?<![\w.-]){}(?![\w-])"
_MACHINE = r"(?<!\w)(?<!\w[.-]){}(?!\w)"
"""Also in `gpu-001-Lüfter` and behind a dash of a list; `x-gpu-001` is another name."""
_CUSTOMER = r"(?<![^\W_]){}(?![^\W_])"
"""Also within words that are put together: `Globex-Cluster`."""
_SHAPES: tuple[tuple[Kind, re.Pattern[str]], ...] = (
    ("a person", re.compile(r"<@[A-Z0-9]{2,20}[^>]{0,80}>|(?<![\w.])[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,4}")),
    (
        "an address",
        re.compile(r"(?<![\w.])(?:\d{1,3}\.){3}\d{1,3}(?![\w.])|(?<![\w:])(?:[0-9a-f]{2}:){5}[0-9a-f]{2}(?![\w:])", re.IGNORECASE),
    ),
    ("an internal word", re.compile(r"(?<![\w-])apr-[0-9a-f]{6,}(?![\w-])|<!?subteam|<#[A-Z0-9]{2,20}")),
    (
        "an address",
        re.compile(
            r"\bhttps?://(?:[\w-]{1,63}(?=[:/?#\s]|$)|(?:[\w-]{1,63}\.){1,6}(?:internal|intern|intra|local|lan|corp|home\.arpa)(?![\w.-]))",
            re.IGNORECASE,
        ),
    ),
)
_UNSEEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
_INCIDENT = re.compile(r"(?<![\w-])inc-[0-9a-f]{6}(?![\w-])", re.IGNORECASE)
_IPV6 = re.compile(r"(?<![\w:])[0-9a-f]{0,4}:[0-9a-f:]{4,38}(?![\w:])", re.IGNORECASE)
_RANGE = re.compile(r"[A-Za-z][\w.-]{0,60}\[[0-9,-]{1,60}\][\w.-]{0,60}")
_NUMBERED = re.compile(r"(\S{0,80}?[^\d\s])(\d{1,9})")
_SPOKEN_RANGE = re.compile(
    r"(?<![\w.-])(?P<before>[A-Za-z](?:[\w-]{0,60}[A-Za-z_-])?)(?P<first>\d{1,6})[ \t]{0,2}(?:\.{2,3}|-|~|to|through|bis)[ \t]{0,2}"
    r"(?:(?P=before))?(?P<last>\d{1,6})(?![\w])"
)
"""`gpu-017..020`, `gpu-017 to gpu-020`: as people write what `gpu-[017-020]` says."""


@dataclass(frozen=True, slots=True)
class Leak:
    """One thing that must not cross: what it is, and the words as they stand in the text; a secret's are not repeated."""

    kind: Kind
    words: str = ""

    def __str__(self) -> str:
        return f"{self.kind} ({self.words})" if self.words else self.kind


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
        plain = _plain(text[:LONGEST_READ])
        others = self._but_theirs(plain)
        found = [*self._names(others), *self._hosts(others, plain), *_shapes(plain), *_addresses(plain), *self._incidents(plain)]
        secret = [Leak("a secret")] if redact(text) != text else []
        return tuple(dict.fromkeys((*found, *secret)))

    def _names(self, plain: str) -> Iterator[Leak]:
        yield from (Leak("another customer", name) for name in _named(plain, self._others, _CUSTOMER))
        yield from (Leak("a person", name) for name in _named(plain, [part for name in self.people for part in (name, *name.split())]))
        yield from (Leak("a person", name) for name in self._short_names if re.search(_WORD.format(re.escape(name)), plain))
        yield from (Leak("an internal word", word) for word in _named(plain, (*INTERNAL, *self._channels)))

    def _hosts(self, others: str, plain: str) -> Iterator[Leak]:
        """`others`: the text without their own names, with one of which a range into somebody else's may begin."""
        yield from (Leak("a machine that is not theirs", name) for name in _named(others, self._machines, _MACHINE))
        foreign = {name.casefold() for name in self._machines}
        for found in _RANGE.findall(plain):
            if any(name.casefold() in foreign for name in _expanded(found)):
                yield Leak("a machine that is not theirs", found)
        for spoken in _SPOKEN_RANGE.finditer(plain):
            numbers = self._numbered.get(spoken["before"].casefold(), ())
            if any(int(spoken["first"]) <= number <= int(spoken["last"]) for number in numbers):
                yield Leak("a machine that is not theirs", spoken[0])

    def _incidents(self, plain: str) -> Iterator[Leak]:
        theirs = (self.incident.casefold(), self.ticket.casefold())
        yield from (Leak("another incident", name) for name in _INCIDENT.findall(plain) if name.casefold() not in theirs)

    def _but_theirs(self, plain: str) -> str:
        """Without the customer's own names, which may hold a shorter one of somebody else's."""
        for name in sorted(self._theirs, key=len, reverse=True):
            if name.casefold() in plain.casefold():
                plain = re.sub(_WORD.format(re.escape(name)), " ", plain, flags=re.IGNORECASE)
        return plain

    @cached_property
    def _theirs(self) -> frozenset[str]:
        named = (name for host in self.inventory.hosts.values() if host.tenant == self.tenant for name in (host.name, host.called))
        return frozenset(name for name in (self.tenant, *named) if name)

    @cached_property
    def _others(self) -> tuple[str, ...]:
        rows = (*(host.tenant for host in self.inventory.hosts.values()), *(row.tenant for row in self.inventory.channels))
        return tuple({name for name in rows if name and name.casefold() != self.tenant.casefold()})

    @cached_property
    def _short_names(self) -> tuple[str, ...]:
        """`Bo` as it is written: in lower case it could be a word."""
        return tuple({part for name in self.people for part in name.split() if len(part) == SHORTEST_NAME - 1 and part[0].isupper()})

    @cached_property
    def _channels(self) -> tuple[str, ...]:
        """Ids and names of all channels but the customer's own."""
        rows = [row for row in self.inventory.channels if row.tenant != self.tenant]
        return tuple({word for row in rows for word in (row.channel, f"#{row.name.lstrip('#')}" if row.name else "") if word})

    @cached_property
    def _machines(self) -> tuple[str, ...]:
        """Hosts of others and of ourselves, what they are reached by, and the switches above all of them."""
        foreign = [host for host in self.inventory.hosts.values() if host.tenant != self.tenant]
        shared = {name for host in self.inventory.hosts.values() for name in (host.leaf, host.controller, host.jump) if name}
        named = {name for host in foreign for name in (host.name, host.address, host.alias) if name}
        return tuple((named | shared) - self._theirs)

    @cached_property
    def _numbered(self) -> dict[str, list[int]]:
        """Their numbers by what stands before them."""
        rows: dict[str, list[int]] = {}
        for name in self._machines:
            if found := _NUMBERED.fullmatch(name):
                rows.setdefault(found[1].casefold(), []).append(int(found[2]))
        return rows


def _plain(text: str) -> str:
    """As a reader sees it: what is not visible gone, look-alike forms of letters as the letters, every dash as the one on keyboards."""
    seen = (char for char in unicodedata.normalize("NFKC", text) if char in "\n\t" or unicodedata.category(char) not in _UNSEEN)
    return "".join("-" if char == "\u2212" or unicodedata.category(char) == "Pd" else char for char in seen)


def _shapes(plain: str) -> Iterator[Leak]:
    yield from (Leak(kind, found[0][:80]) for kind, shape in _SHAPES for found in shape.finditer(plain))


def _addresses(plain: str) -> Iterator[Leak]:
    """Of IPv6; a time of day is none."""
    for found in _IPV6.findall(plain):
        with contextlib.suppress(ValueError):
            yield Leak("an address", str(IPv6Address(found)))


def _named(plain: str, names: Iterable[str], stands: str = _WORD) -> Iterator[str]:
    lowered = plain.casefold()
    for name in sorted({name for name in names if len(name) >= SHORTEST_NAME}):
        at = lowered.find(name.casefold())
        if at >= 0 and re.search(stands.format(re.escape(name)), plain, re.IGNORECASE):
            yield name


def _expanded(text: str) -> tuple[str, ...]:
    try:
        return tuple(expand(text))
    except BadRange:
        return ()
