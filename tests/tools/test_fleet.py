"""The fleet: many checks on many hosts, failures as facts, fresh answers shared."""

import asyncio
import contextlib
import threading
from collections.abc import Callable, Sequence
from dataclasses import FrozenInstanceError, replace
from datetime import timedelta
from typing import Any

import pytest

from tests.support.clock import SetClock
from tools.checks import CHECKS
from tools.checks.check_types import Check, Command, Format, Unreadable
from tools.evidence import MemoryEvidence
from tools.fact import Fact, Status
from tools.fleet.answers import DEFAULT_LANES, CheckAnswer, CheckRequest, compute_makespan
from tools.fleet.fleet import MAX_FINISHED_HOSTS, Fleet
from tools.fleet.output_reader import MIN_THREAD_CHARS
from tools.inventory.inventory import BadInventory, Inventory, parse_inventory
from tools.ssh.client import SshLimits
from tools.transport import CommandResult, Unreachable

HOSTS = parse_inventory({"groups": {"g": {"hosts": "n[1-3]", "kit": True}, "plain": {"hosts": "p1"}}})


class FakeHosts:
    """A transport that answers by a function and records requests."""

    clock = "virtual"

    def __init__(self, answer: Callable[[str, tuple[str, ...]], CommandResult]) -> None:
        self._answer = answer
        self.asked: list[tuple[str, tuple[str, ...]]] = []

    async def run(self, host: str, argv: Sequence[str], *, timeout: float, cap: int) -> CommandResult:
        self.asked.append((host, tuple(argv)))
        return self._answer(host, tuple(argv))

    async def aclose(self) -> None: ...


def read_count(text: str) -> Sequence[Fact]:
    if not text.strip().isdigit():
        raise Unreadable(f"expected a number, found {text[:20]!r}")
    return [Fact("smi", "gpu.count", int(text))]


COUNT = Check(
    "smi", "How many?", (Command("query", ("count",)),), (Format("number", lambda text: True, read_count),), ("gpu.count",), 3.0, cap=1000
)
LOUD = Check("dmesg", "What?", (Command("ring", ("dmesg",), privileged=True),), COUNT.formats, ("gpu.count",), 3.0)
TABLE = {"smi": COUNT, "dmesg": LOUD}


def fleet(answer: Callable[[str, tuple[str, ...]], CommandResult], inventory: Inventory = HOSTS) -> tuple[Fleet, FakeHosts, SetClock]:
    hosts, clock = FakeHosts(answer), SetClock()
    return Fleet(hosts, inventory, TABLE, MemoryEvidence(), clock), hosts, clock


async def test_facts_come_with_host_time_and_the_digest_of_what_was_printed() -> None:
    it, _, clock = fleet(lambda host, argv: CommandResult(b"8\n", seconds=3))
    wave = await it.run_checks("inc-1", [CheckRequest("n1", "smi"), CheckRequest("n2", "smi")])
    facts = {fact.host: fact for fact in wave.facts}
    assert facts["n1"].value == 8
    assert facts["n1"].time == clock.now()
    assert len(facts["n1"].sha256) == 64
    assert (wave.checks, wave.check_seconds, wave.makespan_seconds) == (2, 6.0, 3.0)


async def test_facts_are_of_the_boot_that_the_host_named_last() -> None:
    boots = ["1b4e28ba-2fa1-11d2-883f-0016d3cca427", "2c5f39cb-30b2-22e3-994a-1127e4ddb538"]
    named = Check(
        "dmesg", "Which boot?", (Command("boot", ("boot",)),),
        (Format("boot", lambda text: True, lambda text: [Fact("dmesg", "host.boot_id", text.strip())]),), ("host.boot_id",), 1.0,
    )  # fmt: skip
    hosts = FakeHosts(lambda host, argv: CommandResult(boots[0].encode()) if argv[-1] == "boot" else CommandResult(b"8"))
    it = Fleet(hosts, HOSTS, {"smi": COUNT, "dmesg": named}, MemoryEvidence(), SetClock())

    async def told(check: str) -> set[str]:
        return {fact.boot_id for fact in (await it.run_checks("inc-1", [CheckRequest("n1", check)], fresh=True)).facts}

    assert await told("smi") == {""}
    for boot in (*boots, boots[0]):
        boots[0] = boot
        assert await told("dmesg") == await told("smi") == {boot}


