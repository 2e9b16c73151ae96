"""Data of charts, read from the current state on request."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, get_args

import structlog

from bot.refusal import Refusal
from bot.reports.charts.drawing import Drawing, build_bandwidth_drawing, build_heatmap_drawing, build_timeline_drawing, build_trace_drawing
from bot.reports.figures import ExpectedBandwidthLookup, FigureInputs, build_empty_expectation, find_deciding_heatmaps
from graph.incident_view import IncidentView
from graph.report import AttachedChart
from graph.search_trace import build_search_tree
from graph.timeline import Timeline, build_timeline
from kb.fact_keys import find_key
from tools.bandwidth import Bandwidths, bandwidths
from tools.evidence import EvidenceStore
from tools.fact import Fact, Status
from tools.heatmap import Heatmap
from tools.ledger.record import ActionRecord, Refused

log = structlog.get_logger()
NameLookup = Callable[[str], Awaitable[str]]


async def load_no_records(incident: str) -> Sequence[ActionRecord]:
    return ()


class FactsNotKept(Exception):
    """The data for this picture is no longer stored."""


@dataclass(frozen=True, slots=True)
class DrawingSource:
    """`titles` cover the taxonomy's leaves and branches."""

    evidence: EvidenceStore
    name_of: NameLookup
    titles: Mapping[str, str] = field(default_factory=dict)
    expected: Callable[[Sequence[Fact]], ExpectedBandwidthLookup] = build_empty_expectation
    records_of: Callable[[str], Awaitable[Sequence[ActionRecord]]] = load_no_records

    async def build_drawing(self, chart: AttachedChart, incident_view: IncidentView) -> Drawing:
        """Build a drawing. Raises FactsNotKept."""
        match chart.kind:
            case "timeline":
                return build_timeline_drawing(await self.build_timeline(incident_view))
            case "walk":
                return build_trace_drawing(build_search_tree(incident_view, self.titles))
            case "bandwidth":
                return build_bandwidth_drawing(await self._load_bandwidths(chart, incident_view))
            case _:
                heat = Heatmap(chart.key, chart.hosts)
                heat.add_facts(await self._load_facts(incident_view))
                return build_heatmap_drawing(heat)

    async def build_timeline(self, incident_view: IncidentView) -> Timeline:
        """Build the timeline, without actions if the ledger is unreadable."""
        try:
            records = await self.records_of(incident_view.id)
        except Refused as error:
            log.warning("drawings.records_unreadable", incident=incident_view.id, why=str(error)[:200])
            records = ()
        line = build_timeline(incident_view, records)
        names = await asyncio.gather(*(self.name_of(user) for user in line.user_ids))
        return line.replace_user_ids(dict(zip(line.user_ids, names, strict=True)))

    async def _load_bandwidths(self, chart: AttachedChart, incident_view: IncidentView) -> Bandwidths:
        facts = await self._load_facts(incident_view)
        hosts = chart.hosts or tuple(sorted({fact.host for fact in facts if fact.host}))
        measurements = bandwidths(hosts, facts, self.expected(facts))
        return measurements if chart.hosts else Bandwidths(measurements.curves)

    async def _load_facts(self, incident_view: IncidentView) -> Sequence[Fact]:
        try:
            return await self.evidence.get_facts(str(incident_view.stored.get("facts", "")))
        except KeyError as error:
            raise FactsNotKept from error


# One chart of an incident, chosen by name.

PictureName = Literal["heatmap", "bandwidth", "walk", "timeline"]
PICTURES: Final[tuple[PictureName, ...]] = get_args(PictureName)
MAX_NAMED_KEYS = 12  # keys listed in a refusal


class NothingToDraw(Refusal):
    """There is nothing of which that picture would be."""


def build_single_drawing(name: PictureName, key: str, inputs: FigureInputs) -> Drawing:
    """Build a drawing. `key`: a heat map's number, by default the deciding one. Raises NothingToDraw."""
    match name:
        case "timeline":
            return build_timeline_drawing(build_timeline(inputs.rows, inputs.records).replace_user_ids(inputs.names))
        case "walk":
            return build_trace_drawing(build_search_tree(inputs.rows, inputs.titles))
        case "bandwidth":
            measurements = bandwidths(
                sorted({fact.host for fact in inputs.facts if fact.host}), inputs.facts, inputs.expected(inputs.facts)
            )
            if not measurements.curves:
                raise NothingToDraw(
                    f"{inputs.rows.id}: no bandwidth was measured, so there is none to draw; `--kind timeline` and `walk` always are"
                )
            return build_bandwidth_drawing(measurements)
        case "heatmap":
            return build_heatmap_drawing(_build_heatmap(key, inputs))


def list_drawable_keys(inputs: FigureInputs) -> list[str]:
    """Return keys for heat maps."""
    keys = {fact.key for fact in inputs.facts if fact.status is Status.OK and isinstance(fact.value, int | float)}
    return sorted(key for key in keys if (row := find_key(key)) is not None and row.is_quantity and row.scope == "gpu")


def _build_heatmap(key: str, inputs: FigureInputs) -> Heatmap:
    decided = find_deciding_heatmaps(inputs.rows.report, inputs.facts)
    if not key and decided:
        return decided[0]
    heat = Heatmap(key, sorted({fact.host for fact in inputs.facts if fact.key == key and fact.host}))
    heat.add_facts(inputs.facts)
    if heat.list_known_hosts():
        return heat
    drawable_keys = list_drawable_keys(inputs)
    more = f" and {len(drawable_keys) - MAX_NAMED_KEYS} more" if len(drawable_keys) > MAX_NAMED_KEYS else ""
    names = f"name one with --key: {', '.join(drawable_keys[:MAX_NAMED_KEYS])}{more}" if drawable_keys else "no number of a GPU was read"
    raise NothingToDraw(f"{inputs.rows.id}: {f'no value of {key!r:.80} was read' if key else 'no number of GPUs decided it'}; {names}")
