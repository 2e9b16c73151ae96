"""Answer what comes next, and what an approval would do."""

from graph.incident.answers.action_details import (
    NOTHING_RUNS_TEXT,
    find_action_subject,
    list_pending_approvals,
    render_action_detail,
)
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


async def answer_next_step(context: AnswerContext) -> TurnResult:
    """Answer with pending approvals, else running work, else the cause's next step."""
    incident, report = context.incident, context.incident.report
    if incident.lifecycle == "closed":
        return build_answer(context, ["Nothing: this incident is closed. Say “reopen” if it is not over."])
    if approvals := list_pending_approvals(context):
        lines = [
            f"Approve or reject on its card: {render_step_summary(remediation)}. Ask “what happens if I approve?” for details."
            for remediation in approvals[:2]
        ]
        if len(approvals) > 2:
            lines.append(f"… and {len(approvals) - 2} more cards.")
        return build_answer(context, [*lines, *(report.by_hand[:2] if report else ())])
    if going := [remediation for remediation in incident.remediations if remediation.is_open]:
        return build_answer(
            context,
            [
                "Nothing to do for you now.",
                *(f"• {describe_remediation(remediation, context.get_title(remediation.label))}" for remediation in going[:3]),
            ],
        )
    if report and report.questions:
        return build_answer(context, ["Answer what I asked:", *(f"• {question}" for question in report.questions)])
    if report and report.by_hand:
        return build_answer(context, ["A person must do this:", *(f"• {step}" for step in report.by_hand[:4])])
    if report and report.next_step:
        return build_answer(context, [report.next_step, render_recheck_offer(context, context.faulty_hosts)])
    return build_answer(context, ["Nothing is open. Tell me anything new, or say `recheck`."])


async def answer_on_approve(context: AnswerContext) -> TurnResult:
    """Answer what runs where, its preconditions, its proof and what follows."""
    approvals = [
        remediation
        for remediation in list_pending_approvals(context)
        if not context.message.hosts or remediation.target in context.message.hosts
    ] or list_pending_approvals(context)
    if not approvals:
        going = [remediation for remediation in context.incident.remediations if remediation.is_open]
        later = f" {describe_remediation(going[0], context.get_title(going[0].label))}." if going else ""
        return build_answer(context, [f"Nothing is waiting for approval.{later}"])
    remediation = approvals[0]
    action, remedy = (
        build_planned_action(remediation, build_plan_context(context.incident, context.graph_context)),
        REMEDIES[remediation.current_step.remedy] if remediation.current_step else None,
    )
    if action is None or remedy is None:
        return build_answer(context, [f"{render_step_summary(remediation)}; see its card."])
    status = await _render_approval(context, remediation)
    if context.message.detail and (subject := find_action_subject(context)):
        head = f"If approved: {render_step_summary(subject.remediation or remediation)}."
        return build_answer(context, [head, *render_action_detail(context, subject, context.message.detail), *status, NOTHING_RUNS_TEXT])
    via = "" if action.via == action.target else f", run via {action.via}"
    holds = [condition.says for condition in action.conditions] + (
        [f"the fault is still there: {clean_text(action.fault.says, 80)}"] if action.fault else []
    )
    lines = [
        f"If approved: {render_step_summary(remediation)}{via}. It affects {remedy.blast}.",
        f"Required before running: {'; '.join(holds)}." if holds else "",
        f"Afterwards I check again with {', '.join(get_check_name(check) for check in action.proof)}; only that result counts as fixed."
        if action.proof
        else "",
        f"Then: {_render_following_step(remediation)}.",
        _render_undo(remedy),
        f"{len(approvals) - 1} more card{'s' * (len(approvals) > 2)} wait{'s' * (len(approvals) == 2)}; ask with a host's name."
        if len(approvals) > 1
        else "",
    ]
    return build_answer(context, [*lines, *status, NOTHING_RUNS_TEXT])


async def _render_approval(context: AnswerContext, remediation: Remediation) -> list[str]:
    live = await context.graph_context.decisions(context.incident.id)
    return [
        line
        for approval in live or ()
        if approval.open and approval.approval == remediation.approval
        for line in render_approval_status(approval)
    ]


def _render_following_step(remediation: Remediation) -> str:
    later = [
        step
        for step in remediation.rungs[remediation.rung + 1 :]
        if remediation.current_step and step.plan == remediation.current_step.plan and step.part != "restore"
    ]
    if later:
        return f"{format_current_step(remediation.model_copy(update={'rung': remediation.rungs.index(later[0], remediation.rung + 1)}))}, on a separate card"
    if remediation.current_step and remediation.current_step.remedy == "run_check":
        return "the diagnosis is repeated with its result"
    back = "I propose the node's return to service, and " if will_return_node(remediation) else ""
    return f"if that helps, {back}I check again later; if not, a heavier fix is proposed or people take over"


def _render_undo(remedy: Remedy) -> str:
    if remedy.undo:
        return f"Undo: {REMEDIES[remedy.undo].does.replace('{node}', 'the node')}, on a separate card."
    return f"Undo: {remedy.back}." if remedy.back else ""
