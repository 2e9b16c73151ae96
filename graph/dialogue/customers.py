"""Requests that tenants phrase in their own way: a person, a change to a machine, withdrawal, progress. Pure and
bounded.

Patterns per language match normalized text. A text with a symptom, or with much besides the request, stays a report.
"""

import re
import unicodedata
from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import Final

from graph.dialogue.intents import Intent
from graph.dialogue.news import has_complaint
from graph.dialogue.said import ParsedMessage


class TenantRequest(StrEnum):
    PERSON = "person"
    CHANGE = "change"
    WITHDRAW = "withdraw"
    AGAIN = "again"
    FAULT = "fault"
    WHY_WHEN = "why_when"
    STANDS = "stands"
    PRESSED = "pressed"


LONGEST: Final = 160  # Characters of a single request; a longer text is a report.
MOST_BESIDE: Final = 8  # Words allowed besides the request.
# The nearest intent of each request.
MEANS: Final[Mapping[TenantRequest, Intent]] = {
    TenantRequest.PERSON: Intent.HAND_OFF,
    TenantRequest.CHANGE: Intent.WISH_REMEDY,
    TenantRequest.WITHDRAW: Intent.CLOSE,
    TenantRequest.AGAIN: Intent.HAPPENED_BEFORE,
    TenantRequest.FAULT: Intent.EXPLAIN,
    TenantRequest.WHY_WHEN: Intent.EXPLAIN,
    TenantRequest.STANDS: Intent.STATUS,
    TenantRequest.PRESSED: Intent.STATUS,
}
# Valid even right after RackMedic asked something else.
ANY_TIME: Final = frozenset({TenantRequest.PERSON, TenantRequest.CHANGE, TenantRequest.WITHDRAW})

