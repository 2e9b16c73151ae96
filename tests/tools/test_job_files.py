"""The job log probe run on real folders: newest and most relevant logs first, ownership proven, no old logs."""

import ast
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support.clock import PATIENCE
from tests.support.job_log_folder import ALICE, AS_ROOT, KINDS, MALLORY, OWN, SECRET, flip_of, look, owned, shared_folder, turned
from tests.support.job_log_folder import write as write_as
from tools.checks import CHECKS
from tools.checks.job import MAX_OWNERS, PROBE
from tools.fact import FROM_FILE, Fact

DAY = 86400.0
ERROR = "[rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n"


def write(path: Path, text: str, days_ago: float = 0.0) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    os.utime(path, (time.time() - days_ago * DAY,) * 2)
    return path


def looked(folder: Path, tools: str = "/nonexistent") -> subprocess.CompletedProcess[str]:
    """Run the probe; `tools` is the folder of squeue and scontrol."""
    argv = [sys.executable, "-c", PROBE, str(folder)]
    return subprocess.run(argv, capture_output=True, text=True, timeout=PATIENCE, env={"PATH": tools}, check=False)


def read(folder: Path, tools: str = "/nonexistent") -> dict[str, Fact]:
    ran = looked(folder, tools)
    return {fact.key: fact for fact in CHECKS["joblog"].parse_output(ran.stdout + "\n" + ran.stderr)}


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
    """Install squeue and scontrol stubs: jobs with their owner's uid and scontrol's output."""
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
    (tmp_path / "loop").symlink_to(tmp_path / "loop")  # these tests also run as root, who can read any folder
    assert "symbolic links" in looked(tmp_path / "loop").stderr


# -- a log's owner ---------------------------------------------------------------------------------------------------


def test_the_program_is_one_word_that_an_old_python_reads() -> None:
    assert not set(PROBE) & set("\n|;&$`<>{}")
    [row] = ast.parse(PROBE).body
    ast.parse(ast.literal_eval(row.value.args[0]), feature_version=(3, 6))  # type: ignore[attr-defined]  # exec('...')


OWNERS = [  # path below the folder, owner, its job
    ("slurm-812.out", MALLORY, "812"),
    ("812/rank_03.log", MALLORY, "812"),
    ("812/attempt_0/5/stderr.log", MALLORY, "812"),
    ("job_812/out.log", MALLORY, "812"),
    ("job-812.log", MALLORY, "812"),
    ("slurm-812_4.out", MALLORY, "812"),
    ("2026-05-20/812/rank_0.log", MALLORY, "812"),
    ("train/812.err", MALLORY, "812"),
    ("813/812.log", MALLORY, ""),  # the outermost number is no job here
    ("20260520/812/rank_0.log", MALLORY, ""),
    ("rank_812.log", MALLORY, ""),
    ("train.log", MALLORY, ""),
    ("8120/rank_0.log", MALLORY, ""),
    ("812/rank_04.log", 0, ""),  # root's files belong to no tenant
]


@pytest.mark.parametrize(("path", "owner", "job"), OWNERS)
def test_a_log_is_of_a_job_that_its_owner_has_here_and_that_its_path_names(tmp_path: Path, path: str, owner: int, job: str) -> None:
    if owner == 0 and not AS_ROOT:
        pytest.skip("only root can give a file to root")
    top, _ = shared_folder(tmp_path)
    write_as(top / path, ERROR, owner)
    jobs = {812: (MALLORY, "gpu-[003-004]", "")}
    [fact] = [fact for fact in CHECKS["joblog"].parse_output(look(top, jobs).out) if fact.key == "job.error"]
    known = {"job": job, "nodes": "gpu-[003-004]"} if job else {}
    assert fact.attrs[FROM_FILE] == {"path": f"{top}/{path}", "uid": owner, **known}


@pytest.mark.skipif(not AS_ROOT, reason="only root can give files away")
def test_a_log_in_the_folder_of_a_job_is_not_of_that_job_where_another_owns_it(tmp_path: Path) -> None:
    top, _ = shared_folder(tmp_path)
    write_as(top / "812" / "rank_0.log", ERROR, ALICE)
    [fact] = [fact for fact in CHECKS["joblog"].parse_output(look(top, {812: (MALLORY, "n1", "")}).out) if fact.key == "job.error"]
    assert fact.attrs[FROM_FILE] == {"path": f"{top}/812/rank_0.log", "uid": ALICE}


