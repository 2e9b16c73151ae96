"""Find how a host's baseline differs from most hosts of its kind, and from its own past.

A difference is a hint and no proof: the majority may be wrong. What all hosts share is not reported.
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
DIFFERENCE_KEYS = (PEER_DIFFERS_KEY, PAST_DIFFERS_KEY)
ABSENT = "absent"
MIN_PEERS = 3  # hosts needed for a majority
MAX_DIFFERENCES_PER_KIND = 8  # differences of one kind that are listed; the others become one fact
MAX_LINE_CHARS = 400
MAX_RELATIVE_SIZE_DIFFERENCE = 0.02  # sizes closer than this are equal, as firmware reserves a little memory
# Kinds in which a group's hosts must be alike. Other differences (packages, settings) are listed without suspicion.
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
# words common to most reports or differences
_COMMON_WORDS = frozenset(
    {"the", "and", "for", "with", "not", "are", "was", "has", "have", "from", "that", "this", "via", "dev", "gpu", "job"}
    | {"host", "hosts", "node", "nodes", "active", "loaded", "absent"}
)


@dataclass(frozen=True, slots=True)
class HostBaseline:
    """A host's rows by kind when it was last healthy."""

    at: datetime
    rows: Mapping[str, Sequence[str]]


@dataclass(slots=True)
class _GroupMajority:
    """What most hosts of a group have in one kind.

    Attributes:
        values: The majority value of each name, with the number of hosts that have it.
        names: The number of hosts that have each name.
        host_count: The number of hosts.
        has_unique_names: Whether most hosts have names that no other has, so that a unique name is no finding.
    """

    values: dict[str, tuple[str, int]]
    names: Counter[str]
    host_count: int
    has_unique_names: bool


def find_peer_differences(facts: Iterable[Fact], kind: Callable[[str], str]) -> list[Fact]:
    """Return one fact for each difference of a host from most hosts of its `kind`."""
    facts_by_host: dict[str, dict[str, Fact]] = defaultdict(dict)
    incomplete_hosts: set[str] = set()
    for fact in facts:
        if fact.key == BASELINE_ROWS_KEY and fact.status is Status.OK and fact.host and fact.device and isinstance(fact.value, list):
            facts_by_host[fact.host][fact.device] = fact
        elif fact.check == "base" and fact.status.blind:
            incomplete_hosts.add(fact.host)
    groups: dict[str, list[str]] = defaultdict(list)
    for host in facts_by_host:
        groups[kind(host)].append(host)
    differences: list[Fact] = []
    for hosts in groups.values():
        if len(hosts) >= MIN_PEERS:
            differences += _compare_group(hosts, facts_by_host, incomplete_hosts)
    return _drop_limits_of_absent_daemons(differences)


def _drop_limits_of_absent_daemons(facts: list[Fact]) -> list[Fact]:
    """Drop the limits of absent daemons, as the absence is a difference of its own."""
    absent_daemons = {(fact.host, str(fact.device).removeprefix("daemon ")) for fact in facts if fact.value == ABSENT and fact.device}
    kept_facts: list[Fact] = []
    for fact in facts:
        is_absent_limit = fact.value == ABSENT and str(fact.device).startswith("limit ")
        if is_absent_limit and (fact.host, str(fact.device).split(" ")[1]) in absent_daemons:
            continue
        kept_facts.append(fact)
    return kept_facts


def build_baselines(facts: Iterable[Fact]) -> dict[str, HostBaseline]:
    """Return the current baseline of each host that was read completely."""
    facts_by_host: dict[str, dict[str, Fact]] = defaultdict(dict)
    incomplete_hosts: set[str] = set()
    for fact in facts:
        if (
            fact.key == BASELINE_ROWS_KEY
            and fact.status is Status.OK
            and fact.host
            and fact.device
            and fact.time
            and isinstance(fact.value, list)
        ):
            facts_by_host[fact.host][fact.device] = fact
        elif fact.check == "base" and fact.status.blind:
            incomplete_hosts.add(fact.host)
    return {
        host: HostBaseline(
            max(fact.time for fact in facts_by_kind.values() if fact.time),
            {name: tuple(_get_rows(fact)) for name, fact in facts_by_kind.items()},
        )
        for host, facts_by_kind in facts_by_host.items()
        if host not in incomplete_hosts
    }


