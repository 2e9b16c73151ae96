"""Events of devices that a host does not have become a note, never a cause."""

from dataclasses import replace

import pytest

from graph.engine.assessment import Assessment, assess_facts
from graph.engine.reference_data import ReferenceData
from kb.taxonomy.loader import load_taxonomy
from tests.support.clock import T0
from tests.support.fakes_graph import LOST, TAXONOMY, expected, fact, healthy, instead
from tests.support.fakes_graph import lens as small
from tools.checks import CHECKS
from tools.checks.pcie import parse_lspci
from tools.fact import Fact

HOSTS = ("n1", "n2", "n3")
BUS = ("0000:19:00.0", "0000:3b:00.0", "0000:4c:00.0", "0000:5d:00.0")
PHANTOM = "0000:ab:00.0"


def listing(host: str, gpus: tuple[str, ...] = BUS) -> list[Fact]:
    """Return what lspci and nvidia-smi list for the host, GPUs named."""
    places = [(f"gpu{BUS.index(address)}", address) for address in gpus]
    return [
        *(fact(host, "lspci", "pcie.rev_ff", False, name, attrs={"bdf": address}) for name, address in places),
        *(fact(host, "smi", "gpu.bdf", address, name) for name, address in places),
    ]


def look(facts: list[Fact], *, bus: tuple[str, ...] = BUS) -> Assessment:
    own = small(TAXONOMY)
    return assess_facts(facts, ReferenceData(own.taxonomy, own.checks, expected, own.place, lambda host: bus), HOSTS, None, T0)


def seen(*sick: Fact, **lists: tuple[str, ...]) -> list[Fact]:
    gone = [row for row in healthy(*HOSTS) if row.key != "pcie.rev_ff"]
    return instead([*gone, *(row for host in HOSTS for row in listing(host, lists.get(host, BUS)))], *sick)


def test_an_event_of_a_missing_gpu_accuses_no_host_and_is_reported() -> None:
    now = look(seen(fact("n2", "dmesg", "kernel.xid", 79, PHANTOM)))
    assert now.finding == "no_fault"
    assert [(row.host, row.check, row.why) for row in now.list_unobserved()] == [
        ("n2", "dmesg", f"events at {PHANTOM} count for nothing: it has no such device")
    ]


def test_the_same_event_of_a_gpu_that_it_has_is_the_cause() -> None:
    assert [row.label for row in look(seen(fact("n2", "dmesg", "kernel.xid", 79, BUS[2]))).list_root_causes()] == [LOST]


def test_a_gpu_that_no_tool_lists_any_more_is_one_that_the_machine_has() -> None:
    left = tuple(address for address in BUS if address != BUS[2])
    now = look(seen(fact("n2", "dmesg", "kernel.xid", 79, BUS[2]), n2=left))
    assert [(row.label, row.hosts) for row in now.list_root_causes()] == [(LOST, ("n2",))]


def test_without_a_profile_what_other_hosts_list_speaks_for_one_that_lost_it() -> None:
    left = tuple(address for address in BUS if address != BUS[2])
    now = look(seen(fact("n2", "dmesg", "kernel.xid", 79, BUS[2]), n2=left), bus=())
    assert [row.label for row in now.list_root_causes()] == [LOST]


def test_without_a_profile_it_accuses_no_host_and_is_reported() -> None:
    now = look(seen(fact("n2", "dmesg", "kernel.xid", 79, PHANTOM)), bus=())
    assert (now.finding, now.list_root_causes()) == ("abstained", ())


def test_without_a_list_of_gpus_the_existing_ones_are_unknown() -> None:
    now = look(instead(healthy(*HOSTS), fact("n2", "dmesg", "kernel.xid", 79, PHANTOM)), bus=())
    assert [row.label for row in now.list_root_causes()] == [LOST]


