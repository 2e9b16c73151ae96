"""One incident as the nodes read it: stored rows, facts by digest, and the assessment. Stateless between calls."""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from functools import cached_property, partial
from typing import Any, cast

from graph.context import GraphContext
from graph.dialogue.said import ParsedMessage, get_parsed_message
from graph.engine.assessment import Assessment, assess_facts
from graph.engine.check_selection import TaxonomySearch
from graph.engine.fact_history import mark_counter_rises
from graph.engine.reference_data import PlaceKind, ReferenceData, build_profile_lookup, build_unprofiled_lookup
from graph.extraction.complaints import find_measuring_checks
from graph.incident.visibility import build_host_scope
from graph.incident_view import IncidentView, parse_remediations
from graph.state import SIDE_KEY, TENANT_SIDE, InboxItemKind, IncidentState, Origin, Remediation
from tools.fact import FROM_FILE, Fact, Status, Value
from tools.inventory.host_ranges import expand_host_range, fold_host_names
from tools.inventory.inventory import Inventory
from tools.inventory.job_lookup import NoHostsReason
from tools.inventory.name_suggestions import UnknownName, find_suggestions

# item kinds that run checks; all others are answered from what is known
DIAGNOSING_KINDS: frozenset[InboxItemKind] = frozenset({"mention", "reply", "attach", "recheck"})

MAX_CACHED_RESULTS = 6  # fact snapshots and assessments kept in memory

MANY_FACTS = 4000  # from this many facts, assessing blocks the event loop noticeably

MAX_UNNAMED_HOSTS = 64  # hosts checked if the reporter names none: a small channel's whole fleet, never a large one's


