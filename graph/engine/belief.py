"""Facts to log-odds: for every label and subject the prior plus the weight of each clue that matches, once each. Pure.

What was not looked at weighs nothing. What a tenant can write weighs little where a machine is accused, and proves nothing there.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from graph.engine.age import EVENTS, OLD_ALONE, is_old
from graph.engine.reference import Lens, is_text, may_be_text
from graph.engine.rises import rise_in_words
from graph.engine.subjects import Hits, Observed, Subject, few_that_show, subjects
from kb.keys import find
from kb.taxonomy.labels import Clue, Leaf
from tools.fact import Fact, Status, Value

ALONE = math.log(0.6 / 0.4)
"""Most log-odds where nothing speaks for a cause but that a host differs from others: 0.6, a hint and no accusation."""

TEXT_CAP = 2.0
"""Most log-odds that a ticket's words, similar incidents and a model's opinion may add together: never enough to confirm."""

LOW_TRUST_CAP = 2.5
"""Most log-odds, for or against, that tenant-writable facts may add where a machine is accused, unless what was really seen weighs more."""

CERTAIN, ENOUGH_TO_COUNT = 0.95, 3
"""Posterior at which a label is confirmed; observations it takes to speak of a majority."""

DIFFERENCES = ("peer.differs", "past.differs")
"""Keys that only say what a host has and others have not, or what it had before."""

OF_LINKS = ("ib.rate", "nvlink.speed", "pcie.speed", "pcie.width")
"""Keys whose faults are a single link's own: a cable, a slot. What most links say and none exceeds is what they are, whatever a profile says."""


_FEW = 8
"""Facts that are asked one by one sooner than they are sorted by value."""


@dataclass(frozen=True, slots=True)
class Match:
    """A clue and the fact that shows it, said in words."""

    clue: Clue
    fact: Fact
    weight: float
    says: str

    @property
    def decides(self) -> bool:
        """Whether this may confirm the label: decisive, of now, really seen on a host or in the job's log, and not what another RackMedic told."""
        return (
            self.clue.decisive
            and self.weight > 0
            and self.fact.key not in DIFFERENCES
            and not (self.fact.attrs.get("aged") or self.fact.attrs.get("told"))
        )


@dataclass(frozen=True, slots=True)
class Belief:
    """How likely one label is of one subject, and why."""

    leaf: Leaf
    subject: Subject
    log_odds: float
    support: tuple[Match, ...] = ()
    against: tuple[Match, ...] = ()
    shown: frozenset[str] = frozenset()
    """Hosts that show any of it."""
    few: frozenset[str] = frozenset()
    """Hosts that show what would decide a cause of many hosts, where that is not proven."""
    explains: frozenset[int] = frozenset()
    """Identities of all facts that speak for it, also those not cited."""

    @property
    def label(self) -> str:
        return self.leaf.label

    @property
    def accused(self) -> tuple[str, ...]:
        """Guilty hosts. Those behind a bad switch, and those that run a bad job, only suffer from it."""
        return () if self.leaf.scope in ("switch", "job") else self.subject.hosts

    @property
    def posterior(self) -> float:
        return 1 / (1 + math.exp(-max(-30.0, min(30.0, self.log_odds))))

    @property
    def deciding(self) -> tuple[Match, ...]:
        """Matches that may confirm it. Nobody is accused on words that a tenant could have written."""
        return tuple(m for m in self.support if m.decides and (may_be_text(self.leaf) or (m.fact.host and not is_text(m.fact.key))))

    @property
    def proven(self) -> bool:
        """Certain, with one executed fact that decides, shown by as many hosts as the leaf asks for."""
        return self.posterior >= CERTAIN and bool(self.deciding) and (self.leaf.min_hosts <= 1 or len(self.shown) >= self.leaf.min_hosts)


@dataclass(frozen=True, slots=True)
class ProfileDoubt:
    """An expectation that no link meets, what most links say, and one that says it."""

    expected: Value
    most: Value
    fact: Fact


@dataclass(slots=True)
class Alike:
    """Facts of one key that no clue can tell apart, with what is expected and what most of their peers say. A fleet repeats itself."""

    first: Fact
    expected: Value
    majority: Value
    facts: list[Fact]


