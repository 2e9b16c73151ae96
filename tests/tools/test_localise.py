"""Finding the slow host, pair or leaf: the planner for every size and culprit, and the runner on the simulated cluster."""

from collections.abc import Callable, Mapping, Sequence
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deploy.sandbox.cluster.access.cluster import Cluster
from deploy.sandbox.cluster.access.in_process import InProcessTransport
from tests.support.clock import SetClock
from tests.support.fakes_cluster import cluster
from tools.checks import CHECKS
from tools.checks.check_types import CheckParticipant, CommandFacts
from tools.checks.exclusive.nccl_pairs import run_pairs
from tools.checks.exclusive.slow_group_search import HostGroup, LeafLookup, LocalisationResult, build_first_round, localise_slow_hosts
from tools.evidence import MemoryEvidence
from tools.fact import Fact, Status, build_unobserved_fact
from tools.fleet.answers import CheckRequest
from tools.fleet.fleet import Fleet
from tools.inventory.inventory import parse_inventory
from tools.inventory.sku import load_skus

pytestmark = pytest.mark.slow


MOST_ROUNDS = 10


def names(count: int) -> list[str]:
    return [f"h{number:02}" for number in range(count)]


def leaves_of(size: int) -> LeafLookup:
    return lambda host: f"leaf{int(host[1:]) // size}"


def nowhere(host: str) -> str:
    return ""


def play(hosts: Sequence[str], leaf_of: LeafLookup, bad: Callable[[HostGroup], bool | None]) -> LocalisationResult:
    """Answer every round, and assert that groups of one round share no host."""
    search = localise_slow_hosts(hosts, leaf_of)
    try:
        worlds = next(search)
        while True:
            busy = [host for world in worlds for host in world]
            assert len(busy) == len(set(busy)) > 0
            assert all(1 < len(world) < 4 for world in worlds)
            worlds = search.send({world: bad(world) for world in worlds})
    except StopIteration as error:
        located: LocalisationResult = error.value
        assert located.rounds <= MOST_ROUNDS
        return located


@pytest.mark.parametrize("count", range(2, 34))
def test_healthy_hosts_take_one_round_and_none_is_accused(count: int) -> None:
    assert play(names(count), nowhere, lambda world: False) == LocalisationResult(rounds=1)
    covered = [host for world in build_first_round(names(count)) for host in world]
    assert sorted(covered) == names(count)
    assert sum(len(world) == 3 for world in build_first_round(names(count))) == count % 2


@pytest.mark.parametrize("count", range(3, 34))
def test_a_slow_host_is_found_alone(count: int) -> None:
    for leaf_of in (nowhere, leaves_of(4), leaves_of(8)):
        for slow in names(count):
            located = play(names(count), leaf_of, lambda world, slow=slow: slow in world)  # type: ignore[misc]
            assert (located.hosts, located.pairs, located.leaves, located.among) == ((slow,), (), (), ())


