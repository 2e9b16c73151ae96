"""Questions that allow a yes or no: those in which every word is understood. Pure.

Each pattern covers a whole question. An unknown word makes it another question, which gets no yes or no.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Final

from graph.dialogue.clauses import Clause
from graph.dialogue.intents import Intent, Predicate

LEADING: Final = frozenset(
    ["and", "but", "hello", "hey", "hi", "hm", "ok", "okay", "please", "rackmedic", "right", "so", "then", "thanks", "well"]
)
_SAFE = "(?:safe|ok|okay|fine)"
_SMALL = "(?:now|again|still|safely|already|please|meanwhile|in the meantime|for now|today|yet)"
_HEAD = (
    rf"(?:(?:is|are) (?:it|HOST|the node|the host|the machine)(?: {_SMALL})? {_SAFE} (?:to|for)|{_SAFE} (?:to|for)"
    rf"|(?:can|could|may|should|shall) (?:i|we)|(?:can|may) HOST be)(?: {_SMALL})?"
)
_USE = "(?:use|used|using|run|start|restart|resume|rerun|resubmit|submit|launch|relaunch|train|training|keep|continue)"
_THING = "(?:job|jobs|run|runs|training|work|node|nodes|host|hosts|machine|machines|server|servers|gpu|gpus|JOB|HOST)"
_PRONOUN = "(?:it|this|that|them|these|those)"
_SMALL_OF_USE = (
    rf"(?:a|an|the|my|our|any|new|other|others|rest|all|both|and|or|running|using|to|(?:on|in|with|for|use|using|used) {_PRONOUN}"
    "|on|in|with|for|there)"
)
_PUT = (
    rf"put (?:(?:a|the|my|our|new|more) )*(?:HOST|node|job|jobs|JOB|{_PRONOUN})(?: back)? "
    rf"(?:(?:to|into) (?:work|use)|on (?:HOST|{_PRONOUN}|(?:the|that|this) node))"
)
_OF_CHANGE = "(?:it|them|the|this|that|on|of|and|node|nodes|host|hosts|machine|machines|DEVICE|HOST|REMEDY)"
_HAPPENED = "(?:happen|happened|occur|occurred|seen|see|saw|had|have)"
_BEFORE = "(?:before|previously|earlier|in the past)"
_IT = "(?:it|this|that|(?:this|that) (?:one|error|fault|problem)|CAUSE|the same|the same thing|something like (?:it|this|that)|this thing)"
_ROWS: Final[Mapping[Intent, Sequence[tuple[Predicate, re.Pattern[str]]]]] = {
    Intent.SAFE_TO: (
        ("usable", re.compile(rf"{_HEAD} (?:use {_PRONOUN}|{_PUT}|{_USE})(?: (?:{_SMALL_OF_USE}|{_THING}|{_SMALL}))*")),
        ("changeable", re.compile(rf"{_HEAD} (?:(?:a|the) )?REMEDY(?: (?:{_SMALL}|{_OF_CHANGE}))*")),
    ),
    Intent.HAPPENED_BEFORE: (
        (
            "happened",
            re.compile(
                rf"(?:(?:has|have|did|had)(?: (?:we|you|i|HOST))?(?: ever)?(?: {_IT})?(?: ever)? )?{_HAPPENED}"
                rf"(?: {_IT})?(?: (?:on|to|with) (?:HOST|it|this node|this host))?(?: here)? {_BEFORE}(?: (?:on|here|HOST))*"
            ),
        ),
    ),
}
MOST_WORDS = 24
_NAMES: Final = {"host": "HOST", "group": "HOST", "job": "JOB", "cause": "CAUSE", "remedy": "REMEDY", "device": "DEVICE"}


def find_predicate(intent: Intent, parts: Sequence[Clause]) -> Predicate:
    """Return what the only sentence asks, if fully understood; a negated question has no clear yes or no."""
    said = [(clause, words) for clause in parts if (words := _words(clause))]
    if intent not in _ROWS or len(said) != 1:
        return ""
    clause, words = said[0]
    if clause.denies or clause.quotes or len(words) > MOST_WORDS:
        return ""
    return next((predicate for predicate, row in _ROWS[intent] if row.fullmatch(" ".join(words))), "")


def _words(clause: Clause) -> list[str]:
    """Replace names by their kind and drop a leading greeting."""
    kinds = {at: _NAMES.get(kind, "NAME") for kind, places in clause.named.used.items() for at in places}
    found: list[str] = []
    for at, word in enumerate(clause.words):
        token = kinds.get(at, word)
        if token not in found[-1:] or token.islower():
            found.append(token)
    while found and found[0] in LEADING and not _is_head(found):
        found.pop(0)
    return found


def _is_head(words: Sequence[str]) -> bool:
    """`ok to run` starts with no greeting."""
    return words[1:2] in (["to"], ["for"])
