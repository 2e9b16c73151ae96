"""Find the node kit's detached processes by session id, to identify a stub's caller and to end them when a machine
loses power.
"""

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
class KitProcess:
    """A detached command of the kit. `session` is unique and never reused."""

    session: str
    digest: str
    remedy: str


def find_kit_process(pid: int) -> KitProcess | None:
    """Return the detached command of a process; None if it belongs to a script that still talks to its caller."""
    try:
        leader = os.getsid(pid)
        words = (PROC / str(leader) / "cmdline").read_bytes().decode("utf-8", "replace").split("\0")
        start_ticks = (PROC / str(leader) / "stat").read_text().rpartition(")")[2].split()[19]
    except OSError:
        return None
    for i, word in enumerate(words):
        match = re.fullmatch(r".*/actions/([0-9a-f]{64})", word)
        if match:
            return KitProcess(f"{leader}/{start_ticks}", match[1], _find_remedy_id(words[i + 2 :]))
    return None


def kill_sessions(folder: Path) -> None:
    """Kill every session whose leader runs something from this folder, as a power loss would."""
    kit_sessions: set[int] = set()
    processes: list[tuple[int, int]] = []
    for entry in PROC.glob("[0-9]*"):
        try:
            pid, session = int(entry.name), int((entry / "stat").read_text().rpartition(")")[2].split()[3])
            processes.append((pid, session))
            if pid == session and f"{folder}/".encode() in (entry / "cmdline").read_bytes():
                kit_sessions.add(session)
        except OSError:
            continue  # it ended meanwhile
    for pid, session in processes:
        if session in kit_sessions:
            _kill_process(pid)


def _kill_process(pid: int) -> None:
    try:
        os.kill(pid, SIGKILL)
    except ProcessLookupError:
        return


def _find_remedy_id(command: list[str]) -> str:
    """Return the id of the remedy with this command, or the command itself if there is none."""
    for remedy in (*REMEDIES.values(), *REMEDY_VARIANTS.values()):
        patterns = [re.sub(r"\\{([a-z_]+)\\}", partial(_get_slot_pattern, remedy), re.escape(word)) for word in remedy.command]
        if _match_words(patterns, [word for word in command if word]):
            return remedy.id
    return " ".join(command)


def _match_words(patterns: list[str], words: list[str]) -> bool:
    if len(patterns) != len(words):
        return False
    return all(re.fullmatch(pattern, word, re.DOTALL) for pattern, word in zip(patterns, words, strict=True))


def _get_slot_pattern(remedy: Remedy, slot: re.Match[str]) -> str:
    """Return the pattern of a slot; two remedies may allow different services in it."""
    return f"(?:{ARGUMENT_KINDS[remedy.args[slot[1]]].pattern})"