@pytest.mark.parametrize("nodes", ["", "(null)", "n1 n2", "n" * 3000])
def test_a_job_without_nodes_that_can_be_read_is_no_established_job(tmp_path: Path, nodes: str) -> None:
    top, _ = shared_folder(tmp_path)
    write_as(top / "812" / "rank_0.log", ERROR)
    facts = CHECKS["joblog"].parse_output(look(top, {812: (MALLORY, nodes, "")}).out)
    assert ["job" in fact.attrs[FROM_FILE] for fact in facts if fact.key == "job.error"] == [False]


def test_logs_of_several_jobs_are_read_apart_and_each_fact_has_its_file(tmp_path: Path) -> None:
    top, _ = shared_folder(tmp_path)
    jobs = dict.fromkeys(range(1, MAX_OWNERS + 9), (MALLORY, "n1", ""))
    for job in jobs:
        write_as(top / str(job) / "rank_0.log", ERROR)
    errors = [fact for fact in CHECKS["joblog"].parse_output(look(top, jobs).out) if fact.key == "job.error"]
    assert len(errors) == len(jobs)
    established = {fact.attrs[FROM_FILE]["job"]: fact.attrs[FROM_FILE]["path"] for fact in errors if "job" in fact.attrs[FROM_FILE]}
    assert len(established) == MAX_OWNERS
    assert all(path == f"{top}/{job}/rank_0.log" for job, path in established.items())


# -- replaced paths ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_that_replaces_a_log_between_two_steps_is_not_read(tmp_path: Path, kind: str) -> None:
    top, flip, jobs = flip_of(kind, tmp_path)
    seen = list(turned(top, flip, jobs))
    assert len(seen) > 50
    assert any(OWN in shown for shown in seen)
    assert not any(SECRET in shown for shown in seen)


def test_what_was_replaced_is_counted_as_left_out_or_said(tmp_path: Path) -> None:
    top, flip, jobs = flip_of("file", tmp_path)
    write_as(top / "other.log", "step 1\n")
    assert any("== left out: 1 of 2 files" in shown for shown in turned(top, flip, jobs))


def refused(top: Path) -> bool:
    seen = look(top)
    assert ("not permitted" in seen.err) is (OWN not in seen.out)
    assert SECRET not in seen.out
    return OWN not in seen.out


@pytest.mark.parametrize(
    ("mode", "owner", "is_refused"), [(0o755, 0, False), (0o1777, 0, False), (0o777, 0, True), (0o775, 0, True), (0o755, MALLORY, True)]
)
def test_a_folder_is_read_only_where_root_decides_which_one_it_is(tmp_path: Path, mode: int, owner: int, is_refused: bool) -> None:
    if owner and not AS_ROOT:
        pytest.skip("only root can give folders away")
    write_as(tmp_path / "part" / "logs" / "x.log", f"{OWN}\n")
    (tmp_path / "part").chmod(mode)
    owned(tmp_path / "part", owner or os.getuid())
    assert refused(tmp_path / "part" / "logs") is is_refused


@pytest.mark.skipif(not AS_ROOT, reason="only root can give links away")
@pytest.mark.parametrize(("owner", "is_refused"), [(0, False), (MALLORY, True)])
def test_a_link_on_the_way_to_the_folder_is_followed_where_it_is_roots(tmp_path: Path, owner: int, is_refused: bool) -> None:
    write_as(tmp_path / "real" / "logs" / "x.log", f"{OWN}\n")
    (tmp_path / "link").symlink_to("../" + tmp_path.name + "/real")
    owned(tmp_path / "link", owner)
    seen = look(tmp_path / "link" / "logs")
    assert (OWN in seen.out) is not is_refused
    assert bool(seen.err) is is_refused


def test_a_refused_folder_is_said_beside_what_slurm_names(tmp_path: Path) -> None:
    (tmp_path / "part" / "logs").mkdir(parents=True)
    (tmp_path / "part").chmod(0o777)
    log = write_as(tmp_path / "home" / "slurm-7.out", ERROR)
    shown = look(tmp_path / "part" / "logs", {7: (MALLORY, "n1", f"JobId=7 StdOut={log} StdErr={log}")}).out
    facts = CHECKS["joblog"].parse_output(shown)
    assert [fact.value for fact in facts if fact.key == "job.error"] == ["cuda_oom"]
    assert ["not permitted" in fact.line for fact in facts if fact.key == "check.left_out"] == [True]
