"""Jobs that an action disturbs: named, none, or unobserved with the reason."""

import pytest

from tests.tools.test_dryrun import Fleet
from tests.tools.test_remedies import FLEET, _build
from tools.execution.previews import NodeJobs, RunningJob, read_node_jobs
from tools.remedies.conditions import KUBE_EMPTY
from tools.transport import CommandResult, Unreachable

ASKED = "squeue -h -w gpu-001 -o %A|%T|%u"
PODS = " ".join(KUBE_EMPTY.argv).replace("{node}", "pod-1")


@pytest.mark.parametrize(
    ("answer", "jobs"),
    [
        ("4711|RUNNING|alice\n", [("4711", "alice")]),
        ("4711|RUNNING|alice\n4711|RUNNING|alice\n4712|SUSPENDED|bob\n", [("4711", "alice"), ("4712", "bob")]),
        ("4711|COMPLETING|svc.train-1\n4713|PENDING|eve\n", [("4711", "svc.train-1")]),
        ("", []),
    ],
)
async def test_jobs_are_named_with_their_users(answer: str, jobs: list[tuple[str, str]]) -> None:
    seen = await read_node_jobs(_build("drain_node"), FLEET, Fleet({("head", ASKED): answer}))
    assert seen == NodeJobs(tuple(RunningJob(*row) for row in jobs))


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (Unreachable("head", "no route to host"), "no route to host"),
        (CommandResult(b"", exit_status=None), "no whole answer in time"),
        (CommandResult(b"4711|RUNNING|alice\n", b"", 0, truncated=True), "no whole answer in time"),
        (
            CommandResult(b"", b"slurm_load_jobs error: Unable to contact slurm controller", 1),
            "slurm_load_jobs error: Unable to contact slurm controller",
        ),
        (CommandResult(b"", b"", 1), "exit status 1"),
        ("4711|RUNNING\n", "squeue: an answer of another shape"),
        ("4711|RUNNING|alice\n<html>\n", "squeue: an answer of another shape"),
    ],
)
async def test_a_scheduler_that_does_not_answer_is_not_an_empty_node(answer: CommandResult | Unreachable | str, why: str) -> None:
    assert await read_node_jobs(_build("drain_node"), FLEET, Fleet({("head", ASKED): answer})) == NodeJobs(why=why)


async def test_a_node_without_a_controller_could_not_be_asked_about() -> None:
    seen = await read_node_jobs(_build("reboot", "lone-1"), FLEET, Fleet({}))
    assert seen == NodeJobs(why="the inventory names no controller for lone-1")


async def test_pods_count_but_for_those_that_stay_on_a_node() -> None:
    rows = "Job training bert-0\nDaemonSet kube-system dcgm-x\nNode kube-system kube-proxy\n<none> dev shell\n"
    seen = await read_node_jobs(_build("drain_node", "pod-1"), FLEET, Fleet({("head", PODS): rows}))
    assert seen == NodeJobs((RunningJob("bert-0", "training"), RunningJob("shell", "dev")))


@pytest.mark.parametrize("remedy", ["reset_clocks", "resume_node", "cancel_job", "persistence_on", "kill_gpu_process"])
async def test_an_action_that_disturbs_no_other_job_asks_nothing(remedy: str) -> None:
    fleet = Fleet({})
    assert await read_node_jobs(_build(remedy), FLEET, fleet) is None
    assert fleet.asked == []
