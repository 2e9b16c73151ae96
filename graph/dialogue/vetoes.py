"""Decide what a sentence cannot mean: negations, conditions, doubts, the past, plans, quotes and talk with a colleague. Pure.

The classifier says what a sentence is about; these short lists in five languages say that it requests nothing.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Final

from graph.dialogue.clauses import LEADING_WORDS, Clause
from graph.dialogue.intents import Intent
from graph.dialogue.known_words import list_known_words
from graph.dialogue.real_words import REAL
from graph.dialogue.spelling import expand_abbreviations

# Moods that veto an intent: `not` a negation, `if` a condition or a time to wait for, `unless` a condition, `?` a question that is no
# polite request, `asked` the same for acts that people also request by a question, `hope` and `maybe` a doubt, `past` a story or a plan,
# `earlier` yesterday, `done` a remedy that is told, `mistake` one that is regretted, `not_waiting` a negation of the wait itself. What acts
# is never read in quoted speech.
VETOES: Final[Mapping[Intent, str]] = {
    Intent.TAKE: "not if asked past",
    Intent.ASSIGN: "not if past earlier",
    Intent.WAITS: "not_waiting asked unless maybe past",
    Intent.HAND_OFF: "not if asked past earlier",
    Intent.REPORT: "not if asked past",
    Intent.RECHECK: "not if past",
    Intent.NARROW: "if asked",
    Intent.WIDEN: "not if asked",
    Intent.RUN_CHECK: "not if ? maybe past",
    Intent.RUN_GUIDE: "not if asked past",
    Intent.WISH_REMEDY: "not if ? maybe past done mistake",
    Intent.UNDO: "not if ? maybe past",
    Intent.CORRECT: "unless asked hope past",
    Intent.FIXED: "not unless asked maybe past",
    Intent.STILL_BROKEN: "unless asked hope past",
    Intent.CLOSE: "not if ? maybe past earlier",
    Intent.REOPEN: "if past",
    Intent.STOP: "if ? earlier",
    Intent.PAUSE: "? earlier",
    Intent.TYPED_APPROVAL: "? if past",
    Intent.SNOOZE: "unless ? hope earlier",
    Intent.HOST_CHANGED: "not unless asked maybe past",
    Intent.NEW_FACTS: "asked unless hope past",
    Intent.THANKS: "?",
    Intent.WHY_NOT: "hope past",
}
ACTING: Final = VETOES.keys() - {Intent.THANKS, Intent.WHY_NOT}
_STOP_WORDS: Final = frozenset(
    {"stop", "halt", "abort", "cancel", "quit", "aufhoren", "auf", "arrete", "arretez", "pares", "detengas", "停"}
)
# fmt: off
_HOPES: Final = (
    "hope|hopefully|wish|wonder|wondering|whether|who knows|let us see|i doubt|remember|imagine|suppose|in theory|theoretically|"
    "hoffe|hoffentlich|ob|theoretisch|pourvu que|j espere|esperons|ojala|espero que|希 望|但 愿|万 一"
)
_MAYBES: Final = (
    "maybe|might|perhaps|would you recommend|cancel the drain|forget|could have|rather|instead|should probably|"
    "vielleicht|moglicherweise|eventuell|peut etre|quiza|quizas|tal vez|a lo mejor|可 能|也 许|说 不 定|大 概"
)
_PAST: Final = (
    "last (?:week|month|year|quarter|spring|summer|autumn|fall|winter|time)|(?:weeks|months|years) ago|used to|back then|"
    "next (?:week|month|year|quarter|spring|summer|autumn|fall|winter|time)|in (?:19|20)\\d\\d|"
    "in (?:january|february|march|april|june|july|august|september|october|november|december)|"
    "(?:letzte|nachste)[nrs]? (?:woche|monat|jahr|quartal|mal|sommer|winter|fruhjahr|herbst)|damals|"
    "(?:la )?(?:semaine|annee) (?:derniere|prochaine)|le (?:mois|trimestre) (?:dernier|prochain)|la derniere fois|l ete (?:dernier|prochain)|"
    "(?:la )?semana (?:pasada|que viene)|(?:el )?(?:mes|ano|trimestre) (?:pasado|que viene)|la ultima vez|proximo (?:mes|trimestre|verano)|"
    "上 个? ?月|上 周|上 次|去 年|明 年|下 个? ?(?:月|季 度)|当 时"
)
# A remedy that people report as done, or that another person wants.
_DONE: Final = (
    "(?:we|i|they|he|she|somebody|someone|who|was|were|been|got|already|just|has|have|had|and) (?:drained|rebooted|restarted|reset|cordoned|isolated|"
    "killed|cancelled|reloaded|reinstalled|cleaned|power[ -]?cycled)|"
    "(?:he|she|they|nobody|vendor|team|manual|says|said) (?:says|said|wants?|thinks?|to|suggests?|recommends?|touch|will)|"
    "(?:haben|habe|hat|wurde|wurden|ist|sind) (?:\\S+ ){0,6}(?:gestartet|gedraint|rebootet|gebootet|isoliert|genommen|zuruckgesetzt)|er hat|sie hat|"
    "(?:on|nous) (?:a|avons) \\S+|a ete \\S+|(?:il|elle) (?:a|veut|dit)|reiniciamos|drenamos|sacamos|reiniciaron|hemos \\S+|fue reinici\\w+|"
    "重 启 过|重 启 了|已 经 (?:\\S )*了|他 说|她 说"
)
_CONFIRM: Final = "approve of|(?:you|please) confirm|confirm (?:please|the|that|whether|if|it works)"
_CONDITIONS: Final = "if|unless|whenever|wenn|falls|sofern|au cas ou|如 果|要 是"
_OTHER_OBJECTS: Final = (
    "(?:re ?)?(?:close|shut|open|opened|closed) (?:the|a|my|your|our|that) (?!incident|ticket|case|thread|issue|alert|report|one|matter|whole|"
    "investigation|cause|same)\\w+"
)
# Everyday things that break, open and close, and are nobody's cluster.
_ELSEWHERE: Final = (
    "elevator|(?:the|our) lift|printer|laptop|laptops|notebook|vpn|coffee machine|coffee|website|homepage|wifi|wlan|phone|door|(?<!maintenance )windows?|car|bus|train|"
    "heating|mail|mails|email|browser|keyboard|headset|canteen|kitchen|pizza|toilet|projector|jira|zoom|teams call|ci server|ci|office|badge|"
    "aufzug|fahrstuhl|drucker|kaffeemaschine|kaffee|tur|fenster|heizung|kantine|beamer|webseite|"
    "ascenseur|imprimante|portable|cafe|porte|fenetre|chauffage|cantine|site web|"
    "ascensor|impresora|portatil|cafetera|puerta|ventana|calefaccion|comedor|"
    "电 梯|打 印 机|笔 记 本|咖 啡|咖 啡 机|食 堂|空 调 遥 控|网 站|会 议 室|地 铁"
)
_JOKES: Final = "ha(?:ha)+h?|lol|lmao|rofl|jaja(?:ja)*|mdr|ptdr|哈 哈"
_CLOSED: Final = "(?:was|were|been|got|gets|is|they) (?:now |already |finally |just )?closed"
# fmt: on
_PATTERNS: Final = {
    mood: re.compile(rf"(?:^|(?<= ))(?:{words})(?= |$)")
    for mood, words in (
        ("hope", _HOPES),
        ("maybe", f"{_HOPES}|{_MAYBES}"),
        ("past", _PAST),
        ("done", _DONE),
        ("unless", _CONDITIONS),
        ("objects", _OTHER_OBJECTS),
        ("closed", _CLOSED),
        ("joke", _JOKES),
        ("confirm", _CONFIRM),
        ("mistake", "mistake"),
        ("not_waiting", r"(?:not|never|no longer|nicht|pas|no) (?:\S+ )?(?:wait|waiting|warte[nt]?|attend\w*|esper\w*)"),
        ("earlier", "yesterday|last night|gestern|hier|ayer|anoche|昨 天|昨 晚"),
        ("elsewhere", _ELSEWHERE),
        ("no reopening", "(?:not|never) (?:re ?open|open)"),
    )
}  # fmt: skip
_CALLED_FIRST: Final = re.compile(r"\W{0,3}(?:(?:[Hh]ey|[Hh]i|[Hh]ello|[Tt]hanks|[Tt]hx|[Oo]k) )?([^\W\d_]{2,24})\s?[,，:：]\s?(?=\S)")
_CALLED_LAST: Final = re.compile(r",\s?([A-ZÀ-Ý][^\W\d_]{1,23})\s?[?!.]?\W{0,3}$")
_CALLED_WITHOUT_COMMA: Final = re.compile(
    r"\W{0,3}([A-ZÀ-Ý][^\W\d_]{1,23}) (?:can|could|would|will|do|did|are|have|kannst|könntest|hast|peux-tu|puedes) (?:you|u|du|tu|tú)\b"
)
_SPOKEN_TO: Final = re.compile(
    r"(?i)\b(?:you|your|u|pls|please|du|dir|dich|hast|bist|kannst|ihr|tu|vous|as-tu|peux|tienes|puedes|sigues|reiniciaste|viste|estás|sabes|he|she)\b|\?|你|您|？"
)


def is_vetoed(intent: Intent, clause: Clause) -> bool:
    """Return whether the sentence cannot request this."""
    moods, words = VETOES.get(intent, "").split(), " ".join(clause.words)
    if intent is Intent.STOP and clause.denies and not _STOP_WORDS.isdisjoint(clause.words):
        return True
    if intent in ACTING - {Intent.HAND_OFF} and not _names_machine(clause) and _PATTERNS["elsewhere"].search(words):
        return True
    if intent in ACTING and _PATTERNS["joke"].search(words):
        return True
    if intent in (Intent.CLOSE, Intent.REOPEN) and _PATTERNS["objects"].search(words):
        return True
    if intent is Intent.CLOSE and _PATTERNS["closed"].search(words):
        return True
    if intent is Intent.TYPED_APPROVAL and _PATTERNS["confirm"].search(words):
        return True
    if intent is Intent.REOPEN and _PATTERNS["no reopening"].search(words):
        return True
    held = {"not": clause.denies, "if": clause.depends, "?": clause.asks, "asked": False}
    acts = intent in ACTING - {Intent.NEW_FACTS}  # What another person says may be a fact.
    return (acts and clause.quotes) or any(held[mood] if mood in held else _is_in(mood, words, clause) for mood in moods)


def is_only_asked(intent: Intent, clauses: Sequence[Clause]) -> bool:
    """Return whether a sentence asks about the act, as “mind if I take it?” does. It is a request only where the classifier is sure."""
    return "asked" in VETOES.get(intent, "").split() and any(clause.asks for clause in clauses)


def _names_machine(clause: Clause) -> bool:
    named = clause.named
    return bool(named.hosts or named.unknown or named.device or named.job or named.xid or named.group)


def _is_in(mood: str, words: str, clause: Clause) -> bool:
    return not (mood in ("past", "done", "earlier") and clause.requests) and _PATTERNS[mood].search(words) is not None


def calls_colleague(text: str, ours: Sequence[str] = ("rackmedic",)) -> bool:
    """Return whether the message is put to a person by first name: “Anna, did you restart it?”, “Anna can you look?”, “is it on, Jan?”."""
    if (last := _CALLED_LAST.search(text)) and _is_a_name(last[1], ours) and _SPOKEN_TO.search(text):
        return True
    if (asked := _CALLED_WITHOUT_COMMA.match(text)) and _is_a_name(asked[1], ours):
        return True
    first = _CALLED_FIRST.match(text)
    return first is not None and _is_a_name(first[1], ours) and _SPOKEN_TO.search(text, first.end()) is not None


def _is_a_name(word: str, ours: Sequence[str]) -> bool:
    plain = word.casefold()
    if "\u4e00" <= word[0] <= "\u9fff":
        return word[0] in "小老阿" and len(word) <= 3
    if not word[0].isupper() or word.isupper() or plain in ours:
        return False
    return (LEADING_WORDS | REAL | list_known_words()).isdisjoint([plain, *expand_abbreviations([plain])])
