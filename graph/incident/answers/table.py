"""Which handler answers what: messages of people by their intent, all other items by their kind."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from graph.conversation.intents import Intent
from graph.engine.assess import Assessment
from graph.incident.answers import (
    amounts,
    attached,
    differences,
    effects,
    endings,
    outputs,
    past,
    people,
    pictures,
    reasons,
    safety,
    states,
    steps,
    tellings,
    wishes,
)
from graph.incident.answers.kinds import HANDLERS_BY_KIND, answer_unknown_names
from graph.incident.answers.known import AnswerContext
from graph.incident.case import IncidentContext
from graph.incident.concluded import TurnResult
from graph.ports import GraphContext
from graph.state import InboxItemKind

AnswerHandler = Callable[[AnswerContext], Awaitable[TurnResult]]

HANDLERS_BY_INTENT: Final[Mapping[Intent, AnswerHandler]] = {
    Intent.HOST_STATE: states.answer_host_state,
    Intent.GROUP_STATE: states.answer_group_state,
    Intent.SHOW_OUTPUT: outputs.show_output,
    Intent.SHOW_PICTURE: pictures.show_chart,
    Intent.EXPLAIN: reasons.explain_cause,
    Intent.WHY_NOT: reasons.explain_why_not,
    Intent.COMPARE: differences.compare_hosts,
    Intent.CHANGED_SINCE: past.answer_changes_since,
    Intent.HAPPENED_BEFORE: past.answer_happened_before,
    Intent.SAFE_TO: safety.answer_is_safe,
    Intent.WHAT_NOW: steps.answer_next_step,
    Intent.ON_APPROVE: steps.answer_on_approve,
    Intent.WHO_MAY_APPROVE: people.answer_approvers,
    Intent.WHO_IS_ON_IT: people.answer_owner,
    Intent.TAKE: people.take_incident,
    Intent.ASSIGN: people.assign_incident,
    Intent.WAITS: people.mark_waiting,
    Intent.SUMMARY: tellings.answer_summary,
    Intent.REPORT: tellings.answer_report,
    Intent.RUN_CHECK: wishes.request_check,
    Intent.WISH_REMEDY: wishes.request_remedy,
    Intent.UNDO: wishes.request_undo,
    Intent.CORRECT: endings.correct_cause,
    Intent.CLOSE: endings.close_incident,
    Intent.REOPEN: endings.reopen_incident,
    Intent.PAUSE: endings.pause_thread,
    Intent.HELP: tellings.answer_help,
    Intent.THANKS: tellings.answer_thanks,
    Intent.SMALL_TALK: tellings.answer_small_talk,
    Intent.META: tellings.answer_about_bot,
    Intent.TYPED_APPROVAL: tellings.answer_typed_approval,
    Intent.NOT_UNDERSTOOD: tellings.answer_not_understood,
}
"""Every intent whose item is an `ask`."""

HANDLERS_BY_QUESTION_KIND: Final[Mapping[InboxItemKind, AnswerHandler]] = {"why": reasons.explain_cause, "status": tellings.answer_status}
"""Questions that are items of their own: buttons stand for them too."""


async def answer_item(case: IncidentContext, now: Assessment, ports: GraphContext) -> TurnResult:
    """The answer to the turn's item."""
    if case.keeps_last_report:
        return answer_unknown_names(case)
    asked = AnswerContext(case, now, ports)
    if files := attached.asked_about(asked):
        return await attached.show_attached(asked, files)
    if case.kind in HANDLERS_BY_QUESTION_KIND:
        return await HANDLERS_BY_QUESTION_KIND[case.kind](asked)
    if case.kind == "ask":
        return await _handler(asked)(asked)
    return HANDLERS_BY_KIND[case.kind](case, now)


READS_ONLY = frozenset(
    {Intent.SAFE_TO, Intent.WHAT_NOW, Intent.WHY_NOT, Intent.HOST_STATE, Intent.GROUP_STATE, Intent.SHOW_OUTPUT, Intent.NOT_UNDERSTOOD}
)
"""Intents of questions whose words may ask for a number, or for what a fix does to the job."""


def _handler(asked: AnswerContext) -> AnswerHandler:
    """The handler of the intent, or the one of what exactly the question asks."""
    said = asked.message
    if said.intent in READS_ONLY and effects.asks_what_a_fix_does_to_the_job(said):
        return effects.effect_on_the_job
    states_of = READS_ONLY - {Intent.SAFE_TO, Intent.WHAT_NOW}
    if said.intent in states_of and (amounts.asks_how_much(asked) or amounts.asks_of_what_was_mended(asked)):
        return amounts.how_much
    return HANDLERS_BY_INTENT.get(said.intent, tellings.answer_not_understood)
