"""Several commands in one SSH session are answered as if run alone, whatever the others print."""

import asyncio
import contextlib
import os
import select
import shlex
import shutil
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deploy.sandbox.cluster.grammar import parse_batch
from tests.support.clock import PATIENCE
from tests.support.fixtures_sshd import needs_sshd, sshd
from tools.ssh.batch import MAX_STDERR_BYTES, BatchCommand, BatchOutputParser, CommandOutput, build_batch_command, create_delimiter
from tools.ssh.batching import BatchingSshTransport
from tools.ssh.client import SshLimits, SshTransport
from tools.ssh.session import SessionEnd
from tools.transport import CommandResult, Unreachable

pytestmark = pytest.mark.slow


BRISK = SshLimits(connect_seconds=30, login_seconds=30, keepalive_seconds=0.5, grace_seconds=1)
SHELLS = [shell for shell in ("dash", "bash", "busybox") if shutil.which(shell)]
NUMBER = "0123456789abcdef" * 2


def asked(*argv: str, timeout: float = PATIENCE, cap: int = 1000) -> BatchCommand:
    return BatchCommand(argv, timeout, cap)


def run(shell: str, rows: Sequence[BatchCommand], step: int = 1 << 20) -> list[CommandOutput]:
    """Return a shell's answers to the batch, its output parsed in pieces."""
    number, words = create_delimiter(), shlex.split(build_batch_command(rows))
    first = [shell, "sh"] if shell == "busybox" else [shell]
    ran = subprocess.run([*first, *words[1:]], input=f"{number}\n".encode(), capture_output=True, check=True)
    assert ran.stderr == b""
    answers = BatchOutputParser(number)
    return [said for at in range(0, len(ran.stdout), step) for said in answers.feed(ran.stdout[at : at + step])]


@pytest.mark.parametrize("shell", SHELLS)
def test_each_command_has_its_own_output_errors_and_exit_status(shell: str) -> None:
    said = run(
        shell,
        [
            asked("printf", "%s|", "a b", "$(id)", "x;y", "*", "it's", '"'),
            asked("sh", "-c", "echo out; echo err >&2; exit 3"),
            asked("printf", r"a\000b\377\n\n\n"),
            asked("cat"),
            asked("true"),
        ],
    )
    assert said == [
        CommandOutput(b"a b|$(id)|x;y|*|it's|\"|", b"", 0),
        CommandOutput(b"out\n", b"err\n", 3),
        CommandOutput(b"a\0b\xff\n\n\n", b"", 0),
        CommandOutput(b"", b"", 0),
        CommandOutput(b"", b"", 0),
    ]


@pytest.mark.parametrize("shell", SHELLS)
def test_caps_and_limits_are_each_commands_own(shell: str) -> None:
    yes, late, missing, noisy, after = run(
        shell,
        [
            asked("yes", cap=5000),
            asked("sleep", "4219", timeout=0.2),
            asked("no-such-program"),
            asked("sh", "-c", "yes e | head -c 300000 >&2; echo done"),
            asked("echo", "after"),
        ],
    )
    assert len(yes.stdout) == 5001  # one more than the cap shows that there was more
    assert (late.exit_status, missing.exit_status) == (124, 127)
    assert b"no-such-program" in missing.stderr
    assert noisy.stdout == b"done\n"
    assert len(noisy.stderr) <= MAX_STDERR_BYTES
    assert after == CommandOutput(b"after\n", b"", 0)


@pytest.mark.parametrize("shell", SHELLS)
def test_no_command_can_learn_the_number(shell: str) -> None:
    """The delimiter is in no argument, parent's argument, environment or input of a command, and exported variables do
    not change that.
    """
    look = "cat /proc/self/environ /proc/$PPID/environ /proc/$PPID/cmdline /proc/self/cmdline; cat"
    number, words = create_delimiter(), shlex.split(build_batch_command([asked("sh", "-c", look, cap=100_000), asked("true")]))
    first = [shell, "sh"] if shell == "busybox" else [shell]
    env = {"PATH": "/usr/bin:/bin", "n": "exported", "e": "exported"}
    ran = subprocess.run([*first, *words[1:]], input=f"{number}\n".encode(), capture_output=True, check=True, env=env)
    seen, _ = BatchOutputParser(number).feed(ran.stdout)
    assert b"PATH=" in seen.stdout
    assert number.encode() not in seen.stdout


LIES = st.sampled_from([b"\n", b"x", b".", b" 0", b"look", b"\0", b"\n\n", b" 124\n", b"\n0.\n", NUMBER[:-1].encode(), b"f" * 32])


