"""Decide whether a thread message is addressed to RackMedic: to answer, to take as new facts, or to ignore. Pure.

An ignored message goes nowhere: no turn, no evidence, no ticket, no model.
"""

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Literal, NamedTuple

from graph.dialogue.intents import Intent
from graph.dialogue.known_words import list_known_words
from graph.dialogue.real_words import REAL
from graph.dialogue.said import ParsedMessage
from graph.dialogue.spelling import compute_edit_distance
from graph.dialogue.vetoes import calls_colleague

LONGEST = 400  # Characters from a message's start that decide the addressee.

# Where another person is called: nowhere, at the start, or inside the text.
CallPosition = Literal["", "first", "inside"]
# Who spoke last: RackMedic, the same speaker, another person, or unknown.
PreviousSpeaker = Literal["us", "self", "person", "nobody"]


class Addressing(StrEnum):
    """What to do with a message. `TAKE` records it as new facts: an answer to RackMedic's question, or an attachment.

    `UNCLEAR` answers that it was not understood: no other person is there who could be meant.
    """

    ANSWER = "answer"
    TAKE = "take"
    UNCLEAR = "unclear"
    SILENCE = "silence"


@dataclass(frozen=True, slots=True)
class ThreadSituation:
    """A message's situation in its thread."""

    mentioned: bool = False  # RackMedic is called by name, or it is a direct message.
    called: CallPosition = ""
    follows: PreviousSpeaker = "nobody"
    after_question: bool = False  # The other person's last message was a question.
    asked: bool = False  # RackMedic's own question is last, apart from the speaker's messages since.
    mention_only: bool = False  # The channel allows replies to mentions only.
    paused: bool = False  # A person asked for quiet, and the time is not over.
    closed: bool = False
    files: bool = False
    alone: bool = False  # No other person spoke lately, so a question or request is meant for RackMedic.


# Name a person without addressing them: “assign it to @priya”.
OF_A_PERSON: Final = frozenset({Intent.ASSIGN, Intent.HAND_OFF})
POLITE: Final = frozenset({Intent.THANKS, Intent.SMALL_TALK})
IN_A_PAUSE: Final = frozenset({Intent.STOP, Intent.PAUSE, Intent.HAND_OFF})
# Answered in a closed incident's thread without a mention: reopening it and questions about it. Other talk is no new
# evidence.
AFTER_CLOSING: Final = frozenset(
    {
        Intent.REOPEN,
        Intent.STILL_BROKEN,
        Intent.CORRECT,
        Intent.RECHECK,
        Intent.STATUS,
        Intent.SUMMARY,
        Intent.REPORT,
        Intent.HELP,
        Intent.META,
        Intent.THANKS,
        Intent.HOST_STATE,
        Intent.GROUP_STATE,
        Intent.SHOW_OUTPUT,
        Intent.SHOW_PICTURE,
        Intent.EXPLAIN,
        Intent.WHY_NOT,
        Intent.COMPARE,
        Intent.CHANGED_SINCE,
        Intent.HAPPENED_BEFORE,
        Intent.SAFE_TO,
        Intent.WHAT_NOW,
        Intent.WHO_IS_ON_IT,
        Intent.ACTION_DETAIL,
        Intent.FACT_DETAIL,
        Intent.JOBS_ON_HOST,
        Intent.HOST_IDENTITY,
        Intent.PAGE_OR_WAIT,
        Intent.TYPED_APPROVAL,
        Intent.UNDO,
        Intent.WISH_REMEDY,
        Intent.RUN_CHECK,
        Intent.RUN_GUIDE,
    }
)


class AddressingRule(NamedTuple):
    """One rule; the first that holds decides."""

    why: str
    holds: Callable[[ParsedMessage, ThreadSituation], bool]
    heed: Addressing


def _known(message: ParsedMessage) -> bool:
    return message.sure and message.intent is not Intent.NOT_UNDERSTOOD


def _to_somebody_else(message: ParsedMessage, situation: ThreadSituation) -> bool:
    names_them = _known(message) and message.intent in OF_A_PERSON and situation.called == "inside"
    return bool(situation.called) and not situation.mentioned and not names_them and not _calls_a_group(message, situation)


