"""`rackmedic chat` as a script pipes it in; with a simulated cluster remediations are approved too."""

import json
from pathlib import Path

import pytest

from bot.policy.channels import NOT_FULL_MEMBER_TEXT
from tests.support.terminal import rackmedic

pytestmark = pytest.mark.slow


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
    assert "(gpu-002/gpu6)" in ran.stdout
    assert "gpu-001: 23 checks, read" in ran.stdout
    assert [line.strip() for line in ran.stdout.splitlines() if "· no check" in line or " checks on gpu-[" in line] == [
        "explain · no check",
        "host_state · no check",
        "recheck · 46 checks on gpu-[001-002]",
    ]
    assert "Simulated" in ran.stderr


ASKED = "show dmesg of gpu-002 as a file\nshow the timeline\nreport please\n"


def test_files_that_are_asked_for_are_written_where_one_says(case: str, tmp_path: Path) -> None:
    out = tmp_path / "new" / "out"
    ran = rackmedic("chat", "--sandbox", case, "--save", str(out), stdin=ASKED)
    assert ran.returncode == 0, ran.stderr
    names = sorted(file.name for file in out.iterdir())
    [report] = [name for name in names if name.endswith("-report.pdf")]
    assert names == sorted(["gpu-002-dmesg.txt", "timeline.png", "timeline.txt", report])
    assert (out / report).read_bytes().startswith(b"%PDF-")
    assert [name for name in names if f"saved {out}/{name} (" not in ran.stdout] == [], "it says where"


def test_without_a_folder_they_are_printed_whole(case: str) -> None:
    ran = rackmedic("chat", "--sandbox", case, stdin=ASKED)
    assert ran.returncode == 0, ran.stderr
    assert "gpu-002-dmesg.txt:" in ran.stdout
    assert "(UTC)" in ran.stdout, "the timeline"
    assert len([line for line in ran.stdout.splitlines() if line.startswith("  ## ")]) > 4, "the report's sections"


