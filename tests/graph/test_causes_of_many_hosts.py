"""A shared server, switch or rack is the cause if enough of its hosts show it, and undecided if few do."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import pytest

from graph.engine.assessment import Assessment, assess_facts
from graph.engine.reference_data import PlaceKind, ReferenceData
from kb.taxonomy.loader import load_taxonomy
from tests.support.clock import T0
from tools.checks import CHECKS
from tools.fact import Fact, Status, Value

TAXONOMY = load_taxonomy()
HOSTS = tuple(f"gpu-{n:03}" for n in range(1, 7))


class Shows(NamedTuple):
    """What a host shows of a cause, and what a spared host shows instead."""

    check: str
    key: str
    value: Value
    well: Value = None
    devices: tuple[str | None, ...] = (None,)
    attrs: Mapping[str, int] = {}


CLUSTER: tuple[tuple[str, Shows], ...] = (
    ("SYSTEM_SOFTWARE.STORAGE.NFS_Server_Not_Responding", Shows("dmesg", "kernel.nfs_timeout", "files")),
    ("SYSTEM_SOFTWARE.STORAGE.NFS_Server_Not_Responding", Shows("store", "store.mount", "timeout", "ok", ("/data",))),
    ("OTHER.SERVICE.Auxiliary_Service_Down", Shows("svc", "net.tracker", "refused", "ok")),
    ("OTHER.SERVICE.Object_Storage_Throttled", Shows("svc", "store.object", "throttled", "ok")),
    ("OTHER.SCHED.Controller_Down", Shows("base", "base.answer", "timeout", "ok", ("port of controller",))),
    ("INTERCONNECT.IB.Subnet_Manager_Down", Shows("fabric", "fabric.sm", "none", "ok")),
)

GPUS = tuple(f"gpu{n}" for n in range(8))
PLACES: tuple[tuple[str, PlaceKind, Shows], ...] = (
    ("OTHER.INFRA.Rack_Cooling", "rack", Shows("smi", "gpu.throttle.hw_thermal", True, False, GPUS)),
    ("OTHER.INFRA.Rack_Cooling", "rack", Shows("ipmi", "ipmi.inlet", 43, 22)),
    ("INTERCONNECT.SWITCH.Leaf_Degraded", "leaf", Shows("fabric", "fabric.degraded", 2, 0)),
    ("INTERCONNECT.ROCE.PFC_Misconfigured", "leaf", Shows("eth", "net.rx_discards", 200000, 0, ("eth0",), {"per_day": 50_000})),
)


def seen(label: str, shows: Shows, guilty: int, hosts: tuple[str, ...] = HOSTS) -> list[Fact]:
    """Return the facts of `hosts`; the first `guilty` of them show the cause."""
    lens = ReferenceData(TAXONOMY, CHECKS)
    checks = {check.id for check in lens.list_deciding_checks(TAXONOMY.get_leaf(label))}
    looked = [Fact(check, "driver.version", status=Status.ABSENT, host=host) for host in hosts for check in checks]
    facts: list[Fact] = []
    for place, host in enumerate(hosts):
        value = shows.value if place < guilty else shows.well
        facts += [
            Fact(shows.check, shows.key, value, device, host=host, time=T0, attrs=shows.attrs)
            for device in shows.devices
            if value is not None
        ]
    return [*looked, *facts]


def told(facts: list[Fact], place: Callable[[str, PlaceKind], str] = lambda host, kind: "", hosts: tuple[str, ...] = HOSTS) -> Assessment:
    return assess_facts(facts, ReferenceData(TAXONOMY, CHECKS, place=place), hosts, opened=T0)


TIMEOUT = Fact("joblog", "job.error", "nccl_timeout", host=HOSTS[0], time=T0)


@pytest.mark.parametrize("beside", [(), (TIMEOUT,)], ids=["", "with-words"])
@pytest.mark.parametrize("guilty", [1, 2, 3, 4, 6])
@pytest.mark.parametrize(("label", "shows"), CLUSTER)
def test_a_cause_of_the_cluster_is_decided_by_half_and_never_ruled_out_by_less(
    label: str, shows: Shows, guilty: int, beside: tuple[Fact, ...]
) -> None:
    now = told([*seen(label, shows, guilty), *beside])
    if guilty >= 3 and not (guilty == 3 and label.endswith("Subnet_Manager_Down")):  # half the hosts' ports may also mean a cut fabric
        assert now.label_verdicts[label].verdict == "confirmed"
        return
    assert now.label_verdicts[label].verdict == "inconclusive"
    assert now.build_hypothesis(label).hosts == HOSTS[:guilty]
    assert label not in {row.label for row in now.list_ruled_out(100)}


@pytest.mark.parametrize("guilty", [1, 2, 3, 4, 6])
@pytest.mark.parametrize("known", [True, False], ids=["known-places", "unknown-places"])
@pytest.mark.parametrize(("label", "kind", "shows"), PLACES)
def test_a_third_of_a_place_is_one_cause_and_one_host_is_none(label: str, kind: PlaceKind, shows: Shows, guilty: int, known: bool) -> None:
    now = told(seen(label, shows, guilty), lambda host, place: "p1" if known and place == kind else "")
    if guilty == 1:
        assert now.label_verdicts[label].verdict == "inconclusive"
        assert now.build_hypothesis(label).hosts == HOSTS[:1]
        return
    (root,) = now.roots
    assert (root.label, root.subject.hosts) == (label, HOSTS[:guilty])


MANY = tuple(f"gpu-{n:03}" for n in range(1, 25))
HOT = PLACES[0][2]


@pytest.mark.parametrize("guilty", [3, 8, 12, 24])
@pytest.mark.parametrize("rack", ["r1", ""], ids=["one-rack", "unknown-racks"])
def test_several_hot_hosts_of_one_rack_of_24_are_one_cause(rack: str, guilty: int) -> None:
    now = told(seen("OTHER.INFRA.Rack_Cooling", HOT, guilty, MANY), lambda host, kind: rack, MANY)
    assert [(row.label, row.hosts) for row in now.list_root_causes()] == [("OTHER.INFRA.Rack_Cooling", MANY[:guilty])]


def test_each_hot_rack_is_a_cause_of_its_own_hosts() -> None:
    now = told(seen("OTHER.INFRA.Rack_Cooling", HOT, 18, MANY), lambda host, kind: "r1" if host <= MANY[11] else "r2", MANY)
    assert {(row.subject.device, row.subject.hosts) for row in now.roots} == {("rack:r1", MANY[:12]), ("rack:r2", MANY[12:18])}


@pytest.mark.parametrize(
    "rack", [lambda host: host[-1], lambda host: "r1", lambda host: ""], ids=["other-racks", "one-rack", "unknown-racks"]
)
def test_two_hot_hosts_of_24_are_two_faults(rack: Callable[[str], str]) -> None:
    now = told(seen("OTHER.INFRA.Rack_Cooling", HOT, 2, MANY), lambda host, kind: rack(host), MANY)
    assert {row.label for row in now.list_root_causes()} == {"GPU.THERMAL.HW_Thermal_Slowdown"}
    assert {host for row in now.list_root_causes() for host in row.hosts} == set(MANY[:2])


def test_cool_air_at_spared_hosts_does_not_contradict_a_hot_rack() -> None:
    cool = [Fact("ipmi", "ipmi.inlet", 24, host=host, time=T0) for host in HOSTS[2:]]
    hot = seen("OTHER.INFRA.Rack_Cooling", HOT, 2)
    assert told([*hot, *cool], lambda host, kind: "r1").list_root_causes()[0].label == "OTHER.INFRA.Rack_Cooling"
    here = [Fact("ipmi", "ipmi.inlet", 24, host=host, time=T0) for host in HOSTS[:2]]
    assert "OTHER.INFRA.Rack_Cooling" not in {row.label for row in told([*hot, *here], lambda host, kind: "r1").list_root_causes()}