@pytest.mark.parametrize("code", [48, 74, 79, 92, 94, 95, 119, 137, 154])
def test_no_xid_of_a_phantom_moves_any_cause_of_the_whole_taxonomy(code: int) -> None:
    whole = ReferenceData(load_taxonomy(), CHECKS, bus=lambda host: BUS)
    calm = assess_facts(seen(), whole, HOSTS, None, T0)
    phantoms = [fact("n2", "dmesg", "kernel.xid", code, f"0000:{n:02x}:00.0") for n in range(0xA0, 0xA4)]
    said = assess_facts([*seen(), *phantoms], whole, HOSTS, None, T0)
    assert {row.label for row in said.beliefs if row.support} == {row.label for row in calm.beliefs if row.support}
    assert not said.roots


def test_attached_text_about_gpus_that_no_host_has_is_ignored() -> None:
    said = fact("", "dmesg", "kernel.xid", 79, PHANTOM)
    assert not any(row.support for row in look([*seen(), said]).beliefs if row.label == LOST)
    assert any(row.support for row in look([*seen(), fact("", "dmesg", "kernel.xid", 79, BUS[0])]).beliefs if row.label == LOST)


def test_an_adapter_that_a_whole_list_does_not_have_is_no_adapter() -> None:
    def list_of(host: str, many: int) -> list[Fact]:
        return [fact(host, "ibstat", "ib.bdf", f"0000:{n:02x}:00.0", f"mlx5_{n}") for n in range(many)]

    def supported(many: int) -> bool:
        whole = ReferenceData(load_taxonomy(), CHECKS, lambda host, key, device: 4 if key == "ib.count" else None)
        gone = fact("n1", "dmesg", "kernel.mlx5", "fw_fatal", PHANTOM)
        rows = assess_facts([*list_of("n1", many), gone], whole, ("n1",), None, T0).beliefs
        return any(match.fact.device == PHANTOM for row in rows for match in row.support)

    assert not supported(4), "all that its profile knows are listed"
    assert supported(3), "the one that is missing may be this one"


def test_a_function_that_a_gpu_does_not_have_is_no_gpu() -> None:
    """The driver names a GPU by function 0; an event of function 1 is forged text."""
    second = BUS[2].replace(".0", ".1")
    assert look(seen(fact("n2", "dmesg", "kernel.xid", 79, second))).finding == "no_fault"
    assert look(seen(fact("n2", "dmesg", "kernel.xid", 79, second), fact("n3", "dmesg", "kernel.xid", 79, BUS[2]))).list_root_causes()[
        0
    ].hosts == ("n3",)


SWITCHES = ("0000:83:00.0", "0000:84:00.0")
BUSES = ("0000:15", "0000:19", "0000:3b")


def lists(host: str, switches: tuple[str, ...] = SWITCHES, buses: tuple[str, ...] = BUSES) -> list[Fact]:
    return [fact(host, "lspci", "pcie.nvswitches", list(switches)), fact(host, "lspci", "pcie.buses", list(buses))]


def sxid(address: str, host: str = "n2") -> Fact:
    return fact(host, "dmesg", "kernel.sxid", 20034, "nvswitch0", attrs={"bdf": address, "fatal": True, "link": 30})


def judged(*facts: Fact, hosts: tuple[str, ...] = HOSTS) -> Assessment:
    return assess_facts([*seen(), *facts], ReferenceData(load_taxonomy(), CHECKS, bus=lambda host: BUS), hosts, None, T0)


def every(**more: tuple[str, ...]) -> list[Fact]:
    return [row for host in HOSTS for row in lists(host, more.get(host, SWITCHES))]


SWITCH = "INTERCONNECT.NVSWITCH.Fatal_SXid"


def test_an_sxid_of_a_switch_that_the_node_has_is_the_cause() -> None:
    assert [row.label for row in judged(*every(), sxid(SWITCHES[1])).list_root_causes()] == [SWITCH]


def test_an_sxid_of_a_missing_switch_accuses_no_host_and_is_reported() -> None:
    now = judged(*every(), sxid(PHANTOM))
    assert not any(match.fact.key == "kernel.sxid" for row in now.beliefs for match in row.support)
    assert look([*seen(), *every(), sxid(PHANTOM)]).finding == "no_fault"
    assert ("n2", "dmesg", f"events at {PHANTOM} count for nothing: it has no such device") in [
        (row.host, row.check, row.why) for row in now.list_unobserved()
    ]


