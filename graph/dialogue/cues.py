"""Score how well a clause fits the cues of each intent. Pure, in bounded time."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

from graph.dialogue.intents import Intent
from graph.dialogue.mentions import NamedEntities, is_exclusive_check
from graph.dialogue.rules import RULES
from graph.dialogue.rules.row import CueRow
from graph.dialogue.words import ELSEWHERE, IDEAS, NEUTRAL, WEAK

# Cost of a word outside the cue: a technical one; an unknown one, for questions and for intents that act; one of
# everyday life.
KNOWN, ODD, STRANGE, ELSE = 0.4, 0.75, 1.0, 2.0
NEARLY = 0.6  # Share of a cue that must be present to suggest its intent.


WordPositions = tuple[int, ...]  # Positions of a clause's words that together mean one thing.


@dataclass(frozen=True, slots=True)
class Clause:
    """A sentence or a part of one: words, their ideas, named entities and mood."""

    words: tuple[str, ...]
    ideas: Mapping[str, Sequence[WordPositions]]
    named: NamedEntities
    asks: bool = False
    requests: bool = False
    denies: bool = False
    depends: bool = False  # It is conditional: if, unless, when.
    timed: bool = False
    quotes: bool = False  # It contains reported speech, so nothing in it is a request.
    part: bool = False

    def has_mood(self, mood: str) -> bool:
        """Moods: `?` asks, `>` requests, `.` states, `not` denies, `if` depends."""
        if mood in ("?", "."):
            return self.asks is (mood == "?")
        return {">": self.requests, "not": self.denies, "if": self.depends}[mood]


class IntentFit(NamedTuple):
    intent: Intent
    score: float


class CueTerm(NamedTuple):
    """`any_of`: ideas, quoted literal words, or names of things in capitals."""

    any_of: tuple[str, ...]
    forbids: bool
    mood: str


class Cue(NamedTuple):
    terms: tuple[CueTerm, ...]
    alone: bool


def rank_intents(clause: Clause) -> list[IntentFit]:
    found = [IntentFit(intent, score) for intent, rule in RULES.items() if (score := _score(clause, intent, rule)) > 0]
    return sorted(found, key=lambda fit: -fit.score)


def rank_partial_intents(clause: Clause) -> list[IntentFit]:
    found = [IntentFit(intent, max(_partly(clause, cue) for cue in _cues()[intent])) for intent in RULES]
    return sorted((fit for fit in found if fit.score > 0), key=lambda fit: -fit.score)


def find_ideas(words: Sequence[str]) -> Mapping[str, Sequence[WordPositions]]:
    """Return idea → positions of words and phrases for it, longest first."""
    table, found = _lexicon(), dict[str, list[WordPositions]]()
    for at in range(len(words)):
        for size in range(1, min(_LONGEST, len(words) - at) + 1):
            for idea in table.get(" ".join(words[at : at + size]), ()):
                found.setdefault(idea, []).append(tuple(range(at, at + size)))
    return {idea: sorted(spans, key=len, reverse=True) for idea, spans in found.items()}


@cache
def list_cue_words() -> frozenset[str]:
    """Return every single word of a cue, and neutral and everyday words."""
    literal = {one.strip("'") for cues in _cues().values() for cue in cues for term in cue.terms for one in term.any_of if one.islower()}
    return frozenset({part for phrase in _lexicon() for part in phrase.split()} | literal | NEUTRAL | ELSEWHERE)


_LONGEST = 5


@cache
def _lexicon() -> Mapping[str, frozenset[str]]:
    """Word or phrase → its ideas."""
    found: dict[str, set[str]] = {}
    for idea, words in IDEAS.items():
        for word in words.split():
            found.setdefault(word.replace("_", " "), set()).add(idea)
    return {word: frozenset(ideas) for word, ideas in found.items()}


@cache
def _cues() -> Mapping[Intent, tuple[Cue, ...]]:
    return {intent: tuple(_parsed(line, rule) for line in rule.cues.split(";")) for intent, rule in RULES.items()}


def _parsed(line: str, rule: CueRow) -> Cue:
    words = [*line.split(), *(f"!{one}" for one in rule.never.split())]
    terms = [_term(word) for word in words if word != "="]
    return Cue(tuple(sorted(terms, key=lambda term: (not term.mood, term.forbids))), "=" in words)


def _term(word: str) -> CueTerm:
    said = word.removeprefix("!")
    return CueTerm((), word != said, said) if said in ("?", ">", ".") else CueTerm(tuple(said.split("|")), word != said, "")


def _score(clause: Clause, intent: Intent, rule: CueRow) -> float:
    if any(clause.has_mood(mood) for mood in rule.unless.split()) or (rule.unless and clause.quotes):
        return 0.0
    return rule.weight * max(_fit(clause, cue, rule) for cue in _cues()[intent])


def _fit(clause: Clause, cue: Cue, rule: CueRow) -> float:
    strength, used = 0.4 * cue.alone, set[int]()
    for term in cue.terms:
        worth = _held(clause, term, used)
        if worth is None:
            return 0.0
        strength += worth
    share = compute_explained_share(clause, used, STRANGE if rule.unless else ODD)
    return strength * (0.4 + 0.6 * share) if share >= (1.0 if cue.alone else rule.covers) else 0.0


def _held(clause: Clause, term: CueTerm, used: set[int]) -> float | None:
    """Return a term's worth and mark its words used; None if absent."""
    if term.mood:
        return (0.0 if term.forbids else 0.3) if clause.has_mood(term.mood) is not term.forbids else None
    if term.forbids:
        return None if any(next(_spans(clause, one), None) for one in term.any_of) else 0.0
    for one in term.any_of:
        places = next((places for places in _spans(clause, one) if used.isdisjoint(places)), None)
        if places:
            used.update(places)
            return (KNOWN if one in WEAK else 1.0) + 0.2 * min(len(places) - 1, 2)
    return None


