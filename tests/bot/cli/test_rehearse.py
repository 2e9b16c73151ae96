"""`rackmedic dry-run` tries every remedy without running it and says what would stop it."""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from bot.app.diagnosis_runtime import DiagnosisRuntime
from bot.cli.cluster_access import open_command_runtime, open_stage
from bot.cli.command_requests import DryRunRequest
from bot.cli.dry_run import preview_remedy, run_dry_run_command
from bot.refusal import Refusal
from bot.settings import load_settings
from deploy.sandbox.cluster.access.case_run import CaseRun
from tools.remedies import REMEDIES

CASE = """
id: t1
profile: dgx-h100-8
nodes: [gpu-001, gpu-002]
ticket: {channel: slack, author: U1, text: "job 4711 hangs"}
faults: [{id: S18, node: gpu-001, gpu: 5, t: -620}]
"""
GOOD = {
    "bdf": "{bdf}", "job": "4711", "pid": "31882", "signal": "TERM", "watts": "700", "container": "0f" * 32, "hours": "72", "service": "docker",
}  # fmt: skip
HIDDEN = ("node", "approval", "ticks")  # filled in by RackMedic, never typed


pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.fixture(scope="module")
def staged(tmp_path_factory: pytest.TempPathFactory) -> CaseRun:
    file = tmp_path_factory.mktemp("case") / "case.yaml"
    file.write_text(CASE)
    found = open_stage(file)
    assert found
    return found


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def world(staged: CaseRun) -> AsyncIterator[DiagnosisRuntime]:
    """Open one simulated cluster for all tests: a dry run changes nothing."""
    async with open_command_runtime(load_settings(environ={}), None, staged) as world:
        yield world


async def tried(
    world: DiagnosisRuntime, capsys: pytest.CaptureFixture[str], remedy: str, *values: str, host: str = "gpu-001"
) -> tuple[int, dict[str, Any]]:
    code = await preview_remedy(world, REMEDIES[remedy], DryRunRequest(remedy, host, values, as_json=True))
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    return code, document


OF_KUBERNETES = ("evict_pods",)  # Slurm nodes have no pods


async def test_a_remedy_of_another_scheduler_is_refused_in_words(world: DiagnosisRuntime, capsys: pytest.CaptureFixture[str]) -> None:
    for remedy in OF_KUBERNETES:
        with pytest.raises(Refusal, match="is Kubernetes's, and gpu-001 is scheduled by Slurm"):
            await tried(world, capsys, remedy)


@pytest.mark.parametrize("remedy", [row.id for row in REMEDIES.values() if row.at != "fleet" and row.id not in OF_KUBERNETES])
async def test_every_remedy_can_be_tried_and_nothing_changes(
    world: DiagnosisRuntime, staged: CaseRun, capsys: pytest.CaptureFixture[str], remedy: str
) -> None:
    bdf = staged.cluster.world().nodes["gpu-001"].gpus[5].bdf
    values = [f"{name}={GOOD[name].format(bdf=bdf)}" for name in REMEDIES[remedy].args if name not in HIDDEN]
    code, told = await tried(world, capsys, remedy, *values)
    assert (told["remedy"], told["target"], told["risk"]) == (remedy, "gpu-001", REMEDIES[remedy].risk)
    assert not [word for word in told["command"] if word in ("{bdf}", "{pid}", "{hours}")]
    assert "{" not in told["does"]
    if remedy not in ("restart_container", "cancel_job"):  # a missing container or job cannot be observed
        assert {row["ok"] for row in told["conditions"]} <= {True, False}, told["conditions"]
    assert (code == 0) == (told["would"] == "start, once people have approved it")
    stops = [row["says"] for row in told["conditions"] if row["ok"] is False]
    assert all(says in told["would"] for says in stops)


async def test_what_stops_it_is_named_with_what_was_seen(world: DiagnosisRuntime, capsys: pytest.CaptureFixture[str]) -> None:
    code, told = await tried(world, capsys, "cleanup", "hours=72")
    assert code == 1
    assert told["would"] == "be refused: not so: the root file system is nearly full"
    assert await preview_remedy(world, REMEDIES["cleanup"], DryRunRequest("cleanup", "gpu-001", ("hours=72",))) == 1
    shown = capsys.readouterr().out
    assert "no  the root file system is nearly full (it says 'Use% IUse%')" in shown
    assert "It would be refused" in shown


async def test_what_would_be_deleted_is_told_with_sizes(world: DiagnosisRuntime, capsys: pytest.CaptureFixture[str]) -> None:
    _, told = await tried(world, capsys, "cleanup", "hours=72")
    assert (told["deletes"]["files"], told["deletes"]["size"], told["deletes"]["why"]) == (2, 2 * 20480, "")
    assert told["deletes"]["largest"][0]["path"].startswith("/var/crash/")
    await preview_remedy(world, REMEDIES["cleanup"], DryRunRequest("cleanup", "gpu-001", ("hours=72",)))
    shown = " ".join(capsys.readouterr().out.split())
    assert "would go: 2 files, 40 KiB /var/crash/_usr_bin_python3.0.crash: 20 KiB, root, 79d" in shown
    assert "deletes" not in (await tried(world, capsys, "drain_node"))[1]


async def test_what_runs_elsewhere_says_where(world: DiagnosisRuntime, capsys: pytest.CaptureFixture[str]) -> None:
    code, told = await tried(world, capsys, "drain_node")
    assert (code, told["via"], told["undo"]) == (0, "slurm-controller", "resume_node")


@pytest.mark.parametrize("name", ["pray", "run_check"])
async def test_what_is_no_remedy_for_a_host_is_refused_before_any_host_is_asked(name: str) -> None:
    with pytest.raises(Refusal, match=f"there is no remedy '{name}' that could be tried"):
        await run_dry_run_command(load_settings(environ={}), DryRunRequest(name, "gpu-001"))


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        (DryRunRequest("reboot", "gpu-009"), "gpu-009 is not in the inventory"),
        (DryRunRequest("gpu_reset", "gpu-001", ("bdf=x; reboot",)), "bdf='x; reboot': must be a PCI address"),
        (DryRunRequest("drain_node", "slurm-controller"), "runs via a scheduler.s controller"),
    ],
)
async def test_what_cannot_be_asked_is_refused_in_words(world: DiagnosisRuntime, asked: DryRunRequest, says: str) -> None:
    with pytest.raises(Refusal, match=says):
        await preview_remedy(world, REMEDIES[asked.remedy], asked)
