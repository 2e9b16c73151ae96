"""The BMC and the InfiniBand fabric."""

import contextlib
from collections.abc import Callable, Iterator

from deploy.lab.fabric import FabricPlan, start_fabric, stop_fabric
from deploy.lab.layout import Rack, find_node
from deploy.lab.parts.bmc import FAN, HEALTHY_SENSORS, PSU_FAILED, TEMPERATURE, Sensor, start_bmc, stop_bmc
from tests.real.breakages.breakage import GPU_HOSTS, Breakage
from tools.inventory.host_ranges import expand_host_range

UNCORRECTABLE_ECC = (0x0C, 0x20, 0x6F, 0x01)  # memory sensor event `Uncorrectable ECC` (IPMI 2.0, table 42-3)
HOT = (Sensor("Inlet Temp", TEMPERATURE, 47, 42), Sensor("FAN1", FAN, 90, 20))
STOPPED_FAN = (Sensor("Inlet Temp", TEMPERATURE, 24, 42), Sensor("FAN1", FAN, 2, 20))


def _bmc(
    host: str, sensors: tuple[Sensor, ...] = HEALTHY_SENSORS, *events: tuple[int, int, int, int]
) -> Callable[[Rack], contextlib.AbstractContextManager[None]]:
    @contextlib.contextmanager
    def around(rack: Rack) -> Iterator[None]:
        with contextlib.ExitStack() as stack:
            for name in expand_host_range(GPU_HOSTS):  # a single host with a BMC would differ from its peers
                stack.callback(stop_bmc, rack, find_node(name))
                start_bmc(rack, find_node(name), *((sensors, events) if name == host else ()))
            yield

    return around


def fabric(plan: FabricPlan) -> Callable[[Rack], contextlib.AbstractContextManager[None]]:
    """Return a context that starts and stops a fabric."""

    @contextlib.contextmanager
    def around(rack: Rack) -> Iterator[None]:
        start_fabric(rack, plan)
        try:
            yield
        finally:
            stop_fabric(rack)

    return around


HARDWARE = (
    Breakage(
        id="uncorrectable-memory",
        area="hardware",
        kind=8,
        report="gpu-001 rebooted by itself last night",
        at_fault="gpu-001",
        around=_bmc("gpu-001", HEALTHY_SENSORS, UNCORRECTABLE_ECC),
        right=("HARDWARE.DIMM_Errors", "HARDWARE.Machine_Check", "ipmi.event"),
    ),
    Breakage(
        id="power-supply-failed",
        area="hardware",
        report="an amber light on gpu-002, can you look?",
        at_fault="gpu-002",
        around=_bmc("gpu-002", HEALTHY_SENSORS, PSU_FAILED),
        right=("HARDWARE.PSU_Failure", "ipmi.event"),
    ),
    Breakage(
        id="fan-stopped",
        area="hardware",
        report="gpu-003 sounds different today",
        at_fault="gpu-003",
        around=_bmc("gpu-003", STOPPED_FAN),
        right=("HARDWARE.Fan_Failure", "ipmi.sensor"),
    ),
    Breakage(
        id="inlet-hot",
        area="hardware",
        report="gpu-001 slower than usual this afternoon",
        at_fault="gpu-001",
        around=_bmc("gpu-001", HOT),
        right=("INFRA.Rack_Cooling", "THERMAL.HW_Thermal_Slowdown", "ipmi.inlet", "ipmi.sensor"),  # the only abnormal sensor
    ),
    Breakage(
        id="adapter-at-quarter-width",
        area="fabric",
        kind=5,
        tier=2,
        report="allreduce on gpu-[001-003] is slow since this morning",
        at_fault="gpu-002",
        around=fabric(FabricPlan(widths=(("gpu-002", "1xEDR"),))),
        right=("IB.Rate_Degraded", "ib.rate", "ib.width"),
    ),
    Breakage(
        id="adapter-port-dead",
        area="fabric",
        kind=5,
        report="nccl times out on gpu-[001-003]",
        at_fault="gpu-003",
        around=fabric(FabricPlan(dead=("gpu-003",))),
        right=("IB.Port_Down", "ib.state"),
    ),
    Breakage(
        id="no-subnet-manager",
        area="fabric",
        report="nobody gets past init on gpu-[001-003] since the switch work",
        at_fault=GPU_HOSTS,
        around=fabric(FabricPlan(managers=0)),
        right=("IB.Subnet_Manager_Down", "fabric.sm"),
    ),
    Breakage(
        id="uplink-at-quarter-width",
        area="fabric",
        report="all three gpu nodes slow at allreduce, gpu-[001-003]",
        at_fault=GPU_HOSTS,
        around=fabric(FabricPlan(widths=(("uplink-1", "1xEDR"),))),
        right=("SWITCH.Leaf_Degraded", "fabric.degraded"),
    ),
)
CONTROLS = (
    Breakage(
        id="well-and-asked",
        area="controls",
        report="is gpu-[001-003] healthy? just checking before I start a job",
        at_fault="",
    ),
    Breakage(id="well-and-no-job-starts", area="controls", report="why is nothing scheduled on gpu-002?", at_fault=""),
    Breakage(
        id="well-fabric",
        area="controls",
        kind=5,
        report="allreduce on gpu-[001-003] felt slow this morning, is the fabric ok?",
        at_fault="",
        right=("ib.count",),  # a rack's hosts have one adapter; hosts with such GPUs have more
        around=fabric(FabricPlan()),
    ),
    Breakage(id="well-and-a-bus-error", area="controls", report="dataloader on gpu-001 dies with a bus error", at_fault=""),
    Breakage(id="well-controller", area="controls", report="sinfo does nothing since lunch", hosts="ctl", at_fault=""),
)
