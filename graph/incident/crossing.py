"""What a tenant may be told of a diagnosis: the causes that stand without anything that is not established as the tenant's. Pure."""

from dataclasses import replace

from graph.engine.assess import Assessment, assess
from graph.incident.case import Case
from graph.incident.concluded import Concluded
from graph.incident.lifecycle import Came, becomes
from graph.incident.questions import WHICH_LOG
from graph.incident.visible import visible_hosts
from graph.ownership import machines_of, withheld
from graph.state import Hypothesis
from tools.inventory.hosts import Inventory


def with_crossing(concluded: Concluded, case: Case, now: Assessment, inventory: Inventory) -> Concluded:
    """Return the diagnosis with what of it crosses. Where causes were found and none does, the customer is asked for their own log, once."""
    crossing = crossing_causes(concluded.report.root_causes, case, now, inventory)
    report = concluded.report.model_copy(update={"crossing": crossing})
    if crossing is None:
        return replace(concluded, report=report) if concluded.report.crossing is not None else concluded
    turn = concluded.turn or case.turn
    if not (report.withheld and _may_ask(case)) or WHICH_LOG in case.turn.asked:
        return replace(concluded, report=report)
    return replace(
        concluded,
        report=report.model_copy(update={"questions": (WHICH_LOG,)}),
        lifecycle=becomes(case.lifecycle, Came.QUESTION),
        turn=replace(turn, asked=(*turn.asked, WHICH_LOG)),
    )


def _may_ask(case: Case) -> bool:
    """Whether a customer can be asked, who handed nothing in yet, and neither people are on it nor somebody ended the look."""
    people = case.ticket is not None and case.ticket.handed and case.ticket.state != "resolved"
    handed_in = any(row.get("attachments") for row in case.said)
    return case.origin is not None and case.origin.customer is not None and not (people or handed_in or case.turn.cut)


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
    shown = assess(told, now.lens, case.hosts, case.turn.priors, case.onset, case.brief.symptoms)
    return tuple(cause for cause in shown.root_causes() if cause.label in labels)
