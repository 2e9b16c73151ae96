"""Processes that the node kit left running, found by the kernel's session ids: who called a stub, and what ends when a machine loses power."""

import os
import re
import signal
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tools.remedies import REMEDIES, REMEDY_VARIANTS
from tools.remedies.remedy import ARGUMENT_KINDS, Remedy

PROC = Path("/proc")
SIGKILL = signal.SIGKILL


@dataclass(frozen=True, slots=True)
class Runner:
    """A detached command of the kit. `session` is its own and never comes again."""

    session: str
    digest: str
    remedy: str


def runner_of(pid: int) -> Runner | None:
    """The detached command that a process belongs to; None where it belongs to a script that is still talking to its caller."""
    try:
        leader = os.getsid(pid)
        words = (PROC / str(leader) / "cmdline").read_bytes().decode("utf-8", "replace").split("\0")
        began = (PROC / str(leader) / "stat").read_text().rpartition(")")[2].split()[19]
    except OSError:
        return None
    for i, word in enumerate(words):
        if found := re.fullmatch(r".*/actions/([0-9a-f]{64})", word):
            return Runner(f"{leader}/{began}", found[1], _remedy(words[i + 2 :]))
    return None


def end_sessions(folder: Path) -> None:
    """Kill every session whose leader runs something of this folder: a machine that stops takes them all with it."""
    ours: set[int] = set()
    members: list[tuple[int, int]] = []
    for entry in PROC.glob("[0-9]*"):
        try:
            pid, session = int(entry.name), int((entry / "stat").read_text().rpartition(")")[2].split()[3])
            members.append((pid, session))
            if pid == session and f"{folder}/".encode() in (entry / "cmdline").read_bytes():
                ours.add(session)
        except OSError:
            continue  # it ended while we looked
    for pid, session in members:
        if session in ours:
            _kill(pid)


def _kill(pid: int) -> None:
    try:
        os.kill(pid, SIGKILL)
    except ProcessLookupError:
        return


def _remedy(command: list[str]) -> str:
    """The remedy whose command this is; the command itself where it is none's."""
    for remedy in (*REMEDIES.values(), *REMEDY_VARIANTS.values()):
        shape = [re.sub(r"\\{([a-z_]+)\\}", partial(_admitted, remedy), re.escape(word)) for word in remedy.command]
        given = [word for word in command if word]
        if len(shape) == len(given) and all(re.fullmatch(pattern, word, re.DOTALL) for pattern, word in zip(shape, given, strict=True)):
            return remedy.id
    return " ".join(command)


def _admitted(remedy: Remedy, slot: re.Match[str]) -> str:
    """What may stand in a slot: a service that one remedy may restart is not the one that another restarts."""
    return f"(?:{ARGUMENT_KINDS[remedy.args[slot[1]]].pattern})"
