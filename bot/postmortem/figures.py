"""The pictures of a page: what happened when, the numbers that decided over all that were looked at, how fast hosts are, and what was looked into.
Drawn beside the event loop."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from bot.pictures.drawing import Drawing, of_bandwidths, of_heat, of_timeline, of_walk
from bot.postmortem.page import Figure
from graph.deciding import deciding_heats, values_in
from graph.engine.reference import profiles
from graph.report import Report
from graph.rows import IncidentRows
from graph.timeline import timeline_of
from graph.walked import walked_tree
from tools.bandwidth import bandwidths
from tools.fact import Fact, Value
from tools.heat import Heat
from tools.inventory.hosts import Inventory
from tools.inventory.sku import Sku
from tools.ledger.record import Record

MOST, LEAST = 2, 2
"""Heat maps of a page, and how many values are worth one."""
TIMELINE = "timeline"
LEAST_MOMENTS = 3
"""Below it a timeline says no more than its table."""
Expected = Callable[[str], Value]
"""Host → what its model reaches in an all-reduce, in GB/s."""


def nothing_expected(facts: Sequence[Fact]) -> Expected:
    """Where nobody knows the models of hosts."""
    return lambda host: None


def reached(inventory: Inventory, skus: Mapping[str, Sku], facts: Sequence[Fact]) -> Expected:
    """By the model that the inventory names, else by the one that a host shows."""
    profile = profiles(inventory, skus, facts)

    def expected(host: str) -> Value:
        sku = profile(host) if host else None
        return sku.expected("nccl.busbw_max", None) if sku else None

    return expected


@dataclass(frozen=True, slots=True)
class FigureMatter:
    """What the pictures of an incident are drawn from. `names`: a user's id → what people call them; `titles` those of the taxonomy's paths."""

    rows: IncidentRows
    facts: Sequence[Fact] = ()
    records: Sequence[Record] = ()
    names: Mapping[str, str] = field(default_factory=dict)
    titles: Mapping[str, str] = field(default_factory=dict)
    expected: Callable[[Sequence[Fact]], Expected] = nothing_expected
    unread: tuple[str, ...] = ()
    """Why there are no facts, where they could not be read."""


def drawings_of(of: FigureMatter) -> list[Drawing]:
    """Those that tell something."""
    return [*_timeline(of), *(of_heat(heat) for heat in heats_of(of.rows.report, of.facts)), *_bandwidth(of), *_walk(of)]


def _timeline(of: FigureMatter) -> list[Drawing]:
    line = timeline_of(of.rows, of.records).named(of.names)
    return [of_timeline(line)] if len(line.events) >= LEAST_MOMENTS else []


def _bandwidth(of: FigureMatter) -> list[Drawing]:
    found = bandwidths(sorted({fact.host for fact in of.facts if fact.host}), of.facts, of.expected(of.facts))
    return [of_bandwidths(found)] if found.curves else []


def _walk(of: FigureMatter) -> list[Drawing]:
    return [of_walk(walked_tree(of.rows, of.titles))] if of.titles and (of.rows.walked or of.rows.report) else []


def heats_of(report: Report | None, facts: Sequence[Fact]) -> list[Heat]:
    """The deciding numbers, as they were cited; each with the hosts of which anything is known. What is no number of a GPU is no picture."""
    causes = report.root_causes if report else ()
    return [heat for heat in deciding_heats(causes, facts) if values_in(heat) >= LEAST][:MOST]


def drawn(drawings: Iterable[Drawing]) -> tuple[Figure, ...]:
    """Long work. The rows of the timeline stand on the page already."""
    return tuple(Figure(row.title, row.words, row.draw("png"), () if row.name == TIMELINE else row.rows) for row in drawings)
