"""Every question intent has a handler, and every other intent is answered by its item's kind."""

from graph.dialogue.intents import INTENTS, Intent
from graph.incident.answers.item_answers import HANDLERS_BY_KIND
from graph.incident.answers.routes import HANDLERS_BY_INTENT, HANDLERS_BY_QUESTION_KIND
from graph.incident.context import DIAGNOSING_KINDS


def test_every_question_has_its_handler_and_no_other_intent_has_one() -> None:
    assert set(HANDLERS_BY_INTENT) == {intent for intent, row in INTENTS.items() if row.item == "ask"} | {Intent.EXPLAIN}


def test_what_is_no_question_looks_or_is_answered_by_its_kind() -> None:
    assert {row.item for row in INTENTS.values()} - {"ask"} <= DIAGNOSING_KINDS | set(HANDLERS_BY_KIND) | set(HANDLERS_BY_QUESTION_KIND)
