"""Commands that would reach a host when hostile words fill every slot and setting: each command line is parsed again as
sshd's shell would.
"""

import re
import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.properties.incident_site import INVENTORY
from tests.support.fakes_nodekit import Node, digest
from tools.checks import CHECKS
from tools.checks.check_types import SLOT_PATTERNS, BadSlot, Command
from tools.fleet.check_runner import CommandRunner
from tools.nodekit.generate import LOOK_COMMAND
from tools.ssh.batch import BATCH_SCRIPT, BatchCommand, build_batch_command
from tools.ssh.client import SET_PATH_SCRIPT, build_remote_command
from tools.transport import CommandResult, Transport

PLAIN = r"[A-Za-z0-9._:/,-]*"  # all that a hostile word may contribute to a command
FROM_INVENTORY = ("object_store", "tracker", "job_logs", "nccl_tests", "gpu_burn", "node")
BUS = "0000:9b:00.0"
NO_QUESTION = 64

Argv = tuple[str, ...]


@dataclass
class Wire:
    """A transport that only records."""

    argvs: list[Argv] = field(default_factory=list)

    async def run(self, host: str, argv: Sequence[str], *, timeout: float, cap: int) -> CommandResult:
        self.argvs.append(tuple(argv))
        return CommandResult(b"")

    async def aclose(self) -> None:
        return None


async def reaching(words: Iterable[str]) -> set[tuple[str, Argv]]:
    """Return (check, argv) of every catalogue command that passes with these words in every setting and slot."""
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
    """Yield argvs that are no catalogue command, or more than one command to a shell."""
    for check, argv in reached:
        if not any(_is(command, f"{check}.{command.name}", argv) for command in CHECKS[check].commands):
            yield f"{check}: {argv!r} is no command of the catalogue"
        elif wrong := _misread(argv):
            yield f"{check}: {argv!r} is {wrong!r} to a shell"


def _is(command: Command, name: str, argv: Argv) -> bool:
    """Return whether argv is the command with only plain words in its slots."""
    return argv == (*LOOK_COMMAND, name) or (
        len(argv) == len(command.argv) and all(map(_fits, command.argv, argv)) and not any("/../" in f"/{word}/" for word in argv)
    )


def _fits(row: str, word: str) -> bool:
    parts = re.split(r"{[a-z_]+}", row)
    return re.fullmatch(PLAIN.join(map(re.escape, parts)), word) is not None


def _misread(argv: Argv) -> tuple[str, ...]:
    """Return how the account's shell or the batch script misreads the words, or ()."""
    alone = ("timeout", "-k", "2", "9", "sh", "-c", SET_PATH_SCRIPT, "sh", *argv)
    if (read := _words(build_remote_command(argv, 9))) != alone:
        return read
    look = BatchCommand(argv, 9, 99)
    shared = _words(build_batch_command([look, look]))
    both = [_words(word) for word in shared[4:]]
    return () if (shared[:4], both) == (("sh", "-c", BATCH_SCRIPT, "sh"), [("100", "9", *argv)] * 2) else shared


def _words(line: str) -> tuple[str, ...]:
    """Split a line as a shell does; command separators are words of their own."""
    found = shlex.shlex(line, posix=True, punctuation_chars=True)
    found.whitespace_split, found.commenters = True, ""
    try:
        return tuple(found)
    except ValueError as error:
        return (f"{line} ({error})",)


def admitted_by_the_kit(folder: Path, words: Iterable[str]) -> list[str]:
    """Return the words that the root scripts accept as an argument or check."""
    node = Node(folder)
    taken = [
        word
        for n, word in enumerate(words)
        if node.start(digest(n), "gpu_reset", f"{BUS}{word}").word != "refused" or node.look(f"smi.query{word}").status != NO_QUESTION
    ]
    return taken + node.calls
