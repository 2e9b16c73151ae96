"""Remedies of settings, driver, containers, clock and disk on simulated machines, with the node kit's scripts."""

import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

from deploy.sandbox.cluster.access.cluster import Cluster
from deploy.sandbox.cluster.access.in_process import InProcessTransport
from deploy.sandbox.cluster.render.containers import make_container_id
from tests.support.fakes_repairs import NODE, Repairs, do, faults_of, live, unsound
from tools.execution.conditions import read_condition
from tools.execution.delete_preview import preview_delete
from tools.execution.runner import explain_refusal
from tools.remedies import REMEDIES


@contextlib.asynccontextmanager
async def repairs(of: Cluster, *, idle: bool = True) -> AsyncIterator[Repairs]:
    """Return repairs, by default with the job ended, as after a drain."""
    transport = InProcessTransport(of)
    if idle and of.world().job.ended is None:
        do(of, "scancel 4711")
    try:
        yield Repairs(of, transport)
    finally:
        await transport.aclose()


def broken(fault: str, *, profile: str = "dgx-h100-8", **how: Any) -> Cluster:
    of = live(profile=profile)
    of.break_(fault, NODE, gpu=5, **how)
    assert unsound(of)
    return of


SIMPLE = {
    "G20": ("compute_mode_default", ["bdf"]),
    "G19": ("mig_off", ["bdf"]),
    "S01": ("reload_driver", []),
    "S03": ("dkms_rebuild", []),
    "S06": ("restart_container", ["container"]),
    "S10": ("cleanup", ["hours"]),
    "S17": ("chrony_makestep", []),
    "S19": ("governor_performance", []),
}


def values(of: Cluster, work: Repairs) -> dict[str, str]:
    return {"bdf": work.bdf(5), "container": make_container_id(0, NODE, of.world().job.id), "hours": "72"}


@pytest.mark.parametrize("fault", SIMPLE)
async def test_the_remedy_mends_what_it_is_for_and_runs_once(fault: str) -> None:
    of, (remedy, names) = broken(fault), SIMPLE[fault]
    async with repairs(of) as work:
        said = await work.do(remedy, **{name: values(of, work)[name] for name in names})
    assert (said.word, said.exit_status) == ("done", 0), said
    assert explain_refusal(REMEDIES[remedy], said.output) == ""
    assert (faults_of(of), unsound(of)) == ([], [])
    assert list(of.executions.values()) == [1]
    assert not of.unsafe_commands


@pytest.mark.parametrize("fault", ["S01", "S19", "S17", "G20"])
async def test_doing_it_where_nothing_is_wrong_changes_nothing_that_is_seen(fault: str) -> None:
    of = live()
    async with repairs(of) as work:
        args = {"bdf": work.bdf(5)} if fault == "G20" else {}
        assert (await work.do(SIMPLE[fault][0], **args)).exit_status == 0
    assert unsound(of) == []
    assert {row.active for row in of.world().nodes[NODE].services.values() if row.load == "loaded"} == {"active"}


async def test_before_hopper_mig_goes_with_the_reset_that_follows() -> None:
    of = broken("G19", profile="hgx-a100-8")
    async with repairs(of) as work:
        said = await work.do("mig_off", bdf=work.bdf(5))
        assert (said.exit_status, faults_of(of)) == (0, ["G19"])
        assert "pending disable state" in said.output
        assert explain_refusal(REMEDIES["mig_off"], said.output) == ""
        assert (await work.do("gpu_reset", bdf=work.bdf(5))).exit_status == 0
    assert (faults_of(of), unsound(of)) == ([], [])


async def test_mig_of_a_held_gpu_stays_and_it_is_said_why() -> None:
    of = broken("G19")
    of.hold(NODE, 5)
    async with repairs(of) as work:
        said = await work.do("mig_off", bdf=work.bdf(5))
    assert (said.exit_status, faults_of(of)) == (19, ["G19"])
    assert "still held by a client" in explain_refusal(REMEDIES["mig_off"], said.output)


async def test_a_driver_in_use_is_restored() -> None:
    of = broken("S01")
    before = set(of.world().nodes[NODE].modules)
    of.hold(NODE, 5)
    async with repairs(of) as work:
        said = await work.do("reload_driver")
    node = of.world().nodes[NODE]
    assert (said.exit_status, faults_of(of)) == (1, ["S01"])
    assert "Module nvidia is in use" in said.output
    assert "something still holds the driver" in explain_refusal(REMEDIES["reload_driver"], said.output)
    assert set(node.modules) == before
    down = [name for name, row in node.services.items() if row.load == "loaded" and row.active != "active"]
    assert down == ["nvidia-fabricmanager"], "too new for the old module"


