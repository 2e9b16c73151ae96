"""The machine types that can be simulated, with the figures of a healthy one."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Profile:
    """The hardware of a healthy machine of one type."""

    name: str
    product: str
    architecture: str
    chip: str
    pci_device: str
    pci_subsystem: str
    buses: tuple[str, ...]
    memory_mib: int
    reserved_mib: int
    bar1_mib: int
    banks: int
    sm_max: int
    mem_clock: int
    idle_sm: int
    app_clock: int
    power_limit: int
    power_min: int
    idle_watts: int
    busy_watts: int
    pcie_gen: int
    links: int
    link_speed: str
    switches: tuple[str, ...]
    fabric: bool
    absolute_temps: bool
    vbios: str
    hca_buses: tuple[str, ...]
    hca_rate: int
    hca_type: str
    hca_firmware: str
    memory_gib: int
    cpus: int
    busbw: float
    board: str


_H_BUSES = ("19", "3b", "4c", "5d", "9b", "bb", "cb", "db")
_A_BUSES = ("07", "0f", "47", "4e", "87", "90", "b7", "bd")
_L_BUSES = ("01", "21", "41", "61", "81", "a1", "c1", "e1")

_PROFILES = (
    Profile(
        name="dgx-h100-8", product="NVIDIA H100 80GB HBM3", architecture="Hopper", chip="GH100 [H100 SXM5 80GB]",
        pci_device="2330", pci_subsystem="16c1", buses=_H_BUSES, memory_mib=81559, reserved_mib=551, bar1_mib=131072, banks=2560,
        sm_max=1980, mem_clock=2619, idle_sm=345, app_clock=1980, power_limit=700, power_min=200, idle_watts=71, busy_watts=612,
        pcie_gen=5, links=18, link_speed="26.562", switches=("83", "84", "85", "86"), fabric=True, absolute_temps=False,
        vbios="96.00.74.00.01", hca_buses=("18", "3a", "4d", "5c", "9a", "ba", "cc", "dc"), hca_rate=400, hca_type="MT4129",
        hca_firmware="28.39.3004", memory_gib=2048, cpus=112, busbw=478.0, board="692-2G520-0200-000",
    ),
    Profile(
        name="hgx-h200-8", product="NVIDIA H200", architecture="Hopper", chip="GH100 [H200 SXM 141GB]",
        pci_device="2335", pci_subsystem="18be", buses=_H_BUSES, memory_mib=143771, reserved_mib=683, bar1_mib=262144, banks=3072,
        sm_max=1980, mem_clock=3201, idle_sm=345, app_clock=1980, power_limit=700, power_min=200, idle_watts=76, busy_watts=618,
        pcie_gen=5, links=18, link_speed="26.562", switches=("83", "84", "85", "86"), fabric=True, absolute_temps=False,
        vbios="96.00.A5.00.03", hca_buses=("18", "3a", "4d", "5c", "9a", "ba", "cc", "dc"), hca_rate=400, hca_type="MT4129",
        hca_firmware="28.39.3004", memory_gib=2048, cpus=112, busbw=480.0, board="692-2G520-0280-000",
    ),
    Profile(
        name="hgx-a100-8", product="NVIDIA A100-SXM4-80GB", architecture="Ampere", chip="GA100 [A100 SXM4 80GB]",
        pci_device="20b2", pci_subsystem="147f", buses=_A_BUSES, memory_mib=81920, reserved_mib=861, bar1_mib=131072, banks=640,
        sm_max=1410, mem_clock=1593, idle_sm=210, app_clock=1275, power_limit=400, power_min=100, idle_watts=62, busy_watts=352,
        pcie_gen=4, links=12, link_speed="25", switches=("c4", "c5", "c6", "c7", "c8", "c9"), fabric=False, absolute_temps=True,
        vbios="92.00.45.00.03", hca_buses=("0c", "12", "4b", "54", "8d", "94", "ba", "cc"), hca_rate=200, hca_type="MT4123",
        hca_firmware="20.39.3004", memory_gib=1024, cpus=128, busbw=233.0, board="692-2G506-0212-002",
    ),
    Profile(
        name="pcie-l40s-8", product="NVIDIA L40S", architecture="Ada Lovelace", chip="AD102GL [L40S]",
        pci_device="26b9", pci_subsystem="1851", buses=_L_BUSES, memory_mib=46068, reserved_mib=611, bar1_mib=65536, banks=192,
        sm_max=2520, mem_clock=9001, idle_sm=210, app_clock=2520, power_limit=350, power_min=100, idle_watts=34, busy_watts=301,
        pcie_gen=4, links=0, link_speed="", switches=(), fabric=False, absolute_temps=False,
        vbios="95.02.66.00.04", hca_buses=("22", "62", "a2", "e2"), hca_rate=200, hca_type="MT4129",
        hca_firmware="28.39.3004", memory_gib=1024, cpus=128, busbw=24.0, board="900-2G133-0080-000",
    ),
)  # fmt: skip

PROFILES: Mapping[str, Profile] = {profile.name: profile for profile in _PROFILES}

WITHOUT_NVLINK = "pcie-l40s-8"

# newest CUDA that a driver branch supports
CUDA_OF_BRANCH: Mapping[int, str] = {525: "12.0", 535: "12.2", 550: "12.4", 560: "12.6", 570: "12.8", 580: "13.0"}

DEFAULT_DRIVER = "570.148.08"
DEFAULT_KERNEL = "5.15.0-107-generic"


def get_driver_branch(driver: str) -> int:
    """Return a driver's branch (570 for 570.148.08), or the newest known one below it."""
    number = int(driver.partition(".")[0])
    return max((branch for branch in CUDA_OF_BRANCH if branch <= number), default=525)


def find_unsupported_cuda(driver: str) -> str:
    """Return the first CUDA version that is too new for a driver."""
    newer_branches = [branch for branch in CUDA_OF_BRANCH if branch > get_driver_branch(driver)]
    return CUDA_OF_BRANCH[min(newer_branches)] if newer_branches else "13.1"
