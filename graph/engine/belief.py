"""Facts to log-odds per label and subject: the prior plus the weight of each matching clue, once each. Pure.

Unobserved checks weigh nothing. Tenant-writable facts weigh little against a machine and never convict it.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from graph.engine.fact_history import EVENT_KEY_PREFIXES, MAX_OLD_EVENTS_LOG_ODDS, format_rise, is_old
from graph.engine.reference_data import ReferenceData, can_be_proven_by_text, is_tenant_writable
from graph.engine.subjects import ClueHits, ObservedFacts, Subject, find_hosts_showing_cause, find_subjects
from kb.fact_keys import find_key
from kb.taxonomy.taxonomy import Clue, Leaf
from tools.fact import Fact, Status, Value

# cap where differences between hosts are the only support: posterior 0.6, a hint
MAX_DIFFERENCE_LOG_ODDS = math.log(0.6 / 0.4)

# cap on ticket words, similar incidents and a model's opinion together; never enough to confirm
MAX_TEXT_LOG_ODDS = 2.0

MAX_LOW_TRUST_LOG_ODDS = 2.5  # cap, for or against a machine, on tenant-writable facts unless trusted facts weigh more

CONFIRMED_POSTERIOR = 0.95  # posterior at which a label is confirmed
MIN_MAJORITY_OBSERVATIONS = 3  # observations needed to speak of a majority

# keys that only state a difference from peers or from the host's past
DIFFERENCE_KEYS = ("peer.differs", "past.differs")

# keys whose faults belong to a single link (cable, slot). If most links agree and none meets the profile, the profile
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
        """Whether it may confirm: decisive, current, no mere difference, not imported from another RackMedic."""
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
        """Guilty hosts; those behind a bad switch or running a bad job only suffer from it."""
        return () if self.leaf.scope in ("switch", "job") else self.subject.hosts

    @property
    def posterior(self) -> float:
        return 1 / (1 + math.exp(-max(-30.0, min(30.0, self.log_odds))))

    @property
    def deciding(self) -> tuple[ClueMatch, ...]:
        """Matches that may confirm it; tenant-writable text never convicts a machine."""
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
    most: Value
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
    by_key: Mapping[str, list[Fact]]
    _majority: dict[tuple[str, str], Value] = field(default_factory=dict)
    _alike: dict[str, list[AlikeFacts]] = field(default_factory=dict)
    # key → value → indexes into the groups of alike facts
    _places: dict[str, dict[object, list[int]]] = field(default_factory=dict)
    _doubts: dict[str, list[ProfileDoubt]] = field(default_factory=dict)

    @classmethod
    def from_facts(cls, facts: Iterable[Fact], reference: ReferenceData) -> "ClueMatcher":
        by_key: dict[str, list[Fact]] = defaultdict(list)
        for fact in facts:
            if fact.key and not fact.status.blind:
                by_key[fact.key].append(fact)
        return cls(reference, by_key)

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
        course = format_event_history(fact)
        return f"{sentence} ({course})" if course else sentence

    def _select_for_clue(self, clue: Clue) -> list[AlikeFacts]:
        """Skip facts whose value the clue rules out: logs yield many values."""
        rows, values = self._group_alike(clue.key), clue.expression.values
        if values is None or len(rows) <= _MAX_UNINDEXED_FACTS:
            return rows
        if clue.key not in self._places:
            places = self._places[clue.key] = defaultdict(list)
            for place, row in enumerate(rows):
                places[row.first.value if isinstance(row.first.value, bool | int | float | str) else None].append(place)
        place_by_host = self._places[clue.key]
        return [rows[place] for place in sorted(place for value in values for place in place_by_host.get(value, ()))]

    def _group_alike(self, key: str) -> list[AlikeFacts]:
        if key not in self.by_key:
            return []
        if key not in self._alike:
            mentions = frozenset().union(*(clue.expression.mentions for _, clue in self.reference.taxonomy.list_clues(key)))
            groups: dict[tuple[object, ...], AlikeFacts] = {}
            for fact in self.by_key[key]:
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
        return next((doubt.most for doubt in self.find_doubts(fact.key) if doubt.expected == expected), expected)

    def find_doubts(self, key: str) -> list[ProfileDoubt]:
        if key not in self._doubts:
            self._doubts[key] = find_profile_doubts(self.by_key.get(key, ()), self.reference)
        return self._doubts[key]

    def _get_peer_majority(self, fact: Fact) -> Value:
        """Compare GPUs with each other, other devices by name first, then HCAs with each other."""
        row = find_key(fact.key)
        scope = row.scope if row else ""
        if scope not in ("gpu", "host", "nvswitch", "rank", "process") and fact.device:
            most = self._get_majority(fact.key, fact.device)
            if most is not None or scope != "hca":
                return most
        return self._get_majority(fact.key, "")

    def _get_majority(self, key: str, device: str) -> Value:
        if (key, device) not in self._majority:
            peers = (f for f in self.by_key.get(key, ()) if f.status is Status.OK and f.host and not f.stale)
            self._majority[key, device] = _find_majority([f for f in peers if device in ("", f.device)])
        return self._majority[key, device]


def _get_distinct_key(value: Value) -> object:
    """Keep 1, True and 1.0 apart."""
    kind = value.__class__
    return value if kind is str or value is None else (kind, value) if kind in (bool, int, float) else repr(value)


def find_profile_doubts(facts: Sequence[Fact], reference: ReferenceData) -> list[ProfileDoubt]:
    """Return profile values that no link meets while most agree on another value, on several hosts.

    Then the profile, or something shared, is in doubt rather than each link.
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
    most, times = counts.most_common(1)[0]
    met = isinstance(expected, int | float) and any(value >= expected for value in counts)
    enough = (
        len(links) >= MIN_MAJORITY_OBSERVATIONS and 2 * times > len(links) and len({fact.host for fact in links if fact.value == most}) > 1
    )
    return ProfileDoubt(expected, most, next(fact for fact in links if fact.value == most)) if enough and not met else None