def test_an_sxid_of_a_missing_switch_function_accuses_no_host() -> None:
    assert look([*seen(), *every(), sxid(SWITCHES[1].replace(".0", ".1"))]).finding == "no_fault"


LISTED = """\
0000:15:01.0 PCI bridge: Intel Corporation Device 352a (rev 04) (prog-if 00 [Normal decode])
\tBus: primary=15, secondary=16, subordinate=19, sec-latency=0
0000:16:00.0 PCI bridge: Broadcom / LSI PEX890xx PCIe Gen 5 Switch (rev b0) (prog-if 00 [Normal decode])
\tBus: primary=16, secondary=17, subordinate=19, sec-latency=0
"""
NVIDIA = """\
0000:19:00.0 3D controller: NVIDIA Corporation GH100 [H100 SXM5 80GB] (rev a1)
\tControl: I/O- Mem+ BusMaster+
0000:83:00.0 Bridge: NVIDIA Corporation GH100 [H100 NVSwitch] (rev a1)
\tControl: I/O- Mem+ BusMaster+
"""


@pytest.mark.parametrize(
    ("event", "counts"),
    [
        (("kernel.aer", "fatal", "0000:15:01.0"), True),  # the root port itself
        (("kernel.aer", "fatal", "0000:16:00.0"), True),  # a switch behind it
        (("kernel.aer", "fatal", "0000:18:00.0"), True),  # an unlisted device behind a bridge: an adapter, a disk
        (("kernel.aer", "fatal", "0000:2a:00.0"), False),
        (("kernel.sxid", "0000:83:00.0", ""), True),
        (("kernel.sxid", "0000:83:00.1", ""), False),
        (("kernel.sxid", "0000:19:00.0", ""), False),  # a GPU is no switch
    ],
)
def test_as_lspci_lists_it_an_event_counts_where_the_device_is(event: tuple[str, str, str], *, counts: bool) -> None:
    printed = [replace(row, host=host, time=T0) for host in HOSTS for text in (LISTED, NVIDIA) for row in parse_lspci(text)]
    lists = [row for row in printed if row.key in ("pcie.nvswitches", "pcie.buses")]
    key, value, device = event
    said = sxid(value) if key == "kernel.sxid" else fact("n2", "dmesg", key, value, device)
    rows = judged(*lists, said).beliefs
    assert any(match.fact.key == key for row in rows for match in row.support) is counts


def test_a_switch_that_only_this_node_no_longer_lists_is_one_that_it_has() -> None:
    assert [row.label for row in judged(*every(n2=SWITCHES[:1]), sxid(SWITCHES[1])).list_root_causes()] == [SWITCH]


def test_where_one_node_alone_was_listed_a_switch_may_have_gone_from_it() -> None:
    assert not judged(*lists("n2"), sxid(PHANTOM)).list_root_causes()
    assert look([*seen(), *lists("n2"), sxid(PHANTOM)]).finding == "abstained"


def test_without_a_list_of_switches_the_existing_ones_are_unknown() -> None:
    assert [row.label for row in judged(sxid(PHANTOM)).list_root_causes()] == [SWITCH]


@pytest.mark.parametrize(
    ("device", "counts"), [("0000:19:00.0", True), ("0000:15:01.0", True), ("0000:3b:1f.7", True), ("0000:ab:00.0", False), ("eth0", True)]
)
def test_a_pcie_error_counts_where_a_bus_is(device: str, *, counts: bool) -> None:
    rows = judged(*every(), fact("n2", "dmesg", "kernel.aer", "fatal", device)).beliefs
    assert any(match.fact.key == "kernel.aer" for row in rows for match in row.support) is counts


@pytest.mark.parametrize("key", ["kernel.aer", "kernel.pcie_hotplug"])
def test_no_error_of_a_bus_that_no_machine_has_moves_any_cause(key: str) -> None:
    calm, said = judged(*every()), fact("n2", "dmesg", key, {"kernel.aer": "fatal"}.get(key, "link_down"), PHANTOM)
    assert {row.label for row in judged(*every(), said).beliefs if row.support} == {row.label for row in calm.beliefs if row.support}
    assert look([*seen(), *every(), said]).finding == look([*seen(), *every()]).finding == "no_fault"
