"""Slack's markup as people see it, without our own name where it only calls us; and what the help card offers of all that can be said."""

import re
from collections.abc import Callable, Mapping
from typing import Final

from graph.dialogue.intents import INTENTS, Intent

HELP_INTENTS: Final = (
    Intent.STATUS,
    Intent.HOST_STATE,
    Intent.EXPLAIN,
    Intent.SHOW_OUTPUT,
    Intent.SUMMARY,
    Intent.RECHECK,
    Intent.NARROW,
    Intent.WISH_REMEDY,
    Intent.TAKE,
    Intent.HAND_OFF,
    Intent.STOP,
    Intent.HELP,
    Intent.NEW_FACTS,
)
"""The most useful; there is more than anybody reads through."""


def list_help_rows() -> list[tuple[str, str]]:
    """(what to say, what it means), as the help card shows it."""
    return [(INTENTS[intent].form, INTENTS[intent].means) for intent in HELP_INTENTS]


MAX_MENTION_CHARS = 128
"""Characters of a mention, with the name that Slack may write into it."""


def strip_bot_mention(raw: str, us: str) -> str:
    """A message as Slack sends it, without the mentions of us at either end. Every character is looked at a few times, however many blanks or
    mentions there are."""
    text = raw.strip()
    if not us:
        return text
    name = re.compile(rf"<@{re.escape(us)}(?:\|[^<>\n]{{0,80}})?>")
    text = re.sub(rf"\A(?:{name.pattern}[\s,:]*+)++", "", text)
    end = len(text)
    while (at := text.rfind("<@", max(0, end - MAX_MENTION_CHARS), end)) >= 0 and name.fullmatch(text, at, end):
        end = at
        while end and (text[end - 1].isspace() or text[end - 1] == ","):
            end -= 1
    return text[:end].strip()


def render_plain_text(raw: str) -> str:
    """Slack's markup as people see it: links by their words, mentions by their names, entities as characters."""
    text = re.sub(r"<([^<>\n]{1,3000})>", _format_entity, raw)
    for code, char in (("&lt;", "<"), ("&gt;", ">"), ("&amp;", "&")):
        text = text.replace(code, char)
    return text


_MENTION_FORMATS: Mapping[str, Callable[[str], str]] = {"@": "@{}".format, "#": "#{}".format, "!": "@{}".format}


def _format_entity(found: re.Match[str]) -> str:
    inside, _, words = found.group(1).partition("|")
    sign = _MENTION_FORMATS.get(inside[0])
    if inside.startswith("!date"):
        return words
    if sign:
        return sign(words.lstrip("@#") or inside[1:])
    return words or re.sub(r"^(?:mailto|tel):", "", inside)
