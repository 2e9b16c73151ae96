"""Find the subjects of a label: a GPU, an HCA, a host, the hosts of a switch or rack, or the job.

The facts that count for a device are its own, its host's and the job's.
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

MIN_PLACE_SHARE = 1 / 3  # share of a rack's or switch's hosts that must show a fact, at least two hosts
ENOUGH_HOSTS_OF_PLACE = 3  # this many always suffice: three hosts of one place rarely fail independently


@dataclass(frozen=True, slots=True)
class Subject:
    """What a label accuses.

    `hosts` is empty for a job. `device` is `gpu5`, `mlx5_3`, `rack:r2`, `leaf:l3`, `fabric` or empty.
    """

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
    """Hits of one leaf by device, by host, and of the job."""

    device: Mapping[tuple[str, str], ClueHits] = field(default_factory=lambda: defaultdict(list))
    host: Mapping[str, ClueHits] = field(default_factory=lambda: defaultdict(list))
    job: ClueHits = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class ObservedFacts:
    """The hosts on which each check was observed, and the facts of each key."""

    hosts_by_check: Mapping[str, set[str]] = field(default_factory=dict)
    facts_by_key: Mapping[str, Sequence[Fact]] = field(default_factory=dict)
    _counts: dict[str, Counter[str]] = field(default_factory=dict)

    def count_facts(self, host: str, key: str) -> int:
        """Return how many facts of a key a host shows, at least one. Cached per key."""
        if key not in self._counts:
            self._counts[key] = Counter(fact.host for fact in self.facts_by_key.get(key, ()))
        return self._counts[key][host] or 1


def find_subjects(leaf: Leaf, hits: ClueHits, reference: ReferenceData, observed_facts: ObservedFacts) -> dict[Subject, ClueHits]:
    """Return every supported subject with all hits that concern it."""
    match leaf.scope:
        case "gpu" | "hca":
            return _find_device_subjects(leaf, _sort_hits(leaf, hits))
        case "node":
            return _find_host_subjects(_sort_hits(leaf, hits))
        case "switch" | "rack":
            place_kind: PlaceKind = "rack" if leaf.scope == "rack" else "leaf"
            place_hits = _drop_few_device_hits(hits, observed_facts)
            return _find_place_subjects(place_hits, reference, observed_facts.hosts_by_check, place_kind)
        case "cluster":
            shared = _select_shared_hits(hits, observed_facts.hosts_by_check)
            return {Subject(): shared} if _has_supporting_hit(shared) else {}
        case _:
            return _find_job_subjects(leaf, hits)


def find_hosts_showing_cause(leaf: Leaf, hits: ClueHits, observed_facts: ObservedFacts) -> frozenset[str]:
    """Return the hosts that show decisive facts of a cause of many hosts, even if they are too few to prove it."""
    if leaf.scope not in ("switch", "rack", "cluster"):
        return frozenset()
    kept_hits = hits if leaf.scope == "cluster" else _drop_few_device_hits(hits, observed_facts)
    decisive_facts = [fact for clue, fact in kept_hits if fact.host and clue.decisive and clue.weight > 0]
    return frozenset(fact.host for fact in decisive_facts if not is_tenant_writable(fact.key) and not fact.attrs.get("aged"))


def _sort_hits(leaf: Leaf, hits: ClueHits) -> SortedHits:
    sorted_hits = SortedHits()
    for clue, fact in hits:
        if not fact.host:
            sorted_hits.job.append((clue, fact))
        elif device := _get_device(leaf, fact):
            sorted_hits.device[(fact.host, device)].append((clue, fact))
        else:
            sorted_hits.host[fact.host].append((clue, fact))
    return sorted_hits


def _get_device(leaf: Leaf, fact: Fact) -> str:
    """Return the device of the leaf's kind that a fact names, or an empty string. A job's log may name one, too."""
    fact_key = find_key(fact.key)
    if fact_key is not None and fact_key.scope == leaf.scope and fact.device:
        return fact.device
    return str(fact.attrs.get(leaf.scope) or "") if is_tenant_writable(fact.key) else ""


def _find_device_subjects(leaf: Leaf, hits: SortedHits) -> dict[Subject, ClueHits]:
    hits_by_subject: dict[Subject, ClueHits] = {}
    for (host, device), device_hits in hits.device.items():
        if _has_supporting_hit(device_hits):
            hits_by_subject[Subject((host,), device)] = [*device_hits, *hits.host.get(host, []), *hits.job]
    accused = {host for subject in hits_by_subject for host in subject.hosts}
    for host, host_hits in hits.host.items():
        if _has_supporting_hit(host_hits) and host not in accused:
            hits_by_subject[Subject((host,))] = [*host_hits, *hits.job]
    return hits_by_subject or ({Subject(): hits.job} if _has_supporting_hit(hits.job) else {})


def _find_host_subjects(hits: SortedHits) -> dict[Subject, ClueHits]:
    hits_by_subject = {Subject((host,)): [*host_hits, *hits.job] for host, host_hits in hits.host.items() if _has_supporting_hit(host_hits)}
    return hits_by_subject or ({Subject(): hits.job} if _has_supporting_hit(hits.job) else {})


def _find_job_subjects(leaf: Leaf, hits: ClueHits) -> dict[Subject, ClueHits]:
    """Return the hosts of a job's cause, grouped by equal clues. A host's facts count for its own group.

    A job's log is about the whole job, so facts of any host may contradict it. Facts of clues with `same_host` contradict
    it only if the log was read on their host.
    """
    log_hits = [(clue, fact) for clue, fact in hits if _is_of_whole_job(fact)]
    log_hosts = {fact.host for clue, fact in log_hits if clue.weight > 0}
    hits_by_host: dict[str, ClueHits] = defaultdict(list)
    for clue, fact in hits:
        if not _is_of_whole_job(fact):
            hits_by_host[fact.host].append((clue, fact))
    against = [hit for host_hits in hits_by_host.values() for hit in host_hits if hit[0].weight < 0]
    against_log = [(clue, fact) for clue, fact in against if not clue.same_host or fact.host in log_hosts or "" in log_hosts]
    hosts_by_clues: dict[frozenset[int], list[str]] = defaultdict(list)
    for host, own_hits in hits_by_host.items():
        if _has_supporting_hit(own_hits):
            hosts_by_clues[frozenset(id(clue) for clue, _ in own_hits)].append(host)
    hits_by_subject: dict[Subject, ClueHits] = {}
    for hosts in hosts_by_clues.values():
        own_hits = [hit for host in hosts for hit in hits_by_host[host]]
        decides = any(clue.decisive and clue.weight > 0 for clue, _ in own_hits)
        against_elsewhere = [] if decides else [(clue, fact) for clue, fact in against_log if fact.host not in hosts]
        hits_by_subject[Subject(tuple(sorted(hosts)))] = [*own_hits, *log_hits, *against_elsewhere]
    is_each_contradicted = all(
        any(clue.weight < 0 for clue, fact in subject_hits if fact.host) for subject_hits in hits_by_subject.values()
    )
    if _has_supporting_hit(log_hits) and is_each_contradicted:
        is_about_log_hosts = "" not in log_hosts and any(clue.same_host for clue in leaf.evidence)
        subject = Subject(tuple(sorted(log_hosts)) if is_about_log_hosts else ())
        hits_by_subject.setdefault(subject, [*log_hits, *against_log])
    return hits_by_subject


def _is_of_whole_job(fact: Fact) -> bool:
    return not fact.host or fact.key.startswith("job.")


def _find_place_subjects(
    hits: ClueHits, reference: ReferenceData, hosts_by_check: Mapping[str, set[str]], kind: PlaceKind
) -> dict[Subject, ClueHits]:
    """Return the racks or switches of which enough hosts show the same. Hosts of unknown place count as one place.

    Only facts of hosts that show the cause contradict it, as the other hosts may be spared.
    """
    hosts_by_place: dict[str, set[str]] = defaultdict(set)
    for host in {host for hosts in hosts_by_check.values() for host in hosts}:
        hosts_by_place[reference.place(host, kind)].add(host)
    hits_by_place: dict[str, ClueHits] = defaultdict(list)
    for clue, fact in hits:
        if fact.host:
            hits_by_place[reference.place(fact.host, kind)].append((clue, fact))
    job_hits = [(clue, fact) for clue, fact in hits if not fact.host]
    hits_by_subject: dict[Subject, ClueHits] = {}
    for place, place_hits in hits_by_place.items():
        support = [(clue, fact) for clue, fact in place_hits if clue.weight > 0]
        support = _select_place_hits(support, _restrict_hosts(hosts_by_check, hosts_by_place[place]))
        showing_hosts = {fact.host for _, fact in support}
        if len(showing_hosts) > 1:
            against = [(clue, fact) for clue, fact in place_hits if clue.weight < 0 and fact.host in showing_hosts]
            against = _select_shared_hits(against, _restrict_hosts(hosts_by_check, showing_hosts))
            subject = Subject(tuple(sorted(showing_hosts)), f"{kind}:{place}" if place else "")
            hits_by_subject[subject] = [*support, *against, *job_hits]
    return hits_by_subject


def _select_place_hits(hits: ClueHits, hosts_by_check: Mapping[str, set[str]]) -> ClueHits:
    """Keep the hits of clues that enough hosts of the place show."""
    hosts_by_clue = _group_hosts_by_clue(hits)
    kept_hits: ClueHits = []
    for clue, fact in hits:
        min_hosts = max(2, MIN_PLACE_SHARE * len(hosts_by_check.get(fact.check, ())))
        if len(hosts_by_clue[id(clue)]) >= min(ENOUGH_HOSTS_OF_PLACE, min_hosts):
            kept_hits.append((clue, fact))
    return kept_hits


def _group_hosts_by_clue(hits: ClueHits) -> Mapping[int, set[str]]:
    """Return the hosts that show each clue, by the clue's `id()`."""
    hosts_by_clue: dict[int, set[str]] = defaultdict(set)
    for clue, fact in hits:
        hosts_by_clue[id(clue)].add(fact.host)
    return hosts_by_clue


