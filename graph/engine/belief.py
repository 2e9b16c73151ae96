"""Compute how likely each label is for each subject, in log-odds: its prior plus the weight of each matching clue.

A clue counts once. Unobserved checks weigh nothing. Tenant-writable facts weigh little against a machine, and never
prove that it is faulty.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from graph.engine.counter_rises import format_rise
from graph.engine.fact_history import EVENT_KEY_PREFIXES, MAX_OLD_EVENTS_LOG_ODDS, is_old
from graph.engine.peer_differences import DIFFERENCE_KEYS
from graph.engine.reference_data import ReferenceData, can_be_proven_by_text, is_tenant_writable
from graph.engine.subjects import ClueHits, ObservedFacts, Subject, find_hosts_showing_cause, find_subjects
from kb.fact_keys import find_key
from kb.taxonomy.taxonomy import Clue, Leaf
from tools.fact import Fact, Status, Value

# Cap on log-odds if differences between hosts are the only support. It is a posterior of 0.6, a hint.
MAX_DIFFERENCE_LOG_ODDS = math.log(0.6 / 0.4)

# Cap on the sum of a ticket's words, similar incidents and a model's opinion. It is never enough to confirm.
MAX_TEXT_LOG_ODDS = 2.0

MAX_LOW_TRUST_LOG_ODDS = 2.5  # cap on tenant-writable facts about a machine, unless trusted facts weigh more

CONFIRMED_POSTERIOR = 0.95  # posterior at which a label is confirmed
MIN_MAJORITY_OBSERVATIONS = 3  # observations needed to speak of a majority

# Keys whose faults belong to a single link (cable, slot). If most links agree and none meets the profile, the profile
# is in doubt.
LINK_KEYS = ("ib.rate", "nvlink.speed", "pcie.speed", "pcie.width")

_MAX_UNINDEXED_FACTS = 8  # up to this many facts a linear scan is faster than the index


@dataclass(frozen=True, slots=True)
class ClueMatch:
    """A clue, the fact that matches it, and the match in words."""

    clue: Clue
    fact: Fact
    weight: float
    says: str

    @property
    def decides(self) -> bool:
        """Whether it may confirm a cause: it is decisive, current, no mere difference, and not from another RackMedic."""
        return (
            self.clue.decisive
            and self.weight > 0
            and self.fact.key not in DIFFERENCE_KEYS
            and not (self.fact.attrs.get("aged") or self.fact.attrs.get("told"))
        )


@dataclass(frozen=True, slots=True)
class Belief:
    """The likelihood of one label for one subject, with its reasons."""

    leaf: Leaf
    subject: Subject
    log_odds: float
    support: tuple[ClueMatch, ...] = ()
    against: tuple[ClueMatch, ...] = ()
    shown: frozenset[str] = frozenset()  # hosts that show any supporting fact
    showing_hosts: frozenset[str] = frozenset()  # hosts that show decisive facts of a cause of many hosts that is not proven
    explains: frozenset[int] = frozenset()  # ids of all supporting facts, cited or not

    @property
    def label(self) -> str:
        return self.leaf.label

    @property
    def accused(self) -> tuple[str, ...]:
        """The faulty hosts. Hosts behind a bad switch, or those of a bad job, only suffer from it."""
        return () if self.leaf.scope in ("switch", "job") else self.subject.hosts

    @property
    def posterior(self) -> float:
        return 1 / (1 + math.exp(-max(-30.0, min(30.0, self.log_odds))))

    @property
    def deciding(self) -> tuple[ClueMatch, ...]:
        """The matches that may confirm it. Tenant-writable text never proves that a machine is faulty."""
        return tuple(
            m
            for m in self.support
            if m.decides and (can_be_proven_by_text(self.leaf) or (m.fact.host and not is_tenant_writable(m.fact.key)))
        )

    @property
    def proven(self) -> bool:
        return (
            self.posterior >= CONFIRMED_POSTERIOR
            and bool(self.deciding)
            and (self.leaf.min_hosts <= 1 or len(self.shown) >= self.leaf.min_hosts)
        )


@dataclass(frozen=True, slots=True)
class ProfileDoubt:
    """A profile value that no link meets, the majority value, and a fact that shows it."""

    expected: Value
    majority: Value
    fact: Fact


@dataclass(slots=True)
class AlikeFacts:
    """Facts of one key that no clue can distinguish, grouped for speed."""

    first: Fact
    expected: Value
    majority: Value
    facts: list[Fact]


@dataclass(slots=True)
class ClueMatcher:
    """Matches clues against facts, indexed by key."""

    reference: ReferenceData
    facts_by_key: Mapping[str, list[Fact]]
    _majority: dict[tuple[str, str], Value] = field(default_factory=dict)
    _alike: dict[str, list[AlikeFacts]] = field(default_factory=dict)
    # key → value → indexes into the groups of alike facts
    _indexes: dict[str, dict[object, list[int]]] = field(default_factory=dict)
    _doubts: dict[str, list[ProfileDoubt]] = field(default_factory=dict)

    @classmethod
    def from_facts(cls, facts: Iterable[Fact], reference: ReferenceData) -> "ClueMatcher":
        facts_by_key: dict[str, list[Fact]] = defaultdict(list)
        for fact in facts:
            if fact.key and not fact.status.blind:
                facts_by_key[fact.key].append(fact)
        return cls(reference, facts_by_key)

    def find_hits(self, leaf: Leaf) -> ClueHits:
        """Return every clue of a leaf with every fact that matches it."""
        return [
            (clue, fact)
            for clue in leaf.evidence
            for matching_fact in self._select_for_clue(clue)
            if _matches_clue(clue, matching_fact)
            for fact in matching_fact.facts
        ]

    def format_match(self, clue: Clue, fact: Fact) -> str:
        sentence = clue.format_sentence(fact, self.get_expected(fact), self._get_peer_majority(fact))
        event_history = format_event_history(fact)
        return f"{sentence} ({event_history})" if event_history else sentence

    def _select_for_clue(self, clue: Clue) -> list[AlikeFacts]:
        """Return the groups of alike facts that the clue may match. Logs yield many values, so an index skips most."""
        groups, values = self._group_alike(clue.key), clue.expression.values
        if values is None or len(groups) <= _MAX_UNINDEXED_FACTS:
            return groups
        if clue.key not in self._indexes:
            self._indexes[clue.key] = defaultdict(list)
            for index, group in enumerate(groups):
                value = group.first.value if isinstance(group.first.value, bool | int | float | str) else None
                self._indexes[clue.key][value].append(index)
        indexes_by_value = self._indexes[clue.key]
        return [groups[index] for index in sorted(index for value in values for index in indexes_by_value.get(value, ()))]

    def _group_alike(self, key: str) -> list[AlikeFacts]:
        if key not in self.facts_by_key:
            return []
        if key not in self._alike:
            mentions = frozenset().union(*(clue.expression.mentions for _, clue in self.reference.taxonomy.list_clues(key)))
            groups: dict[tuple[object, ...], AlikeFacts] = {}
            for fact in self.facts_by_key[key]:
                expected = self.get_expected(fact) if "expected" in mentions else None
                majority = self._get_peer_majority(fact) if "majority" in mentions else None
                device = fact.device if "device" in mentions else ""
                attrs = repr(fact.attrs) if fact.attrs else ""
                name = (
                    _get_distinct_key(fact.value),
                    fact.status,
                    fact.stale,
                    fact.unit,
                    device,
                    attrs,
                    _get_distinct_key(expected),
                    _get_distinct_key(majority),
                )
                groups.setdefault(name, AlikeFacts(fact, expected, majority, [])).facts.append(fact)
            self._alike[key] = list(groups.values())
        return self._alike[key]

    def get_expected(self, fact: Fact) -> Value:
        """Return the profile's value, or the majority's if all links contradict the profile."""
        expected = self.reference.expected(fact.host, fact.key, fact.device) if fact.host else None
        if expected is None or fact.key not in LINK_KEYS:
            return expected
        return next((doubt.majority for doubt in self.find_doubts(fact.key) if doubt.expected == expected), expected)

    def find_doubts(self, key: str) -> list[ProfileDoubt]:
        if key not in self._doubts:
            self._doubts[key] = find_profile_doubts(self.facts_by_key.get(key, ()), self.reference)
        return self._doubts[key]

    def _get_peer_majority(self, fact: Fact) -> Value:
        """Return the majority value of the fact's peers.

        GPUs are compared with each other. Other devices are compared with those of the same name on other hosts, and
        HCAs without a majority there with all HCAs.
        """
        fact_key = find_key(fact.key)
        scope = fact_key.scope if fact_key else ""
        if scope not in ("gpu", "host", "nvswitch", "rank", "process") and fact.device:
            majority = self._get_majority(fact.key, fact.device)
            if majority is not None or scope != "hca":
                return majority
        return self._get_majority(fact.key, "")

    def _get_majority(self, key: str, device: str) -> Value:
        if (key, device) not in self._majority:
            peers = [fact for fact in self.facts_by_key.get(key, ()) if fact.status is Status.OK and fact.host and not fact.stale]
            self._majority[key, device] = _find_majority([fact for fact in peers if device in ("", fact.device)])
        return self._majority[key, device]


def _get_distinct_key(value: Value) -> object:
    """Return a dictionary key for a value that keeps 1, True and 1.0 apart."""
    kind = value.__class__
    if kind is str or value is None:
        return value
    return (kind, value) if kind in (bool, int, float) else repr(value)


def find_profile_doubts(facts: Sequence[Fact], reference: ReferenceData) -> list[ProfileDoubt]:
    """Return profile values that no link meets, while most links on several hosts agree on another value.

    Then the profile, or something that the links share, is in doubt rather than each link.
    """
    facts_by_value: dict[Value, list[Fact]] = defaultdict(list)
    for fact in facts:
        if fact.status is Status.OK and fact.host and not fact.stale and _to_number(fact.value) is not None:
            expected = reference.expected(fact.host, fact.key, fact.device)
            if isinstance(expected, int | float) and not isinstance(expected, bool):
                facts_by_value[expected].append(fact)
    return [doubt for expected, links in facts_by_value.items() if (doubt := _build_doubt(expected, links)) is not None]


def _build_doubt(expected: Value, links: Sequence[Fact]) -> ProfileDoubt | None:
    counts = Counter(fact.value for fact in links if isinstance(fact.value, int | float))
    majority, count = counts.most_common(1)[0]
    if isinstance(expected, int | float) and any(value >= expected for value in counts):
        return None
    majority_facts = [fact for fact in links if fact.value == majority]
    is_majority = len(links) >= MIN_MAJORITY_OBSERVATIONS and 2 * count > len(links)
    is_on_several_hosts = len({fact.host for fact in majority_facts}) > 1
    return ProfileDoubt(expected, majority, majority_facts[0]) if is_majority and is_on_several_hosts else None


def _to_number(value: Value) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _matches_clue(clue: Clue, alike: AlikeFacts) -> bool:
    """Return whether the clue matches the facts.

    Side effects of another error, unless the clue asks for them, and events of devices that the host does not have
    support no cause.
    """
    if clue.weight > 0 and alike.first.attrs.get("sympathetic") and "sympathetic" not in clue.when:
        return False
    if clue.weight > 0 and alike.first.attrs.get("elsewhere"):
        return False
    return clue.matches(alike.first, alike.expected, alike.majority)


def _find_majority(facts: Sequence[Fact]) -> Value:
    counts = Counter(repr(fact.value) for fact in facts)
    if sum(counts.values()) < MIN_MAJORITY_OBSERVATIONS:
        return None
    majority, count = counts.most_common(1)[0]
    if 2 * count <= len(facts):
        return None
    return next(fact.value for fact in facts if repr(fact.value) == majority)


def compute_beliefs(facts: Sequence[Fact], matcher: ClueMatcher, priors: Mapping[str, float]) -> list[Belief]:
    """Return a belief for each subject of each label, most likely first. A label without support gets one without a subject."""
    reference = matcher.reference
    observed = ObservedFacts(group_hosts_by_check(facts), matcher.facts_by_key)
    all_beliefs: list[Belief] = []
    for leaf in reference.taxonomy.leaves.values():
        start = leaf.prior + max(-MAX_TEXT_LOG_ODDS, min(MAX_TEXT_LOG_ODDS, priors.get(leaf.label, 0.0)))
        hits = matcher.find_hits(leaf)
        subjects = find_subjects(leaf, hits, reference, observed)
        beliefs = [_weigh_clues(leaf, subject, start, subject_hits, matcher) for subject, subject_hits in subjects.items()]
        if not subjects:
            beliefs = [_weigh_clues(leaf, Subject(), start, [hit for hit in hits if hit[0].weight < 0], matcher)]
        showing_hosts = find_hosts_showing_cause(leaf, hits, observed) if hits else frozenset()
        if showing_hosts:
            beliefs = [belief if belief.proven else replace(belief, showing_hosts=showing_hosts) for belief in beliefs]
        all_beliefs += beliefs
    return sorted(all_beliefs, key=lambda belief: (-belief.log_odds, belief.label, belief.subject.hosts, belief.subject.device))


def group_hosts_by_check(facts: Iterable[Fact]) -> dict[str, set[str]]:
    """Return the hosts on which each check was observed."""
    hosts_by_check: dict[str, set[str]] = defaultdict(set)
    for fact in facts:
        if fact.host and not fact.status.blind:
            hosts_by_check[fact.check].add(fact.host)
    return hosts_by_check


def _weigh_clues(leaf: Leaf, subject: Subject, start: float, hits: ClueHits, matcher: ClueMatcher) -> Belief:
    best: dict[str, tuple[Clue, Fact]] = {}
    for clue, fact in hits:
        if clue.id not in best or _get_clue_sort_key(fact, leaf) < _get_clue_sort_key(best[clue.id][1], leaf):
            best[clue.id] = (clue, fact)
    matches = [ClueMatch(clue, fact, _compute_weight(clue, fact), matcher.format_match(clue, fact)) for clue, fact in best.values()]
    trusted = [m.weight for m in matches if can_be_proven_by_text(leaf) or not _is_low_trust(m.fact)]
    doubted = sum(m.weight for m in matches if not can_be_proven_by_text(leaf) and _is_low_trust(m.fact))
    low_trust_cap = max(MAX_LOW_TRUST_LOG_ODDS, sum(weight for weight in trusted if weight > 0))
    log_odds = start + sum(trusted) + max(-MAX_LOW_TRUST_LOG_ODDS, min(low_trust_cap, doubted))
    support = [match for match in matches if match.weight > 0]
    against = [match for match in matches if match.weight < 0]
    if has_only_old_events(match.fact for match in support):
        log_odds = min(log_odds, max(start, MAX_OLD_EVENTS_LOG_ODDS))
    return Belief(
        leaf,
        subject,
        min(log_odds, MAX_DIFFERENCE_LOG_ODDS) if _has_only_differences(matches) else log_odds,
        support=tuple(sorted(support, key=lambda m: (not m.decides, _is_low_trust(m.fact), -m.weight, m.clue.id))),
        against=tuple(sorted(against, key=lambda m: (m.weight, m.clue.id))),
        shown=frozenset(fact.host for clue, fact in hits if clue.weight > 0 and fact.host),
        explains=frozenset(id(fact) for clue, fact in hits if clue.weight > 0),
    )


def _has_only_differences(matches: Iterable[ClueMatch]) -> bool:
    supporting_keys = {match.fact.key for match in matches if match.weight > 0}
    return bool(supporting_keys) and supporting_keys.issubset(DIFFERENCE_KEYS)


def format_event_history(fact: Fact) -> str:
    """Return how often and when an event occurred, or how far a counter rose; empty if unknown."""
    return str(fact.attrs.get("chronic") or format_rise(fact)) if fact.attrs else ""


def has_only_old_events(support: Iterable[Fact]) -> bool:
    """Return whether there is support and all of it is old machine events."""
    facts = list(support)
    return bool(facts) and all(map(is_old, facts))


def _compute_weight(clue: Clue, fact: Fact) -> float:
    """Return the weight of a match. An aged event counts half for a cause, and nothing against one."""
    return max(0.0, clue.weight / 2) if fact.attrs.get("aged") else clue.weight


def _is_low_trust(fact: Fact) -> bool:
    return not fact.host or is_tenant_writable(fact.key)


def _get_clue_sort_key(fact: Fact, leaf: Leaf) -> tuple[bool, bool, float, str, str, int]:
    """Sort observed before uploaded facts, recent before aged ones, then by time (causes precede effects) and check."""
    event_time = fact.time.timestamp() if fact.time and fact.key.startswith(EVENT_KEY_PREFIXES) else math.inf
    check_order = leaf.checks.index(fact.check) if fact.check in leaf.checks else len(leaf.checks)
    return (not fact.host, bool(fact.attrs.get("aged")), event_time, fact.host, fact.device or "", check_order)
