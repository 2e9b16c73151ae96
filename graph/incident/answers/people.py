"""Answer who owns the incident and who may approve. Names are never mentions."""

from collections.abc import Mapping, Sequence
from typing import Final

from graph.context import ApprovalStatus
from graph.incident.answers.answer_context import AnswerContext, build_answer, clean_text, render_citation
from graph.incident.turn_result import TurnResult
from graph.remediation.outcomes import format_current_step
from graph.state import Remediation
from kb.taxonomy.taxonomy import Owner
from tools.inventory.host_ranges import fold_host_names

MAX_APPROVALS = 3
MAX_APPROVERS = 8
MAX_SCHEDULES = 3
ACTING_PARTIES: Final[Mapping[Owner, str]] = {
    "customer": "the job's owner",
    "provider": "the people who run these machines",
    "vendor": "the vendor, through the people who run these machines",
}
NO_OWNER_TEXT = "Nobody is on it. Say “I take it”, or “assign it to @name”."


def get_owner(context: AnswerContext) -> str:
    """Return who took or was assigned the incident, or an empty string."""
    incident = context.incident
    return incident.owner or (incident.ticket.taken_by if incident.ticket else "")


async def answer_owner(context: AnswerContext) -> TurnResult:
    """Answer with the owner, the pending approvals, who has to act by the cause, and who is on call."""
    owner = get_owner(context)
    waiting_remediations = _list_waiting_remediations(context)
    approvals_text = f"Waiting for approval: {render_pending_approvals(waiting_remediations)}." if waiting_remediations else ""
    lines = [f"{owner} is on it." if owner else NO_OWNER_TEXT, approvals_text, _render_acting_party(context)]
    return build_answer(context, [*lines, *await _render_on_call(context)])


def _render_acting_party(context: AnswerContext) -> str:
    """Return who has to act on the first cause by the taxonomy."""
    if not context.root_causes:
        return ""
    cause = context.root_causes[0]
    leaf = context.assessment.reference.taxonomy.get_leaf(cause.label)
    return f"To act: {ACTING_PARTIES[leaf.owner]}, by the cause: {leaf.title}{render_citation(cause)}."


async def _render_on_call(context: AnswerContext) -> list[str]:
    if context.is_read_by_tenant:
        return []
    sources = await context.graph_context.on_call()
    lines = [
        f"On call by {clean_text(source.source, 40)}: {', '.join(source.people[:MAX_APPROVERS]) or 'no person is named'} (read just now)."
        if not source.could_not
        else f"I could not look who is on call by {clean_text(source.source, 40)}: {clean_text(source.could_not, 80)}."
        for source in sources[:MAX_SCHEDULES]
    ]
    return lines if sources else ["I do not know who is on call; `on_call` of the site's policy would tell it."]


async def take_incident(context: AnswerContext) -> TurnResult:
    """Assign the incident to the requester."""
    return _set_owner(context, context.incident.item.user, is_own=True)


async def assign_incident(context: AnswerContext) -> TurnResult:
    """Assign the incident to the person named."""
    if not context.message.person:
        return build_answer(context, ["Whom? For example “assign it to @name”; or say “I take it”."])
    return _set_owner(context, context.message.person, is_own=context.message.person == context.incident.item.user)


async def mark_waiting(context: AnswerContext) -> TurnResult:
    """Mark the ticket as waiting for others. An unowned ticket goes to the requester."""
    ticket, user = context.incident.ticket, get_owner(context) or context.incident.item.user
    if ticket is None or ticket.state == "resolved":
        return build_answer(context, ["There is no ticket that could wait. Say “hand off” first, or press “Take”."])
    if ticket.state == "waiting":
        return build_answer(context, ["It is already waiting; say “I take it” to continue."])
    text = f"Noted: {user} has it, and it waits for others. Say “I take it” to continue."
    return build_answer(context, [text], owner=user, ticket=ticket.model_copy(update={"state": "waiting", "taken_by": user}))


def _set_owner(context: AnswerContext, user: str, *, is_own: bool) -> TurnResult:
    previous_owner, incident = get_owner(context), context.incident
    if not user:
        return build_answer(context, ["I could not tell who you are, so nothing was noted."])
    if previous_owner == user and not (is_own and incident.ticket and incident.ticket.state == "waiting"):
        return build_answer(context, [f"{user} is on it already."])
    notice = f"{user} is on it{' from now on' if previous_owner else ''}."
    ticket = incident.ticket
    if ticket and ticket.state != "resolved":
        ticket = ticket.model_copy(update={"state": "taken", "taken_by": user})
    return build_answer(
        context, [notice, "" if is_own else "I don't ping people; please tell them.", "I go on answering here."], owner=user, ticket=ticket
    )


async def answer_approvers(context: AnswerContext) -> TurnResult:
    """Answer with the approvers, quorum and deadline of each pending approval."""
    approvals = await context.graph_context.decisions(context.incident.id)
    if approvals is None:
        waiting_remediations = _list_waiting_remediations(context)
        pending_text = f"Waiting for approval: {render_pending_approvals(waiting_remediations)}. " if waiting_remediations else ""
        drains = [
            f"Approved: the drain of {fix.target}, by {fix.drained_by}{f' at {fix.drained_at:%Y-%m-%d %H:%M} UTC' if fix.drained_at else ''}."
            for fix in context.incident.remediations
            if fix.drained_by
        ]
        here = f"{pending_text}Nobody can approve here: approvers do it in Slack, with the button on the card."
        return build_answer(context, [here, *drains[:MAX_APPROVALS]])
    pending = [approval for approval in approvals if approval.open]
    approved = [_render_approved(approval) for approval in approvals if not approval.open and approval.approved_by]
    pending_lines = [line for approval in pending[:MAX_APPROVALS] for line in render_approval_status(approval)]
    return build_answer(context, [*(pending_lines or ["Nothing is waiting for approval."]), *approved[-MAX_APPROVALS:]])


def _render_approved(approval: ApprovalStatus) -> str:
    at = f" at {approval.approved_at:%Y-%m-%d %H:%M} UTC" if approval.approved_at else ""
    return f"Approved: {approval.does}, by {', '.join(approval.approved_by)}{at}."


def render_approval_status(approval: ApprovalStatus) -> list[str]:
    names = ", ".join(approval.approvers[:MAX_APPROVERS])
    if len(approval.approvers) > MAX_APPROVERS:
        names += f" and {len(approval.approvers) - MAX_APPROVERS} more"
    quorum = f"it takes {approval.quorum}"
    if approval.approved_by:
        quorum += f", {', '.join(approval.approved_by)} did"
    deadline = f", until {approval.until:%H:%M} UTC" if approval.until else ""
    return [f"{approval.does}: {names or 'no approver is named'} ({quorum}{deadline})."]


def render_pending_approvals(remediations: Sequence[Remediation]) -> str:
    summaries = "; ".join(render_step_summary(remediation) for remediation in remediations[:MAX_APPROVALS])
    return summaries + (f" and {len(remediations) - MAX_APPROVALS} more" if len(remediations) > MAX_APPROVALS else "")


def render_step_summary(remediation: Remediation) -> str:
    """Return the current step with its host: `Drain gpu-003`, `Reboot the node (gpu-003)`."""
    step = format_current_step(remediation).partition(": ")[0]
    hosts = fold_host_names(remediation.target.split(","))
    return step if hosts in step else f"{step} ({hosts})"


def _list_waiting_remediations(context: AnswerContext) -> list[Remediation]:
    return [remediation for remediation in context.incident.remediations if remediation.is_open and remediation.waiting_for == "approval"]
