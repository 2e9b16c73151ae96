"""`doctor` on refused logins and on schedulers: few lines, each with its fix."""

from collections.abc import Sequence

import pytest

from bot.cli.doctor.hosts import SCHEDULERS, check_hosts, check_schedulers
from tools.fact import Status
from tools.inventory.inventory import Inventory, parse_inventory
from tools.transport import AccessBarrier, CommandResult, Unreachable

NAMES = [f"gpu-{n:03d}" for n in range(1, 17)]
ASKED = {row.argv for row in SCHEDULERS}
NODE_NAMES = SCHEDULERS[0].argv
SITE = {
    "defaults": {"user": "rackmedic", "key": "/etc/rackmedic/id_ed25519", "known_hosts": "/etc/rackmedic/known_hosts"},
    "groups": {"train": {"hosts": "gpu-[001-016]", "controller": "ctl"}, "mgmt": {"hosts": "ctl"}},
}


class Reach:
    """Hosts that answer, hosts that do not, and Slurm's output."""

    def __init__(self, refused: dict[str, Unreachable] | None = None, slurm: CommandResult | Unreachable | None = None) -> None:
        self.refused, self.slurm, self.asked = refused or {}, slurm, list[tuple[str, ...]]()

    async def run(self, host: str, argv: Sequence[str], *, timeout: float, cap: int) -> CommandResult:
        self.asked.append((host, *argv))
        said = self.slurm if tuple(argv) in ASKED else self.refused.get(host)
        if isinstance(said, Unreachable):
            raise said
        return said or CommandResult(b"0f2c6a4e-8b1d-4c3a-9e5f-7a6b5c4d3e2f\n", exit_status=0)

    async def aclose(self) -> None: ...


@pytest.fixture
def fleet() -> Inventory:
    return parse_inventory(SITE)


def denied(host: str) -> Unreachable:
    why = f"login refused (Permission denied for user rackmedic on host {host}): check user, key and certificate in the inventory"
    return Unreachable(host, why, Status.DENIED, AccessBarrier.LOGIN)


def key(host: str, barrier: AccessBarrier) -> Unreachable:
    return Unreachable(host, f"host key not verified ({host}): …", barrier=barrier)


async def test_refused_logins_are_one_line_with_the_key_to_put_there(fleet: Inventory) -> None:
    rows = await check_hosts(Reach({name: denied(name) for name in NAMES[:12]}), fleet, NAMES)
    assert [(row.state, row.says) for row in rows] == [
        ("ok", "4 of 16 hosts answer, host keys verified"),
        ("fail", "12 hosts refused the login of rackmedic: gpu-[001-012]"),
    ]
    assert rows[1].mend.startswith("is the public half of /etc/rackmedic/id_ed25519 in /etc/ssh/authorized_keys/rackmedic there")


async def test_a_key_that_is_not_listed_is_told_from_one_that_changed(fleet: Inventory) -> None:
    odd = {name: key(name, AccessBarrier.UNLISTED_KEY) for name in NAMES[:3]} | {NAMES[8]: key(NAMES[8], AccessBarrier.CHANGED_KEY)}
    rows = await check_hosts(Reach(odd), fleet, NAMES)
    assert [row.says for row in rows[1:]] == [
        "1 host shows another key than /etc/rackmedic/known_hosts lists: gpu-009",
        "no key of 3 hosts is listed in /etc/rackmedic/known_hosts: gpu-[001-003]",
    ]
    assert "another machine may be answering in its place" in rows[1].mend
    assert "ssh-keyscan" in rows[2].mend


async def test_what_else_keeps_us_out_is_told_as_it_was_said(fleet: Inventory) -> None:
    silent = {name: Unreachable(name, "no answer on port 22 in time", Status.TIMEOUT) for name in NAMES[4:6]}
    rows = await check_hosts(Reach(silent), fleet, NAMES)
    assert [row.says for row in rows[1:]] == ["gpu-[005-006]: no answer on port 22 in time"]


async def test_slurm_is_asked_once_and_knows_all_hosts(fleet: Inventory) -> None:
    reach = Reach(slurm=CommandResult("\n".join([*NAMES, *NAMES, "cpu-1"]).encode(), exit_status=0))
    (row,) = await check_schedulers(reach, fleet, [*NAMES, "ctl"])
    assert (row.state, row.says) == ("ok", "ctl answers and knows gpu-[001-016]")
    assert reach.asked == [("ctl", *NODE_NAMES)]


async def test_hosts_that_slurm_does_not_know_by_that_name_are_named(fleet: Inventory) -> None:
    reach = Reach(slurm=CommandResult("\n".join([*NAMES[:14], "node15", "node16"]).encode(), exit_status=0))
    (row,) = await check_schedulers(reach, fleet, NAMES)
    assert (row.state, row.says) == ("fail", "Slurm (ctl) knows no node gpu-[015-016]; it knows node[15-16]")
    assert "`node:`" in row.mend


@pytest.mark.parametrize(
    ("slurm", "says", "mend"),
    [
        (
            CommandResult(b"", b"slurm_load_partitions: Unable to contact slurm controller (connect failure)\n", 1),
            "Unable to contact",
            "scontrol ping",
        ),
        (CommandResult(b"", b"sh: 1: sinfo: not found\n", 127), "sinfo: not found", "install Slurm's commands"),
        (CommandResult(b"", b"", None, timed_out=True), "no answer in time", "scontrol ping"),
        (Unreachable("ctl", "no answer on port 22 in time"), "could not be asked: no answer", "nothing is drained"),
    ],
)
async def test_a_slurm_that_cannot_be_asked_is_said_once(
    fleet: Inventory, slurm: CommandResult | Unreachable, says: str, mend: str
) -> None:
    (row,) = await check_schedulers(Reach(slurm=slurm), fleet, NAMES)
    assert row.state == "fail"
    assert says in row.says
    assert mend in row.mend


async def test_a_fleet_without_a_scheduler_is_asked_nothing(fleet: Inventory) -> None:
    reach = Reach()
    assert await check_schedulers(reach, fleet, ["ctl"]) == []
    assert reach.asked == []


async def test_kubernetes_is_asked_with_kubectl_and_a_host_may_have_another_name_there() -> None:
    groups = {"pool": {"hosts": "gpu-[001-002]", "controller": "ctl", "scheduler": "kubernetes"}, "mgmt": {"hosts": "ctl"}}
    fleet = parse_inventory({"groups": groups, "hosts": {"gpu-002": {"node": "ip-10-0-0-2"}}})
    reach = Reach(slurm=CommandResult(b"node/gpu-001\nnode/ip-10-0-0-2\n", exit_status=0))
    (row,) = await check_schedulers(reach, fleet, ["gpu-001", "gpu-002"])
    assert (row.part, row.state, row.says) == ("kubernetes", "ok", "ctl answers and knows gpu-001,ip-10-0-0-2")
    assert reach.asked[0][1] == "kubectl"


def test_each_scheduler_is_one_row() -> None:
    assert len({row.part for row in SCHEDULERS}) == len(SCHEDULERS)