def find_past_differences(
    facts: Sequence[Fact], remembered_baselines: Mapping[str, HostBaseline], kind: Callable[[str], str]
) -> list[Fact]:
    """Return the differences of each host from its remembered baseline.

    Hosts of a kind with too few peers in this incident are also compared with remembered hosts of their kind.
    """
    current_facts = [fact for fact in facts if fact.key == BASELINE_ROWS_KEY and fact.status is Status.OK and fact.host]
    present_hosts = {fact.host for fact in current_facts}
    small_kinds = {name for name, count in Counter(map(kind, present_hosts)).items() if count < MIN_PEERS}
    remembered_facts = [
        Fact("base", BASELINE_ROWS_KEY, list(values), name, host=host, time=baseline.at)
        for host, baseline in remembered_baselines.items()
        if host not in present_hosts and kind(host) in small_kinds
        for name, values in baseline.rows.items()
    ]
    differences: list[Fact] = []
    if remembered_facts:
        compared_facts = [fact for fact in current_facts if kind(fact.host) in small_kinds]
        peer_differences = find_peer_differences([*compared_facts, *remembered_facts], kind)
        differences += [fact for fact in peer_differences if fact.host in present_hosts]
    for fact in current_facts:
        differences += _find_changes_since(fact, remembered_baselines.get(fact.host))
    return differences


def _find_changes_since(fact: Fact, previous_baseline: HostBaseline | None) -> Iterator[Fact]:
    kind = str(fact.device)
    if previous_baseline is None or kind not in previous_baseline.rows:
        return
    previous_values, current_values = _parse_rows(previous_baseline.rows[kind]), _parse_rows(_get_rows(fact))
    names = [
        name
        for name in {**previous_values, **current_values}
        if not _is_alike(current_values.get(name, ABSENT), previous_values.get(name, ABSENT))
        and not _TRANSIENT_UNIT_PATTERN.match(f"{kind} {name}")
    ]
    day = previous_baseline.at.date().isoformat()
    for name in names[:MAX_DIFFERENCES_PER_KIND]:
        before, now = previous_values.get(name, ABSENT), current_values.get(name, ABSENT)
        line = f"{kind} {name}: {now} now, {before} when it was last seen well on {day}"[:MAX_LINE_CHARS]
        attrs = {"before": before, "since": day}
        yield replace(fact, key=PAST_DIFFERS_KEY, value=now, device=f"{kind} {name}", line=line, attrs=attrs)


def _get_rows(fact: Fact) -> Sequence[str]:
    return fact.value if isinstance(fact.value, list) else ()


def _compare_group(
    hosts: Sequence[str], facts_by_host: Mapping[str, Mapping[str, Fact]], incomplete_hosts: Collection[str]
) -> Iterator[Fact]:
    """Compare the hosts of a group, kind by kind.

    A host without rows of a kind is taken to have none, unless a part of it could not be read.
    """
    for kind in dict.fromkeys(kind for host in hosts for kind in facts_by_host[host]):
        facts = [
            facts_by_host[host].get(kind) or _build_empty_fact(facts_by_host[host], kind)
            for host in hosts
            if kind in facts_by_host[host] or host not in incomplete_hosts
        ]
        if len(facts) >= MIN_PEERS:
            yield from _compare_kind(facts)


def _build_empty_fact(facts_by_kind: Mapping[str, Fact], kind: str) -> Fact:
    return replace(next(iter(facts_by_kind.values())), device=kind, value=[], line="")


def _compare_kind(facts: Sequence[Fact]) -> Iterator[Fact]:
    facts_by_rows: dict[tuple[str, ...], list[Fact]] = defaultdict(list)  # hosts with equal rows are compared once
    for fact in facts:
        facts_by_rows[tuple(_get_rows(fact))].append(fact)
    if len(facts_by_rows) == 1:
        return
    values_by_rows = {rows: _parse_rows(rows) for rows in facts_by_rows}
    majority = _count_majority(values_by_rows, {rows: len(equal_facts) for rows, equal_facts in facts_by_rows.items()})
    for rows, equal_facts in facts_by_rows.items():
        differences = list(_find_differences(str(equal_facts[0].device), values_by_rows[rows], majority))
        for fact in equal_facts:
            yield from _build_difference_facts(fact, differences, majority.host_count)


def _parse_rows(lines: Iterable[str]) -> dict[str, str]:
    """Return the value of each name. Values of a repeated name are joined."""
    value_by_name: dict[str, str] = {}
    for line in lines:
        name, _, value = line.partition(NAME_VALUE_SEPARATOR)
        value_by_name[name] = f"{value_by_name[name]}, {value}" if name in value_by_name else value
    return value_by_name


