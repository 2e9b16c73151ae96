"""Running one action: every answer of the kit, the network or a dying host, and the resulting outcome."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from fakeredis import FakeAsyncRedis
from hypothesis import given
from hypothesis import strategies as st

from tests.support.fakes_ledger import BOOT, OTHER_BOOT, Desk
from tools.execution import runner as act
from tools.execution.kit import get_current_kit_version, parse_kit_answer, read_kit_state
from tools.execution.runner import ExecutionResult
from tools.fact import Status
from tools.ledger.record import LostClaim
from tools.nodekit.generate import ACT_COMMAND
from tools.remedies import REMEDIES
from tools.transport import CommandResult, Unreachable

GONE = Unreachable("gpu-017", "no answer on port 22 in time", Status.TIMEOUT)
CUT = CommandResult(b"", exit_status=None)
Step = CommandResult | Unreachable | str


@dataclass
class Told:
    """A host with scripted answers; the last one of each kind repeats."""

    start: list[Step] = field(default_factory=lambda: ["started"])
    settle: list[Step] = field(default_factory=lambda: ["done 0"])
    boot: list[Step] = field(default_factory=lambda: [BOOT])
    asked: list[tuple[str, ...]] = field(default_factory=list)
    version: Step = field(default_factory=get_current_kit_version)

    async def run(self, host: str, argv: Sequence[str], *, timeout: float, cap: int) -> CommandResult:
        words = tuple(argv)
        if words == (*ACT_COMMAND, "version"):
            if isinstance(self.version, Unreachable):
                raise self.version
            return CommandResult(f"{self.version}\n".encode()) if isinstance(self.version, str) else self.version
        self.asked.append(words)
        steps = self.boot if words[0] == "cat" else self.start if words[3] == "start" else self.settle
        step = steps.pop(0) if len(steps) > 1 else steps[0]
        if isinstance(step, Unreachable):
            raise step
        return CommandResult(f"{step}\n".encode()) if isinstance(step, str) else step

    async def aclose(self) -> None:
        return None

    @property
    def words(self) -> list[str]:
        """Return the kit subcommands that were sent."""
        return [argv[3] for argv in self.asked if argv[0] != "cat"]


@pytest.fixture
async def desk() -> AsyncIterator[Desk]:
    async with FakeAsyncRedis() as redis:
        yield Desk(redis)


async def _run(
    desk: Desk,
    host: Any,
    *,
    adopted: bool = False,
    beat: Any = None,
    contact: Any = act.ignore_contact_change,
    seconds: float = 20.0,
    **changes: Any,
) -> ExecutionResult:
    claim = await desk.claim(await desk.approved(desk.action(**changes)))
    if adopted:
        desk.clock.go(minutes=5)
        claim = await desk.ledger.adopt(claim.action.approval, "w2")

    async def pause(_: float) -> None:
        desk.clock.go(seconds=seconds)

    async def quiet(held: Any) -> None:
        return None

    return await act.run_action(claim, host, clock=desk.clock, beat=beat or quiet, pause=pause, contact=contact)


REBOOT: dict[str, Any] = {"remedy": "reboot", "args": {}, "argv": ("reboot",), "command": ("systemctl", "reboot"), "limit_seconds": 60}


# -- the kit answers ---------------------------------------------------------------------------------------------------------


async def test_a_command_that_ends_with_zero_is_done_with_its_output(desk: Desk) -> None:
    host = Told(settle=["running", "running", "done 0\nGPU was reset."])
    assert await _run(desk, host) == ExecutionResult("done", 0, "GPU was reset.\n")
    assert host.words == ["start", "settle", "settle", "settle"]


async def test_the_kit_is_asked_with_digest_boot_and_matched_words_only(desk: Desk) -> None:
    host = Told()
    action = desk.action()
    claim = await desk.claim(await desk.approved(action))
    await act.start_action(claim, host)
    assert host.asked == [(*ACT_COMMAND, "start", action.digest, BOOT, "gpu_reset", "0000:9b:00.0")]


@pytest.mark.parametrize(
    ("answer", "state", "says"),
    [
        ("done 1\nsomething", "failed", "it exited with status 1"),
        ("done 124", "failed", "it did not end within its time limit"),
        ("done 137", "failed", "it did not end within its time limit"),
        ("done 255\nGPU 0000:9B:00.0: In use by another client", "failed", "the GPU is still held by a client"),
        ("done 0\nResetting GPU is not supported.", "failed", "this GPU cannot be reset by itself"),
        ("refused no process uses this GPU: found '4711'", "failed", "no process uses this GPU: found '4711'"),
        ("lost\nhalf", "unknown", "neither its end nor its process can be found"),
    ],
)
async def test_each_end_is_told_with_its_reason(desk: Desk, answer: str, state: str, says: str) -> None:
    ended = await _run(desk, Told(settle=[answer]))
    assert ended.state == state
    assert says in ended.says


async def test_a_start_that_is_refused_asks_nothing_more(desk: Desk) -> None:
    host = Told(start=["refused another action is running on this host"])
    assert await _run(desk, host) == ExecutionResult("failed", says="another action is running on this host")
    assert host.words == ["start"]


async def test_a_digest_that_never_began_has_failed(desk: Desk) -> None:
    ended = await _run(desk, Told(start=[GONE], settle=["never"]))
    assert ended == ExecutionResult("failed", says="it never began, and can never begin now")


# -- no clear answer ---------------------------------------------------------------------------------------------------------

UNCLEAR: tuple[Step, ...] = (
    GONE, CUT, CommandResult(b"started", exit_status=None), CommandResult(b"", b"bash: fork: retry", 254),
    CommandResult(b""), CommandResult(b"Welcome!\nstarted\n"), CommandResult(b"done\n"),
    CommandResult(b"done x\n"), CommandResult("done ²\n".encode()), CommandResult(b"done 0 0\n"), CommandResult(b"done 1000\n"),
    CommandResult(b" done 0\n"), CommandResult(b"\xff\xfe"), CommandResult(b"DONE 0\n"),
    CommandResult(b"done 0\n", timed_out=True, exit_status=124), CommandResult(b"", b"rackmedic-act: no record can be kept", 4),
    CommandResult(b"absent\n"), CommandResult(b"unclear\n"),
)  # fmt: skip


@pytest.mark.parametrize("step", UNCLEAR)
async def test_an_unclear_start_is_settled_never_started_again(desk: Desk, step: Step) -> None:
    host = Told(start=[step], settle=[step, "running", "done 0"])
    assert (await _run(desk, host)).state == "done"
    assert host.words.count("start") == 1


@pytest.mark.parametrize("step", UNCLEAR)
async def test_a_host_that_stays_unclear_leaves_the_action_unknown_when_its_time_is_over(desk: Desk, step: Step) -> None:
    host = Told(start=[step], settle=[step], boot=[GONE])
    ended = await _run(desk, host)
    assert ended.state == "unknown"
    assert ended.says.startswith("no final answer from gpu-017 in time: ")
    assert host.words.count("start") == 1
    assert 10 < host.words.count("settle") < 30


@given(st.binary(max_size=60), st.binary(max_size=60), st.sampled_from([0, 1, 3, 4, 127, 255, None]))
def test_no_bytes_make_an_answer_that_is_not_one(out: bytes, err: bytes, status: int | None) -> None:
    said = parse_kit_answer(CommandResult(out, err, status))
    if said.word not in ("absent", "unclear"):
        assert out.split(b"\n")[0].split(b" ")[0].decode() == said.word
        assert status is not None
    if said.word == "absent":
        assert out.split(b"\n")[0] == b""


@pytest.mark.parametrize(
    "ran",
    [
        CommandResult(b"", b"sudo: a password is required\n", 1),
        CommandResult(b"", b"Sorry, user rackmedic is not allowed to execute '/usr/local/sbin/rackmedic-act' as root on gpu-017.\n", 1),
        CommandResult(b"", b"sudo: /usr/local/sbin/rackmedic-act: command not found\n", 1),
        CommandResult(b"", b"rackmedic is not in the sudoers file.\n", 1),
        CommandResult(b"", b"timeout: failed to run command 'sudo': No such file or directory\n", 127),
    ],
)
async def test_a_host_that_turns_the_start_away_ran_nothing(desk: Desk, ran: CommandResult) -> None:
    host = Told(start=[ran], settle=[ran])
    ended = await _run(desk, host)
    assert ended.state == "failed"
    assert ended.says.startswith("nothing was started: ")
    assert host.words == ["start"]
    assert (await _run(desk, Told(settle=[ran]), adopted=True, target="gpu-018")).state == "unknown", "a start before may have passed"


# -- the host dies -----------------------------------------------------------------------------------------------------------


async def test_a_host_that_dies_in_the_middle_and_comes_back_is_left_to_a_human(desk: Desk) -> None:
    host = Told(start=["started"], settle=["running", GONE, GONE, "lost"], boot=[OTHER_BOOT])
    assert (await _run(desk, host)).state == "unknown"


async def test_a_host_that_lost_its_records_with_a_boot_is_left_to_a_human(desk: Desk) -> None:
    for target, start in (("gpu-017", GONE), ("gpu-018", "started")):
        ended = await _run(desk, Told(start=[start], settle=["never"], boot=[GONE, OTHER_BOOT]), target=target)
        assert ended.state == "unknown"
        assert "no record" in ended.says


async def test_a_host_that_takes_back_what_it_said_is_left_to_a_human(desk: Desk) -> None:
    assert (await _run(desk, Told(start=["started"], settle=["never"]))).state == "unknown"


BACK: tuple[tuple[list[Step], list[Step]], ...] = (
    (["done 0", GONE, GONE, "done 0"], [BOOT, GONE, OTHER_BOOT]),
    (["running", GONE, "lost"], [OTHER_BOOT]),
    (["done 143", GONE, "done 143"], [BOOT, OTHER_BOOT]),
    (["running", GONE, "never"], [GONE, OTHER_BOOT]),
)


@pytest.mark.parametrize(("settle", "boot"), BACK)
async def test_a_reboot_is_done_when_the_host_is_back_with_another_boot_id(desk: Desk, settle: list[Step], boot: list[Step]) -> None:
    ended = await _run(desk, Told(settle=list(settle), boot=list(boot)), **REBOOT)
    assert ended.state == "done"
    assert OTHER_BOOT in ended.says


async def test_a_boot_that_the_action_did_not_begin_is_not_its_doing(desk: Desk) -> None:
    host = Told(start=[GONE], settle=[GONE, "never"], boot=[OTHER_BOOT])
    assert (await _run(desk, host, **REBOOT)).state == "unknown"


async def test_a_reboot_that_does_not_happen_fails_when_its_time_is_over(desk: Desk) -> None:
    ended = await _run(desk, Told(settle=["done 0"]), **REBOOT)
    assert ended.state == "failed"
    assert ended.says == "the host still runs the same boot 900 seconds after the command"


async def test_a_host_that_does_not_come_back_is_unknown(desk: Desk) -> None:
    host = Told(settle=["done 0", GONE], boot=[BOOT, GONE])
    assert (await _run(desk, host, **REBOOT)).state == "unknown"


async def test_a_reboot_that_is_refused_fails_at_once_with_what_to_do(desk: Desk) -> None:
    host = Told(settle=['done 1\nOperation inhibited by "apt-get" (PID 900 "apt-get", user root), reason is "upgrade".'])
    ended = await _run(desk, host, **REBOOT)
    assert ended.state == "failed"
    assert "systemd-inhibit --list" in ended.says
    assert len(host.words) == 2


# -- the claim ---------------------------------------------------------------------------------------------------------------


async def test_an_adopted_claim_settles_and_never_starts(desk: Desk) -> None:
    host = Told(settle=["running", "done 0"])
    assert (await _run(desk, host, adopted=True)).state == "done"
    assert host.words == ["settle", "settle"]


async def test_start_itself_refuses_an_adopted_claim(desk: Desk) -> None:
    claim = await desk.claim(await desk.approved())
    desk.clock.go(minutes=5)
    host = Told()
    with pytest.raises(PermissionError):
        await act.start_action(await desk.ledger.adopt(claim.action.approval, "w2"), host)
    assert host.asked == []


async def test_a_worker_that_loses_the_claim_stops_at_once(desk: Desk) -> None:
    host = Told(settle=["running"])

    async def lost(held: Any) -> None:
        raise LostClaim

    with pytest.raises(LostClaim):
        await _run(desk, host, beat=lost)
    assert host.words == ["start"]


@dataclass
class Slow:
    """A host that answers only after three heartbeats."""

    beats: int = 0
    enough: asyncio.Event = field(default_factory=asyncio.Event)
    ended: bool = False

    async def run(self, host: str, argv: Sequence[str], *, timeout: float, cap: int) -> CommandResult:
        try:
            await self.enough.wait()
        finally:
            self.ended = True
        return CommandResult(f"{get_current_kit_version()}\n".encode() if "version" in argv else b"done 0\n")

    async def aclose(self) -> None:
        return None

    async def beat(self, claim: Any) -> None:
        self.beats += 1
        if self.beats == 3:
            self.enough.set()


async def test_a_slow_host_does_not_cost_the_claim(desk: Desk) -> None:
    host = Slow()
    claim = await desk.claim(await desk.approved())
    ended = await act.run_action(claim, host, clock=desk.clock, beat=host.beat, beat_seconds=0.001)
    assert (ended.state, host.beats) == ("done", 3)


async def test_a_claim_lost_while_a_host_is_slow_ends_the_waiting(desk: Desk) -> None:
    host = Slow()
    claim = await desk.claim(await desk.approved())

    async def lost(held: Any) -> None:
        raise LostClaim

    with pytest.raises(LostClaim):
        await act.run_action(claim, host, clock=desk.clock, beat=lost, beat_seconds=0.001)
    assert host.ended


@dataclass
class Keyed(Told):
    """A transport with a verified host key."""

    key: str = "SHA256:other"

    async def fingerprint(self, host: str) -> str:
        if not self.key:
            raise GONE
        return self.key


async def test_nothing_is_sent_to_a_host_with_another_key_than_the_one_approved(desk: Desk) -> None:
    host = Keyed()
    ended = await _run(desk, host, host_key="SHA256:approved")
    assert ended.state == "failed"
    assert "another host key" in ended.says
    assert host.asked == []
    same = Keyed(key="SHA256:approved")
    assert (await _run(desk, same, host_key="SHA256:approved", target="gpu-018")).state == "done"
    assert (await _run(desk, Keyed(key="", settle=["never"]), host_key="SHA256:approved", target="gpu-019")).state == "failed"


# -- the kit's version ----------------------------------------------------------------------------------------------------------


@dataclass
class Versioned:
    answer: CommandResult | Unreachable

    async def run(self, host: str, argv: Sequence[str], *, timeout: float, cap: int) -> CommandResult:
        assert tuple(argv) == (*ACT_COMMAND, "version")
        if isinstance(self.answer, Unreachable):
            raise self.answer
        return self.answer

    async def aclose(self) -> None:
        return None


@pytest.mark.parametrize(
    ("answer", "state", "says"),
    [
        (CommandResult(f"{get_current_kit_version()}\n".encode()), "current", ""),
        (CommandResult(b"0123456789ab\n"), "older", "version 0123456789ab, not"),
        (CommandResult(b"", b"sudo: a password is required\n", 1), "missing", "(sudo: a password is required)"),
        (GONE, "unknown", "could not be asked: no answer on port 22 in time"),
        (CUT, "unknown", "connection lost"),
        (CommandResult(b"what?\n"), "unknown", "what?"),
    ],
)
async def test_the_card_says_what_is_wrong_with_a_kit_and_what_a_human_can_run(desk: Desk, answer: Any, state: str, says: str) -> None:
    found = await read_kit_state("gpu-017", Versioned(answer))
    sentence = found.explain_unusable(desk.action())
    assert found.state == state
    assert says in sentence
    assert (sentence == "") == (state == "current")
    assert state == "current" or sentence.endswith("as root on gpu-017: nvidia-smi --gpu-reset -i 0000:9b:00.0")


async def test_a_kit_of_another_catalogue_starts_nothing_for_it_might_do_something_else(desk: Desk) -> None:
    host = Told(version="0123456789ab")
    ended = await _run(desk, host)
    assert (ended.state, host.asked) == ("failed", [])
    assert ended.says.startswith(
        "nothing was started, because an older kit may do something other than what was approved. The node kit on "
    )
    assert "is version 0123456789ab, not" in ended.says


@pytest.mark.parametrize("version", [GONE, CUT, CommandResult(b"", exit_status=0, timed_out=True), CommandResult(b"what?\n")])
async def test_a_kit_that_does_not_say_what_it_is_starts_nothing(desk: Desk, version: Any) -> None:
    host = Told(version=version, settle=["never"])
    ended = await _run(desk, host)
    assert (ended.state, ended.says) == ("failed", "it never began, and can never begin now")
    assert host.words == ["settle"]


async def test_a_kit_that_turns_us_away_is_not_asked_to_start(desk: Desk) -> None:
    host = Told(version=CommandResult(b"", b"sudo: a password is required\n", 1))
    ended = await _run(desk, host)
    assert (ended.state, ended.says, host.asked) == ("failed", "nothing was started: sudo: a password is required", [])


def test_a_remedy_that_an_older_kit_lacks_is_refused_in_words_that_say_what_to_do() -> None:
    said = parse_kit_answer(CommandResult(b"refused no such remedy in kit 0123456789ab\n", b"", 3))
    assert said.word == "refused"
    assert said.says.startswith(f"the node kit there is version 0123456789ab, not {get_current_kit_version()}, and has no such remedy")
    assert "rackmedic node-kit" in said.says


def test_every_refusal_of_the_catalogue_is_explained_in_any_case() -> None:
    for remedy in REMEDIES.values():
        for words in remedy.refusals:
            assert act.explain_refusal(remedy, f"error: {words.upper()}!") in remedy.refusals.values()
        assert act.explain_refusal(remedy, "all is well") == ""


@pytest.mark.parametrize("remedy", [row.id for row in REMEDIES.values() if row.at != "fleet" and row.completion.kind == "exit_zero"])
async def test_every_remedy_of_the_kit_can_be_run(desk: Desk, remedy: str) -> None:
    assert (await _run(desk, Told(), remedy=remedy)).state == "done"


# -- lost contact ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dead", [GONE, CUT, CommandResult(b"", exit_status=None), CommandResult(b"", timed_out=True, exit_status=124)])
@pytest.mark.parametrize("changes", [{}, REBOOT])
async def test_lost_contact_is_told_within_a_minute_and_nothing_is_repeated(desk: Desk, dead: Step, changes: dict[str, Any]) -> None:
    host, began, told = Told(settle=["running", dead], boot=[GONE]), desk.clock.now(), list[tuple[float, bool]]()

    async def contact(action: Any, since: Any) -> None:
        told.append(((desk.clock.now() - began).total_seconds(), since is None))

    ended = await _run(desk, host, contact=contact, seconds=5.0, **changes)
    assert ended.state == "unknown"
    assert [back for _, back in told] == [False]
    assert told[0][0] <= 60
    assert host.words.count("start") == 1


async def test_a_host_that_hangs_in_one_answer_is_told_of_while_it_hangs(desk: Desk) -> None:
    told: list[Any] = []

    async def contact(action: Any, since: Any) -> None:
        told.append(since)
        hangs.set()

    async def beat(held: Any) -> None:
        desk.clock.go(seconds=10)

    hangs = asyncio.Event()

    class Hanging(Told):
        async def run(self, *args: Any, **more: Any) -> CommandResult:
            if self.words.count("settle") == 1:
                await hangs.wait()
            return await super().run(*args, **more)

    claim = await desk.claim(await desk.approved(desk.action()))
    host = Hanging(settle=["running", "done 0"])
    ended = await act.run_action(claim, host, clock=desk.clock, beat=beat, pause=nothing, beat_seconds=0.001, contact=contact)
    assert ended.state == "done"
    assert told[0] is not None
    assert told[1:] == [None]


async def test_a_host_that_answers_in_time_is_not_called_lost(desk: Desk) -> None:
    told: list[Any] = []

    async def contact(action: Any, since: Any) -> None:
        told.append(since)

    await _run(desk, Told(settle=["running", GONE, "running", GONE, "done 0"]), contact=contact, seconds=15.0)
    assert told == []


async def nothing(seconds: float) -> None: ...
