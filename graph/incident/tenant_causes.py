"""What a tenant may be told of a diagnosis: the causes that stand without anything that is not established as the tenant's. Pure."""

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


def add_tenant_causes(concluded: TurnResult, case: IncidentContext, now: Assessment, inventory: Inventory) -> TurnResult:
    """Return the diagnosis with what of it crosses. Where causes were found and none does, the customer is asked for their own log, once."""
    crossing = find_tenant_causes(concluded.report.root_causes, case, now, inventory)
    report = concluded.report.model_copy(update={"crossing": crossing})
    if crossing is None:
        return replace(concluded, report=report) if concluded.report.crossing is not None else concluded
    turn = concluded.turn or case.turn
    if not (report.hides_all_causes_from_tenant and _can_ask_tenant(case)) or LOG_QUESTION in case.turn.asked:
        return replace(concluded, report=report)
    return replace(
        concluded,
        report=report.model_copy(update={"questions": (LOG_QUESTION,)}),
        lifecycle=get_next_lifecycle(case.lifecycle, TurnEvent.QUESTION),
        turn=replace(turn, asked=(*turn.asked, LOG_QUESTION)),
    )


def _can_ask_tenant(case: IncidentContext) -> bool:
    """Whether a customer can be asked, who handed nothing in yet, and neither people are on it nor somebody ended the look."""
    people = case.ticket is not None and case.ticket.handed and case.ticket.state != "resolved"
    handed_in = any(row.get("attachments") for row in case.messages)
    return case.origin is not None and case.origin.customer is not None and not (people or handed_in or case.turn.cut)


def find_tenant_causes(
    found: tuple[Hypothesis, ...], case: IncidentContext, now: Assessment, inventory: Inventory
) -> tuple[Hypothesis, ...] | None:
    """Return the found causes as the facts that cross show them; None where nothing is withheld, and where no tenant is told."""
    origin = case.origin
    if not found or origin is None or not origin.tenant:
        return None
    machines = build_tenant_machines(inventory, list_visible_hosts(inventory, origin))
    told = [fact for fact in case.facts if not is_withheld_from_tenant(fact, machines)]
    if len(told) == len(case.facts):
        return None
    labels = {cause.label for cause in found}
    shown = assess_facts(told, now.lens, case.hosts, case.turn.priors, case.onset, case.brief.symptoms)
    return tuple(cause for cause in shown.list_root_causes() if cause.label in labels)
