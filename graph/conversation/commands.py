"""The post-incident report by its name, `hosts …` and `recheck …` with names of groups, which no other words of a language look like, and
`narrow it down to …`. Pure."""

import re

from graph.conversation.customers import plainly
from graph.conversation.intents import Intent
from graph.conversation.rules.page import wants_report
from graph.conversation.said import Said, Vocabulary
from graph.reading.groups import almost, group_called, hosts_named

LONGEST = 400
_COMMAND = re.compile(
    r"(?:please )?(?:(?P<narrow>hosts?|(?P<down>nar{1,3}ow (?:(?:it|this|that) )?down to)) ?[:=]?|re-?check|(?:look|check) again) "
    r"(?:(?:on|at) )?(?P<names>\S.*?)(?: please)?[ .!]*",
    re.IGNORECASE,
)


def commanded(text: str, names: Vocabulary) -> Said | None:
    """The command, where it asks for the report, or names a group or almost one; None leaves the text to be read as any other."""
    if len(text) <= LONGEST and wants_report(plainly(text)):
        return Said(intent=Intent.REPORT, text=text)
    found = _COMMAND.fullmatch(" ".join(text[:LONGEST].split()))
    if found is None:
        return None
    words = [word.strip("`'\"*,") for word in found["names"].split()]
    named = hosts_named(found["names"], names.hosts, names.groups, names.domains, strict=bool(found["narrow"]))
    groups = any(word.startswith("@") or group_called(word, names.groups) or almost(word, names.groups) for word in words)
    if not (groups or (found["down"] and named.hosts)):  # “down” would else be read as a complaint
        return None
    group = next((group for word in words if (group := group_called(word.removeprefix("@"), names.groups))), "")
    intent = Intent.NARROW if found["narrow"] else Intent.RECHECK
    return Said(intent=intent, text=text, hosts=named.hosts, unknown_hosts=named.unknown, group=group)
