"""A row of cues. A cue is a few terms that must all be said, in any order.

A term is an idea of `words`, an alternative (`a|b`), a thing that is named (`HOST`, `CAUSE`, …), a literal word in quotes (`'mine'`),
or the mood of the sentence: `?` a question, `>` a request, `.` a statement. `!` before a term forbids it; `=` asks that nothing else is said.
"""

from typing import NamedTuple


class CueRow(NamedTuple):
    """`covers`: the share of the sentence that must be words of the cue, names, or words that say nothing. What acts wants
    nearly all of it."""

    cues: str
    covers: float
    weight: float = 1.0
    """Less than one gives way to others."""
    unless: str = ""
    """Moods in which it is not meant: in a negation (`not`), a condition (`if`), or a question about it (`?`). What has any acts, and is not
    read where somebody else's words are quoted."""
    never: str = ""
    """Terms with which it is not meant."""
