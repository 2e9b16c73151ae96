"""Every remedy on simulated machines with the real node kit's scripts, stub tools and parsers, without a network."""

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator

import pytest

from deploy.sandbox.cluster.access.cluster import Cluster
from deploy.sandbox.cluster.access.in_process import InProcessTransport
from deploy.sandbox.cluster.grammar import KIT_LOOK, PRIVILEGED_COMMANDS
from tests.support.clock import PATIENCE
from tests.support.fakes_cluster import facts
from tests.support.fakes_repairs import CONTROL, NODE, Repairs, condition_of, faults_of, live, some_digest, unsound
from tools.execution.kit import get_current_kit_version, read_kit_state
from tools.nodekit.generate import ACT_COMMAND
from tools.remedies import REMEDIES


@contextlib.asynccontextmanager
async def reached(of: Cluster) -> AsyncIterator[tuple[Repairs, InProcessTransport]]:
    transport = InProcessTransport(of)
    try:
        yield Repairs(of, transport), transport
    finally:
        await transport.aclose()


@contextlib.asynccontextmanager
async def repairs(of: Cluster) -> AsyncIterator[Repairs]:
    async with reached(of) as (work, _):
        yield work


async def test_the_whole_ladder_of_a_gpu_reset() -> None:
    of = live()
    of.break_("G12", NODE, gpu=5)
    async with repairs(of) as work:
        assert await work.unmet(await work.action("gpu_reset", bdf=work.bdf(5))) == [
            "the node is drained and runs no job: allocated           allocated"
        ]
        assert (await work.do("drain_node")).exit_status == 0
        assert condition_of(of) == "draining"
        refused = await work.do("gpu_reset", bdf=work.bdf(5))
        assert (refused.word, refused.says[:31]) == ("refused", "no process uses this GPU: found")
        cancel = await work.action("cancel_job", job="4711")
        assert await work.unmet(cancel) == []
        assert (await work.start(cancel)).word == "started"
        assert (await work.ended(cancel)).exit_status == 0
        reset = await work.action("gpu_reset", bdf=work.bdf(5))
        assert (condition_of(of), await work.unmet(reset)) == ("drained", [])
        assert await work.start(reset)
        said = await work.ended(reset)
        assert (said.exit_status, said.output.splitlines()[-1]) == (0, "All done.")
        assert (faults_of(of), unsound(of)) == ([], [])
        back = await work.action("resume_node")
        assert await work.unmet(back) == []
        await work.start(back)
        await work.ended(back)
    assert condition_of(of) == "allocated"
    assert set(of.executions.values()) == {1}
    assert {remedy for _, remedy, _ in of.executions} == {"drain_node", "cancel_job", "gpu_reset", "resume_node"}
    assert not of.unsafe_commands


async def test_a_gpu_that_something_holds_is_not_reset() -> None:
    of = live()
    of.break_("G03", NODE, gpu=5)
    of.hold(NODE, 5)
    before = of.state_hash()
    async with repairs(of) as work:
        said = await work.do("gpu_reset", bdf=work.bdf(5))
    assert said.exit_status == 255
    assert "In use by another client" in said.output
    assert (of.state_hash(), faults_of(of)) == (before, ["G03"])


@pytest.mark.parametrize(
    ("fault", "status", "words"),
    [("G07", 15, "GPU is lost"), ("G08", 6, "No devices were found"), ("S01", 18, "version mismatch"), ("S03", 9, "couldn't communicate")],
)
async def test_a_gpu_that_does_not_answer_cannot_be_reset(fault: str, status: int, words: str) -> None:
    of = live()
    of.break_(fault, NODE, gpu=5)
    before = of.state_hash()
    async with repairs(of) as work:
        refused = await work.do("gpu_reset", bdf=work.bdf(5))
        assert refused.word == "refused"
        assert words in refused.says
        assert f"exit status {status}" in refused.says
    assert (of.state_hash(), sum(of.executions.values())) == (before, 0)