def test_a_fact_that_was_told_where_it_is_of_is_a_fact_like_any_other() -> None:
    when = SetClock().now()
    bare = Fact("smi", "gpu.temp.core", 40, "gpu1", unit="C", line="40 C", attrs={"bdf": "0000:19:00.0"})
    told = bare.locate("n1", time=when, boot_id="b", sha256="s")
    assert told == replace(bare, host="n1", time=when, boot_id="b", sha256="s")
    assert told.locate("n2", time=when + timedelta(1)) == replace(told, host="n2", sha256="")
    assert (type(told), repr(told), Fact.from_json(told.to_json())) == (Fact, repr(replace(told)), told)
    with pytest.raises(FrozenInstanceError):
        told.host = "n3"  # type: ignore[misc]


@pytest.mark.parametrize(
    ("ran", "status"),
    [
        (CommandResult(b"", b"", 124, timed_out=True), Status.TIMEOUT),
        (CommandResult(b"8", b"", None), Status.UNREACHABLE),
        (CommandResult(b"", b"sudo: a password is required\n", 1), Status.DENIED),
        (CommandResult(b"", b"bash: count: command not found\n", 127), Status.UNREADABLE),
        (CommandResult(b"", b"", 0), Status.UNREADABLE),
        (CommandResult(b"\xff\xfe\x00garbage", b"", 0), Status.UNREADABLE),
        (CommandResult(b"1" * 1000, b"", None, truncated=True), Status.UNREADABLE),
    ],
)
async def test_trouble_is_a_fact_and_never_healthy(ran: CommandResult, status: Status) -> None:
    it, _, _ = fleet(lambda host, argv: ran)
    [answer] = (await it.run_checks("inc-1", [CheckRequest("n1", "smi")])).answers
    assert status in {fact.status for fact in answer.facts}
    assert answer.could_not


async def test_a_check_whose_programs_are_all_missing_has_looked_at_nothing() -> None:
    optional = replace(COUNT, commands=(Command("query", ("count",), optional=True),))
    asked = Fleet(
        FakeHosts(lambda host, argv: CommandResult(b"", b"count: not found", 127)), HOSTS, {"smi": optional}, MemoryEvidence(), SetClock()
    )
    [answer] = (await asked.run_checks("inc-1", [CheckRequest("n1", "smi")])).answers
    assert answer.could_not
    assert [(fact.key, fact.value) for fact in answer.facts] == [("check.skipped", "no_tool")]


async def test_a_question_that_an_older_kit_lacks_says_which_kit_and_what_to_do() -> None:
    told = b"rackmedic-look: no such question: this kit is 0123456789ab; install the newest with 'rackmedic node-kit'\n"
    it, _, _ = fleet(lambda host, argv: CommandResult(b"", told, 64))
    [answer] = (await it.run_checks("inc-1", [CheckRequest("n1", "smi")])).answers
    [fact] = [fact for fact in answer.facts if fact.status is Status.DENIED]
    assert "its node kit is 0123456789ab, another than this RackMedic's" in fact.line
    assert "install the newest (`rackmedic node-kit`)" in answer.could_not


async def test_a_dead_host_does_not_keep_the_others_from_answering() -> None:
    def answer(host: str, argv: tuple[str, ...]) -> CommandResult:
        if host == "n2":
            raise Unreachable(host, "no route to host")
        return CommandResult(b"8")

    it, _, _ = fleet(answer)
    seen: list[CheckAnswer] = []
    wave = await it.run_checks("inc-1", [CheckRequest(f"n{i}", "smi") for i in (1, 2, 3)], seen.append)
    assert {a.host: bool(a.could_not) for a in wave.answers} == {"n1": False, "n2": True, "n3": False}
    assert len(seen) == 3


async def test_privileged_questions_go_through_the_kit_where_there_is_one() -> None:
    it, hosts, _ = fleet(lambda host, argv: CommandResult(b"8"))
    await it.run_checks("inc-1", [CheckRequest("n1", "dmesg"), CheckRequest("p1", "dmesg")])
    asked = dict(hosts.asked)
    assert asked["n1"] == ("sudo", "-n", "/usr/local/sbin/rackmedic-look", "dmesg.ring")
    assert asked["p1"] == ("dmesg",)


async def test_an_answer_is_kept_for_a_while_and_shared_by_all_who_ask() -> None:
    it, hosts, clock = fleet(lambda host, argv: CommandResult(b"8", seconds=3))
    await it.run_checks("inc-1", [CheckRequest("n1", "smi")])
    again = await it.run_checks("inc-2", [CheckRequest("n1", "smi")])
    assert (len(hosts.asked), again.check_seconds, again.answers[0].cached) == (1, 0, True)
    clock.go(seconds=121)
    await it.run_checks("inc-2", [CheckRequest("n1", "smi")])
    assert len(hosts.asked) == 2


