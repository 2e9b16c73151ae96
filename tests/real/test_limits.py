"""Refusals of a real sshd and failures of real tools: RackMedic queues, retries, and never takes silence for health."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager

import pytest

from deploy.lab.gpus import RackGpus
from deploy.lab.layout import Rack, find_node
from deploy.lab.readiness import wait_until
from deploy.sandbox.cluster.answer import text_answer
from tests.real.looking import GPU_NODES, fact, look, told
from tests.real.nodes import on
from tools.fact import Status
from tools.ssh.client import SshLimits

DROP_IN = "/etc/ssh/sshd_config.d/10-narrow.conf"


@contextmanager
def narrow(rack: Rack, node: str, rule: str = r"Match User rackmedic\n    MaxSessions 2\nMatch all\n") -> Iterator[None]:
    """Limit the node's sshd to two sessions per connection, or apply another rule."""
    on(rack, node, "sh", "-c", f"printf '{rule}' > {DROP_IN} && systemctl reload ssh")
    wait_until(lambda: ":22 " in on(rack, node, "ss", "-ltnH"), "sshd did not listen again")
    try:
        yield
    finally:
        on(rack, node, "sh", "-c", f"rm {DROP_IN} && systemctl reload ssh")


@pytest.fixture
async def gpus(rack: Rack) -> AsyncIterator[RackGpus]:
    async with RackGpus.healthy(rack) as simulated:
        yield simulated


async def test_no_check_is_lost_to_an_sshd_that_opens_two_sessions(rack: Rack) -> None:
    wide = await look(rack, ("gpu-002",))  # the same node, because jobs leave other traces on other nodes
    with narrow(rack, "gpu-002"):
        few = await look(rack, ("gpu-002",))
    assert not [answer.check for answer in few.values() if "open failed" in told(answer)]
    assert {check for (_, check), row in few.items() if row.could_not} == {check for (_, check), row in wide.items() if row.could_not}


async def test_an_sshd_that_refuses_logins_is_unobserved_and_asked_again_once_it_accepts(rack: Rack) -> None:
    host, checks = "gpu-002", ("disk", "mem")
    with narrow(rack, host, r"MaxStartups 1:100:1\n"):
        _, stranger = await asyncio.open_connection(rack.address(find_node(host)), 22)
        try:
            full = await look(rack, (host, "gpu-001"), checks, SshLimits(attempts=2))
        finally:
            stranger.close()
        assert all(full["gpu-001", check].facts and not full["gpu-001", check].could_not for check in checks)
        assert all(not [row for row in full[host, check].facts if row.status is Status.OK] for check in checks)
        assert all("MaxStartups" in full[host, check].could_not for check in checks), told(full[host, "disk"])
        free = await look(rack, (host,), checks)
    assert not [row.could_not for row in free.values() if row.could_not]


async def test_eight_gpus_are_counted_through_sshd_and_the_tools(rack: Rack, gpus: RackGpus) -> None:
    answers = await look(rack, GPU_NODES, ("smi", "lspci", "topo", "nvlink"))
    assert all(not row.could_not for row in answers.values())
    assert {fact(answers[host, "smi"], "gpu.count").value for host in GPU_NODES} == {8}


async def test_what_changes_between_two_looks_is_seen_by_the_second(rack: Rack, gpus: RackGpus) -> None:
    assert fact((await look(rack, ("gpu-002",), ("smi",)))["gpu-002", "smi"], "gpu.count").value == 8
    gpus.cluster.break_("G07", "gpu-002", gpu=5)
    assert fact((await look(rack, ("gpu-002",), ("smi",)))["gpu-002", "smi"], "gpu.count").value == 7


async def test_an_nvidia_smi_that_dies_or_hangs_is_told_as_that_and_the_other_nodes_answer(rack: Rack, gpus: RackGpus) -> None:
    gpus.die("gpu-002", text_answer("Unable to determine the device handle for GPU0000:BB:00.0: Unknown Error\n", 15))
    died = await look(rack, ("gpu-001", "gpu-002"), ("smi",))
    assert fact(died["gpu-002", "smi"], "smi.error").value == "unknown_error"
    assert not [row for row in died["gpu-002", "smi"].facts if row.key == "gpu.count"]
    gpus.hang("gpu-002")
    answers = await look(rack, ("gpu-001", "gpu-002"), ("nvlink", "disk"))
    assert not answers["gpu-001", "nvlink"].could_not
    assert not answers["gpu-002", "disk"].could_not
    assert {row.status for row in answers["gpu-002", "nvlink"].facts} == {Status.TIMEOUT}