def _count_majority(values_by_rows: Mapping[tuple[str, ...], Mapping[str, str]], counts: Mapping[tuple[str, ...], int]) -> _GroupMajority:
    pairs, names = Counter[tuple[str, str]](), Counter[str]()
    for rows, values in values_by_rows.items():
        for pair in values.items():
            pairs[pair] += counts[rows]
            names[pair[0]] += counts[rows]
    total = sum(counts.values())
    majority_values = {name: (value, count) for (name, value), count in pairs.items() if 2 * count > total}
    hosts_with_unique_names = sum(counts[rows] for rows, values in values_by_rows.items() if any(names[name] == 1 for name in values))
    return _GroupMajority(majority_values, names, total, 2 * hosts_with_unique_names > total)


def _find_differences(kind: str, own_values: Mapping[str, str], majority: _GroupMajority) -> Iterator[tuple[str, str, str, int]]:
    """Yield each difference: kind and name, own value, majority value, and the number of hosts that have it."""
    for name, (value, count) in majority.values.items():
        if not _is_alike(own_values.get(name, ABSENT), value) and not _TRANSIENT_UNIT_PATTERN.match(f"{kind} {name}"):
            yield f"{kind} {name}", own_values.get(name, ABSENT), value, count
    for name, value in own_values.items():
        is_rare = name not in majority.values and 2 * majority.names[name] < majority.host_count
        if is_rare and not majority.has_unique_names and not _TRANSIENT_UNIT_PATTERN.match(f"{kind} {name}"):
            yield f"{kind} {name}", value, ABSENT, majority.host_count - majority.names[name]


def _is_alike(value: str, other_value: str) -> bool:
    """Return whether the values are equal, apart from small differences between sizes in them."""
    if value == other_value:
        return True
    if _SIZE_PATTERN.sub("#", value) != _SIZE_PATTERN.sub("#", other_value):
        return False
    sizes = map(int, _SIZE_PATTERN.findall(value))
    other_sizes = map(int, _SIZE_PATTERN.findall(other_value))
    return all(
        abs(size - other_size) <= MAX_RELATIVE_SIZE_DIFFERENCE * max(size, other_size)
        for size, other_size in zip(sizes, other_sizes, strict=True)
    )


def _build_difference_facts(fact: Fact, differences: Sequence[tuple[str, str, str, int]], host_count: int) -> Iterator[Fact]:
    for name, own_value, majority_value, count in differences[:MAX_DIFFERENCES_PER_KIND]:
        line = f"{name}: {own_value} here, {majority_value} on {count} of {host_count} hosts"[:MAX_LINE_CHARS]
        attrs = {"most": majority_value, "hosts": count, "of": host_count}
        yield replace(fact, key=PEER_DIFFERS_KEY, value=own_value, device=name, line=line, attrs=attrs)
    more_count = len(differences) - MAX_DIFFERENCES_PER_KIND
    if more_count > 0:
        first_name, _, _, count = differences[MAX_DIFFERENCES_PER_KIND]
        line = f"{fact.device}: {more_count} more differ from most of {host_count} hosts, first {first_name}"[:MAX_LINE_CHARS]
        attrs = {"most": "", "hosts": count, "of": host_count}
        yield replace(fact, key=PEER_DIFFERS_KEY, value=f"{more_count} more", device=f"{fact.device} (more)", line=line, attrs=attrs)


def is_telling(device: str) -> bool:
    """Return whether a difference deserves attention while the report is unexplained."""
    if device in TELLING_NAMES:
        return True
    return device.partition(" ")[0] in TELLING_KINDS and not CHECKED_SERVICE_PATTERN.match(device)


def sort_rarest_first(facts: Iterable[Fact], report_texts: Iterable[str] = ()) -> list[Fact]:
    """Return the differences: first those that share words with the report, then telling kinds, then the rarest."""
    report_words = {word for text in report_texts for word in _find_words(text)}

    def build_sort_key(fact: Fact) -> tuple[int, bool, float, str, str]:
        shared_words = report_words & _find_words(f"{fact.device} {fact.value} {fact.attrs.get('most', '')}")
        differing_share = 1 - int(fact.attrs.get("hosts", 0)) / max(1, int(fact.attrs.get("of", 1)))
        return -len(shared_words), not is_telling(fact.device or ""), differing_share, fact.host, fact.device or ""

    return sorted((fact for fact in facts if fact.key in DIFFERENCE_KEYS), key=build_sort_key)


def _find_words(text: str) -> set[str]:
    return {word for word in re.findall(r"[a-z]{3,24}", text[:4000].lower()) if word not in _COMMON_WORDS}
