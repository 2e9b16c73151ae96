"""Processes on GPUs, the job's environment and its logs."""

import pytest

from tests.support import samples_checks as samples
from tests.support.samples_checks import APPS, ENV, JOB_LOG, PS
from tools.checks import CHECKS
from tools.fact import Fact, Status, build_unobserved_fact


def read(check: str, *texts: str) -> list[Fact]:
    row = CHECKS[check]
    facts = [fact for text in texts for fact in row.parse_output(text)]
    assert row.settle is not None or check == "nccl1"
    return list(row.settle(facts)) if row.settle else facts


def orphans(facts: list[Fact]) -> dict[object, str]:
    return {fact.attrs["pid"]: fact.attrs["why"] for fact in facts if fact.key == "proc.orphan" and fact.status is Status.OK}


def test_every_gpu_process_gets_its_user_and_job() -> None:
    facts = {fact.attrs["pid"]: fact for fact in read("procs", APPS, PS) if fact.key == "proc.gpu_memory"}
    assert facts[41233].value == 61234
    assert facts[41233].device == "0000:9b:00.0"
    assert (facts[50000].attrs["user"], facts[50000].attrs["job"], facts[50000].attrs["ppid"]) == ("bob", "813", 900)
    assert (facts[41233].attrs["seconds"], facts[41233].attrs["args"]) == (900, "python3 train.py")
    assert facts[70000].status is Status.ABSENT


def test_orphans_are_the_ones_nothing_can_end() -> None:
    found = orphans(read("procs", APPS, PS))
    assert found == {41233: "its parent is gone and no job holds it", 60000: "the process is gone, its memory is not"}


def test_a_process_of_a_job_whose_step_daemon_is_gone_is_an_orphan() -> None:
    left = PS.replace("/user.slice/user-1000.slice/session-5.scope", "/system.slice/slurmstepd.scope/job_777/step_0/task_0")
    assert "job 777" in orphans(read("procs", APPS, left))[41233]
    living = PS.replace("/user.slice/user-1000.slice/session-5.scope", "/system.slice/slurmstepd.scope/job_813/step_0/task_0")
    assert 41233 not in orphans(read("procs", APPS, living))
    zombie = PS.replace("Rl ", "Z  ")
    assert orphans(read("procs", APPS, zombie))[50000] == "a zombie"


def test_no_orphan_is_said_only_when_both_listings_were_read() -> None:
    mine = APPS.splitlines()[1] + "\n"
    assert [fact.status for fact in read("procs", mine, PS) if fact.key == "proc.orphan"] == [Status.ABSENT]
    assert not [fact for fact in read("procs", mine) if fact.key == "proc.orphan"]
    failed = [*CHECKS["procs"].parse_output(PS), build_unobserved_fact("procs", Status.TIMEOUT, "procs.gpus: no answer within 20 s")]
    settle = CHECKS["procs"].settle
    assert settle is not None
    assert not [fact for fact in settle(failed) if fact.key == "proc.orphan"]


def test_stuck_processes_and_busy_kernel_threads_are_told() -> None:
    facts = read("procs", PS)
    assert [(fact.value, fact.attrs["pid"]) for fact in facts if fact.key == "proc.blocked"] == [("tmux: server", 80000)]
    assert [fact.value for fact in facts if fact.key == "proc.busy_kernel"] == ["kworker/3:1"]
    quiet = [fact for fact in read("procs", "\n".join(PS.splitlines()[:2]) + "\n") if fact.key.startswith("proc.b")]
    assert {fact.status for fact in quiet} == {Status.ABSENT}


def test_the_rows_of_ps_do_not_leave_the_check() -> None:
    assert not [fact for fact in read("procs", APPS, PS) if "rows" in fact.attrs]


def test_the_environment_is_told_by_variable_and_value() -> None:
    facts = {(fact.key, fact.value): fact.attrs for fact in read("env", ENV)}
    assert facts["env.NCCL_IB_HCA", "mlx5_0,mlx5_1"] == {"pids": [41233, 41234], "processes": 2, "differs": False}
    assert facts["env.RANK", "0"]["differs"] is True


def test_a_secret_in_the_environment_is_not_read() -> None:
    assert not [fact for fact in read("env", ENV) if "AWS" in fact.key or "not-to-be-read" in fact.line]


def test_no_job_is_an_answer() -> None:
    settle_env, settle_log = CHECKS["env"].settle, CHECKS["joblog"].settle
    assert settle_env is not None
    assert settle_log is not None
    (gone,) = settle_env([])
    assert gone.status.blind, "what the environment of a dead job was cannot be said"
    assert "no process of a job is left" in gone.line
    assert [(fact.key, fact.value) for fact in settle_log([])] == [("job.log", False)]
    missing = read("joblog", "find: ‘/var/log/jobs’: No such file or directory\n")
    assert [(fact.key, fact.value) for fact in missing] == [("job.log", False)]


def test_the_rank_that_failed_first_is_named() -> None:
    facts = read("joblog", JOB_LOG)
    assert [fact.value for fact in facts if fact.key == "job.first_error_rank"] == ["1"]
    assert {fact.value for fact in facts if fact.key == "job.error"} == {"nccl_timeout", "python_exception"}
    first = next(fact for fact in facts if fact.key == "job.error" and fact.attrs["first"])
    assert (first.value, first.attrs["rank"]) == ("python_exception", "1")
    assert [fact.value for fact in facts if fact.key == "job.ranks"] == [2]
    assert [fact.value for fact in facts if fact.key == "job.nccl_version"] == ["2.21.5+cuda12.4"]


