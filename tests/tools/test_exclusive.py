"""Exclusive checks run only on observed idle GPUs or with permission, and say why they did not run."""

import asyncio
from collections.abc import Sequence

import pytest

from deploy.sandbox.cluster.access.cluster import Cluster
from deploy.sandbox.cluster.access.in_process import InProcessTransport
from tests.support.clock import SetClock
from tests.support.fakes_cluster import cluster
from tools.checks import CHECKS
from tools.evidence import MemoryEvidence
from tools.fact import Fact, Status, build_unobserved_fact
from tools.fleet.answers import CheckRequest
from tools.fleet.fleet import Fleet
from tools.fleet.gpu_permit import LocalGpuReservations
from tools.fleet.gpu_use import classify_gpu_use
from tools.fleet.skipped_checks import is_missing_program
from tools.inventory.inventory import parse_inventory
from tools.inventory.sku import load_skus
from tools.transport import CommandResult, Transport

IDLE = [
    Fact("smi", "gpu.processes", 0, "gpu0"),
    Fact("smi", "gpu.util", 0, "gpu0"),
    Fact("smi", "gpu.memory.used", 4, "gpu0"),
    Fact("procs", "proc.gpu_memory", status=Status.ABSENT, line="no process uses a GPU"),
]
ONCE = (*[name for name, check in CHECKS.items() if check.exclusive and check.together is None],)


def ended() -> Cluster:
    """Return a cluster whose job is over, with idle GPUs."""
    return cluster("G14", nodes=2)


def fleet(of: Cluster, transport: Transport | None = None, **more: object) -> Fleet:
    inventory = parse_inventory({"defaults": {"kit": True}, "groups": {"g": {"hosts": ",".join(of.hosts), "sku": of.profile, **more}}})
    return Fleet(transport or InProcessTransport(of), inventory, CHECKS, MemoryEvidence(), SetClock(of.t0), load_skus())


class Listening:
    """A transport that records and forwards."""

    clock = "virtual"

    def __init__(self, of: Cluster, instead: dict[str, CommandResult] | None = None) -> None:
        self._inner = InProcessTransport(of)
        self.asked = list[tuple[str, ...]]()
        self.instead = instead or {}
        self.running = 0
        self.most = 0

    async def run(self, host: str, argv: Sequence[str], *, timeout: float, cap: int) -> CommandResult:
        self.asked.append(tuple(argv))
        self.running += argv[0] in ("nvbandwidth", "dcgmi")
        self.most = max(self.most, self.running)
        await asyncio.sleep(0)
        answer = self.instead.get(argv[0]) or await self._inner.run(host, argv, timeout=timeout, cap=cap)
        self.running -= argv[0] in ("nvbandwidth", "dcgmi")
        return answer

    async def aclose(self) -> None: ...


def test_idle_is_what_was_seen_to_be_idle() -> None:
    assert classify_gpu_use(IDLE).why == ""
    assert classify_gpu_use([]).why == "not_known"
    assert classify_gpu_use([build_unobserved_fact("smi", Status.TIMEOUT, "no answer within 20 s")]).why == "not_known"
    assert classify_gpu_use([Fact("smi", "smi.error", "driver_library_mismatch")]).why == "not_known"
    assert classify_gpu_use([Fact("smi", "smi.error", "driver_not_loaded")]).why == ""


@pytest.mark.parametrize(
    "sign",
    [
        Fact("smi", "gpu.processes", 1, "gpu3"),
        Fact("smi", "gpu.util", 40, "gpu3"),
        Fact("smi", "gpu.memory.used", 61000, "gpu3"),
        Fact("procs", "proc.gpu_memory", 61000, "gpu3"),
        Fact("procs", "proc.gpu_memory", status=Status.ABSENT, device="gpu3", attrs={"pid": 7}),
    ],
)
def test_any_sign_of_use_is_use(sign: Fact) -> None:
    use = classify_gpu_use([*IDLE, sign])
    assert use.why == "busy"
    assert "gpu3" in use.says


@pytest.mark.parametrize("check", ONCE)
async def test_on_gpus_in_use_nothing_is_run(check: str) -> None:
    of = cluster(nodes=2)
    wire = Listening(of)
    wave = await fleet(of, wire).run_checks("i", [CheckRequest("n0", check)])
    (fact,) = wave.facts
    assert (fact.key, fact.value, fact.host) == ("check.skipped", "busy", "n0")
    assert "in use" in wave.answers[0].could_not
    assert {argv[0] for argv in wire.asked} <= {"nvidia-smi", "ps"}


@pytest.mark.parametrize("check", ONCE)
async def test_on_idle_gpus_it_runs(check: str) -> None:
    wave = await fleet(ended()).run_checks("i", [CheckRequest("n0", check)])
    assert not [fact for fact in wave.facts if fact.key == "check.skipped"]
    assert [fact for fact in wave.facts if fact.status is Status.OK]


