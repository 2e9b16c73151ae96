"""One incident as the nodes read it: rows instead of dicts, facts fetched by digest, the engine applied. Keeps nothing between calls."""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from functools import cached_property, partial
from typing import Any, cast

from graph.context import GraphContext
from graph.dialogue.said import ParsedMessage, get_parsed_message
from graph.engine.assessment import Assessment, assess_facts
from graph.engine.counter_rises import mark_counter_rises
from graph.engine.reference_data import PlaceKind, ReferenceData, build_profile_lookup, build_unprofiled_lookup
from graph.engine.taxonomy_search import TaxonomySearch
from graph.extraction.complaints import find_measuring_checks
from graph.incident.visibility import build_host_scope
from graph.incident_view import IncidentView, parse_remediations
from graph.state import SIDE_KEY, TENANT_SIDE, InboxItemKind, IncidentState, Origin, Remediation
from tools.fact import FROM_FILE, Fact, Status, Value
from tools.inventory.host_ranges import expand_host_range, fold_host_names
from tools.inventory.inventory import Inventory
from tools.inventory.job_lookup import NoHostsReason
from tools.inventory.name_suggestions import UnknownName, find_suggestions

DIAGNOSING_KINDS: frozenset[InboxItemKind] = frozenset({"mention", "reply", "attach", "recheck"})
"""Items that make us look; all others are answered from what is known."""

MAX_CACHED_RESULTS = 6
"""Fact snapshots and assessments kept in memory."""

MANY_FACTS = 4000
"""Facts whose weighing takes long enough for others to notice."""

MAX_UNNAMED_HOSTS = 64
"""Hosts looked at when the reporter named none: a small channel's whole fleet, but never a large one's."""


@dataclass(frozen=True, slots=True)
class TurnState:
    """What one turn carries from node to node, small and plain. A node that learns something returns a new one."""

    hosts: str = ""
    """Folded names of the hosts in question."""
    named: bool = False
    """Whether people named them; otherwise they are all that the channel may see."""
    priors: Mapping[str, float] = field(default_factory=dict)
    moves: str = ""
    """Who moved which belief beside facts, and by how much (`graph.provenance.belief_shifts`, as stored)."""
    past: tuple[str, ...] = ()
    """Labels of the two most similar incidents."""
    reading: Mapping[str, float] = field(default_factory=dict)
    """Labels that a model's last reading finds likely, each with its probability."""
    outside: str = ""
    """The cause in a model's words, where its last reading found none of the labels near it."""
    recalled: tuple[Mapping[str, Any], ...] = ()
    """Lessons that were alike, in this turn or an earlier one (`MatchedLesson`, as stored)."""
    guide: Mapping[str, Any] = field(default_factory=dict)
    """The guide that runs, and how far it is (`graph.incident.guiding.guide_run`, as stored)."""
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
    why_nowhere: NoHostsReason = ""
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
    """The files that came with it, acknowledged (`FileReadResult`, as stored), until they are reported."""

    @classmethod
    def from_state(cls, state: IncidentState) -> "TurnState":
        """The inverse of `write`."""
        stored: dict[str, Any] = state.get("turn") or {}
        return cls(**{name: _freeze_list(value) for name, value in stored.items()})

    def to_json(self) -> dict[str, Any]:
        """Plain JSON, defaults left out."""
        blank = asdict(TurnState())
        changed = {name: value for name, value in asdict(self).items() if value != blank[name]}
        return {name: list(value) if isinstance(value, tuple) else value for name, value in changed.items()}

    def with_model_declined(self, reason: str) -> "TurnState":
        """No model helped; the first reason is the one that is told."""
        return replace(self, without_model=self.without_model or reason)


