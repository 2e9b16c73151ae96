"""Split a message into clauses with their mood: what it asks, requests, denies or quotes. Pure."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from functools import cache
from itertools import pairwise
from typing import Final

from graph.dialogue.cues import Clause, find_ideas, list_cue_words
from graph.dialogue.mentions import EntityFinder, NamedEntities, list_thing_words
from graph.dialogue.real_words import REAL
from graph.dialogue.said import Vocabulary
from graph.dialogue.spelling import LONGEST, Sentence, SpellingCorrector, expand_abbreviations, split_sentences
from graph.dialogue.tongues import translate_to_english
from graph.dialogue.words import IDEAS
from graph.extraction.reports import is_log_line
from graph.extraction.time_window import parse_time_window

MOST_SENTENCES, MOST_PARTS = 12, 6
_CUT = re.compile(r", |: | [-–—] ")
_FENCE = re.compile(r"```[^`]{0,8000}(?:```|$)")
_TICKED = re.compile(r"`([^`\n]{1,200})`")
_CODE = re.compile(
    r"\w\([^()\n]{0,80}\)|==|&&|\|\||[{}]|=>|->|\w=[\"'\w]|</?\w{1,20}>|"
    r"^\s{0,8}(?:def|import|from \w+ import|select|git|pip3?|kubectl|sudo|export|make|cd|ls|ssh|cat|echo|docker|srun|sbatch|python3?) \S"
    r"(?:.*[*/=;|_-]|\S*$)",
    re.IGNORECASE,
)
_PRINTED = re.compile(
    r"^\s{0,8}(?:>|&gt;|\[?(?:INFO|DEBUG|WARN(?:ING)?|ERROR|TRACE|FATAL|NOTICE)\b[\]: ]|level=|\d{4}-\d\d-\d\d[T ]\d\d:)", re.ASCII
)
_QUOTED = re.compile(r"[\"“„«][^\"“”„«»\n]{0,60}\s[^\"“”„«»\n]{0,200}[\"”“»]")
_TELLS: Final = frozenset(
    {"says", "said", "say", "prints", "printed", "contains", "reads", "output", "line", "message", "log", "wrote", "shows"}
)

_HEADS_WORDS: Final = """
am are can could did do does has have is may might shall should was were will would
"""
_HEADS: Final = frozenset(_HEADS_WORDS.split())
_WONDERS: Final = frozenset(["who", "whom", "whose", "what", "which", "why", "how", "when", "where"])
_LEADS_WORDS: Final = """
actually alright also and anyway bot but cool fine folks good great guys hello hey hi hm hmm just kindly maybe nice no now oh okay or
please question quick rackmedic right so sorry team thank thanks then uh um understood wait well yes yo
"""
_LEADS: Final = frozenset(_LEADS_WORDS.split())
_WANTS: Final = frozenset(["want", "need", "like", "should", "must", "let", "would"])
_DENIES: Final = frozenset(["not", "never", "no", "without", "nobody", "none", "nor"])
_DEPENDS: Final = frozenset(["if", "unless", "whenever", "until", "before", "after", "once"])
_LOOKS: Final = frozenset(["look", "looks", "looked", "looking", "day"])
_ASKED: Final = frozenset(["you", "rackmedic", "somebody", "someone"])
_SUBJECTS: Final = frozenset(["i", "you", "we", "it", "this", "that", "there", "they", "the", "a"])
_NO_SUBJECTS: Final = frozenset(["fixed", "solved", "resolved", "working", "mine", "gone", "done"])


def split_clauses(text: str, names: Vocabulary, now: datetime) -> list[Clause]:
    """Return the sentences of a message's prose, each followed by its parts between commas."""
    register = EntityFinder(text, names)
    found: list[Clause] = []
    for sentence in split_sentences(_prose(text))[:MOST_SENTENCES]:
        entire = _clause(sentence, register, now)
        found.append(entire)
        found += [_within(part, entire, before) for before, part in _parts(sentence, register, now)]
    return found


