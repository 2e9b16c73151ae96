"""Split a message into sentences with their entities and mood: what one asks, requests, denies or quotes. Pure."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from itertools import pairwise
from typing import Final

from graph.dialogue.known_words import list_known_words
from graph.dialogue.mentions import EntityFinder, NamedEntities, list_thing_words
from graph.dialogue.real_words import REAL
from graph.dialogue.said import Vocabulary
from graph.dialogue.spelling import LONGEST, Sentence, SpellingCorrector, expand_abbreviations, normalize_words, split_sentences
from graph.extraction.reports import is_log_line
from graph.extraction.time_window import parse_time_window

MAX_SENTENCES = 12
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
_REPORTED = re.compile(
    r"\b(?:says?|said|prints|printed|contains|reads|output|line|message|log|wrote|shows)\b[^\n]{0,30}[:\"“„«]", re.IGNORECASE
)
_COMPOUND = re.compile(r"\b[a-z]{2,20}(?:[-_][a-z]{2,20}){1,4}\b")
_HAN = re.compile(r"[\u4e00-\u9fff]")


def _each(words: str) -> frozenset[str]:
    return frozenset(words.split())


_HEADS: Final = _each("am are can could did do does has have is may might shall should was were will would")
_WONDERS: Final = _each(
    "who whom whose what which why how when where wer was welche welcher welches warum wieso wie wann wo qui que quoi quel quelle pourquoi comment"
    " quand quien cual como donde cuando"
)
LEADING_WORDS: Final = _each(
    "actually alright also and anyway bot but cool fine folks good great guys hello hey hi hm hmm just kindly maybe nice no now oh okay or"
    " please question quick rackmedic right so sorry team thank thanks then uh um understood wait well yes yo bitte und ja et oui y por favor"
)
_COMMANDS: Final = _each(
    "draw plot show print paste post send give display view share dump cat attach upload get fetch find explain elaborate clarify compare diff tell"
    " take assign reassign hand pass delegate escalate page open create make raise file bring call summarise summarize summary recap write"
    " brief draft recheck rescan retry refresh verify look check scan examine inspect test run start launch perform execute kick try limit"
    " focus ignore skip forget leave concentrate include add widen extend broaden expand also undo revert roll reverse undrain uncordon"
    " put return resume restore close resolve mark reopen stop halt cancel abort quit mute pause snooze drain cordon reset reboot restart"
    " power kill terminate free clean sync reload rebuild load turn switch disable enable configure step approve reject deny help list be"
    " keep shut let unlock bounce isolate quarantine do go use note pull trigger modprobe cleanup only just fix throw restrict"
    " stick repeat end set cut stay wait follow apply walk work begin redo transfer route remove move"
)
_WANTS: Final = _each("want need like should must let would")
_DENIES: Final = _each("not never no without nobody none nor nicht kein keine keinen keinem nie niemals ohne pas jamais sans nunca sin")
# These deny no request: “don’t forget gpu-003”, “nobody is on it, so I take it”.
_NO_DENIALS: Final = re.compile(
    r"(?:^|(?<= ))(?:do not forget|no (?:worries|problem|doubt)|nobody (?:is|has|else|seems)|not me|or not)(?= |$)"
)
_DEPENDS: Final = _each("if unless when whenever until before after once wenn falls sobald bevor quand avant cuando antes")
# “look after it”, “comme avant”: no condition.
_NO_CONDITIONS: Final = {
    *((word, "after") for word in ("look", "looks", "looked", "looking", "day")),
    *(("once", word) for word in ("more", "over", "again")),
    *((word, "once") for word in ("at", "another")),
    ("when", "more"),
    ("after", "action"),
    ("comme", "avant"),
    ("como", "antes"),
}
_BESIDES: Final = ("while", "you", "are", "at", "it")
_TIME_LIMITS: Final = _each("before bevor avant antes")  # Inside a sentence they are no condition: “drain it before the next job”.
_TROUBLES: Final = _each("hang hangs error errors xid xids crash crashes problem problems issue issues fault faults failure failures more")
_POLITE_VERBS: Final = _each(
    "can could would will kannst konnt konnten konntest konnen wurdest wurden peux pouvez pourrais pourriez puedes podrias podria pueden"
)
_ASKED: Final = _each("you rackmedic somebody someone du ihr sie bitte tu vous")
_ASKED_IN_TWO_WORDS: Final = {("we", "get"), ("we", "have"), ("a", "human"), ("a", "person"), ("an", "engineer")}
_POLITE_FORMS: Final = re.compile(
    r"(?:would you mind|are you able to|(?:is|would) it (?:be )?possible (?:for you to|that you|to)|any chance you|seria posible|es posible que"
    r"|(?:\S+ ){0,4}(?:(?:kannst|konntest|wurdest|magst) du|(?:konnt|konntet|wurdet) ihr|(?:konnen|konnten|wurden) sie|(?:peux|pourrais) tu"
    r"|(?:pouvez|pourriez) vous|tu (?:peux|pourrais)|vous (?:pouvez|pourriez)|puedes|podrias|podeis|pueden|podrian)) "
)
# A polite request, no condition.
_POLITE_IF: Final = re.compile(r"^(?:\S+ ){0,4}(?:appreciate it|great|good|nice|lovely|helpful|grateful) if you ")
_SUBJECTS: Final = _each("i you we it this that there they the a")
_NO_SUBJECTS: Final = _each("fixed solved resolved working mine gone done")
_FOREIGN_POLITE: Final = _each("kannst konntest wurdest peux pouvez pourrais pourriez puedes podrias podria pueden")
_CHINESE_DENIES: Final = re.compile(r"别|不要|不用|先不|(?<!能)不能|不许|请勿")
_CHINESE_DEPENDS: Final = re.compile(r"如果|要是|假如|的话|等.{0,8}再")
_CHINESE_POLITE: Final = re.compile(r"请|帮|麻烦|能不能|可不可以|一下|可以.{0,20}吗|能.{0,20}吗")
_HASTE: Final = re.compile(
    r" (?:(?:do )?not wait|no (?:rush|hurry|stress|worries)|not urgent|without haste|keine eile|nicht warten|pas d urgence|rien d urgent"
    r"|sin prisa|no need to (?:look|check|search|continue|go on)\b.{0,40})$"
)
_NO_FIRST: Final = re.compile(r"(?i)\W{0,3}no\s?[,.;:–—-]")  # “no, drain it” denies what was said before.
# “drain it, it does not answer”: the reason's negation denies no request.
_REASON: Final = re.compile(
    r"(?i)(?:[,;:–—]\s*(?:it|they|this|he|she|er|es|il|elle|ça|no quiero|i|we|nobody|there|je ne veux|ich will)"
    r"|\b(?:because|since it|as it|weil|denn|parce que|car|porque))\s"
)
# A Spanish prohibition has the subjunctive: “no reinicies”.
_SPANISH_DENIES: Final = re.compile(r"\bno (?:(?:la|lo|los|me|se) )?[a-z]{3,}(?:es|as|en|an|eis|ais|emos|amos)\b")
_SPANISH_OR_FRENCH_IF: Final = re.compile(r"\b[sS]i\b|\b[sS]'il (?!te|vous)")


@dataclass(frozen=True, slots=True)
class Clause:
    """A sentence: words, named entities and mood."""

    words: tuple[str, ...]
    named: NamedEntities
    marked: bool = False  # It ends with a question mark.
    asks: bool = False
    requests: bool = False
    denies: bool = False
    depends: bool = False  # It is conditional: if, unless, when.
    timed: bool = False
    quotes: bool = False  # It contains reported speech, so nothing in it is a request.
    compounds: tuple[str, ...] = ()  # Words as written with a hyphen or underscore, such as a guide's name.


def split_clauses(text: str, names: Vocabulary, now: datetime) -> list[Clause]:
    """Return the sentences of a message's prose."""
    finder = EntityFinder(text, names)
    return [_clause(sentence, finder, now) for sentence in split_sentences(_prose(text))[:MAX_SENTENCES]]


