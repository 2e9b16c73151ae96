"""Device names: PCI addresses become gpuN and mlx5_N, nvidia-smi's numbers the GPU's place on the bus.

If a GPU disappears, nvidia-smi's numbers shift; bus places do not. A missing adapter is named by the gap it leaves.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from kb.fact_keys import find_key
from kb.pci_address import normalize_bdf
from tools.fact import Fact, Status

_GPU_PATTERN = re.compile(r"gpu(\d+)")
_MLX5_PATTERN = re.compile(r"mlx5_(\d{1,3})")
_SMI_CHECKS = ("smi", "topo", "nvlink")  # checks whose gpuN is nvidia-smi's number


def name_devices(facts: Sequence[Fact], bus: Sequence[str] = ()) -> list[Fact]:
    """Return one host's facts with GPUs named by their place on the bus.

    `bus` is the SKU's bus order. If missing or unfit for nvidia-smi's list, lspci's order is used, else nvidia-smi's.
    """
    listed = _map_numbers(facts)
    order = _choose_order(listed, facts, bus)
    places = {address: f"gpu{place}" for place, address in enumerate(order)}
    if not places:
        places = {address: f"gpu{number}" for number, address in listed.items()}
    numbers = {f"gpu{number}": places[address] for number, address in listed.items() if address in places}
    names = {"gpu": places, "hca": _map_adapter_names(facts)}
    return [_rename_device(fact, names, numbers) for fact in facts]


def find_missing_gpus(facts: Sequence[Fact], bus: Sequence[str] = ()) -> list[Fact]:
    """Return a fact per expected GPU that nvidia-smi or lspci does not list, after `name_devices`.

    Returns nothing if the tool listed no GPU. Another machine's bus table is ignored.
    """
    smi = [str(f.value) for f in facts if f.key == "gpu.bdf" and f.status is Status.OK]
    pci = [str(f.attrs.get("bdf", f.device)) for f in facts if f.key == "pcie.rev_ff"]
    table = [address for address in map(normalize_bdf, bus) if address]
    fits = bool(table) and set(smi) | set(pci) <= set(table)
    missing = _build_missing_facts("smi", "gpu.missing", smi, table if fits else sorted(set(pci)))
    return missing + (_build_missing_facts("lspci", "pcie.absent", pci, table) if fits else [])


def _build_missing_facts(check: str, key: str, listed: Sequence[str], order: Sequence[str]) -> list[Fact]:
    if not listed:
        return []
    return [
        Fact(check, key, True, f"gpu{place}", line=f"{address} is not listed, {len(set(listed))} others are", attrs={"bdf": address})
        for place, address in enumerate(order)
        if address not in listed
    ]


def _map_numbers(facts: Iterable[Fact]) -> dict[int, str]:
    address_by_number = {}
    for fact in facts:
        match = _GPU_PATTERN.fullmatch(fact.device or "")
        if match and fact.key == "gpu.bdf" and fact.status is Status.OK:
            address_by_number[int(match[1])] = str(fact.value)
    return dict(sorted(address_by_number.items()))


def _choose_order(listed: dict[int, str], facts: Iterable[Fact], bus: Sequence[str]) -> list[str]:
    table = [address for address in map(normalize_bdf, bus) if address]
    pci = sorted({f.device for f in facts if f.key == "pcie.rev_ff" and f.device and normalize_bdf(f.device)})
    for order in (table, pci):
        if order and _is_subsequence(list(listed.values()), order):
            return order
    return [] if listed else table or pci


def _is_subsequence(addresses: Sequence[str], order: Sequence[str]) -> bool:
    remaining = iter(order)
    return all(address in remaining for address in addresses)


def _rename_device(fact: Fact, names_by_scope: Mapping[str, Mapping[str, str]], numbers: Mapping[str, str]) -> Fact:
    if not fact.device:
        return fact
    if fact.check in _SMI_CHECKS and fact.device in numbers:
        return fact if numbers[fact.device] == fact.device else replace(fact, device=numbers[fact.device])
    key = find_key(fact.key)
    name = names_by_scope.get(key.scope, {}).get(fact.device) if key else None
    return replace(fact, device=name, attrs={**fact.attrs, "bdf": fact.device}) if name else fact


def _map_adapter_names(facts: Sequence[Fact]) -> dict[str, str]:
    """Map addresses to the host's names; a missing adapter gets the only number free at its address."""
    name_by_address = {str(f.value): f.device for f in facts if f.key == "ib.bdf" and f.status is Status.OK and f.device}
    addressed_devices = {fact.device for fact in facts if fact.device and normalize_bdf(fact.device) and _is_adapter_fact(fact)}
    matches = [(address, _MLX5_PATTERN.fullmatch(name)) for address, name in sorted(name_by_address.items())]
    numbered = [(address, int(match[1])) for address, match in matches if match]
    numbers = [number for _, number in numbered]
    if len(numbered) < len(matches) or numbers != sorted(set(numbers)):
        return name_by_address
    number_by_address = {address: _find_free_number(address, numbered) for address in addressed_devices - name_by_address.keys()}
    uses = Counter(number_by_address.values())
    missing_names = {address: f"mlx5_{number}" for address, number in number_by_address.items() if number is not None and uses[number] == 1}
    return name_by_address | missing_names


def _is_adapter_fact(fact: Fact) -> bool:
    key = find_key(fact.key)
    return key is not None and key.scope == "hca"


def _find_free_number(address: str, numbered: Sequence[tuple[str, int]]) -> int | None:
    """Return the only number free between the neighbours. After the last adapter nothing proves that another existed."""
    below = max((number for other, number in numbered if other < address), default=-1)
    above = min((number for other, number in numbered if other > address), default=below)
    return below + 1 if above - below == 2 else None
