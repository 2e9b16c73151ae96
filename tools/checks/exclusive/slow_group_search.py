"""Find the node, pair or leaf switch that slows a collective: Acme's two-round all-gather test plus switches.

Round one tests disjoint pairs (one triple if the count is odd), inside a leaf switch where possible. Round two tests
each host of a bad group with a good host; bad again means guilty. A single cause that explains every outcome is
preferred to several guilty hosts, and accepted only after the groups that would refute it were tested.
"""

import zlib
from collections import defaultdict
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Literal

HostGroup = tuple[str, ...]  # hosts that run one all-gather together
GroupOutcomes = Mapping[HostGroup, bool | None]  # True: bad, False: good, None: not measured
LeafLookup = Callable[[str], str]  # host → its leaf switch, '' if unknown
MAX_ROTATIONS = 5  # pairings tried while no good host is known
MAX_CROSSINGS = 3
MAX_RETEST_ROUNDS = 4  # rounds of suspects against good hosts, if there are more suspects than good hosts
MAX_EXTRA_ROUNDS = 4  # rounds spent on separating single causes


@dataclass(frozen=True, slots=True)
class LocalisationResult:
    """Verdict; all empty means that every group was good.

    `hosts` are guilty alone; `pairs` are slow together only; `leaves` are switches. Some of `among` are guilty, but no
    good host was beside them to tell which. `unknown` could not be tested.
    """

    hosts: tuple[str, ...] = ()
    pairs: tuple[HostGroup, ...] = ()
    leaves: tuple[str, ...] = ()
    among: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    rounds: int = 0


LocalisationRounds = Generator[list[HostGroup], GroupOutcomes, LocalisationResult]
RoundGenerator = Generator[list[HostGroup], GroupOutcomes, None]


def localise_slow_hosts(hosts: Sequence[str], leaf_of: LeafLookup = lambda host: "") -> LocalisationRounds:
    """Yield groups to test in parallel, receive outcomes, return the result."""
    return (yield from _SlowHostSearch(sorted(dict.fromkeys(hosts)), leaf_of).run())


@dataclass(frozen=True, slots=True)
class SingleCause:
    """Explains every outcome alone: a host, a pair's route, a leaf slow `inside` or towards others (`uplink`)."""

    kind: Literal["host", "pair", "inside", "uplink"]
    names: HostGroup

    def predicts_bad_group(self, group: HostGroup, leaf_of: LeafLookup) -> bool:
        if self.kind == "host":
            return self.names[0] in group
        if self.kind == "pair":
            return set(self.names) <= set(group)
        inside = sum(leaf_of(host) == self.names[0] for host in group)
        return inside > 1 if self.kind == "inside" else 0 < inside < len(group)


