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
from graph.incident.answers.kinds import BY_KIND, unknown
from graph.incident.answers.known import Asked
from graph.incident.case import Case
from graph.incident.concluded import Concluded
from graph.ports import Ports
from graph.state import ItemKind

Handler = Callable[[Asked], Awaitable[Concluded]]

BY_INTENT: Final[Mapping[Intent, Handler]] = {
    Intent.HOST_STATE: states.host_state,
    Intent.GROUP_STATE: states.group_state,
    Intent.SHOW_OUTPUT: outputs.show_output,
    Intent.SHOW_PICTURE: pictures.show_picture,
    Intent.EXPLAIN: reasons.explain,
    Intent.WHY_NOT: reasons.why_not,
    Intent.COMPARE: differences.compare,
    Intent.CHANGED_SINCE: past.changed_since,
    Intent.HAPPENED_BEFORE: past.happened_before,
    Intent.SAFE_TO: safety.safe_to,
    Intent.WHAT_NOW: steps.what_now,
    Intent.ON_APPROVE: steps.on_approve,
    Intent.WHO_MAY_APPROVE: people.who_may_approve,
    Intent.WHO_IS_ON_IT: people.who_is_on_it,
    Intent.TAKE: people.take,
    Intent.ASSIGN: people.assign,
    Intent.WAITS: people.waits,
    Intent.SUMMARY: tellings.summary,
    Intent.REPORT: tellings.report,
    Intent.RUN_CHECK: wishes.run_check,
    Intent.WISH_REMEDY: wishes.wish_remedy,
    Intent.UNDO: wishes.undo,
    Intent.CORRECT: endings.correct,
    Intent.CLOSE: endings.close,
    Intent.REOPEN: endings.reopen,
    Intent.PAUSE: endings.pause,
    Intent.HELP: tellings.helps,
    Intent.THANKS: tellings.thanks,
    Intent.SMALL_TALK: tellings.small_talk,
    Intent.META: tellings.meta,
    Intent.TYPED_APPROVAL: tellings.typed_approval,
    Intent.NOT_UNDERSTOOD: tellings.not_understood,
}
"""Every intent whose item is an `ask`."""

AS_ASKED: Final[Mapping[ItemKind, Handler]] = {"why": reasons.explain, "status": tellings.status}
"""Questions that are items of their own: buttons stand for them too."""


async def answer(case: Case, now: Assessment, ports: Ports) -> Concluded:
    """The answer to the turn's item."""
    if case.stands:
        return unknown(case)
    asked = Asked(case, now, ports)
    if files := attached.asked_about(asked):
        return await attached.show_attached(asked, files)
    if case.kind in AS_ASKED:
        return await AS_ASKED[case.kind](asked)
    if case.kind == "ask":
        return await _handler(asked)(asked)
    return BY_KIND[case.kind](case, now)


READS_ONLY = frozenset(
    {Intent.SAFE_TO, Intent.WHAT_NOW, Intent.WHY_NOT, Intent.HOST_STATE, Intent.GROUP_STATE, Intent.SHOW_OUTPUT, Intent.NOT_UNDERSTOOD}
)
"""Intents of questions whose words may ask for a number, or for what a fix does to the job."""


def _handler(asked: Asked) -> Handler:
    """The handler of the intent, or the one of what exactly the question asks."""
    said = asked.said
    if said.intent in READS_ONLY and effects.asks_what_a_fix_does_to_the_job(said):
        return effects.effect_on_the_job
    states_of = READS_ONLY - {Intent.SAFE_TO, Intent.WHAT_NOW}
    if said.intent in states_of and (amounts.asks_how_much(asked) or amounts.asks_of_what_was_mended(asked)):
        return amounts.how_much
    return BY_INTENT.get(said.intent, tellings.not_understood)
