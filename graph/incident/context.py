"""An incident as the graph's nodes read it: its stored rows, its facts and its assessment."""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from functools import cached_property
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

# Item kinds that run checks. All others are answered from what is known.
DIAGNOSING_KINDS: frozenset[InboxItemKind] = frozenset({"mention", "reply", "attach", "recheck"})

MAX_CACHED_RESULTS = 6  # fact snapshots and assessments kept in memory

MAX_BLOCKING_FACTS = 4000  # above this many facts, an assessment would block the event loop noticeably

MAX_UNNAMED_HOSTS = 64  # hosts checked if the reporter names none: a small channel's whole fleet, never a large one's


@dataclass(frozen=True, slots=True)
class TurnState:
    """Immutable JSON-like state that one turn passes from node to node."""

    hosts: str = ""  # folded names of the hosts in question
    named: bool = False  # people named these hosts; otherwise they are all that the channel may see
    priors: Mapping[str, float] = field(default_factory=dict)
    moves: str = ""  # shifts of beliefs by others than facts (`graph.provenance.belief_shifts`, as stored)
    past: tuple[str, ...] = ()  # labels of the two most similar incidents
    reading: Mapping[str, float] = field(default_factory=dict)  # probability of each label by the model's last answer
    outside: str = ""  # the model's own cause, if its last answer fits none of the labels
    # similar lessons, of this turn or an earlier one (`MatchedLesson`, as stored)
    recalled: tuple[Mapping[str, Any], ...] = ()
    # the running guide and its progress (`graph.incident.guide_run`, as stored)
    guide: Mapping[str, Any] = field(default_factory=dict)
    asked_model: tuple[str, ...] = ()
    rereads: bool = False  # checks run that the model asked for, after which it reads the findings again
    without_model: str = ""
    again: int = 0  # how often the checks were repeated, as some faults are intermittent
    cut: str = ""  # kind of the item that ended the checks early: stop or news
    questions: tuple[str, ...] = ()
    doubts: tuple[str, ...] = ()  # the model's objections to weak causes
    asked: tuple[str, ...] = ()  # questions asked so far; none is asked twice
    began: str = ""
    about: str = ""  # folded names of hosts that the item asks about
    question: bool = False  # the item asks how the hosts in `about` are
    only: bool = False  # people named the hosts in `about` as the only ones to check
    unknown: tuple[str, ...] = ()  # names given as hosts that match no visible one
    read_as: Mapping[str, str] = field(default_factory=dict)  # name as written → host it was taken for
    unknown_job: str = ""  # a named job that no scheduler could locate
    why_nowhere: NoHostsReason = ""  # why the unknown job could not be located
    refused: bool = False  # nothing named is known: no check runs, nothing changes
    narrow: bool = False  # only the checks that decided before run again
    news: bool = False  # only the checks that news points to run
    # the model's parse of a message that the classifier did not understand (`ParsedMessage`, as stored)
    said: Mapping[str, Any] = field(default_factory=dict)
    kind: str = ""  # item kind after that parse, or because of its files; empty if unchanged
    files: tuple[Mapping[str, Any], ...] = ()  # acknowledged files not reported yet (`FileReadResult`, as stored)

    @classmethod
    def from_state(cls, state: IncidentState) -> "TurnState":
        stored: dict[str, Any] = state.get("turn") or {}
        return cls(**{name: _freeze_list(value) for name, value in stored.items()})

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON without defaults."""
        defaults = asdict(TurnState())
        changed = {name: value for name, value in asdict(self).items() if value != defaults[name]}
        return {name: list(value) if isinstance(value, tuple) else value for name, value in changed.items()}

    def with_model_declined(self, reason: str) -> "TurnState":
        """Record why no model helped. The first reason stays."""
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
        remediations = parse_remediations(self.stored.get("ladders", []))
        return [
            remediation.model_copy(update={"late": True}) if remediation.id in self.late else remediation for remediation in remediations
        ]

    @property
    def nameable_targets(self) -> tuple[str, ...]:
        """Hosts and groups that an unknown name may mean."""
        return (*self.visible, *self.groups)

    def find_unknown_names(self, names: Iterable[str]) -> tuple[UnknownName, ...]:
        """Return unknown names with suggestions. A tenant learns only that a name is not one of its own."""
        origin = self.origin
        is_tenant_side = self.is_tenant_incident and self.item.data.get(SIDE_KEY) == TENANT_SIDE
        return find_suggestions(names, self.nameable_targets, origin.tenant if origin and is_tenant_side else "")

    @property
    def asked_hosts(self) -> tuple[str, ...]:
        """Hosts that the item asks about, or else those of the brief. Their findings come first."""
        return tuple(expand_host_range(self.turn.about)) or self.brief.hosts

    @property
    def audience_tenant(self) -> str | None:
        """The tenant who reads the incident, or None if operators do."""
        if self.origin is None or not (self.origin.tenant or self.origin.customer):
            return None
        return self.origin.tenant

    @property
    def is_tenant_incident(self) -> bool:
        """Whether a tenant's channel is served."""
        return self.origin is not None and self.origin.customer is not None

    @property
    def has_open_ticket(self) -> bool:
        """Whether a person took the incident over and has not resolved it."""
        return self.ticket is not None and self.ticket.handed and self.ticket.state != "resolved"

    @property
    def hosts_in_question(self) -> tuple[str, ...]:
        """The named hosts, or else all hosts of a small channel. If only unknown hosts were named, there are none."""
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
        """When the trouble began: the reported time, but no later than the report."""
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


