"""Differences among hosts, grouped like `clush -b` but by notable facts instead of bytes.

A fact is notable if it is abnormal, differs from the SKU profile, or from the majority of its kind. Measurements
(temperatures, bytes) are compared with the SKU only. Unobserved hosts are never "ok".
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from graph.engine.abnormal_facts import is_abnormal
from kb.redact import show_invisible
from tools.checks.scheduler import OUT_OF_SERVICE_WORDS
from tools.differences import SettingKey, ValuesByHost, is_comparable, iter_mask_bits
from tools.fact import Fact, Status, Value
from tools.fleet.answers import CheckAnswer
from tools.fleet.output_reader import is_unobserved_fact
from tools.inventory.host_ranges import fold_host_names

ExpectedValueLookup = Callable[[str, str, str | None], Value]  # (host, key, device) -> the SKU's value or None

MIN_HOSTS_FOR_MAJORITY = 3  # hosts of a kind
MAX_NOTES_PER_GROUP = 8


PARTLY_UNOBSERVED_TEXT = "nothing in the part that could be looked at"


@dataclass(frozen=True, slots=True)
class AlikeHostGroup:
    """Hosts with the same notes; without `notes` they are ok."""

    hosts: tuple[str, ...]
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        notes = " · ".join(self.notes[:MAX_NOTES_PER_GROUP]) or "ok"
        more = len(self.notes) - MAX_NOTES_PER_GROUP
        return f"{fold_host_names(self.hosts)}: {notes}" + (f" · and {more} more" if more > 0 else "")


@dataclass(frozen=True, slots=True)
class UnobservedHosts:
    """Hosts and checks unobserved for one reason."""

    hosts: tuple[str, ...]
    checks: tuple[str, ...]
    reason: str

    def __str__(self) -> str:
        return f"{fold_host_names(self.hosts)}: {' '.join(self.checks)}: {self.reason}"

    def format_among_checks(self, checks: int) -> str:
        """Format the row, abbreviated if all `checks` are concerned."""
        return str(self) if len(self.checks) < max(checks, 2) else f"{fold_host_names(self.hosts)}: all {checks} checks: {self.reason}"


class DifferenceNote(NamedTuple):
    """A note on a device. `missing`: `says` is the key of a fact that most hosts have."""

    says: str
    device: str
    missing: bool = False


@dataclass(slots=True)
class _CheckTable:
    """One check over all hosts; masks hold one bit per host."""

    values: ValuesByHost
    odd: dict[DifferenceNote, int] = field(default_factory=lambda: defaultdict(int))
    marked: dict[SettingKey, int] = field(default_factory=lambda: defaultdict(int))  # hosts already noted
    partly: int = 0  # partly unobserved hosts


class HostDifferences:
    """Accumulates answers. `kind` groups comparable hosts."""

    def __init__(self, expected: ExpectedValueLookup, kind: Callable[[str], str]) -> None:
        self._expected = expected
        self._kind = kind
        self._tables: dict[str, _CheckTable] = {}
        self._blind: dict[tuple[str, str], list[str]] = {}
        self._hosts: dict[str, int] = {}

    def add_answer(self, answer: CheckAnswer) -> None:
        if answer.could_not:
            self._blind.setdefault((answer.host, answer.could_not), []).append(answer.check)
        facts = [fact for fact in answer.facts if fact.key and fact.status is Status.OK and not fact.stale and not is_unobserved_fact(fact)]
        if answer.could_not and not facts:
            return
        kind, table = self._kind(answer.host), self._tables.setdefault(answer.check, _CheckTable(ValuesByHost(self._hosts)))
        bit = table.values.get_mask(answer.host)
        table.partly |= bit if answer.could_not else 0
        values: dict[tuple[str, str], set[str]] = defaultdict(set)
        for fact in facts:
            slot = (fact.key, fact.device or "")
            self._note_abnormal_fact(table, (kind, *slot), bit, fact)
            if is_comparable(fact):
                values[slot].add(_format_value(fact.value))
        table.values.add_host(kind, answer.host, values)

    def _note_abnormal_fact(self, table: _CheckTable, slot: SettingKey, bit: int, fact: Fact) -> None:
        expected = self._expected(fact.host, fact.key, fact.device)
        is_wrong = _is_unexpected(fact, expected)
        if is_wrong or is_abnormal(fact, expected) or _is_out_of_service(fact):
            sentence = f"{fact.key} {_format_value(fact.value)}{' ' + fact.unit if fact.unit else ''}"
            table.odd[DifferenceNote(sentence + (f" (expected {_format_value(expected)})" if is_wrong else ""), slot[2])] |= bit
            table.marked[slot] |= bit

    def list_host_groups(self, check: str) -> tuple[AlikeHostGroup, ...]:
        """Return hosts grouped by notes: ok ones first, then larger groups."""
        table = self._tables.get(check)
        if table is None:
            return ()
        notes: dict[int, list[DifferenceNote]] = defaultdict(list)
        for note, mask in (*table.odd.items(), *_find_deviations(table)):
            for place in iter_mask_bits(mask):
                notes[place].append(note)
        names = list(self._hosts)
        by_notes: dict[tuple[str, ...], list[str]] = defaultdict(list)
        for mask in table.values.answered.values():
            for place in iter_mask_bits(mask):
                folded_notes = _fold_notes(notes[place])
                by_notes[folded_notes or ((PARTLY_UNOBSERVED_TEXT,) if table.partly >> place & 1 else ())].append(names[place])
        groups = [AlikeHostGroup(tuple(hosts), notes) for notes, hosts in by_notes.items()]
        return tuple(sorted(groups, key=lambda group: (bool(group.notes), -len(group.hosts), group.hosts)))

    def list_unobserved_hosts(self) -> tuple[UnobservedHosts, ...]:
        """Return unobserved hosts, largest group first."""
        merged: dict[tuple[str, tuple[str, ...]], list[str]] = defaultdict(list)
        for (host, skip_reason), checks in self._blind.items():
            merged[skip_reason, tuple(dict.fromkeys(checks))].append(host)
        rows = [UnobservedHosts(tuple(hosts), checks, show_invisible(reason)) for (reason, checks), hosts in merged.items()]
        return tuple(sorted(rows, key=lambda row: (-len(row.hosts) * len(row.checks), row.hosts)))


def _find_deviations(table: _CheckTable) -> Iterable[tuple[DifferenceNote, int]]:
    """Yield notes where a minority differs from the majority."""
    for setting, values in table.values.iter_settings():
        kind, key, device = setting
        total = table.values.answered[kind].bit_count()
        usual, majority = max(values.items(), key=lambda row: row[1].bit_count())
        if total < MIN_HOSTS_FOR_MAJORITY or majority.bit_count() * 2 <= total:
            continue
        absent = values.pop(frozenset(), 0)
        yield from _find_minority_values(key, device, usual, values, table.marked.get(setting, 0))
        if usual and absent:
            yield DifferenceNote(key, device, missing=True), absent


def _find_minority_values(
    key: str, device: str, usual: frozenset[str], values: Mapping[frozenset[str], int], marked: int
) -> Iterable[tuple[DifferenceNote, int]]:
    usual_note = f" (most: {', '.join(sorted(usual))})" if usual else ""
    for value, mask in values.items():
        if value != usual and mask & ~marked:
            yield DifferenceNote(f"{key} {', '.join(sorted(value))}{usual_note}", device), mask & ~marked


def _fold_notes(notes: Sequence[DifferenceNote]) -> tuple[str, ...]:
    """Merge notes over devices; missing facts become one note."""
    devices: dict[str, list[str]] = {}
    missing: Counter[str] = Counter()
    example: dict[str, str] = {}
    for note, device, lacks in notes:
        if lacks:
            missing[device] += 1
            example.setdefault(device, note)
        else:
            devices.setdefault(note, []).append(device)
    for device, count in missing.items():
        more = f" and {count - 1} more facts" if count > 1 else ""
        devices.setdefault(f"no {example[device]}{more} (most hosts have)", []).append(device)
    return tuple(
        f"{names}: {sentence}" if (names := fold_host_names(filter(None, devices_text))) else sentence
        for sentence, devices_text in devices.items()
    )


def _is_out_of_service(fact: Fact) -> bool:
    """Match a drained node's state and reason: not abnormal, but worth showing."""
    if fact.key == "sched.reason":
        return True
    return fact.key == "sched.state" and any(word in str(fact.value) for word in OUT_OF_SERVICE_WORDS)


def _is_unexpected(fact: Fact, expected: Value) -> bool:
    """Match a setting unlike the SKU's, or a measurement below 80 % of it."""
    if expected is None:
        return False
    if isinstance(fact.value, float) or (isinstance(expected, float) and isinstance(fact.value, int)):
        return isinstance(expected, (int, float)) and fact.value < 0.8 * expected
    return fact.value != expected


def _format_value(value: Value) -> str:
    text = str(value)
    if isinstance(value, list):
        text = ", ".join(map(str, value))
    elif isinstance(value, float):
        text = f"{value:g}"
    return show_invisible(text)[:80]
