"""All-gather over groups of hosts, to find the node, pair or leaf switch that slows a collective."""

import asyncio
import zlib
from collections import defaultdict
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Literal

from tools.checks.check_types import Check, CheckParticipant, Command, CommandFacts, Format, JointResult, RunNamedCommand, Unreadable
from tools.checks.exclusive import probes
from tools.checks.exclusive.nccl import is_nccl, parse_nccl
from tools.fact import Fact, Status, build_unobserved_fact

# Find the node, pair or leaf switch that slows a collective: Acme's two-round all-gather test plus switches. Pure.
#
# Round one tests disjoint pairs (one triple if the count is odd), inside a leaf switch where possible. Round two tests
# each host of a bad group with a good host; bad again means guilty. A single cause that explains every outcome is
# preferred to several guilty hosts, and accepted only after the groups that would refute it were tested.

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
    good
    host was beside them to tell which. `unknown` could not be tested.
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

    def predicts_bad_group(self, world: HostGroup, leaf_of: LeafLookup) -> bool:
        if self.kind == "host":
            return self.names[0] in world
        if self.kind == "pair":
            return set(self.names) <= set(world)
        inside = sum(leaf_of(host) == self.names[0] for host in world)
        return inside > 1 if self.kind == "inside" else 0 < inside < len(world)


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

    def _test_groups(self, worlds: Iterable[HostGroup]) -> RoundGenerator:
        todo = [world for world in worlds if world not in self.tried]
        if todo:
            self.rounds += 1
            outcome = yield todo
            self.tried |= {world: outcome.get(world) for world in todo}

    def _list_bad_groups(self) -> list[HostGroup]:
        return [world for world, bad in self.tried.items() if bad]

    def _list_good_hosts(self) -> set[str]:
        return {host for world, bad in self.tried.items() if bad is False for host in world}

    def _list_suspects(self) -> list[str]:
        good = self._list_good_hosts()
        return sorted({host for world, bad in self.tried.items() if bad is not False for host in world} - good)

    def _list_untested_hosts(self) -> tuple[str, ...]:
        tested_hosts = {host for world, bad in self.tried.items() if bad is not None for host in world}
        return tuple(host for host in self.hosts if host not in tested_hosts)

    def _test_across_leaves(self) -> RoundGenerator:
        """Groups inside leaves are good: test across until each leaf took part or one is bad."""
        hosts = [host for host in self.hosts if self.leaf_of(host)]
        leaves, met = {self.leaf_of(host) for host in hosts}, set[str]()
        for turn in range(MAX_CROSSINGS):
            if len(leaves) < 2 or met == leaves or self._list_bad_groups():
                return
            worlds = build_crossing(hosts, self.leaf_of, turn)
            met |= {self.leaf_of(host) for world in worlds for host in world}
            yield from self._test_groups(worlds)

    def _retest_suspects(self, suspects: Sequence[str], *, elsewhere: bool = False) -> RoundGenerator:
        """Pair suspects with good hosts of their leaf if possible (`elsewhere`: another). Cleared suspects count as
        good.
        """
        remaining = list(suspects)
        for _ in range(MAX_RETEST_ROUNDS):
            free, good, worlds, later = sorted(self._list_good_hosts()), sorted(self._list_good_hosts()), list[HostGroup](), list[str]()
            for host in remaining:
                mate = self._choose_partner(host, free, elsewhere)
                if mate:
                    free.remove(mate)
                    worlds.append(tuple(sorted((host, mate))))
                elif self._choose_partner(host, good, elsewhere):
                    later.append(host)
            yield from self._test_groups(worlds)
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
            SingleCause("pair", pair) for pair in {pair for world in self._list_bad_groups() for pair in combinations(world, 2)}
        ]
        single_causes += [SingleCause(kind, (leaf,)) for leaf in leaves for kind in ("inside", "uplink")]
        results = [(world, bad) for world, bad in self.tried.items() if bad is not None]
        return [cause for cause in single_causes if all(cause.predicts_bad_group(world, self.leaf_of) == bad for world, bad in results)]

    def _distinguish_causes(self) -> RoundGenerator:
        """Test while several single causes fit and a round would separate them."""
        for _ in range(MAX_EXTRA_ROUNDS):
            causes = self._list_single_causes()
            best = max(self._build_candidate_rounds(causes), key=lambda worlds: self._count_distinguished(causes, worlds))
            if self._count_distinguished(causes, best) < 2:
                return
            yield from self._test_groups(best)

    def _build_candidate_rounds(self, causes: Sequence[SingleCause]) -> list[list[HostGroup]]:
        pairs = [[cause.names] for cause in causes if cause.kind == "pair"]
        leaves = [[host for host in self.hosts if self.leaf_of(host) == cause.names[0]] for cause in causes if cause.kind == "inside"]
        inside = [build_rotation(members, turn) for members in leaves for turn in range(min(len(members), 4))]
        across = [build_crossing([host for host in self.hosts if self.leaf_of(host)], self.leaf_of, turn) for turn in range(8)]
        return [*pairs, *inside, *across, *(build_rotation(self.hosts, turn) for turn in range(min(len(self.hosts), 12)))]

    def _count_distinguished(self, causes: Sequence[SingleCause], worlds: Sequence[HostGroup]) -> int:
        return len({tuple(cause.predicts_bad_group(world, self.leaf_of) for world in worlds) for cause in causes})

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
        guilty = {host for world in self._list_bad_groups() for host in world if host not in good and set(world) - {host} <= good}
        unexplained = [world for world in self._list_bad_groups() if not set(world) & guilty]
        open_ = {host for world in unexplained for host in world} - good
        routes = tuple(sorted(world for world in unexplained if not set(world) & open_))
        return self._build_localisation(tuple(sorted(guilty)), routes, among=tuple(sorted(open_)))

    def _build_all_bad_result(self) -> LocalisationResult:
        among = tuple(sorted({host for world in self._list_bad_groups() for host in world}))
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
    worlds: list[HostGroup] = []
    remaining: list[str] = []
    for members in by_leaf.values():
        worlds += [tuple(members[n : n + 2]) for n in range(0, len(members) - 1, 2)]
        remaining += members[-1:] if len(members) % 2 else []
    worlds += [tuple(sorted(remaining[n : n + 2])) for n in range(0, len(remaining) - 1, 2)]
    if len(remaining) % 2 and worlds:
        at = next((n for n, world in enumerate(worlds) if leaf_of(world[0]) == leaf_of(remaining[-1])), len(worlds) - 1)
        worlds[at] = tuple(sorted((*worlds[at], remaining[-1])))
    return worlds


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