@dataclass(slots=True)
class Matcher:
    """Facts by key, those together that no clue can tell apart."""

    lens: Lens
    by_key: Mapping[str, list[Fact]]
    _majority: dict[tuple[str, str], Value] = field(default_factory=dict)
    _alike: dict[str, list[Alike]] = field(default_factory=dict)
    _places: dict[str, dict[object, list[int]]] = field(default_factory=dict)
    """Of each key and value, which of the alike facts have it."""
    _doubts: dict[str, list[ProfileDoubt]] = field(default_factory=dict)

    @classmethod
    def of(cls, facts: Iterable[Fact], lens: Lens) -> "Matcher":
        by_key: dict[str, list[Fact]] = defaultdict(list)
        for fact in facts:
            if fact.key and not fact.status.blind:
                by_key[fact.key].append(fact)
        return cls(lens, by_key)

    def hits(self, leaf: Leaf) -> Hits:
        """Every clue of a leaf with every fact that matches it."""
        return [(clue, fact) for clue in leaf.evidence for alike in self._for(clue) if _holds(clue, alike) for fact in alike.facts]

    def say(self, clue: Clue, fact: Fact) -> str:
        said = clue.say(fact, self.expected(fact), self._most(fact))
        course = course_in_words(fact)
        return f"{said} ({course})" if course else said

    def _for(self, clue: Clue) -> list[Alike]:
        """The facts of a clue's key that its value does not rule out: a log can say any number of things, and most clues ask for one."""
        rows, values = self._of(clue.key), clue.expression.values
        if values is None or len(rows) <= _FEW:
            return rows
        if clue.key not in self._places:
            places = self._places[clue.key] = defaultdict(list)
            for place, row in enumerate(rows):
                places[row.first.value if isinstance(row.first.value, bool | int | float | str) else None].append(place)
        found = self._places[clue.key]
        return [rows[place] for place in sorted(place for value in values for place in found.get(value, ()))]

    def _of(self, key: str) -> list[Alike]:
        if key not in self.by_key:
            return []
        if key not in self._alike:
            mentions = frozenset().union(*(clue.expression.mentions for _, clue in self.lens.taxonomy.clues(key)))
            alike: dict[tuple[object, ...], Alike] = {}
            for fact in self.by_key[key]:
                expected = self.expected(fact) if "expected" in mentions else None
                majority = self._most(fact) if "majority" in mentions else None
                device = fact.device if "device" in mentions else ""
                attrs = repr(fact.attrs) if fact.attrs else ""
                name = (
                    _told_apart(fact.value),
                    fact.status,
                    fact.stale,
                    fact.unit,
                    device,
                    attrs,
                    _told_apart(expected),
                    _told_apart(majority),
                )
                alike.setdefault(name, Alike(fact, expected, majority, [])).facts.append(fact)
            self._alike[key] = list(alike.values())
        return self._alike[key]

    def expected(self, fact: Fact) -> Value:
        """What the host's profile says of it; where all links contradict that, what most of them say."""
        expected = self.lens.expected(fact.host, fact.key, fact.device) if fact.host else None
        if expected is None or fact.key not in OF_LINKS:
            return expected
        return next((doubt.most for doubt in self.doubts(fact.key) if doubt.expected == expected), expected)

    def doubts(self, key: str) -> list[ProfileDoubt]:
        """The expectations of a key that no link meets."""
        if key not in self._doubts:
            self._doubts[key] = profile_doubts(self.by_key.get(key, ()), self.lens)
        return self._doubts[key]

    def _most(self, fact: Fact) -> Value:
        """What most of its peers say. GPUs are alike; other devices are compared with their namesakes first, HCAs with each other next."""
        row = find(fact.key)
        scope = row.scope if row else ""
        if scope not in ("gpu", "host", "nvswitch", "rank", "process") and fact.device:
            most = self._pool(fact.key, fact.device)
            if most is not None or scope != "hca":
                return most
        return self._pool(fact.key, "")

    def _pool(self, key: str, device: str) -> Value:
        if (key, device) not in self._majority:
            peers = (f for f in self.by_key.get(key, ()) if f.status is Status.OK and f.host and not f.stale)
            self._majority[key, device] = _common([f for f in peers if device in ("", f.device)])
        return self._majority[key, device]


def _told_apart(value: Value) -> object:
    """A name under which a value is not mistaken for another one: 1 is neither True nor 1.0."""
    kind = value.__class__
    return value if kind is str or value is None else (kind, value) if kind in (bool, int, float) else repr(value)


def profile_doubts(facts: Sequence[Fact], lens: Lens) -> list[ProfileDoubt]:
    """What profiles expect of links of which enough were seen, on several hosts, none meets it, and more than half say one other value. The
    profile is in question then, or what all of them hang on: not so many links at once. One that is below the others is below them still."""
    judged: dict[Value, list[Fact]] = defaultdict(list)
    for fact in facts:
        if fact.status is Status.OK and fact.host and not fact.stale and _number(fact.value) is not None:
            expected = lens.expected(fact.host, fact.key, fact.device)
            if isinstance(expected, int | float) and not isinstance(expected, bool):
                judged[expected].append(fact)
    return [doubt for expected, links in judged.items() if (doubt := _doubt(expected, links)) is not None]


def _doubt(expected: Value, links: Sequence[Fact]) -> ProfileDoubt | None:
    counts = Counter(fact.value for fact in links if isinstance(fact.value, int | float))
    most, times = counts.most_common(1)[0]
    met = isinstance(expected, int | float) and any(value >= expected for value in counts)
    enough = len(links) >= ENOUGH_TO_COUNT and 2 * times > len(links) and len({fact.host for fact in links if fact.value == most}) > 1
    return ProfileDoubt(expected, most, next(fact for fact in links if fact.value == most)) if enough and not met else None


def _number(value: Value) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _holds(clue: Clue, alike: Alike) -> bool:
    """The echo of another error supports nothing, unless the clue asks about echoes; nor does a port of another network."""
    if clue.weight > 0 and alike.first.attrs.get("sympathetic") and "sympathetic" not in clue.when:
        return False
    if clue.weight > 0 and alike.first.attrs.get("elsewhere"):
        return False
    return clue.matches(alike.first, alike.expected, alike.majority)