@dataclass(frozen=True)
class IncidentContext(IncidentView):
    """Everything known about an incident as a turn goes on: its rows, where the turn stands, and what was seen."""

    turn: TurnState
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
    def remediations(self) -> list[Remediation]:
        rows = parse_remediations(self.stored.get("ladders", []))
        return [row.model_copy(update={"late": True}) if row.id in self.late else row for row in rows]

    @property
    def nameable_targets(self) -> tuple[str, ...]:
        """What may be meant by a name that nobody knows."""
        return (*self.visible, *self.groups)

    def find_unknown_names(self, names: Iterable[str]) -> tuple[UnknownName, ...]:
        """What is said of names that nobody knows. Of what a customer wrote: that they are none of theirs; they may be another's."""
        origin = self.origin
        theirs = origin is not None and origin.customer is not None and self.item.data.get(SIDE_KEY) == TENANT_SIDE
        return find_suggestions(names, self.nameable_targets, origin.tenant if origin and theirs else "")

    @property
    def asked_hosts(self) -> tuple[str, ...]:
        """The hosts that the item asks about, else those that people named; what is found there comes first."""
        return tuple(expand_host_range(self.turn.about)) or self.brief.hosts

    @property
    def audience_tenant(self) -> str | None:
        """The customer whom it may be told to; None where it is our own people's."""
        origin = self.origin
        return None if origin is None or not (origin.tenant or origin.customer) else origin.tenant

    @property
    def hosts_in_question(self) -> tuple[str, ...]:
        """The hosts that people named, else a small channel's whole fleet; none where somebody named only hosts that nobody knows."""
        if self.brief.hosts or self.brief.unknown_hosts:
            return self.brief.hosts
        return self.visible if len(self.visible) <= MAX_UNNAMED_HOSTS else ()

    @cached_property
    def message(self) -> ParsedMessage:
        """What the item's message was understood as; not understood where it is none."""
        if self.turn.said:
            return ParsedMessage.model_validate({**self.turn.said, "text": self.item.text})
        return get_parsed_message(self.item) or ParsedMessage(text=self.item.text)

    @property
    def kind(self) -> InboxItemKind:
        """What the item is to this turn."""
        return cast(InboxItemKind, self.turn.kind or self.item.kind)

    @property
    def looks_at_hosts(self) -> bool:
        """Whether this turn looks at hosts; otherwise it answers from what is known."""
        return self.kind in DIAGNOSING_KINDS

    @property
    def keeps_last_report(self) -> bool:
        """The item names only what nobody knows, and something was reported before: that stays as it is."""
        return self.turn.refused and self.report is not None

    @property
    def opened(self) -> datetime:
        return self.opened_at or self.item.at

    @property
    def complaint_checks(self) -> tuple[tuple[str, ...], ...]:
        """The exclusive checks that measure exactly what people complain of."""
        return find_measuring_checks(self.brief.text, self.brief.symptoms)

    @property
    def onset(self) -> datetime:
        """When the trouble began: as people say, at the latest when they reported it."""
        return min(self.opened, self.brief.since) if self.brief.since else self.opened

    @cached_property
    def hosts(self) -> tuple[str, ...]:
        """Hosts in question."""
        return tuple(expand_host_range(self.turn.hosts))

    @cached_property
    def planned_asks(self) -> list[tuple[str, str]]:
        """(host, check) pairs that `plan` chose for `execute`."""
        return unfold_asks(self.stored.get("to_look", []))

    @cached_property
    def walk(self) -> TaxonomySearch:
        return TaxonomySearch.from_json(self.stored.get("walk") or {})


