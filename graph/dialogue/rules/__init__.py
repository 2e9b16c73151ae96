"""By which words each intent is known: rows of cues, with `;` between, one table a subject, joined here. Pure; may import the intents."""

from collections.abc import Mapping
from typing import Final

from graph.dialogue.intents import Intent
from graph.dialogue.rules import course, known, people, talk, work
from graph.dialogue.rules.row import CueRow

# Of two that fit equally, the first wins.
RULES: Final[Mapping[Intent, CueRow]] = {**known.RULES, **people.RULES, **work.RULES, **course.RULES, **talk.RULES}
