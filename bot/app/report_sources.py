"""Wiring of charts and report pages in a thread."""

from functools import partial

from bot.app.action_runtime import ActionRuntime
from bot.incidents.dispatch.metrics import IncidentMetricsStore
from bot.incidents.publishing.incident_reports import IncidentReportWriter
from bot.reports.drawing_source import DrawingSource
from bot.reports.figures import build_bandwidth_expectation
from bot.reports.incident_sources import IncidentSources
from bot.slack.client import SlackClient
from bot.slack.people import People
from bot.tasks import BackgroundTasks
from graph.context import GraphContext
from graph.state_reader import IncidentStateReader


def build_chart_source(ports: GraphContext, people: People, acting: ActionRuntime) -> DrawingSource:
    expected = partial(build_bandwidth_expectation, ports.inventory, ports.skus)
    return DrawingSource(ports.evidence, people.get_name, ports.taxonomy.titles, expected, acting.ledger.list_incident_records)


def build_report_writer(
    ports: GraphContext,
    client: SlackClient,
    people: People,
    background: BackgroundTasks,
    stored: IncidentStateReader,
    acting: ActionRuntime,
    courses: IncidentMetricsStore,
) -> IncidentReportWriter:
    expected, titles = partial(build_bandwidth_expectation, ports.inventory, ports.skus), ports.taxonomy.titles
    reads = ports.evidence, ports.clock, acting.ledger, "", courses.load_metrics, people.get_name, titles, expected
    return IncidentReportWriter(client, IncidentSources(stored.load_state, *reads), background)
