"""Convert Slack's markup, strip mentions of the bot, list help rows."""

import re
from collections.abc import Callable, Mapping
from typing import Final

from graph.dialogue.intents import INTENTS, Intent, describe_intent

# The most useful ones; the full list is too long to read.
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


def list_help_rows() -> list[tuple[str, str]]:
    """Return (what to say, what it means) rows."""
    return [(INTENTS[intent].form, describe_intent(intent)) for intent in HELP_INTENTS]


MAX_MENTION_CHARS = 128  # of one mention, with the name that Slack may add


def strip_bot_mention(raw: str, us: str) -> str:
    """Strip mentions of us at either end, in linear time."""
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
    """Return the text as people see it."""
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
