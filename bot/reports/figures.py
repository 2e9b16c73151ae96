"""Charts of a page: timeline, deciding numbers, bandwidths, search tree."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from bot.reports.charts.drawing import Drawing, build_bandwidth_drawing, build_heatmap_drawing, build_timeline_drawing, build_trace_drawing
from bot.reports.page import Figure
from graph.engine.reference_data import build_profile_lookup
from graph.incident_view import IncidentView
from graph.report import Report
from graph.report_charts import count_known_values, iter_deciding_heatmaps
from graph.search_trace import build_search_tree
from graph.timeline import build_timeline
from tools.bandwidth import collect_bandwidths
from tools.fact import Fact, Value
from tools.heatmap import Heatmap
from tools.inventory.inventory import Inventory
from tools.inventory.sku import Sku
from tools.ledger.record import ActionRecord

MAX_HEATMAPS = 2  # heat maps per page
MIN_HEATMAP_VALUES = 2  # values that justify one
TIMELINE_NAME = "timeline"
MIN_TIMELINE_MOMENTS = 3  # fewer are already in the table
ExpectedBandwidthLookup = Callable[[str], Value]  # host → expected all-reduce bandwidth in GB/s, or None


def build_empty_expectation(facts: Sequence[Fact]) -> ExpectedBandwidthLookup:
    return lambda host: None


def build_bandwidth_expectation(inventory: Inventory, skus: Mapping[str, Sku], facts: Sequence[Fact]) -> ExpectedBandwidthLookup:
    """Return the expectation by the inventory's SKU, else by a detected one."""
    profile = build_profile_lookup(inventory, skus, facts)

    def expected(host: str) -> Value:
        sku = profile(host) if host else None
        return sku.get_expected("nccl.busbw_max", None) if sku else None

    return expected


@dataclass(frozen=True, slots=True)
class FigureInputs:
    """Data of charts. `names`: user id → display name."""

    incident: IncidentView
    facts: Sequence[Fact] = ()
    records: Sequence[ActionRecord] = ()
    names: Mapping[str, str] = field(default_factory=dict)
    titles: Mapping[str, str] = field(default_factory=dict)
    expected: Callable[[Sequence[Fact]], ExpectedBandwidthLookup] = build_empty_expectation
    unread: tuple[str, ...] = ()  # why facts are missing


def list_drawings(inputs: FigureInputs) -> list[Drawing]:
    return [
        *_build_timeline_drawings(inputs),
        *(build_heatmap_drawing(heat) for heat in find_deciding_heatmaps(inputs.incident.report, inputs.facts)),
        *_build_bandwidth_drawings(inputs),
        *_build_trace_drawings(inputs),
    ]


def _build_timeline_drawings(inputs: FigureInputs) -> list[Drawing]:
    line = build_timeline(inputs.incident, inputs.records).replace_user_ids(inputs.names)
    return [build_timeline_drawing(line)] if len(line.events) >= MIN_TIMELINE_MOMENTS else []


def _build_bandwidth_drawings(inputs: FigureInputs) -> list[Drawing]:
    measurements = collect_bandwidths(
        sorted({fact.host for fact in inputs.facts if fact.host}), inputs.facts, inputs.expected(inputs.facts)
    )
    return [build_bandwidth_drawing(measurements)] if measurements.curves else []


def _build_trace_drawings(inputs: FigureInputs) -> list[Drawing]:
    return (
        [build_trace_drawing(build_search_tree(inputs.incident, inputs.titles))]
        if inputs.titles and (inputs.incident.search_steps or inputs.incident.report)
        else []
    )


def find_deciding_heatmaps(report: Report | None, facts: Sequence[Fact]) -> list[Heatmap]:
    """Return heat maps of the deciding numbers, in the order cited."""
    causes = report.root_causes if report else ()
    return [heat for heat in iter_deciding_heatmaps(causes, facts) if count_known_values(heat) >= MIN_HEATMAP_VALUES][:MAX_HEATMAPS]


def draw_figures(drawings: Iterable[Drawing]) -> tuple[Figure, ...]:
    """Draw the charts. Slow: call outside the event loop. The page already has the timeline's rows."""
    return tuple(
        Figure(drawing.title, drawing.words, drawing.draw("png"), () if drawing.name == TIMELINE_NAME else drawing.rows)
        for drawing in drawings
    )