def _spans(clause: Clause, one: str) -> Iterator[WordPositions]:
    if one.isupper():
        yield from _things(clause, one)
    elif one in IDEAS:
        yield from clause.ideas.get(one, ())
    else:
        yield from ((at,) for at, word in enumerate(clause.words) if word == one.strip("'"))


def _things(clause: Clause, one: str) -> Iterator[WordPositions]:
    named, hosts = clause.named, len(clause.named.hosts) + len(clause.named.unknown)
    there = {
        "HOST": hosts > 0,
        "HOSTS": hosts > 1,
        "TIME": clause.timed or bool(named.used.get("time")),
        "EXCLUSIVE": is_exclusive_check(named.check),
        "RESUME": named.remedy == "resume_node",
        "CAUSE": bool(named.labels or named.category),
    }
    if one in there:
        kind = {"HOSTS": "host", "EXCLUSIVE": "check", "RESUME": "remedy"}.get(one, one.lower())
        yield from [_one(named.used.get(kind, ()), len(clause.words))] if there[one] else ()
    elif one == "ME":
        yield from ((at,) for at, word in enumerate(clause.words) if word in ("me", "myself", "mine", "i"))
    elif one == "AUDIENCE":
        yield from (*clause.ideas.get("manager", ()), *clause.ideas.get("ticket", ()))
    elif one in ("FILE", "PICTURE"):
        yield from clause.ideas.get(one.lower(), ())
    else:
        yield from [tuple(sorted(places))] if (places := named.used.get(one.lower())) else ()


def _one(places: Collection[int], beyond: int) -> WordPositions:
    """A time without a word of its own counts as after the last word."""
    return tuple(sorted(places)) or (beyond,)


def compute_explained_share(clause: Clause, used: Collection[int], unknown: float = 1.0) -> float:
    """Return the share of the clause that cue, names and neutral words explain."""
    named = {at for places in clause.named.used.values() for at in places}
    neutral = {at for kind in ("host", "person", "job", "time") for at in clause.named.used.get(kind, ())}
    known = {at for spans in clause.ideas.values() for places in spans for at in places} | named
    telling = {at for at, word in enumerate(clause.words) if word not in NEUTRAL and at not in neutral} | (named & set(used))
    strange = sum(_odd(clause.words[at], at in known, unknown) for at in telling if at not in used)
    return 1 - strange / len(telling) if telling else 1.0


def _odd(word: str, known: bool, unknown: float) -> float:
    return ELSE if word in ELSEWHERE else KNOWN if known else unknown


def _partly(clause: Clause, cue: Cue) -> float:
    used, held, whole = set[int](), 0.0, 0.0
    for term in cue.terms:
        if term.mood or term.forbids:
            continue
        worth = max(KNOWN if one in WEAK else 1.0 for one in term.any_of)
        whole += worth
        held += worth if _held(clause, term, used) is not None else 0.0
    return held / whole * held if whole and held >= 1 and held / whole >= NEARLY - 0.1 else 0.0
