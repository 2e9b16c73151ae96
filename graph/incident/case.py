"""One incident as the nodes read it: rows instead of dicts, facts fetched by digest, the engine applied. Keeps nothing between calls."""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from functools import cached_property, partial
from typing import Any, cast

from graph.conversation.said import Said, said_of
from graph.engine.assess import Assessment, assess
from graph.engine.reference import Lens, Place, profiles, strangers
from graph.engine.rises import with_rises
from graph.engine.walk import Walk
from graph.incident.visible import scope_of
from graph.ports import Ports
from graph.reading.complaints import measured_complaints
from graph.rows import IncidentRows, read_ladders
from graph.state import CUSTOMER, SIDE, Incident, ItemKind, Ladder, Origin
from tools.fact import FROM_FILE, Fact, Status, Value
from tools.inventory.hosts import Inventory
from tools.inventory.jobs import WhyNowhere
from tools.inventory.nearest import UnknownName, unknown_names
from tools.inventory.ranges import expand, fold

DIAGNOSED: frozenset[ItemKind] = frozenset({"mention", "reply", "attach", "recheck"})
"""Items that make us look; all others are answered from what is known."""

MOST_RECENT = 6
"""Fact snapshots and assessments kept in memory."""

MANY = 4000
"""Facts whose weighing takes long enough for others to notice."""

MOST_UNNAMED = 64
"""Hosts looked at when the reporter named none: a small channel's whole fleet, but never a large one's."""


@dataclass(frozen=True, slots=True)
class Turn:
    """What one turn carries from node to node, small and plain. A node that learns something returns a new one."""

    hosts: str = ""
    """Folded names of the hosts in question."""
    named: bool = False
    """Whether people named them; otherwise they are all that the channel may see."""
    priors: Mapping[str, float] = field(default_factory=dict)
    moves: str = ""
    """Who moved which belief beside facts, and by how much (`graph.reasoning.moves`, as stored)."""
    past: tuple[str, ...] = ()
    """Labels of the two most similar incidents."""
    reading: Mapping[str, float] = field(default_factory=dict)
    """Labels that a model's last reading finds likely, each with its probability."""
    outside: str = ""
    """The cause in a model's words, where its last reading found none of the labels near it."""
    recalled: tuple[Mapping[str, Any], ...] = ()
    """Lessons that were alike, in this turn or an earlier one (`RecalledLesson`, as stored)."""
    guide: Mapping[str, Any] = field(default_factory=dict)
    """The guide that runs, and how far it is (`graph.incident.guiding.running`, as stored)."""
    asked_model: tuple[str, ...] = ()
    without_model: str = ""
    again: int = 0
    """Times the same was looked at again, because some faults come and go."""
    cut: str = ""
    """Why looking ended early: somebody said stop, or news came."""
    questions: tuple[str, ...] = ()
    doubts: tuple[str, ...] = ()
    """What a second reading holds against causes that stand by little."""
    asked: tuple[str, ...] = ()
    """Questions that people were asked so far: what was answered is not asked again."""
    began: str = ""
    about: str = ""
    """Folded names of the hosts that the item asks about for their own sake."""
    question: bool = False
    """Whether it asks how they are."""
    only: bool = False
    """People named these hosts as the only ones: no others are looked at."""
    unknown: tuple[str, ...] = ()
    """What was named as a host and is none of the visible ones."""
    read_as: Mapping[str, str] = field(default_factory=dict)
    """Names as they were written → the hosts that they were taken for."""
    unknown_job: str = ""
    """A job that was named and that no scheduler could place."""
    why_nowhere: WhyNowhere = ""
    """Why none could."""
    refused: bool = False
    """Nothing of what was asked about is known: nothing is looked at, and nothing changes."""
    narrow: bool = False
    """Only what decided before is looked at again."""
    news: bool = False
    """Only what news point to is looked at."""
    said: Mapping[str, Any] = field(default_factory=dict)
    """What a model understood where the rules did not (`Said`, as stored)."""
    kind: str = ""
    """What the item became by that, or by the files that came with it; empty where it is what it came as."""
    files: tuple[Mapping[str, Any], ...] = ()
    """The files that came with it, acknowledged (`FileRead`, as stored), until they are reported."""

    @classmethod
    def read(cls, state: Incident) -> "Turn":
        """The inverse of `write`."""
        stored: dict[str, Any] = state.get("turn") or {}
        return cls(**{name: _frozen(value) for name, value in stored.items()})

    def write(self) -> dict[str, Any]:
        """Plain JSON, defaults left out."""
        blank = asdict(Turn())
        changed = {name: value for name, value in asdict(self).items() if value != blank[name]}
        return {name: list(value) if isinstance(value, tuple) else value for name, value in changed.items()}

    def declined(self, reason: str) -> "Turn":
        """No model helped; the first reason is the one that is told."""
        return replace(self, without_model=self.without_model or reason)


