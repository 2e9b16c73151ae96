"""What a person can say in an incident's thread, as a table. Works without a model; whatever is not in the table is new facts.

A command is the whole message: a long text that contains the word "stop" stops nothing.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

Kind = Literal["help", "status", "why", "recheck", "stop", "hand_off", "reply"]

HOSTS = r"(?=\S*[\d\[])[A-Za-z0-9][A-Za-z0-9._\-\[\],]*(?:[,\s]+(?=\S*[\d\[])[A-Za-z0-9][A-Za-z0-9._\-\[\],]*)*"
"""Words that look like hosts: each has a digit or a bracket."""
GROUP = r"@?[A-Za-z][A-Za-z0-9._\-]{0,62}"
"""One word, which may be a group's name; what else it may be is told by the inventory (`graph.reading.groups`)."""
AGAIN = r"(?:re-?check|(?:look|check) again)"
RANGE = r"@?[A-Za-z0-9][A-Za-z0-9._\-\[\],\s]*?"
LABEL = r"[A-Z_]+|[A-Za-z_]+(?:\.[A-Za-z0-9_]+)+"


@dataclass(frozen=True, slots=True)
class Spoken:
    """A message, read. `text` is what was written, as people see it; `data` what the phrase named (`hosts`, `job`, `since`, `label`)."""

    kind: Kind
    text: str
    data: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Phrase:
    """A row of the grammar. Named groups of `pattern` become `Spoken.data`."""

    form: str
    means: str
    kind: Kind
    pattern: re.Pattern[str]


def _phrase(form: str, means: str, kind: Kind, pattern: str) -> Phrase:
    return Phrase(form, means, kind, re.compile(rf"(?:please\s+)?(?:{pattern})(?:\s+please)?\s*[.!?]*", re.IGNORECASE))


# fmt: off
PHRASES = (
    _phrase("help", "this list", "help", r"help|\?|what can you do"),
    _phrase("status", "what I know and what I am doing", "status", r"status|any news|where are we"),
    _phrase("why [LABEL]", "the evidence behind the root cause, or behind LABEL", "why", rf"why(?:\s+(?:not\s+)?`?(?P<label>(?-i:{LABEL}))`?)?"),
    _phrase("recheck [HOSTS]", "look again, or on these hosts or this group only", "recheck", rf"{AGAIN}(?:\s+(?:on\s+)?`?(?P<hosts>{HOSTS}|{GROUP})`?)?"),
    _phrase("stop", "stop looking; nothing is lost", "stop", r"stop|cancel|halt"),
    _phrase("hand off", "make this thread a ticket for a human", "hand_off", r"hand(?:\s|-)?(?:it\s+)?(?:off|over)|escalate"),
    _phrase("hosts RANGE", "the hosts that are concerned, as gpu-[017-020] or a group’s name", "reply", rf"hosts?\s*[:=]?\s+`?(?P<hosts>{RANGE})`?"),
    _phrase("job ID", "the job that is concerned", "reply", r"job\s*[:=]?\s+`?(?P<job>[A-Za-z0-9._-]{1,64})`?"),
    _phrase("since TIME", "when it began, as “since 02:40”", "reply", r"(?:since|began|started)\s+(?:at\s+)?(?P<since>[^\n]{1,60})"),
)
# fmt: on
ANYTHING = ("anything else", "new facts, or the answer to my question; logs can be attached")


def read_reply(raw: str) -> Spoken:
    """A message as Slack sends it → what it asks. The mention of the bot itself, at either end, is not part of what was said."""
    text = people_see(re.sub(r"^(?:\s*<@[A-Z0-9]+(?:\|[^>]*)?>[\s,:]*)+|(?:[\s,]*<@[A-Z0-9]+(?:\|[^>]*)?>)+\s*$", "", raw)).strip()
    for phrase in PHRASES:
        found = phrase.pattern.fullmatch(text)
        if found:
            return Spoken(phrase.kind, text, {name: value.strip() for name, value in found.groupdict().items() if value})
    return Spoken("reply", text)


def people_see(raw: str) -> str:
    """Slack's markup as people see it: links by their words, mentions by their names, entities as characters."""
    text = re.sub(r"<([^<>\n]{1,3000})>", _entity, raw)
    for code, char in (("&lt;", "<"), ("&gt;", ">"), ("&amp;", "&")):
        text = text.replace(code, char)
    return text


_SIGNS: Mapping[str, Callable[[str], str]] = {"@": "@{}".format, "#": "#{}".format, "!": "@{}".format}


def _entity(found: re.Match[str]) -> str:
    inside, _, words = found.group(1).partition("|")
    sign = _SIGNS.get(inside[0])
    if sign:
        return sign(words.lstrip("@#") or inside[1:])
    return words or re.sub(r"^(?:mailto|tel):", "", inside)


def help_rows() -> list[tuple[str, str]]:
    """(what to say, what it means), as the help card shows it."""
    return [*((phrase.form, phrase.means) for phrase in PHRASES), ANYTHING]
