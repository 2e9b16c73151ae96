"""Run checks on a real rack with RackMedic's own SSH, fleet and the rack's inventory."""

from collections.abc import Iterable, Mapping, Sequence

from deploy.lab.layout import Rack
from tests.support.clock import WallClock
from tests.support.inventories import inventory_of
from tools.checks import CHECKS
from tools.evidence import MemoryEvidence
from tools.fact import Fact
from tools.fleet.answers import CheckAnswer, CheckRequest
from tools.fleet.fleet import Fleet
from tools.ssh.client import SshLimits, SshTransport

GPU_NODES = ("gpu-001", "gpu-002", "gpu-003")
PASSIVE = tuple(check.id for check in CHECKS.values() if not check.exclusive)

Answers = Mapping[tuple[str, str], CheckAnswer]


async def look(rack: Rack, hosts: Sequence[str], checks: Iterable[str] = PASSIVE, limits: SshLimits | None = None) -> Answers:
    """Run every check on every host once, concurrently."""
    inventory = inventory_of(rack.inventory)
    ssh = SshTransport(inventory, limits)
    try:
        fleet = Fleet(ssh, inventory, CHECKS, MemoryEvidence(), WallClock())
        wave = await fleet.run_checks("inc-rack", [CheckRequest(host, check) for host in hosts for check in checks], fresh=True)
    finally:
        await ssh.aclose()
    return {(answer.host, answer.check): answer for answer in wave.answers}


def fact(answer: CheckAnswer, key: str, device: str | None = None) -> Fact:
    [found] = [row for row in answer.facts if row.key == key and device in (None, row.device)]
    return found


def told(answer: CheckAnswer) -> str:
    return " ".join([answer.could_not, *(f"{row.key} {row.value} {row.line}" for row in answer.facts)])
