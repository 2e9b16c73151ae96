"""`rackmedic chat` with unexpected input and input that ends early."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from bot.cli.command_requests import read_logs
from bot.cli.piped_input import MAX_LINE_BYTES, _split_lines
from bot.refusal import Refusal
from tests.support.terminal import ROOT, environment, rackmedic

pytestmark = pytest.mark.slow


CASE = "profile: dgx-h100-8\nnodes: [gpu-001, gpu-002]\nticket: {text: job 4711 on gpu-001 and gpu-002 died with an NCCL error}\n"
STRANGE = (
    b"\xff\xfe\xfa what\n/attach a\x00b\n/attach\n/attach /\n/attach /dev/zero\n/wait 99999999999999d\n/wait -1\n/wait NaNh\n"
    b"@priya approve 99999999999999999999\n@\n@priya\n@ approve 1\n\x1b[2J\x1b]0;x\x07\n/\x1b[2Jx\n//\n/\n"
    + b"a" * (MAX_LINE_BYTES + 9)
    + b"\n/help\nwhy?"
)


@pytest.fixture
def case(tmp_path: Path) -> Path:
    (tmp_path / "case.yaml").write_text(CASE)
    return tmp_path / "case.yaml"


def typed(case: Path, given: bytes, *words: str) -> "subprocess.CompletedProcess[bytes]":
    return subprocess.run(
        [sys.executable, "-m", "bot.cli", "chat", "--sandbox", str(case), *words],
        cwd=ROOT, input=given, capture_output=True, env=environment(), check=False,
    )  # fmt: skip


def test_any_input_is_answered_and_later_lines_still_count(case: Path) -> None:
    ran = typed(case, STRANGE)
    said = ran.stdout + ran.stderr
    assert (ran.returncode, b"Traceback" in said, b"\x1b" in said, b"\x07" in said) == (0, False, False, False)
    refused = [
        b"no file can be called so",
        b"Is a directory",
        b"/dev/zero: larger than",
        b"at most 20000 characters",
        b"hand in a log",
        b"explain",
    ]
    assert [words for words in refused if words not in said] == []


def test_the_end_of_what_is_piped_in_is_the_end(case: Path) -> None:
    assert rackmedic("chat", "--sandbox", str(case)).returncode == 0
    assert b"Traceback" not in typed(case, b"why").stderr


def test_ctrl_c_works_while_waiting_for_input(case: Path) -> None:
    child = subprocess.Popen(
        [sys.executable, "-m", "bot.cli", "chat", "--sandbox", str(case)],
        cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=environment(),
    )  # fmt: skip
    assert child.stderr
    assert child.stdin
    while b"/help tells more" not in (line := child.stderr.readline()):
        assert line, "it ended by itself"
    os.kill(child.pid, signal.SIGINT)
    assert child.wait() == 130
    assert b"Traceback" not in child.stderr.read()
    child.stdin.close()
    child.stderr.close()


def test_lines_are_the_same_however_they_come_and_an_endless_one_is_cut() -> None:
    text = b"a\n\nbb\nccc"
    for size in range(1, 12):
        pieces = [text[at : at + size] for at in range(0, len(text), size)]
        assert list(_split_lines(iter(pieces))) == [b"a", b"", b"bb", b"ccc"]
    endless = iter([b"x" * 60_000] * 40 + [b"\nend"])
    assert [len(line) for line in _split_lines(endless)] == [MAX_LINE_BYTES, 3]


def test_a_file_that_has_no_size_is_read_to_the_bound_and_no_further(tmp_path: Path) -> None:
    with pytest.raises(Refusal, match="larger than"):
        read_logs([Path("/dev/zero")])
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = subprocess.Popen([sys.executable, "-c", f"open({str(pipe)!r}, 'w').write('Xid 79')"])
    assert read_logs([pipe]) == (("pipe", "Xid 79"),)
    assert writer.wait() == 0


def test_half_a_letter_on_the_command_line_is_a_question_mark(case: Path) -> None:
    ran = rackmedic("chat", "training \udcff hangs", "--sandbox", str(case), stdin="why?\n")
    assert (ran.returncode, "\udcff" in ran.stdout) == (0, False)
