"""Find what a correction asserts: “it was A, not B” and “B is innocent, A did it” assert A. Pure and bounded.

A part that denies, or that speaks about RackMedic (“you said B”), asserts nothing.
"""

import re
from collections.abc import Iterator
from typing import Final

from graph.dialogue.spelling import LONGEST, strip_accents

MAX_CAUSE_CHARS: Final = 120
MAX_PARTS: Final = 12
_BREAKS = re.compile(r"[,;:!?\n，。；：！？、–—]+|\.(?=\s|$)|\s-\s|(?=而?不是|而非|并非)")


def _each(words: str) -> frozenset[str]:
    return frozenset(words.split())


_BEGIN_A_PART: Final = _each("but so because sondern aber weil mais donc sino pero")
_DENY: Final = _each(
    "not isn't wasn't aren't weren't never instead rather innocent blameless fine okay ok healthy nicht kein keine keinen statt unschuldig "
    "pas jamais innocent innocente inocente inocentes"
)
_BEGIN_A_DENIAL: Final = _each("not isn't wasn't aren't weren't never instead rather nicht kein keine keinen statt pas no")
_CHINESE_DENIALS: Final = ("不是", "并非", "而非", "不关", "没问题", "无辜")
_SPEAK_OF_US: Final = _each(
    "you you're your yours rackmedic bot diagnosis conclusion verdict finding theory du dein deine deiner ihr diagnose tu te ton ta vous votre "
    "diagnostic diagnostico usted tu estas equivocas trompes"
)
_SPEAK_OF_US_IN_CHINESE: Final = ("你", "诊断", "结论")
_WRONG: Final = _each("no nope nah wrong false incorrect mistaken misdiagnosed falsch nein non faux falso incorrecto 不对 错了")
_COPULAS: Final = _each("is was are were be been ist war est etait es era fue")
# Words beside a stated cause that do not describe it.
_AROUND: Final = _each(
    "no nope nah yes well ok so but and it it's that that's this was is were be been has had have to the a an in of by for from really actually just only all "
    "apparently after end fact out due because turned turns turn caused did broke wrong right false incorrect mistaken sorry i we afraid close please "
    "cause reason culprit root real true actual origin problem issue fault blame found traced tracked down us here there what which one "
    "nein falsch es ist war die der das den dem ursache grund schuld wirklich eigentlich tatsachlich lag an hat wir "
    "non faux c'etait c'est la le les l cause raison vraie etait est en fait du de a cause "
    "si falso incorrecto era fue es el lo causa razon verdadera realidad por culpa que un una ein eine une"
)
_END_A_CAUSE: Final = _each("caused did broke is was blame fault cause reason culprit war schuld hat est cause fue era causa")
_DETERMINERS: Final = _each("a an the our my their his her some un una une ein eine la le el les")
_CHINESE_LEADS: Final = ("不对", "错了", "不", "实际上", "其实", "真正的", "原因", "根因", "问题", "应该", "就是", "是", "由于", "因为")
_CHINESE_TAILS: Final = ("才是原因", "是原因", "导致的", "引起的", "造成的", "才对")
_EDGES: Final = " \t.,;:!?'\"“”„«»()[]*_`。，；：！？、"


def find_asserted_text(text: str) -> str:
    """Return the parts that assert something."""
    return ", ".join(_list_asserted(text))


def find_stated_cause(text: str) -> str:
    """Return the cause in the writer's own words, or an empty text: “it was a leak in our dataloader” → “a leak in our dataloader”."""
    return next((cause for part in _list_asserted(text) if (cause := _cut_edges(part))), "")[:MAX_CAUSE_CHARS]


def contradicts_finding(text: str) -> bool:
    """Return whether it says that something named or found is not the cause."""
    words = _plain(text[:LONGEST])
    return not _WRONG.isdisjoint(words) or any(_is_denied(part) or _speaks_of_us(part) for part in _iter_parts(text[:LONGEST]))


def _list_asserted(text: str) -> list[str]:
    parts = list(_iter_parts(text[:LONGEST]))[:MAX_PARTS]
    following = [*parts[1:], ""]
    return [
        part
        for part, after in zip(parts, following, strict=True)
        if not (_is_denied(part) or _speaks_of_us(part) or (_plain(part)[-1:] and _plain(part)[-1] in _COPULAS and _is_denied(after)))
    ]


def _iter_parts(text: str) -> Iterator[str]:
    for sentence in _BREAKS.split(text):
        part: list[str] = []
        for word in sentence.split():
            if part and _plain(word)[:1] and _plain(word)[0] in _BEGIN_A_PART | _BEGIN_A_DENIAL:
                yield " ".join(part)
                part = []
            part.append(word)
        if part:
            yield " ".join(part)


def _plain(part: str) -> list[str]:
    return [strip_accents(word.lower().replace("’", "'")).strip(_EDGES) for word in part.split()]


def _is_denied(part: str) -> bool:
    words = _plain(part)
    begins_with_no = words[:1] == ["no"] and len(words) > 1
    contracted = any(word.endswith("n't") for word in words)
    return begins_with_no or contracted or not _DENY.isdisjoint(words) or any(denial in part for denial in _CHINESE_DENIALS)


def _speaks_of_us(part: str) -> bool:
    return not _SPEAK_OF_US.isdisjoint(_plain(part)) or any(word in part for word in _SPEAK_OF_US_IN_CHINESE)


def _cut_edges(part: str) -> str:
    """Return the part without the words that only introduce or end a cause; empty if no other word is left."""
    words, plain = part.split(), _plain(part)
    telling = [at for at, word in enumerate(plain) if word and word not in _AROUND]
    if not telling:
        return ""
    first, last = telling[0], telling[-1]
    if _END_A_CAUSE.isdisjoint(plain[last + 1 :]):  # “had unplugged it” ends with its object
        last = len(words) - 1
    while first and plain[first - 1] in _DETERMINERS:
        first -= 1
    return _cut_chinese(" ".join(words[first : last + 1]).strip(_EDGES))


def _cut_chinese(cause: str) -> str:
    for lead in _CHINESE_LEADS:
        cause = cause.removeprefix(lead)
    for tail in _CHINESE_TAILS:
        cause = cause.removesuffix(tail)
    return cause.strip(_EDGES)
