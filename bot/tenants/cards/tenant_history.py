"""A tenant's own past reports, in their words and host names. Pure."""

from collections.abc import Sequence

from bot.tenants.cards.phrases import get_phrase
from bot.tenants.cards.view import TenantViewContext
from graph.closed_incidents import ClosedIncident, ClosedIncidentCause, ClosedIncidentQuery
from graph.incident_view import IncidentView
from graph.state import Origin
from tools.inventory.host_ranges import fold_host_names

MAX_PAST_INCIDENTS = 3


def build_past_query(rows: IncidentView, origin: Origin, reader: TenantViewContext) -> ClosedIncidentQuery:
    """Return the query: closed incidents on the same hosts of the tenant, or with the same cause."""
    hosts = tuple(host for host in rows.brief.hosts if host in reader.own)
    labels = tuple(row.label for row in rows.report.tenant_root_causes if reader.is_visible_cause(row)) if rows.report else ()
    return ClosedIncidentQuery(rows.id, origin, tuple(sorted(reader.own)), hosts=hosts, labels=labels)


def format_past_incidents(found: Sequence[ClosedIncident], origin: Origin, reader: TenantViewContext) -> list[str]:
    """Return a line per recent incident that the tenant reported; all others are dropped."""
    own = [row for row in found if row.origin.customer is not None and row.origin.tenant == origin.tenant and origin.tenant]
    if not own:
        return []
    said = [f"{row.opened:%Y-%m-%d}: {_describe_cause(row, reader)}" for row in own[:MAX_PAST_INCIDENTS]]
    return [get_phrase("again_seen", reader.language, count=str(len(own))), *said]


def _describe_cause(row: ClosedIncident, reader: TenantViewContext) -> str:
    known = [
        cause
        for cause in row.causes
        if cause.label in reader.words.taxonomy.leaves and not cause.inside and _is_tenant_cause(cause, reader)
    ]
    if not known:
        return get_phrase("again_unknown", reader.language)
    names = reader.get_tenant_host_names(host for host in known[0].hosts if host in reader.own)
    return reader.words.get_cause_words(known[0].label, reader.language).title + (f" ({fold_host_names(names)})" if names else "")


def _is_tenant_cause(cause: ClosedIncidentCause, reader: TenantViewContext) -> bool:
    """Return whether the cause names only the tenant's hosts, or none."""
    return all(host in reader.own for host in cause.hosts)
