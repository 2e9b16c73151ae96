"""What would reach a host where strangers' words are put wherever a command has room for any: each line that sshd would get, taken apart again."""

import re
import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.properties.incident_site import INVENTORY
from tests.support.fakes_nodekit import Node, digest
from tools.checks import CHECKS
from tools.checks.check import SLOT_PATTERNS, BadSlot, Command
from tools.fleet.commands import CommandRunner
from tools.nodekit.generate import LOOK_COMMAND
from tools.ssh.batch import BATCH_SCRIPT, BatchCommand, build_batch_command
from tools.ssh.client import SET_PATH_SCRIPT, build_remote_command
from tools.transport import CommandResult, Transport

PLAIN = r"[A-Za-z0-9._:/,-]*"
"""All that a word of a stranger may add to a command, whatever it is for."""
FROM_INVENTORY = ("object_store", "tracker", "job_logs", "nccl_tests", "gpu_burn", "node")
BUS = "0000:9b:00.0"
NO_QUESTION = 64

Argv = tuple[str, ...]


@dataclass
class Wire:
    """A transport that only writes down what it is given."""

    argvs: list[Argv] = field(default_factory=list)

    async def run(self, host: str, argv: Sequence[str], *, timeout: float, cap: int) -> CommandResult:
        self.argvs.append(tuple(argv))
        return CommandResult(b"")

    async def aclose(self) -> None:
        return None


async def reaching(words: Iterable[str]) -> set[tuple[str, Argv]]:
    """Every command of the catalogue, put to a host whose every setting and every slot are these words: what got through, and of which check."""
    found = set[tuple[str, Argv]]()
    for word in words:
        wire = Wire()
        way: Transport = wire
        commands = CommandRunner(way, way, {})
        host = INVENTORY.hosts["n1"].model_copy(update=dict.fromkeys(FROM_INVENTORY, word))
        for check in CHECKS.values():
            for command in check.commands:
                try:
                    await commands.run(host, check, command, dict.fromkeys(SLOT_PATTERNS, word))
                except BadSlot:
                    continue
            found |= {(check.id, argv) for argv in wire.argvs}
            wire.argvs.clear()
    return found


def strays(reached: Iterable[tuple[str, Argv]]) -> Iterator[str]:
    """What is none of the catalogue's commands, or is more than one of them by the time that a shell has read it."""
    for check, argv in reached:
        if not any(_is(command, f"{check}.{command.name}", argv) for command in CHECKS[check].commands):
            yield f"{check}: {argv!r} is no command of the catalogue"
        elif wrong := _misread(argv):
            yield f"{check}: {argv!r} is {wrong!r} to a shell"


def _is(command: Command, name: str, argv: Argv) -> bool:
    """Whether these are its words, with nothing but plain ones in its slots."""
    return argv == (*LOOK_COMMAND, name) or (
        len(argv) == len(command.argv) and all(map(_fits, command.argv, argv)) and not any("/../" in f"/{word}/" for word in argv)
    )


def _fits(row: str, word: str) -> bool:
    parts = re.split(r"{[a-z_]+}", row)
    return re.fullmatch(PLAIN.join(map(re.escape, parts)), word) is not None


def _misread(argv: Argv) -> tuple[str, ...]:
    """As the shell of the account, and the script of several, take the words; empty where they are these."""
    alone = ("timeout", "-k", "2", "9", "sh", "-c", SET_PATH_SCRIPT, "sh", *argv)
    if (read := _words(build_remote_command(argv, 9))) != alone:
        return read
    look = BatchCommand(argv, 9, 99)
    shared = _words(build_batch_command([look, look]))
    both = [_words(word) for word in shared[4:]]
    return () if (shared[:4], both) == (("sh", "-c", BATCH_SCRIPT, "sh"), [("100", "9", *argv)] * 2) else shared


def _words(line: str) -> tuple[str, ...]:
    """A line as a shell splits it; what ends a command, or starts another, is a word of its own."""
    found = shlex.shlex(line, posix=True, punctuation_chars=True)
    found.whitespace_split, found.commenters = True, ""
    try:
        return tuple(found)
    except ValueError as why:
        return (f"{line} ({why})",)


def admitted_by_the_kit(folder: Path, words: Iterable[str]) -> list[str]:
    """Which of these the scripts that run as root take for an argument, or for a question."""
    node = Node(folder)
    taken = [
        word
        for n, word in enumerate(words)
        if node.start(digest(n), "gpu_reset", f"{BUS}{word}").word != "refused" or node.look(f"smi.query{word}").status != NO_QUESTION
    ]
    return taken + node.calls