def _freeze_list(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


async def load_incident_context(state: IncidentState, ports: GraphContext) -> IncidentContext:
    """The incident; a fact snapshot that has expired reads as nothing looked at yet."""
    sha256 = state.get("facts", "")
    rows = IncidentView(state)
    scope = build_host_scope(ports.inventory, rows.origin or Origin(), rows.item, rows.brief.hosts)
    late = await ports.late(state.get("id", "")) if len(state.get("ladders", ())) > 1 else frozenset[str]()
    return IncidentContext(
        state, TurnState.from_state(state), scope.hosts, scope.names, scope.groups, sha256, await _load_facts(sha256, ports), late
    )


async def _load_facts(sha256: str, ports: GraphContext) -> list[Fact]:
    """A snapshot; the nodes of one turn read the same one."""
    if sha256 not in ports.recent:
        try:
            _cache_result(ports, sha256, await ports.evidence.get_facts(sha256))
        except KeyError:
            return []
    return cast("list[Fact]", ports.recent[sha256])


def _cache_result(ports: GraphContext, name: object, value: object) -> None:
    ports.recent[name] = value
    while len(ports.recent) > MAX_CACHED_RESULTS:
        ports.recent.pop(next(iter(ports.recent)))


def build_reference_data(ports: GraphContext, facts: Sequence[Fact]) -> ReferenceData:
    """What this incident's facts are read against."""
    profile = build_profile_lookup(ports.inventory, ports.skus, facts)

    def expected(host: str, key: str, device: str | None) -> Value:
        sku = profile(host)
        return sku.get_expected(key, device) if sku else None

    def bus(host: str) -> tuple[str, ...]:
        sku = profile(host)
        return sku.bus if sku else ()

    leaves = {fact.host: str(fact.value) for fact in facts if fact.key == "fabric.leaf" and fact.value}

    def place(host: str, kind: PlaceKind) -> str:
        row = ports.inventory.hosts.get(host)
        if kind == "rack":
            return row.rack if row else ""
        return leaves.get(host) or (row.leaf if row else "")

    stranger, kind = build_unprofiled_lookup(profile, facts), build_kind_lookup(ports.inventory)
    workers = frozenset(ports.inventory.workers)
    return ReferenceData(ports.taxonomy.decidable, ports.fleet.checks, expected, place, bus, stranger, kind, workers.__contains__)


def build_kind_lookup(inventory: Inventory) -> Callable[[str], str]:
    """Hosts of one group and one model should be alike."""

    def kind(host: str) -> str:
        row = inventory.hosts.get(host)
        return f"{row.group}/{row.sku}" if row else ""

    return kind


async def assess_incident(case: IncidentContext, ports: GraphContext) -> Assessment:
    """The engine's view of the incident now. Nodes that see the same facts and priors share it. The facts of many hosts are weighed beside
    the loop, which others wait for."""
    turn, symptoms = case.turn, case.brief.symptoms
    name = (case.snapshot, turn.hosts, tuple(sorted(turn.priors.items())), case.onset, symptoms, case.asked_hosts, case.complaint_checks)
    if name not in ports.recent:
        weighing = partial(_assess_now, case, ports)
        _cache_result(ports, name, await asyncio.to_thread(weighing) if len(case.facts) > MANY_FACTS else weighing())
    return cast("Assessment", ports.recent[name])


def _assess_now(case: IncidentContext, ports: GraphContext) -> Assessment:
    turn = case.turn
    now = assess_facts(
        case.facts,
        build_reference_data(ports, case.facts),
        case.hosts,
        turn.priors,
        case.onset,
        case.brief.symptoms,
        case.asked_hosts,
        case.complaint_checks,
    )
    return now.precompute_verdicts()


def merge_facts(old: Sequence[Fact], new: Sequence[Fact]) -> list[Fact]:
    """A newer answer of a check on a host replaces the older one whole; what people handed in adds up."""
    fresh = {(fact.host, fact.check) for fact in new if fact.host}
    known = {_get_fact_identity(f) for f in old if not f.host}
    added = _mark_still_blocked(old, mark_counter_rises(old, [f for f in new if f.host or _get_fact_identity(f) not in known]))
    return [fact for fact in old if (fact.host, fact.check) not in fresh] + added


def _mark_still_blocked(old: Sequence[Fact], new: Sequence[Fact]) -> list[Fact]:
    """The newer facts; a process that waited in the kernel in the look before and still does is known to wait, and in how many looks."""
    before = {(fact.host, fact.attrs.get("pid")): fact for fact in old if fact.key == "proc.blocked" and fact.status is Status.OK}

    def counted(fact: Fact) -> Fact:
        was = before.get((fact.host, fact.attrs.get("pid"))) if fact.key == "proc.blocked" and fact.status is Status.OK else None
        if was is None:
            return fact
        looks = int(was.attrs.get("looks") or 1) + (fact.time != was.time)
        return replace(fact, attrs={**fact.attrs, "looks": looks})

    return [counted(fact) for fact in new] if before else list(new)


def _get_fact_identity(fact: Fact) -> tuple[object, ...]:
    """What tells two facts that were handed in apart; what one of our own people hands in is not what a customer does."""
    by = (fact.attrs.get(FROM_FILE) or {}).get("by")
    return fact.line, fact.key, fact.device, repr(fact.value), by


def unfold_asks(rows: Sequence[Mapping[str, str]]) -> list[tuple[str, str]]:
    """Unfolded: (host, check)."""
    return [(host, row["check"]) for row in rows for host in expand_host_range(row["hosts"])]


def fold_asks(asks: Sequence[tuple[str, str]]) -> list[dict[str, str]]:
    """Folded for the state: one row a set of hosts and check."""
    by_check: dict[str, list[str]] = {}
    for host, check in asks:
        by_check.setdefault(check, []).append(host)
    return [{"hosts": fold_host_names(hosts), "check": check} for check, hosts in by_check.items()]
