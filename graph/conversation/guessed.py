"""What a model may make of a message that the rules did not understand. Pure; the model proposes ids, and this table disposes.

Whatever a model says, nothing is closed, taken, stopped or muted by it: such a guess becomes the suggestion of the honest line. What is
put up for decision, or noted, needs the words themselves to have named it.
"""

from collections.abc import Callable, Mapping
from typing import Final

from graph.conversation.intents import INTENTS, Intent
from graph.conversation.said import Said
from graph.model.reasoner import IntentGuess

ONLY_SAID: Final = frozenset(
    {Intent.TAKE, Intent.HAND_OFF, Intent.UNDO, Intent.FIXED, Intent.CLOSE, Intent.REOPEN, Intent.STOP, Intent.PAUSE}
)
"""Never read by a model. An approval may be: it is answered with where the button is."""
NEEDS: Final[Mapping[Intent, Callable[[Said], object]]] = {
    Intent.ASSIGN: lambda said: said.person,
    Intent.NARROW: lambda said: said.hosts or said.job,
    Intent.WIDEN: lambda said: said.hosts or said.group,
    Intent.RUN_CHECK: lambda said: said.check,
    Intent.WISH_REMEDY: lambda said: said.remedy,
    Intent.CORRECT: lambda said: said.labels or said.category,
}
"""What the rules must have found in the words themselves."""
MOST_LABELS = 5


def with_guess(said: Said, guess: IntentGuess) -> Said:
    """The message with what the model made of it, as far as that may be believed."""
    intent = Intent(guess.intent)
    if intent is Intent.NOT_UNDERSTOOD:
        return said
    if intent in ONLY_SAID or not NEEDS.get(intent, bool)(said):
        meant = [intent] if INTENTS[intent].form else []
        return said.model_copy(update={"suggestions": tuple(dict.fromkeys([*meant, *said.suggestions]))[:2]})
    named = said.labels or said.category
    return said.model_copy(
        update={
            "intent": intent,
            "sure": False,
            "suggestions": (),
            "hosts": said.hosts or guess.hosts,
            "labels": said.labels if named else guess.labels[:MOST_LABELS],
            "check": said.check or guess.check,
            "remedy": said.remedy or guess.remedy,
        }
    )
