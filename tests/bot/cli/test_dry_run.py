"""The dry run checks each precondition where it can be observed; an unobserved one is neither met nor unmet."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tests.support.fakes_ledger import BOOT, IDLE, OTHER_BOOT, action
from tools.execution.conditions import dry_run
from tools.execution.drain_status import SLURM_DRAINED
from tools.execution.kit import get_current_kit_version
from tools.inventory.inventory import Host, Inventory
from tools.transport import CommandResult, Unreachable

INVENTORY = Inventory(hosts={"gpu-017": Host(name="gpu-017", address="gpu-017", controller="ctl-1")}, groups={"h100": ("gpu-017",)})


@dataclass
class Answers:
    """Hosts that print what is set; others are unreachable."""

    prints: Mapping[tuple[str, str], str]
    asked: list[tuple[str, str]] = field(default_factory=list)

    async def run(self, host: str, argv: Sequence[str], *, timeout: float, cap: int) -> CommandResult:
        self.asked.append((host, argv[0]))
        if (host, argv[0]) not in self.prints:
            raise Unreachable(host, "no route to host")
        return CommandResult(self.prints[host, argv[0]].encode())

    async def aclose(self) -> None:
        return None


async def test_node_conditions_are_asked_on_the_node_and_the_schedulers_on_its_controller() -> None:
    kit = {("gpu-017", "sudo"): get_current_kit_version()}
    hosts = Answers({("gpu-017", "cat"): BOOT, ("gpu-017", "nvidia-smi"): "", ("ctl-1", "sinfo"): "drained             idle+drain", **kit})
    seen = await dry_run(action(conditions=(IDLE, SLURM_DRAINED)), hosts, INVENTORY)
    assert [(one.ok, one.saw) for one in seen] == [(True, BOOT), (True, ""), (True, "drained idle+drain")]
    assert sorted(hosts.asked) == [("ctl-1", "sinfo"), ("gpu-017", "cat"), ("gpu-017", "nvidia-smi"), ("gpu-017", "sudo")]


async def test_what_does_not_hold_and_what_cannot_be_seen_are_told_apart() -> None:
    hosts = Answers({("gpu-017", "cat"): OTHER_BOOT, ("gpu-017", "nvidia-smi"): "4711"})
    boot, idle, drained = await dry_run(action(conditions=(IDLE, SLURM_DRAINED)), hosts, INVENTORY)
    assert (boot.ok, idle.ok, idle.saw) == (False, False, "4711")
    assert (drained.ok, drained.saw) == (None, "no route to host")


async def test_an_exclusive_check_has_nothing_to_look_at_before() -> None:
    hosts = Answers({})
    assert await dry_run(action(remedy="run_check", target="a,b", via="a,b", boot_id="", conditions=()), hosts, INVENTORY) == []
    assert hosts.asked == []