@given(st.lists(st.tuples(st.lists(LIES, max_size=12), st.lists(LIES, max_size=12), st.integers(0, 255)), max_size=6), st.integers(1, 40))
def test_nothing_that_is_printed_passes_for_anothers_answer(rows: list[tuple[list[bytes], list[bytes], int]], step: int) -> None:
    number = NUMBER.encode()
    said = [CommandOutput(b"".join(out), b"".join(err), status) for out, err, status in rows]
    wire = b"Welcome to gpu-001!\n" + number + b"\n"
    for one in said:
        wire += b"%b\n%b\n%b\n%b %d\n%b.\n" % (one.stdout, number, one.stderr, number, one.exit_status or 0, number)
    answers = BatchOutputParser(NUMBER)
    assert [found for at in range(0, len(wire), step) for found in answers.feed(wire[at : at + step])] == said


words = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=8)


@given(st.lists(st.tuples(st.lists(words, min_size=1, max_size=4), st.integers(0, 10**7), st.integers(1, 600)), min_size=1, max_size=5))
def test_every_word_arrives_as_it_was(rows: list[tuple[list[str], int, int]]) -> None:
    found = parse_batch(build_batch_command([BatchCommand(tuple(argv), limit, cap) for argv, cap, limit in rows]))
    assert [(list(one.argv), one.max_bytes - 1, int(one.limit)) for one in found] == rows


def test_numbers_are_never_the_same() -> None:
    assert len({create_delimiter() for _ in range(1000)}) == 1000


class Script:
    """An `SshTransport` with scripted sessions. `ends`: for the next batch sessions, how many commands are answered and
    how it ended.
    """

    def __init__(self, *ends: tuple[int, SessionEnd], sessions: int = 5) -> None:
        self.ends = list(ends)
        self.sessions = sessions
        self.together: list[list[str]] = []
        self.alone: list[str] = []

    async def run(self, host: str, argv: Sequence[str], *, timeout: float, cap: int) -> CommandResult:
        self.alone.append(argv[0])
        return CommandResult(argv[0].encode())

    async def run_batch(self, host: str, asked: Sequence[BatchCommand], heard: object) -> SessionEnd:
        assert callable(heard)
        answered, ended = self.ends.pop(0) if self.ends else (len(asked), SessionEnd())
        self.together.append([one.argv[0] for one in asked])
        for at in range(min(answered, len(asked))):
            await asyncio.sleep(0)
            heard(at, CommandResult(asked[at].argv[0].encode()))
        return ended


async def ask(script: Script, count: int) -> list[str]:
    """Run `count` commands at once and return the answers."""
    looks = BatchingSshTransport(script)  # type: ignore[arg-type]  # plays the two methods that it needs
    rans = await asyncio.gather(*(looks.run("n1", [f"c{at}"], timeout=9, cap=9) for at in range(count)))
    await looks.aclose()
    return [ran.text for ran in rans]


@pytest.mark.parametrize("count", [1, 2, 5, 6, 13, 56, 300])
async def test_everything_is_answered_once_in_few_sessions(count: int) -> None:
    script = Script()
    assert await ask(script, count) == [f"c{at}" for at in range(count)]
    ran = [name for session in script.together for name in session] + script.alone
    assert sorted(ran) == sorted(f"c{at}" for at in range(count))
    assert len(script.together) + len(script.alone) <= 2 + count / 5


async def test_what_a_session_did_not_come_to_is_asked_again_and_what_it_did_is_not() -> None:
    script = Script((2, SessionEnd()), (0, SessionEnd()))
    assert await ask(script, 6) == [f"c{at}" for at in range(6)]
    ran = script.together[0][:2] + [name for session in script.together[2:] for name in session] + script.alone
    assert sorted(ran) == [f"c{at}" for at in range(6)]


async def test_a_host_whose_account_runs_no_script_is_asked_one_by_one() -> None:
    script = Script((0, SessionEnd(refused=True)))
    assert await ask(script, 6) == [f"c{at}" for at in range(6)]
    assert len(script.together) == 1
    assert sorted(script.alone) == [f"c{at}" for at in range(6)]


async def test_a_command_whose_sessions_always_break_off_gets_one_of_its_own() -> None:
    script = Script(*[(0, SessionEnd())] * 100)
    assert await ask(script, 6) == [f"c{at}" for at in range(6)]
    assert len(script.together) <= 4


async def test_trouble_is_told_to_all_who_asked() -> None:
    class Gone(Script):
        async def run_batch(self, host: str, asked: Sequence[BatchCommand], heard: object) -> SessionEnd:
            raise Unreachable(host, "no route")

    looks = BatchingSshTransport(Gone())  # type: ignore[arg-type]  # as above
    rans = await asyncio.gather(*(looks.run("n1", [f"c{at}"], timeout=9, cap=9) for at in range(4)), return_exceptions=True)
    assert [str(ran) for ran in rans] == ["n1: no route"] * 4


