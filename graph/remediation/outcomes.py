"""End remediations, release their nodes, and describe them for people. Pure.

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
    """End it; the text names a node that stays drained."""
    drained_note = format_still_drained(remediation) if remediation.drained and outcome != "cured" else ""
    text = "; ".join(filter(None, (says, drained_note)))
    return remediation.model_copy(update={"outcome": outcome, "waiting_for": "none", "due": None, "says": text})


def format_still_drained(remediation: Remediation) -> str:
    return f"{remediation.target} stays drained"


def release_finished_nodes(remediations: Sequence[Remediation], plan: PlanContext) -> list[Remediation]:
    """Request the return of a node when all its remediations are done and succeeded."""
    return [_request_return(row, remediations, plan) if _is_ready_to_return(row) else row for row in remediations]


def _is_ready_to_return(remediation: Remediation) -> bool:
    return (
        remediation.is_open
        and remediation.current_step is not None
        and remediation.current_step.part == "restore"
        and remediation.waiting_for == "none"
    )


def _request_return(remediation: Remediation, remediations: Sequence[Remediation], plan: PlanContext) -> Remediation:
    others_on_host = [row for row in remediations if row.target == remediation.target and row.id != remediation.id]
    if any(row.is_open and row.waiting_for != "proof" for row in others_on_host):
        return remediation
    bad = next((row for row in others_on_host if row.outcome in UNRESOLVED_OUTCOMES), None)
    if bad is not None:
        return end_remediation(remediation, "ticket", f"fixed, but {plan.taxonomy.get_title(bad.label)} on the same host is not")
    return request_approval(remediation, plan)


def stop_remediations(remediations: Sequence[Remediation], why: str) -> list[Remediation]:
    """Stop open remediations, as a human took over. A running action continues; the reconciler withdraws proposed ones."""
    return [end_remediation(row, "stopped", why) if row.is_open else row for row in remediations]


def withdraw_disbelieved(remediations: Sequence[Remediation], causes: Collection[tuple[str, str]]) -> list[Remediation]:
    """Withdraw untouched ones whose cause (label, host) is no longer believed."""

    def idle(row: Remediation) -> bool:
        return row.is_open and not row.drained and row.since is None and (row.label, row.target) not in causes

    return [end_remediation(row, "withdrawn", "the cause is no longer believed") if idle(row) else row for row in remediations]


def withdraw_owned_elsewhere(remediations: Sequence[Remediation], elsewhere: Collection[tuple[str, str]]) -> list[Remediation]:
    """Withdraw untouched ones whose cause (label, host) another incident owns."""

    def theirs(row: Remediation) -> bool:
        return row.is_open and not row.drained and row.since is None and (row.label, row.target) in elsewhere

    return [end_remediation(row, "withdrawn", "it is worked on in another thread") if theirs(row) else row for row in remediations]


def end_outdated_remediations(remediations: Sequence[Remediation]) -> list[Remediation]:
    """For another graph version: plan untouched ones again, leave others to people."""
    reason = "RackMedic was upgraded meanwhile"
    was_begun = [row.is_open and (row.drained or row.since is not None) for row in remediations]
    return [
        end_remediation(row, "stopped" if is_begun else "withdrawn", reason) if row.is_open else row
        for row, is_begun in zip(remediations, was_begun, strict=True)
    ]


def describe_remediation(remediation: Remediation, title: str) -> str:
    """Return one line: cause, next step, what it waits for, and another holder of the node."""
    return "; ".join(filter(None, (_format_status(remediation, title), remediation.held_elsewhere)))


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
    return fill_slots(REMEDIES[step.remedy].does, {"approval": remediation.approval, **step.args}) if step else "nothing left to do"


def _format_wait_reason(remediation: Remediation) -> str:
    return {
        "approval": "queued, not proposed yet" if remediation.late else "waiting for approval",
        "idle": f"waiting until {remediation.target} is drained and without jobs",
        "node_back": f"waiting for {remediation.target}",
    }.get(remediation.waiting_for, "waiting for the other fixes on this host")