async def test_clocks_and_power_limits_are_put_back_while_the_job_runs() -> None:
    of = live()
    of.break_("G17", NODE, gpu=5)
    of.break_("G18", NODE)
    async with repairs(of) as work:
        assert (await work.do("reset_clocks", bdf=work.bdf(5))).exit_status == 0
        assert (faults_of(of), unsound(of)) == (["G18"], ["clocks", "power limit"])
        too_much = await work.do("power_limit_default", watts="900")
        assert too_much.exit_status == 2
        assert "is not a valid power limit" in too_much.output
        assert (await work.do("power_limit_default", watts="650")).exit_status == 0
        assert faults_of(of) == ["G18"]
        assert (await work.do("power_limit_default", watts="700.00")).exit_status == 0
    assert (faults_of(of), unsound(of), of.world().job.ended) == ([], [], None)
    assert [count for (_, remedy, _), count in of.executions.items() if remedy == "reset_clocks"] == [1]


async def test_a_fabric_manager_starts_again_only_where_its_version_fits() -> None:
    of = live()
    of.break_("S04", NODE)
    of.break_("S05", "gpu-002")
    async with repairs(of) as work:
        assert (await work.do("restart_fabricmanager")).exit_status == 0
        assert [remedy for _, remedy, _ in of.executions] == ["restart_fabricmanager"]
        assert (faults_of(of), unsound(of)) == ([], [])
        again = await work.do("restart_fabricmanager", "gpu-002")
    assert again.exit_status == 1
    assert "control process exited" in again.output
    assert faults_of(of, "gpu-002") == ["S05"]
    found = await facts(of, ["sysd"], ["gpu-002"])
    assert {f.value for f in found if f.key == "service.state" and f.device == "nvidia-fabricmanager"} <= {"failed"}


async def test_a_machine_without_switches_has_no_fabric_manager() -> None:
    of = live(profile="pcie-l40s-8")
    of.break_("U02", NODE)
    async with repairs(of) as work:
        said = await work.do("restart_fabricmanager")
    assert (said.exit_status, said.output.split()[-2:]) == (5, ["not", "found."])


async def test_the_fabric_manager_is_left_alone_while_the_gpus_are_in_use() -> None:
    of = live()
    async with repairs(of) as work:
        said = await work.do("restart_fabricmanager")
    assert (said.word, of.executions) == ("refused", {})


async def test_a_module_is_loaded_once_and_only_where_it_fits() -> None:
    of = live()
    of.break_("S08", NODE)
    of.break_("S08", "gpu-002", misfit=True)
    async with repairs(of) as work:
        assert (await work.do("modprobe_peermem")).exit_status == 0
        assert (faults_of(of), unsound(of)) == ([], [])
        assert (await work.do("modprobe_peermem")).says == "nvidia-peermem is not loaded: found 'yes'"
        said = await work.do("modprobe_peermem", "gpu-002")
    assert (said.exit_status, faults_of(of, "gpu-002")) == (1, ["S08"])
    assert said.output == "modprobe: ERROR: could not insert 'nvidia_peermem': Invalid argument\n"


async def _ticks(work: Repairs, pid: int) -> str:
    """Return the process's start time as a proposer of a kill reads it."""
    return (await work.read(NODE, "cat", f"/proc/{pid}/stat")).text.rpartition(") ")[2].split()[19]


async def test_a_left_over_process_ends_by_the_signal_that_it_hears() -> None:
    of = live()
    of.break_("S18", NODE, gpu=5, deaf=True)
    pid = 31882
    async with repairs(of) as work:
        ticks = await _ticks(work, pid)
        assert (await work.do("kill_gpu_process", pid=str(pid), ticks=ticks, signal="TERM")).exit_status == 0
        assert faults_of(of) == ["S18"]
        assert (await work.do("kill_gpu_process", pid=str(pid), ticks=ticks, signal="KILL")).exit_status == 0
        assert (faults_of(of), unsound(of)) == ([], [])
        gone = await work.do("kill_gpu_process", pid=str(pid), ticks=ticks, signal="KILL")
    assert (gone.word, gone.says) == ("refused", "the process is still the one that was looked at: found 'gone'")


