"""What differs among many hosts, folded as `clush -b` folds identical outputs, but by what is notable instead of by bytes. Pure.

A fact is notable when it is abnormal by itself, when it is not what the SKU expects, or when most hosts of the same kind say
something else. Measurements (temperatures, bytes) are held to the SKU only. What could not be looked at stays apart: it is never "ok".
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from graph.engine.abnormal import is_odd
from kb.redact import visible
from tools.checks.scheduler import OUT_OF_SERVICE
from tools.differences import Setting, ValuesByHost, is_comparable, places
from tools.fact import Fact, Status, Value
from tools.fleet.answers import Answer
from tools.fleet.reading import is_not_seen
from tools.inventory.ranges import fold

Expected = Callable[[str, str, str | None], Value]
"""(host, key, device) → the SKU's value or None."""

FEWEST = 3
"""Hosts of a kind that there must be before a majority means anything."""
MOST_NOTES = 8
"""Differences shown of one group of hosts."""


PARTLY = "nothing in the part that could be looked at"


@dataclass(frozen=True, slots=True)
class AlikeHosts:
    """Hosts that say the same of one check. No `notes`: nothing to see there."""

    hosts: tuple[str, ...]
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        shown = " · ".join(self.notes[:MOST_NOTES]) or "ok"
        more = len(self.notes) - MOST_NOTES
        return f"{fold(self.hosts)}: {shown}" + (f" · and {more} more" if more > 0 else "")


@dataclass(frozen=True, slots=True)
class BlindHosts:
    """Hosts that could not be looked at for one reason, and the checks concerned."""

    hosts: tuple[str, ...]
    checks: tuple[str, ...]
    why: str

    def __str__(self) -> str:
        return f"{fold(self.hosts)}: {' '.join(self.checks)}: {self.why}"

    def among(self, checks: int) -> str:
        """The same where so many were asked: a host that answers none is not told check by check."""
        return str(self) if len(self.checks) < max(checks, 2) else f"{fold(self.hosts)}: all {checks} checks: {self.why}"


class Note(NamedTuple):
    """What there is to say, and of which device. `missing`: `says` is the key of a fact that most hosts have and these do not."""

    says: str
    device: str
    missing: bool = False


@dataclass(slots=True)
class _Table:
    """One check over all hosts. Masks hold one bit a host."""

    values: ValuesByHost
    odd: dict[Note, int] = field(default_factory=lambda: defaultdict(int))
    marked: dict[Setting, int] = field(default_factory=lambda: defaultdict(int))
    """Hosts of which a note was made already."""
    partly: int = 0
    """Hosts of which a part could not be looked at."""


class Differences:
    """Takes answers as they come; says at any time what differs so far. `kind` tells which hosts are comparable."""

    def __init__(self, expected: Expected, kind: Callable[[str], str]) -> None:
        self._expected, self._kind = expected, kind
        self._tables: dict[str, _Table] = {}
        self._blind: dict[tuple[str, str], list[str]] = {}
        self._hosts: dict[str, int] = {}

    def add(self, answer: Answer) -> None:
        """One check's answer on one host."""
        if answer.could_not:
            self._blind.setdefault((answer.host, answer.could_not), []).append(answer.check)
        facts = [fact for fact in answer.facts if fact.key and fact.status is Status.OK and not fact.stale and not is_not_seen(fact)]
        if answer.could_not and not facts:
            return
        kind, table = self._kind(answer.host), self._tables.setdefault(answer.check, _Table(ValuesByHost(self._hosts)))
        bit = table.values.bit(answer.host)
        table.partly |= bit if answer.could_not else 0
        values: dict[tuple[str, str], set[str]] = defaultdict(set)
        for fact in facts:
            slot = (fact.key, fact.device or "")
            self._mark(table, (kind, *slot), bit, fact)
            if is_comparable(fact):
                values[slot].add(_say(fact.value))
        table.values.add(kind, answer.host, values)

    def _mark(self, table: _Table, slot: Setting, bit: int, fact: Fact) -> None:
        """Note what is abnormal or unexpected by itself."""
        expected = self._expected(fact.host, fact.key, fact.device)
        wrong = _unexpected(fact, expected)
        if wrong or is_odd(fact, expected) or _out_of_service(fact):
            says = f"{fact.key} {_say(fact.value)}{' ' + fact.unit if fact.unit else ''}"
            table.odd[Note(says + (f" (expected {_say(expected)})" if wrong else ""), slot[2])] |= bit
            table.marked[slot] |= bit

    def groups(self, check: str) -> tuple[AlikeHosts, ...]:
        """Hosts of one check by what is notable, the largest group first, those that are well before the others."""
        table = self._tables.get(check)
        if table is None:
            return ()
        notes: dict[int, list[Note]] = defaultdict(list)
        for note, mask in (*table.odd.items(), *_deviations(table)):
            for place in places(mask):
                notes[place].append(note)
        names = list(self._hosts)
        by_notes: dict[tuple[str, ...], list[str]] = defaultdict(list)
        for mask in table.values.asked.values():
            for place in places(mask):
                says = _joined(notes[place])
                by_notes[says or ((PARTLY,) if table.partly >> place & 1 else ())].append(names[place])
        found = [AlikeHosts(tuple(hosts), says) for says, hosts in by_notes.items()]
        return tuple(sorted(found, key=lambda group: (bool(group.notes), -len(group.hosts), group.hosts)))

    def blind(self) -> tuple[BlindHosts, ...]:
        """What could not be looked at, the widest trouble first."""
        merged: dict[tuple[str, tuple[str, ...]], list[str]] = defaultdict(list)
        for (host, why), checks in self._blind.items():
            merged[why, tuple(dict.fromkeys(checks))].append(host)
        rows = [BlindHosts(tuple(hosts), checks, visible(why)) for (why, checks), hosts in merged.items()]
        return tuple(sorted(rows, key=lambda row: (-len(row.hosts) * len(row.checks), row.hosts)))


