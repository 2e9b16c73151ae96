"""`rackmedic dry-run`: every remedy can be tried without being run, and what would stop it is said."""

import json
from pathlib import Path
from typing import Any

import pytest

from bot.refusal import Refusal
from bot.settings import load
from bot.terminal.dry_run import dry_run_once
from bot.terminal.requests import DryRunRequest
from deploy.sandbox.cluster.doors.stage import stage
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
HIDDEN = ("node", "approval", "ticks")
"""Nobody types these."""


@pytest.fixture
def case(tmp_path: Path) -> Path:
    (tmp_path / "case.yaml").write_text(CASE)
    return tmp_path / "case.yaml"


async def tried(
    case: Path, capsys: pytest.CaptureFixture[str], remedy: str, *values: str, host: str = "gpu-001"
) -> tuple[int, dict[str, Any]]:
    code = await dry_run_once(load(environ={}), DryRunRequest(remedy, host, values, case=case, as_json=True))
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    return code, document


@pytest.mark.parametrize("remedy", [row.id for row in REMEDIES.values() if row.at != "fleet"])
async def test_every_remedy_can_be_tried_and_nothing_changes(case: Path, capsys: pytest.CaptureFixture[str], remedy: str) -> None:
    bdf = stage(case).cluster.world().nodes["gpu-001"].gpus[5].bdf
    values = [f"{name}={GOOD[name].format(bdf=bdf)}" for name in REMEDIES[remedy].args if name not in HIDDEN]
    code, told = await tried(case, capsys, remedy, *values)
    assert (told["remedy"], told["target"], told["risk"]) == (remedy, "gpu-001", REMEDIES[remedy].risk)
    assert not [word for word in told["command"] if word in ("{bdf}", "{pid}", "{hours}")]
    assert "{" not in told["does"]
    if remedy not in ("restart_container", "cancel_job"):  # of a container or job that is not there nothing can be seen
        assert {row["ok"] for row in told["conditions"]} <= {True, False}, told["conditions"]
    assert (code == 0) == (told["would"] == "start, once people have approved it")
    stops = [row["says"] for row in told["conditions"] if row["ok"] is False]
    assert all(says in told["would"] for says in stops)


async def test_what_stops_it_is_named_with_what_was_seen(case: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, told = await tried(case, capsys, "cleanup", "hours=72")
    assert code == 1
    assert told["would"] == "be refused: not so: the root file system is nearly full"
    assert await dry_run_once(load(environ={}), DryRunRequest("cleanup", "gpu-001", ("hours=72",), case=case)) == 1
    shown = capsys.readouterr().out
    assert "no  the root file system is nearly full (it says 'Use% IUse%')" in shown
    assert "It would be refused" in shown


async def test_what_runs_elsewhere_says_where(case: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, told = await tried(case, capsys, "drain_node")
    assert (code, told["via"], told["undo"]) == (0, "slurm-controller", "resume_node")


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        (DryRunRequest("pray", "gpu-001"), "there is no remedy 'pray'"),
        (DryRunRequest("run_check", "gpu-001"), "there is no remedy 'run_check' that could be tried"),
        (DryRunRequest("reboot", "gpu-009"), "gpu-009 is not in the inventory"),
        (DryRunRequest("gpu_reset", "gpu-001", ("bdf=x; reboot",)), "bdf='x; reboot': must be a PCI address"),
        (DryRunRequest("drain_node", "slurm-controller"), "runs via a Slurm controller"),
    ],
)
async def test_what_cannot_be_asked_is_refused_in_words(case: Path, asked: DryRunRequest, says: str) -> None:
    with pytest.raises(Refusal, match=says.replace("(", r"\(")):
        await dry_run_once(load(environ={}), DryRunRequest(asked.remedy, asked.host, asked.values, case=case))
