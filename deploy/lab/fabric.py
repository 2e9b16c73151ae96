"""InfiniBand fabric for a rack: ibsim on the controller, a real OpenSM, and the real infiniband-diags via a preloaded
library.
"""

from contextlib import suppress
from dataclasses import dataclass
from glob import glob

from deploy.lab.container import run_checked_in_node, run_in_node
from deploy.lab.layout import CONTROLLER, NODES, Rack, RackNode, Role
from deploy.lab.programs import LabRefusal
from deploy.lab.readiness import wait_until

IBSIM_PORT = 7070
TOOLS = ("iblinkinfo", "ibstat", "perfquery", "sminfo", "ibhosts", "saquery", "ibnetdiscover")
# hosts that exist only in the fabric; a subnet manager runs as each of the first `managers`
SUBNET_MANAGERS = ("sm-1", "sm-2")
UPLINKS = ("uplink-1", "uplink-2")  # cables from the leaf to the spine, on the last ports of the leaf
FIRST_UPLINK = 35
FULL_WIDTH = "4xEDR"
ATTEMPTS = 3


@dataclass(frozen=True, slots=True)
class FabricPlan:
    """Faults of the fabric. `widths`: host or uplink and its cable's width and speed; `dead`: hosts without a cable;
    `names`: host and the name its adapter reports; `managers`: number of subnet managers.
    """

    widths: tuple[tuple[str, str], ...] = ()
    dead: tuple[str, ...] = ()
    names: tuple[tuple[str, str], ...] = ()
    managers: int = 1


def build_topology(plan: FabricPlan) -> str:
    """Return ibsim's net file: one leaf switch with every host, and two cables to a spine switch."""
    hosts = [*(node.name for node in NODES if node.role is Role.GPU), *SUBNET_MANAGERS]
    widths, names = dict(plan.widths), dict(plan.names)
    ports = {host: port for port, host in enumerate(hosts, 1) if host not in plan.dead}
    switches = ['Switch\t36 "leaf1"\t\t# "leaf1" base port 0 lid 2 lmc 0']
    switches += [f'[{port}]\t"{host}"[1]\t\t# "{host}" lid {port + 10} {widths.get(host, FULL_WIDTH)}' for host, port in ports.items()]
    uplinks = [(n, FIRST_UPLINK + n - 1, widths.get(name, FULL_WIDTH)) for n, name in enumerate(UPLINKS, 1)]
    switches += [f'[{port}]\t"spine1"[{n}]\t\t# "spine1" lid 3 {width}' for n, port, width in uplinks]
    switches += ["", 'Switch\t36 "spine1"\t\t# "spine1" base port 0 lid 3 lmc 0']
    switches += [f'[{n}]\t"leaf1"[{port}]\t\t# "leaf1" lid 2 {width}' for n, port, width in uplinks]
    adapters = []
    for host in hosts:
        adapters += ["", f'Hca\t2 "{host}"\t\t# "{names.get(host, host)} mlx5_0"']
        if host in ports:
            port, width = ports[host], widths.get(host, FULL_WIDTH)
            adapters.append(f'[1]\t"leaf1"[{port}]\t\t# lid {port + 10} lmc 0 "leaf1" lid 2 {width}')
    return "\n".join([*switches, *adapters]) + "\n"


def start_fabric(rack: Rack, plan: FabricPlan) -> None:
    """Start the fabric in place of any other. Raises LabRefusal after ATTEMPTS tries.

    Retries because ibsim speaks UDP: on a loaded machine a subnet manager can lose its first packets and wait forever.
    """
    for _ in range(ATTEMPTS - 1):
        with suppress(LabRefusal):
            return _start_once(rack, plan)
    try:
        _start_once(rack, plan)
    except LabRefusal as error:
        raise LabRefusal(f"{error}, {ATTEMPTS} times: {_read_failure(rack)}") from error