def _restrict_hosts(hosts_by_check: Mapping[str, set[str]], hosts: set[str]) -> dict[str, set[str]]:
    return {check: check_hosts & hosts for check, check_hosts in hosts_by_check.items()}


def _drop_few_device_hits(hits: ClueHits, observed_facts: ObservedFacts) -> ClueHits:
    """Drop hits that only a few devices of a host show: one hot GPU does not make a hot room."""
    counts = Counter((id(clue), fact.host) for clue, fact in hits)
    return [
        (clue, fact)
        for clue, fact in hits
        if not fact.device or counts[id(clue), fact.host] >= MIN_SHOWING_SHARE * observed_facts.count_facts(fact.host, fact.key)
    ]


def _select_shared_hits(hits: ClueHits, hosts_by_check: Mapping[str, set[str]]) -> ClueHits:
    """Keep hits that half of the hosts show. Contradictions need more than half; a job's log counts for the whole job."""
    hosts_by_clue = _group_hosts_by_clue(hits)

    def is_shared(clue: Clue, fact: Fact) -> bool:
        if not fact.host or is_tenant_writable(fact.key):
            return True
        hosts = hosts_by_clue[id(clue)] - {""}
        total = len(hosts_by_check.get(fact.check, hosts))
        return len(hosts) >= MIN_SHOWING_SHARE * total if clue.weight > 0 else 2 * len(hosts) > total

    return [(clue, fact) for clue, fact in hits if is_shared(clue, fact)]


def _has_supporting_hit(hits: Iterable[tuple[Clue, Fact]]) -> bool:
    return any(clue.weight > 0 for clue, _ in hits)
