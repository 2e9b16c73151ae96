"""Data of charts, read from the current state on request."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field

import structlog

from bot.reports.charts.drawing import Drawing, build_bandwidth_drawing, build_heatmap_drawing, build_timeline_drawing, build_trace_drawing
from bot.reports.figures import ExpectedBandwidthLookup, build_empty_expectation
from graph.incident_view import IncidentView
from graph.report import AttachedChart
from graph.search_trace import build_search_tree
from graph.timeline import Timeline, build_timeline
from tools.bandwidth import Bandwidths, collect_bandwidths
from tools.evidence import EvidenceStore
from tools.fact import Fact
from tools.heatmap import Heatmap
from tools.ledger.record import ActionRecord
from tools.ledger.refusals import Refused

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
        measurements = collect_bandwidths(hosts, facts, self.expected(facts))
        return measurements if chart.hosts else Bandwidths(measurements.curves)

    async def _load_facts(self, incident_view: IncidentView) -> Sequence[Fact]:
        try:
            return await self.evidence.get_facts(str(incident_view.stored.get("facts", "")))
        except KeyError as error:
            raise FactsNotKept from error