async def test_a_session_without_waiters_is_abandoned() -> None:
    left = asyncio.Event()

    class Slow(Script):
        async def run_batch(self, host: str, asked: Sequence[BatchCommand], heard: object) -> SessionEnd:
            try:
                await asyncio.Event().wait()
            finally:
                left.set()
            return SessionEnd()

    looks = BatchingSshTransport(Slow())  # type: ignore[arg-type]  # as above
    asking = [asyncio.create_task(looks.run("n1", [f"c{at}"], timeout=9, cap=9)) for at in range(4)]
    await asyncio.sleep(0.01)
    for one in asking:
        one.cancel()
    async with asyncio.timeout(PATIENCE):
        await left.wait()
    await looks.aclose()


MANY = [
    ["printf", "%s|", "a b", "$(id)", "x;y", "*"],
    ["sh", "-c", "echo out; echo err >&2; exit 3"],
    ["yes"],
    ["no-such-program"],
    ["sh", "-c", "kill -9 $$"],
    ["printf", r"\377\000ok"],
    ["sleep", "4220"],
]


@needs_sshd
async def test_a_real_sshd_answers_the_same_together_as_alone(tmp_path: Path) -> None:
    async with sshd(tmp_path) as server:
        ssh = SshTransport(server.inventory(), BRISK)
        looks = BatchingSshTransport(ssh)
        together = await asyncio.gather(*(looks.run("n1", argv, timeout=2, cap=4000) for argv in MANY))
        alone = [await ssh.run("n1", argv, timeout=2, cap=4000) for argv in MANY]
        left = subprocess.run(["pgrep", "-f", "^sleep 4220"], capture_output=True, check=False)
        await looks.aclose()
        await ssh.aclose()
    for argv, one, other in zip(MANY, together, alone, strict=True):
        assert (one.stdout, one.truncated, one.timed_out) == (other.stdout, other.truncated, other.timed_out), argv
    assert [ran.exit_status for ran in together[:2]] == [0, 3]
    assert b"no-such-program" in together[3].stderr
    assert left.returncode == 1, "no remote process is left"


def until_ended(pids: Sequence[int]) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            handle = os.pidfd_open(pid)
            select.select([handle], [], [], PATIENCE)
            os.close(handle)


@needs_sshd
async def test_a_background_process_blocks_no_command_and_nothing_runs_twice(tmp_path: Path) -> None:
    pid, counted = tmp_path / "pid", tmp_path / "counted"
    leaves = ["sh", "-c", f"sleep 4221 & echo $! > {pid}"]
    counts = ["sh", "-c", f"echo {{}} >> {counted}"]
    async with sshd(tmp_path) as server:
        ssh = SshTransport(server.inventory(), BRISK)
        looks = BatchingSshTransport(ssh)
        asks = [leaves, *([*counts[:2], counts[2].format(number)] for number in range(5))]
        rans = await asyncio.gather(*(looks.run("n1", argv, timeout=1, cap=100) for argv in asks))
        script = subprocess.run(["pgrep", "-f", f"^sh -c export.*{counted}"], capture_output=True, check=False).stdout.split()
        os.kill(int(pid.read_text()), signal.SIGKILL)
        await asyncio.to_thread(until_ended, [int(one) for one in script])
        await looks.aclose()
        await ssh.aclose()
    assert rans[0].timed_out
    assert [ran.exit_status for ran in rans[1:]] == [0] * 5
    assert sorted(counted.read_text().split()) == ["0", "1", "2", "3", "4"]


@needs_sshd
async def test_a_connection_lost_under_one_leaves_the_others_to_the_next(tmp_path: Path) -> None:
    dies = [
        "sh",
        "-c",
        'p=$PPID; while [ "$(ps -o comm= -p "$p")" != sshd ]; do p=$(ps -o ppid= -p "$p" | tr -d " "); done; kill -9 "$p"; sleep 30',
    ]
    async with sshd(tmp_path) as server:
        ssh = SshTransport(server.inventory(), BRISK)
        looks = BatchingSshTransport(ssh)
        asks = [dies, *(["echo", str(number)] for number in range(5))]
        rans = await asyncio.gather(*(looks.run("n1", argv, timeout=PATIENCE, cap=100) for argv in asks))
        await looks.aclose()
        await ssh.aclose()
    assert rans[0].exit_status is None
    assert not rans[0].timed_out
    assert [ran.text for ran in rans[1:]] == [f"{number}\n" for number in range(5)]


@needs_sshd
async def test_an_account_that_allows_single_commands_only_is_asked_so(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    gate.write_text(
        '#!/bin/sh\ncase "$SSH_ORIGINAL_COMMAND" in timeout\\ *) eval "$SSH_ORIGINAL_COMMAND" ;; *) echo refused >&2; exit 1 ;; esac\n'
    )
    gate.chmod(0o755)
    async with sshd(tmp_path, f"ForceCommand {gate}") as server:
        ssh = SshTransport(server.inventory(), BRISK)
        looks = BatchingSshTransport(ssh)
        rans = await asyncio.gather(*(looks.run("n1", ["echo", str(number)], timeout=PATIENCE, cap=100) for number in range(6)))
        await looks.aclose()
        await ssh.aclose()
    assert [ran.text for ran in rans] == [f"{number}\n" for number in range(6)]
