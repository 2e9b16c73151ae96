"""Which causes of a diagnosis a tenant may see: those that hold without facts not established as the tenant's."""

from dataclasses import replace

from graph.engine.assessment import Assessment, assess_facts
from graph.incident.context import IncidentContext
from graph.incident.lifecycle import TurnEvent, get_next_lifecycle
from graph.incident.questions import LOG_QUESTION
from graph.incident.turn_result import TurnResult
from graph.incident.visibility import list_visible_hosts
from graph.ownership import build_tenant_machines, is_withheld_from_tenant
from graph.state import Hypothesis
from tools.inventory.inventory import Inventory


def add_tenant_causes(result: TurnResult, context: IncidentContext, assessment: Assessment, inventory: Inventory) -> TurnResult:
    """Add the causes that a tenant may see. If all are withheld, ask the tenant for their log, once."""
    crossing = find_tenant_causes(result.report.root_causes, context, assessment, inventory)
    report = result.report.model_copy(update={"crossing": crossing})
    if crossing is None:
        return replace(result, report=report) if result.report.crossing is not None else result
    turn = result.turn or context.turn
    if not (report.hides_all_causes_from_tenant and _can_ask_tenant(context)) or LOG_QUESTION in context.turn.asked:
        return replace(result, report=report)
    return replace(
        result,
        report=report.model_copy(update={"questions": (LOG_QUESTION,)}),
        lifecycle=get_next_lifecycle(context.lifecycle, TurnEvent.QUESTION),
        turn=replace(turn, asked=(*turn.asked, LOG_QUESTION)),
    )


def _can_ask_tenant(context: IncidentContext) -> bool:
    """Return whether a tenant can be asked: no upload yet, no person on it, not stopped."""
    has_upload = any(message.get("attachments") for message in context.messages)
    return context.is_tenant_incident and not (context.has_open_ticket or has_upload or context.turn.cut)


def find_tenant_causes(
    causes: tuple[Hypothesis, ...], context: IncidentContext, assessment: Assessment, inventory: Inventory
) -> tuple[Hypothesis, ...] | None:
    """Return the causes that the tenant's own facts show; None if nothing is withheld or no tenant reads it."""
    origin = context.origin
    if not causes or origin is None or not origin.tenant:
        return None
    machines = build_tenant_machines(inventory, list_visible_hosts(inventory, origin))
    tenant_facts = [fact for fact in context.facts if not is_withheld_from_tenant(fact, machines)]
    if len(tenant_facts) == len(context.facts):
        return None
    labels = {cause.label for cause in causes}
    tenant_assessment = assess_facts(
        tenant_facts, assessment.reference, context.hosts, context.turn.priors, context.onset, context.brief.symptoms
    )
    return tuple(cause for cause in tenant_assessment.list_root_causes() if cause.label in labels)