def _start_once(rack: Rack, plan: FabricPlan) -> None:
    stop_fabric(rack)
    library = _find_library(rack)
    _start_ibsim(
        rack,
        "lab-ibsim",
        ["sh", "-c", "rm -f /run/ib; mkfifo /run/ib; sleep infinity > /run/ib & exec ibsim -r -l 7070 -s /run/ib.net < /run/ib"],
        plan,
    )
    for number in range(plan.managers):
        environment = _build_environment("127.0.0.1", library, SUBNET_MANAGERS[number])
        _start_subnet_manager(rack, number, environment)
    for node in NODES:
        if node.role is Role.GPU:
            _install_wrappers(rack, node, library)
    if plan.managers:
        first = next(node for node in NODES if node.role is Role.GPU and node.name not in plan.dead)
        wait_until(lambda: "SMINFO_MASTER" in run_in_node(rack, first, "sminfo").stdout, "the subnet manager did not take the fabric over")


def _read_failure(rack: Rack) -> str:
    """Return the state of the fabric's daemons and the end of the subnet manager's log."""
    command = "systemctl show -p ActiveState,Result lab-opensm-0 lab-ibsim; tail -n 5 /run/osm0/log"
    return " ".join(run_in_node(rack, CONTROLLER, "sh", "-c", command).stdout.split())


def stop_fabric(rack: Rack) -> None:
    """Stop the fabric and remove its tools from the nodes."""
    for name in ("lab-ibsim", *(f"lab-opensm-{number}" for number in range(len(SUBNET_MANAGERS)))):
        run_in_node(rack, CONTROLLER, "systemctl", "stop", name)
        run_in_node(rack, CONTROLLER, "systemctl", "reset-failed", name)
    for node in NODES:
        if node.role is Role.GPU:
            run_in_node(rack, node, "rm", "-f", *(f"/usr/local/sbin/{tool}" for tool in TOOLS))


def _find_library(rack: Rack) -> str:
    """Return the path of ibsim's library as the nodes see it."""
    root = rack.root(CONTROLLER)
    paths = glob(f"{root}/usr/lib/*/umad2sim/libumad2sim.so")
    if not paths:
        raise LabRefusal("the image has no libumad2sim.so (ibsim-utils): remove it from the cache and build it anew")
    return "/" + paths[0].removeprefix(f"{root}/")


def _build_environment(server: str, library: str, host: str) -> list[str]:
    return [f"LD_PRELOAD={library}", f"IBSIM_SERVER_NAME={server}", f"IBSIM_SERVER_PORT={IBSIM_PORT}", f"SIM_HOST={host}"]


def _start_ibsim(rack: Rack, name: str, argv: list[str], plan: FabricPlan) -> None:
    run_checked_in_node(rack, CONTROLLER, "sh", "-c", "cat > /run/ib.net", stdin=build_topology(plan))
    run_checked_in_node(rack, CONTROLLER, "systemd-run", "--quiet", f"--unit={name}", *argv)
    wait_until(
        lambda: run_in_node(rack, CONTROLLER, "sh", "-c", f"ss -Hlun 'sport = :{IBSIM_PORT}' | grep -q .").returncode == 0,
        "ibsim does not listen",
    )


def _start_subnet_manager(rack: Rack, number: int, environment: list[str]) -> None:
    settings = [f"--setenv={word}" for word in (*environment, f"OSM_CACHE_DIR=/run/osm{number}", f"OSM_TMP_DIR=/run/osm{number}")]
    run_checked_in_node(rack, CONTROLLER, "mkdir", "-p", f"/run/osm{number}")
    run_checked_in_node(
        rack, CONTROLLER, "systemd-run", "--quiet", f"--unit=lab-opensm-{number}", *settings, "opensm", "-f", f"/run/osm{number}/log"
    )


def _install_wrappers(rack: Rack, node: RackNode, library: str) -> None:
    environment = " ".join(_build_environment(rack.address(CONTROLLER), library, node.name))
    text = f'#!/bin/sh\n# the real tool, on the simulated fabric\nexec env {environment} "/usr/sbin/${{0##*/}}" "$@"\n'
    paths = " ".join(f"/usr/local/sbin/{tool}" for tool in TOOLS)
    run_checked_in_node(rack, node, "sh", "-c", f"tee {paths} > /dev/null && chmod 755 {paths}", stdin=text)