_LEAD = (
    r"(?:^|\b(?:please|then|so|and|now|or)) ?(?:(?:please|just|simply|now|ok|okay|guys|hey|can|could|would|will|you|somebody|someone) )*"
)
_BITTE = r"(?:^|\b(?:bitte|dann|und|jetzt|oder)) ?(?:(?:bitte|einfach|jetzt|doch|mal|endlich|konnt ihr|konnen sie|kannst du|konntet ihr) )*"
_BOX = r"(?:thing|box|boxes|machine|machines|node|nodes|server|servers|host|hosts|gpu|gpus|card|cards|it|them|everything|all)"
_KISTE = r"(?:kiste|kisten|maschine|maschinen|ding|dinger|knoten|node|nodes|server|servern|rechner|gpu|gpus|karte|karten|host|hosts|es|sie|alles|das)"
_MACHINES = r"(?:node|nodes|machine|machines|gpu|gpus|server|servers|host|hosts)"
_NUMBERED = r"[a-z]+[a-z0-9]* ?\d+\b"
_TAUSCHT = r"(?:tauscht|ersetzt|wechselt|rebootet|resettet|(?:tauschen|ersetzen|wechseln|rebooten|resetten) sie)"
_THE = r"(?:(?:the|this|that|these|those|our|my|your|every|all|whole|of|damn|damned|bloody|stupid|fucking|goddamn|broken|bad|faulty|old) )*"
_DIE = r"(?:(?:bitte|einfach|doch|mal|endlich|die|den|das|diesen?|dieses|unseren?|alle|verdammten?|bloden?|scheiss) )*"
_ECHT = r"(?:(?:einem|einer|eurem|ihrem|irgend|echten?|richtigen?|jemand) ?)*"
_JEMAND = (
    r"(?:jemandem|jemanden|jemand|wem|mensch|menschen|mitarbeiter|mitarbeiterin|techniker|technikerin|kollegen|kollegin|person|ingenieur)"
)
_SOMEBODY = r"(?:humans?|persons?|people|somebody|someone|anybody|engineers?|operators?|colleagues?|technicians?|staff)"
_REAL = r"(?:(?:a|an|any|some|real|actual|live|one|of|your) )*"
_ORDINAL = r"(?:second|third|fourth|fifth|sixth|seventh|tenth|umpteenth|nth|\d{1,3}(?:st|nd|rd|th))"
# Searched in this order.
PATTERNS: Final[Mapping[TenantRequest, Mapping[str, tuple[str, ...]]]] = {
    TenantRequest.WITHDRAW: {
        "en": (
            r"never ?mind",
            r"forget (?:it|about it|about this)",
            r"(?:we|i) (?:dont|do not|no longer) need (?:it|this|that|you)\b",
            r"(?:no longer|not) needed(?: any ?more)?",
            r"false alarm",
            r"no need to (?:look|check|investigate|search|go on|continue)",
            r"stop (?:looking|checking|investigating|searching)",
            r"you can (?:close|drop|forget) (?:it|this|that)\b",
            r"^disregard\b",
            r"(?:drop|ignore|withdraw|cancel|disregard) (?:it\b|this\b|that\b|(?:(?:our|my|the|this) )?(?:report|ticket)\b)",
        ),
        "de": (
            r"hat sich (?:schon |inzwischen |von selbst |bereits )?erledigt",
            r"brauch(?:en|e) (?:wir |ich )?(?:es |das )?(?:nicht|keine?n?)(?: mehr)?$",
            r"(?:vergesst|vergiss|vergessen sie) (?:es|das)",
            r"fehlalarm",
            r"konnt ihr vergessen",
            r"nicht (?:mehr |weiter )+(?:suchen|nachsehen|schauen|nachschauen|prufen)",
            r"(?:konnt ihr|konnen sie) (?:schliessen|zumachen)",
            r"(?:ziehen|ziehe) (?:wir|ich|das|es|die meldung).*zuruck",
        ),
        "fr": (r"laissez tomber", r"oubliez(?: ca| cela)?$", r"(?:nous )?n en avons plus besoin", r"fausse alerte"),
        "es": (r"olvid(?:alo|enlo|adlo)", r"ya no lo necesitamos", r"falsa alarma", r"no importa"),
        "zh": (r"不用了", r"误报", r"不需要了"),
    },
    TenantRequest.PERSON: {
        "en": (
            rf"(?:talk|speak|chat) (?:to|with) {_REAL}{_SOMEBODY}\b",
            rf"(?:is|are) there {_REAL}(?:humans?|person|people|engineers?)\b",
            r"(?:call|phone|ring) (?:me|us)(?: back)?\b",
            rf"(?:get|give|send) (?:me|us) {_REAL}{_SOMEBODY}\b",
        ),
        "de": (
            rf"mit {_ECHT}{_JEMAND}\b.*(?:sprechen|reden|telefonieren)",
            rf"mit {_ECHT}(?:jemandem|menschen)$",
            r"(?:ruft|rufen sie|ruf) (?:mich|uns|mal|bitte|jemand|doch| )*(?:zuruck|an)\b",
            r"ruf[te]* (?:mich|uns) (?:bitte )?jemand an",
            r"(?:echten|richtigen) menschen",
        ),
        "fr": (
            r"parler (?:a|avec) (?:quelqu un|un humain|une personne|un technicien|un ingenieur|un etre humain)",
            r"(?:rappelez|appelez) (?:moi|nous)",
        ),
        "es": (r"hablar con (?:alguien|una persona|un humano|un tecnico|un ingeniero)", r"llam(?:enme|ame|enos)"),
        "zh": (r"(?:找|转|要)?人工", r"跟人说", r"和人说"),
    },
    TenantRequest.CHANGE: {
        "en": (
            rf"{_LEAD}(?:reboot|restart|reset|power ?cycle|replace|swap|drain|reimage|reinstall|kick|fix)(?: out)? {_THE}(?:{_BOX}\b|{_NUMBERED})",
            rf"(?:give|get) us (?:(?:a|an|some) )?(?:another|new|other|different|fresh|spare) {_MACHINES}\b",
            rf"we need (?:(?:a|an|some) )?(?:another|new|different|spare) {_MACHINES}\b",
            r"^(?:please )?(?:stop|halt|abort)(?: (?:it|this|that|now|everything|immediately|please))*$",
            r"(?:dont|do not|never) (?:touch|reboot|restart|drain|reset|replace|stop|kill)\b",
            r"(?:hands|keep) off our",
        ),
        "de": (
            rf"{_BITTE}(?:startet|starten sie|starten|starte|bootet|booten sie|resettet|resetten sie) {_DIE}(?:{_KISTE}\b|{_NUMBERED}).*\bneu\b",
            rf"{_BITTE}{_TAUSCHT} (?:\w+ ){{0,3}}(?:{_KISTE}\b|{_NUMBERED})",
            rf"\b{_KISTE} {_DIE}(?:neu ?starten|neu ?booten|rebooten|resetten|austauschen|tauschen|ersetzen)\b",
            r"gebt uns (?:bitte )?(?:einen|eine|ein) (?:anderen?|neuen?|anderes|neues) ",
            r"(?:wir )?brauchen (?:bitte )?(?:einen|eine|ein) (?:anderen?|neuen?|anderes|neues) (?:knoten|node|maschine|server|rechner|gpu|karte)\b",
            r"(?:fasst|fassen sie|ruhrt|ruhren sie) .*nicht an\b",
            r"^(?:bitte )?(?:stopp?|halt|aufhoren)(?: (?:sofort|bitte|jetzt))*$",
            r"nicht (?:neu ?starten|rebooten|anfassen|resetten)\b",
        ),
        "fr": (
            r"(?:^|veuillez |svp |pouvez vous )redemarre[rz] (?:juste |simplement )?(?:\w{2,5} ){0,3}(?:machines?|noeuds?|serveurs?|truc)\b",
            r"remplace[rz] (?:(?:la|le|les|cette|ce) )*(?:machine|noeud|serveur|gpu|carte)\b",
        ),
        "es": (
            r"(?:^|por favor |pueden )reinici(?:en|ad|a|ar) (?:\w{2,11} ){0,3}(?:maquinas?|nodos?|servidor(?:es)?|cosa)\b",
            r"(?:cambien|reemplacen) (?:(?:la|el) )*(?:maquina|nodo|servidor|gpu|tarjeta)\b",
        ),
        "zh": (r"重启(?:一下)?(?:机器|节点|服务器)",),
    },
    TenantRequest.WHY_WHEN: {
        "en": (r"\bwhy\b.*\b(?:when|how long)\b", r"\b(?:when|how long)\b.*\bwhy\b"),
        "de": (r"\b(?:warum|wieso|weshalb)\b.*\b(?:wann|wie lange)\b", r"\b(?:wann|wie lange)\b.*\b(?:warum|wieso|weshalb)\b"),
        "fr": (r"\bpourquoi\b.*\bquand\b", r"\bquand\b.*\bpourquoi\b"),
        "es": (r"\bpor que\b.*\bcuando\b", r"\bcuando\b.*\bpor que\b"),
    },
    TenantRequest.FAULT: {
        "en": (
            r"(?:is|was) (?:it|this|that) (?:our|your|my) (?:fault|mistake|problem|side|code|hardware)",
            r"whose (?:fault|mistake) is",
            r"(?:our|my) code or (?:your|the) (?:hardware|machines?|cluster|nodes?)",
            r"(?:is|was) it (?:us|you)\b",
        ),
        "de": (
            r"liegt (?:es|das|der fehler) an (?:uns|euch|ihnen|mir)",
            r"(?:ist|war) (?:es|das) (?:unser|euer|ihr|mein) (?:fehler|problem)",
            r"wessen (?:fehler|schuld)",
            r"(?:sind|waren) wir schuld",
        ),
        "fr": (r"est ce (?:notre|votre) faute", r"c est (?:notre|votre) faute"),
        "es": (r"es (?:nuestra|vuestra|su) culpa", r"es culpa (?:nuestra|suya|vuestra)"),
    },
    TenantRequest.AGAIN: {
        "en": (
            rf"\b{_ORDINAL} time\b(?! ?step)",
            r"\b(?:twice|three times|four times|\d{1,3} times) (?:already )?(?:this (?:week|month|year|morning)|in a (?:row|day|week|month)|today)\b",
        ),
        "de": (
            r"\b(?:zweite|dritte|vierte|funfte|sechste|zehnte|hundertste|x ?te)n? ?mal\b",
            r"\b(?:zweimal|dreimal|viermal|funfmal|\d{1,3} ?mal) (?:schon )?(?:diese woche|diesen monat|heute|in einer woche)\b",
        ),
        "fr": (r"\b(?:deuxieme|troisieme|quatrieme|\d{1,3}e) fois\b",),
        "es": (r"\b(?:segunda|tercera|cuarta|quinta) vez\b",),
        "zh": (r"第[二三四五六七八九十]次",),
    },
    TenantRequest.STANDS: {
        "en": (
            r"^(?:so )?when (?:will|can|do|is|does)\b",
            r"^(?:is )?(?:anybody|anyone|somebody|someone) (?:there|here|home)",
            r"^still nothing",
            r"^what (?:the (?:hell|heck|fuck) )?is going on",
            r"^(?:and )?how much longer",
            r"^hello+ ?(?:anybody|anyone)?(?: there)?$",
        ),
        "de": (
            r"^(?:und )?(?:ab |bis )?wann\b",
            r"^(?:ist )?(?:da )?(?:jemand|wer) (?:da|hier)",
            r"^ist (?:da |hier )?(?:jemand|wer)\b",
            r"^immer noch nichts",
            r"^was ist (?:da |denn |hier )*los",
            r"^wie lange\b",
            r"^hallo+(?: jemand da)?$",
        ),
        "fr": (r"^quand\b", r"^il y a quelqu un", r"^toujours rien", r"^combien de temps"),
        "es": (r"^cuando\b", r"^hay alguien", r"^todavia nada", r"^cuanto (?:tiempo|falta)"),
        "zh": (r"^有人吗", r"^什么时候"),
    },
    TenantRequest.PRESSED: {
        "en": (
            r"\b(?:unacceptable|ridiculous|outrageous)\b",
            r"\bdeadline\b(?! exceeded)",
            r"\b(?:losing|lose|costs? us|costing us) (?:\w+ )?(?:money|\d+ ?k\b|\d+ (?:euros?|dollars?|eur|usd)\b|thousands|millions|a fortune)",
            r"^(?:(?:this is|its|it is|very|really|please|super) )*(?:urgent|asap|critical)(?: please)?$",
        ),
        "de": (
            r"\b(?:inakzeptabel|unmoglich|eine frechheit)\b$",
            r"\bdeadline\b(?! exceeded)",
            r"\babgabe(?:termin)?\b",
            r"\b(?:verlieren|kostet uns)(?: \w+){0,3} (?:geld|\d+ ?k\b|\d+ (?:euro|eur|dollar)|tausende|ein vermogen)",
            r"^(?:(?:das|es|ist|sehr|wirklich|super|bitte) )*(?:dringend|eilig|eilt)(?: bitte)?$",
        ),
        "fr": (r"\binacceptable\b", r"^(?:c est |tres )*urgent$"),
        "es": (r"\binaceptable\b", r"^(?:es |muy )*urgente$"),
    },
}
_READ: Final = tuple((want, re.compile("|".join(rows))) for want, by in PATTERNS.items() for rows in by.values())


