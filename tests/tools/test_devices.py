"""GPUs are named by their place on the bus, also when one is missing."""

import pytest

from kb.pci_address import normalize_bdf
from tools.devices import find_missing_gpus, name_devices
from tools.fact import Fact

BUS = tuple(f"0000:{bus}:00.0" for bus in ("19", "3b", "4c", "5d"))


def listed(*addresses: str) -> list[Fact]:
    """Return nvidia-smi's numbering and one more fact of each GPU."""
    return [
        fact
        for number, address in enumerate(addresses)
        for fact in (Fact("smi", "gpu.bdf", address, f"gpu{number}"), Fact("smi", "gpu.temp.core", 40 + number, f"gpu{number}"))
    ]


def pci(*addresses: str) -> list[Fact]:
    return [Fact("lspci", "pcie.rev_ff", False, address) for address in addresses]


def devices(facts: list[Fact], key: str) -> list[str | None]:
    return [fact.device for fact in facts if fact.key == key]


@pytest.mark.parametrize("text", ["00000000:9B:00.0", "PCI:0000:9b:00", "9b:00.0", "0000:9b:00.0", "9B:00"])
def test_an_address_has_one_spelling(text: str) -> None:
    assert normalize_bdf(text) == "0000:9b:00.0"


@pytest.mark.parametrize("text", ["10000:9b:00.0", "00010000:9B:00", "PCI:00010000:9b:00.0"])
def test_a_domain_beyond_four_digits_keeps_all_of_them(text: str) -> None:
    assert normalize_bdf(text) == "10000:9b:00.0"


@pytest.mark.parametrize("text", ["", "gpu5", "0000:9b", "zz:00.0", "0000:9b:00.0.1"])
def test_what_is_no_address_is_none(text: str) -> None:
    assert normalize_bdf(text) is None


def test_an_address_becomes_the_gpu_that_nvidia_smi_lists_there() -> None:
    facts = [*listed(*BUS), Fact("dmesg", "kernel.xid", 79, BUS[2]), Fact("dmesg", "kernel.aer", "fatal", "0000:17:00.0")]
    named = name_devices(facts)
    assert devices(named, "kernel.xid") == ["gpu2"]
    assert devices(named, "kernel.aer") == ["0000:17:00.0"]
    assert next(fact.attrs for fact in named if fact.key == "kernel.xid") == {"bdf": BUS[2]}
    assert len(named) == len(facts)


@pytest.mark.parametrize("table", [True, False])
def test_when_a_gpu_is_gone_the_others_keep_their_place(table: bool) -> None:
    """nvidia-smi numbers the remaining three GPUs 0 to 2; the kernel names the missing one by address."""
    facts = [*listed(BUS[0], BUS[2], BUS[3]), *pci(*BUS), Fact("dmesg", "kernel.xid", 79, BUS[1]), Fact("topo", "topo.peers", 2, "gpu1")]
    named = name_devices(facts, BUS if table else ())
    assert devices(named, "gpu.temp.core") == ["gpu0", "gpu2", "gpu3"]
    assert devices(named, "kernel.xid") == ["gpu1"]
    assert devices(named, "topo.peers") == ["gpu2"]
    assert devices(named, "pcie.rev_ff") == ["gpu0", "gpu1", "gpu2", "gpu3"]


def test_without_nvidia_smi_the_table_or_lspci_names_them() -> None:
    fact = Fact("dmesg", "kernel.xid", 79, BUS[3])
    assert devices(name_devices([fact], BUS), "kernel.xid") == ["gpu3"]
    assert devices(name_devices([fact, *pci(*BUS)]), "kernel.xid") == ["gpu3"]
    assert devices(name_devices([fact]), "kernel.xid") == [BUS[3]]


def test_a_table_of_another_machine_is_not_believed() -> None:
    other = ("0000:01:00.0", "0000:02:00.0")
    named = name_devices([*listed(*other), Fact("dmesg", "kernel.xid", 31, other[1])], BUS)
    assert devices(named, "kernel.xid") == ["gpu1"]
    assert devices(named, "gpu.temp.core") == ["gpu0", "gpu1"]