@dataclass(frozen=True, slots=True)
class TurnState:
    """Immutable JSON-like state that one turn passes from node to node."""

    hosts: str = ""  # folded names of the hosts in question
    named: bool = False  # people named them; otherwise all that the channel may see
    priors: Mapping[str, float] = field(default_factory=dict)
    moves: str = ""  # who shifted which belief besides facts, and how far (`graph.provenance.reason_graph`, as stored)
    past: tuple[str, ...] = ()  # labels of the two most similar incidents
    reading: Mapping[str, float] = field(default_factory=dict)  # label → probability by the model's last reading
    outside: str = ""  # the model's own cause, if its last reading fits none of the labels
    # similar lessons, of this turn or an earlier one (`MatchedLesson`, as stored)
    recalled: tuple[Mapping[str, Any], ...] = ()
    # the running guide and its progress (`graph.incident.guides`, as stored)
    guide: Mapping[str, Any] = field(default_factory=dict)
    asked_model: tuple[str, ...] = ()
    without_model: str = ""
    again: int = 0  # repeated observations, as some faults are intermittent
    cut: str = ""  # kind of the item that ended the checks early: stop or news
    questions: tuple[str, ...] = ()
    doubts: tuple[str, ...] = ()  # the second reading's objections to weak causes
    asked: tuple[str, ...] = ()  # questions asked so far; none is asked twice
    began: str = ""
    about: str = ""  # folded names of hosts that the item asks about
    question: bool = False  # the item asks how they are
    only: bool = False  # people named these as the only hosts to check
    unknown: tuple[str, ...] = ()  # names given as hosts that match no visible one
    read_as: Mapping[str, str] = field(default_factory=dict)  # name as written → host it was taken for
    unknown_job: str = ""  # a named job that no scheduler could locate
    why_nowhere: NoHostsReason = ""  # why it could not be located
    refused: bool = False  # nothing named is known: no check runs, nothing changes
    narrow: bool = False  # only the checks that decided before run again
    news: bool = False  # only the checks that the news point to run
    # the model's parse where the rules failed (`ParsedMessage`, as stored)
    said: Mapping[str, Any] = field(default_factory=dict)
    kind: str = ""  # item kind after that parse, or because of its files; empty if unchanged
    files: tuple[Mapping[str, Any], ...] = ()  # acknowledged files not reported yet (`FileReadResult`, as stored)

    @classmethod
    def from_state(cls, state: IncidentState) -> "TurnState":
        stored: dict[str, Any] = state.get("turn") or {}
        return cls(**{name: _freeze_list(value) for name, value in stored.items()})

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON without defaults."""
        blank = asdict(TurnState())
        changed = {name: value for name, value in asdict(self).items() if value != blank[name]}
        return {name: list(value) if isinstance(value, tuple) else value for name, value in changed.items()}

    def with_model_declined(self, reason: str) -> "TurnState":
        """Record why no model helped; the first reason stays."""
        return replace(self, without_model=self.without_model or reason)


@dataclass(frozen=True)
class IncidentContext(IncidentView):
    """An incident during a turn: stored rows, turn state and facts."""

    turn: TurnState
    visible: tuple[str, ...]  # hosts that the incident's channel may speak of
    names: Mapping[str, str] = field(default_factory=dict)  # every name that people use → host
    groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # visible groups with their visible hosts
    snapshot: str = ""  # digest of `facts`
    facts: Sequence[Fact] = ()
    late: frozenset[str] = frozenset()  # ids of remediations that wait for others to go first

    @cached_property
    def remediations(self) -> list[Remediation]:
        rows = parse_remediations(self.stored.get("ladders", []))
        return [row.model_copy(update={"late": True}) if row.id in self.late else row for row in rows]

    @property
    def nameable_targets(self) -> tuple[str, ...]:
        """Candidates that an unknown name may mean."""
        return (*self.visible, *self.groups)

    def find_unknown_names(self, names: Iterable[str]) -> tuple[UnknownName, ...]:
        """Return unknown names with suggestions; a tenant learns only that a name is not theirs."""
        origin = self.origin
        is_tenant_side = origin is not None and origin.customer is not None and self.item.data.get(SIDE_KEY) == TENANT_SIDE
        return find_suggestions(names, self.nameable_targets, origin.tenant if origin and is_tenant_side else "")

    @property
    def asked_hosts(self) -> tuple[str, ...]:
        """Hosts that the item asks about, else those of the brief; their findings come first."""
        return tuple(expand_host_range(self.turn.about)) or self.brief.hosts

    @property
    def audience_tenant(self) -> str | None:
        """The tenant who reads the incident; None for operators."""
        origin = self.origin
        return None if origin is None or not (origin.tenant or origin.customer) else origin.tenant

    @property
    def hosts_in_question(self) -> tuple[str, ...]:
        """Hosts named, else a small channel's whole fleet; none if only unknown hosts were named."""
        if self.brief.hosts or self.brief.unknown_hosts:
            return self.brief.hosts
        return self.visible if len(self.visible) <= MAX_UNNAMED_HOSTS else ()

    @cached_property
    def message(self) -> ParsedMessage:
        """The parsed message of the item."""
        if self.turn.said:
            return ParsedMessage.model_validate({**self.turn.said, "text": self.item.text})
        return get_parsed_message(self.item) or ParsedMessage(text=self.item.text)

    @property
    def kind(self) -> InboxItemKind:
        return cast(InboxItemKind, self.turn.kind or self.item.kind)

    @property
    def looks_at_hosts(self) -> bool:
        """Whether this turn runs checks."""
        return self.kind in DIAGNOSING_KINDS

    @property
    def keeps_last_report(self) -> bool:
        """Whether the item names only unknown targets and an earlier report stays."""
        return self.turn.refused and self.report is not None

    @property
    def opened(self) -> datetime:
        return self.opened_at or self.item.at

    @property
    def complaint_checks(self) -> tuple[tuple[str, ...], ...]:
        """Exclusive checks that measure exactly the complaint."""
        return find_measuring_checks(self.brief.text, self.brief.symptoms)

    @property
    def onset(self) -> datetime:
        """When the trouble began: as reported, at the latest when it was reported."""
        return min(self.opened, self.brief.since) if self.brief.since else self.opened

    @cached_property
    def hosts(self) -> tuple[str, ...]:
        return tuple(expand_host_range(self.turn.hosts))

    @cached_property
    def planned_asks(self) -> list[tuple[str, str]]:
        return unfold_asks(self.stored.get("to_look", []))

    @cached_property
    def walk(self) -> TaxonomySearch:
        return TaxonomySearch.from_json(self.stored.get("walk") or {})


