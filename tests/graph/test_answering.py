"""The report says that a host reported as unresponsive answers, if it does."""

import pytest

from deploy.sandbox.cluster.access.case_run import build_case_run
from tests.support.talk import Talk, case_of

pytestmark = pytest.mark.slow

DOWN = (
    "NodeDown on gpu-004: node exporter down",
    "FIRING: NodeDown gpu-004",
    "InstanceDown: gpu-004",
    "HostDown: gpu-004 has been unreachable for 5 minutes",
    "node gpu-004 is down",
    "gpu-004 is unreachable",
    "gpu-004 does not answer",
    "gpu-004 ist nicht erreichbar",
)


@pytest.mark.parametrize("text", DOWN)
async def test_a_node_that_answers_is_said_to_answer(text: str) -> None:
    talk = Talk.over(build_case_run(case_of()))
    report = await talk.reports(text)
    assert report.headline.startswith("gpu-004 answers. "), report.headline


@pytest.mark.parametrize("text", ["gpu-004 is slow", "job 4711 hangs on gpu-004", "is gpu-004 ok?"])
async def test_other_reports_do_not_begin_with_it(text: str) -> None:
    talk = Talk.over(build_case_run(case_of()))
    assert "answers." not in (await talk.reports(text)).headline


async def test_a_node_that_does_not_answer_is_not_said_to() -> None:
    talk = Talk.over(build_case_run(case_of({"id": "O01", "node": "gpu-004", "t": -420})))
    report = await talk.reports("NodeDown on gpu-004: node exporter down")
    assert "gpu-004 answers" not in report.headline