@pytest.mark.parametrize("remedy", ["reload_driver", "restart_service"])
async def test_nothing_that_cuda_programs_need_is_taken_from_them(remedy: str) -> None:
    of = live()
    async with repairs(of, idle=False) as work:
        args = {"service": "docker"} if remedy == "restart_service" else {}
        said = await work.do(remedy, **args)
    assert (said.word, said.says) == ("refused", "no program uses CUDA on this node: found '8'")
    assert not of.executions


async def test_a_driver_is_not_built_while_one_is_loaded_nor_without_headers() -> None:
    of = broken("S03", headers="missing")
    of.heal("gpu-002")
    async with repairs(of) as work:
        loaded = await work.do("dkms_rebuild", "gpu-002")
        said = await work.do("dkms_rebuild")
    assert (loaded.word, loaded.says) == ("refused", "the NVIDIA driver is not loaded: found 'yes'")
    assert (said.exit_status, faults_of(of)) == (11, ["S03"])
    assert "headers of the running kernel" in explain_refusal(REMEDIES["dkms_rebuild"], said.output)


async def test_a_configured_runtime_counts_from_dockers_next_start() -> None:
    of = broken("S07")
    async with repairs(of) as work:
        assert (await work.do("restart_service", service="docker")).exit_status == 0
        assert faults_of(of) == ["S07"]
        assert (await work.do("configure_runtime")).exit_status == 0
        assert faults_of(of) == ["S07"]
        assert (await work.do("restart_service", service="docker")).exit_status == 0
    assert (faults_of(of), unsound(of)) == ([], [])


async def test_only_a_container_that_lost_its_gpus_is_restarted() -> None:
    of = live()
    async with repairs(of, idle=False) as work:
        said = await work.do("restart_container", container=make_container_id(0, NODE, "4711"))
        assert said.says.startswith("the container runs and has lost its GPUs: found 'GPU 0: NVIDIA H100")
        unknown = await work.do("restart_container", container="0f" * 32)
        assert "No such container" in unknown.says
        assert "its owner has to start it" in explain_refusal(REMEDIES["restart_container"], unknown.says)
    assert not of.executions


async def test_a_silent_container_engine_is_named() -> None:
    of = broken("S06")
    do(of, "systemctl stop docker.service")
    async with repairs(of) as work:
        said = await work.do("restart_container", container=make_container_id(0, NODE, "4711"))
    assert said.word == "refused"
    assert "the container engine is down" in explain_refusal(REMEDIES["restart_container"], said.says)


async def test_files_are_deleted_only_from_a_full_disk_and_only_old_ones() -> None:
    of = broken("S10", hours=30)
    async with repairs(of) as work:
        young, old = [await preview_delete(await work.action("cleanup", hours=hours), work.transport) for hours in ("72", "24")]
        assert young
        assert old
        assert (young.files, old.files, old.size) == (2, 5, 3 * 41875931136 + 2 * 20480)
        assert (old.largest[0].path, old.largest[0].owner) == ("/tmp/ckpt-18211.pt.tmp", "train")
        spared = await work.do("cleanup", "gpu-002", hours="72")
        assert spared.says.startswith("the root file system is nearly full: found 'Use% IUse%")
        said = await work.do("cleanup", hours="72")
        assert (said.exit_status, faults_of(of)) == (0, ["S10"])
        assert "/var/crash/" in said.output
        assert "/tmp/ckpt" not in said.output
        again = await work.do("cleanup", hours="24")
    assert " 41875931136 May 28  2026 /tmp/ckpt-18211.pt.tmp" in again.output
    assert (faults_of(of), unsound(of)) == ([], [])


async def test_a_power_cycle_brings_back_what_a_reboot_does_not() -> None:
    of = live(pace=0.0003)
    of.break_("G07", NODE, gpu=5, outcome="cures")
    do(of, "scancel 4711")
    transport = InProcessTransport(of)
    try:
        work = Repairs(of, transport)
        action = await work.action("power_cycle")
        assert (await work.start(action)).word == "started"
        await transport.toolbox.booted.wait()
        assert await work.boot() != action.boot_id
    finally:
        await transport.aclose()
    assert (faults_of(of), unsound(of)) == ([], [])
    assert of.executions == {(NODE, "power_cycle", action.digest): 1}


async def test_every_precondition_of_every_remedy_can_be_read_before_the_approval() -> None:
    of = broken("S06")
    async with repairs(of) as work:
        args = values(of, work) | {"watts": "700", "pid": "4242", "ticks": "1", "signal": "TERM", "job": "4711", "service": "docker"}
        for remedy in (row for row in REMEDIES.values() if row.at == "target"):
            action = await work.action(remedy.id, **{name: args[name] for name in remedy.args})
            for condition in action.conditions:
                if condition.kind == "node":
                    seen = await read_condition(condition, NODE, work.transport)
                    assert seen.ok is not None, (remedy.id, seen)
    assert not of.unsafe_commands
