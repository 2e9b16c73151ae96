"""Machines without GPUs: every passive check answers or says why it is unobserved, and nothing unobserved is called
healthy.
"""

from deploy.lab.layout import Rack
from graph.engine.assessment import assess_facts
from kb.taxonomy.loader import load_taxonomy
from tests.real.looking import GPU_NODES, PASSIVE, fact, look
from tests.support.fakes_graph import lens
from tools.fact import Status

NO_TOOL = ("smi", "topo", "docker")  # checks without their tool


async def test_every_passive_check_answers_or_says_why_it_could_not(rack: Rack) -> None:
    answers = await look(rack, (*GPU_NODES, "ctl"))
    assert len(answers) == 4 * len(PASSIVE)
    assert all(answer.facts or answer.could_not for answer in answers.values())
    for host in GPU_NODES:
        for check in NO_TOOL:
            assert not [row for row in answers[host, check].facts if row.status is Status.OK and not row.key.startswith("check.")], check
        assert answers[host, "smi"].could_not


async def test_an_honest_machine_is_accused_of_nothing(rack: Rack) -> None:
    answers = await look(rack, GPU_NODES)
    view = assess_facts([fact for answer in answers.values() for fact in answer.facts], lens(load_taxonomy()), GPU_NODES)
    assert not view.roots
    likely = [(row.label, row.subject) for row in view.beliefs if row.posterior > 0.3]
    assert not likely, "what jobs may lock here is the machine's limit, and nothing here registers memory"


async def test_what_systemd_chrony_and_the_kernel_say_is_read(rack: Rack) -> None:
    answers = await look(rack, GPU_NODES[:1], ("sysd", "time", "disk", "mem", "dmesg", "net"))
    host = GPU_NODES[0]
    assert fact(answers[host, "sysd"], "service.state", "slurmd").value == "active"
    assert fact(answers[host, "sysd"], "service.state", "docker").value == "not-found"
    assert fact(answers[host, "disk"], "disk.used_percent", "/").value is not None
    assert fact(answers[host, "dmesg"], "kernel.xid").status is Status.ABSENT
    assert fact(answers[host, "dmesg"], "host.boot_id").value


async def test_without_the_node_kit_what_needs_root_is_not_looked_at_and_said(rack: Rack) -> None:
    answers = await look(rack, ("cpu-001",), ("dmesg", "sysd", "disk"))
    assert "not permitted" in answers["cpu-001", "dmesg"].could_not
    assert fact(answers["cpu-001", "sysd"], "service.state", "chrony").value == "active"
    assert fact(answers["cpu-001", "disk"], "disk.used_percent", "/").value is not None