@dataclass(slots=True)
class _SlowHostSearch:
    hosts: list[str]
    leaf_of: LeafLookup
    tried: dict[HostGroup, bool | None] = field(default_factory=dict)
    rounds: int = 0

    def run(self) -> LocalisationRounds:
        if len(self.hosts) < 2:
            return LocalisationResult(unknown=tuple(self.hosts))
        yield from self._test_groups(build_first_round(self.hosts, self.leaf_of))
        if not self._list_bad_groups():
            yield from self._test_across_leaves()
        for turn in range(1, MAX_ROTATIONS + 1):
            if self._list_bad_groups() and not self._list_good_hosts():
                yield from self._test_groups(build_rotation(self.hosts, turn))
        if not self._list_bad_groups():
            return LocalisationResult(unknown=self._list_untested_hosts(), rounds=self.rounds)
        if not self._list_good_hosts():
            return self._build_all_bad_result()
        yield from self._retest_suspects(self._list_suspects())
        yield from self._distinguish_causes()
        yield from self._refute_leaf_cause()
        return self._build_result()

    def _test_groups(self, groups: Iterable[HostGroup]) -> RoundGenerator:
        todo = [group for group in groups if group not in self.tried]
        if todo:
            self.rounds += 1
            outcome = yield todo
            self.tried |= {group: outcome.get(group) for group in todo}

    def _list_bad_groups(self) -> list[HostGroup]:
        return [group for group, bad in self.tried.items() if bad]

    def _list_good_hosts(self) -> set[str]:
        return {host for group, bad in self.tried.items() if bad is False for host in group}

    def _list_suspects(self) -> list[str]:
        good = self._list_good_hosts()
        return sorted({host for group, bad in self.tried.items() if bad is not False for host in group} - good)

    def _list_untested_hosts(self) -> tuple[str, ...]:
        tested_hosts = {host for group, bad in self.tried.items() if bad is not None for host in group}
        return tuple(host for host in self.hosts if host not in tested_hosts)

    def _test_across_leaves(self) -> RoundGenerator:
        """Groups inside leaves are good: test across until each leaf took part or one is bad."""
        hosts = [host for host in self.hosts if self.leaf_of(host)]
        leaves, met = {self.leaf_of(host) for host in hosts}, set[str]()
        for turn in range(MAX_CROSSINGS):
            if len(leaves) < 2 or met == leaves or self._list_bad_groups():
                return
            groups = build_crossing(hosts, self.leaf_of, turn)
            met |= {self.leaf_of(host) for group in groups for host in group}
            yield from self._test_groups(groups)

    def _retest_suspects(self, suspects: Sequence[str], *, elsewhere: bool = False) -> RoundGenerator:
        """Pair suspects with good hosts of their leaf if possible (`elsewhere`: another). Cleared suspects count as
        good.
        """
        remaining = list(suspects)
        for _ in range(MAX_RETEST_ROUNDS):
            good = sorted(self._list_good_hosts())
            free = list(good)
            groups = list[HostGroup]()
            later = list[str]()
            for host in remaining:
                mate = self._choose_partner(host, free, elsewhere)
                if mate:
                    free.remove(mate)
                    groups.append(tuple(sorted((host, mate))))
                elif self._choose_partner(host, good, elsewhere):
                    later.append(host)
            yield from self._test_groups(groups)
            remaining = later

    def _choose_partner(self, host: str, free: Sequence[str], elsewhere: bool) -> str:
        local_mates = [mate for mate in free if mate != host and self.leaf_of(mate) == self.leaf_of(host)]
        remote_mates = [mate for mate in free if mate != host and self.leaf_of(mate) != self.leaf_of(host)]
        return next(iter(remote_mates if elsewhere else local_mates or remote_mates), "")

    def _list_single_causes(self) -> list[SingleCause]:
        """Pairs count only if a bad group holds them."""
        leaves = sorted({self.leaf_of(host) for host in self.hosts} - {""})
        single_causes = [SingleCause("host", (host,)) for host in self.hosts]
        single_causes += [
            SingleCause("pair", pair) for pair in {pair for group in self._list_bad_groups() for pair in combinations(group, 2)}
        ]
        single_causes += [SingleCause(kind, (leaf,)) for leaf in leaves for kind in ("inside", "uplink")]
        results = [(group, bad) for group, bad in self.tried.items() if bad is not None]
        return [cause for cause in single_causes if all(cause.predicts_bad_group(group, self.leaf_of) == bad for group, bad in results)]

    def _distinguish_causes(self) -> RoundGenerator:
        """Test while several single causes fit and a round would separate them."""
        for _ in range(MAX_EXTRA_ROUNDS):
            causes = self._list_single_causes()
            best = max(self._build_candidate_rounds(causes), key=lambda groups: self._count_distinguished(causes, groups))
            if self._count_distinguished(causes, best) < 2:
                return
            yield from self._test_groups(best)

    def _build_candidate_rounds(self, causes: Sequence[SingleCause]) -> list[list[HostGroup]]:
        pairs = [[cause.names] for cause in causes if cause.kind == "pair"]
        leaves = [[host for host in self.hosts if self.leaf_of(host) == cause.names[0]] for cause in causes if cause.kind == "inside"]
        inside = [build_rotation(members, turn) for members in leaves for turn in range(min(len(members), 4))]
        across = [build_crossing([host for host in self.hosts if self.leaf_of(host)], self.leaf_of, turn) for turn in range(8)]
        return [*pairs, *inside, *across, *(build_rotation(self.hosts, turn) for turn in range(min(len(self.hosts), 12)))]

    def _count_distinguished(self, causes: Sequence[SingleCause], groups: Sequence[HostGroup]) -> int:
        return len({tuple(cause.predicts_bad_group(group, self.leaf_of) for group in groups) for cause in causes})

    def _refute_leaf_cause(self) -> RoundGenerator:
        """Several slow hosts look like a slow leaf: test them outside it, for an uplink among themselves."""
        for cause in self._list_single_causes():
            members = [host for host in self._list_suspects() if self.leaf_of(host) == cause.names[0]]
            if cause.kind == "inside":
                yield from self._retest_suspects(members, elsewhere=True)
            elif cause.kind == "uplink" and len(members) > 1:
                yield from self._test_groups([tuple(members[n : n + 2]) for n in range(0, len(members) - 1, 2)])

    def _build_result(self) -> LocalisationResult:
        causes = self._list_single_causes()
        for kind in ("host", "pair"):
            names = [cause.names for cause in causes if cause.kind == kind]
            if len(names) == 1:
                return self._build_localisation(hosts=names[0]) if kind == "host" else self._build_localisation(pairs=(names[0],))
        if causes and all(cause.kind in ("inside", "uplink") for cause in causes):
            return self._build_localisation(leaves=tuple(sorted({cause.names[0] for cause in causes})))
        if causes:
            return self._build_localisation(
                among=tuple(sorted({host for cause in causes if cause.kind in ("host", "pair") for host in cause.names}))
            )
        return self._build_multiple_result()

    def _build_multiple_result(self) -> LocalisationResult:
        """A host is guilty if bad beside good hosts only; a bad group of good hosts is a route."""
        good = self._list_good_hosts()
        guilty = {host for group in self._list_bad_groups() for host in group if host not in good and set(group) - {host} <= good}
        unexplained = [group for group in self._list_bad_groups() if not set(group) & guilty]
        undecided = {host for group in unexplained for host in group} - good
        routes = tuple(sorted(group for group in unexplained if not set(group) & undecided))
        return self._build_localisation(tuple(sorted(guilty)), routes, among=tuple(sorted(undecided)))

    def _build_all_bad_result(self) -> LocalisationResult:
        among = tuple(sorted({host for group in self._list_bad_groups() for host in group}))
        leaves = {self.leaf_of(host) for host in among}
        return self._build_localisation(
            leaves=tuple(leaves) if len(leaves) == 1 and "" not in leaves and len(among) > 2 else (), among=among
        )

    def _build_localisation(
        self, hosts: HostGroup = (), pairs: tuple[HostGroup, ...] = (), leaves: tuple[str, ...] = (), among: tuple[str, ...] = ()
    ) -> LocalisationResult:
        return LocalisationResult(hosts, pairs, leaves, among, self._list_untested_hosts(), self.rounds)


