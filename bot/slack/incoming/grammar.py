"""Slack's markup as people see it, without our own name where it only calls us; and what the help card offers of all that can be said."""

import re
from collections.abc import Callable, Mapping
from typing import Final

from graph.conversation.intents import INTENTS, Intent

OFFERED: Final = (
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


def help_rows() -> list[tuple[str, str]]:
    """(what to say, what it means), as the help card shows it."""
    return [(INTENTS[intent].form, INTENTS[intent].means) for intent in OFFERED]


def without_us(raw: str, us: str) -> str:
    """A message as Slack sends it, without the mentions of us at either end."""
    name = rf"<@{re.escape(us)}(?:\|[^<>\n]{{0,80}})?>"
    return re.sub(rf"\A(?:\s*{name}[\s,:]*)+|(?:[\s,]*{name})+\s*\Z", "", raw).strip() if us else raw.strip()


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
    if inside.startswith("!date"):
        return words
    if sign:
        return sign(words.lstrip("@#") or inside[1:])
    return words or re.sub(r"^(?:mailto|tel):", "", inside)
