"""What a model may make of a message that the rules did not understand. Pure; the model proposes ids, and this table disposes.

Whatever a model says, nothing is closed, taken, stopped or muted by it: such a guess becomes the suggestion of the honest line. What is
put up for decision, or noted, needs the words themselves to have named it.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from graph.dialogue.intents import INTENTS, Intent
from graph.dialogue.said import ParsedMessage
from graph.model.reasoner import IntentChoices, IntentGuess

ONLY_SAID: Final = frozenset(
    {Intent.TAKE, Intent.WAITS, Intent.HAND_OFF, Intent.UNDO, Intent.FIXED, Intent.CLOSE, Intent.REOPEN, Intent.STOP, Intent.PAUSE}
)
"""Never read by a model. An approval may be: it is answered with where the button is."""
NEEDS: Final[Mapping[Intent, Callable[[ParsedMessage], object]]] = {
    Intent.ASSIGN: lambda said: said.person,
    Intent.NARROW: lambda said: said.hosts or said.job,
    Intent.WIDEN: lambda said: said.hosts or said.group,
    Intent.RUN_CHECK: lambda said: said.check,
    Intent.RUN_GUIDE: lambda said: said.guide,
    Intent.WISH_REMEDY: lambda said: said.remedy,
    Intent.CORRECT: lambda said: said.labels or said.category,
}
"""What the rules must have found in the words themselves."""
MOST_LABELS = 5


def needs_model(said: ParsedMessage) -> bool:
    """Whether a model may be asked: only about what the rules could not read."""
    return not said.sure and said.intent is Intent.NOT_UNDERSTOOD


def build_intent_choices(hosts: Sequence[str], labels: Sequence[str], checks: Sequence[str], remedies: Sequence[str]) -> IntentChoices:
    """All that it may answer: every intent with what it does and how it may be said, and the names of this place."""
    unsaid = {Intent.NEW_FACTS}  # “anything else” would be chosen for anything else
    means = {
        intent.value: f"{row.means}, as in “{row.form}”" if row.form and intent not in unsaid else row.means
        for intent, row in INTENTS.items()
    }
    return IntentChoices(means, hosts, labels, checks, remedies)


def apply_intent_guess(said: ParsedMessage, guess: IntentGuess, *, closed: bool = False) -> ParsedMessage:
    """The message with what the model made of it, as far as that may be believed. `closed`: the incident is, and looking would open it again."""
    intent = Intent(guess.intent)
    if intent is Intent.NOT_UNDERSTOOD:
        return said
    opens = closed and INTENTS[intent].item in ("recheck", "reply")
    if intent in ONLY_SAID or opens or not NEEDS.get(intent, bool)(said):
        meant = [intent] if INTENTS[intent].form else []
        return said.model_copy(update={"suggestions": tuple(dict.fromkeys([*meant, *said.suggestions]))[:2]})
    understood: dict[str, object] = {"intent": intent, "sure": False, "suggestions": ()}
    if intent in NEEDS:  # on which host, with which test: what comes of it is people's to name
        return said.model_copy(update=understood)
    named = said.labels or said.category
    return said.model_copy(
        update=understood
        | {
            "hosts": said.hosts or guess.hosts,
            "labels": said.labels if named else guess.labels[:MOST_LABELS],
            "check": said.check or guess.check,
            "remedy": said.remedy or guess.remedy,
        }
    )