def _prose(text: str) -> str:
    """Return what a person wrote, without code, logs and quotes."""
    text = _TICKED.sub(_keep_name, _FENCE.sub("\n", text[:LONGEST]))
    return "\n".join(line for line in text.split("\n") if not (_PRINTED.match(line) or is_log_line(line) or _CODE.search(line[:400])))


def _keep_name(found: re.Match[str]) -> str:
    """Keep names in backticks; several words there are code."""
    return found[1] if len(found[1].split()) == 1 or found[1].count(" ") == found[1].count(", ") else " "


def _clause(sentence: Sentence, finder: EntityFinder, now: datetime) -> Clause:
    words = _without_haste(tuple(map(_speller().correct_word, expand_abbreviations(sentence.words))))
    timed = any(parse_time_window(sentence.text, now))
    named = finder.find_entities(sentence.text, words, timed=timed)
    asks, requests, denies, depends = detect_moods(words, sentence.asks, named)
    denies = denies and not (_NO_FIRST.match(sentence.text) and _DENIES.isdisjoint(words[1:]))
    if denies and requests and (reason := _REASON.search(sentence.text)):
        denies = not _DENIES.isdisjoint(expand_abbreviations(normalize_words(sentence.text[: reason.start()])))
    joined = "".join(words) if any(map(_HAN.match, words)) else ""
    plain = " ".join(words)
    return Clause(
        words,
        named,
        sentence.asks,
        asks and not (joined and _CHINESE_POLITE.search(joined)),
        requests,
        denies or bool(_CHINESE_DENIES.search(joined)) or bool(_SPANISH_DENIES.search(plain)),
        depends or bool(_CHINESE_DEPENDS.search(joined)) or bool(_SPANISH_OR_FRENCH_IF.search(sentence.text)),
        timed,
        bool(_QUOTED.search(sentence.text) or _REPORTED.search(sentence.text)),
        tuple(_COMPOUND.findall(sentence.text.lower())),
    )