def test_a_quiet_log_says_that_nothing_known_is_in_it() -> None:
    facts = read("joblog", "==> /var/log/jobs/1/rank_0.log <==\nstep 1 loss 2.0\n")
    assert [fact.status for fact in facts if fact.key == "job.error"] == [Status.ABSENT]
    assert [fact.value for fact in facts if fact.key == "job.log"] == [True]


def test_what_started_the_ranks_tells_the_environment_where_no_rank_is_left() -> None:
    (fact,) = read("env", "== no GPU process\n900 NCCL_IB_GID_INDEX=0\n")
    assert (fact.key, fact.value, fact.attrs["of"]) == ("env.NCCL_IB_GID_INDEX", "0", "launcher")
    assert [fact.status.blind for fact in read("env", "== no GPU process\n")] == [True]


def test_the_log_tells_the_environment_as_far_as_nccl_prints_it() -> None:
    log = (
        "==> /var/log/jobs/812/rank_00.log <==\n"
        "n1:41233:41240 [0] NCCL INFO NCCL_SOCKET_IFNAME set by environment to docker0\n"
        "n1:41233:41240 [0] NCCL INFO NCCL_IB_GID_INDEX set by environment to 0.\n"
        "[1,0]<stdout>:n1:41233:41240 [0] NCCL INFO NCCL_IB_HCA set to mlx5_0,mlx5_1\n"
        "n1:41234:41241 [1] NCCL INFO NCCL_SOCKET_IFNAME set by environment to eth0\n"
        "n1:41233:41240 [0] NCCL INFO NCCL_SECRET set by somebody to x\n"
        "NCCL INFO HOME set by environment to /root\n"
    )
    found = {(fact.key, fact.value): fact for fact in read("joblog", log) if fact.key.startswith("env.")}
    assert found.keys() == {
        ("env.NCCL_SOCKET_IFNAME", "docker0"),
        ("env.NCCL_SOCKET_IFNAME", "eth0"),
        ("env.NCCL_IB_GID_INDEX", "0"),
        ("env.NCCL_IB_HCA", "mlx5_0,mlx5_1"),
    }
    assert found["env.NCCL_SOCKET_IFNAME", "eth0"].attrs == {"of": "log", "differs": True}


LIST = "ps -ww -eo pid,ppid,user:32,stat,etimes,pcpu,cgroup:160,comm:32,args"


def session(daemon: str, user: str = "rackmedic", first: int = 9000) -> str:
    """Return ps rows of a RackMedic session: its sshd, the ps itself, and a GPU query in the kernel."""
    group, row = "/user.slice/user-995.slice/session-31.scope", samples.ps_row
    return (
        row(first, 812, "root", "Ss", "0.0", group, daemon, f"sshd: {user} [priv]")
        + row(first + 1, first, user, "S", "0.0", group, daemon, f"sshd: {user}@notty")
        + row(first + 2, first + 1, user, "Rs", "0.0", group, "ps", LIST)
        + row(first + 3, first + 1, user, "Ss", "0.0", group, "sudo", "sudo -n rackmedic-look env.job")
        + row(first + 4, first + 3, "root", "D", "0.0", group, "nvidia-smi", "nvidia-smi --query-compute-apps=pid")
        + row(first + 5, first + 1, user, "D", "0.0", group, "find", "find /proc -maxdepth 2")
    )


@pytest.mark.parametrize("daemon", ["sshd", "sshd-session"])
@pytest.mark.parametrize("user", ["rackmedic", "root"])
def test_our_own_processes_are_no_finding(daemon: str, user: str) -> None:
    server = samples.ps_row(812, 1, "root", "Ss", "0.0", "/system.slice/ssh.service", daemon, "sshd: /usr/sbin/sshd -D")
    theirs = samples.ps_row(9900, 812, "root", "D", "0.0", "/user.slice/session-40.scope", "nvidia-smi", "nvidia-smi -q")
    said = PS + server + session(daemon, user) + session(daemon, user, 9100) + theirs
    blocked = {fact.attrs["pid"] for fact in CHECKS["procs"].parse_output(said) if fact.key == "proc.blocked"}
    assert blocked == {80000, 9900}, "a job's and an administrator's; ours, of both connections, are not told"


def test_without_a_session_only_the_list_itself_is_ours() -> None:
    said = PS + samples.ps_row(9002, 1, "root", "D", "0.0", "/", "ps", LIST) + samples.ps_row(9003, 1, "root", "D", "0.0", "/", "x", "x")
    assert {fact.attrs["pid"] for fact in CHECKS["procs"].parse_output(said) if fact.key == "proc.blocked"} == {80000, 9003}


def test_a_probe_of_ours_on_a_gpu_is_a_use_of_it_and_no_orphan() -> None:
    apps = "00000000:9B:00.0, 9006, python3, 2048\n"
    probe = samples.ps_row(9006, 9003, "rackmedic", "Z", "0.0", "/user.slice/session-31.scope", "python3", "[python3] <defunct>")
    check = CHECKS["procs"]
    assert check.settle
    facts = check.settle([*check.parse_output(apps), *check.parse_output(PS + session("sshd") + probe)])
    assert [fact.attrs["pid"] for fact in facts if fact.key == "proc.gpu_memory"] == [9006]
    assert [fact.status for fact in facts if fact.key == "proc.orphan"] == [Status.ABSENT]
