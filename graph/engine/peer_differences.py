"""Differences of a host's baseline from most hosts of its kind. Pure.

A difference is a hint, not a proof: the majority may be wrong, and what all share is not reported.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from tools.checks.baseline import NAME_VALUE_SEPARATOR
from tools.fact import Fact, Status

BASELINE_ROWS_KEY = "base.rows"
PEER_DIFFERS_KEY = "peer.differs"
PAST_DIFFERS_KEY = "past.differs"
ABSENT = "absent"
MIN_PEERS = 3  # hosts needed for a majority
MAX_DIFFERENCES_PER_KIND = 8  # differences of one kind listed singly; the rest become one fact
MAX_RELATIVE_SIZE_DIFFERENCE = 0.02  # smaller size differences are equal: firmware reserves a little memory
# kinds in which a group's hosts must be alike; other differences (packages, settings) are listed without suspicion
TELLING_KINDS = ("service", "daemon", "mount", "route", "link", "resolver", "hosts", "device", "library", "answer", "limit", "program")
TELLING_NAMES = ("system memory", "system cpus")
# units that the services check judges itself
CHECKED_SERVICE_PATTERN = re.compile(r"(service|daemon) (nvidia-|nv-|chrony|docker|openibd|slurmd|munge|ntp|systemd-timesyn)")
# units that start and stop on their own
_TRANSIENT_UNIT_PATTERN = re.compile(
    r"service (apt|dpkg|dnf|yum|unattended|logrotate|man-db|fstrim|motd|systemd-(tmpfiles|update|timedated|hostnamed|localed|binfmt|hwdb|fsck|journal-flush)"
    r"|e2scrub|anacron|phpsessionclean|update-notifier|fwupd|packagekit|PackageKit|sysstat|plocate|mlocate|ua-|esm-|snap|udisks2|upower|user@|rpc-statd-notify"
    r"|ldconfig|emergency|rescue|plymouth|kmod|nvidia-suspend|nvidia-resume|initrd|dracut|cleanup|raid-check|mdcheck|mdmonitor|pollinate|cloud-)"
)
_SIZE_PATTERN = re.compile(r"(?<![\w.])\d{4,19}(?![\w.])|(?<![\w.])\d{1,9}(?= GiB)")


@dataclass(frozen=True, slots=True)
class HostBaseline:
    """A host's rows by kind when it was last healthy."""

    at: datetime
    rows: Mapping[str, Sequence[str]]


@dataclass(slots=True)
class _GroupMajority:
    """The majority of a group in one kind: name → (value, hosts with it), and hosts per name."""

    most: dict[str, tuple[str, int]]
    names: Counter[str]
    of: int
    personal: bool  # most hosts have rows unique to them, so a unique row is no finding


def find_peer_differences(facts: Iterable[Fact], kind: Callable[[str], str]) -> list[Fact]:
    """Return one fact per difference of a host from most hosts of its `kind`."""
    by_host: dict[str, dict[str, Fact]] = defaultdict(dict)
    partial: set[str] = set()
    for fact in facts:
        if fact.key == BASELINE_ROWS_KEY and fact.status is Status.OK and fact.host and fact.device and isinstance(fact.value, list):
            by_host[fact.host][fact.device] = fact
        elif fact.check == "base" and fact.status.blind:
            partial.add(fact.host)
    groups: dict[str, list[str]] = defaultdict(list)
    for host in by_host:
        groups[kind(host)].append(host)
    return _without_limits_of_the_absent(
        [difference for hosts in groups.values() if len(hosts) >= MIN_PEERS for difference in _compare_group(hosts, by_host, partial)]
    )


def _without_limits_of_the_absent(found: list[Fact]) -> list[Fact]:
    """Drop limits of absent daemons; the absence is a difference of its own."""
    absent = {(fact.host, str(fact.device).removeprefix("daemon ")) for fact in found if fact.value == ABSENT and fact.device}
    return [
        fact
        for fact in found
        if not (fact.value == ABSENT and str(fact.device).startswith("limit ") and (fact.host, str(fact.device).split(" ")[1]) in absent)
    ]


def build_baselines(facts: Iterable[Fact]) -> dict[str, HostBaseline]:
    """Return the current baseline of each host that was read completely."""
    facts_by_baseline: dict[str, dict[str, Fact]] = defaultdict(dict)
    partial: set[str] = set()
    for fact in facts:
        if (
            fact.key == BASELINE_ROWS_KEY
            and fact.status is Status.OK
            and fact.host
            and fact.device
            and fact.time
            and isinstance(fact.value, list)
        ):
            facts_by_baseline[fact.host][fact.device] = fact
        elif fact.check == "base" and fact.status.blind:
            partial.add(fact.host)
    return {
        host: HostBaseline(
            max(fact.time for fact in rows.values() if fact.time), {name: tuple(_get_rows(fact)) for name, fact in rows.items()}
        )
        for host, rows in facts_by_baseline.items()
        if host not in partial
    }