def _without_haste(words: Sequence[str]) -> tuple[str, ...]:
    """Leave out “no rush” at the end, which denies nothing."""
    return tuple(_HASTE.sub("", " ".join(words)).split(" ")) if words else ()


@cache
def _speller() -> SpellingCorrector:
    return SpellingCorrector(list_thing_words(), REAL | list_known_words())


def detect_moods(words: Sequence[str], marked: bool, named: NamedEntities) -> tuple[bool, bool, bool, bool]:
    """Return whether a sentence asks, requests, denies, depends. `marked`: with a question mark."""
    body = skip_leading_words(words)
    first, second = [*body, "", ""][:2]
    third = body[2] if len(body) > 2 else ""
    polite_if = _POLITE_IF.match(" ".join(body))
    polite = bool(polite_if or _POLITE_FORMS.match(" ".join(body))) or (
        first in _POLITE_VERBS and (second in _ASKED or (second, third) in _ASKED_IN_TWO_WORDS or first in _FOREIGN_POLITE)
    )
    orders = not marked and _orders(first, second, named)
    # “when the part arrives, …” asks nothing, and “while you are at it” is no condition.
    begins = first in ("when", "where", "while") and second not in _HEADS and tuple(body[:5]) != _BESIDES
    states = not marked and second == "be" and first in _HEADS  # “might be everywhere”, “can be closed”
    wonders = (first in _WONDERS and not begins) or (
        first in _HEADS
        and not states
        and (third in _SUBJECTS if second == "not" else second not in _NO_SUBJECTS)
        and not polite
        and not orders
    )
    wants = first in ("i", "we", "let") and bool(_WANTS & set(body[:4])) and not marked
    requests = polite or orders or wants or (not marked and not wonders and not {"please", "bitte"}.isdisjoint(words))
    led = len(words) - len(body)
    refuses = tuple(words[:led])[-1:] == ("no",) and (first == "need" or led in named.used.get("remedy", ()))  # “no need to drain it”
    refuses |= first == "nothing" and second == "to"
    untroubled = {at for at, (word, after) in enumerate(pairwise([*body, ""])) if word == "no" and after in _TROUBLES}  # “no more hangs”
    sayings = _NO_DENIALS.sub(lambda found: " ".join("_" for _ in found[0].split()), " ".join(body)).split()
    denying = {word for at, word in enumerate(sayings) if (at < 8 or at >= len(body) - 2) and at not in untroubled}
    denies = refuses or (bool(_DENIES & denying) and first != "no")
    rest = body[len(polite_if.group().split()) :] if polite_if else body
    beside = zip(["", *rest], rest, [*rest[1:], ""], strict=False)
    conditions = {word for before, word, after in beside if word in _DEPENDS and _NO_CONDITIONS.isdisjoint({(before, word), (word, after)})}
    depends = first in _DEPENDS or begins or not conditions <= _TIME_LIMITS
    return (marked or wonders) and not polite and not (requests and not marked), requests, denies, depends


def skip_leading_words(words: Sequence[str]) -> list[str]:
    """Return the words after greetings and the like; at least one."""
    start = next((at for at, word in enumerate(words) if word not in LEADING_WORDS), len(words) - 1)
    return list(words[max(0, start) :])


def _orders(first: str, second: str, named: NamedEntities) -> bool:
    if first == "do":
        return bool(named.check or named.remedy) or second in ("it", "that", "this", "the", "so", "a", "an", "another", "some")
    return first in _COMMANDS or (first in ("have", "take") and second in ("a", "another"))
