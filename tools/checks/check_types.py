"""Check: a read-only question to a host, the commands that answer it, and their parsers."""

import re
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from kb.needle_search import split_lines
from tools.checks.fact_limits import limit_facts
from tools.checks.output_cleaning import clean_output
from tools.fact import Fact, Status, build_unobserved_fact

ParsedFact = Fact  # a fact without host and time
MIB = 1 << 20
REPLACEMENT_CHAR = "\ufffd"  # what invalid UTF-8 decodes to


class Unreadable(Exception):
    """The text claims to be this format and cannot be read. The message says what was expected and what was found."""


class BadSlot(ValueError):
    """A value that will not be put on a command line. Names the slot and the value."""


# without credentials and query
URL_PATTERN = r"https?://(?:[A-Za-z0-9.-]{1,253}|\[[0-9A-Fa-f:]{2,39}\])(?::[0-9]{1,5})?(?:/[A-Za-z0-9._~/-]{0,200})?"
# What may fill a {slot} of an argv template, matched whole. Strict, because values come from inventory and tickets.
SLOT_PATTERNS: Mapping[str, str] = {
    "gpus": r"[1-9][0-9]?",
    "job_logs": r"/[A-Za-z0-9._/-]+",
    "nccl_tests": r"/?[A-Za-z0-9._/-]+",
    "gpu_burn": r"/[A-Za-z0-9._/-]+",
    "hca": r"[a-z][a-z0-9_]{0,30}",
    "gpu": r"[0-9]{1,2}",
    "peer": r"[A-Za-z0-9](?:[A-Za-z0-9.:-]{0,251}[A-Za-z0-9])?",
    "hosts": r"[A-Za-z0-9.-]+:[1-9][0-9]?(?:,[A-Za-z0-9.-]+:[1-9][0-9]?){0,7}",
    "nodes": r"[A-Za-z0-9.-]+(?:,[A-Za-z0-9.-]+){0,7}",
    "ranks": r"[1-9][0-9]{0,2}",
    "count": r"[1-9]",
    "job": r"[A-Za-z0-9._-]{1,64}",
    "object_store": URL_PATTERN,
    "tracker": URL_PATTERN,
    "node": r"[A-Za-z0-9][A-Za-z0-9_-]{0,62}",
    "kube_node": r"[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?",
}
# Optional slots that only the inventory fills. A command with one of these runs only if the site sets it.
TARGET_SLOTS = ("object_store", "tracker")


@dataclass(frozen=True, slots=True)
class Command:
    """One exec. `argv` words may hold `{slot}`s. `name` is unique in its check (`smi.query` is check smi, name query).

    `privileged` commands go through the node kit (`sudo -n rackmedic-look CHECK.NAME`) where installed, else run
    directly.
    `stands_in_for` names a command of the check: this one runs only if that output hit its cap, and prints `only` what
    matters, newest first. `silence`: the meaning of empty output after success, "" if that is not an answer.
    """

    name: str
    argv: tuple[str, ...]
    privileged: bool = False
    optional: bool = False
    stands_in_for: str = ""
    only: str = ""
    silence: str = ""
    # the only scheduler it applies to; `kubernetes` runs on the group's controller (kubectl), not on the host
    scheduler: Literal["", "slurm", "kubernetes"] = ""

    def find_missing_target(self, slots: Mapping[str, str]) -> str:
        """Return the target slot that the site has not set, or ""."""
        return next((name for name in TARGET_SLOTS if f"{{{name}}}" in self.argv and not slots.get(name)), "")

    def fill_argv(self, slots: Mapping[str, str]) -> tuple[str, ...]:
        """Return argv with slots filled. Raise BadSlot for a missing value or one that does not match SLOT_PATTERNS."""
        return tuple(_fill_word(word, slots) for word in self.argv)


def _fill_word(word: str, slots: Mapping[str, str]) -> str:
    def value(match: re.Match[str]) -> str:
        name = match.group(1)
        slot_value = slots.get(name, "")
        if not re.fullmatch(SLOT_PATTERNS[name], slot_value) or ".." in slot_value:
            raise BadSlot(f"{name}={slot_value!r}")
        return slot_value

    return re.sub(r"{([a-z_]+)}", value, word)


@dataclass(frozen=True, slots=True)
class Format:
    """`sniff` recognises the format cheaply; `parse` is pure and may raise Unreadable.

    `parse` gets stdout followed by stderr, because tools print errors on either.
    """

    name: str
    sniff: Callable[[str], bool]
    parse: Callable[[str], Sequence[ParsedFact]]