async def test_after_a_change_nothing_kept_counts() -> None:
    it, hosts, _ = fleet(lambda host, argv: CommandResult(b"8"))
    await it.run_checks("inc-1", [CheckRequest("n1", "smi")])
    it.forget_host("n1")
    await it.run_checks("inc-1", [CheckRequest("n1", "smi")])
    assert len(hosts.asked) == 2


async def test_a_new_report_is_not_answered_with_what_was_seen_before_it() -> None:
    it, hosts, clock = fleet(lambda host, argv: CommandResult(b"8"))
    await it.run_checks("inc-1", [CheckRequest("n1", "smi")])
    clock.go(seconds=5)
    it.invalidate_before(["n1", "n2"], clock.now())
    await it.run_checks("inc-2", [CheckRequest("n1", "smi")])
    it.invalidate_before(["n1"], clock.now())
    await it.run_checks("inc-3", [CheckRequest("n1", "smi")])
    assert len(hosts.asked) == 2


async def test_what_could_not_be_looked_at_is_asked_anew() -> None:
    it, hosts, _ = fleet(lambda host, argv: CommandResult(b"", timed_out=True, exit_status=124))
    await it.run_checks("inc-1", [CheckRequest("n1", "smi")])
    await it.run_checks("inc-1", [CheckRequest("n1", "smi")])
    assert len(hosts.asked) == 2


async def test_a_host_outside_the_inventory_is_never_contacted() -> None:
    it, hosts, _ = fleet(lambda host, argv: CommandResult(b"8"))
    [answer] = (await it.run_checks("inc-1", [CheckRequest("evil", "smi")])).answers
    assert answer.could_not
    assert not hosts.asked


def test_the_makespan_is_that_of_as_many_lanes_as_ssh_has() -> None:
    assert SshLimits().sessions == DEFAULT_LANES
    assert compute_makespan([3.0] * DEFAULT_LANES) == 3.0
    assert compute_makespan([3.0] * (DEFAULT_LANES + 1)) == 6.0
    assert compute_makespan([3.0] * 9, lanes=9) == 3.0
    assert compute_makespan([]) == 0.0


async def test_a_large_fleet_is_asked_as_fast_as_its_answers_are_taken() -> None:
    inventory = parse_inventory({"groups": {"g": {"hosts": "n[1-200]"}}})
    hosts = FakeHosts(lambda host, argv: CommandResult(b"8"))
    it = Fleet(hosts, inventory, TABLE, MemoryEvidence(), SetClock(), most_hosts=10)
    finished = it.stream_host_answers("look", [CheckRequest(host, "smi") for host in inventory.hosts])
    [first] = await anext(finished)
    for _ in range(100):
        await asyncio.sleep(0)
    assert len(hosts.asked) <= 10 + MAX_FINISHED_HOSTS
    rest = [answer.host async for answers in finished for answer in answers]
    assert sorted([first.host, *rest]) == sorted(inventory.hosts)


async def test_a_listener_that_stops_cancels_the_requests() -> None:
    inventory = parse_inventory({"groups": {"g": {"hosts": "n[1-200]"}}})
    hosts = FakeHosts(lambda host, argv: CommandResult(b"8"))
    it = Fleet(hosts, inventory, TABLE, MemoryEvidence(), SetClock(), most_hosts=10)
    async with contextlib.aclosing(it.stream_host_answers("look", [CheckRequest(host, "smi") for host in inventory.hosts])) as finished:
        await anext(finished)
    assert len(hosts.asked) < 200


async def test_a_bug_while_asking_is_raised_and_not_waited_for() -> None:
    def broken(host: str, argv: tuple[str, ...]) -> CommandResult:
        raise ZeroDivisionError

    it, _, _ = fleet(broken)
    with pytest.raises(ZeroDivisionError):
        await anext(it.stream_host_answers("look", [CheckRequest("n1", "smi")]))


async def test_what_may_no_longer_be_reused_is_let_go() -> None:
    it, hosts, clock = fleet(lambda host, argv: CommandResult(b"8"))
    await it.run_checks("inc-1", [CheckRequest("n1", "smi")])
    clock.go(seconds=121)
    await it.run_checks("inc-1", [CheckRequest("n2", "smi")])
    await it.run_checks("inc-1", [CheckRequest("n1", "smi")])
    assert len(hosts.asked) == 3


TARGETED = {name: CHECKS[name] for name in ("store", "net")}


def targets(**settings: str) -> tuple[Fleet, FakeHosts]:
    def answer(host: str, argv: tuple[str, ...]) -> CommandResult:
        return CommandResult(b"HTTP/1.1 503 Slow Down\r\n\r\n" if argv[0] == "curl" else b"")

    hosts = FakeHosts(answer)
    inventory = parse_inventory({"groups": {"g": {"hosts": "n1", "kit": True, **settings}}})
    return Fleet(hosts, inventory, TARGETED, MemoryEvidence(), SetClock()), hosts