async def load_incident_context(state: IncidentState, graph_context: GraphContext) -> IncidentContext:
    """Load an incident. If its facts have expired, it counts as not observed."""
    snapshot = state.get("facts", "")
    incident_view = IncidentView(state)
    scope = build_host_scope(graph_context.inventory, incident_view.origin or Origin(), incident_view.item, incident_view.brief.hosts)
    late = await graph_context.late(state.get("id", "")) if len(state.get("ladders", ())) > 1 else frozenset[str]()
    return IncidentContext(
        state,
        turn=TurnState.from_state(state),
        visible=scope.hosts,
        names=scope.names,
        groups=scope.groups,
        snapshot=snapshot,
        facts=await _load_facts(snapshot, graph_context),
        late=late,
    )


async def _load_facts(sha256: str, graph_context: GraphContext) -> list[Fact]:
    if sha256 not in graph_context.recent:
        try:
            _cache_result(graph_context, sha256, await graph_context.evidence.get_facts(sha256))
        except KeyError:
            return []
    return cast("list[Fact]", graph_context.recent[sha256])


def _cache_result(graph_context: GraphContext, name: object, value: object) -> None:
    graph_context.recent[name] = value
    while len(graph_context.recent) > MAX_CACHED_RESULTS:
        graph_context.recent.pop(next(iter(graph_context.recent)))


def build_reference_data(graph_context: GraphContext, facts: Sequence[Fact]) -> ReferenceData:
    """Build the reference against which this incident's facts are judged."""
    get_sku = build_profile_lookup(graph_context.inventory, graph_context.skus, facts)

    def get_expected(host: str, key: str, device: str | None) -> Value:
        sku = get_sku(host)
        return sku.get_expected(key, device) if sku else None

    def get_bus(host: str) -> tuple[str, ...]:
        sku = get_sku(host)
        return sku.bus if sku else ()

    switch_by_host = {fact.host: str(fact.value) for fact in facts if fact.key == "fabric.leaf" and fact.value}

    def get_place(host: str, kind: PlaceKind) -> str:
        inventory_host = graph_context.inventory.hosts.get(host)
        if kind == "rack":
            return inventory_host.rack if inventory_host else ""
        return switch_by_host.get(host) or (inventory_host.leaf if inventory_host else "")

    workers = frozenset(graph_context.inventory.workers)
    return ReferenceData(
        taxonomy=graph_context.taxonomy.decidable,
        checks=graph_context.fleet.checks,
        expected=get_expected,
        place=get_place,
        bus=get_bus,
        stranger=build_unprofiled_lookup(get_sku, facts),
        kind=build_kind_lookup(graph_context.inventory),
        runs_jobs=workers.__contains__,
    )


