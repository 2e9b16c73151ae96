"""Map messages (by intent) and other items (by kind) to their handlers."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from graph.context import GraphContext
from graph.dialogue.intents import Intent
from graph.engine.assessment import Assessment
from graph.incident.answers import (
    action_details,
    attachments,
    charts,
    closing,
    fact_details,
    history,
    host_comparison,
    host_identity,
    host_jobs,
    hosts,
    magnitudes,
    next_steps,
    outputs,
    people,
    reasons,
    remedy_requests,
    safety,
    summaries,
    urgency,
)
from graph.incident.answers.answer_context import AnswerContext
from graph.incident.answers.item_answers import HANDLERS_BY_KIND, answer_unknown_names
from graph.incident.context import IncidentContext
from graph.incident.turn_result import TurnResult
from graph.state import InboxItemKind

AnswerHandler = Callable[[AnswerContext], Awaitable[TurnResult]]

# every intent whose item is an `ask`
HANDLERS_BY_INTENT: Final[Mapping[Intent, AnswerHandler]] = {
    Intent.HOST_STATE: hosts.answer_host_state,
    Intent.GROUP_STATE: hosts.answer_group_state,
    Intent.SHOW_OUTPUT: outputs.show_output,
    Intent.SHOW_PICTURE: charts.show_chart,
    Intent.EXPLAIN: reasons.explain_cause,
    Intent.WHY_NOT: reasons.explain_why_not,
    Intent.COMPARE: host_comparison.compare_hosts,
    Intent.CHANGED_SINCE: history.answer_changes_since,
    Intent.HAPPENED_BEFORE: history.answer_happened_before,
    Intent.SAFE_TO: safety.answer_is_safe,
    Intent.WHAT_NOW: next_steps.answer_next_step,
    Intent.ON_APPROVE: next_steps.answer_on_approve,
    Intent.WHO_MAY_APPROVE: people.answer_approvers,
    Intent.WHO_IS_ON_IT: people.answer_owner,
    Intent.ACTION_DETAIL: action_details.answer_action_detail,
    Intent.FACT_DETAIL: fact_details.answer_fact_detail,
    Intent.JOBS_ON_HOST: host_jobs.answer_jobs_on_host,
    Intent.HOST_IDENTITY: host_identity.answer_host_identity,
    Intent.PAGE_OR_WAIT: urgency.answer_page_or_wait,
    Intent.TAKE: people.take_incident,
    Intent.ASSIGN: people.assign_incident,
    Intent.WAITS: people.mark_waiting,
    Intent.SUMMARY: summaries.answer_summary,
    Intent.REPORT: summaries.answer_report,
    Intent.RUN_CHECK: remedy_requests.request_check,
    Intent.WISH_REMEDY: remedy_requests.request_remedy,
    Intent.UNDO: remedy_requests.request_undo,
    Intent.CORRECT: closing.correct_cause,
    Intent.CLOSE: closing.close_incident,
    Intent.REOPEN: closing.reopen_incident,
    Intent.PAUSE: closing.pause_thread,
    Intent.SNOOZE: closing.snooze_reminders,
    Intent.HELP: summaries.answer_help,
    Intent.THANKS: summaries.answer_thanks,
    Intent.SMALL_TALK: summaries.answer_small_talk,
    Intent.META: summaries.answer_about_bot,
    Intent.TYPED_APPROVAL: summaries.answer_typed_approval,
    Intent.NOT_UNDERSTOOD: summaries.answer_not_understood,
}

# questions with an item kind of their own, as buttons send them too
HANDLERS_BY_QUESTION_KIND: Final[Mapping[InboxItemKind, AnswerHandler]] = {"why": reasons.explain_cause, "status": summaries.answer_status}
# Questions about hosts that may name a cause which was remediated.
QUESTIONS_OF_STATE = frozenset({Intent.WHY_NOT, Intent.HOST_STATE, Intent.GROUP_STATE, Intent.SHOW_OUTPUT, Intent.NOT_UNDERSTOOD})


async def answer_item(context: IncidentContext, assessment: Assessment, graph_context: GraphContext) -> TurnResult:
    """Answer the turn's item."""
    if context.keeps_last_report:
        return answer_unknown_names(context)
    answer_context = AnswerContext(context, assessment, graph_context)
    if files := attachments.find_named_attachments(answer_context):
        return await attachments.show_attached(answer_context, files)
    if context.kind in HANDLERS_BY_QUESTION_KIND:
        return await HANDLERS_BY_QUESTION_KIND[context.kind](answer_context)
    if context.kind == "ask":
        return await _find_handler(answer_context)(answer_context)
    return HANDLERS_BY_KIND[context.kind](context, assessment)


def _find_handler(context: AnswerContext) -> AnswerHandler:
    """Return the intent's handler; of a cause that was remediated, its numbers since then."""
    if context.message.intent in QUESTIONS_OF_STATE and magnitudes.asks_about_remediated_cause(context):
        return magnitudes.answer_how_much
    return HANDLERS_BY_INTENT.get(context.message.intent, summaries.answer_not_understood)
