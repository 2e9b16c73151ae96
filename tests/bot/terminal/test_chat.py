"""`rackmedic chat`: a thread in a terminal, here as a script pipes it in."""

from pathlib import Path

import pytest

from tests.support.terminal import rackmedic

CASE = """
profile: dgx-h100-8
nodes: [gpu-001, gpu-002]
ticket: {text: "job 4711 on gpu-001 and gpu-002 died with an NCCL error"}
faults: [{id: G05, node: gpu-002}]
"""


@pytest.fixture
def case(tmp_path: Path) -> str:
    (tmp_path / "case.yaml").write_text(CASE)
    return str(tmp_path / "case.yaml")


def test_it_diagnoses_and_then_talks_about_it(case: str) -> None:
    ran = rackmedic("chat", "--sandbox", case, stdin="why?\n\nwhat about gpu-001?\nlook again\n")
    assert ran.returncode == 0
    assert "Many correctable memory errors (gpu-002/gpu6)" in ran.stdout
    assert "gpu-001: 22 checks, read" in ran.stdout
    assert [line.strip() for line in ran.stdout.splitlines() if "· no check" in line or " checks on gpu-[" in line] == [
        "explain · no check",
        "host_state · no check",
        "recheck · 44 checks on gpu-[001-002]",
    ]
    assert "Nothing is approved here" in ran.stderr


def test_a_log_is_handed_in_and_a_slip_loses_nothing(case: str, tmp_path: Path) -> None:
    (tmp_path / "rank3.log").write_text(
        "[rank3]: Traceback (most recent call last):\n[rank3]:   File \"t.py\", line 9\n[rank3]: KeyError: 'labels'\n"
    )
    said = f"/attach {tmp_path}/absent.log\n/atach x\n/attach {tmp_path}/rank3.log\n/help\n/quit\nnever said\n"
    ran = rackmedic("chat", "--sandbox", case, "--as", "priya", stdin=said)
    assert ran.returncode == 0
    assert "absent.log: No such file" in ran.stderr
    assert "/atach is none of /attach FILE, /help, /quit" in ran.stderr
    assert "hand in a log" in ran.stderr
    assert "priya  here is rank3.log" in ran.stdout
    assert "never said" not in ran.stdout


def test_an_approval_is_none(case: str) -> None:
    ran = rackmedic("chat", "--sandbox", case, stdin="approve\n")
    assert "put up" not in ran.stdout
    assert "approved" not in ran.stdout.casefold()