@dataclass(frozen=True)
class Case(IncidentRows):
    """Everything known about an incident as a turn goes on: its rows, where the turn stands, and what was seen."""

    turn: Turn
    visible: tuple[str, ...]
    """Hosts that the place where the incident lives may speak of."""
    names: Mapping[str, str] = field(default_factory=dict)
    """Every name under which people speak of them → the host."""
    groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Groups that it may speak of, each with those of its hosts that it may."""
    snapshot: str = ""
    """Digest of `facts`."""
    facts: Sequence[Fact] = ()
    late: frozenset[str] = frozenset()
    """The ids of ladders that wait for others to go first."""

    @cached_property
    def ladders(self) -> list[Ladder]:
        rows = read_ladders(self.stored.get("ladders", []))
        return [row.model_copy(update={"late": True}) if row.id in self.late else row for row in rows]

    @property
    def nameable(self) -> tuple[str, ...]:
        """What may be meant by a name that nobody knows."""
        return (*self.visible, *self.groups)

    def unknown(self, names: Iterable[str]) -> tuple[UnknownName, ...]:
        """What is said of names that nobody knows. Of what a customer wrote: that they are none of theirs; they may be another's."""
        origin = self.origin
        theirs = origin is not None and origin.customer is not None and self.item.data.get(SIDE) == CUSTOMER
        return unknown_names(names, self.nameable, origin.tenant if origin and theirs else "")

    @property
    def asked(self) -> tuple[str, ...]:
        """The hosts that the item asks about, else those that people named; what is found there comes first."""
        return tuple(expand(self.turn.about)) or self.brief.hosts

    @property
    def reader(self) -> str | None:
        """The customer whom it may be told to; None where it is our own people's."""
        origin = self.origin
        return None if origin is None or not (origin.tenant or origin.customer) else origin.tenant

    @property
    def in_question(self) -> tuple[str, ...]:
        """The hosts that people named, else a small channel's whole fleet; none where somebody named only hosts that nobody knows."""
        if self.brief.hosts or self.brief.unknown_hosts:
            return self.brief.hosts
        return self.visible if len(self.visible) <= MOST_UNNAMED else ()

    @cached_property
    def message(self) -> Said:
        """What the item's message was understood as; not understood where it is none."""
        if self.turn.said:
            return Said.model_validate({**self.turn.said, "text": self.item.text})
        return said_of(self.item) or Said(text=self.item.text)

    @property
    def kind(self) -> ItemKind:
        """What the item is to this turn."""
        return cast(ItemKind, self.turn.kind or self.item.kind)

    @property
    def looks(self) -> bool:
        """Whether this turn looks at hosts; otherwise it answers from what is known."""
        return self.kind in DIAGNOSED

    @property
    def stands(self) -> bool:
        """The item names only what nobody knows, and something was reported before: that stays as it is."""
        return self.turn.refused and self.report is not None

    @property
    def opened(self) -> datetime:
        return self.opened_at or self.item.at

    @property
    def measured(self) -> tuple[tuple[str, ...], ...]:
        """The exclusive checks that measure exactly what people complain of."""
        return measured_complaints(self.brief.text, self.brief.symptoms)

    @property
    def onset(self) -> datetime:
        """When the trouble began: as people say, at the latest when they reported it."""
        return min(self.opened, self.brief.since) if self.brief.since else self.opened

    @cached_property
    def hosts(self) -> tuple[str, ...]:
        """Hosts in question."""
        return tuple(expand(self.turn.hosts))

    @cached_property
    def asks(self) -> list[tuple[str, str]]:
        """(host, check) pairs that `plan` chose for `execute`."""
        return asks_of(self.stored.get("to_look", []))

    @cached_property
    def walk(self) -> Walk:
        return Walk.read(self.stored.get("walk") or {})


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


async def read_case(state: Incident, ports: Ports) -> Case:
    """The incident; a fact snapshot that has expired reads as nothing looked at yet."""
    sha256 = state.get("facts", "")
    rows = IncidentRows(state)
    scope = scope_of(ports.inventory, rows.origin or Origin(), rows.item, rows.brief.hosts)
    late = await ports.late(state.get("id", "")) if len(state.get("ladders", ())) > 1 else frozenset[str]()
    return Case(state, Turn.read(state), scope.hosts, scope.names, scope.groups, sha256, await _facts(sha256, ports), late)


