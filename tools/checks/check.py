"""A check is one row: a read-only question to a host, the commands that answer it, and the parsers that read the answers."""

import re
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from kb.scan import split_lines
from tools.checks.clean_output import clean_output
from tools.checks.fact_limits import limit_facts
from tools.fact import Fact, Status, build_unobserved_fact

ParsedFact = Fact
"""A fact before it knows its host and time."""

MIB = 1 << 20
REPLACEMENT_CHAR = "\ufffd"
"""What a byte that is no UTF-8 becomes."""


class Unreadable(Exception):
    """The text claims to be this format and cannot be read. The message says what was expected and what was found."""


class BadSlot(ValueError):
    """A value that will not be put on a command line. Names the slot and the value."""


URL_PATTERN = r"https?://(?:[A-Za-z0-9.-]{1,253}|\[[0-9A-Fa-f:]{2,39}\])(?::[0-9]{1,5})?(?:/[A-Za-z0-9._~/-]{0,200})?"
"""A plain address: no name and password, no query."""

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
"""What may fill a {slot} of an argv template, matched whole. Values come from inventory and tickets, so nothing looser."""

TARGET_SLOTS = ("object_store", "tracker")
"""Slots that only the inventory fills, and may leave empty: a command with one of these is not run until the site sets it."""


@dataclass(frozen=True, slots=True)
class Command:
    """One exec. `argv` words may hold `{slot}`s. `name` is unique inside its check (`smi.query` is check smi, name query).

    `privileged` commands go through the node kit (`sudo -n rackmedic-look CHECK.NAME`) on hosts that have it, plainly elsewhere.
    `stands_in_for` names a command of the same check whose output may be longer than its cap: this one is asked only where that was cut,
    and prints of the same thing `only` what matters, newest first. `silence`: what it is read to say where it ends well and prints
    nothing; "" where that is no answer."""

    name: str
    argv: tuple[str, ...]
    privileged: bool = False
    optional: bool = False
    stands_in_for: str = ""
    only: str = ""
    silence: str = ""
    scheduler: Literal["", "slurm", "kubernetes"] = ""
    """The one scheduler that it asks; of Kubernetes the group's controller is asked, where kubectl is, and not the host."""

    def find_missing_target(self, slots: Mapping[str, str]) -> str:
        """The target it lacks, "" when it can be asked."""
        return next((name for name in TARGET_SLOTS if f"{{{name}}}" in self.argv and not slots.get(name)), "")

    def fill_argv(self, slots: Mapping[str, str]) -> tuple[str, ...]:
        """The argv with its slots filled; BadSlot when one is missing or does not match SLOTS."""
        return tuple(_fill_word(word, slots) for word in self.argv)


def _fill_word(word: str, slots: Mapping[str, str]) -> str:
    def value(match: re.Match[str]) -> str:
        name = match.group(1)
        given = slots.get(name, "")
        if not re.fullmatch(SLOT_PATTERNS[name], given) or ".." in given:
            raise BadSlot(f"{name}={given!r}")
        return given

    return re.sub(r"{([a-z_]+)}", value, word)


@dataclass(frozen=True, slots=True)
class Format:
    """One shape of text a check can read. `sniff` says whether the text is of this shape, cheaply; `parse` may raise Unreadable.

    `parse` is pure and gets stdout followed by stderr (tools print their errors on either).
    """

    name: str
    sniff: Callable[[str], bool]
    parse: Callable[[str], Sequence[ParsedFact]]


@dataclass(frozen=True, slots=True)
class CheckParticipant:
    """A host that takes part in a check of several. `leaf`: the switch it hangs on, '' when unknown. `expects`: its SKU's values."""

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
    """What one command of such a check printed on one host, read by the check's own formats."""

    facts: tuple[Fact, ...]
    seconds: float = 0.0
    missing: bool = False
    """Its tool is not installed there."""


RunNamedCommand = Callable[[str, str, Mapping[str, str]], Coroutine[Any, Any, CommandFacts]]
"""Run the command of that name on a host with these slots. Trouble is a blind fact."""

JointRunner = Callable[[Sequence[CheckParticipant], RunNamedCommand], Awaitable["JointResult"]]


@dataclass(frozen=True, slots=True)
class JointResult:
    """What a check of several hosts found of each, and how long it took from the first command to the last."""

    facts: Mapping[str, Sequence[Fact]]
    seconds: float = 0.0
    missing: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Check:
    """A row of the catalogue. `seconds` is the nominal cost used for planning; `timeout` the remote limit of each command.

    `establishes`: the fact keys it can set (a test compares them with what its parsers emit).
    `settle` joins what the check's commands said of one host (each is parsed alone): doubles merged, the past marked stale.
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
    tool: str = ""
    """What must be installed for it and how to get it, in one sentence."""
    together: "JointRunner | None" = None
    """Runs the commands of a check of scope pair or group: which of them where, and what the answers mean together."""
    settle: Callable[[Sequence[Fact]], Sequence[Fact]] | None = None
    statuses: frozenset[int] | None = None
    """Exit statuses after which the output may be read; None where the formats tell an error from an answer themselves."""
    partial: bool = False
    """What was printed before it broke off may be read: its formats notice what is missing, or it is a log."""
    without: str = ""
    """The key that is absent where not one of its programs is installed, for a check whose subject comes with them: no docker, no containers.
    Any other check could not look then."""
    damage: Literal["refuse", "tell", "ignore"] = "refuse"
    """What bytes that are no UTF-8 do: a count cannot be trusted beside them, a log can but for the line, what tenants write may hold any."""

    @property
    def asked(self) -> tuple[Command, ...]:
        """The commands that are asked of themselves."""
        return tuple(command for command in self.commands if not command.stands_in_for)

    def find_stand_in(self, command: Command) -> Command | None:
        """What is asked in the place of a command whose output was cut; None where there is nothing of the kind."""
        return next((other for other in self.commands if other.stands_in_for == command.name), None)

    def parse_output(self, text: str) -> tuple[ParsedFact, ...]:
        """Facts of one command's output, whichever of the check's commands printed it.

        Never raises: a text of no known shape, or of a known shape but broken, is one `unreadable` fact with the reason.
        """
        text = clean_output(text)
        facts = self._parse_by_formats(text)
        if REPLACEMENT_CHAR not in text or self.damage == "ignore":
            return facts
        why = build_unobserved_fact(
            self.id, Status.UNREADABLE, "it holds bytes that are no UTF-8, so what was read of it may lack something"
        )
        whole = (fact for fact in facts if REPLACEMENT_CHAR not in f"{fact.device} {fact.value}")
        return (*whole, why) if self.damage == "tell" else (why,)

    def _parse_by_formats(self, text: str) -> tuple[ParsedFact, ...]:
        for shape in self.formats:
            if shape.sniff(text):
                try:
                    return limit_facts(self.id, shape.parse(text))
                except Unreadable as why:
                    return (build_unobserved_fact(self.id, Status.UNREADABLE, f"{shape.name}: {why}"),)
                except (ValueError, ArithmeticError) as why:  # a number that no machine has
                    return (build_unobserved_fact(self.id, Status.UNREADABLE, f"{shape.name}: {' '.join(str(why).split())[:120]}"),)
        return (build_unobserved_fact(self.id, Status.UNREADABLE, _describe_foreign_output(self.id, text)),)


def _describe_foreign_output(check: str, text: str) -> str:
    first = next((line.strip() for line in split_lines(text) if line.strip()), "")
    return f"not the output of {check}: {first[:120]!r}" if first else f"empty output of {check}"
