"""`ibstat`, and the counters and partition keys below /sys/class/infiniband."""

from deploy.sandbox.cluster.answer import ShellAnswer, text_answer
from deploy.sandbox.cluster.machines.state import HcaState
from deploy.sandbox.cluster.render.query import Query


def render_ibstat(query: Query) -> ShellAnswer:
    profile = query.node.profile
    return text_answer("".join(_render_adapter(hca, profile.hca_type, profile.hca_firmware) for hca in query.node.hcas if hca.present))


def render_counters(query: Query) -> ShellAnswer:
    """`find -L … -exec grep -H . {} +`: one `path:value` line per file. Rising counters grow with time."""
    lines = []
    for hca in query.node.hcas:
        if not hca.present:
            continue
        port = f"/sys/class/infiniband/{hca.name}/ports/1"
        lines += [f"{port}/pkeys/{i}:{key}\n" for i, key in enumerate((*hca.pkeys, "0x0000"))]
        lines += [
            f"{port}/counters/{name}:{_grow_counter(hca, name, value, query.at + query.age)}\n"
            for name, value in sorted(hca.counters.items())
        ]
        lines += [
            f"{port}/hw_counters/{name}:{_grow_counter(hca, name, value, query.at + query.age)}\n"
            for name, value in sorted(hca.hw_counters.items())
        ]
    return text_answer("".join(lines))


def render_addresses(query: Query) -> ShellAnswer:
    """`ls -l /sys/class/infiniband`."""
    lines = [
        f"lrwxrwxrwx 1 root root 0 May 20 02:11 {hca.name} -> ../../devices/pci{hca.bdf[:7]}/{hca.bdf[:7]}:01.0/{hca.bdf}/infiniband/{hca.name}\n"
        for hca in query.node.hcas
        if hca.present
    ]
    return text_answer("".join(["total 0\n", *lines]))


def _grow_counter(hca: HcaState, name: str, value: int, seconds: float) -> int:
    return value + int(hca.rising.get(name, 0) * seconds)


def _render_adapter(hca: HcaState, kind: str, firmware: str) -> str:
    ethernet = hca.link_layer != "InfiniBand"
    return (
        f"CA '{hca.name}'\n\tCA type: {kind}\n\tNumber of ports: 1\n\tFirmware version: {firmware}\n\tHardware version: 0\n"
        f"\tNode GUID: 0x{hca.guid:016x}\n\tSystem image GUID: 0x{hca.guid:016x}\n\tPort 1:\n"
        f"\t\tState: {hca.state}\n\t\tPhysical state: {hca.phys}\n\t\tRate: {hca.rate}\n\t\tBase lid: {hca.lid}\n\t\tLMC: 0\n\t\tSM lid: {hca.sm_lid}\n"
        f"\t\tCapability mask: 0x{'00010000' if ethernet else 'a651e848'}\n\t\tPort GUID: 0x{hca.guid:016x}\n\t\tLink layer: {hca.link_layer}\n"
    )