def _deviations(table: _Table) -> Iterable[tuple[Note, int]]:
    """Where most hosts of a kind say one thing and these say another, or nothing."""
    for setting, values in table.values.settings():
        kind, key, device = setting
        total = table.values.asked[kind].bit_count()
        usual, most = max(values.items(), key=lambda row: row[1].bit_count())
        if total < FEWEST or most.bit_count() * 2 <= total:
            continue
        absent = values.pop(frozenset(), 0)
        yield from _against(key, device, usual, values, table.marked.get(setting, 0))
        if usual and absent:
            yield Note(key, device, missing=True), absent


def _against(key: str, device: str, usual: frozenset[str], values: Mapping[frozenset[str], int], marked: int) -> Iterable[tuple[Note, int]]:
    most = f" (most: {', '.join(sorted(usual))})" if usual else ""
    for said, mask in values.items():
        if said != usual and mask & ~marked:
            yield Note(f"{key} {', '.join(sorted(said))}{most}", device), mask & ~marked


def _joined(notes: Sequence[Note]) -> tuple[str, ...]:
    """The notes of one host, devices folded. One that lacks many facts is told so once, with an example."""
    devices: dict[str, list[str]] = {}
    missing: Counter[str] = Counter()
    example: dict[str, str] = {}
    for says, device, lacks in notes:
        if lacks:
            missing[device] += 1
            example.setdefault(device, says)
        else:
            devices.setdefault(says, []).append(device)
    for device, count in missing.items():
        more = f" and {count - 1} more facts" if count > 1 else ""
        devices.setdefault(f"no {example[device]}{more} (most hosts have)", []).append(device)
    return tuple(f"{names}: {says}" if (names := fold(filter(None, where))) else says for says, where in devices.items())


def _out_of_service(fact: Fact) -> bool:
    """What a scheduler says of a node that takes no jobs, and why: nothing is wrong with who drains one, and everybody wants to know."""
    if fact.key == "sched.reason":
        return True
    return fact.key == "sched.state" and any(word in str(fact.value) for word in OUT_OF_SERVICE)


def _unexpected(fact: Fact, expected: Value) -> bool:
    """A setting that is not the SKU's, or a measurement well below it."""
    if expected is None:
        return False
    if isinstance(fact.value, float) or (isinstance(expected, float) and isinstance(fact.value, int)):
        return isinstance(expected, (int, float)) and fact.value < 0.8 * expected
    return fact.value != expected


def _say(value: Value) -> str:
    """A value on one short line; hosts may print anything."""
    text = ", ".join(map(str, value)) if isinstance(value, list) else f"{value:g}" if isinstance(value, float) else str(value)
    return visible(text)[:80]