def _calls_a_group(message: ParsedMessage, situation: ThreadSituation) -> bool:
    """`recheck @train` names hosts and no person, unless another call is in the text."""
    return (
        situation.called == "inside"
        and bool(message.group)
        and message.text.casefold().count("@") == message.text.casefold().count(f"@{message.group}".casefold()) > 0
    )


def _answers_us(message: ParsedMessage, situation: ThreadSituation) -> bool:
    return situation.asked and (not _known(message) or is_yes_or_no(message.text)) and can_answer(message.text)


def _asks_us(message: ParsedMessage, situation: ThreadSituation) -> bool:
    """Accept unread text: a work question right after RackMedic's message, or any question or host name if no other
    person can be meant.
    """
    if _known(message):
        return False
    if situation.follows == "us" and is_work_question(message):
        return True
    return (
        situation.alone
        and situation.follows in ("us", "self")
        and (is_question(message.text) or bool(message.hosts or message.unknown_hosts))
    )


def _is_for_us_alone(message: ParsedMessage, situation: ThreadSituation) -> bool:
    """Return whether unread text can only be meant for RackMedic. A colleague called by name may read along."""
    return situation.alone and not _known(message) and not calls_colleague(message.text[:LONGEST])


def _among_people(message: ParsedMessage, situation: ThreadSituation) -> bool:
    polite = message.intent in POLITE and situation.follows != "us" and not situation.alone
    return polite or (message.intent is Intent.TYPED_APPROVAL and situation.follows == "person" and situation.after_question)


def _wants_quiet(message: ParsedMessage, situation: ThreadSituation) -> bool:
    return situation.paused and not (_known(message) and message.intent in IN_A_PAUSE)


def _not_after_closing(message: ParsedMessage, situation: ThreadSituation) -> bool:
    unread_request = not _known(message) and (commands_machines(message) or _asks_us(message, situation))
    return situation.closed and message.intent not in AFTER_CLOSING and not unread_request


# fmt: off
RULES: Final = (
    AddressingRule("said to somebody else",         _to_somebody_else,                                                     Addressing.SILENCE),
    AddressingRule("our question, by name",         lambda said, here: here.mentioned and _answers_us(said, here),         Addressing.TAKE),
    AddressingRule("said to us",                    lambda said, here: here.mentioned,                                     Addressing.ANSWER),
    AddressingRule("only mentions here",            lambda said, here: here.mention_only,                                  Addressing.SILENCE),
    AddressingRule("quiet, but for a stop",         _wants_quiet,                                                          Addressing.SILENCE),
    AddressingRule("closed, and no question of it", _not_after_closing,                                                    Addressing.SILENCE),
    AddressingRule("a command in unread words",     lambda said, here: not _known(said) and commands_machines(said),       Addressing.ANSWER),
    AddressingRule("our question",                  _answers_us,                                                           Addressing.TAKE),
    AddressingRule("something handed in",           lambda said, here: here.files and not _known(said),                    Addressing.TAKE),
    AddressingRule("asks us",                       _asks_us,                                                              Addressing.ANSWER),
    AddressingRule("nobody else is there",          _is_for_us_alone,                                                      Addressing.UNCLEAR),
    AddressingRule("nothing that we know",          lambda said, here: not _known(said),                                   Addressing.SILENCE),
    AddressingRule("among people",                  _among_people,                                                         Addressing.SILENCE),
    AddressingRule("something that we know",        lambda said, here: True,                                               Addressing.ANSWER),
)
# fmt: on


def classify_addressing(message: ParsedMessage, situation: ThreadSituation) -> Addressing:
    return next(rule.heed for rule in RULES if rule.holds(message, situation))


def mark_as_new_facts(message: ParsedMessage) -> ParsedMessage:
    return message.model_copy(update={"intent": Intent.NEW_FACTS, "sure": True, "suggestions": ()})


def mark_as_unclear(message: ParsedMessage) -> ParsedMessage:
    """Return the message as one that was not understood. A statement that asks for nothing is not put to a model."""
    return message.model_copy(update={"intent": Intent.NOT_UNDERSTOOD, "sure": not is_request(message)})


def apply_addressing(message: ParsedMessage, addressing: Addressing) -> ParsedMessage:
    """Return the message as it is stored."""
    if addressing is Addressing.TAKE:
        return mark_as_new_facts(message)
    return mark_as_unclear(message) if addressing is Addressing.UNCLEAR else message


