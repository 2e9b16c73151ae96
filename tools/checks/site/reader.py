"""A site's own checks, from YAML: a command that only reads, and what its output says as facts under `site.*`.

Everything that is wrong with the files is found in one pass and refused together, with file and line; nothing of them is used until then.
"""

import re
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

from kb.taxonomy.expressions import BadExpression, Expression
from kb.yaml import Node, Problems, Row, read
from tools.checks.row import MIB, SLOTS, Check, Command, Format
from tools.checks.site.readonly import refusals
from tools.checks.site.values import KINDS, BadPath, BadPattern, ValueReader, json_path, pattern

_FILE = ("checks",)
_CHECK = ("id", "asks", "command", "seconds", "timeout", "cap_bytes", "exit_statuses", "facts")
_FACT = ("key", "kind", "unit", "regex", "json", "device", "wrong_when", "says")
_ID = re.compile(r"[a-z][a-z0-9_]{1,31}")
_KEY = re.compile(r"site\.[a-z][a-z0-9_]{0,47}")
FILLED = frozenset({"gpus", "job_logs", "nccl_tests"})
"""Slots of a command that the inventory fills."""
LONGEST_SECONDS, LARGEST_BYTES = 120.0, 4 * MIB


class BadChecks(Exception):
    """Files that are refused; `problems` are `file:line: reason`, all of them."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = tuple(problems)


def load_site_checks(*folders: Path, known: Collection[str] = ()) -> dict[str, Check]:
    """The checks of all folders by id; none may take the id of a `known` one. Raises BadChecks."""
    problems = Problems()
    found: dict[str, Check] = {}
    for folder in folders:
        for path in sorted(folder.glob("*.y*ml")):
            for check, where in _document(read(path, problems), problems):
                if check.id in known or check.id in found:
                    problems.note(where, f"{check.id}: there is a check of this id already")
                found[check.id] = check
    if problems.found:
        raise BadChecks(problems.found)
    return found


def _document(document: Node | None, problems: Problems) -> Iterator[tuple[Check, Node]]:
    if document is None:
        return
    if not isinstance(document.plain, dict):
        problems.note(document, "a file of checks is a mapping with `checks:`")
        return
    file = Row(document, problems, "file of checks")
    file.only(*_FILE)
    for row in file.rows("checks", "check"):
        before = len(problems.found)
        check = _check(row)
        if check is not None and len(problems.found) == before:
            yield check, row.node


def _check(row: Row) -> Check | None:
    """The check; its problems are noted, and then it is not used."""
    name = row.text("id")
    row = Row(row.node, row.problems, name or "check")
    row.only(*_CHECK)
    if not _ID.fullmatch(name):
        row.note("id", "id must be snake_case, 2 to 32 characters")
    argv = _command(row)
    readers = tuple(_reader(name, fact) for fact in row.rows("facts", "fact"))
    limits = {"timeout": LONGEST_SECONDS, "cap_bytes": LARGEST_BYTES}
    timeout, cap = (_limit(row, field, most) for field, most in limits.items())
    seconds = row.number("seconds") if row.node.get("seconds") else min(2.0, timeout)
    asks, statuses = row.text("asks"), _statuses(row)
    if any(reader is None for reader in readers):
        return None
    known = tuple(reader for reader in readers if reader is not None)

    def parse(text: str) -> list[Any]:
        return [fact for reader in known for fact in reader.read(text)]

    return Check(
        id=name,
        asks=asks,
        commands=(Command("run", argv),),
        formats=(Format(f"{name} of this site", lambda text: True, parse),),
        establishes=tuple(dict.fromkeys(reader.key for reader in known)),
        seconds=seconds,
        timeout=timeout,
        cap=int(cap),
        statuses=statuses,
    )


def _command(row: Row) -> tuple[str, ...]:
    node = row.node.get("command")
    if node is None or not isinstance(node.plain, list) or not all(isinstance(word, str) for word in node.plain):
        row.note("command", "command must be a list of words, like [cat, /proc/mounts]; there is no shell to split a line")
        return ()
    argv = tuple(node.plain)
    bare = tuple(re.sub(r"{[a-z_]+}", "1", word) for word in argv)
    for why in refusals(bare):
        row.note("command", f"command refused: {why}")
    for word in argv:
        for slot in re.findall(r"{([a-z_]*)}", word):
            if slot not in FILLED or slot not in SLOTS:
                row.note("command", f"unknown slot {{{slot}}}; there are {', '.join(sorted(FILLED))}")
    return argv


def _limit(row: Row, name: str, most: float) -> float:
    value = row.number(name)
    if row.node.get(name) is not None and not 0 < value <= most:
        row.note(name, f"{name} must lie above 0 and be at most {most:g}")
    return value


def _statuses(row: Row) -> frozenset[int]:
    node = row.node.get("exit_statuses")
    if node is None:
        return frozenset({0})
    values = node.plain if isinstance(node.plain, list) else [node.plain]
    if not values or any(isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 124 for value in values):
        row.note("exit_statuses", "exit_statuses must be a list of whole numbers from 0 to 123")
        return frozenset({0})
    return frozenset(values)


def _reader(check: str, row: Row) -> ValueReader | None:
    """How one fact is read; None with the reasons noted."""
    before = len(row.problems.found)
    row.only(*_FACT)
    key, kind, unit = row.text("key"), row.text("kind"), row.text("unit", default="")
    if not _KEY.fullmatch(key):
        row.note("key", f"key {key!r} must be site.NAME, NAME in snake_case")
    if kind not in KINDS:
        row.note("kind", f"kind {kind!r} is none of {', '.join(KINDS)}")
    wrong = _expression(row)
    found = _where(row)
    if len(row.problems.found) > before or found is None:
        return None
    return ValueReader(
        check, key, kind, unit, *found, device=row.text("device", default=""), wrong=wrong, says=row.text("says", default="")
    )


def _where(row: Row) -> tuple[re.Pattern[str] | None, tuple[str | int, ...]] | None:
    """The pattern or the path: exactly one of them."""
    given = [name for name in ("regex", "json") if row.node.get(name) is not None]
    if len(given) != 1:
        row.note(given[-1] if given else "key", "a fact is found by either regex or json")
        return None
    node = row.node.get(given[0])
    text = node.plain if node else None
    if not isinstance(text, str) or not text:
        row.note(given[0], f"{given[0]} must be text")
        return None
    try:
        return (pattern(text), ()) if given[0] == "regex" else (None, json_path(text))
    except (BadPattern, BadPath) as why:
        row.note(given[0], f"{given[0]}: {why}")
        return None


def _expression(row: Row) -> Expression | None:
    text = row.text("wrong_when", default="")
    if not text:
        return None
    try:
        return Expression(text)
    except BadExpression as why:
        row.note("wrong_when", f"wrong_when: {why}")
        return None