def build_first_round(hosts: Sequence[str], leaf_of: Callable[[str], str] = lambda host: "") -> list[HostGroup]:
    """Return disjoint pairs, inside a leaf first; an odd last host makes a group of three."""
    by_leaf: dict[str, list[str]] = defaultdict(list)
    for host in hosts:
        by_leaf[leaf_of(host)].append(host)
    groups: list[HostGroup] = []
    remaining: list[str] = []
    for members in by_leaf.values():
        groups += [tuple(members[n : n + 2]) for n in range(0, len(members) - 1, 2)]
        remaining += members[-1:] if len(members) % 2 else []
    groups += [tuple(sorted(remaining[n : n + 2])) for n in range(0, len(remaining) - 1, 2)]
    if len(remaining) % 2 and groups:
        at = next((n for n, group in enumerate(groups) if leaf_of(group[0]) == leaf_of(remaining[-1])), len(groups) - 1)
        groups[at] = tuple(sorted((*groups[at], remaining[-1])))
    return groups


def build_rotation(hosts: Sequence[str], turn: int) -> list[HostGroup]:
    """Return round `turn` of a round-robin tournament; with an odd count one host sits out."""
    if len(hosts) < 2:
        return []
    ring: list[str] = [*hosts, *([""] if len(hosts) % 2 else [])]
    moved = [ring[0], *(ring[1 + (n - turn) % (len(ring) - 1)] for n in range(len(ring) - 1))]
    pairs = [tuple(sorted((moved[n], moved[-1 - n]))) for n in range(len(moved) // 2)]
    return [pair for pair in pairs if "" not in pair]


def build_crossing(hosts: Sequence[str], leaf_of: LeafLookup, turn: int) -> list[HostGroup]:
    """Return disjoint pairs across leaves; each turn combines other leaves."""
    order = sorted(hosts, key=lambda host: (zlib.crc32(f"{turn} {leaf_of(host)}".encode()), host))
    half = len(order) // 2
    skip = turn % 2 * (len(order) % 2)
    pairs = zip(order[skip : skip + half], order[skip + half : skip + 2 * half], strict=True)
    return [tuple(sorted(pair)) for pair in pairs if leaf_of(pair[0]) != leaf_of(pair[1])]