_JOB = r"(?:(?:the|our|my|this|that) )?(?:job|run|training|task)"
_ENDED = r"(?:cancell?ed|killed|stopped|deleted|aborted|ended|scrapped)"
# Tenants ended their job themselves: no symptom if they also withdraw.
_OWN_DOING: Final = re.compile(
    rf"\b(?:we|i)(?: have|ve)?(?: just| already)? {_ENDED} {_JOB}\b(?: (?:ourselves|myself|by ourselves|on purpose))?"
    rf"|\b{_JOB} is {_ENDED}\b(?! by)(?: (?:by us|on purpose))?"
    r"|\b(?:wir haben|ich habe) (?:den|unseren|meinen) (?:job|lauf) (?:selbst )?(?:abgebrochen|beendet|gestoppt|geloscht)"
    r"|\b(?:der |unser )?job ist abgebrochen\b"
)


def classify_tenant_request(text: str, now: datetime) -> TenantRequest | None:
    """Return the request's kind; None for a report or anything outside the table."""
    if len(text) > LONGEST:
        return None
    plain, ended = _OWN_DOING.subn(" ", normalize_text(text))
    if has_complaint(plain if ended else text, now):
        return None
    want = _found(" ".join(plain.split()))
    return want if not ended or want is TenantRequest.WITHDRAW else None


def _found(plain: str) -> TenantRequest | None:
    found = next(((want, hit) for want, pattern in _READ if (hit := pattern.search(plain))), None)
    if found is None or len(plain.replace(found[1].group(), " ", 1).split()) > MOST_BESIDE:
        return None
    return found[0]


def apply_tenant_request(message: ParsedMessage, now: datetime) -> tuple[ParsedMessage, TenantRequest | None]:
    """Apply the request's intent to the message. A text that names a machine withdraws nothing."""
    want = classify_tenant_request(message.text, now)
    if want is None or (want is TenantRequest.WITHDRAW and (message.hosts or message.unknown_hosts)):
        return message, None
    return message.model_copy(update={"intent": MEANS[want], "sure": True}), want


def normalize_text(text: str) -> str:
    """Return lower case without accents and punctuation, with single spaces."""
    bare = "".join(sign for sign in unicodedata.normalize("NFKD", text[: LONGEST * 2].casefold()) if not unicodedata.combining(sign))
    return " ".join(re.sub(r"[^\w]+", " ", re.sub(r"(?<=[a-z])['’](?=(?:t|s|re|m)\b)", "", bare)).split())
