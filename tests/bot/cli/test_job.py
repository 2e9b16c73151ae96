"""`rackmedic job` and `look job:ID`: what the scheduler reports about a job and what it could not."""

import json
from pathlib import Path

import pytest

from bot.cli.cluster_access import open_command_runtime, open_stage
from bot.cli.command_requests import LookRequest
from bot.cli.job import print_job, resolve_job_hosts
from bot.cli.look import run_look_command
from bot.refusal import Refusal
from bot.settings import load_settings
from deploy.sandbox.cluster.access.case_run import load_case_run
from deploy.sandbox.cluster.access.cluster import Cluster
from deploy.sandbox.cluster.cases.reader import load_case

SETTINGS = load_settings(environ={})
CASE = """
id: t1
profile: dgx-h100-8
nodes: [gpu-001, gpu-002, gpu-003]
ticket: {text: "it hangs"}
faults: []
"""


@pytest.fixture
def case(tmp_path: Path) -> Path:
    file = tmp_path / "case.yaml"
    file.write_text(CASE)
    return file


def id_of(case: Path) -> str:
    """Return the simulated job's id as its scheduler lists it."""
    return Cluster.from_case(load_case(case)).world(0).job.id


async def test_a_job_is_told_with_hosts_ranks_state_and_environment(case: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async with open_command_runtime(SETTINGS, None, open_stage(case)) as world:
        assert await print_job(world, id_of(case), as_json=True) == 0
    row = json.loads(capsys.readouterr().out)
    assert (row["schema"], row["job"], row["hosts"]) == (1, id_of(case), ["gpu-001", "gpu-002", "gpu-003"])
    assert (row["ranks"], row["state"], row["not_in_inventory"]) == (24, "RUNNING", [])
    assert row["environment"]["SLURM_NTASKS"] == "24"


async def test_people_read_the_hosts_folded(case: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async with open_command_runtime(SETTINGS, None, open_stage(case)) as world:
        await print_job(world, id_of(case), as_json=False)
    assert "gpu-[001-003] (3)" in capsys.readouterr().out


async def test_the_hosts_of_a_job_can_be_looked_at(case: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert await run_look_command(SETTINGS, LookRequest(f"job:{id_of(case)}", ("dmesg",), case=case, as_json=True)) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {row["host"] for row in rows} == {"gpu-001", "gpu-002", "gpu-003"}


async def test_an_unknown_job_is_refused_in_the_schedulers_words(case: Path) -> None:
    async with open_command_runtime(SETTINGS, None, open_stage(case)) as world:
        with pytest.raises(Refusal, match=r"job 1: .*Invalid job id"):
            await print_job(world, "1", as_json=True)
        with pytest.raises(Refusal, match="no Slurm job id"):
            await resolve_job_hosts(world, "all; reboot")


async def test_without_a_scheduler_the_mend_is_named() -> None:
    async with open_command_runtime(SETTINGS, None, None) as world:
        with pytest.raises(Refusal, match="controller"):
            await print_job(world, "4711", as_json=True)


def test_the_sandbox_has_a_scheduler_to_ask(case: Path) -> None:
    assert load_case_run(case).inventory.slurm