@dataclass(frozen=True, slots=True)
class CheckParticipant:
    """A host in a joint check. `leaf`: its switch or ''. `expects`: its SKU's values."""

    host: str
    address: str
    gpus: int
    leaf: str = ""
    launcher: str = "mpi"
    controller: str = ""
    hcas: tuple[str, ...] = ()
    expects: Callable[[str], object] = lambda key: None


@dataclass(frozen=True, slots=True)
class CommandFacts:
    """One command of a joint check on one host, parsed."""

    facts: tuple[Fact, ...]
    seconds: float = 0.0
    missing: bool = False  # the tool is not installed


# Run the named command on a host with these slots. A failure is an unobserved fact.
RunNamedCommand = Callable[[str, str, Mapping[str, str]], Coroutine[Any, Any, CommandFacts]]
JointRunner = Callable[[Sequence[CheckParticipant], RunNamedCommand], Awaitable["JointResult"]]


@dataclass(frozen=True, slots=True)
class JointResult:
    """A joint check's facts per host, and its duration in seconds."""

    facts: Mapping[str, Sequence[Fact]]
    seconds: float = 0.0
    missing: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Check:
    """A catalogue row. `seconds`: nominal cost for planning; `timeout`: each command's remote limit in seconds.

    `establishes`: keys that it can set (tested against the parsers). `settle` merges the facts of one host: removes
    duplicates, marks stale ones.
    """

    id: str
    asks: str
    commands: tuple[Command, ...]
    formats: tuple[Format, ...]
    establishes: tuple[str, ...]
    seconds: float
    scope: Literal["host", "pair", "group"] = "host"
    exclusive: bool = False
    timeout: float = 20.0
    cap: int = 4 * MIB
    tool: str = ""  # what must be installed and how to get it, one sentence
    # runs a check of scope pair or group: chooses hosts and commands, joins the answers
    together: "JointRunner | None" = None
    settle: Callable[[Sequence[Fact]], Sequence[Fact]] | None = None
    # exit statuses after which output is parsed; None if the formats recognise errors
    statuses: frozenset[int] | None = None
    partial: bool = False  # truncated output may be parsed: the formats notice missing parts, or it is a log
    # key reported absent if none of its programs is installed (no docker, no containers). Without this, missing
    # programs mean that the check could not look.
    without: str = ""
    # on invalid UTF-8: refuse all (a count cannot be trusted), tell (a log, without the bad facts) or ignore (tenant
    # text)
    damage: Literal["refuse", "tell", "ignore"] = "refuse"

    @property
    def asked(self) -> tuple[Command, ...]:
        """Commands that always run."""
        return tuple(command for command in self.commands if not command.stands_in_for)

    def find_stand_in(self, command: Command) -> Command | None:
        """Return the command to run if this one's output was cut."""
        return next((other for other in self.commands if other.stands_in_for == command.name), None)

    def parse_output(self, text: str) -> tuple[ParsedFact, ...]:
        """Return the facts of one command's output. Never raises: bad text becomes one `unreadable` fact."""
        text = clean_output(text)
        facts = self._parse_by_formats(text)
        if REPLACEMENT_CHAR not in text or self.damage == "ignore":
            return facts
        unobserved_fact = build_unobserved_fact(
            self.id, Status.UNREADABLE, "it holds bytes that are no UTF-8, so what was read of it may lack something"
        )
        intact_facts = (fact for fact in facts if REPLACEMENT_CHAR not in f"{fact.device} {fact.value}")
        return (*intact_facts, unobserved_fact) if self.damage == "tell" else (unobserved_fact,)

    def _parse_by_formats(self, text: str) -> tuple[ParsedFact, ...]:
        for shape in self.formats:
            if shape.sniff(text):
                try:
                    return limit_facts(self.id, shape.parse(text))
                except Unreadable as error:
                    return (build_unobserved_fact(self.id, Status.UNREADABLE, f"{shape.name}: {error}"),)
                except (ValueError, ArithmeticError) as error:  # a number that no machine has
                    return (build_unobserved_fact(self.id, Status.UNREADABLE, f"{shape.name}: {' '.join(str(error).split())[:120]}"),)
        return (build_unobserved_fact(self.id, Status.UNREADABLE, _describe_foreign_output(self.id, text)),)


def _describe_foreign_output(check: str, text: str) -> str:
    first = next((line.strip() for line in split_lines(text) if line.strip()), "")
    return f"not the output of {check}: {first[:120]!r}" if first else f"empty output of {check}"
