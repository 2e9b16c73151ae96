"""The simulated cluster with Kubernetes: the node kit's scripts on the controller, preconditions and the scheduler
check.
"""

import contextlib
from collections.abc import AsyncIterator

from deploy.sandbox.cluster.access.cluster import Cluster
from deploy.sandbox.cluster.access.in_process import InProcessTransport
from tests.support.fakes_repairs import CONTROL, NODE, Repairs, faults_of, live, unsound
from tools.checks import CHECKS
from tools.execution.drain_status import read_drain_reason, read_drain_status
from tools.execution.runner import explain_refusal
from tools.inventory.inventory import Host
from tools.remedies import REMEDY_VARIANTS

HOST = Host(name=NODE, address="127.0.0.1", controller=CONTROL, scheduler="kubernetes")


@contextlib.asynccontextmanager
async def repairs(of: Cluster) -> AsyncIterator[Repairs]:
    transport = InProcessTransport(of)
    try:
        yield Repairs(of, transport, scheduler="kubernetes")
    finally:
        await transport.aclose()


async def read(work: Repairs) -> dict[str, object]:
    """Return what the check reports about the node."""
    asked = [command for command in CHECKS["sched"].commands if command.scheduler == "kubernetes"]
    outputs = [(await work.read(CONTROL, *command.fill_argv({"kube_node": NODE}))).text for command in asked]
    return {fact.key: fact.value for text in outputs for fact in CHECKS["sched"].parse_output(text)}


async def test_the_whole_ladder_of_a_gpu_reset_from_cordon_to_uncordon() -> None:
    of = live()
    of.break_("G12", NODE, gpu=5)
    async with repairs(of) as work:
        assert await read(work) == {"sched.state": "Ready", "sched.gpus": 8, "sched.pods": [f"default/pretrain-{NODE}"]}
        assert (await work.do("drain_node")).exit_status == 0
        assert (await read_drain_status(HOST, work.transport)).saw == f"cordoned, with pods: default/pretrain-{NODE}"
        assert (await read_drain_reason(HOST, work.transport)).startswith("rackmedic:apr-")
        assert (await work.do("evict_pods")).exit_status == 0
        assert (await read_drain_status(HOST, work.transport)).ok
        assert (await read(work))["sched.state"] == "Ready+SchedulingDisabled"
        assert (await work.do("gpu_reset", bdf=work.bdf(5))).exit_status == 0
        assert (faults_of(of), unsound(of)) == ([], [])
        assert (await work.do("resume_node")).exit_status == 0
        assert (await read_drain_status(HOST, work.transport)).saw == "schedulable"
    assert [remedy for _, remedy, _ in of.executions] == ["cordon_node", "evict_pods", "gpu_reset", "uncordon_node"]
    assert set(of.executions.values()) == {1}
    assert not of.unsafe_commands


async def test_what_another_admin_holds_stays_theirs() -> None:
    of = live()
    of.drain(NODE, "new DIMMs, Thursday")
    async with repairs(of) as work:
        for remedy in ("drain_node", "resume_node", "evict_pods"):
            assert (await work.do(remedy)).word == "refused"
    assert not of.executions


async def test_a_right_that_is_missing_is_told_as_one() -> None:
    of = live()
    of.scheduler_refuses = 'User "rackmedic-acts" cannot patch resource "nodes"'
    async with repairs(of) as work:
        said = await work.do("drain_node")
    assert said.exit_status == 1
    assert "apply the role `rackmedic-acts`" in explain_refusal(REMEDY_VARIANTS["cordon_node"], said.output)