# All-gather over groups of hosts that `tools.checks.exclusive.nccl_pairs` plans, to find the slow one.
#
# A group is bad if it fails or its bus bandwidth is below a share of what the SKU expects of two nodes, or else of the
# run's best group. The inventory sets the launcher: `mpi` from the group's first host, `srun` on its controller,
# `torchrun` on every host at once.

CHECK = "nccl2"
SLOW_RATIO = 0.8  # of the reference; a healthy fabric varies by 20 % once in a while
PROBE = probes.load_probe("allgather")
INSTALL_HINT = "nccl-tests built with MPI=1 in the folder that the inventory calls nccl_tests: https://github.com/NVIDIA/nccl-tests, and mpirun or srun"
_SIZES = ("-b", "1G", "-e", "1G", "-g", "1", "-c", "1", "-n", "20")
_TEST_COMMAND = ("{nccl_tests}/all_gather_perf", *_SIZES)
LAUNCH_COMMANDS: Mapping[str, tuple[str, ...]] = {
    "mpi": ("mpirun", "--host", "{hosts}", "-np", "{ranks}", "--bind-to", "none", "-x", "LD_LIBRARY_PATH", *_TEST_COMMAND),
    "srun": (
        *("srun", "--nodes={count}", "--nodelist={nodes}", "--ntasks-per-node={gpus}", "--gpus-per-node={gpus}"),
        *("--exclusive", "--immediate=30", "--time=3", "--mpi=pmix", *_TEST_COMMAND),
    ),
    "torchrun": (
        *("torchrun", "--nnodes={count}", "--nproc-per-node={gpus}", "--rdzv-backend=c10d", "--rdzv-endpoint={peer}:29577"),
        *("--rdzv-conf=timeout=45", "--no-python", "python3", "-c", PROBE),
    ),
}


def parse_pair(text: str) -> Sequence[Fact]:
    wanted_keys = ("nccl.busbw_max", "nccl.failure", "nccl.wrong")
    facts = [replace(fact, check=CHECK) for fact in parse_nccl(text) if fact.key in wanted_keys or not fact.key]
    if not facts:
        raise Unreadable("no bandwidth between ranks was measured")
    return facts


@dataclass(slots=True)
class _GroupRun:
    """`busbw` 0: it failed; None: not measured."""

    busbw: float | None
    line: str = ""
    facts: list[Fact] = field(default_factory=list)


async def run_pairs(parties: Sequence[CheckParticipant], say: RunNamedCommand) -> JointResult:
    """Run the planner's rounds, each round's groups in parallel."""
    by_name = {party.host: party for party in parties}
    search = localise_slow_hosts(sorted(by_name), lambda host: by_name[host].leaf)
    runs: dict[HostGroup, _GroupRun] = {}
    missing: set[str] = set()
    seconds = 0.0
    try:
        worlds = next(search)
        while True:
            pair_runs = await asyncio.gather(*(_launch_group([by_name[host] for host in world], say) for world in worlds))
            seconds += max((answer.seconds for answer in pair_runs), default=0.0)
            missing |= {world[0] for world, answer in zip(worlds, pair_runs, strict=True) if answer.missing}
            runs |= {world: _build_group_run(answer) for world, answer in zip(worlds, pair_runs, strict=True)}
            worlds = search.send({world: _is_bad_group(world, runs, by_name) for world in worlds})
    except StopIteration as error:
        located: LocalisationResult = error.value
    return JointResult({host: _build_host_facts(host, located, runs, by_name) for host in by_name}, seconds, frozenset(missing))