async def _facts(sha256: str, ports: Ports) -> list[Fact]:
    """A snapshot; the nodes of one turn read the same one."""
    if sha256 not in ports.recent:
        try:
            _remember(ports, sha256, await ports.evidence.facts(sha256))
        except KeyError:
            return []
    return cast("list[Fact]", ports.recent[sha256])


def _remember(ports: Ports, name: object, value: object) -> None:
    ports.recent[name] = value
    while len(ports.recent) > MOST_RECENT:
        ports.recent.pop(next(iter(ports.recent)))


def lens_of(ports: Ports, facts: Sequence[Fact]) -> Lens:
    """What this incident's facts are read against."""
    profile = profiles(ports.inventory, ports.skus, facts)

    def expected(host: str, key: str, device: str | None) -> Value:
        sku = profile(host)
        return sku.expected(key, device) if sku else None

    def bus(host: str) -> tuple[str, ...]:
        sku = profile(host)
        return sku.bus if sku else ()

    leaves = {fact.host: str(fact.value) for fact in facts if fact.key == "fabric.leaf" and fact.value}

    def place(host: str, kind: Place) -> str:
        row = ports.inventory.hosts.get(host)
        if kind == "rack":
            return row.rack if row else ""
        return leaves.get(host) or (row.leaf if row else "")

    stranger, kind = strangers(profile, facts), kind_of(ports.inventory)
    workers = frozenset(ports.inventory.workers)
    return Lens(ports.taxonomy.decidable, ports.fleet.checks, expected, place, bus, stranger, kind, workers.__contains__)


def kind_of(inventory: Inventory) -> Callable[[str], str]:
    """Hosts of one group and one model should be alike."""

    def kind(host: str) -> str:
        row = inventory.hosts.get(host)
        return f"{row.group}/{row.sku}" if row else ""

    return kind


async def weigh(case: Case, ports: Ports) -> Assessment:
    """The engine's view of the incident now. Nodes that see the same facts and priors share it. The facts of many hosts are weighed beside
    the loop, which others wait for."""
    turn, symptoms = case.turn, case.brief.symptoms
    name = (case.snapshot, turn.hosts, tuple(sorted(turn.priors.items())), case.onset, symptoms, case.asked, case.measured)
    if name not in ports.recent:
        weighing = partial(_weighed, case, ports)
        _remember(ports, name, await asyncio.to_thread(weighing) if len(case.facts) > MANY else weighing())
    return cast("Assessment", ports.recent[name])


def _weighed(case: Case, ports: Ports) -> Assessment:
    turn = case.turn
    now = assess(
        case.facts, lens_of(ports, case.facts), case.hosts, turn.priors, case.onset, case.brief.symptoms, case.asked, case.measured
    )
    return now.judged()


def merged(old: Sequence[Fact], new: Sequence[Fact]) -> list[Fact]:
    """A newer answer of a check on a host replaces the older one whole; what people handed in adds up."""
    fresh = {(fact.host, fact.check) for fact in new if fact.host}
    known = {_same(f) for f in old if not f.host}
    added = _still_blocked(old, with_rises(old, [f for f in new if f.host or _same(f) not in known]))
    return [fact for fact in old if (fact.host, fact.check) not in fresh] + added


def _still_blocked(old: Sequence[Fact], new: Sequence[Fact]) -> list[Fact]:
    """The newer facts; a process that waited in the kernel in the look before and still does is known to wait, and in how many looks."""
    before = {(fact.host, fact.attrs.get("pid")): fact for fact in old if fact.key == "proc.blocked" and fact.status is Status.OK}

    def counted(fact: Fact) -> Fact:
        was = before.get((fact.host, fact.attrs.get("pid"))) if fact.key == "proc.blocked" and fact.status is Status.OK else None
        if was is None:
            return fact
        looks = int(was.attrs.get("looks") or 1) + (fact.time != was.time)
        return replace(fact, attrs={**fact.attrs, "looks": looks})

    return [counted(fact) for fact in new] if before else list(new)


def _same(fact: Fact) -> tuple[object, ...]:
    """What tells two facts that were handed in apart; what one of our own people hands in is not what a customer does."""
    by = (fact.attrs.get(FROM_FILE) or {}).get("by")
    return fact.line, fact.key, fact.device, repr(fact.value), by


def asks_of(rows: Sequence[Mapping[str, str]]) -> list[tuple[str, str]]:
    """Unfolded: (host, check)."""
    return [(host, row["check"]) for row in rows for host in expand(row["hosts"])]


def folded_asks(asks: Sequence[tuple[str, str]]) -> list[dict[str, str]]:
    """Folded for the state: one row a set of hosts and check."""
    by_check: dict[str, list[str]] = {}
    for host, check in asks:
        by_check.setdefault(check, []).append(host)
    return [{"hosts": fold(hosts), "check": check} for check, hosts in by_check.items()]