async def test_people_may_permit_it_on_gpus_in_use() -> None:
    wave = await fleet(cluster(nodes=2)).run_checks("i", [CheckRequest("n0", "gemm")], permitted=True)
    assert len([fact for fact in wave.facts if fact.key == "gemm.tflops"]) == 8


async def test_of_several_hosts_the_busy_ones_are_left_out() -> None:
    of = cluster("N05", nodes=5)
    wave = await fleet(of).run_checks("i", [CheckRequest(host, "nccl2") for host in of.hosts])
    assert {(fact.key, fact.value) for fact in wave.facts} == {("check.skipped", "busy")}


async def test_it_is_looked_at_anew_each_time_however_lately_one_looked() -> None:
    wire = Listening(ended())
    it = fleet(ended(), wire)
    await it.run_checks("i", [CheckRequest("n0", "smi"), CheckRequest("n0", "procs")])
    before = wire.asked.count(("nvidia-smi", "-q", "-x"))
    await it.run_checks("i", [CheckRequest("n0", "bw")])
    assert wire.asked.count(("nvidia-smi", "-q", "-x")) == before + 1


async def test_two_checks_never_share_a_host() -> None:
    of = ended()
    wire = Listening(of)
    it = fleet(of, wire)
    waves = await asyncio.gather(*(it.run_checks("i", [CheckRequest("n0", check)]) for check in ("bw", "p2p", "dcgm1")))
    assert wire.most == 1
    skipped = [fact for wave in waves for fact in wave.facts if fact.key == "check.skipped"]
    assert {fact.value for fact in skipped} == {"busy"}
    assert "another exclusive check" in skipped[0].line
    again = await it.run_checks("i", [CheckRequest("n0", "p2p")])
    assert not [fact for fact in again.facts if fact.key == "check.skipped"]


async def test_a_check_that_breaks_gives_its_host_back() -> None:
    class Breaks(Listening):
        async def run(self, host: str, argv: Sequence[str], *, timeout: float, cap: int) -> CommandResult:
            if argv[0] == "nvbandwidth":
                raise RuntimeError("bug")
            return await super().run(host, argv, timeout=timeout, cap=cap)

    of = ended()
    it = fleet(of, Breaks(of))
    with pytest.raises(RuntimeError):
        await it.run_checks("i", [CheckRequest("n0", "bw")])
    wave = await it.run_checks("i", [CheckRequest("n0", "dcgm1")])
    assert not [fact for fact in wave.facts if fact.key == "check.skipped"]


@pytest.mark.parametrize(
    "ran",
    [
        CommandResult(b"", b"timeout: failed to run command 'nvbandwidth': No such file or directory\n", 127),
        CommandResult(b"", b"bash: line 1: nvbandwidth: command not found\n", 127),
        CommandResult(b"", b"nvbandwidth: error while loading shared libraries: libcudart.so.12: cannot open shared object file\n", 127),
    ],
)
async def test_a_missing_tool_is_not_healthy_and_says_how_to_get_it(ran: CommandResult) -> None:
    assert is_missing_program(ran)
    of = ended()
    wave = await fleet(of, Listening(of, {"nvbandwidth": ran})).run_checks("i", [CheckRequest("n0", "bw")])
    (fact,) = wave.facts
    assert (fact.key, fact.value) == ("check.skipped", "no_tool")
    assert "github.com/NVIDIA/nvbandwidth" in fact.line
    assert wave.answers[0].could_not == fact.line


async def test_a_lease_of_a_dead_holder_ends_by_itself() -> None:
    now = [0.0]
    holds = LocalGpuReservations(clock=lambda: now[0])
    token = await holds.reserve_host("n0", 60)
    assert token
    assert await holds.reserve_host("n0", 60) is None
    now[0] = 61.0
    other = await holds.reserve_host("n0", 60)
    assert other
    await holds.release_host("n0", token)
    assert await holds.reserve_host("n0", 60) is None


def test_every_exclusive_check_says_what_it_needs_and_ends_after_it_should() -> None:
    for check in CHECKS.values():
        if check.exclusive and check.id != "nccl1":
            assert check.tool
            assert check.together or check.timeout * len(check.commands) > check.seconds


async def test_tests_under_load_print_the_same_for_the_same_seed() -> None:
    async def printed(seed: int) -> list[str]:
        of = cluster("G14", nodes=2, seed=seed)
        wave = await fleet(of).run_checks("i", [CheckRequest("n0", check) for check in ONCE])
        return [fact.line for fact in wave.facts]

    assert await printed(3) == await printed(3)
    assert await printed(3) != await printed(4)
