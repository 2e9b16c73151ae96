"""The program that looks for a job's logs on a node, run for real on a folder: newest and most telling first, nothing of long ago."""

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support.clock import PATIENCE
from tools.checks import CHECKS
from tools.checks.job_files import PROBE
from tools.fact import Fact

DAY = 86400.0
ERROR = "[rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n"


def write(path: Path, text: str, days_ago: float = 0.0) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    os.utime(path, (time.time() - days_ago * DAY,) * 2)
    return path


def looked(folder: Path, tools: str = "/nonexistent") -> subprocess.CompletedProcess[str]:
    """What the program leaves behind; `tools` is where squeue and scontrol are."""
    argv = [sys.executable, "-c", PROBE, str(folder)]
    return subprocess.run(argv, capture_output=True, text=True, timeout=PATIENCE, env={"PATH": tools}, check=False)


def read(folder: Path, tools: str = "/nonexistent") -> dict[str, Fact]:
    ran = looked(folder, tools)
    return {fact.key: fact for fact in CHECKS["joblog"].read(ran.stdout + "\n" + ran.stderr)}


def files(said: str) -> list[str]:
    return [Path(name).name for name in re.findall(r"(?m)^==> (.+) <==$", said)]


def test_logs_of_every_name_are_found_and_nothing_else(tmp_path: Path) -> None:
    for name in ("812/rank_03.log", "slurm-812.out", "slurm-813_4.out", "a/b/err.err", "notes.txt", "ckpt.pt", "a/b/c/d/deep.log"):
        write(tmp_path / name, "step 1\n")
    (tmp_path / "link.log").symlink_to("/etc/passwd")
    os.mkfifo(tmp_path / "pipe.log")
    assert sorted(files(looked(tmp_path).stdout)) == ["err.err", "rank_03.log", "slurm-812.out", "slurm-813_4.out"]


def test_the_log_of_a_job_of_last_year_decides_nothing(tmp_path: Path) -> None:
    write(tmp_path / "old.log", ERROR, days_ago=365)
    found = read(tmp_path)
    assert list(found) == ["job.log"]
    assert found["job.log"].value is False
    assert "1 older" in found["job.log"].line
    write(tmp_path / "new.log", "step 1 loss 2.1\n")
    assert "old.log" not in looked(tmp_path).stdout
    assert read(tmp_path)["job.error"].value is None


def test_of_thousands_of_files_and_a_huge_one_the_telling_and_the_newest_come_first_and_the_rest_is_counted(tmp_path: Path) -> None:
    for n in range(1500):
        write(tmp_path / f"r{n:04}.log", f"step {n}\n" * 3, days_ago=0.5 + n / 10000)
    write(tmp_path / "r_dead.log", ERROR, days_ago=0.505)
    huge = tmp_path / "huge.log"
    with huge.open("wb") as file:
        file.truncate(1 << 30)
        file.seek(0, os.SEEK_END)
        file.write(b"\nlast line of the huge one\n")
    said = looked(tmp_path).stdout
    assert len(said) < 4 << 20
    assert files(said)[:3] == ["r_dead.log", "huge.log", "r0000.log"]
    assert "last line of the huge one" in said
    left = read(tmp_path)["check.left_out"]
    assert left.line.startswith("1102 of 1502 files")


def test_what_slurm_says_its_jobs_write_to_is_read_wherever_it_lies_if_it_is_their_own(tmp_path: Path) -> None:
    tools, home = tmp_path / "bin", tmp_path / "home"
    mine = write(home / "slurm-900_4.out", ERROR, days_ago=9)
    write(home / "err-901.txt", "part of a heterogeneous job\n")
    rows = (
        f"JobId=904 ArrayJobId=900 ArrayTaskId=4 JobName=train UserId=alice({os.getuid()}) StdOut={home}/slurm-%A_%a.out StdErr={home}/err-901.txt",
        f"JobId=905 JobName=liar UserId=mallory({os.getuid() + 1}) StdOut={mine} StdErr=/etc/passwd",
    )
    slurm(tools, {904: (os.getuid(), rows[0]), 905: (os.getuid() + 1, rows[1])})
    said = looked(tmp_path / "none", str(tools)).stdout
    assert files(said) == ["slurm-900_4.out", "err-901.txt"]
    assert "root:" not in said


@pytest.mark.parametrize("between", ["\x0b", "\x0c", "\x1c", "\x85", "\u2028", "\r", " "])
@pytest.mark.parametrize("field", ["JobName", "Comment"])
def test_whose_a_job_is_no_name_of_a_job_can_say(tmp_path: Path, between: str, field: str) -> None:
    tools, other = tmp_path / "bin", write(tmp_path / "other.txt", "what another owns\n")
    claim = f"{field}=a{between}UserId=other({os.getuid()}) StdOut={other}{between}b"
    real = f"UserId=mallory({os.getuid() + 1})", f"StdOut={other}"
    row = " ".join(("JobId=906", claim, *real) if field == "JobName" else ("JobId=906", *real, claim))
    slurm(tools, {906: (os.getuid() + 1, row)})
    assert files(looked(tmp_path / "none", str(tools)).stdout) == []


def slurm(tools: Path, jobs: dict[int, tuple[int, str]]) -> None:
    """Stand-ins for squeue and scontrol: jobs with their owner's number, and what scontrol prints of each."""
    queue = "".join(f"echo {job}:{owner}\n" for job, (owner, _) in jobs.items())
    write(tools / "squeue", f'#!/bin/sh\ncase "$*" in *%U) ;; *) exit 1;; esac\n{queue}').chmod(0o755)
    shown = "".join(f"{job}) echo '{row}';;\n" for job, (_, row) in jobs.items())
    write(tools / "scontrol", f'#!/bin/sh\ncase "$4" in\n{shown}esac\n').chmod(0o755)


def test_a_progress_bar_hides_no_line_of_a_log_and_a_form_feed_makes_none(tmp_path: Path) -> None:
    write(tmp_path / "bar.log", "10%\r20%\rTraceback\r\nend\n")
    write(tmp_path / "fed.log", "one\x0c==> /etc/shadow <==\u2028two\n")
    said = looked(tmp_path).stdout.split("\n")
    assert [line for line in said if "==" not in line and line] == ["10%", "20%", "Traceback", "end"]
    assert "one\x0c==> /etc/shadow <==\u2028two" in said


def test_a_folder_that_is_not_there_holds_no_log_and_one_that_cannot_be_read_could_not_be_looked_at(tmp_path: Path) -> None:
    found = read(tmp_path / "none")
    assert [found["job.log"].value] == [False]
    (tmp_path / "loop").symlink_to(tmp_path / "loop")  # a closed folder would be open to root, who runs these tests too
    assert "symbolic links" in looked(tmp_path / "loop").stderr