@pytest.mark.parametrize("count", [4, 5, 6, 7, 8, 9, 12, 13, 16, 21, 33])
def test_two_slow_hosts_are_found_wherever_they_are(count: int) -> None:
    for leaf_of in (nowhere, leaves_of(4)):
        for slow in list(combinations(names(count), 2))[:: max(1, count // 8)]:
            located = play(names(count), leaf_of, lambda world, slow=slow: bool(set(world) & set(slow)))  # type: ignore[misc]
            assert (located.hosts, located.pairs, located.leaves, located.among) == (slow, (), (), ())


def test_of_two_hosts_that_are_slow_together_neither_is_accused() -> None:
    located = play(names(2), nowhere, lambda world: True)
    assert located.hosts == ()
    assert set(located.among) == set(names(2))


def test_without_a_fast_group_no_host_is_accused() -> None:
    located = play(names(8), nowhere, lambda world: True)
    assert located == LocalisationResult(among=tuple(names(8)), rounds=located.rounds)


@pytest.mark.parametrize("count", [4, 5, 8, 15, 33])
def test_a_pair_that_is_slow_only_together_is_named_as_a_pair(count: int) -> None:
    pair = next(world for world in build_first_round(names(count)) if len(world) == 2)
    located = play(names(count), nowhere, lambda world: set(pair) <= set(world))
    assert (located.hosts, located.pairs) == ((), (pair,))


@pytest.mark.parametrize("size", [3, 4, 8, 16])
@pytest.mark.parametrize("count", [4, 6, 9, 12, 17, 24, 33])
def test_a_leaf_that_is_slow_inside_is_named_and_its_hosts_are_not(count: int, size: int) -> None:
    leaf_of, hosts = leaves_of(size), names(count)
    for leaf in sorted({leaf_of(host) for host in hosts}):
        if sum(leaf_of(host) == leaf for host in hosts) < 3:
            continue
        located = play(hosts, leaf_of, lambda world, leaf=leaf: sum(leaf_of(host) == leaf for host in world) > 1)  # type: ignore[misc]
        assert (located.hosts, located.pairs, located.leaves) == ((), (), (leaf,))


@pytest.mark.parametrize("size", [2, 4, 8])
@pytest.mark.parametrize("count", [6, 9, 12, 17, 24, 33])
def test_a_leaf_with_a_slow_uplink_is_named_where_a_third_one_can_tell(count: int, size: int) -> None:
    leaf_of, hosts = leaves_of(size), names(count)
    leaves = sorted({leaf_of(host) for host in hosts})
    for leaf in leaves:
        inside = sum(leaf_of(host) == leaf for host in hosts)
        if inside < 2 or count - inside < 2:
            continue  # a host alone behind a switch is as slow as its uplink
        located = play(hosts, leaf_of, lambda world, leaf=leaf: len({leaf_of(host) == leaf for host in world}) == 2)  # type: ignore[misc]
        guilty = (leaf,) if len(leaves) > 2 else tuple(leaves)
        assert (located.hosts, located.pairs, located.leaves) == ((), (), guilty)


@settings(max_examples=150)
@given(st.data())
def test_for_any_outcomes_it_ends_and_accuses_only_hosts_that_were_never_fast(data: st.DataObject) -> None:
    hosts = names(data.draw(st.integers(2, 33)))
    size = data.draw(st.sampled_from([1, 3, 8, 40]))
    well: set[str] = set()

    def bad(world: HostGroup) -> bool | None:
        told = data.draw(st.sampled_from([True, False, False, None]))
        well.update(world if told is False else ())
        return told

    located = play(hosts, leaves_of(size), bad)
    assert not set(located.hosts) & well
    assert set(located.unknown) <= set(hosts) - well


def test_a_host_that_cannot_be_tested_is_unknown_not_guilty() -> None:
    located = play(names(5), nowhere, lambda world: None if "h03" in world else False)
    assert "h03" in located.unknown
    assert located.hosts == located.among == ()


async def runner(slow: str, rates: Mapping[str, float]) -> dict[str, dict[str, object]]:
    async def say(name: str, host: str, slots: Mapping[str, str]) -> CommandFacts:
        assert name == "mpi"
        group = [word.partition(":")[0] for word in slots["hosts"].split(",")]
        assert host == group[0]
        if "lost" in group:
            return CommandFacts((build_unobserved_fact("nccl2", Status.UNREACHABLE, "connection lost"),), 5.0)
        return CommandFacts((Fact("nccl2", "nccl.busbw_max", 90.0 if slow in group else 352.0),), 45.0)

    joint = await run_pairs([CheckParticipant(host, host, 8) for host in rates], say)
    return {host: {fact.key: fact.value for fact in found} for host, found in joint.facts.items()}


async def test_the_runner_judges_by_the_best_group_of_the_run() -> None:
    told = await runner("c", dict.fromkeys("abcd", 1.0))
    assert told["c"] == {"nccl.pair_busbw": 90.0, "nccl.suspect": "slow"}
    assert all(told[host] == {"nccl.pair_busbw": 352.0, "nccl.suspect": "clean"} for host in "abd")


async def test_a_group_that_was_lost_says_nothing_of_its_hosts() -> None:
    told = await runner("", dict.fromkeys(["a", "b", "lost"], 1.0))
    assert told["lost"] == {"": None}


def fleet(of: Cluster, leaf: str = "") -> Fleet:
    groups = {"g": {"hosts": ",".join(of.hosts), "sku": of.profile} | ({"leaf": leaf} if leaf else {})}
    inventory = parse_inventory({"defaults": {"kit": True}, "groups": groups})
    return Fleet(InProcessTransport(of), inventory, CHECKS, MemoryEvidence(), SetClock(of.t0), load_skus())


@pytest.mark.parametrize(("fault", "verdict"), [("N05", "slow"), ("S08", "slow"), ("N04", "failed"), ("N10", "failed"), ("N01", "slow")])
async def test_the_sandbox_s_slow_host_is_found_among_seven(fault: str, verdict: str) -> None:
    of = cluster(fault, nodes=7)
    wave = await fleet(of).run_checks("i", [CheckRequest(host, "nccl2") for host in of.hosts], permitted=True)
    assert {fact.host: fact.value for fact in wave.facts if fact.key == "nccl.suspect"} == {
        host: verdict if host == "n1" else "clean" for host in of.hosts
    }
    assert not of.unsafe_commands
    assert all(answer.seconds <= 45 * 3 for answer in wave.answers)


async def test_a_slow_leaf_is_named_though_only_the_fabric_itself_knows_the_leaves() -> None:
    of = cluster(*(f"N15@n{number}" for number in (0, 1, 2)), nodes=7)
    wave = await fleet(of).run_checks("i", [CheckRequest(host, "nccl2") for host in of.hosts], permitted=True)
    assert {fact.host: fact.value for fact in wave.facts if fact.key == "nccl.slow_leaf"} == dict.fromkeys(("n0", "n1", "n2"), "leaf-L2")
    assert {fact.value for fact in wave.facts if fact.key == "nccl.suspect"} == {"clean"}


async def test_without_nccl_tests_one_is_told_how_to_get_them() -> None:
    of = cluster(nodes=2)
    inventory = parse_inventory({"groups": {"g": {"hosts": "n0,n1", "nccl_tests": "/nowhere"}}})
    elsewhere = Fleet(InProcessTransport(of), inventory, CHECKS, MemoryEvidence(), SetClock(of.t0), load_skus())
    wave = await elsewhere.run_checks("i", [CheckRequest(host, "nccl2") for host in of.hosts], permitted=True)
    told = [fact for fact in wave.facts if fact.key == "check.skipped"]
    assert told
    assert {fact.value for fact in told} == {"no_tool"}
    assert "github.com/NVIDIA/nccl-tests" in str(told[0].attrs["text"])
