"""How well a sentence fits the cues of an intent. Pure, in linear time: a few hundred small sets are compared."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from graph.conversation.intents import Intent
from graph.conversation.mentions import Mentions, exclusive
from graph.conversation.rules import RULES, Rule
from graph.conversation.words import ENGLISH, FILLER

_WEAK = frozenset(
    {
        "be",
        "do",
        "i",
        "we",
        "you",
        "thing",
        "can",
        "about",
        "when",
        "any",
        "yes",
        "between",
        "know",
        "should",
        "now",
        "not",
        "effect",
        "happen",
        "take",
        "use",
        "look",
        "other",
        "every",
        "if",
    }
)
"""Ideas that tell little by themselves."""
_HEADS = frozenset(
    [
        "is",
        "are",
        "was",
        "were",
        "do",
        "does",
        "did",
        "can",
        "could",
        "will",
        "would",
        "should",
        "shall",
        "may",
        "might",
        "has",
        "have",
        "am",
        "must",
        "isnt",
    ]
)
_ASKING = frozenset(
    [
        "who",
        "whom",
        "whose",
        "what",
        "which",
        "why",
        "how",
        "when",
        "where",
        "was",
        "wer",
        "wie",
        "warum",
        "wo",
        "qui",
        "quoi",
        "comment",
        "pourquoi",
        "quand",
        "que",
        "quien",
        "como",
        "por",
        "cuando",
        "donde",
    ]
)
_LEADS = frozenset(
    [
        "hey",
        "hi",
        "hello",
        "ok",
        "okay",
        "so",
        "and",
        "but",
        "then",
        "also",
        "well",
        "please",
        "thanks",
        "alright",
        "right",
        "now",
        "rackmedic",
        "bot",
        "team",
        "guys",
        "folks",
        "just",
        "no",
        "yes",
        "sorry",
        "hm",
        "hmm",
        "oh",
        "um",
        "uh",
        "actually",
        "good",
        "great",
        "cool",
        "nice",
        "first",
        "quick",
        "question",
    ]
)


@dataclass(frozen=True, slots=True)
class Clause:
    """A sentence or a part of one: its words, the ideas of each, what it names, and its mood."""

    words: tuple[str, ...]
    ideas: Mapping[str, frozenset[int]]
    named: Mentions
    asks: bool
    requests: bool
    denies: bool
    depends: bool
    timed: bool


@dataclass(frozen=True, slots=True)
class Fit:
    intent: Intent
    score: float


def moods(words: Sequence[str], marked: bool) -> tuple[bool, bool, bool, bool]:
    """Whether a sentence asks, requests, denies, and depends on something."""
    body = list(words)
    while body and body[0] in _LEADS:
        body.pop(0)
    first, second = [*body, "", ""][:2]
    polite = first in ("can", "could", "would", "will") and second in ("you", "rackmedic")
    wants = first in ("i", "we", "id", "lets", "let") and any(
        word in ("want", "need", "like", "let", "should", "must", "have") for word in body[:4]
    )
    asks = marked or first in _ASKING or (first in _HEADS and not polite)
    question = asks and not polite
    requests = polite or (
        not marked
        and not asks
        and (wants or first not in ("it", "this", "that", "the", "there", "he", "she", "they", "we", "i", "my", "our", "a"))
    )
    denies = any(
        word in ("not", "never", "no", "without", "nicht", "kein", "keine", "pas", "nunca", "ne", "stop") for word in body[:6]
    ) and first not in ("no",)
    depends = any(word in ("if", "unless", "whenever", "once", "when", "until", "falls", "wenn", "si", "before", "after") for word in body)
    return question, requests, denies, depends


@cache
def _lexicon() -> Mapping[str, frozenset[str]]:
    """Word or phrase → its ideas."""
    found: dict[str, set[str]] = {}
    for idea, words in ENGLISH.items():
        for word in words.split():
            found.setdefault(word.replace("_", " "), set()).add(idea)
    return {word: frozenset(ideas) for word, ideas in found.items()}


@cache
def vocabulary() -> frozenset[str]:
    """Every single word that is part of a cue."""
    return frozenset(part for word in _lexicon() for part in word.split()) | FILLER


def ideas_of(words: Sequence[str]) -> Mapping[str, frozenset[int]]:
    """Idea → positions of the words that express it."""
    table, found = _lexicon(), dict[str, set[int]]()
    for at in range(len(words)):
        for size in range(1, 5):
            phrase = " ".join(words[at : at + size])
            if at + size > len(words):
                break
            for idea in table.get(phrase, ()) or (table.get(phrase[:-1], ()) if size == 1 and phrase[-1:] == "s" else ()):
                found.setdefault(idea, set()).update(range(at, at + size))
    return {idea: frozenset(places) for idea, places in found.items()}


def fits(clause: Clause) -> list[Fit]:
    """The intents that the clause fits, best first."""
    found = [Fit(intent, score) for intent, rule in RULES.items() if (score := _score(clause, rule)) > 0]
    return sorted(found, key=lambda fit: -fit.score)


def _score(clause: Clause, rule: Rule) -> float:
    if rule.unless and any(_mood(clause, mood) for mood in rule.unless.split()):
        return 0.0
    return max((_fit(clause, cue, rule.covers) for cue in rule.cues.split("; ")), default=0.0)


def _fit(clause: Clause, cue: str, covers: float) -> float:
    strength, used = 0.0, set[int]()
    for term in cue.split():
        if term == "=":
            continue
        if term.startswith("!"):
            if _holds(clause, term[1:]) is not None:
                return 0.0
            continue
        places = _holds(clause, term)
        if places is None:
            return 0.0
        fresh = places - used
        if places and not fresh:
            return 0.0
        used |= {min(fresh)} if fresh and term.islower() else places
        strength += _worth(term)
    share = _share(clause, cue, used)
    if share < covers or ("=" in cue.split() and share < 1):
        return 0.0
    return (strength + 0.4 * ("=" in cue)) * (0.4 + 0.6 * share)


def _worth(term: str) -> float:
    if term in ("?", ">", "."):
        return 0.3
    return min(0.4 if one.strip("'") in _WEAK else 1.0 for one in term.split("|"))


def _holds(clause: Clause, term: str) -> frozenset[int] | None:
    """Positions of what fulfils a term; None where nothing does."""
    if term in ("?", ">", "."):
        return frozenset() if _mood(clause, term) else None
    found = [places for one in term.split("|") if (places := _found(clause, one)) is not None]
    return frozenset().union(*found) if found else None


def _mood(clause: Clause, mood: str) -> bool:
    return {"?": clause.asks, ">": clause.requests, ".": not clause.asks, "not": clause.denies, "if": clause.depends}[mood]


def _found(clause: Clause, one: str) -> frozenset[int] | None:
    if one.isupper():
        return _thing(clause, one)
    if not one.startswith("'") and one in ENGLISH:
        return clause.ideas.get(one)
    word = one.strip("'")
    return frozenset(at for at, said in enumerate(clause.words) if said == word) or None


def _thing(clause: Clause, one: str) -> frozenset[int] | None:
    named, ideas = clause.named, clause.ideas
    hosts = len(named.hosts) + len(named.unknown)
    there = {
        "HOST": hosts > 0,
        "HOSTS": hosts > 1,
        "GROUP": bool(named.group),
        "DEVICE": bool(named.device),
        "JOB": bool(named.job),
        "TIME": clause.timed,
        "CAUSE": bool(named.labels or named.category),
        "XID": bool(named.xid),
        "CHECK": bool(named.check),
        "EXCL": exclusive(named.check),
        "REMEDY": bool(named.remedy),
        "RESUME": named.remedy == "resume_node",
        "PERSON": bool(named.person),
        "ME": bool({"me", "myself", "mine", "i"} & set(clause.words)),
        "AUDIENCE": "manager" in ideas or "ticket" in ideas,
        "FILE": "file" in ideas,
        "PICTURE": "picture" in ideas,
    }[one]
    return frozenset(_places(clause, one)) if there else None


def _places(clause: Clause, one: str) -> Collection[int]:
    kind = {"HOSTS": "host", "EXCL": "check", "RESUME": "remedy"}.get(one, one.lower())
    if one == "AUDIENCE":
        return clause.ideas.get("manager", frozenset()) | clause.ideas.get("ticket", frozenset())
    if one == "GROUP":
        return [at for at, word in enumerate(clause.words) if word == clause.named.group.lower()]
    if one == "ME":
        return [at for at, word in enumerate(clause.words) if word in ("me", "myself", "mine", "i")]
    return clause.named.used.get(kind) or clause.ideas.get(kind) or ()


def _share(clause: Clause, cue: str, used: Collection[int]) -> float:
    """How much of the clause the cue and words that say nothing explain."""
    named = {at for kind, places in clause.named.used.items() for at in places if kind in ("host", "device", "person", "job", "xid")}
    content = [at for at, word in enumerate(clause.words) if at in used or (word not in FILLER and at not in named)]
    known = frozenset().union(*clause.ideas.values()) if clause.ideas else frozenset()
    wild = sum(0.4 if at in known else 1.0 for at in content if at not in used)
    return 1 - wild / len(content) if content else 1.0
