"""A rack's nodes and the names of everything it owns. All names start with the rack's own, so teardown touches nothing
else.
"""

import re
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from deploy.lab.programs import LabRefusal

RACKS_FOLDER = Path("/run/rackmedic-lab")  # folder of all racks: a record and a file system of each
MAX_RACKS = 64
GPUS_PER_NODE = 8


class Role(StrEnum):
    """The purpose of a machine in the rack."""

    CONTROLLER = "controller"
    GPU = "gpu"
    PLAIN = "plain"


@dataclass(frozen=True, slots=True)
class RackNode:
    """One machine of a rack: host name, last octet of its address, role."""

    name: str
    last: int
    role: Role

    @property
    def has_kit(self) -> bool:
        """Return false for the plain node: it simulates a node where the kit was forgotten."""
        return self.role is not Role.PLAIN


NODES = (
    RackNode("ctl", 10, Role.CONTROLLER),
    RackNode("gpu-001", 11, Role.GPU),
    RackNode("gpu-002", 12, Role.GPU),
    RackNode("gpu-003", 13, Role.GPU),
    RackNode("cpu-001", 14, Role.PLAIN),
)
CONTROLLER = NODES[0]


@dataclass(frozen=True, slots=True)
class Rack:
    """A rack's name, chosen by a person, and its number, which is unique on this machine."""

    name: str
    number: int

    @property
    def folder(self) -> Path:
        """Return the mount point of the rack's own tmpfs."""
        return RACKS_FOLDER / self.name

    @property
    def record(self) -> Path:
        """Return the JSON file that names the keeper; it exists before anything is made and until everything is gone."""
        return RACKS_FOLDER / f"{self.name}.json"

    @property
    def log(self) -> Path:
        """Return the keeper's stderr log."""
        return RACKS_FOLDER / f"{self.name}.log"

    @property
    def bridge(self) -> str:
        return f"rmlab{self.number}"

    @property
    def inventory(self) -> Path:
        return self.folder / "inventory.yaml"

    @property
    def shared(self) -> Path:
        """Return the folder that all nodes see as /shared."""
        return self.folder / "shared"

    @property
    def data(self) -> Path:
        """Return the data folder of the bot that `demo` starts."""
        return self.folder / "data"

    @property
    def gateway(self) -> str:
        """Return the host's own address as the nodes see it."""
        return f"10.77.{self.number}.1"

    def address(self, node: RackNode) -> str:
        return f"10.77.{self.number}.{node.last}"

    def unit(self, node: RackNode) -> str:
        """Return the node's name on the host: of its network namespace, control groups and container."""
        return f"{self.bridge}-{node.name}"

    def root(self, node: RackNode) -> Path:
        return self.folder / "nodes" / node.name / "root"


def find_node(name: str) -> RackNode:
    """Return the node of that name. Raises LabRefusal if there is none."""
    for node in NODES:
        if node.name == name:
            return node
    raise LabRefusal(f"there is no node {name!r} in a rack; there are {', '.join(node.name for node in NODES)}")


def check_rack_name(name: str) -> str:
    """Return `name` if it is a valid rack name. Raises LabRefusal."""
    if not re.fullmatch(r"[a-z][a-z0-9-]{0,30}", name):
        raise LabRefusal(f"a rack cannot be called {name!r}: small letters, digits and dashes, beginning with a letter")
    return name