async def test_a_service_that_the_inventory_does_not_name_is_not_asked_and_not_called_well() -> None:
    it, hosts = targets()
    wave = await it.run_checks("inc-1", [CheckRequest("n1", "store"), CheckRequest("n1", "net")])
    said = {(fact.check, fact.value): fact.line for fact in wave.facts if fact.key == "check.no_target"}
    assert said == {
        ("store", "object_store"): "could not look: no target is set (object_store in the inventory)",
        ("net", "tracker"): "could not look: no target is set (tracker in the inventory)",
    }
    assert not [fact for fact in wave.facts if fact.key in ("store.object", "net.tracker")]
    assert not [argv for _, argv in hosts.asked if argv[0] == "curl"]


async def test_only_the_address_of_the_inventory_is_asked_and_for_headers_only() -> None:
    it, hosts = targets(object_store="https://objects.example/bucket")
    wave = await it.run_checks("inc-1", [CheckRequest("n1", "store")])
    assert [fact.value for fact in wave.facts if fact.key == "store.object"] == ["throttled"]
    (argv,) = [argv for _, argv in hosts.asked if argv[0] == "curl"]
    assert argv[-1] == "https://objects.example/bucket"
    assert {"-I", "-q", "--max-time", "--connect-timeout"} <= set(argv)
    assert argv[argv.index("--max-redirs") + 1] == "0"


@pytest.mark.parametrize(
    "address", ["https://user:secret@s3.example/", "file:///etc/shadow", "https://x/?q=1", "s3://bucket", "https://x/../y", "-K/etc/x"]
)
def test_an_address_with_credentials_or_of_another_kind_is_refused(address: str) -> None:
    with pytest.raises(BadInventory, match="must be an address"):
        parse_inventory({"groups": {"g": {"hosts": "n1", "tracker": address}}})


HALF = {name: CHECKS[name] for name in ("ibstat", "smi", "dmesg", "joblog")}


@pytest.mark.parametrize("ran", [{"exit_status": 124, "timed_out": True}, {"truncated": True}, {"exit_status": None}])
async def test_half_a_table_is_not_counted_and_half_a_log_is_read_up_to_its_last_whole_line(ran: dict[str, Any]) -> None:
    ports = (
        "CA 'mlx5_0'\n\tPort 1:\n\t\tState: Active\n\t\tPhysical state: LinkUp\n\t\tRate: 400\n\t\tLink layer: InfiniBand\nCA 'mlx5_1'\n"
    )
    kernel = "kern  :warn  : 2026-05-20T03:01:10,000000+00:00 NVRM: Xid (PCI:0000:9b:00): 79, GPU has fallen off the bus.\n"
    said = {"ibstat": ports, "dmesg": kernel + kernel.replace("79", "48")[:70]}
    hosts = FakeHosts(
        lambda host, argv: CommandResult(said.get({"ibstat": "ibstat", "sudo": "dmesg"}.get(argv[0], ""), "").encode(), **ran)
    )
    it = Fleet(hosts, HOSTS, HALF, MemoryEvidence(), SetClock())
    wave = await it.run_checks("inc-1", [CheckRequest("n1", "ibstat"), CheckRequest("n1", "dmesg")])
    found = {(fact.check, fact.key, fact.value) for fact in wave.facts if fact.status is Status.OK}
    assert not {row for row in found if row[0] == "ibstat"}
    assert ("dmesg", "kernel.xid", 79) in found
    assert ("dmesg", "kernel.xid", 48) not in found
    assert {fact.check for fact in wave.facts if fact.status.blind} == {"ibstat", "dmesg"}


async def test_a_long_output_is_read_beside_the_loop_and_a_short_one_on_it() -> None:
    readers: dict[int, int] = {}

    def read(text: str) -> Sequence[Fact]:
        readers[len(text)] = threading.get_ident()
        return [Fact("smi", "gpu.count", 8)]

    check = replace(COUNT, formats=(Format("any", lambda text: True, read),), cap=4 << 20)
    for size in (MIN_THREAD_CHARS, MIN_THREAD_CHARS + 1):
        hosts = FakeHosts(lambda host, argv, size=size: CommandResult(b"x" * size))  # type: ignore[misc]
        it = Fleet(hosts, HOSTS, {"smi": check}, MemoryEvidence(), SetClock())
        assert (await it.run_checks("inc-1", [CheckRequest("n1", "smi")])).facts[0].value == 8
    assert readers[MIN_THREAD_CHARS] == threading.get_ident() != readers[MIN_THREAD_CHARS + 1]
