"""Apply a model's reading of a message that the rules did not understand. Pure.

A model's guess never closes, takes, stops or mutes anything: such a guess becomes a suggestion. For whatever is
proposed or recorded, the message itself must name the subject.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from graph.dialogue.details import find_detail_in_text
from graph.dialogue.intents import INTENTS, Intent
from graph.dialogue.said import ParsedMessage
from graph.model.reasoner import IntentChoices, IntentGuess

# Never read by a model. An approval may be: the answer only points to the button.
ONLY_SAID: Final = frozenset(
    {
        Intent.TAKE,
        Intent.WAITS,
        Intent.HAND_OFF,
        Intent.UNDO,
        Intent.FIXED,
        Intent.CLOSE,
        Intent.REOPEN,
        Intent.STOP,
        Intent.PAUSE,
        Intent.SNOOZE,
    }
)
# What the rules must have found in the message itself.
NEEDS: Final[Mapping[Intent, Callable[[ParsedMessage], object]]] = {
    Intent.ASSIGN: lambda said: said.person,
    Intent.NARROW: lambda said: said.hosts or said.job,
    Intent.WIDEN: lambda said: said.hosts or said.group,
    Intent.HOST_CHANGED: lambda said: said.hosts,
    Intent.RUN_CHECK: lambda said: said.check,
    Intent.RUN_GUIDE: lambda said: said.guide,
    Intent.WISH_REMEDY: lambda said: said.remedy,
    Intent.CORRECT: lambda said: said.labels or said.category,
}
MOST_LABELS = 5


def needs_model(message: ParsedMessage) -> bool:
    """Return whether a model may be asked: only about what the rules could not read."""
    return not message.sure and message.intent is Intent.NOT_UNDERSTOOD


def build_intent_choices(hosts: Sequence[str], labels: Sequence[str], checks: Sequence[str], remedies: Sequence[str]) -> IntentChoices:
    """Return every intent with meaning and example, and the place's names."""
    unsaid = {Intent.NEW_FACTS}  # its example “anything else” would attract every unclear message
    means = {
        intent.value: f"{row.means}, as in “{row.form}”" if row.form and intent not in unsaid else row.means
        for intent, row in INTENTS.items()
    }
    return IntentChoices(means, hosts, labels, checks, remedies)


def apply_intent_guess(message: ParsedMessage, guess: IntentGuess, *, closed: bool = False) -> ParsedMessage:
    """Return the message with the guess as far as it may be trusted. `closed`: rechecking would reopen the incident."""
    intent = Intent(guess.intent)
    if intent is Intent.NOT_UNDERSTOOD:
        return message
    opens = closed and INTENTS[intent].item in ("recheck", "reply")
    if intent in ONLY_SAID or opens or not NEEDS.get(intent, bool)(message):
        meant = [intent] if INTENTS[intent].form else []
        return message.model_copy(update={"suggestions": tuple(dict.fromkeys([*meant, *message.suggestions]))[:2]})
    understood: dict[str, object] = {
        "intent": intent,
        "sure": False,
        "suggestions": (),
        "detail": find_detail_in_text(intent, message.text),
    }
    if intent in NEEDS:  # the message itself must name the host or test
        return message.model_copy(update=understood)
    named = message.labels or message.category
    return message.model_copy(
        update=understood
        | {
            "hosts": message.hosts or guess.hosts,
            "labels": message.labels if named else guess.labels[:MOST_LABELS],
            "check": message.check or guess.check,
            "remedy": message.remedy or guess.remedy,
        }
    )
