"""A host that refused access at the latest look is not called healthy by earlier answers, and does not make others
abnormal.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

import pytest

from deploy.sandbox.cluster.access.case_run import build_case_run
from graph.engine.derived_facts import find_unreachable_hosts
from graph.incident.answers.remedy_requests import NO_CARD_PREFIX
from tests.support.clock import T0
from tests.support.talk import FAULT, Talk, case_of
from tools.checks import CHECKS
from tools.fact import Fact, Status, build_unobserved_fact
from tools.fleet.output_reader import build_unobserved_answer
from tools.transport import AccessBarrier, CommandResult, Transport, Unreachable

WELL = [Fact("smi", "gpu.count", 8, host="n1", time=T0)]
SHUT = [
    Fact(check, "", status=Status.UNREACHABLE, line="refused", host="n2", time=T0, attrs={"barrier": AccessBarrier.REFUSED.value})
    for check in ("smi", "dmesg")
]


@dataclass
class Door:
    """A transport that can be closed to one host."""

    inner: Transport
    shut: str = ""
    barrier: AccessBarrier = AccessBarrier.OTHER
    status: Status = Status.UNREACHABLE
    clock: str = "virtual"

    async def run(self, host: str, argv: Sequence[str], *, timeout: float, cap: int) -> CommandResult:
        if host == self.shut:
            raise Unreachable(host, "kept out", self.status, self.barrier)
        return await self.inner.run(host, argv, timeout=timeout, cap=cap)

    async def aclose(self) -> None:
        await self.inner.aclose()


@pytest.mark.parametrize(
    ("fact", "named"),
    [
        (Fact("cuda", "cuda.ok", True, host="n2", time=T0 - timedelta(minutes=10)), True),
        (Fact("nccl1", "nccl.busbw", 400.0, host="n2", time=T0 - timedelta(hours=3)), True),
        (Fact("cuda", "check.skipped", "not_known", host="n2", time=T0), True),
        (Fact("ib", "check.no_target", "x", host="n2", time=T0), True),
        (build_unobserved_fact("time", Status.TIMEOUT, "too long", "n2"), True),
        (Fact("lspci", "pcie.gen", 5, host="n2", time=T0), False),
        (Fact("lspci", "pcie.gen", 5, host="n2", time=T0 - timedelta(seconds=40)), False),
        (Fact("sysd", "service.event", "x", host="n2", time=T0 - timedelta(days=2)), False),
    ],
    ids=["light test before", "test hours ago", "not run", "nobody to ask", "too slow", "answers now", "same look", "event of any time"],
)
def test_only_what_answers_in_the_latest_look_makes_a_host_seen(fact: Fact, named: bool) -> None:
    assert [row.host for row in find_unreachable_hosts([*WELL, *SHUT, fact])] == (["n2"] if named else [])


@pytest.mark.parametrize(
    ("barrier", "status"),
    [
        (AccessBarrier.REFUSED, Status.UNREACHABLE),
        (AccessBarrier.LOGIN, Status.DENIED),
        (AccessBarrier.UNLISTED_KEY, Status.UNREACHABLE),
        (AccessBarrier.CHANGED_KEY, Status.UNREACHABLE),
        (AccessBarrier.SILENT, Status.TIMEOUT),
        (AccessBarrier.OTHER, Status.UNREACHABLE),
    ],
)
async def test_a_host_that_keeps_us_out_is_told_apart_from_those_that_answer(barrier: AccessBarrier, status: Status) -> None:
    stage = build_case_run(case_of(FAULT), controller="slurm-controller")
    door = Door(stage.transport)
    talk = Talk.over(replace(stage, transport=door))  # type: ignore[arg-type]  # the part of InProcess that is used
    await talk.reports(stage.text)
    assert "nothing abnormal" in await talk.says("is gpu-004 healthy?")
    door.shut, door.barrier, door.status = "gpu-004", barrier, status
    await talk.says("recheck gpu-[001-002] gpu-004")
    report = (await talk.rows()).report
    assert report
    assert report.about is None or report.about.kept_out == ("gpu-004",)
    assert "gpu-[001-002,004]: " not in report.headline
    for question in ("is gpu-004 healthy?", "when did gpu-004 die?", "how are all hosts?", "is it safe to restart the job on gpu-004?"):
        answer = await talk.says(question)
        assert "gpu-004" in answer
        assert "could not be looked at (kept out" in answer or answer.startswith("No, not on gpu-004"), answer
        assert not [line for line in answer.splitlines() if "gpu-004" in line and "nothing abnormal" in line]
    drain = await talk.says("drain gpu-004")
    assert drain.startswith(f"{NO_CARD_PREFIX} for a drain: I propose a fix only for a fault that a check has shown")
    assert "`scontrol update NodeName=gpu-004" in drain


def test_why_a_look_failed_is_kept_with_what_kept_us_out() -> None:
    answer = build_unobserved_answer("n2", CHECKS["smi"], Status.UNREACHABLE, "refused", T0, AccessBarrier.REFUSED)
    assert [row.value for row in find_unreachable_hosts([*WELL, *answer.facts])] == ["refused"]
