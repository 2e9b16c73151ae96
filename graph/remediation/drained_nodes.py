"""Nodes that RackMedic drained and has not returned: who approved, since when, why, and whether a return may be
requested. Pure.

After a remedy that failed, made it worse or was not proved, RackMedic offers no return, only the reason.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from graph.remediation.build import build_approval_id, build_return_step
from graph.remediation.outcomes import UNRESOLVED_OUTCOMES, format_current_step, format_still_drained
from graph.report import ReturnableNode
from graph.state import Remediation
from kb.taxonomy.taxonomy import Taxonomy


@dataclass(frozen=True, slots=True)
class DrainedNode:
    """`by` is the approver's name, empty if not recorded; `why` the remediation's status."""

    ladder: str
    host: str
    label: str
    by: str
    since: datetime | None
    why: str
    no_return: str = ""  # Why its return cannot be requested; if empty, a fresh check decides.
    unasked: datetime | None = None  # Since when the scheduler could not be asked whether the node is still drained.

    def render_line(self, title: str = "") -> str:
        return f"{self.host}: {self.render_status(title)}"

    def render_status(self, title: str = "") -> str:
        since = f" since {self.since:%Y-%m-%d %H:%M} UTC" if self.since else ""
        approved = f", approved by {self.by}" if self.by else ""
        cause = f", for {title}" if title else ""
        doubt = f"; could not look since {self.unasked:%Y-%m-%d %H:%M} UTC whether it still is" if self.unasked else ""
        return f"drained by RackMedic{since}{approved}{cause}; {self.why}{doubt}"


def list_drained_nodes(remediations: Sequence[Remediation]) -> list[DrainedNode]:
    return [
        DrainedNode(
            row.id,
            row.target,
            row.label,
            row.drained_by,
            row.drained_at,
            _format_status(row),
            get_return_blocker(row, remediations),
            row.unasked,
        )
        for row in remediations
        if row.drained
    ]


def render_drained_nodes(remediations: Sequence[Remediation], taxonomy: Taxonomy) -> list[str]:
    """Return drained nodes, then nodes locked by an unclear outcome, for a handover."""
    lines = [row.render_line(taxonomy.get_title(row.label)) for row in list_drained_nodes(remediations)]
    lines += [f"{row.target} is locked: {row.approval} ended in doubt" for row in remediations if row.outcome == "unknown"]
    return list(dict.fromkeys(lines))


def _format_status(remediation: Remediation) -> str:
    if remediation.is_open:
        return "; ".join(filter(None, (remediation.says, f"next: {format_current_step(remediation)}")))
    return remediation.says.removesuffix(format_still_drained(remediation)).rstrip("; ") or remediation.outcome


def list_returnable_nodes(remediations: Sequence[Remediation]) -> tuple[ReturnableNode, ...]:
    """Return drained nodes whose return may be requested; a fresh check decides whether it is proposed."""
    return tuple(ReturnableNode(ladder=row.ladder, host=row.host) for row in list_drained_nodes(remediations) if not row.no_return)


def get_return_blocker(remediation: Remediation, remediations: Sequence[Remediation]) -> str:
    """Return why a return may not be requested, or "". `ladders`: all of the incident."""
    if not remediation.drained:
        return f"{remediation.target} is no longer held"
    if remediation.is_open:
        return (
            f"the fix continues automatically: {format_current_step(remediation)}"
            if not is_returning(remediation)
            else "its return is under way in the thread"
        )
    return next(filter(None, (_get_unmended_reason(row) for row in (remediation, *list_unresolved_on_host(remediation, remediations)))), "")


def list_unresolved_on_host(remediation: Remediation, remediations: Sequence[Remediation]) -> list[Remediation]:
    """Return the host's other remediations not known to have succeeded."""
    others_on_host = [row for row in remediations if row.target == remediation.target and row.id != remediation.id]
    return [
        row
        for row in others_on_host
        if ((row.is_open and row.waiting_for != "proof") or row.outcome in UNRESOLVED_OUTCOMES) and not _runs_check(row)
    ]


def will_return_node(remediation: Remediation) -> bool:
    """Return whether the present plan ends with the return of a node that this remediation drains."""
    plan = (
        remediation.tried
        if remediation.current_step is None or remediation.current_step.part == "restore"
        else remediation.current_step.plan
    )
    drains = any(row.remedy == "drain_node" and row.plan == plan for row in remediation.rungs)
    return any(row.part == "restore" for row in remediation.rungs) and (remediation.drained or (drains and not remediation.held_elsewhere))


def is_returning(remediation: Remediation) -> bool:
    """Return whether the node is being returned, also by a closed incident."""
    return remediation.is_open and remediation.current_step is not None and remediation.current_step.part == "restore"


def propose_return(incident: str, remediation: Remediation) -> Remediation:
    """Propose the return once more, also where the plan had none."""
    back = next((n for n, row in enumerate(remediation.rungs) if row.part == "restore"), len(remediation.rungs))
    steps = remediation.rungs if back < len(remediation.rungs) else (*remediation.rungs, build_return_step(remediation.target))
    attempt = remediation.attempt + 1 if remediation.rung == back else 1
    update = {"rungs": steps, "rung": back, "attempt": attempt, "outcome": "", "waiting_for": "approval", "due": None, "says": ""}
    return_remediation = remediation.model_copy(update=update)
    return return_remediation.model_copy(update={"approval": build_approval_id(incident, return_remediation)})


def _get_unmended_reason(remediation: Remediation) -> str:
    """Return what blocks a return regardless of new observations."""
    if remediation.is_open:
        return f"another fix on {remediation.target} is in progress: {format_current_step(remediation)}"
    if remediation.outcome == "unknown":
        return remediation.says
    if _is_remedy_unproven(remediation):
        return f"a remedy was run and is not proved to have helped ({_format_status(remediation)}); the person who repairs {remediation.target} must return it"
    if remediation.fault is None and remediation.since is None:
        return "what was wrong is not noted, so I cannot look whether it is gone"
    return ""


def _is_remedy_unproven(remediation: Remediation) -> bool:
    """Return whether a host-changing remedy was claimed and the last proof did not pass."""
    step = remediation.current_step
    if remediation.since is None or step is None or step.part == "restore":
        return False
    later = any(row.part == "fix" and row.plan == step.plan for row in remediation.rungs[remediation.rung + 1 :])
    return later or not remediation.proven or remediation.proven != remediation.approval


def _runs_check(remediation: Remediation) -> bool:
    return any(step.remedy == "run_check" for step in remediation.rungs)


def has_drained_nodes(remediations: Sequence[Remediation]) -> bool:
    """Such an incident is never deleted, even when closed."""
    return any(row.drained for row in remediations)
