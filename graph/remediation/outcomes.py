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


def end_remediation(ladder: Remediation, outcome: RemediationOutcome, says: str) -> Remediation:
    """End it; the text names a node that stays drained."""
    held = format_still_drained(ladder) if ladder.drained and outcome != "cured" else ""
    said = "; ".join(filter(None, (says, held)))
    return ladder.model_copy(update={"outcome": outcome, "waiting_for": "none", "due": None, "says": said})


def format_still_drained(ladder: Remediation) -> str:
    return f"{ladder.target} stays drained"


def release_finished_nodes(ladders: Sequence[Remediation], yard: PlanContext) -> list[Remediation]:
    """Request the return of a node when all its remediations are done and succeeded."""
    return [_request_return(row, ladders, yard) if _is_ready_to_return(row) else row for row in ladders]


def _is_ready_to_return(ladder: Remediation) -> bool:
    return ladder.is_open and ladder.current_step is not None and ladder.current_step.part == "restore" and ladder.waiting_for == "none"


def _request_return(ladder: Remediation, ladders: Sequence[Remediation], yard: PlanContext) -> Remediation:
    others = [row for row in ladders if row.target == ladder.target and row.id != ladder.id]
    if any(row.is_open and row.waiting_for != "proof" for row in others):
        return ladder
    bad = next((row for row in others if row.outcome in UNRESOLVED_OUTCOMES), None)
    if bad is not None:
        return end_remediation(ladder, "ticket", f"fixed, but {yard.taxonomy.get_title(bad.label)} on the same host is not")
    return request_approval(ladder, yard)


def stop_remediations(ladders: Sequence[Remediation], why: str) -> list[Remediation]:
    """Stop open remediations, as a human took over. A running action continues; the reconciler withdraws proposed ones."""
    return [end_remediation(row, "stopped", why) if row.is_open else row for row in ladders]


def withdraw_disbelieved(ladders: Sequence[Remediation], causes: Collection[tuple[str, str]]) -> list[Remediation]:
    """Withdraw untouched ones whose cause (label, host) is no longer believed."""

    def idle(row: Remediation) -> bool:
        return row.is_open and not row.drained and row.since is None and (row.label, row.target) not in causes

    return [end_remediation(row, "withdrawn", "the cause is no longer believed") if idle(row) else row for row in ladders]


def withdraw_owned_elsewhere(ladders: Sequence[Remediation], elsewhere: Collection[tuple[str, str]]) -> list[Remediation]:
    """Withdraw untouched ones whose cause (label, host) another incident owns."""

    def theirs(row: Remediation) -> bool:
        return row.is_open and not row.drained and row.since is None and (row.label, row.target) in elsewhere

    return [end_remediation(row, "withdrawn", "it is worked on in another thread") if theirs(row) else row for row in ladders]


def end_outdated_remediations(ladders: Sequence[Remediation]) -> list[Remediation]:
    """For another graph version: plan untouched ones again, leave others to people."""
    why = "RackMedic was upgraded meanwhile"
    begun = [row.is_open and (row.drained or row.since is not None) for row in ladders]
    return [
        end_remediation(row, "stopped" if held else "withdrawn", why) if row.is_open else row
        for row, held in zip(ladders, begun, strict=True)
    ]


def describe_remediation(ladder: Remediation, title: str) -> str:
    """Return one line: cause, next step, what it waits for, and another holder of the node."""
    return "; ".join(filter(None, (_format_status(ladder, title), ladder.held_elsewhere)))


def _format_status(ladder: Remediation, title: str) -> str:
    where = f"{title} on {ladder.target}"
    if ladder.current_step and ladder.current_step.remedy == "run_check":
        where = f"Test {ladder.current_step.args.get('check', '')} on {fold_host_names(ladder.target.split(','))}"
    if ladder.outcome:
        return f"{where}: {ladder.outcome}" + (f", {ladder.says}" if ladder.says else "")
    if ladder.waiting_for == "proof":
        return f"{where}: passes now; re-check " + (f"at {ladder.due:%H:%M} UTC" if ladder.due else "pending")
    says = f"; {ladder.says}" if ladder.says else ""
    return f"{where}: {format_current_step(ladder)} ({_format_wait_reason(ladder)}{says})"


def format_current_step(ladder: Remediation) -> str:
    rung = ladder.current_step
    return fill_slots(REMEDIES[rung.remedy].does, {"approval": ladder.approval, **rung.args}) if rung else "nothing left to do"


def _format_wait_reason(ladder: Remediation) -> str:
    return {
        "approval": "queued, not proposed yet" if ladder.late else "waiting for approval",
        "idle": f"waiting until {ladder.target} is drained and without jobs",
        "node_back": f"waiting for {ladder.target}",
    }.get(ladder.waiting_for, "waiting for the other fixes on this host")
