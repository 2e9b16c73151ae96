"""Check: a read-only question to a host, the commands and programs that answer it, their parsers, and limits of their output."""

import re
from collections import defaultdict
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from kb.needle_search import split_lines
from kb.numbers import is_storable
from tools.fact import Fact, Status, build_unobserved_fact

# Strip terminal colours, ssh, sudo and shell noise, and pasted prompts around a program's output.

_ESCAPE_PATTERN = re.compile(r"\x1b(?:\[[0-?]{0,40}[ -/]{0,4}[@-~]|\][^\x07\x1b]{0,200}(?:\x07|\x1b\\)|[@-Z\\^_]|[()][0-9A-B])")
_NOISE_PATTERN = re.compile(
    r"sudo: unable to resolve host .{0,200}"
    r"|Warning: Permanently added .{1,200} to the list of known hosts\.?"
    r"|(?:/bin/|-)?(?:ba|da|z|k)?sh: (?:line \d{1,4}: )?warning: setlocale: .{0,200}"
    r"|Connection to \S{1,253} closed\.?"
    r"|X11 forwarding request failed.{0,80}"
    r"|mesg: (?:ttyname failed|cannot open).{0,80}|stdin: is not a tty"
)
_PROMPT_PATTERN = re.compile(r"(?:\([\w.-]{1,40}\) )?\[?[a-z_][\w.-]{0,31}@[\w.-]{1,64}(?::| )[\w~/.+-]{0,200}\]? ?[#$](?: .{0,400})?")
_MAX_NOISE_LINES = 12


def clean_output(text: str) -> str:
    text = text.removeprefix("\ufeff")
    if "\r\n" in text:
        text = text.replace("\r\n", "\n")
    if "\x1b" in text:
        text = _ESCAPE_PATTERN.sub("", text)
    if "\0" in text:
        text = text.replace("\0", "")
    return _strip_tail(_strip_head(text))


def _is_noise(line: str) -> bool:
    line = line.strip()
    return bool(_NOISE_PATTERN.fullmatch(line) or _PROMPT_PATTERN.fullmatch(line))


def _strip_head(text: str) -> str:
    start = keep = 0
    for _ in range(_MAX_NOISE_LINES):
        end = text.find("\n", start)
        line = text[start : end if end >= 0 else len(text)]
        if line.strip() and not _is_noise(line):
            break
        start = end + 1 if end >= 0 else len(text)
        keep = start if line.strip() else keep
        if end < 0:
            break
    return text[keep:]


def _strip_tail(text: str) -> str:
    end = keep = len(text)
    for _ in range(_MAX_NOISE_LINES):
        start = text.rfind("\n", 0, end) + 1
        line = text[start:end]
        if line.strip() and not _is_noise(line):
            break
        keep = start if line.strip() else keep
        if start == 0:
            break
        end = start - 1
    return text[:keep]


# Cap the facts of one answer and report the rest as left out: a log's writer can name any number of devices.

MAX_FACTS = 4096  # facts of one answer; a real host gives a few thousand at most
MAX_DEVICES = 512  # devices with the same key and value in one answer; eight GPUs with eighteen links each are 144
LEFT_OUT_ATTR = "left_out"  # attribute: number of facts left out


def limit_facts(check: str, facts: Sequence[Fact], gone: int = 0) -> tuple[Fact, ...]:
    """Keep the first facts, a job's first error before all others; the rest plus `gone` becomes one unobserved fact."""
    kept_facts = _select_first_facts(facts) if len(facts) > min(MAX_FACTS, MAX_DEVICES) else tuple(facts)
    if any(isinstance(fact.value, int | float) and not is_storable(fact.value) for fact in kept_facts):
        kept_facts = tuple(fact if is_storable(fact.value) else _mark_unreadable(fact) for fact in kept_facts)
    lost = gone + len(facts) - len(kept_facts)
    return (*kept_facts, build_left_out_fact(check, lost)) if lost else kept_facts


def _mark_unreadable(fact: Fact) -> Fact:
    """Drop only the impossible number."""
    return replace(fact, value=None, status=Status.UNREADABLE, line=fact.line[:200])


def build_left_out_fact(check: str, count: int) -> Fact:
    """Return the fact that `count` facts were dropped."""
    note = f"could not look at all: {count:,} more things that it says were left out"
    return Fact(check, "", status=Status.UNREADABLE, line=note, attrs={LEFT_OUT_ATTR: count})


def count_left_out(facts: Sequence[Fact]) -> int:
    return sum(int(fact.attrs[LEFT_OUT_ATTR]) for fact in facts if LEFT_OUT_ATTR in fact.attrs and not fact.key)


def _select_first_facts(facts: Sequence[Fact]) -> tuple[Fact, ...]:
    devices: dict[tuple[str, str], set[str]] = defaultdict(set)
    ahead, rest = [], []
    for fact in facts:
        if fact.attrs.get("first") is True or fact.status.blind:
            ahead.append(fact)
            continue
        same = devices[fact.key, repr(fact.value)]
        if fact.device is None or fact.device in same or len(same) < MAX_DEVICES:
            same |= {fact.device} if fact.device is not None else set()
            rest.append(fact)
    room = max(0, MAX_FACTS - len(ahead))
    return (*ahead[:MAX_FACTS], *rest[:room]) if len(ahead) + len(rest) > MAX_FACTS else _restore_order(facts, ahead, rest)


def _restore_order(facts: Sequence[Fact], *parts: Sequence[Fact]) -> tuple[Fact, ...]:
    fact_ids = {id(fact) for part in parts for fact in part}
    return tuple(fact for fact in facts if id(fact) in fact_ids)


# Check: a read-only question to a host, the commands that answer it, and their parsers.

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
    matters, newest first. `silence`: the meaning of empty output after success, "" if that is no answer.
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


# Programs sent to a host: a module's text as one argv word, `python3 -c WORD`.

_SHELL_CHARS_PATTERN = re.compile("[|;&$`<>{}]")


def encode_program(module: Path) -> str:
    """Return the module as one word without line breaks and characters that a shell or argv template reads.

    Drops the first line, blank lines and one-line docstrings, and indents by one blank: hosts need not accept more than
    32 KiB at once (RFC 4253).
    """
    text = module.read_text(encoding="utf-8").partition("\n")[2].strip() + "\n"
    text = re.sub(r'(?m)^(?: +"{3}.*"{3})?\n', "", text)
    text = re.sub(r"(?m)^(?: {4})+", lambda found: " " * (len(found[0]) // 4), text)
    return f"exec({_SHELL_CHARS_PATTERN.sub(lambda found: f'{chr(92)}x{ord(found[0]):02x}', repr(text))})"
