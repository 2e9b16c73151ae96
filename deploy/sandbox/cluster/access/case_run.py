"""A case prepared for `rackmedic diagnose --sandbox`: in-process cluster, inventory, clock and ticket."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from deploy.sandbox.cluster.access.cluster import Cluster
from deploy.sandbox.cluster.access.in_process import InProcessTransport
from deploy.sandbox.cluster.cases.case import SimulatedCase
from deploy.sandbox.cluster.cases.reader import load_case
from deploy.sandbox.cluster.grammar import SITE_SERVICES
from tools.inventory.inventory import Inventory, parse_inventory


class CaseClock:
    """A clock fixed at the time of the ticket, so a case is reproducible. Only `CaseRun.wait` advances it."""

    def __init__(self, t0: datetime) -> None:
        self._now = t0

    def now(self) -> datetime:
        return self._now

    def advance(self, seconds: float) -> None:
        self._now += timedelta(seconds=seconds)


@dataclass(frozen=True, slots=True)
class CaseRun:
    """The inputs of a diagnosis; excludes `truth`."""

    cluster: Cluster
    transport: InProcessTransport
    inventory: Inventory
    clock: CaseClock
    text: str
    attachments: tuple[tuple[str, str], ...]

    def wait(self, seconds: float) -> None:
        """Advance the clock and the machines between two messages."""
        self.clock.advance(seconds)
        self.cluster.waited += seconds


CONTROLLER = "slurm-controller"


def load_case_run(path: Path) -> CaseRun:
    """Return the run of a case file, with a scheduler so that remediations start with a drain. Raises BadCase if the file cannot be read."""
    return build_case_run(load_case(path), controller=CONTROLLER)


def build_case_run(case: SimulatedCase, seed: int = 0, controller: str = "") -> CaseRun:
    """Return the run of a parsed case. `controller` names the scheduler's host, which some remedies need."""
    cluster = Cluster.from_case(case, seed, controller=controller)
    job = {"hosts": ",".join(case.nodes), "sku": cluster.profile}
    groups = {"job": job | {"controller": controller}, "control": {"hosts": controller}} if controller else {"job": job}
    hosts = {name: {"address": "127.0.0.1"} for name in cluster.machines}  # all of them run in this process
    inventory = parse_inventory({"defaults": {"kit": True, **SITE_SERVICES}, "groups": groups, "hosts": hosts}, case.id)
    attachments = tuple((row.name, row.text) for row in case.ticket.attachments)
    return CaseRun(cluster, InProcessTransport(cluster), inventory, CaseClock(case.t0), case.ticket.text, attachments)