def test_an_order_of_nvidia_smi_s_own_is_kept() -> None:
    facts = [*listed(BUS[1], BUS[0]), *pci(BUS[0], BUS[1]), Fact("dmesg", "kernel.xid", 31, BUS[0])]
    named = name_devices(facts)
    assert devices(named, "gpu.temp.core") == ["gpu0", "gpu1"]
    assert devices(named, "kernel.xid") == ["gpu1"]


def test_a_gpu_that_is_not_listed_is_told_by_name() -> None:
    facts = name_devices([*listed(BUS[0], BUS[2], BUS[3]), *pci(*BUS)], BUS)
    assert [(fact.key, fact.device) for fact in find_missing_gpus(facts, BUS)] == [("gpu.missing", "gpu1")]
    gone = name_devices([*listed(BUS[0], BUS[2], BUS[3]), *pci(BUS[0], BUS[2], BUS[3])], BUS)
    assert {(fact.key, fact.device) for fact in find_missing_gpus(gone, BUS)} == {("gpu.missing", "gpu1"), ("pcie.absent", "gpu1")}
    assert find_missing_gpus(name_devices([*listed(BUS[0]), *pci(*BUS[:2])])) != []
    assert find_missing_gpus([], BUS) == []
    assert find_missing_gpus(listed("0000:01:00.0"), BUS) == []


HCAS = dict(enumerate(("18", "3a", "4d", "5c", "9a", "ba", "cc", "dc")))


def adapters(*numbers: int) -> list[Fact]:
    return [Fact("ibstat", "ib.bdf", f"0000:{HCAS[number]}:00.0", f"mlx5_{number}") for number in numbers]


def event(bus: str) -> Fact:
    return Fact("dmesg", "kernel.mlx5", "health_compromised", f"0000:{bus}:00.0")


def named_event(facts: list[Fact], bus: str) -> str | None:
    return devices(name_devices([*facts, event(bus)]), "kernel.mlx5")[0]


def test_the_kernel_s_address_of_an_adapter_becomes_its_name() -> None:
    named = name_devices([*adapters(*range(8)), event("9a")])
    assert devices(named, "kernel.mlx5") == ["mlx5_4"]
    assert named[-1].attrs == {"bdf": "0000:9a:00.0"}


def test_an_adapter_that_is_gone_is_named_by_the_one_number_that_is_free_there() -> None:
    assert named_event(adapters(0, 1, 2, 3, 5, 6, 7), "9a") == "mlx5_4"
    assert named_event(adapters(1, 2, 3), "18") == "mlx5_0"


def test_where_the_gap_does_not_tell_the_address_stays() -> None:
    assert named_event(adapters(0, 1, 2, 3, 6, 7), "9a") == "0000:9a:00.0", "two numbers are free"
    assert named_event(adapters(0, 1, 2, 3), "9a") == "0000:9a:00.0", "beyond the last nobody knows"
    assert named_event(adapters(0, 1, 2), "99") == "0000:99:00.0"
    assert named_event([], "9a") == "0000:9a:00.0"
    two = name_devices([*adapters(0, 2), event("3a"), event("39")])
    assert devices(two, "kernel.mlx5") == ["0000:3a:00.0", "0000:39:00.0"], "two addresses, one number"


def test_names_that_do_not_follow_the_bus_tell_nothing_of_a_gap() -> None:
    odd = [Fact("ibstat", "ib.bdf", "0000:18:00.0", "mlx5_2"), Fact("ibstat", "ib.bdf", "0000:9b:00.0", "mlx5_0")]
    assert named_event(odd, "3a") == "0000:3a:00.0"
    roce = [Fact("ibstat", "ib.bdf", "0000:18:00.0", "rocep24s0"), Fact("ibstat", "ib.bdf", "0000:5c:00.0", "mlx5_2")]
    assert named_event(roce, "3a") == "0000:3a:00.0"
    assert named_event(roce, "18") == "rocep24s0"