def find_past_differences(facts: Sequence[Fact], remembered: Mapping[str, HostBaseline], kind: Callable[[str], str]) -> list[Fact]:
    """Return differences from each host's remembered baseline.

    Where this incident has too few peers, also compare with remembered hosts of the same kind.
    """
    now = [fact for fact in facts if fact.key == BASELINE_ROWS_KEY and fact.status is Status.OK and fact.host]
    present_hosts = {fact.host for fact in now}
    few = {name for name, count in Counter(map(kind, present_hosts)).items() if count < MIN_PEERS}
    remembered_facts = [
        Fact("base", BASELINE_ROWS_KEY, list(values), name, host=host, time=row.at)
        for host, row in remembered.items()
        if host not in present_hosts and kind(host) in few
        for name, values in row.rows.items()
    ]
    differences = (
        find_peer_differences([*(fact for fact in now if kind(fact.host) in few), *remembered_facts], kind) if remembered_facts else []
    )
    return [
        *(fact for fact in differences if fact.host in present_hosts),
        *(difference for fact in now for difference in _find_changes_since(fact, remembered.get(fact.host))),
    ]


def _find_changes_since(fact: Fact, before: HostBaseline | None) -> Iterator[Fact]:
    kind = str(fact.device)
    if before is None or kind not in before.rows:
        return
    was, own = _parse_rows(before.rows[kind]), _parse_rows(_get_rows(fact))
    names = [
        name
        for name in {**was, **own}
        if not _is_alike(own.get(name, ABSENT), was.get(name, ABSENT)) and not _TRANSIENT_UNIT_PATTERN.match(f"{kind} {name}")
    ]
    day = before.at.date().isoformat()
    for name in names[:MAX_DIFFERENCES_PER_KIND]:
        attrs = {"before": was.get(name, ABSENT), "since": day}
        line = f"{kind} {name}: {own.get(name, ABSENT)} now, {attrs['before']} when it was last seen well on {day}"[:400]
        yield replace(fact, key=PAST_DIFFERS_KEY, value=own.get(name, ABSENT), device=f"{kind} {name}", line=line, attrs=attrs)


def _get_rows(fact: Fact) -> Sequence[str]:
    return fact.value if isinstance(fact.value, list) else ()


def _compare_group(hosts: Sequence[str], by_host: Mapping[str, Mapping[str, Fact]], partial: Collection[str]) -> Iterator[Fact]:
    """Compare a group. A host without rows of a kind has none, unless a part of it was unreadable."""
    for device in dict.fromkeys(device for host in hosts for device in by_host[host]):
        rows = [
            by_host[host].get(device) or _build_empty_fact(by_host[host], device)
            for host in hosts
            if device in by_host[host] or host not in partial
        ]
        if len(rows) >= MIN_PEERS:
            yield from _compare_kind(rows)


def _build_empty_fact(rows: Mapping[str, Fact], device: str) -> Fact:
    return replace(next(iter(rows.values())), device=device, value=[], line="")


def _compare_kind(facts: Sequence[Fact]) -> Iterator[Fact]:
    hosts_by_rows: dict[tuple[str, ...], list[Fact]] = defaultdict(list)
    for fact in facts:
        hosts_by_rows[tuple(_get_rows(fact))].append(fact)
    if len(hosts_by_rows) == 1:
        return
    parsed_rows = {rows: _parse_rows(rows) for rows in hosts_by_rows}
    shared = _count_majority(parsed_rows, {rows: len(members) for rows, members in hosts_by_rows.items()})
    for rows, members in hosts_by_rows.items():
        differences = list(_find_differences(str(members[0].device), parsed_rows[rows], shared))
        for fact in members:
            yield from _build_difference_facts(fact, differences, shared.of)


def _parse_rows(rows: Iterable[str]) -> dict[str, str]:
    """Return name → value; values of a repeated name are joined."""
    value_by_row: dict[str, str] = {}
    for row in rows:
        name, _, value = row.partition(NAME_VALUE_SEPARATOR)
        value_by_row[name] = f"{value_by_row[name]}, {value}" if name in value_by_row else value
    return value_by_row