async def test_a_process_that_got_a_gone_ones_number_is_spared() -> None:
    of = live()
    of.break_("S18", NODE, gpu=5)
    async with repairs(of) as work:
        action = await work.action("kill_gpu_process", pid="31882", ticks=await _ticks(work, 31882), signal="KILL")
        of.reuse_pid(NODE, 31882)
        before = of.state_hash()
        said = await work.start(action)
        assert said.word == "refused"
        assert re.search(r"found '\d+'", said.says)
        assert "carol" in (await work.read(NODE, *_words("ps -ww -eo pid,ppid,user:32,stat,etimes,pcpu,cgroup:160,comm:32,args"))).text
    assert of.state_hash() == before


def _words(line: str) -> tuple[str, ...]:
    return tuple(line.split())


async def test_killing_a_rank_ends_the_job() -> None:
    of = live()
    async with repairs(of) as work:
        pid = of.world().job.of(NODE)[3].pid
        assert (await work.do("kill_gpu_process", pid=str(pid), ticks=await _ticks(work, pid), signal="TERM")).exit_status == 0
    assert of.world().job.ended is not None
    assert condition_of(of, "gpu-002") == "idle"


async def test_what_another_admin_drained_is_neither_drained_again_nor_resumed() -> None:
    of = live()
    async with repairs(of) as work:
        action = await work.action("drain_node")
        assert await work.unmet(action) == []
        of.drain(NODE, "disk_swap")
        assert await work.unmet(action) == ["nobody else has drained the node: draining"]
        assert await work.unmet(await work.action("resume_node")) == ["the node was drained by RackMedic: disk_swap"]


async def test_the_scheduler_refuses_in_its_own_words() -> None:
    of = live()
    before = of.state_hash()
    async with repairs(of) as work:
        assert "Invalid node state specified" in (await work.do("resume_node")).output
        assert "Invalid node name specified" in (await work.do("drain_node", "gpu-099")).output
        unknown = await work.start(await work.action("cancel_job", job="17"))
        assert (unknown.word, "Slurm still has the job: found" in unknown.says) == ("refused", True), unknown
        assert "Invalid job id specified" in unknown.says
        of.scheduler_refuses = "Access/permission denied"
        for remedy, args in (("drain_node", {}), ("resume_node", {}), ("cancel_job", {"job": "4711"})):
            said = await work.do(remedy, **args)
            assert said.exit_status == 1
            assert any(word.lower() in said.output.lower() for word in REMEDIES[remedy].refusals) or remedy == "resume_node"
    assert of.state_hash() == before


async def test_the_controllers_reads_tell_the_same_story() -> None:
    of = live()
    async with repairs(of) as work:
        for argv, says in (
            (("sinfo", "-h", "-n", NODE, "-o", "%T"), "allocated"),
            (("sinfo", "-h", "-N", "-n", NODE, "-o", "%N|%T|%E"), f"{NODE}|allocated|none"),
            (("sinfo", "-h", "-N", "-n", "nowhere", "-o", "%T"), ""),
            (("squeue", "-h", "-j", "4711", "-o", "%T"), "RUNNING"),
            (("squeue", "-h", "-w", NODE, "-o", "%i %T %N"), "4711 RUNNING gpu-001,gpu-002"),
        ):
            assert (await work.read(CONTROL, *argv)).text.strip() == says
        assert "State=ALLOCATED " in (await work.read(CONTROL, "scontrol", "show", "node", NODE)).text
        assert "JobState=RUNNING" in (await work.read(CONTROL, "scontrol", "show", "job", "4711")).text
        assert (await work.read(CONTROL, "nvidia-smi", "-q", "-x")).exit_status == 127
        of.go_down(NODE)
        assert (await work.read(CONTROL, "sinfo", "-h", "-n", NODE, "-o", "%T")).text == "down*\n"
        assert (await work.read(CONTROL, "squeue", "-h", "-j", "4711", "-o", "%T")).text == ""
    assert not of.unsafe_commands


