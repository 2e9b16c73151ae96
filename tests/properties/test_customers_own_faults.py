"""Every fault that the tenant can correct, reported in their channel in plain words, is answered without an operator.
The measured figures are in docs/customers.md, and a test compares them.
"""

import html
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from bot.tenants.cards import tenant_card
from bot.tenants.cards.driver_versions import add_driver_versions
from bot.tenants.cards.view import TenantView, TenantViewContext, build_tenant_view, get_no_slot_values
from deploy.sandbox.cluster.access.case_run import build_case_run
from deploy.sandbox.cluster.faults import FAULTS, Fault
from graph.state import Attachment
from kb.customers.cause_words import load_customer_words
from kb.taxonomy.loader import load_taxonomy
from tests.properties.test_canaries import CHANNELS, ORIGIN, OURS
from tests.support.talk import Talk, case_of
from tools.inventory.inventory import Inventory

pytestmark = pytest.mark.tier2

TAXONOMY = load_taxonomy()
DOCUMENT = Path(__file__).parents[2] / "docs" / "customers.md"
WORDS = load_customer_words(TAXONOMY)
CUSTOMERS = frozenset(label for label, leaf in TAXONOMY.decidable.leaves.items() if leaf.owner == "customer")
OWN = tuple(fault for fault in FAULTS.values() if fault.label in CUSTOMERS)
# fate of the job → its owner's message
SAID: Mapping[str, str] = {
    "never starts": "job 4711 does not start on gpu-[003-004]",
    "dies": "job 4711 died on gpu-[003-004]",
    "hangs": "job 4711 hangs on gpu-[003-004]",
    "slows": "job 4711 on gpu-[003-004] is slower than yesterday",
    "runs": "something is wrong with job 4711 on gpu-[003-004]",
}


@dataclass(frozen=True, slots=True)
class Answered:
    """The tenant's answer, and whether an operator was called."""

    label: str
    view: TenantView
    called: bool
    seconds: float  # virtual seconds from mention to answer


def of_acme(inventory: Inventory) -> Inventory:
    """Return the inventory with all job machines owned by one tenant."""
    hosts = {name: row.model_copy(update={"tenant": "acme" if name in OURS else ""}) for name, row in inventory.hosts.items()}
    return inventory.model_copy(update={"hosts": hosts, "channels": CHANNELS[:2]})


STOPPED, NO_START = "training stopped on gpu-[003-004], the log is attached", "the job does not start on gpu-[003-004], the log is attached"
# a token id outside the model's vocabulary
LOG = """2026-05-20 03:05:11 INFO step 1200 loss 2.31
/pytorch/aten/src/ATen/native/cuda/Indexing.cu:1289: indexSelectLargeIndex: block: [41,0,0], thread: [96,0,0] Assertion `srcIndex < srcSelectDimSize` failed.
Traceback (most recent call last):
  File "/workspace/train.py", line 212, in <module>
    loss = model(batch["input_ids"]).loss
RuntimeError: CUDA error: device-side assert triggered
"""
AT_IMPORT = """2026-05-20 03:05:11 INFO starting
Traceback (most recent call last):
  File "/workspace/train.py", line 4, in <module>
    import torch
ImportError: {library}: undefined symbol: {symbol}
"""
BUILDING = """2026-05-20 03:05:11 INFO building extension module cpu_adam
/root/.cache/ext/cpu_adam.cpp:3:10: fatal error: Python.h: No such file or directory
compilation terminated.
Traceback (most recent call last):
  File "/workspace/train.py", line 40, in <module>
    optimizer = DeepSpeedCPUAdam(model.parameters())
RuntimeError: Error building extension 'cpu_adam'
"""
# causes without a simulated fault: message, attached log, and the line shown
ATTACHED: Mapping[str, tuple[str, str, str]] = {
    "USER.CODE.Device_Assert": (STOPPED, LOG, "srcIndex < srcSelectDimSize"),
    "FRAMEWORK.NCCL.Library_Conflict": (
        NO_START, AT_IMPORT.format(library="/opt/torch/lib/libtorch_cuda.so", symbol="ncclCommRegister"), "ncclCommRegister",
    ),
    "FRAMEWORK.LIB.Library_Path_Shadows_Wheels": (
        NO_START, AT_IMPORT.format(library="/opt/nvidia/libcusparse.so.12", symbol="__nvJitLinkAddData_12_1"), "__nvJitLinkAddData_12_1",
    ),
    "FRAMEWORK.LIB.Headers_Missing": (NO_START, BUILDING, "Python.h"),
}  # fmt: skip


