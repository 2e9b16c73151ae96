"""What a rack consists of and what everything of it is called: all names begin with the rack's own, so that nothing else is ever taken down."""

import re
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from deploy.lab.programs import LabRefusal

RUN = Path("/run/rackmedic-lab")
"""Where racks live: a record of each, and its file system."""
RACKS = 64
GPUS = 8


class Role(StrEnum):
    """What a machine of the rack is for."""

    CONTROLLER = "controller"
    GPU = "gpu"
    PLAIN = "plain"


@dataclass(frozen=True, slots=True)
class RackNode:
    """One machine of a rack: its host name, the last part of its address, and what it is for."""

    name: str
    last: int
    role: Role

    @property
    def has_kit(self) -> bool:
        """One machine is left without the node kit, as in a real rack somebody forgot it."""
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
    """A rack's name and number. The name is a person's, the number keeps racks on one machine apart."""

    name: str
    number: int

    @property
    def folder(self) -> Path:
        """Its own file system, in memory."""
        return RUN / self.name

    @property
    def record(self) -> Path:
        """Who keeps it, as JSON; there from before anything is made until after everything is gone."""
        return RUN / f"{self.name}.json"

    @property
    def log(self) -> Path:
        """What its keeper has to say beside its word."""
        return RUN / f"{self.name}.log"

    @property
    def bridge(self) -> str:
        return f"rmlab{self.number}"

    @property
    def inventory(self) -> Path:
        return self.folder / "inventory.yaml"

    @property
    def shared(self) -> Path:
        """A folder that all its nodes see as /shared."""
        return self.folder / "shared"

    @property
    def data(self) -> Path:
        """The data folder of the bot that `demo` starts beside it."""
        return self.folder / "data"

    @property
    def gateway(self) -> str:
        """The address of this machine itself, as the nodes see it."""
        return f"10.77.{self.number}.1"

    def address(self, node: RackNode) -> str:
        return f"10.77.{self.number}.{node.last}"

    def unit(self, node: RackNode) -> str:
        """The node's name outside: of its network namespace, its control groups and its container."""
        return f"{self.bridge}-{node.name}"

    def root(self, node: RackNode) -> Path:
        """Its root file system, as seen from outside."""
        return self.folder / "nodes" / node.name / "root"


def node_of(name: str) -> RackNode:
    """Raises LabRefusal where there is none of that name."""
    for node in NODES:
        if node.name == name:
            return node
    raise LabRefusal(f"there is no node {name!r} in a rack; there are {', '.join(node.name for node in NODES)}")


def named(name: str) -> str:
    """The name itself, where a rack may be called so. Raises LabRefusal."""
    if not re.fullmatch(r"[a-z][a-z0-9-]{0,30}", name):
        raise LabRefusal(f"a rack cannot be called {name!r}: small letters, digits and dashes, beginning with a letter")
    return name