def _to_number(value: Value) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _matches_clue(clue: Clue, alike: AlikeFacts) -> bool:
    """Ignore support from side effects of another error (unless asked for) and from ports of another network."""
    if clue.weight > 0 and alike.first.attrs.get("sympathetic") and "sympathetic" not in clue.when:
        return False
    if clue.weight > 0 and alike.first.attrs.get("elsewhere"):
        return False
    return clue.matches(alike.first, alike.expected, alike.majority)


def _find_majority(facts: Sequence[Fact]) -> Value:
    counts = Counter(repr(fact.value) for fact in facts)
    if sum(counts.values()) < MIN_MAJORITY_OBSERVATIONS:
        return None
    value, times = counts.most_common(1)[0]
    return next(f.value for f in facts if repr(f.value) == value) if times * 2 > len(facts) else None


def compute_beliefs(facts: Sequence[Fact], matcher: ClueMatcher, priors: Mapping[str, float]) -> list[Belief]:
    """Return a belief per supported label and subject and a bare one per other label, most likely first."""
    reference = matcher.reference
    observed = ObservedFacts(group_hosts_by_check(facts), matcher.by_key)
    rows: list[Belief] = []
    for leaf in reference.taxonomy.leaves.values():
        start = leaf.prior + max(-MAX_TEXT_LOG_ODDS, min(MAX_TEXT_LOG_ODDS, priors.get(leaf.label, 0.0)))
        hits = matcher.find_hits(leaf)
        subjects = find_subjects(leaf, hits, reference, observed)
        beliefs = [_weigh_clues(leaf, subject, start, own, matcher) for subject, own in subjects.items()]
        if not subjects:
            beliefs = [_weigh_clues(leaf, Subject(), start, [hit for hit in hits if hit[0].weight < 0], matcher)]
        if hits and (few := find_hosts_showing_cause(leaf, hits, observed)):
            beliefs = [row if row.proven else replace(row, showing_hosts=few) for row in beliefs]
        rows += beliefs
    return sorted(rows, key=lambda b: (-b.log_odds, b.label, b.subject.hosts, b.subject.device))


def group_hosts_by_check(facts: Iterable[Fact]) -> dict[str, set[str]]:
    """Return check → hosts on which it was observed."""
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
    most = max(MAX_LOW_TRUST_LOG_ODDS, sum(weight for weight in trusted if weight > 0))
    odds = start + sum(trusted) + max(-MAX_LOW_TRUST_LOG_ODDS, min(most, doubted))
    odds = min(odds, max(start, MAX_OLD_EVENTS_LOG_ODDS)) if has_only_old_events(m.fact for m in matches if m.weight > 0) else odds
    return Belief(
        leaf,
        subject,
        min(odds, MAX_DIFFERENCE_LOG_ODDS) if _has_only_differences(matches) else odds,
        support=tuple(
            sorted((m for m in matches if m.weight > 0), key=lambda m: (not m.decides, _is_low_trust(m.fact), -m.weight, m.clue.id))
        ),
        against=tuple(sorted((m for m in matches if m.weight < 0), key=lambda m: (m.weight, m.clue.id))),
        shown=frozenset(fact.host for clue, fact in hits if clue.weight > 0 and fact.host),
        explains=frozenset(id(fact) for clue, fact in hits if clue.weight > 0),
    )


def _has_only_differences(matches: Iterable[ClueMatch]) -> bool:
    speaking = [match.fact.key for match in matches if match.weight > 0]
    return bool(speaking) and all(key in DIFFERENCE_KEYS for key in speaking)


def format_event_history(fact: Fact) -> str:
    """Return how often and when an event occurred, or how far a counter rose; empty if unknown."""
    return str(fact.attrs.get("chronic") or format_rise(fact)) if fact.attrs else ""


def has_only_old_events(support: Iterable[Fact]) -> bool:
    """Return whether all support is old machine events; False without support."""
    facts = list(support)
    return bool(facts) and all(map(is_old, facts))


def _compute_weight(clue: Clue, fact: Fact) -> float:
    """Count an aged event half for a cause and not at all against one."""
    return max(0.0, clue.weight / 2) if fact.attrs.get("aged") else clue.weight


def _is_low_trust(fact: Fact) -> bool:
    return not fact.host or is_tenant_writable(fact.key)


def _get_clue_sort_key(fact: Fact, leaf: Leaf) -> tuple[bool, bool, float, str, str, int]:
    """Prefer observed to handed in, recent to aged, earliest (causes precede effects), then the leaf's check order."""
    when = fact.time.timestamp() if fact.time and fact.key.startswith(EVENT_KEY_PREFIXES) else math.inf
    place = leaf.checks.index(fact.check) if fact.check in leaf.checks else len(leaf.checks)
    return (not fact.host, bool(fact.attrs.get("aged")), when, fact.host, fact.device or "", place)
