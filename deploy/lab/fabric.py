"""InfiniBand fabric for a rack: ibsim on the controller, a real OpenSM, and the real infiniband-diags via a preloaded
library.
"""

from contextlib import suppress
from dataclasses import dataclass
from glob import glob

from deploy.lab.container import done, inside
from deploy.lab.layout import CONTROLLER, NODES, Rack, RackNode, Role
from deploy.lab.programs import LabRefusal
from deploy.lab.settle import until

PORT = 7070
TOOLS = ("iblinkinfo", "ibstat", "perfquery", "sminfo", "ibhosts", "saquery", "ibnetdiscover")
# hosts that exist only in the fabric; a subnet manager runs as each of the first `managers`
MANAGERS = ("sm-1", "sm-2")
UPLINKS = ("uplink-1", "uplink-2")  # cables from the leaf to the spine, on the last ports of the leaf
FIRST_UPLINK = 35
FULL = "4xEDR"
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


def topology(plan: FabricPlan) -> str:
    """Return ibsim's net file: one leaf with every host, and two cables to a spine."""
    hosts = [*(node.name for node in NODES if node.role is Role.GPU), *MANAGERS]
    widths, names = dict(plan.widths), dict(plan.names)
    ports = {host: port for port, host in enumerate(hosts, 1) if host not in plan.dead}
    leaf = ['Switch\t36 "leaf1"\t\t# "leaf1" base port 0 lid 2 lmc 0']
    leaf += [f'[{port}]\t"{host}"[1]\t\t# "{host}" lid {port + 10} {widths.get(host, FULL)}' for host, port in ports.items()]
    up = [(n, FIRST_UPLINK + n - 1, widths.get(name, FULL)) for n, name in enumerate(UPLINKS, 1)]
    leaf += [f'[{port}]\t"spine1"[{n}]\t\t# "spine1" lid 3 {width}' for n, port, width in up]
    leaf += ["", 'Switch\t36 "spine1"\t\t# "spine1" base port 0 lid 3 lmc 0']
    leaf += [f'[{n}]\t"leaf1"[{port}]\t\t# "leaf1" lid 2 {width}' for n, port, width in up]
    adapters = []
    for host in hosts:
        adapters += ["", f'Hca\t2 "{host}"\t\t# "{names.get(host, host)} mlx5_0"']
        adapters += (
            [f'[1]\t"leaf1"[{ports[host]}]\t\t# lid {ports[host] + 10} lmc 0 "leaf1" lid 2 {widths.get(host, FULL)}']
            if host in ports
            else []
        )
    return "\n".join([*leaf, *adapters]) + "\n"


def start_fabric(rack: Rack, plan: FabricPlan) -> None:
    """Start the fabric in place of any other. Raises LabRefusal after ATTEMPTS tries.

    Retries because ibsim speaks UDP: on a loaded machine a subnet manager can lose its first packets and wait forever.
    """
    for _ in range(ATTEMPTS - 1):
        with suppress(LabRefusal):
            return _start(rack, plan)
    try:
        _start(rack, plan)
    except LabRefusal as error:
        raise LabRefusal(f"{error}, {ATTEMPTS} times: {_last_words(rack)}") from error


def _start(rack: Rack, plan: FabricPlan) -> None:
    stop_fabric(rack)
    library = _library(rack)
    _unit(
        rack,
        "lab-ibsim",
        ["sh", "-c", "rm -f /run/ib; mkfifo /run/ib; sleep infinity > /run/ib & exec ibsim -r -l 7070 -s /run/ib.net < /run/ib"],
        plan,
    )
    for number in range(plan.managers):
        simulated = _environment("127.0.0.1", library, MANAGERS[number])
        _manager(rack, number, simulated)
    for node in NODES:
        if node.role is Role.GPU:
            _wrap(rack, node, library)
    if plan.managers:
        first = next(node for node in NODES if node.role is Role.GPU and node.name not in plan.dead)
        until(lambda: "SMINFO_MASTER" in inside(rack, first, "sminfo").stdout, "the subnet manager did not take the fabric over")


def _last_words(rack: Rack) -> str:
    asked = "systemctl show -p ActiveState,Result lab-opensm-0 lab-ibsim; tail -n 5 /run/osm0/log"
    return " ".join(inside(rack, CONTROLLER, "sh", "-c", asked).stdout.split())


def stop_fabric(rack: Rack) -> None:
    """Stop the fabric and remove its tools from the nodes."""
    for name in ("lab-ibsim", *(f"lab-opensm-{number}" for number in range(len(MANAGERS)))):
        inside(rack, CONTROLLER, "systemctl", "stop", name)
        inside(rack, CONTROLLER, "systemctl", "reset-failed", name)
    for node in NODES:
        if node.role is Role.GPU:
            inside(rack, node, "rm", "-f", *(f"/usr/local/sbin/{tool}" for tool in TOOLS))


def _library(rack: Rack) -> str:
    """Return the path of ibsim's library as the nodes see it."""
    root = rack.root(CONTROLLER)
    found = glob(f"{root}/usr/lib/*/umad2sim/libumad2sim.so")
    if not found:
        raise LabRefusal("the image has no libumad2sim.so (ibsim-utils): remove it from the cache and build it anew")
    return "/" + found[0].removeprefix(f"{root}/")


def _environment(server: str, library: str, host: str) -> list[str]:
    return [f"LD_PRELOAD={library}", f"IBSIM_SERVER_NAME={server}", f"IBSIM_SERVER_PORT={PORT}", f"SIM_HOST={host}"]


def _unit(rack: Rack, name: str, argv: list[str], plan: FabricPlan) -> None:
    done(rack, CONTROLLER, "sh", "-c", "cat > /run/ib.net", stdin=topology(plan))
    done(rack, CONTROLLER, "systemd-run", "--quiet", f"--unit={name}", *argv)
    until(lambda: inside(rack, CONTROLLER, "sh", "-c", f"ss -Hlun 'sport = :{PORT}' | grep -q .").returncode == 0, "ibsim does not listen")


def _manager(rack: Rack, number: int, simulated: list[str]) -> None:
    settings = [f"--setenv={word}" for word in (*simulated, f"OSM_CACHE_DIR=/run/osm{number}", f"OSM_TMP_DIR=/run/osm{number}")]
    done(rack, CONTROLLER, "mkdir", "-p", f"/run/osm{number}")
    done(rack, CONTROLLER, "systemd-run", "--quiet", f"--unit=lab-opensm-{number}", *settings, "opensm", "-f", f"/run/osm{number}/log")


def _wrap(rack: Rack, node: RackNode, library: str) -> None:
    simulated = " ".join(_environment(rack.address(CONTROLLER), library, node.name))
    text = f'#!/bin/sh\n# the real tool, on the simulated fabric\nexec env {simulated} "/usr/sbin/${{0##*/}}" "$@"\n'
    paths = " ".join(f"/usr/local/sbin/{tool}" for tool in TOOLS)
    done(rack, node, "sh", "-c", f"tee {paths} > /dev/null && chmod 755 {paths}", stdin=text)