def _common(facts: Sequence[Fact]) -> Value:
    counts = Counter(repr(fact.value) for fact in facts)
    if sum(counts.values()) < ENOUGH_TO_COUNT:
        return None
    value, times = counts.most_common(1)[0]
    return next(f.value for f in facts if repr(f.value) == value) if times * 2 > len(facts) else None


def beliefs(facts: Sequence[Fact], matcher: Matcher, priors: Mapping[str, float]) -> list[Belief]:
    """One row for each label and subject that some clue speaks of, and one bare row for every other label; most likely first."""
    lens = matcher.lens
    seen = Observed(looked_at(facts), matcher.by_key)
    rows: list[Belief] = []
    for leaf in lens.taxonomy.leaves.values():
        start = leaf.prior + max(-TEXT_CAP, min(TEXT_CAP, priors.get(leaf.label, 0.0)))
        hits = matcher.hits(leaf)
        found = subjects(leaf, hits, lens, seen)
        weighed = [_weigh(leaf, subject, start, own, matcher) for subject, own in found.items()]
        if not found:
            weighed = [_weigh(leaf, Subject(), start, [hit for hit in hits if hit[0].weight < 0], matcher)]
        if hits and (few := few_that_show(leaf, hits, seen)):
            weighed = [row if row.proven else replace(row, few=few) for row in weighed]
        rows += weighed
    return sorted(rows, key=lambda b: (-b.log_odds, b.label, b.subject.hosts, b.subject.device))


def looked_at(facts: Iterable[Fact]) -> dict[str, set[str]]:
    """Check → hosts where it could look."""
    looked: dict[str, set[str]] = defaultdict(set)
    for fact in facts:
        if fact.host and not fact.status.blind:
            looked[fact.check].add(fact.host)
    return looked


def _weigh(leaf: Leaf, subject: Subject, start: float, hits: Hits, matcher: Matcher) -> Belief:
    best: dict[str, tuple[Clue, Fact]] = {}
    for clue, fact in hits:
        if clue.id not in best or _worth(fact, leaf) < _worth(best[clue.id][1], leaf):
            best[clue.id] = (clue, fact)
    matches = [Match(clue, fact, _weight(clue, fact), matcher.say(clue, fact)) for clue, fact in best.values()]
    trusted = [m.weight for m in matches if may_be_text(leaf) or not _doubtful(m.fact)]
    doubted = sum(m.weight for m in matches if not may_be_text(leaf) and _doubtful(m.fact))
    most = max(LOW_TRUST_CAP, sum(weight for weight in trusted if weight > 0))
    odds = start + sum(trusted) + max(-LOW_TRUST_CAP, min(most, doubted))
    odds = min(odds, max(start, OLD_ALONE)) if only_old(m.fact for m in matches if m.weight > 0) else odds
    return Belief(
        leaf,
        subject,
        min(odds, ALONE) if _only_apart(matches) else odds,
        support=tuple(sorted((m for m in matches if m.weight > 0), key=lambda m: (not m.decides, _doubtful(m.fact), -m.weight, m.clue.id))),
        against=tuple(sorted((m for m in matches if m.weight < 0), key=lambda m: (m.weight, m.clue.id))),
        shown=frozenset(fact.host for clue, fact in hits if clue.weight > 0 and fact.host),
        explains=frozenset(id(fact) for clue, fact in hits if clue.weight > 0),
    )


def _only_apart(matches: Iterable[Match]) -> bool:
    """Whether all that speaks for a cause are differences."""
    speaking = [match.fact.key for match in matches if match.weight > 0]
    return bool(speaking) and all(key in DIFFERENCES for key in speaking)


def course_in_words(fact: Fact) -> str:
    """Return how often an event came and from when until when, or how far a counter rose; empty where that is not known."""
    return str(fact.attrs.get("chronic") or rise_in_words(fact)) if fact.attrs else ""


def only_old(support: Iterable[Fact]) -> bool:
    """Whether something speaks for a cause, and all of it is old events of machines."""
    facts = list(support)
    return bool(facts) and all(map(is_old, facts))


def _weight(clue: Clue, fact: Fact) -> float:
    """What happened long before the incident speaks softly for a cause and not at all against one."""
    return max(0.0, clue.weight / 2) if fact.attrs.get("aged") else clue.weight


def _doubtful(fact: Fact) -> bool:
    return not fact.host or is_text(fact.key)


def _worth(fact: Fact, leaf: Leaf) -> tuple[bool, bool, float, str, str, int]:
    """Of several facts for one clue: seen on a host before handed in, recent before aged, earliest before later (causes come first),
    and of what one host says the check that the leaf names first."""
    when = fact.time.timestamp() if fact.time and fact.key.startswith(EVENTS) else math.inf
    place = leaf.checks.index(fact.check) if fact.check in leaf.checks else len(leaf.checks)
    return (not fact.host, bool(fact.attrs.get("aged")), when, fact.host, fact.device or "", place)
