"""End remediations, release their nodes, and describe them for people.

RackMedic never returns a node after a failed, unproven or worse remedy; it reports which nodes stay drained.
"""

from collections.abc import Collection, Sequence

from graph.remediation.build import PlanContext, request_approval
from graph.state import Remediation, RemediationOutcome
from tools.inventory.host_ranges import fold_host_names
from tools.remedies import REMEDIES
from tools.remedies.remedy import fill_slots

# Outcomes after which a host is not known to be healthy.
UNRESOLVED_OUTCOMES: frozenset[str] = frozenset({"ticket", "denied", "undecided", "unknown", "stopped"})


def end_remediation(remediation: Remediation, outcome: RemediationOutcome, says: str) -> Remediation:
    """Return the remediation with its outcome. The text also names a node that stays drained."""
    notes = [says] if says else []
    if remediation.drained and outcome != "cured":
        notes.append(format_still_drained(remediation))
    return remediation.model_copy(update={"outcome": outcome, "waiting_for": "none", "due": None, "says": "; ".join(notes)})


def format_still_drained(remediation: Remediation) -> str:
    return f"{remediation.target} stays drained"


def release_finished_nodes(remediations: Sequence[Remediation], plan: PlanContext) -> list[Remediation]:
    """Request the return of a node when all its remediations are done and succeeded."""
    return [
        _request_return(remediation, remediations, plan) if _is_ready_to_return(remediation) else remediation
        for remediation in remediations
    ]


def _is_ready_to_return(remediation: Remediation) -> bool:
    return (
        remediation.is_open
        and remediation.current_step is not None
        and remediation.current_step.part == "restore"
        and remediation.waiting_for == "none"
    )


def _request_return(remediation: Remediation, remediations: Sequence[Remediation], plan: PlanContext) -> Remediation:
    others_on_host = [other for other in remediations if other.target == remediation.target and other.id != remediation.id]
    if any(other.is_open and other.waiting_for != "proof" for other in others_on_host):
        return remediation
    for other in others_on_host:
        if other.outcome in UNRESOLVED_OUTCOMES:
            other_title = plan.taxonomy.get_title(other.label)
            return end_remediation(remediation, "ticket", f"fixed, but {other_title} on the same host is not")
    return request_approval(remediation, plan)


def stop_remediations(remediations: Sequence[Remediation], reason: str) -> list[Remediation]:
    """Stop open remediations because a human took over.

    A running action continues; the reconciler withdraws those that are only proposed.
    """
    return [end_remediation(remediation, "stopped", reason) if remediation.is_open else remediation for remediation in remediations]


def withdraw_disbelieved(remediations: Sequence[Remediation], causes: Collection[tuple[str, str]]) -> list[Remediation]:
    """Withdraw remediations that have not begun and whose cause (label, host) is no longer believed."""
    return [
        end_remediation(remediation, "withdrawn", "the cause is no longer believed")
        if _has_not_begun(remediation) and (remediation.label, remediation.target) not in causes
        else remediation
        for remediation in remediations
    ]


def withdraw_owned_elsewhere(remediations: Sequence[Remediation], elsewhere: Collection[tuple[str, str]]) -> list[Remediation]:
    """Withdraw remediations that have not begun and whose cause (label, host) another incident owns."""
    return [
        end_remediation(remediation, "withdrawn", "it is worked on in another thread")
        if _has_not_begun(remediation) and (remediation.label, remediation.target) in elsewhere
        else remediation
        for remediation in remediations
    ]


def _has_not_begun(remediation: Remediation) -> bool:
    return remediation.is_open and not remediation.drained and remediation.since is None


def end_outdated_remediations(remediations: Sequence[Remediation]) -> list[Remediation]:
    """End open remediations of another graph version.

    Those that have not begun are withdrawn, so that they are planned again; people take over the others.
    """
    ended_remediations: list[Remediation] = []
    for remediation in remediations:
        if remediation.is_open:
            outcome: RemediationOutcome = "withdrawn" if _has_not_begun(remediation) else "stopped"
            remediation = end_remediation(remediation, outcome, "RackMedic was upgraded meanwhile")
        ended_remediations.append(remediation)
    return ended_remediations


def describe_remediation(remediation: Remediation, title: str) -> str:
    """Return one line: the cause, the current step, what it waits for, and whether another party drained the node."""
    status = _format_status(remediation, title)
    return f"{status}; {remediation.held_elsewhere}" if remediation.held_elsewhere else status


def _format_status(remediation: Remediation, title: str) -> str:
    subject = f"{title} on {remediation.target}"
    if remediation.current_step and remediation.current_step.remedy == "run_check":
        subject = f"Test {remediation.current_step.args.get('check', '')} on {fold_host_names(remediation.target.split(','))}"
    if remediation.outcome:
        return f"{subject}: {remediation.outcome}" + (f", {remediation.says}" if remediation.says else "")
    if remediation.waiting_for == "proof":
        return f"{subject}: passes now; re-check " + (f"at {remediation.due:%H:%M} UTC" if remediation.due else "pending")
    note = f"; {remediation.says}" if remediation.says else ""
    return f"{subject}: {format_current_step(remediation)} ({_format_wait_reason(remediation)}{note})"


def format_current_step(remediation: Remediation) -> str:
    step = remediation.current_step
    if step is None:
        return "nothing left to do"
    return fill_slots(REMEDIES[step.remedy].does, {"approval": remediation.approval, **step.args})


def _format_wait_reason(remediation: Remediation) -> str:
    match remediation.waiting_for:
        case "approval":
            return "queued, not proposed yet" if remediation.late else "waiting for approval"
        case "idle":
            return f"waiting until {remediation.target} is drained and without jobs"
        case "node_back":
            return f"waiting for {remediation.target}"
        case _:
            return "waiting for the other fixes on this host"