def test_a_folder_that_cannot_be_made_is_refused_at_once(case: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    ran = rackmedic("chat", "--sandbox", case, "--save", f"{tmp_path}/file/in", stdin=ASKED)
    assert ran.returncode == 2
    assert "cannot be made" in ran.stderr


def test_a_log_is_handed_in_and_a_slip_loses_nothing(case: str, tmp_path: Path) -> None:
    (tmp_path / "rank3.log").write_text(
        "[rank3]: Traceback (most recent call last):\n[rank3]:   File \"t.py\", line 9\n[rank3]: KeyError: 'labels'\n"
    )
    said = f"/attach {tmp_path}/absent.log\n/atach x\n/attach {tmp_path}/rank3.log\n/help\n/quit\nnever said\n"
    ran = rackmedic("chat", "--sandbox", case, "--as", "priya", stdin=said)
    assert ran.returncode == 0
    assert f"/attach {tmp_path}/absent.log: No such file" in ran.stderr
    assert "/atach is none of /attach FILE, /help, /quit" in ran.stderr
    assert len([line for line in ran.stderr.splitlines() if line.strip().startswith("/")]) >= 3, "the help"
    assert "priya  here is rank3.log" in ran.stdout
    assert "never said" not in ran.stdout


def case_of(tmp_path: Path, fault: str) -> str:
    """Write a case of two nodes, one with this GPU fault."""
    file = tmp_path / f"{fault}.yaml"
    file.write_text(
        f'profile: dgx-h100-8\nnodes: [gpu-001, gpu-002]\nticket: {{text: "training on gpu-001 and gpu-002 is slow"}}\n'
        f"faults: [{{id: {fault}, node: gpu-002, gpu: 5}}]\n"
    )
    return str(file)


def test_a_fix_is_approved_runs_is_proved_and_proved_again_later(tmp_path: Path) -> None:
    ran = rackmedic("chat", "--sandbox", case_of(tmp_path, "G17"), stdin="@priya approve 1\n@priya: status\n/wait 3h\n@priya approve 1\n")
    assert ran.returncode == 0
    for line in (
        "[1] ✋ Approve? Reset locked and application clocks",
        "    0 of 1 approval · decide by 03:25:00 UTC · digest ",
        "    say `@priya approve 1` or `@priya reject 1 WHY`; @priya and @anton may",
        "[1] 🔧 Running: Reset locked and application clocks",
        "[1] ✅ Passes now:",
        "State: watching",
        "[1] ✅ Cured:",
    ):
        assert line in ran.stdout
    assert "priya  status" in ran.stdout
    assert "This action is already decided; nothing was changed." in ran.stderr


def test_what_destroys_work_takes_two_people_who_may(tmp_path: Path) -> None:
    """Tenant, guest, deactivated user, on-call person and unknown names have no vote; an approver has one."""
    said = [f"@{name} approve 1" for name in ("olga", "carla", "gus", "lena", "bob", "priya", "priya", "anton")]
    ran = rackmedic("chat", "--sandbox", case_of(tmp_path, "S18"), "--json", stdin="\n".join(["approve 1", *said]) + "\n")
    told = json.loads(ran.stdout)
    assert told["schema"] == 1
    [row] = told["decisions"]
    assert (row["remedy"], row["risk"], row["quorum"], row["state"], row["outcome"]) == (
        "kill_gpu_process", "destructive", 2, "done", "passes_now",
    )  # fmt: skip
    assert sorted((vote["by"], vote["verdict"]) for vote in row["votes"]) == [("anton", "approve"), ("priya", "approve")]
    refused = [line.removeprefix("rackmedic: ") for line in ran.stderr.splitlines() if line.startswith("rackmedic: ")]
    assert len(refused) == 7
    assert ["'you'" in refused[0], "approvers" in refused[1], "'bob'" in refused[5], "already" in refused[6]] == [True] * 4
    assert refused[2:5] == [NOT_FULL_MEMBER_TEXT] * 3


def test_a_drain_leads_to_the_next_step_and_a_rejection_ends_it(tmp_path: Path) -> None:
    said = "@anton approve 1\n@priya reject 2\n@priya reject 2 the node is wanted tonight\n@priya approve 7\napprove 1 if it is idle\n"
    ran = rackmedic("chat", "--sandbox", case_of(tmp_path, "G07"), stdin=said)
    assert "[1] ✅ Done: Drain gpu-002" in ran.stdout
    assert "[2] ✋ Approve? Reboot the node (warm) · gpu-002 · destructive" in ran.stdout
    assert "[2] 🚫 Rejected: Reboot the node (warm)" in ran.stdout
    assert "the node is wanted tonight" in ran.stdout
    assert "Running: Reboot" not in ran.stdout
    assert "rackmedic: say why: @priya reject 2" in ran.stderr
    assert "rackmedic: there is no [7]; there are [1] to [2]" in ran.stderr
    assert "you  approve 1 if it is idle" in ran.stdout  # a condition is no approval; it becomes a thread message


def test_an_undecided_action_expires_by_the_cases_clock(tmp_path: Path) -> None:
    ran = rackmedic("chat", "--sandbox", case_of(tmp_path, "G17"), stdin="/wait soon\n/wait 20m\n@priya approve 1\n")
    assert "/wait 30m" in ran.stderr
    assert "[1] ⌛ Expired: Reset locked" in ran.stdout
    assert "This action is already decided; nothing was changed. It is expired." in ran.stderr
    assert "Running" not in ran.stdout


def test_without_a_simulated_cluster_an_approval_is_refused_and_told_where(tmp_path: Path) -> None:
    inventory = tmp_path / "inventory.yaml"
    inventory.write_text("groups: {train: {hosts: gpu-001, sku: dgx-h100-8}}\n")
    ran = rackmedic("chat", "our run.py raises KeyError", "-i", str(inventory), stdin="approve 1\n@anton approve 1\n/wait 1h\n")
    assert ran.stderr.count("rackmedic: You cannot approve here") == 2
    assert "rackmedic: /wait is none of /attach FILE, /help, /quit" in ran.stderr
    assert "approved" not in ran.stdout.casefold()


def test_help_and_completion_teach_it(tmp_path: Path) -> None:
    assert "@priya approve 1" in rackmedic("chat", "--help").stdout
    ran = rackmedic("chat", "--sandbox", case_of(tmp_path, "G17"), stdin="/help\n")
    assert "  @priya reject 1 WHY  " in ran.stderr


def test_what_is_wrong_may_be_the_first_line_that_is_piped_in() -> None:
    ran = rackmedic("chat", stdin="our run.py raises KeyError: 'labels'\nwhy?\n")
    assert ran.returncode == 0
    assert "you  why?" in ran.stdout
    nothing = rackmedic("chat", stdin="")
    assert (nothing.returncode, nothing.stdout) == (2, "")
    assert "say what is wrong" in nothing.stderr


def test_what_was_mended_is_what_the_incident_was_in_every_telling(tmp_path: Path) -> None:
    said = "@priya approve 1\n/wait 3h\nsummary for my manager\nsummary for a ticket\n@priya: status\n"
    ran = rackmedic("chat", "--sandbox", case_of(tmp_path, "G17"), stdin=said)
    assert ran.returncode == 0, ran.stderr
    assert "not known yet" not in ran.stdout
    assert "Cause: " in ran.stdout
    assert "(gpu-002), fixed" in ran.stdout
    assert "(gpu-002) is fixed" in ran.stdout
