"""Answer who owns the incident and who may approve. Names are never mentions."""

from collections.abc import Sequence

from graph.context import ApprovalStatus
from graph.incident.answers.answer_context import AnswerContext, build_answer
from graph.incident.turn_result import TurnResult
from graph.remediation.outcomes import format_current_step
from graph.state import Remediation
from tools.inventory.host_ranges import fold_host_names

NO_OWNER_TEXT = "Nobody is on it. Say “I take it”, or “assign it to @name”."


def get_owner(context: AnswerContext) -> str:
    """Return who took or was assigned the incident, or an empty string."""
    case = context.case
    return case.owner or (case.ticket.taken_by if case.ticket else "")


async def answer_owner(context: AnswerContext) -> TurnResult:
    """Answer with the owner and the pending approvals."""
    owner, waiting_remediations = (
        get_owner(context),
        [row for row in context.case.remediations if row.is_open and row.waiting_for == "approval"],
    )
    doing = f"Waiting for approval: {render_pending_approvals(waiting_remediations)}." if waiting_remediations else ""
    return build_answer(context, [f"{owner} is on it." if owner else NO_OWNER_TEXT, doing])


async def take_incident(context: AnswerContext) -> TurnResult:
    """Assign the incident to the requester."""
    return _set_owner(context, context.case.item.user, own=True)


async def assign_incident(context: AnswerContext) -> TurnResult:
    """Assign the incident to the person named."""
    if not context.message.person:
        return build_answer(context, ["Whom? For example “assign it to @name”; or say “I take it”."])
    return _set_owner(context, context.message.person, own=context.message.person == context.case.item.user)


async def mark_waiting(context: AnswerContext) -> TurnResult:
    """Mark the ticket as waiting for others. An unowned ticket goes to the requester."""
    ticket, user = context.case.ticket, get_owner(context) or context.case.item.user
    if ticket is None or ticket.state == "resolved":
        return build_answer(context, ["There is no ticket that could wait. Say “hand off” first, or press “Take”."])
    if ticket.state == "waiting":
        return build_answer(context, ["It is already waiting; say “I take it” to continue."])
    text = f"Noted: {user} has it, and it waits for others. Say “I take it” to continue."
    return build_answer(context, [text], owner=user, ticket=ticket.model_copy(update={"state": "waiting", "taken_by": user}))


def _set_owner(context: AnswerContext, user: str, *, own: bool) -> TurnResult:
    before, case = get_owner(context), context.case
    if not user:
        return build_answer(context, ["I could not tell who you are, so nothing was noted."])
    if before == user and not (own and case.ticket and case.ticket.state == "waiting"):
        return build_answer(context, [f"{user} is on it already."])
    notice = f"{user} is on it{' from now on' if before else ''}."
    ticket = case.ticket
    if ticket and ticket.state != "resolved":
        ticket = ticket.model_copy(update={"state": "taken", "taken_by": user})
    return build_answer(
        context, [notice, "" if own else "I don't ping people; please tell them.", "I go on answering here."], owner=user, ticket=ticket
    )


async def answer_approvers(context: AnswerContext) -> TurnResult:
    """Answer with approvers, quorum and deadline of pending decisions."""
    live = await context.ports.decisions(context.case.id)
    waiting_remediations = [row for row in context.case.remediations if row.is_open and row.waiting_for == "approval"]
    if live is None:
        pending_text = f"Waiting for approval: {render_pending_approvals(waiting_remediations)}. " if waiting_remediations else ""
        return build_answer(
            context,
            [f"{pending_text}Nobody can approve here: approvers do it in Slack, with the button on the card."],
        )
    pending = [row for row in live if row.open]
    if not pending:
        return build_answer(context, ["Nothing is waiting for approval."])
    return build_answer(context, [line for row in pending[:3] for line in render_approval_status(row)])


def render_approval_status(row: ApprovalStatus) -> list[str]:
    names = ", ".join(row.approvers[:8]) + (f" and {len(row.approvers) - 8} more" if len(row.approvers) > 8 else "")
    takes = f"it takes {row.quorum}" + (f", {', '.join(row.approved_by)} did" if row.approved_by else "")
    until = f", until {row.until:%H:%M} UTC" if row.until else ""
    return [f"{row.does}: {names or 'no approver is named'} ({takes}{until})."]


def render_pending_approvals(rows: Sequence[Remediation]) -> str:
    return "; ".join(render_step_summary(row) for row in rows[:3]) + (f" and {len(rows) - 3} more" if len(rows) > 3 else "")


def render_step_summary(row: Remediation) -> str:
    """Return the current step with its host: `Drain gpu-003`, `Reboot the node (gpu-003)`."""
    words = format_current_step(row).partition(": ")[0]
    hosts = fold_host_names(row.target.split(","))
    return words if hosts in words else f"{words} ({hosts})"
