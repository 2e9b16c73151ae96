"""One incident as the nodes read it: rows instead of dicts, facts fetched by digest, the engine applied. Keeps nothing between calls."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any, cast

from graph.engine.assess import Assessment, assess
from graph.engine.reference import Lens, Place, profiles, strangers
from graph.ports import Ports
from graph.state import Brief, Incident, Item, Origin, Stats
from tools.fact import Fact, Value
from tools.inventory.hosts import Inventory
from tools.inventory.ranges import expand, fold

MOST_RECENT = 6
"""Fact snapshots and assessments kept in memory."""

MOST_UNNAMED = 64
"""Hosts looked at when the reporter named none: a small channel's whole fleet, but never a large one's."""


@dataclass(slots=True)
class Turn:
    """What one turn carries from node to node, small and plain."""

    hosts: str = ""
    """Folded names of the hosts in question."""
    named: bool = False
    """Whether people named them; otherwise they are all that the channel may see."""
    priors: dict[str, float] = field(default_factory=dict)
    past: list[str] = field(default_factory=list)
    """Labels of the two most similar incidents."""
    asked_model: list[str] = field(default_factory=list)
    without_model: str = ""
    again: int = 0
    """Times the same was looked at again, because some faults come and go."""
    cut: str = ""
    """Why looking ended early: somebody said stop, or news came."""
    questions: list[str] = field(default_factory=list)
    asked_before: int = 0
    """Turns that already ended with questions."""
    began: str = ""

    @classmethod
    def read(cls, state: Incident) -> "Turn":
        return cls(**state.get("turn", {}))

    def write(self) -> dict[str, Any]:
        """Plain JSON, defaults left out."""
        blank = asdict(Turn())
        return {name: value for name, value in asdict(self).items() if value != blank[name]}


@dataclass(frozen=True, slots=True)
class Case:
    """Everything known about an incident, read once by a node."""

    id: str
    item: Item
    brief: Brief
    origin: Origin
    turn: Turn
    snapshot: str
    """Digest of `facts`."""
    facts: list[Fact]
    opened: datetime

    @property
    def hosts(self) -> tuple[str, ...]:
        return tuple(expand(self.turn.hosts))


async def read_case(state: Incident, ports: Ports) -> Case:
    """The incident; a fact snapshot that has expired reads as nothing looked at yet."""
    item = Item.model_validate(state["item"])
    return Case(
        id=state["id"],
        item=item,
        brief=Brief.model_validate(state.get("brief", {})),
        origin=Origin.model_validate(state.get("origin", {})),
        turn=Turn.read(state),
        snapshot=state.get("facts", ""),
        facts=await _facts(state.get("facts", ""), ports),
        opened=datetime.fromisoformat(state.get("opened_at") or item.at.isoformat()),
    )


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
        return leaves.get(host, "") if kind == "leaf" else ""

    return Lens(ports.taxonomy, ports.fleet.checks, expected, place, bus, strangers(profile, facts))


def weigh(case: Case, ports: Ports) -> Assessment:
    """The engine's view of the incident now. Nodes that see the same facts and priors share it."""
    name = (case.snapshot, case.turn.hosts, tuple(sorted(case.turn.priors.items())), case.opened)
    if name not in ports.recent:
        _remember(ports, name, assess(case.facts, lens_of(ports, case.facts), case.hosts, case.turn.priors, case.opened))
    return cast("Assessment", ports.recent[name])


def visible_hosts(inventory: Inventory, origin: Origin) -> tuple[str, ...]:
    """Hosts that the place where an incident lives may speak of. A channel bound to a tenant sees that tenant's only."""
    bound = next((row for row in inventory.channels if row.channel == origin.channel), None) if origin.channel else None
    if bound is not None and bound.kind == "operators":
        return inventory.of_groups(bound.groups)
    tenant = bound.tenant if bound else origin.tenant
    if tenant:
        own = inventory.of_groups(bound.groups) if bound and bound.groups else inventory.workers
        return tuple(name for name in own if inventory.hosts[name].tenant == tenant)
    return inventory.workers if origin.kind != "slack" or not inventory.channels else ()


def merged(old: Sequence[Fact], new: Sequence[Fact]) -> list[Fact]:
    """A newer answer of a check on a host replaces the older one whole; what people handed in adds up."""
    fresh = {(fact.host, fact.check) for fact in new if fact.host}
    known = {(f.line, f.key, f.device, repr(f.value)) for f in old if not f.host}
    added = [f for f in new if f.host or (f.line, f.key, f.device, repr(f.value)) not in known]
    return [fact for fact in old if (fact.host, fact.check) not in fresh] + added


def spent_on(case: Case, ports: Ports, stats: Stats) -> Stats:
    """The same stats with what the model has cost this incident."""
    if ports.model is None:
        return stats
    spent = ports.model.spent(case.id)
    return stats.model_copy(
        update={"model_calls": spent.calls, "tokens_in": spent.tokens_in, "tokens_out": spent.tokens_out, "usd": spent.usd}
    )


def asks_of(rows: Sequence[Mapping[str, str]]) -> list[tuple[str, str]]:
    """Unfolded: (host, check)."""
    return [(host, row["check"]) for row in rows for host in expand(row["hosts"])]


def folded_asks(asks: Sequence[tuple[str, str]]) -> list[dict[str, str]]:
    """Folded for the state: one row a set of hosts and check."""
    by_check: dict[str, list[str]] = {}
    for host, check in asks:
        by_check.setdefault(check, []).append(host)
    return [{"hosts": fold(hosts), "check": check} for check, hosts in by_check.items()]
