"""What a text of ours must not carry to a customer, by name of what it is. Pure; a text with any of it is not sent.

It is a net for slips, not a proof: what crosses by itself is made by leaving out (`bot.cards.customers.view`), and a person reads what they send.
"""

import re
import unicodedata
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
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
_SHAPES: tuple[tuple[Kind, re.Pattern[str]], ...] = (
    ("a person", re.compile(r"<@[A-Z0-9]{2,20}[^>]{0,80}>|(?<![\w.])[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,4}")),
    (
        "an address",
        re.compile(r"(?<![\w.])(?:\d{1,3}\.){3}\d{1,3}(?![\w.])|(?<![\w:])(?:[0-9a-f]{2}:){5}[0-9a-f]{2}(?![\w:])", re.IGNORECASE),
    ),
    ("an internal word", re.compile(r"(?<![\w-])apr-[0-9a-f]{6,}(?![\w-])|<!?subteam|<#[A-Z0-9]{2,20}")),
)
_UNSEEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
_INCIDENT = re.compile(r"(?<![\w-])inc-[0-9a-f]{6}(?![\w-])")
_RANGE = re.compile(r"[A-Za-z][\w.-]{0,60}\[[0-9,-]{1,60}\][\w.-]{0,60}")


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

    def leaks(self, text: str) -> tuple[Leak, ...]:
        """Everything in a text that must not cross, each once, in the order of the kinds."""
        plain = _plain(text[:LONGEST_READ])
        found = [*self._names(plain), *self._hosts(plain), *_shapes(plain), *self._incidents(plain)]
        secret = [Leak("a secret")] if redact(text) != text else []
        return tuple(dict.fromkeys((*found, *secret)))

    def _names(self, plain: str) -> Iterator[Leak]:
        yield from (Leak("another customer", name) for name in _named(plain, self._others))
        yield from (Leak("a person", name) for name in _named(plain, [part for name in self.people for part in (name, *name.split())]))
        yield from (Leak("an internal word", word) for word in _named(plain, INTERNAL))

    def _hosts(self, plain: str) -> Iterator[Leak]:
        yield from (Leak("a machine that is not theirs", name) for name in _named(plain, self._machines))
        foreign = {name.casefold() for name in self._machines}
        for found in _RANGE.findall(plain):
            if any(name.casefold() in foreign for name in _expanded(found)):
                yield Leak("a machine that is not theirs", found)

    def _incidents(self, plain: str) -> Iterator[Leak]:
        yield from (Leak("another incident", name) for name in _INCIDENT.findall(plain) if name != self.incident)

    @cached_property
    def _others(self) -> tuple[str, ...]:
        rows = (*(host.tenant for host in self.inventory.hosts.values()), *(row.tenant for row in self.inventory.channels))
        return tuple({name for name in rows if name and name.casefold() != self.tenant.casefold()})

    @cached_property
    def _machines(self) -> tuple[str, ...]:
        """Hosts of others and of ourselves, what they are reached by, and the switches above all of them."""
        foreign = [host for host in self.inventory.hosts.values() if host.tenant != self.tenant]
        shared = {name for host in self.inventory.hosts.values() for name in (host.leaf, host.controller, host.jump) if name}
        theirs = {name for host in self.inventory.hosts.values() if host.tenant == self.tenant for name in (host.name, host.called)}
        named = {name for host in foreign for name in (host.name, host.address, host.alias) if name}
        return tuple((named | shared) - theirs)


def _plain(text: str) -> str:
    """As a reader sees it: what is not visible gone, look-alike forms of letters as the letters."""
    return "".join(char for char in unicodedata.normalize("NFKC", text) if char in "\n\t" or unicodedata.category(char) not in _UNSEEN)


def _shapes(plain: str) -> Iterator[Leak]:
    yield from (Leak(kind, found[0][:80]) for kind, shape in _SHAPES for found in shape.finditer(plain))


def _named(plain: str, names: Iterable[str]) -> Iterator[str]:
    lowered = plain.casefold()
    for name in sorted({name for name in names if len(name) >= SHORTEST_NAME}):
        at = lowered.find(name.casefold())
        if at >= 0 and re.search(_WORD.format(re.escape(name)), plain, re.IGNORECASE):
            yield name


def _expanded(text: str) -> tuple[str, ...]:
    try:
        return tuple(expand(text))
    except BadRange:
        return ()