def _count_majority(held: Mapping[tuple[str, ...], Mapping[str, str]], counts: Mapping[tuple[str, ...], int]) -> _GroupMajority:
    pairs, names = Counter[tuple[str, str]](), Counter[str]()
    for rows, own in held.items():
        for pair in own.items():
            pairs[pair] += counts[rows]
            names[pair[0]] += counts[rows]
    total = sum(counts.values())
    most = {name: (value, count) for (name, value), count in pairs.items() if 2 * count > total}
    alone = sum(counts[rows] for rows, own in held.items() if any(names[name] == 1 for name in own))
    return _GroupMajority(most, names, total, 2 * alone > total)


def _find_differences(kind: str, own: Mapping[str, str], shared: _GroupMajority) -> Iterator[tuple[str, str, str, int]]:
    """Yield (kind and name, own value, majority value, its number of hosts)."""
    for name, (value, count) in shared.most.items():
        if not _is_alike(own.get(name, ABSENT), value) and not _TRANSIENT_UNIT_PATTERN.match(f"{kind} {name}"):
            yield f"{kind} {name}", own.get(name, ABSENT), value, count
    for name, value in own.items():
        if (
            name not in shared.most
            and 2 * shared.names[name] < shared.of
            and not shared.personal
            and not _TRANSIENT_UNIT_PATTERN.match(f"{kind} {name}")
        ):
            yield f"{kind} {name}", value, ABSENT, shared.of - shared.names[name]


def _is_alike(one: str, other: str) -> bool:
    if one == other:
        return True
    if _SIZE_PATTERN.sub("#", one) != _SIZE_PATTERN.sub("#", other):
        return False
    pairs = zip(map(int, _SIZE_PATTERN.findall(one)), map(int, _SIZE_PATTERN.findall(other)), strict=True)
    return all(abs(a - b) <= MAX_RELATIVE_SIZE_DIFFERENCE * max(a, b) for a, b in pairs)


def _build_difference_facts(fact: Fact, found: Sequence[tuple[str, str, str, int]], of: int) -> Iterator[Fact]:
    for name, own, most, count in found[:MAX_DIFFERENCES_PER_KIND]:
        line = f"{name}: {own} here, {most} on {count} of {of} hosts"[:400]
        yield replace(fact, key=PEER_DIFFERS_KEY, value=own, device=name, line=line, attrs={"most": most, "hosts": count, "of": of})
    if len(found) > MAX_DIFFERENCES_PER_KIND:
        line = f"{fact.device}: {len(found) - MAX_DIFFERENCES_PER_KIND} more differ from most of {of} hosts, first {found[MAX_DIFFERENCES_PER_KIND][0]}"[
            :400
        ]
        attrs = {"most": "", "hosts": found[MAX_DIFFERENCES_PER_KIND][3], "of": of}
        yield replace(
            fact,
            key=PEER_DIFFERS_KEY,
            value=f"{len(found) - MAX_DIFFERENCES_PER_KIND} more",
            device=f"{fact.device} (more)",
            line=line,
            attrs=attrs,
        )


def is_telling(device: str) -> bool:
    """Return whether a difference deserves attention while the report is unexplained."""
    return (device.partition(" ")[0] in TELLING_KINDS and not CHECKED_SERVICE_PATTERN.match(device)) or device in TELLING_NAMES


def sort_rarest_first(facts: Iterable[Fact], words: Iterable[str] = ()) -> list[Fact]:
    """Sort differences by fit to the report, then telling kinds, then fewest hosts."""
    known_words = {word for text in words for word in _find_words(text)}

    def order(fact: Fact) -> tuple[int, bool, float, str, str]:
        fits = len(known_words & _find_words(f"{fact.device} {fact.value} {fact.attrs.get('most', '')}"))
        share = 1 - int(fact.attrs.get("hosts", 0)) / max(1, int(fact.attrs.get("of", 1)))
        return -fits, not is_telling(fact.device or ""), share, fact.host, fact.device or ""

    return sorted((fact for fact in facts if fact.key in (PEER_DIFFERS_KEY, PAST_DIFFERS_KEY)), key=order)


def _find_words(text: str) -> set[str]:
    return {word for word in re.findall(r"[a-z]{3,24}", text[:4000].lower()) if word not in _COMMON_WORDS}


# words common to most reports or differences
_COMMON_WORDS = frozenset(
    {"the", "and", "for", "with", "not", "are", "was", "has", "have", "from", "that", "this", "via", "dev", "gpu", "job"}
    | {"host", "hosts", "node", "nodes", "active", "loaded", "absent"}
)