async def _launch_group(world: Sequence[CheckParticipant], say: RunNamedCommand) -> CommandFacts:
    first = world[0]
    slots = {
        "hosts": ",".join(f"{party.host}:{party.gpus}" for party in world),
        "nodes": ",".join(party.host for party in world),
        "ranks": str(sum(party.gpus for party in world)),
        "count": str(len(world)),
        "peer": first.host,
    }
    if first.launcher == "torchrun":
        return (await asyncio.gather(*(say("torchrun", party.host, slots) for party in world)))[0]
    if first.launcher == "srun" and first.controller:
        return await say("srun", first.controller, slots)
    return await say("mpi", first.host, slots)


def _build_group_run(said: CommandFacts) -> _GroupRun:
    failed = next((fact for fact in said.facts if fact.key == "nccl.failure"), None)
    best = max((float(fact.value) for fact in said.facts if fact.key == "nccl.busbw_max" and isinstance(fact.value, float)), default=None)
    own = ("missing_tool", "not_enough_slots")
    if failed and failed.value not in own:
        return _GroupRun(0.0, failed.line)
    if best is None:
        return _GroupRun(None, failed.line if failed else next((fact.line for fact in said.facts), "no answer"))
    return _GroupRun(best, next(fact.line for fact in said.facts if fact.key == "nccl.busbw_max"))


def _is_bad_group(world: HostGroup, runs: Mapping[HostGroup, _GroupRun], parties: Mapping[str, CheckParticipant]) -> bool | None:
    busbw = runs[world].busbw
    if busbw is None:
        return None
    return busbw < SLOW_RATIO * _get_reference_busbw(parties[world[0]], runs)


def _get_reference_busbw(party: CheckParticipant, runs: Mapping[HostGroup, _GroupRun]) -> float:
    expected = party.expects("nccl.pair_busbw")
    if isinstance(expected, int | float) and not isinstance(expected, bool):
        return float(expected)
    return max((run.busbw or 0.0 for run in runs.values()), default=0.0)


def _build_host_facts(
    host: str, located: LocalisationResult, runs: Mapping[HostGroup, _GroupRun], parties: Mapping[str, CheckParticipant]
) -> list[Fact]:
    own_runs = {world: run for world, run in runs.items() if host in world}
    measured_runs = {world: run for world, run in own_runs.items() if run.busbw is not None}
    if not measured_runs:
        reason = next((run.line for run in own_runs.values() if run.line), "no group with this host ran")
        return [build_unobserved_fact(CHECK, Status.UNREADABLE, reason)]
    world, best = max(measured_runs.items(), key=lambda row: row[1].busbw or 0.0)
    mates = [mate for mate in world if mate != host]
    facts = [Fact(CHECK, "nccl.pair_busbw", best.busbw, unit="GB/s", line=best.line[:300], attrs={"with": mates})] if best.busbw else []
    verdict = _build_verdict_fact(host, located, measured_runs, mates)
    facts += [verdict] if verdict else []
    leaf = parties[host].leaf
    if leaf and leaf in located.leaves:
        facts.append(Fact(CHECK, "nccl.slow_leaf", leaf, line=f"groups of leaf {leaf} are slow and none of its hosts alone is to blame"))
    return facts


def _build_verdict_fact(host: str, located: LocalisationResult, told: Mapping[HostGroup, _GroupRun], mates: Sequence[str]) -> Fact | None:
    """No verdict for hosts that could not be separated."""
    line = "; ".join(_format_group_rate(host, world, run) for world, run in told.items())[:300]
    if host in located.hosts:
        failed = not any(run.busbw for run in told.values())
        return Fact(CHECK, "nccl.suspect", "failed" if failed else "slow", line=line, attrs={"with": list(mates)})
    if host in located.among or any(host in pair for pair in located.pairs):
        return None
    return Fact(CHECK, "nccl.suspect", "clean", line=line, attrs={"with": list(mates)})


def _format_group_rate(host: str, world: HostGroup, run: _GroupRun) -> str:
    mates = " ".join(mate for mate in world if mate != host)
    return f"{host} with {mates}: {f'{run.busbw:g} GB/s' if run.busbw else 'failed'}"


CHECKS = (
    Check(
        id=CHECK,
        asks="Which host, pair or leaf switch slows an all-gather between hosts?",
        commands=tuple(Command(name, argv) for name, argv in LAUNCH_COMMANDS.items()),
        formats=(Format("nccl-tests", is_nccl, parse_pair),),
        establishes=("nccl.pair_busbw", "nccl.suspect", "nccl.slow_leaf", "nccl.busbw_max", "nccl.failure", "nccl.wrong"),
        seconds=90.0,
        scope="group",
        exclusive=True,
        timeout=120.0,
        tool=INSTALL_HINT,
        together=run_pairs,
    ),
)