def _freeze_list(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


async def load_incident_context(state: IncidentState, ports: GraphContext) -> IncidentContext:
    """Load an incident; an expired fact snapshot counts as nothing observed."""
    sha256 = state.get("facts", "")
    rows = IncidentView(state)
    scope = build_host_scope(ports.inventory, rows.origin or Origin(), rows.item, rows.brief.hosts)
    late = await ports.late(state.get("id", "")) if len(state.get("ladders", ())) > 1 else frozenset[str]()
    return IncidentContext(
        state, TurnState.from_state(state), scope.hosts, scope.names, scope.groups, sha256, await _load_facts(sha256, ports), late
    )


async def _load_facts(sha256: str, ports: GraphContext) -> list[Fact]:
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
    """Build what this incident's facts are read against."""
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
    """Return a lookup of group and SKU; hosts of one kind should be alike."""

    def kind(host: str) -> str:
        row = inventory.hosts.get(host)
        return f"{row.group}/{row.sku}" if row else ""

    return kind


async def assess_incident(context: IncidentContext, ports: GraphContext) -> Assessment:
    """Assess the incident, cached for nodes with the same facts and priors; many facts are assessed in a thread."""
    turn, symptoms = context.turn, context.brief.symptoms
    name = (
        context.snapshot,
        turn.hosts,
        tuple(sorted(turn.priors.items())),
        context.onset,
        symptoms,
        context.asked_hosts,
        context.complaint_checks,
    )
    if name not in ports.recent:
        weighing = partial(_assess_now, context, ports)
        _cache_result(ports, name, await asyncio.to_thread(weighing) if len(context.facts) > MANY_FACTS else weighing())
    return cast("Assessment", ports.recent[name])


def _assess_now(context: IncidentContext, ports: GraphContext) -> Assessment:
    turn = context.turn
    now = assess_facts(
        context.facts,
        build_reference_data(ports, context.facts),
        context.hosts,
        turn.priors,
        context.onset,
        context.brief.symptoms,
        context.asked_hosts,
        context.complaint_checks,
    )
    return now.precompute_verdicts()


def merge_facts(old: Sequence[Fact], new: Sequence[Fact]) -> list[Fact]:
    """Replace older results of the same check and host; uploaded facts accumulate."""
    fresh = {(fact.host, fact.check) for fact in new if fact.host}
    known_identities = {_get_fact_identity(f) for f in old if not f.host}
    added = _mark_still_blocked(old, mark_counter_rises(old, [f for f in new if f.host or _get_fact_identity(f) not in known_identities]))
    return [fact for fact in old if (fact.host, fact.check) not in fresh] + added


def _mark_still_blocked(old: Sequence[Fact], new: Sequence[Fact]) -> list[Fact]:
    """Count in `looks` the observations in which the same process was blocked."""
    before = {(fact.host, fact.attrs.get("pid")): fact for fact in old if fact.key == "proc.blocked" and fact.status is Status.OK}

    def counted(fact: Fact) -> Fact:
        was = before.get((fact.host, fact.attrs.get("pid"))) if fact.key == "proc.blocked" and fact.status is Status.OK else None
        if was is None:
            return fact
        look_count = int(was.attrs.get("looks") or 1) + (fact.time != was.time)
        return replace(fact, attrs={**fact.attrs, "looks": look_count})

    return [counted(fact) for fact in new] if before else list(new)


def _get_fact_identity(fact: Fact) -> tuple[object, ...]:
    """Return what identifies an uploaded fact; a tenant's differs from an operator's."""
    uploader = (fact.attrs.get(FROM_FILE) or {}).get("by")
    return fact.line, fact.key, fact.device, repr(fact.value), uploader


def unfold_asks(rows: Sequence[Mapping[str, str]]) -> list[tuple[str, str]]:
    return [(host, row["check"]) for row in rows for host in expand_host_range(row["hosts"])]


def fold_asks(asks: Sequence[tuple[str, str]]) -> list[dict[str, str]]:
    """Fold (host, check) pairs into one row per check."""
    by_check: dict[str, list[str]] = {}
    for host, check in asks:
        by_check.setdefault(check, []).append(host)
    return [{"hosts": fold_host_names(hosts), "check": check} for check, hosts in by_check.items()]
