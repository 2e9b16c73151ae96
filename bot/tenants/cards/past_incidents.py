"""A tenant's own past reports, in their words and host names."""

from collections.abc import Sequence

from bot.tenants.cards.phrases import get_phrase
from bot.tenants.cards.view import TenantViewContext
from graph.closed_incidents import ClosedIncident, ClosedIncidentCause, ClosedIncidentQuery
from graph.incident_view import IncidentView
from graph.state import Origin
from tools.inventory.host_ranges import fold_host_names

MAX_PAST_INCIDENTS = 3


def build_past_query(incident_view: IncidentView, origin: Origin, context: TenantViewContext) -> ClosedIncidentQuery:
    """Return the query: closed incidents on the same hosts of the tenant, or with the same cause."""
    hosts = tuple(host for host in incident_view.brief.hosts if host in context.own)
    labels = (
        tuple(
            tenant_root_cause.label
            for tenant_root_cause in incident_view.report.tenant_root_causes
            if context.is_visible_cause(tenant_root_cause)
        )
        if incident_view.report
        else ()
    )
    return ClosedIncidentQuery(incident_view.id, origin, tuple(sorted(context.own)), hosts=hosts, labels=labels)


def format_past_incidents(incidents: Sequence[ClosedIncident], origin: Origin, context: TenantViewContext) -> list[str]:
    """Return a line per recent incident that the tenant reported; all others are dropped."""
    own = [
        incident
        for incident in incidents
        if incident.origin.customer is not None and incident.origin.tenant == origin.tenant and origin.tenant
    ]
    if not own:
        return []
    incident_lines = [f"{row.opened:%Y-%m-%d}: {_describe_cause(row, context)}" for row in own[:MAX_PAST_INCIDENTS]]
    return [get_phrase("again_seen", context.language, count=str(len(own))), *incident_lines]


def _describe_cause(incident: ClosedIncident, context: TenantViewContext) -> str:
    visible_causes = [
        cause
        for cause in incident.causes
        if cause.label in context.words.taxonomy.leaves and not cause.inside and _is_tenant_cause(cause, context)
    ]
    if not visible_causes:
        return get_phrase("again_unknown", context.language)
    names = context.get_tenant_host_names(host for host in visible_causes[0].hosts if host in context.own)
    return context.words.get_cause_words(visible_causes[0].label, context.language).title + (
        f" ({fold_host_names(names)})" if names else ""
    )


def _is_tenant_cause(cause: ClosedIncidentCause, context: TenantViewContext) -> bool:
    """Return whether the cause names only the tenant's hosts, or none."""
    return all(host in context.own for host in cause.hosts)
