"""What a tenant may be told of a diagnosis: the causes that stand without anything that is not established as the tenant's. Pure."""

from dataclasses import replace

from graph.engine.assess import Assessment, assess
from graph.incident.case import Case
from graph.incident.concluded import Concluded
from graph.incident.lifecycle import Came, becomes
from graph.incident.questions import WHICH_LOG, asked_of_customer
from graph.incident.visible import visible_hosts
from graph.ownership import machines_of, withheld
from graph.state import Hypothesis
from tools.inventory.hosts import Inventory


def with_crossing(concluded: Concluded, case: Case, now: Assessment, inventory: Inventory) -> Concluded:
    """Return the diagnosis with what of it crosses. Where causes were found and none does, the customer is asked for their own log, once."""
    crossing = crossing_causes(concluded.report.root_causes, case, now, inventory)
    if crossing is None:
        return concluded
    report = concluded.report.model_copy(update={"crossing": crossing})
    asked = report.model_copy(update={"questions": (WHICH_LOG,)})
    by_customer = case.origin is not None and case.origin.customer is not None
    people = case.ticket is not None and case.ticket.handed and case.ticket.state != "resolved"
    if not (report.withheld and by_customer and "q_log" in asked_of_customer(case, asked)) or people or case.turn.cut:
        return replace(concluded, report=report)
    return replace(concluded, report=asked, lifecycle=becomes(case.lifecycle, Came.QUESTION))


def crossing_causes(found: tuple[Hypothesis, ...], case: Case, now: Assessment, inventory: Inventory) -> tuple[Hypothesis, ...] | None:
    """Return the found causes as the facts that cross show them; None where nothing is withheld, and where no tenant is told."""
    origin = case.origin
    if not found or origin is None or not origin.tenant:
        return None
    machines = machines_of(inventory, visible_hosts(inventory, origin))
    told = [fact for fact in case.facts if not withheld(fact, machines)]
    if len(told) == len(case.facts):
        return None
    labels = {cause.label for cause in found}
    shown = assess(told, now.lens, case.hosts, case.turn.priors, case.opened, case.brief.symptoms)
    return tuple(cause for cause in shown.root_causes() if cause.label in labels)