async def test_a_node_that_boots_without_one_of_its_gpus_is_drained_by_slurm_itself_as_real_ones_are() -> None:
    of = live(pace=0.0)
    of.break_("G07", NODE, gpu=5, outcome="power_cycle")
    standing = ("sinfo", "-h", "-N", "-n", NODE, "-O", "StateLong:20,StateComplete:80")
    async with repairs(of) as work:
        assert (await work.read(CONTROL, *standing)).text.split() == ["idle", "idle"], "slurmd counts when it starts"
        of.go_down(NODE)
        of.come_up(NODE)
        assert (await work.read(CONTROL, *standing)).text.split() == ["inval", "idle+drain+invalid_reg"]
        assert await work.unmet(await work.action("reboot")) == []
        why = (await work.read(CONTROL, "sinfo", "-h", "-N", "-n", NODE, "-o", "%T|%E")).text
        assert why == "inval|gres/gpu count reported lower than configured (7 < 8)\n"
        assert "State=IDLE+DRAIN+INVALID_REG " in (await work.read(CONTROL, "scontrol", "show", "node", NODE)).text
        assert "Invalid node state specified" in (await work.do("resume_node")).output


async def test_a_reboot_takes_a_while_and_leaves_the_evidence_in_the_journal_only() -> None:
    of = live(pace=0.0003)
    of.break_("S15", NODE)
    assert {f.value for f in await facts(of, ["dmesg"], [NODE]) if f.key == "kernel.soft_lockup" and not f.stale}
    async with reached(of) as (work, transport):
        action, late = await work.action("reboot"), await work.action("modprobe_peermem")
        assert (await work.start(action)).word == "started"
        while (said := await work.settle(action)).says != "no route to host":
            assert said.word in ("running", "done", "lost", "unclear")
        assert condition_of(of) == "rebooting"
        await transport.toolbox.booted.wait()
        assert await work.boot() != action.boot_id
        assert (faults_of(of), unsound(of), of.world().job.ended is not None) == ([], [], True)
        assert (await work.settle(action)).word in ("done", "lost")
        assert (await work.start(late)).says == "the host has booted since the approval"
    assert of.executions == {(NODE, "reboot", action.digest): 1}
    found = [f for f in await facts(of, ["dmesg"], [NODE]) if f.key == "kernel.soft_lockup"]
    assert found
    assert all(f.stale for f in found)


async def test_an_inhibited_reboot_is_refused() -> None:
    of = live()
    of.inhibit(NODE)
    async with repairs(of) as work:
        said = await work.do("reboot")
        assert "inhibit" in said.output
        assert said.exit_status == 1
    assert of.reachable(NODE)


async def test_twenty_starts_at_once_run_it_once() -> None:
    of = live(pace=0.001)
    async with repairs(of) as work:
        action = await work.action("drain_node")
        said = await asyncio.gather(*(work.start(action) for _ in range(20)))
        assert {row.word for row in said} <= {"started", "running", "done"}
        assert [row.word for row in said].count("started") == 1
        assert (await work.ended(action)).exit_status == 0
        assert (await work.start(action)).word == "done"
    assert of.executions == {(CONTROL, "drain_node", action.digest): 1}


async def test_a_digest_that_was_settled_first_never_starts() -> None:
    of = live()
    before = of.state_hash()
    async with repairs(of) as work:
        action = await work.action("drain_node")
        assert (await work.settle(action)).word == "never"
        assert (await work.start(action)).word == "never"
    assert (of.state_hash(), of.executions) == (before, {})


