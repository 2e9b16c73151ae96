"""Whom a label accuses: a GPU, an HCA, a host, the hosts of a switch or rack, or the job. Pure.

A leaf's scope selects the facts: a device's own, its host's, and the job's.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from graph.engine.reference_data import PlaceKind, ReferenceData, is_tenant_writable
from kb.fact_keys import find_key
from kb.taxonomy.taxonomy import Clue, Leaf
from tools.fact import Fact

ClueHits = list[tuple[Clue, Fact]]  # clues of one leaf with the facts that match them

MIN_SHOWING_SHARE = 0.5  # share of hosts that must show a fact of a shared cause

MIN_PLACE_SHARE = 1 / 3  # the same for a rack or switch, at least two hosts
ENOUGH_HOSTS_OF_PLACE = 3  # three of one place rarely fail independently


@dataclass(frozen=True, slots=True)
class Subject:
    """`hosts` is empty for a job. `device` is `gpu5`, `mlx5_3`, `rack:r2`, `leaf:l3`, `fabric` or empty."""

    hosts: tuple[str, ...] = ()
    device: str = ""

    @property
    def named_devices(self) -> tuple[str, ...]:
        """Devices as reports write them: `host/gpu5`."""
        if not self.device:
            return ()
        return (self.device,) if ":" in self.device or not self.hosts else tuple(f"{host}/{self.device}" for host in self.hosts)


@dataclass(slots=True)
class SortedHits:
    """Hits of one leaf by subject."""

    device: Mapping[tuple[str, str], ClueHits] = field(default_factory=lambda: defaultdict(list))
    host: Mapping[str, ClueHits] = field(default_factory=lambda: defaultdict(list))
    job: ClueHits = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class ObservedFacts:
    """`looked`: check → hosts on which it was observed; `by_key`: the facts of each key."""

    looked: Mapping[str, set[str]] = field(default_factory=dict)
    by_key: Mapping[str, Sequence[Fact]] = field(default_factory=dict)
    _counts: dict[str, Counter[str]] = field(default_factory=dict)

    def count_facts(self, host: str, key: str) -> int:
        """Return how many facts of a key a host shows, at least one. Cached per key."""
        if key not in self._counts:
            self._counts[key] = Counter(fact.host for fact in self.by_key.get(key, ()))
        return self._counts[key][host] or 1


def find_subjects(leaf: Leaf, hits: ClueHits, reference: ReferenceData, seen: ObservedFacts) -> dict[Subject, ClueHits]:
    """Return every supported subject with all hits that concern it."""
    match leaf.scope:
        case "gpu" | "hca":
            return _find_device_subjects(leaf, _sort_hits(leaf, hits))
        case "node":
            return _find_host_subjects(_sort_hits(leaf, hits))
        case "switch" | "rack":
            return _find_place_subjects(
                _drop_few_device_hits(hits, seen), reference, seen.looked, "rack" if leaf.scope == "rack" else "leaf"
            )
        case "cluster":
            shared = _select_shared_hits(hits, seen.looked)
            return {Subject(): shared} if _has_supporting_hit(shared) else {}
        case _:
            return _find_job_subjects(leaf, hits)


def find_hosts_showing_cause(leaf: Leaf, hits: ClueHits, seen: ObservedFacts) -> frozenset[str]:
    """Return hosts that show decisive facts of a cause of many hosts, enough of them or not."""
    if leaf.scope not in ("switch", "rack", "cluster"):
        return frozenset()
    kept_hits = hits if leaf.scope == "cluster" else _drop_few_device_hits(hits, seen)
    return frozenset(
        f.host for c, f in kept_hits if f.host and c.decisive and c.weight > 0 and not (is_tenant_writable(f.key) or f.attrs.get("aged"))
    )


def _sort_hits(leaf: Leaf, hits: ClueHits) -> SortedHits:
    rows = SortedHits()
    for clue, fact in hits:
        if not fact.host:
            rows.job.append((clue, fact))
        elif device := _get_device(leaf, fact):
            rows.device[(fact.host, device)].append((clue, fact))
        else:
            rows.host[fact.host].append((clue, fact))
    return rows


def _get_device(leaf: Leaf, fact: Fact) -> str:
    """Return the device of the leaf's kind that a fact names; a job's log may name one too."""
    row = find_key(fact.key)
    if row is not None and row.scope == leaf.scope and fact.device:
        return fact.device
    return str(fact.attrs.get(leaf.scope) or "") if is_tenant_writable(fact.key) else ""


def _find_device_subjects(leaf: Leaf, rows: SortedHits) -> dict[Subject, ClueHits]:
    hits_by_subject: dict[Subject, ClueHits] = {}
    for (host, device), own in rows.device.items():
        if _has_supporting_hit(own):
            hits_by_subject[Subject((host,), device)] = [*own, *rows.host.get(host, []), *rows.job]
    accused = {host for subject in hits_by_subject for host in subject.hosts}
    for host, own in rows.host.items():
        if _has_supporting_hit(own) and host not in accused:
            hits_by_subject[Subject((host,))] = [*own, *rows.job]
    return hits_by_subject or ({Subject(): rows.job} if _has_supporting_hit(rows.job) else {})


def _find_host_subjects(rows: SortedHits) -> dict[Subject, ClueHits]:
    hits_by_subject = {Subject((host,)): [*own, *rows.job] for host, own in rows.host.items() if _has_supporting_hit(own)}
    return hits_by_subject or ({Subject(): rows.job} if _has_supporting_hit(rows.job) else {})


def _find_job_subjects(leaf: Leaf, hits: ClueHits) -> dict[Subject, ClueHits]:
    """Return the hosts of a job's cause, grouped by equal clues; each host's facts count for its own group.

    A job's log speaks for the whole job, so any host's facts may contradict it, except clues with `same_host`: they
    count only on hosts whose log was read.
    """
    logs = [(clue, fact) for clue, fact in hits if _is_of_whole_job(fact)]
    readers = {fact.host for clue, fact in logs if clue.weight > 0}
    by_host: dict[str, ClueHits] = defaultdict(list)
    for clue, fact in hits:
        if not _is_of_whole_job(fact):
            by_host[fact.host].append((clue, fact))
    against = [hit for own in by_host.values() for hit in own if hit[0].weight < 0]
    against_logs = [(c, f) for c, f in against if not c.same_host or f.host in readers or "" in readers]
    by_clues: dict[frozenset[int], list[str]] = defaultdict(list)
    for host, own in by_host.items():
        if _has_supporting_hit(own):
            by_clues[frozenset(id(clue) for clue, _ in own)].append(host)
    hits_by_subject: dict[Subject, ClueHits] = {}
    for hosts in by_clues.values():
        own = [hit for host in hosts for hit in by_host[host]]
        decides = any(clue.decisive and clue.weight > 0 for clue, _ in own)
        elsewhere = [] if decides else [hit for hit in against_logs if hit[1].host not in hosts]
        hits_by_subject[Subject(tuple(sorted(hosts)))] = [*own, *logs, *elsewhere]
    if _has_supporting_hit(logs) and all(any(clue.weight < 0 for clue, fact in own if fact.host) for own in hits_by_subject.values()):
        of_hosts = "" not in readers and any(clue.same_host for clue in leaf.evidence)
        hits_by_subject.setdefault(Subject(tuple(sorted(readers)) if of_hosts else ()), [*logs, *against_logs])
    return hits_by_subject


def _is_of_whole_job(fact: Fact) -> bool:
    return not fact.host or fact.key.startswith("job.")


def _find_place_subjects(
    hits: ClueHits, reference: ReferenceData, looked: Mapping[str, set[str]], kind: PlaceKind
) -> dict[Subject, ClueHits]:
    """Return the racks or switches of which enough hosts show the same. Unknown places count as one.

    Only facts of hosts that show the cause contradict it; the others may be spared.
    """
    members: dict[str, set[str]] = defaultdict(set)
    for host in {host for hosts in looked.values() for host in hosts}:
        members[reference.place(host, kind)].add(host)
    showing: dict[str, ClueHits] = defaultdict(list)
    for clue, fact in hits:
        if fact.host:
            showing[reference.place(fact.host, kind)].append((clue, fact))
    job = [hit for hit in hits if not hit[1].host]
    hits_by_subject: dict[Subject, ClueHits] = {}
    for place, inside in showing.items():
        shared = _select_place_hits([hit for hit in inside if hit[0].weight > 0], _restrict_hosts(looked, members[place]))
        guilty = {fact.host for _, fact in shared}
        if len(guilty) > 1:
            against = [hit for hit in inside if hit[0].weight < 0 and hit[1].host in guilty]
            subject = Subject(tuple(sorted(guilty)), f"{kind}:{place}" if place else "")
            hits_by_subject[subject] = [*shared, *_select_shared_hits(against, _restrict_hosts(looked, guilty)), *job]
    return hits_by_subject


def _select_place_hits(hits: ClueHits, looked: Mapping[str, set[str]]) -> ClueHits:
    showing: dict[int, set[str]] = defaultdict(set)
    for clue, fact in hits:
        showing[id(clue)].add(fact.host)
    return [
        (clue, fact)
        for clue, fact in hits
        if len(showing[id(clue)]) >= min(ENOUGH_HOSTS_OF_PLACE, max(2, MIN_PLACE_SHARE * len(looked.get(fact.check, ()))))
    ]


def _restrict_hosts(looked: Mapping[str, set[str]], hosts: set[str]) -> dict[str, set[str]]:
    return {check: check_hosts & hosts for check, check_hosts in looked.items()}


def _drop_few_device_hits(hits: ClueHits, seen: ObservedFacts) -> ClueHits:
    """Drop what only few devices of a host show: one hot GPU is no hot room."""
    showing: dict[tuple[int, str], int] = defaultdict(int)
    for clue, fact in hits:
        showing[id(clue), fact.host] += 1
    return [(c, f) for c, f in hits if not f.device or showing[id(c), f.host] >= MIN_SHOWING_SHARE * seen.count_facts(f.host, f.key)]


def _select_shared_hits(hits: ClueHits, looked: Mapping[str, set[str]]) -> ClueHits:
    """Keep hits that enough hosts show; contradictions need more than half. A job's log counts for the whole job."""
    showing: dict[int, set[str]] = defaultdict(set)
    for clue, fact in hits:
        showing[id(clue)].add(fact.host)

    def enough(clue: Clue, fact: Fact) -> bool:
        if not fact.host or is_tenant_writable(fact.key):
            return True
        hosts = showing[id(clue)] - {""}
        total = len(looked.get(fact.check, hosts))
        return len(hosts) >= MIN_SHOWING_SHARE * total if clue.weight > 0 else 2 * len(hosts) > total

    return [(clue, fact) for clue, fact in hits if enough(clue, fact)]


def _has_supporting_hit(hits: Iterable[tuple[Clue, Fact]]) -> bool:
    return any(clue.weight > 0 for clue, _ in hits)