def build_kind_lookup(inventory: Inventory) -> Callable[[str], str]:
    """Return a lookup of a host's kind, its group and SKU. Hosts of one kind should be alike."""

    def get_kind(host: str) -> str:
        inventory_host = inventory.hosts.get(host)
        return f"{inventory_host.group}/{inventory_host.sku}" if inventory_host else ""

    return get_kind


async def assess_incident(context: IncidentContext, graph_context: GraphContext) -> Assessment:
    """Assess the incident, in a thread if it has many facts.

    The result is cached for other nodes with the same facts and priors.
    """
    turn, symptoms = context.turn, context.brief.symptoms
    cache_key = (
        context.snapshot,
        turn.hosts,
        tuple(sorted(turn.priors.items())),
        context.onset,
        symptoms,
        context.asked_hosts,
        context.complaint_checks,
    )
    if cache_key not in graph_context.recent:
        if len(context.facts) > MAX_BLOCKING_FACTS:
            assessment = await asyncio.to_thread(_assess_now, context, graph_context)
        else:
            assessment = _assess_now(context, graph_context)
        _cache_result(graph_context, cache_key, assessment)
    return cast("Assessment", graph_context.recent[cache_key])


def _assess_now(context: IncidentContext, graph_context: GraphContext) -> Assessment:
    turn = context.turn
    assessment = assess_facts(
        context.facts,
        build_reference_data(graph_context, context.facts),
        context.hosts,
        turn.priors,
        context.onset,
        context.brief.symptoms,
        context.asked_hosts,
        context.complaint_checks,
    )
    return assessment.precompute_verdicts()


def merge_facts(old: Sequence[Fact], new: Sequence[Fact]) -> list[Fact]:
    """Replace older facts of the same check and host by the new ones. Uploaded facts accumulate."""
    new_pairs = {(fact.host, fact.check) for fact in new if fact.host}
    known_uploads = {_get_upload_identity(fact) for fact in old if not fact.host}
    unknown_facts = [fact for fact in new if fact.host or _get_upload_identity(fact) not in known_uploads]
    added_facts = _mark_still_blocked(old, mark_counter_rises(old, unknown_facts))
    return [fact for fact in old if (fact.host, fact.check) not in new_pairs] + added_facts


def _mark_still_blocked(old: Sequence[Fact], new: Sequence[Fact]) -> list[Fact]:
    """Count in `looks` how often the same process was observed as blocked."""
    old_facts = {(fact.host, fact.attrs.get("pid")): fact for fact in old if _is_blocked_process(fact)}

    marked_facts: list[Fact] = []
    for fact in new:
        old_fact = old_facts.get((fact.host, fact.attrs.get("pid"))) if _is_blocked_process(fact) else None
        if old_fact is not None:
            look_count = int(old_fact.attrs.get("looks") or 1) + (fact.time != old_fact.time)
            fact = replace(fact, attrs={**fact.attrs, "looks": look_count})
        marked_facts.append(fact)
    return marked_facts


def _is_blocked_process(fact: Fact) -> bool:
    return fact.key == "proc.blocked" and fact.status is Status.OK


def _get_upload_identity(fact: Fact) -> tuple[object, ...]:
    """Return what identifies an uploaded fact. The same fact by a tenant and by an operator are two."""
    uploader = (fact.attrs.get(FROM_FILE) or {}).get("by")
    return fact.line, fact.key, fact.device, repr(fact.value), uploader


def unfold_asks(rows: Sequence[Mapping[str, str]]) -> list[tuple[str, str]]:
    """Return the (host, check) pairs of stored rows."""
    return [(host, row["check"]) for row in rows for host in expand_host_range(row["hosts"])]


def fold_asks(asks: Sequence[tuple[str, str]]) -> list[dict[str, str]]:
    """Fold (host, check) pairs into one stored row per check."""
    hosts_by_check: dict[str, list[str]] = {}
    for host, check in asks:
        hosts_by_check.setdefault(check, []).append(host)
    return [{"hosts": fold_host_names(hosts), "check": check} for check, hosts in hosts_by_check.items()]
