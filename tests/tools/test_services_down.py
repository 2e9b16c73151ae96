"""Service states from systemd and ps: failed, masked, restarting, frozen, stopped, healthy."""

import pytest

from graph.engine.abnormal_facts import is_abnormal
from tools.checks import CHECKS
from tools.fact import Fact

UNITS = ("slurmd", "munge", "docker", "containerd", "kubelet", "crio", "sssd", "openibd", "nvidia-persistenced", "nvidia-dcgm", "chronyd")


def unit(name: str, **said: str) -> str:
    cells = {"LoadState": "loaded", "ActiveState": "active", "SubState": "running", "UnitFileState": "enabled", "ConditionResult": "yes"}
    return "".join(f"{key}={value}\n" for key, value in {"Id": f"{name}.service", **cells, **said}.items())


def state(name: str, **said: str) -> Fact:
    (found,) = (fact for fact in CHECKS["sysd"].parse_output(unit(name, **said)) if fact.key == "service.state")
    return found


TROUBLES = {
    "failed": {"ActiveState": "failed", "SubState": "failed", "Result": "exit-code"},
    "stopped": {"ActiveState": "inactive", "SubState": "dead"},
    "masked": {"LoadState": "masked", "ActiveState": "inactive", "SubState": "dead", "UnitFileState": "masked"},
    "restarting": {"ActiveState": "activating", "SubState": "auto-restart", "NRestarts": "14"},
    "frozen": {"FreezerState": "frozen"},
    "starting": {"ActiveState": "activating", "SubState": "start"},
    "stopping": {"ActiveState": "deactivating", "SubState": "stop-sigterm"},
    "broken": {"LoadState": "bad-setting", "ActiveState": "inactive", "SubState": "dead"},
}


@pytest.mark.parametrize("name", UNITS)
@pytest.mark.parametrize("trouble", TROUBLES)
def test_a_service_that_does_not_serve_is_abnormal_in_each_way(name: str, trouble: str) -> None:
    found = state(name, **TROUBLES[trouble])
    assert found.attrs["trouble"] == trouble
    assert is_abnormal(found)
    assert trouble in found.format_sentence()
    assert name in found.format_sentence()


def test_a_service_that_runs_between_two_crashes_restarts() -> None:
    assert state("slurmd", NRestarts="14").attrs["trouble"] == "restarting"
    assert not is_abnormal(state("slurmd", NRestarts="1"))


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("slurmd", {}),
        ("openibd", {"SubState": "exited"}),
        ("docker", {"ActiveState": "reloading", "SubState": "reload"}),
        ("docker", {"ActiveState": "inactive", "SubState": "dead", "UnitFileState": "disabled"}),
        ("nvidia-persistenced", {"ActiveState": "inactive", "SubState": "dead", "UnitFileState": "static"}),
        ("systemd-timesyncd", {"ActiveState": "inactive", "SubState": "dead", "ConditionResult": "no"}),
        ("nvidia-fabricmanager", {"ActiveState": "inactive", "SubState": "dead"}),
        ("slurmd", {"LoadState": "not-found", "ActiveState": "inactive", "SubState": "dead", "UnitFileState": ""}),
    ],
)
def test_a_disabled_service_is_no_trouble(name: str, said: dict[str, str]) -> None:
    found = CHECKS["sysd"].parse_output(unit(name, **said))
    assert not any(is_abnormal(fact) for fact in found)


def test_a_fabric_manager_that_stands_still_is_abnormal_where_the_machine_needs_it() -> None:
    idle = state("nvidia-fabricmanager", ActiveState="inactive", SubState="dead")
    failed = state("nvidia-fabricmanager", ActiveState="failed", SubState="failed")
    assert (is_abnormal(idle, "active"), is_abnormal(idle, "inactive"), is_abnormal(failed, "inactive"), is_abnormal(failed)) == (
        True,
        False,
        False,
        True,
    )


def test_an_older_systemd_that_knows_fewer_properties_is_read() -> None:
    block = "Id=slurmd.service\nLoadState=loaded\nActiveState=failed\nSubState=failed\n"
    assert [fact.attrs["trouble"] for fact in CHECKS["sysd"].parse_output(block)] == ["failed"]


def test_nothing_is_said_of_services_that_only_some_sites_have() -> None:
    check = CHECKS["sysd"]
    found = check.parse_output(
        unit("crio", LoadState="not-found", ActiveState="inactive") + "\n" + unit("slurmd", LoadState="not-found", ActiveState="inactive")
    )
    assert check.settle is not None
    assert [fact.device for fact in check.settle(found)] == ["slurmd"]


HEAD = (
    "    PID    PPID USER                             STAT ELAPSED %CPU CGROUP                                          COMMAND  COMMAND\n"
)


def listed(*rows: tuple[int, str, str, str]) -> list[Fact]:
    text = HEAD + "".join(
        f"{pid:7} {1:7} {'root':<32} {stat:<4} {90113:7} {0.0:4} {cgroup:<48} {comm:<32} {comm} -D\n" for pid, stat, cgroup, comm in rows
    )
    return [fact for fact in CHECKS["procs"].parse_output(text) if fact.key == "proc.stopped"]


@pytest.mark.parametrize(
    ("cgroup", "comm", "whose"),
    [
        ("0::/system.slice/slurmd.service", "slurmd", ("unit", "slurmd")),
        ("0::/system.slice/munge.service", "munged", ("unit", "munge")),
        ("0::/system.slice/containerd.service", "containerd", ("unit", "containerd")),
        ("0::/system.slice/system-lab.slice/docker.service", "dockerd", ("unit", "docker")),
        ("0::/system.slice/slurmstepd.scope/job_4711/step_0/user/task_0", "python3", ("job", "4711")),
    ],
)
@pytest.mark.parametrize("stat", ["T", "Ts", "Tl", "Tsl+"])
def test_a_daemon_or_a_rank_that_a_signal_stopped_is_abnormal(cgroup: str, comm: str, whose: tuple[str, str], stat: str) -> None:
    (found,) = listed((812, stat, cgroup, comm))
    assert (found.value, found.attrs[whose[0]]) == (comm, whose[1])
    assert is_abnormal(found)
    assert whose[1] in found.format_sentence()


@pytest.mark.parametrize(
    ("stat", "cgroup"),
    [
        ("Ss", "0::/system.slice/slurmd.service"),
        ("T", "0::/user.slice/user-1000.slice/session-5.scope"),
        ("T", "0::/system.slice/ssh.service"),
        ("T", "0::/system.slice/cron.service"),
    ],
)
def test_what_runs_and_what_people_stopped_in_a_shell_of_theirs_is_not(stat: str, cgroup: str) -> None:
    assert not listed((812, stat, cgroup, "vim"))