def _each(words: str, between: str | None = None) -> frozenset[str]:
    return frozenset(words.split(between))


_WORDS = re.compile(r"[^\W_][\w'’-]{0,40}")
_CALL = re.compile(r"(?:^|(?<=[\s(,;:/]))(?:<@[A-Z0-9]{1,20}(?:\|[^<>\n]{0,80})?>|<![^<>\n]{1,120}>|@[^\W_][\w.-]{0,80})")
# A name with a number, a range, or an address.
_LIKE_A_HOST = re.compile(r"\b[a-z]{1,20}[-.]?[\[{]?\d|\b\d{1,3}(?:\.\d{1,3}){3}\b", re.IGNORECASE)
_GREETING = _each("hey hi hello yo ok okay thanks thx so and well sorry please morning")
# Words before a comma that call no one.
_NO_NAMES = _each("yes no nope yep yeah sure right fine great good cool nice hmm hm oh ah btw fyi also but then now again")
_DO = _each("do did can could would will have")
_YOU = _each("you your u ya du dir dich ihr euch vous tu te toi usted ustedes")


def find_call(text: str, us: Collection[str] = (), names: Collection[str] = ()) -> CallPosition:
    """Return where another person is called: a mention, one of `names` (thread speakers) at the start, or a `word,`
    there with a “you” later. `us`: RackMedic's ids and names.
    """
    head = text[:LONGEST]
    ours = {name.casefold() for name in us}
    for found in _CALL.finditer(head):
        if _name_of(found.group()) not in ours:
            before = {word.casefold() for word in _WORDS.findall(head[: found.start()])}
            return "first" if before <= _GREETING | ours else "inside"
    return "first" if _begins_with_a_name(head, ours, {name.casefold() for name in names} - ours) else ""


def is_mentioned(text: str, us: Collection[str]) -> bool:
    """Return whether RackMedic is called: `@name` anywhere, or its name at the start or end."""
    ours, head = {name.casefold() for name in us}, text[:LONGEST]
    if any(_name_of(found.group()) in ours for found in _CALL.finditer(head)):
        return True
    words = [word.casefold() for word in _WORDS.findall(head)]
    first = next((word for word in words if word not in _GREETING), "")
    return bool(words) and (first in ours or words[-1] in ours)


def _name_of(call: str) -> str:
    return call.strip("<>").partition("|")[0].lstrip("@!").rstrip(".-").casefold()


def _begins_with_a_name(head: str, ours: Collection[str], names: Collection[str]) -> bool:
    words = [(found.group().casefold(), head[found.end() : found.end() + 1]) for found in _WORDS.finditer(head)]
    first, after = next(((word, after) for word, after in words if word not in _GREETING), ("", ""))
    if first in ours:
        return False
    unknown_name = after == "," and first.isalpha() and first not in _NO_NAMES and any(word in _YOU for word, _ in words)
    return first in names or unknown_name or _asks_a_person([word for word, _ in words])


def _asks_a_person(words: Sequence[str]) -> bool:
    """“anton do you remember…”: an unknown word, then “do you”."""
    first, asks, you = [*(row for at, row in enumerate(words) if row not in _GREETING or at > 2), "", "", ""][:3]
    slip = any(len(word) > 3 and compute_edit_distance(first, word, 1) <= 1 for word in _ASKING)
    return asks in _DO and you in _YOU and first.isalpha() and not slip and first not in _ASKING | _NO_NAMES | REAL | list_known_words()


_YES_NO = _each(
    "yes,yes please,yes it did,yes it does,yes we did,yep,yeah,yup,no,no it did not,no it didn't,no we did not,no we didn't,nope,never,"
    "not yet,not that i know,not that i know of,first time,no first time,only these,only there,both,all of them,none,i think so,"
    "i don't think so,i don't know,no idea,don't know,ja,nein,oui,non,si,sí",
    ",",
)
# Starts of asides and promises, which answer nothing.
_ASIDES = _each(
    "let's,lets,let us,let me,i'll,i will,we'll,we will,one sec,one moment,one minute,give me,gimme,brb,afk,lol,haha,lunch,coffee,folks,"
    "guys,team,all,everyone,everybody,anyone,anybody,can someone,can you,could you,can somebody,should we,shall we,did you,do you,have you",
    ",",
)