async def test_a_machine_that_goes_down_during_a_remedy_has_lost_it() -> None:
    of = live(pace=0.5)
    of.break_("G03", NODE, gpu=5)
    async with reached(of) as (work, transport):
        action = await work.action("gpu_reset", bdf=work.bdf(5))
        assert (await work.start(action)).word == "started"
        while not of.executions:
            assert (await work.settle(action)).word == "running"
        transport.toolbox.lose_power(NODE)
        transport.toolbox.boot(NODE)
        said = "running"
        async with asyncio.timeout(PATIENCE):
            while said == "running":  # a killed process releases the host lock a moment later
                said = (await work.settle(action)).word
        assert said == "lost"
    assert of.executions == {(NODE, "gpu_reset", action.digest): 1}


async def test_the_kit_is_the_one_that_the_product_would_install() -> None:
    of = live()
    async with repairs(of) as work:
        for host in (NODE, CONTROL):
            assert await read_kit_state(host, work.transport) == await read_kit_state("gpu-002", work.transport)
        assert (await read_kit_state(NODE, work.transport)).version == get_current_kit_version()
        assert (await work.read(NODE, *KIT_LOOK, "version")).text.strip() == get_current_kit_version()
    assert not of.unsafe_commands


@pytest.mark.parametrize("fault", ["", "G17", "S08", "G15"])
async def test_asking_the_script_and_asking_the_cluster_is_the_same(fault: str) -> None:
    of = live(nodes=1)
    if fault:
        of.break_(fault, NODE, gpu=5)
    async with InProcessTransport(of).toolbox as box:
        for name in (name for name, argv in PRIVILEGED_COMMANDS.items() if argv[0] != "rackmedic-look" or name == "env.job"):
            told = of.answer(NODE, (*KIT_LOOK, name))
            said = await box.run(NODE, ("rackmedic-look", name), 30)
            assert (said.stdout, said.stderr, said.status) == (told.stdout, told.stderr, told.status), name
    assert not of.unsafe_commands


async def test_nothing_but_the_kits_own_words_gets_to_it_and_the_rest_is_counted() -> None:
    of = live()
    async with repairs(of) as work:
        for words in (("install",), (), ("start; reboot",)):
            assert (await work.read(NODE, *ACT_COMMAND, *words)).exit_status == 127
        assert (await work.read(NODE, "nvidia-smi", "--gpu-reset", "-i", work.bdf(5))).exit_status == 127
        assert (await work.read(NODE, *ACT_COMMAND, "start", some_digest(), "no boot id", "reboot")).text == "refused that is no boot id\n"
    assert [row.argv[3:] for row in of.unsafe_commands[:3]] == [("install",), (), ("start; reboot",)]
    assert len(of.unsafe_commands) == 4


async def test_a_tool_that_no_remedy_has_is_refused_and_counted() -> None:
    of = live()
    before = of.state_hash()
    async with InProcessTransport(of).toolbox as box:
        folder = box.records(NODE).parent / "bin"
        for words in (("shutdown", "-h", "now"), ("nvidia-smi", "-mig", "1"), ("kill", "-9", "1"), ("systemctl", "stop", "sshd")):
            child = await asyncio.create_subprocess_exec(folder / words[0], *words[1:], stderr=asyncio.subprocess.DEVNULL)
            assert await child.wait() == 127
    assert [row.argv[0] for row in of.unsafe_commands] == ["shutdown", "nvidia-smi", "kill", "systemctl"]
    assert (of.state_hash(), of.executions) == (before, {})


async def test_what_the_kit_finds_on_its_path_acts_on_files_only() -> None:
    of = live(nodes=1)
    async with InProcessTransport(of).toolbox as box:
        there = {path.name: path for path in (box.records(NODE).parent / "bin").iterdir()}
        stubs = {name for name, path in there.items() if not path.is_symlink()}
        assert {"nvidia-smi", "systemctl", "reboot", "shutdown", "modprobe", "kill", "scontrol", "scancel"} <= stubs
        assert not there.keys() & {"bash", "python3", "sudo", "ssh", "curl", "systemd-run", "nohup", "mkfs"}


async def test_diagnosis_changes_nothing() -> None:
    of = live()
    of.break_("G01", NODE, gpu=5)
    before = of.state_hash()
    await facts(of)
    assert of.state_hash() == before
