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


def list_drained_nodes(ladders: Sequence[Remediation]) -> list[DrainedNode]:
    return [
        DrainedNode(
            row.id,
            row.target,
            row.label,
            row.drained_by,
            row.drained_at,
            _format_status(row),
            get_return_blocker(row, ladders),
            row.unasked,
        )
        for row in ladders
        if row.drained
    ]


def render_drained_nodes(ladders: Sequence[Remediation], taxonomy: Taxonomy) -> list[str]:
    """Return drained nodes, then nodes locked by an unclear outcome, for a handover."""
    said = [row.render_line(taxonomy.get_title(row.label)) for row in list_drained_nodes(ladders)]
    said += [f"{row.target} is locked: {row.approval} ended in doubt" for row in ladders if row.outcome == "unknown"]
    return list(dict.fromkeys(said))


def _format_status(ladder: Remediation) -> str:
    if ladder.is_open:
        return "; ".join(filter(None, (ladder.says, f"next: {format_current_step(ladder)}")))
    return ladder.says.removesuffix(format_still_drained(ladder)).rstrip("; ") or ladder.outcome


def list_returnable_nodes(ladders: Sequence[Remediation]) -> tuple[ReturnableNode, ...]:
    """Return drained nodes whose return may be requested; a fresh check decides whether it is proposed."""
    return tuple(ReturnableNode(ladder=row.ladder, host=row.host) for row in list_drained_nodes(ladders) if not row.no_return)


def get_return_blocker(ladder: Remediation, ladders: Sequence[Remediation]) -> str:
    """Return why a return may not be requested, or "". `ladders`: all of the incident."""
    if not ladder.drained:
        return f"{ladder.target} is not held any more"
    if ladder.is_open:
        return (
            f"the fix goes on by itself: {format_current_step(ladder)}"
            if not is_returning(ladder)
            else "its return is under way in the thread"
        )
    return next(filter(None, (_get_unmended_reason(row) for row in (ladder, *list_unresolved_on_host(ladder, ladders)))), "")


def list_unresolved_on_host(ladder: Remediation, ladders: Sequence[Remediation]) -> list[Remediation]:
    """Return the host's other remediations not known to have succeeded."""
    others = [row for row in ladders if row.target == ladder.target and row.id != ladder.id]
    return [
        row
        for row in others
        if ((row.is_open and row.waiting_for != "proof") or row.outcome in UNRESOLVED_OUTCOMES) and not _runs_check(row)
    ]


def will_return_node(ladder: Remediation) -> bool:
    """Return whether the present plan ends with the return of a node that this remediation drains."""
    plan = ladder.tried if ladder.current_step is None or ladder.current_step.part == "restore" else ladder.current_step.plan
    drains = any(row.remedy == "drain_node" and row.plan == plan for row in ladder.rungs)
    return any(row.part == "restore" for row in ladder.rungs) and (ladder.drained or (drains and not ladder.held_elsewhere))


def is_returning(ladder: Remediation) -> bool:
    """Return whether the node is being returned, also by a closed incident."""
    return ladder.is_open and ladder.current_step is not None and ladder.current_step.part == "restore"


def propose_return(incident: str, ladder: Remediation) -> Remediation:
    """Propose the return once more, also where the plan had none."""
    back = next((n for n, row in enumerate(ladder.rungs) if row.part == "restore"), len(ladder.rungs))
    rungs = ladder.rungs if back < len(ladder.rungs) else (*ladder.rungs, build_return_step(ladder.target))
    attempt = ladder.attempt + 1 if ladder.rung == back else 1
    update = {"rungs": rungs, "rung": back, "attempt": attempt, "outcome": "", "waiting_for": "approval", "due": None, "says": ""}
    asked = ladder.model_copy(update=update)
    return asked.model_copy(update={"approval": build_approval_id(incident, asked)})


def _get_unmended_reason(ladder: Remediation) -> str:
    """Return what blocks a return regardless of new observations."""
    if ladder.is_open:
        return f"another fix on {ladder.target} goes on: {format_current_step(ladder)}"
    if ladder.outcome == "unknown":
        return ladder.says
    if _is_remedy_unproven(ladder):
        return f"a remedy was run and is not proved to have helped ({_format_status(ladder)}); the person who repairs {ladder.target} must return it"
    if ladder.fault is None and ladder.since is None:
        return "what was wrong is not noted, so I cannot look whether it is gone"
    return ""


def _is_remedy_unproven(ladder: Remediation) -> bool:
    """Return whether a host-changing remedy was claimed and the last proof did not pass."""
    rung = ladder.current_step
    if ladder.since is None or rung is None or rung.part == "restore":
        return False
    later = any(row.part == "fix" and row.plan == rung.plan for row in ladder.rungs[ladder.rung + 1 :])
    return later or not ladder.proven or ladder.proven != ladder.approval


def _runs_check(ladder: Remediation) -> bool:
    return any(rung.remedy == "run_check" for rung in ladder.rungs)


def has_drained_nodes(ladders: Sequence[Remediation]) -> bool:
    """Such an incident is never deleted, even when closed."""
    return any(row.drained for row in ladders)
