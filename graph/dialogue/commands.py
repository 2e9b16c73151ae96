"""Parse fixed commands: guide requests, `hosts …`, `recheck …` with groups, and `narrow it down to …`. Pure."""

import re
from collections.abc import Mapping, Sequence

from graph.dialogue.clauses import Clause, skip_leading_words
from graph.dialogue.intents import Intent
from graph.dialogue.said import ParsedMessage, Vocabulary
from graph.extraction.command_hosts import find_group, is_near_group_name, resolve_hosts_and_groups
from kb.guides.guide import slugify_guide_name

LONGEST = 400
_COMMAND = re.compile(
    r"(?:please )?(?:(?P<narrow>hosts?|(?P<down>nar{1,3}ow (?:(?:it|this|that) )?down to)) ?[:=]?|re-?check|(?:look|check) again) "
    r"(?:(?:on|at) )?(?P<names>\S.*?)(?: please)?[ .!]*",
    re.IGNORECASE,
)

_GUIDE = re.compile(
    r"(?:please )?(?:run|start|follow|try) (?:the )?(?:guide (?P<name>[\w -]{1,48}?)|(?P<called>[\w -]{1,48}?) guide)"
    r"(?: (?:on|for) (?P<names>\S.*?))?(?: please)?[ .!]*",
    re.IGNORECASE,
)


def parse_guide_request(text: str) -> tuple[str, str] | None:
    """Return guide and host names if the text requests a guide and nothing else."""
    found = _GUIDE.fullmatch(" ".join(text[:LONGEST].split())) if len(text) <= LONGEST else None
    return (found["name"] or found["called"], found["names"] or "") if found else None


def parse_command(text: str, names: Vocabulary) -> ParsedMessage | None:
    """Return a guide request, or a command naming a group or nearly one; else None."""
    if (guide := parse_guide_request(text)) is not None:
        hosts = resolve_hosts_and_groups(guide[1], names.hosts, names.groups, names.domains, strict=False)
        return ParsedMessage(
            intent=Intent.RUN_GUIDE, text=text, guide=slugify_guide_name(guide[0]), hosts=hosts.hosts, unknown_hosts=hosts.unknown
        )
    found = _COMMAND.fullmatch(" ".join(text[:LONGEST].split()))
    if found is None:
        return None
    words = [word.strip("`'\"*,") for word in found["names"].split()]
    named = resolve_hosts_and_groups(found["names"], names.hosts, names.groups, names.domains, strict=bool(found["narrow"]))
    groups = any(word.startswith("@") or find_group(word, names.groups) or is_near_group_name(word, names.groups) for word in words)
    if not (groups or (found["down"] and named.hosts)):  # otherwise “down” reads as a complaint
        return None
    group = next((group for word in words if (group := find_group(word.removeprefix("@"), names.groups))), "")
    intent = Intent.NARROW if found["narrow"] else Intent.RECHECK
    return ParsedMessage(intent=intent, text=text, hosts=named.hosts, unknown_hosts=named.unknown, group=group)


def _each(words: str) -> frozenset[str]:
    return frozenset(words.split())


# Every part is one of these words, and at least one is a stop: “could you please stop now”.
_STOPS = frozenset({"stop", "halt", "abort", "quit", "cease", "stopp", "stoppen"})
_BESIDE_STOP = _each(
    "please pls just ok okay now right can could would will you kindly so be kind and want i we need to must should may it this that all already "
    "everything at once immediately here there time let us hey rackmedic bot enough wait no thanks bitte jetzt sofort"
)


def is_stop_command(words: Sequence[str]) -> bool:
    """Return whether a sentence is “stop” in a polite form and nothing else."""
    return not _STOPS.isdisjoint(words) and _STOPS.union(_BESIDE_STOP).issuperset(words)


# Whole messages, apart from a greeting and a “please”.
_EXACT_COMMANDS: Mapping[str, Intent] = {
    "status": Intent.STATUS, "help": Intent.HELP, "summary": Intent.SUMMARY, "why": Intent.EXPLAIN, "who may approve": Intent.WHO_MAY_APPROVE,
    "who is on it": Intent.WHO_IS_ON_IT, "i take it": Intent.TAKE, "hand off": Intent.HAND_OFF, "hand it off": Intent.HAND_OFF,
    "recheck": Intent.RECHECK, "recheck it": Intent.RECHECK, "undo": Intent.UNDO, "undo it": Intent.UNDO, "undo that": Intent.UNDO,
    "it works again": Intent.FIXED, "still broken": Intent.STILL_BROKEN, "close": Intent.CLOSE, "close it": Intent.CLOSE, "reopen": Intent.REOPEN,
    "reopen it": Intent.REOPEN,
}  # fmt: skip
_AFTER_REMEDY = _each("the this that node nodes host hosts machine machines server servers gpu gpus on of now please pls")
_BEFORE_REASON = _each("please pls bitte now it its all because since as first too again for so asap then and today immediately")


def find_exact_command(clause: Clause) -> Intent | None:
    """Return the intent of a message that is one of the fixed commands."""
    if clause.marked or clause.quotes:
        return None
    return _EXACT_COMMANDS.get(" ".join(word for word in skip_leading_words(clause.words) if word not in ("please", "pls")))


def is_remedy_command(clause: Clause) -> bool:
    """Return whether it is a remedy, hosts, and at most a reason: “drain gpu-003, it does not answer”."""
    words, used = clause.words, clause.named.used
    at = len(words) - len(skip_leading_words(words))
    if at not in used.get("remedy", ()) or clause.named.left_out or clause.named.remedy == "resume_node":
        return False
    while at < len(words) and (at in used["remedy"] or words[at] in _AFTER_REMEDY):
        at += 1
    machines = {*used.get("host", ()), *used.get("group", ())}
    first = at
    while at < len(words) and (at in machines or (words[at] == "and" and at + 1 in machines)):
        at += 1
    return at > first and (at == len(words) or words[at] in _BEFORE_REASON)


_GUIDE_WORDS = _each(
    "guide runbook playbook checklist procedure recipe instructions steps troubleshooter anleitung leitfaden guia procedimiento"
)
_NO_GUIDE_NAMES = _each("a an by for in me on please that the this through to troubleshooting us with your")


def find_guide_name(clauses: Sequence[Clause]) -> str:
    """Return a name like `gpu_lost`, else the name beside the word `guide`, else an empty text."""
    if compound := next((name for clause in clauses for name in clause.compounds), ""):
        return slugify_guide_name(compound)
    for clause in clauses:
        at = next((at for at, word in enumerate(clause.words) if word in _GUIDE_WORDS), None)
        if at is not None:
            near = [*clause.words[at + 1 : at + 2], *clause.words[max(0, at - 1) : at]]
            return next((slugify_guide_name(word) for word in near if word not in _NO_GUIDE_NAMES), "")
    return ""
