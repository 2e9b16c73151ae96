"""A case set up for `rackmedic diagnose --sandbox`: its cluster in this process, an inventory of its nodes, its clock and its ticket."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from deploy.sandbox.cluster.cases.case import SimulatedCase
from deploy.sandbox.cluster.cases.reader import load_case
from deploy.sandbox.cluster.doors.cluster import Cluster
from deploy.sandbox.cluster.doors.inprocess import InProcess
from deploy.sandbox.cluster.grammar import TARGETS
from tools.inventory.inventory import Inventory, parse_inventory


class CaseClock:
    """Stands still at the moment the ticket is posted: what a case shows does not depend on when it is run. It goes on only with the
    conversation about it (`Stage.wait`)."""

    def __init__(self, t0: datetime) -> None:
        self._now = t0

    def now(self) -> datetime:
        return self._now

    def later(self, seconds: float) -> None:
        """So much time has passed."""
        self._now += timedelta(seconds=seconds)


@dataclass(frozen=True, slots=True)
class Stage:
    """What a diagnosis sees of a case. `truth` is not among it."""

    cluster: Cluster
    transport: InProcess
    inventory: Inventory
    clock: CaseClock
    text: str
    attachments: tuple[tuple[str, str], ...]

    def wait(self, seconds: float) -> None:
        """Time passes between two messages: for whoever looks, and on the machines."""
        self.clock.later(seconds)
        self.cluster.waited += seconds


CONTROLLER = "slurm-controller"


def stage(path: Path) -> Stage:
    """A case file's stage, with a scheduler, so that fixes begin with a drain. Raises BadCase with every problem of the file."""
    return staged(load_case(path), controller=CONTROLLER)


def staged(case: SimulatedCase, seed: int = 0, controller: str = "") -> Stage:
    """The same from a case that is read already. `controller` names the scheduler's machine, where remedies need one."""
    cluster = Cluster.from_case(case, seed, controller=controller)
    job = {"hosts": ",".join(case.nodes), "sku": cluster.profile}
    groups = {"job": job | {"controller": controller}, "control": {"hosts": controller}} if controller else {"job": job}
    hosts = {name: {"address": "127.0.0.1"} for name in cluster.machines}  # all of them are in this process
    inventory = parse_inventory({"defaults": {"kit": True, **TARGETS}, "groups": groups, "hosts": hosts}, case.id)
    attachments = tuple((row.name, row.text) for row in case.ticket.attachments)
    return Stage(cluster, InProcess(cluster), inventory, CaseClock(case.t0), case.ticket.text, attachments)
