"""Answer what comes next, and what an approval would do."""

from graph.incident.answers.answer_context import (
    AnswerContext,
    build_answer,
    clean_text,
    get_check_name,
    render_recheck_offer,
)
from graph.incident.answers.people import render_approval_status, render_step_summary
from graph.incident.remediations import build_plan_context
from graph.incident.turn_result import TurnResult
from graph.remediation.drained_nodes import will_return_node
from graph.remediation.outcomes import describe_remediation, format_current_step
from graph.remediation.proposals import build_planned_action
from graph.state import Remediation
from tools.remedies import REMEDIES
from tools.remedies.remedy import Remedy

NOTHING_RUNS_TEXT = "Nothing runs until an approver presses Approve."


def list_pending_approvals(context: AnswerContext) -> list[Remediation]:
    return [row for row in context.case.remediations if row.is_open and row.waiting_for == "approval"]


async def answer_next_step(context: AnswerContext) -> TurnResult:
    """Answer with pending approvals, else running work, else the cause's next step."""
    case, report = context.case, context.case.report
    if case.lifecycle == "closed":
        return build_answer(context, ["Nothing: this incident is closed. Say “reopen” if it is not over."])
    if approvals := list_pending_approvals(context):
        lines = [
            f"Approve or reject on its card: {render_step_summary(row)}. Ask “what happens if I approve?” for details."
            for row in approvals[:2]
        ]
        lines += [f"… and {len(approvals) - 2} more cards."] if len(approvals) > 2 else []
        return build_answer(context, [*lines, *(report.by_hand[:2] if report else ())])
    if going := [row for row in case.remediations if row.is_open]:
        return build_answer(
            context, ["Nothing to do for you now.", *(f"• {describe_remediation(row, context.get_title(row.label))}" for row in going[:3])]
        )
    if report and report.questions:
        return build_answer(context, ["Answer what I asked:", *(f"• {question}" for question in report.questions)])
    if report and report.by_hand:
        return build_answer(context, ["A person must do this:", *(f"• {row}" for row in report.by_hand[:4])])
    if report and report.next_step:
        return build_answer(context, [report.next_step, render_recheck_offer(context, context.faulty_hosts)])
    return build_answer(context, ["Nothing is open. Tell me anything new, or say `recheck`."])


async def answer_on_approve(context: AnswerContext) -> TurnResult:
    """Answer what runs where, its preconditions, its proof and what follows."""
    approvals = [
        row for row in list_pending_approvals(context) if not context.message.hosts or row.target in context.message.hosts
    ] or list_pending_approvals(context)
    if not approvals:
        going = [row for row in context.case.remediations if row.is_open]
        later = f" {describe_remediation(going[0], context.get_title(going[0].label))}." if going else ""
        return build_answer(context, [f"Nothing is waiting for approval.{later}"])
    row = approvals[0]
    action, remedy = (
        build_planned_action(row, build_plan_context(context.case, context.ports)),
        REMEDIES[row.current_step.remedy] if row.current_step else None,
    )
    if action is None or remedy is None:
        return build_answer(context, [f"{render_step_summary(row)}; see its card."])
    via = "" if action.via == action.target else f", run via {action.via}"
    holds = [one.says for one in action.conditions] + (
        [f"the fault is still there: {clean_text(action.fault.says, 80)}"] if action.fault else []
    )
    lines = [
        f"If approved: {render_step_summary(row)}{via}. It affects {remedy.blast}.",
        f"Required before running: {'; '.join(holds)}." if holds else "",
        f"Afterwards I check again with {', '.join(get_check_name(check) for check in action.proof)}; only that result counts as fixed."
        if action.proof
        else "",
        f"Then: {_render_following_step(row)}.",
        _render_undo(remedy),
        f"{len(approvals) - 1} more card{'s' * (len(approvals) > 2)} wait{'s' * (len(approvals) == 2)}; ask with a host's name."
        if len(approvals) > 1
        else "",
    ]
    live = await context.ports.decisions(context.case.id)
    lines += [line for one in live or () if one.open and one.approval == row.approval for line in render_approval_status(one)]
    return build_answer(context, [*lines, NOTHING_RUNS_TEXT])


def _render_following_step(row: Remediation) -> str:
    later = [
        step for step in row.rungs[row.rung + 1 :] if row.current_step and step.plan == row.current_step.plan and step.part != "restore"
    ]
    if later:
        return f"{format_current_step(row.model_copy(update={'rung': row.rungs.index(later[0], row.rung + 1)}))}, on a separate card"
    if row.current_step and row.current_step.remedy == "run_check":
        return "the diagnosis is repeated with its result"
    back = "I propose the node's return to service, and " if will_return_node(row) else ""
    return f"if that helps, {back}I check again later; if not, a heavier fix is proposed or people take over"


def _render_undo(remedy: Remedy) -> str:
    if remedy.undo:
        return f"Undo: {REMEDIES[remedy.undo].does.replace('{node}', 'the node')}, on a separate card."
    return f"Undo: {remedy.back}." if remedy.back else ""
