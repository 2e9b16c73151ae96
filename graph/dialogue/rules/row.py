"""The format of a cue row. A cue lists terms that must all be present, in any order.

A term is an idea of `words`, an alternative (`a|b`), a named thing (`HOST`, `CAUSE`, …), a quoted literal word
(`'mine'`), or a mood: `?` a question, `>` a request, `.` a statement. `!` before a term forbids it; `=` requires that
nothing else is said.
"""

from typing import NamedTuple


class CueRow(NamedTuple):
    """`covers`: share of the sentence that the cue, names and neutral words must cover, nearly all for intents that
    act.
    """

    cues: str
    covers: float
    weight: float = 1.0  # Below one it yields to others.
    # Moods that exclude it: negation (`not`), condition (`if`), question (`?`). A row with any acts, so it is not read
    # in quoted speech.
    unless: str = ""
    never: str = ""  # Terms that exclude it.