async def answered(fault: Fault) -> Answered:
    """Report the fault on the tenant's machines."""
    node = "gpu-003" if not fault.once else list(OURS)
    told = talk({"id": fault.id, "node": node, "t": -420})
    await told.reports(SAID[fault.job])
    return await shown(fault.label, told)


async def handed_in(label: str) -> Answered:
    """Report with an attached log, on healthy machines."""
    told = talk()
    words, log, _ = ATTACHED[label]
    sha256 = await told.ports.evidence.put_text("inc-1", log)
    await told.reports(words, Attachment(name="train.log", size=len(log.encode()), sha256=sha256))
    return await shown(label, told)


def talk(*faults: dict[str, Any]) -> Talk:
    stage = build_case_run(case_of(*faults, nodes=OURS), controller="slurm-controller")
    return Talk.over(replace(stage, inventory=of_acme(stage.inventory)), ORIGIN)


async def shown(label: str, told: Talk) -> Answered:
    """Return what the tenant's thread shows after the turn."""
    rows, facts = await told.rows(), await told.facts()
    reader = TenantViewContext(frozenset(OURS), WORDS, slot_values=add_driver_versions(get_no_slot_values, facts, OURS))
    return Answered(label, build_tenant_view(rows, reader), rows.ticket is not None, rows.stats.makespan_seconds)


def row(got: Answered) -> str:
    """Return the row of the table in docs/customers.md."""
    return f"| {got.view.causes[0].said.title} | {got.seconds:.0f} s |"


def alone(got: Answered) -> None:
    """Assert that the answer says what to change and no operator is called."""
    assert (got.view.stage, got.view.state, got.called) == ("yours", "", False)
    [cause] = got.view.causes
    assert cause.said == WORDS.get_cause_words(got.label)
    assert cause.block
    assert not [slot for slot in ("{expected}", "{driver}", "{cuda}") if slot in cause.block]
    assert any(cause.block.split("\n")[0] in text for text in texts(got.view))
    assert row(got) in DOCUMENT.read_text(), row(got)


def texts(view: TenantView) -> list[str]:
    return [
        html.unescape(part["text"])
        for block in tenant_card.render_tenant_card(view).blocks
        for part in every(block)
        if isinstance(part.get("text"), str)
    ]


def every(part: Any) -> Iterator[dict[str, Any]]:
    if isinstance(part, Mapping):
        yield dict(part)
    for inner in part.values() if isinstance(part, Mapping) else part if isinstance(part, list) else ():
        yield from every(inner)


@pytest.mark.parametrize("fault", OWN, ids=lambda fault: fault.id)
async def test_a_mistake_of_the_customers_is_answered_without_a_human(fault: Fault) -> None:
    alone(await answered(fault))


@pytest.mark.parametrize("label", ATTACHED)
async def test_a_mistake_that_only_their_log_shows_is_answered_from_it(label: str) -> None:
    got = await handed_in(label)
    alone(got)
    assert ATTACHED[label][2] in str(got.view.causes[0].shows)


async def test_the_block_for_an_image_names_the_driver_that_they_have() -> None:
    got = await answered(FAULTS["S02"])
    assert re.search(r"driver \d{3}\.\d+\.\d+, which runs CUDA 1\d\.\d", got.view.causes[0].block)


def test_every_cause_that_is_theirs_is_played() -> None:
    assert {fault.label for fault in OWN} | ATTACHED.keys() | ENDED_BY_SLURM == CUSTOMERS


# job ends that only the scheduler proves and no simulated fault causes; `tests/kb/test_taxonomy.py` covers them
ENDED_BY_SLURM = {"OTHER.SCHED.Job_Cancelled", "OTHER.SCHED.Time_Limit_Reached"}