_ASKING = _each(
    "what whats what's which who whose when where why how is are was were does did do can could may should would will any has have "
    "show give tell list print get find compare diff check run pause look explain describe write send count "
    "was welche welcher wer wann wo warum wieso wie ist sind kann zeig gib sag quel quelle que qui quand où pourquoi comment montre donne "
    "qué cuál quién cuándo dónde cómo muestra dame"
)
_THE_WORK = _each(
    "gpu gpus node nodes host hosts machine machines server servers job jobs training rank ranks cause fault error errors log logs card "
    "cards fix incident ticket network fabric cable link port ports switch driver memory temperature temps power waiting blocked impact "
    "munge slurm slurmd scheduler nccl dmesg kernel ecc xid nvlink nvswitch infiniband ib hca mlx5 pcie dcgm fabricmanager clock chrony certificate "
    "firmware bios bmc ipmi disk filesystem storage memory nvidia cuda container docker "
    "update progress eta knoten maschine fehler ursache ausfall nœud nœuds machine erreur panne nodo nodos máquina fallo causa"
)


def is_work_question(message: ParsedMessage) -> bool:
    """Return whether it asks and names something known or technical."""
    words = _plain(message.text[:LONGEST]).split()
    asks = message.text.rstrip().endswith("?") or bool(words and words[0] in _ASKING)
    named = (
        message.hosts
        or message.unknown_hosts
        or message.labels
        or message.category
        or message.check
        or message.remedy
        or message.device
        or message.job
    )
    return asks and (bool(named) or not _THE_WORK.isdisjoint(words))


_DO_TO_MACHINES = _each(
    "drain undrain cordon uncordon reboot restart reset power powercycle shutdown resume return isolate exclude quarantine evict kill cancel ssh "
    "reseat replace swap unload reload reinstall fix repair recheck check test probe ping run execute mount remount clear"
)
_OF_MACHINES = _each(
    "everything all them both node nodes host hosts machine machines server servers gpu gpus hca job fabricmanager driver others rest bmc"
)
_CALL_AND_PLEASE = _GREETING | _each("rackmedic please pls plz just now then also can could would you we i to want need go and")


def commands_machines(message: ParsedMessage) -> bool:
    """Return whether a text commands machines, in any notation: `drain everything except gpu-002 pls`."""
    words = _plain(message.text[:LONGEST]).split()
    first = _command_at(words)
    if first is None:
        return False
    named = message.hosts or message.unknown_hosts or message.group or message.remedy or message.check
    return bool(named) or not _OF_MACHINES.isdisjoint(words[first + 1 :]) or _LIKE_A_HOST.search(message.text[:LONGEST]) is not None


def begins_with_command(text: str) -> bool:
    """Return whether it starts with a verb for machines, after greetings."""
    return _command_at(_plain(text[:LONGEST]).split()) is not None


def _command_at(words: Sequence[str]) -> int | None:
    first = next((at for at, word in enumerate(words) if word not in _CALL_AND_PLEASE), len(words))
    return first if first < len(words) and words[first] in _DO_TO_MACHINES else None


def is_question(text: str) -> bool:
    """Return whether it ends with a question mark or starts with a question word."""
    words = _plain(text[:LONGEST]).split()
    first = next((word for word in words if word not in _GREETING), "")
    return text.rstrip().endswith("?") or first in _ASKING


def is_request(message: ParsedMessage) -> bool:
    """Return whether a text wants an answer or an action."""
    wants = _known(message) and message.intent not in POLITE | {Intent.NEW_FACTS}
    return wants or commands_machines(message) or is_question(message.text)


def is_yes_or_no(text: str) -> bool:
    return len(text) <= LONGEST and _plain(text) in _YES_NO


def can_answer(text: str) -> bool:
    """Return whether it can answer a question: words, no question itself, no aside."""
    head = _plain(text[:LONGEST])
    return bool(head) and not text.rstrip().endswith("?") and not any(head == aside or head.startswith(f"{aside} ") for aside in _ASIDES)


def _plain(text: str) -> str:
    return " ".join(word.casefold().replace("’", "'") for word in _WORDS.findall(text))