def _parts(sentence: Sentence, register: EntityFinder, now: datetime) -> Iterator[tuple[str, Clause]]:
    """Yield (text before, part)."""
    cuts = [found.span() for found in _CUT.finditer(sentence.text)][: MOST_PARTS - 1]
    begins, ends = [0, *(end for _, end in cuts)], [*(start for start, _ in cuts), len(sentence.text)]
    for begin, end in zip(begins, ends, strict=True) if cuts else ():
        for said in split_sentences(sentence.text[begin:end])[:1]:
            last = end == len(sentence.text)
            yield sentence.text[:begin], _clause(said._replace(asks=sentence.asks and last), register, now, part=True)


def _within(part: Clause, whole: Clause, before: str) -> Clause:
    """A part inherits its sentence's doubts; reported speech is no request."""
    told = bool(_TELLS & set(before.lower().replace(":", " ").split()))
    return replace(part, depends=part.depends or whole.depends, quotes=told or whole.quotes)


def _prose(text: str) -> str:
    """Return what a person wrote, without code, logs and quotes."""
    text = _TICKED.sub(_of_name, _FENCE.sub("\n", text[:LONGEST]))
    return "\n".join(line for line in text.split("\n") if not (_PRINTED.match(line) or is_log_line(line) or _CODE.search(line[:400])))


def _of_name(found: re.Match[str]) -> str:
    """Keep names in backticks; several words there are code."""
    return found[1] if len(found[1].split()) == 1 or found[1].count(" ") == found[1].count(", ") else " "


def _clause(sentence: Sentence, register: EntityFinder, now: datetime, *, part: bool = False) -> Clause:
    words = _words(sentence.words)
    timed = any(parse_time_window(sentence.text, now))
    named = register.find_entities(sentence.text, words, timed=timed)
    asks, requests, denies, depends = detect_moods(words, sentence.asks, named)
    quotes = bool(_QUOTED.search(sentence.text))
    ideas = find_ideas([word if at not in named.used.get("group", ()) else "" for at, word in enumerate(words)])
    return Clause(words, ideas, named, asks, requests, denies, depends, timed, quotes, part)


def _words(words: Sequence[str]) -> tuple[str, ...]:
    translated = translate_to_english(words, list_cue_words())
    if translated is not None:
        return tuple(expand_abbreviations(translated))
    return tuple(map(_speller().correct_word, expand_abbreviations(words)))


@cache
def _speller() -> SpellingCorrector:
    return SpellingCorrector(list_cue_words() | list_thing_words(), REAL)


def detect_moods(words: Sequence[str], marked: bool, named: NamedEntities) -> tuple[bool, bool, bool, bool]:
    """Return whether a sentence asks, requests, denies, depends. `marked`: with a question mark."""
    body = list(words)
    while len(body) > 1 and body[0] in _LEADS:
        body.pop(0)
    first, second = [*body, "", ""][:2]
    third = body[2] if len(body) > 2 else ""
    polite = first in ("can", "could", "would", "will") and (second in _ASKED or (second == "we" and third in ("get", "have")))
    orders = not marked and _orders(first, second, named)
    begins = first in ("when", "where", "while") and second not in _HEADS  # “when the part arrives, …” asks nothing
    wonders = (first in _WONDERS and not begins) or (
        first in _HEADS and (third in _SUBJECTS if second == "not" else second not in _NO_SUBJECTS) and not polite and not orders
    )
    wants = first in ("i", "we", "let") and bool(_WANTS & set(body[:4])) and not marked
    requests = polite or orders or wants or (not marked and not wonders and "please" in words)
    led = len(words) - len(body)
    refuses = tuple(words[:led])[-1:] == ("no",) and (first == "need" or led in named.used.get("remedy", ()))  # “no need to drain it”
    refuses |= first == "nothing" and second == "to"
    denies = refuses or (bool(_DENIES & {*body[:8], *body[-2:]}) and first != "no")
    joined = [word for before, word in pairwise(body) if before not in _LOOKS or word != "after"]  # “look after it”
    depends = first in _DEPENDS or begins or any(word in _DEPENDS | {"when"} and after != "more" for word, after in pairwise([*joined, ""]))
    return (marked or wonders) and not polite and not (requests and not marked), requests, denies, depends


def _orders(first: str, second: str, named: NamedEntities) -> bool:
    if first == "do":
        return bool(named.check or named.remedy) or second in ("it", "that", "this", "so", "a", "an", "another", "some")
    return first in IDEAS["verb"].split() or (first in ("have", "take") and second in ("a", "another"))
