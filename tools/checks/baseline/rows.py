"""Rows of the baseline probe: values compared with peers, counts, answers to test questions, and broken parts.

== baseline 1
sysctl	vm.max_map_count	65530
count	zombie	212 212 python3 below slurmstepd
answer	nameserver 10.0.0.2	timeout
broken	daemon slurmd	frozen
== end
"""

import re
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from kb.needle_search import split_lines
from tools.checks.check_types import Check, Command, Format, Unreadable
from tools.checks.sent_programs import encode_program
from tools.fact import Fact, Status, build_unobserved_fact

CHECK = "base"
HEAD = "== baseline 1"
END = "== end"
NAME_VALUE_SEPARATOR = " = "  # between a compared name and its value
# Row kinds that are equal on hosts of one kind; each becomes one fact.
COMPARED_KINDS = (
    *("system", "cmdline", "sysctl", "module", "driver", "mount", "route", "link", "resolver", "hosts", "device"),
    *("library", "package", "config", "limit", "service", "daemon", "answer"),
)
HOST_SPECIFIC_QUESTIONS = ("name of this host", "name localhost")  # not compared: the answers differ from host to host
MAX_ROWS = 400
MAX_LINE_CHARS = 400
_ROW_PATTERN = re.compile(r"([a-z]{3,12})\t([^\t]{1,160})\t([^\t]{0,240})$")
_HOG_PATTERN = re.compile(r"(\d{1,5}\.\d) of (\d{1,5}) cores, (\d{1,7}) processes of uid (\d{1,10})$")
PROBE = encode_program(Path(__file__).with_name("probe.py"))


def is_baseline(text: str) -> bool:
    return text.lstrip("\n").startswith(HEAD)


def parse_baseline(text: str) -> Sequence[Fact]:
    """Return one fact per compared kind, and one per count, answer and broken part; report unknown lines."""
    compared_values: dict[str, list[str]] = defaultdict(list)
    facts: list[Fact] = []
    unknown_lines: list[str] = []
    lines = split_lines(text.strip("\n"))
    rows = [line for line in lines[1:] if line.strip() and line != END]
    for line in rows:
        kind, name, value = _split_row(line)
        if kind in COMPARED_KINDS and name not in HOST_SPECIFIC_QUESTIONS:
            compared_values[kind].append(f"{name}{NAME_VALUE_SEPARATOR}{value}")
        if fact := _build_single_fact(kind, name, value):
            facts.append(fact)
        elif kind not in COMPARED_KINDS:
            unknown_lines.append(line)
    if not compared_values and not facts:
        raise Unreadable("a head and no row")
    facts += [_fold_values(kind, values) for kind, values in compared_values.items()]
    if unknown_lines:
        reason = f"{len(unknown_lines)} rows of it are not understood, first {unknown_lines[0][:120]!r}"
        facts.append(build_unobserved_fact(CHECK, Status.UNREADABLE, reason))
    if END not in lines[-3:]:
        facts.append(build_unobserved_fact(CHECK, Status.UNREADABLE, "it broke off before its end, so something of it may be missing"))
    return facts


def _split_row(line: str) -> tuple[str, str, str]:
    """Return kind, name and value; empty texts if the line is not a row."""
    match = _ROW_PATTERN.match(line)
    return (match[1], match[2].strip(), match[3].strip()) if match else ("", "", "")


def _fold_values(kind: str, values: list[str]) -> Fact:
    kept_values = sorted(set(values))[:MAX_ROWS]
    return Fact(CHECK, "base.rows", kept_values, kind, line=f"{kind}: {len(kept_values)} rows")


def _build_single_fact(kind: str, name: str, value: str) -> Fact | None:
    """Return the fact of a line that is reported on its own; None for kinds that are only compared and unknown kinds."""
    line, word = f"{name}: {value}"[:MAX_LINE_CHARS], value.partition(" ")[0]
    if kind == "broken":
        return Fact(CHECK, "base.broken", word, name, line=line)
    if kind == "answer":
        return Fact(CHECK, "base.answer", word, name, line=line)
    if kind == "count" and word.isdigit():
        return Fact(CHECK, "base.count", int(word[:12]), name, line=line)
    if kind == "hog" and (usage := _HOG_PATTERN.match(value)):
        used_cores, cores = float(usage[1]), int(usage[2])
        attrs = {"share": round(used_cores / max(1, cores), 3), "processes": int(usage[3]), "uid": int(usage[4])}
        return Fact(CHECK, "proc.hog", used_cores, name, line=line, attrs=attrs)
    if kind == "unread":
        return build_unobserved_fact(CHECK, Status.UNREADABLE, f"its part {name} could not be read: {value}"[:MAX_LINE_CHARS])
    return None


CHECKS = (
    Check(
        id=CHECK,
        asks="What does the host look like beside its peers, and what of it does not work at all?",
        commands=(Command("host", ("python3", "-c", PROBE), optional=True),),
        formats=(Format("baseline", is_baseline, parse_baseline),),
        establishes=("base.rows", "base.count", "base.answer", "base.broken", "proc.hog", "peer.differs", "past.differs"),
        seconds=1.0,
        timeout=25.0,
        partial=True,
        damage="tell",
    ),
)
