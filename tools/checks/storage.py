"""Shared file systems, each asked with a time limit of its own, as the node kit prints them: a dead file server must not take the look with it.
And the object store, where the inventory names one.

mount /data nfs4
answer /data ok
mount /home nfs4
answer /home timeout
"""

import re
from collections.abc import Sequence

from kb.scan import lines_in
from tools.checks import web
from tools.checks.row import Check, Command, Format
from tools.fact import Fact, Status

CHECK = "store"
_MOUNT = re.compile(r"mount (/\S{0,300}) ([a-z0-9._-]{1,30})\s*$")
_ANSWER = re.compile(r"answer (/\S{0,300}) (ok|timeout|stale|error)(?: (.{0,200}))?\s*$")


def is_mounts(text: str) -> bool:
    """Whether the first line is the kit's on a mount."""
    return _MOUNT.match(text.lstrip("\n").split("\n", 1)[0]) is not None


def parse_mounts(text: str) -> Sequence[Fact]:
    """One fact a mount. The last one named without an answer is the one on which the look itself got stuck."""
    kinds: dict[str, str] = {}
    answers: dict[str, tuple[str, str, str]] = {}
    for line in lines_in(text):
        if row := _MOUNT.match(line):
            kinds[row[1]] = row[2]
        elif (row := _ANSWER.match(line)) and row[1] in kinds:
            answers[row[1]] = (row[2], row[3] or "", line.strip())
    found = []
    for mount, kind in kinds.items():
        value, words, line = answers.get(mount, ("timeout", "", f"{mount}: no answer"))
        attrs = {"fstype": kind} | ({"text": words} if words else {})
        found.append(Fact(CHECK, "store.mount", value, mount, line=line[:300], attrs=attrs))
    return found


def settle(facts: Sequence[Fact]) -> Sequence[Fact]:
    """Nothing shared is mounted, or the node has no kit to ask it."""
    if not facts or any(fact.key == "store.mount" or fact.status.blind for fact in facts):
        return facts
    return [*facts, Fact(CHECK, "store.mount", status=Status.ABSENT, line="no shared file system, or no node kit to ask one safely")]


CHECKS = (
    Check(
        id="store",
        asks="Do the shared file systems and the object store answer?",
        commands=(
            Command("mounts", ("rackmedic-look", "mounts"), privileged=True, optional=True),
            web.asks("object", "object_store"),
        ),
        formats=(Format("shared mounts", is_mounts, parse_mounts), web.reads(CHECK, "store.object")),
        establishes=("store.mount", "store.object", "check.no_target"),
        seconds=5.0,
        timeout=30.0,
        settle=settle,
    ),
)
