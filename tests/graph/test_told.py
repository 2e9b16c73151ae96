"""Facts from another RackMedic's ticket suggest where to look and confirm nothing, not even what a job log may confirm."""

from typing import Any

import pytest

from deploy.sandbox.cluster.access.case_run import build_case_run
from graph.state import InboxItem
from graph.ticket_export.document import TicketDocument
from graph.ticket_export.received_ticket import MAX_TICKET_FACTS, build_item_data, parse_ticket_facts
from tests.support.talk import Talk, case_of
from tests.support.tickets import SAID, ticket

pytestmark = pytest.mark.slow


USERS = {"check": "env", "key": "env.NCCL_SOCKET_IFNAME", "value": "docker0", "line": "NCCL_SOCKET_IFNAME=docker0"}
LOG = {
    "check": "joblog",
    "key": "job.error",
    "value": "device_assert",
    "line": "CUDA error: device-side assert triggered",
    "attrs": {"first": True},
}


def item(document: TicketDocument) -> InboxItem:
    talk = build_case_run(case_of())
    return InboxItem(
        id="t", kind="mention", incident="inc-1", at=talk.clock.now(), user="provider_link", text="hangs", data=build_item_data(document)
    )


def test_facts_of_a_ticket_carry_no_host_and_say_who_saw_them() -> None:
    [fact] = parse_ticket_facts(item(SAID))
    assert (fact.host, fact.key, fact.value, fact.line, fact.attrs["told"]) == ("", "kernel.xid", 79, "gpu-017: NVRM: Xid 79", True)


def test_rows_that_no_check_of_ours_could_have_made_are_passed_over() -> None:
    odd = [
        {"check": "smi", "key": "gpu.count", "value": "seven"},
        {"check": "smi", "key": "gpu.lost", "value": 1},
        {"check": "smi", "key": "gpu.count", "value": True},
        {"check": "nobodys", "key": "gpu.count", "value": 7},
        {"check": "smi", "key": "no.such", "value": 7},
        {"check": "smi", "key": "site.loader", "value": "x", "attrs": {"wrong": True}},
        {"check": "smi", "key": "gpu.count", "status": "timeout"},
    ]
    document = TicketDocument.model_validate({**SAID.model_dump(), "facts": odd})
    assert parse_ticket_facts(item(document)) == []
    many = TicketDocument.model_validate(
        {**SAID.model_dump(), "facts": [{"check": "smi", "key": "gpu.count", "value": n} for n in range(100)]}
    )
    assert len(parse_ticket_facts(item(many))) == MAX_TICKET_FACTS


@pytest.fixture
def whole() -> list[dict[str, Any]]:
    """Return all facts of a real fault's ticket."""
    return [row.model_dump() for row in ticket().facts]


@pytest.mark.parametrize("rows", [[USERS], [LOG], []], ids=["environment", "log", "whole"])
async def test_on_healthy_hosts_a_ticket_confirms_nothing_and_is_not_no_fault(
    rows: list[dict[str, Any]], whole: list[dict[str, Any]]
) -> None:
    document = TicketDocument.model_validate({**SAID.model_dump(), "hosts": ["gpu-001", "gpu-002"], "facts": rows or whole})
    talk = Talk.over(build_case_run(case_of(), controller="slurm-controller"))
    report = await talk._turn(item(document))
    assert report.root_causes == ()
    assert report.outcome != "no_fault"
    assert {host for host, _ in talk.ran} >= {"gpu-001", "gpu-002"}


@pytest.mark.parametrize("rows", [[USERS], [LOG]], ids=["environment", "log"])
async def test_the_same_rows_handed_in_by_our_own_customer_may_confirm(rows: list[dict[str, Any]]) -> None:
    """Without the mark a foreign site's rows would confirm what job logs may confirm."""
    document = TicketDocument.model_validate({**SAID.model_dump(), "hosts": ["gpu-001", "gpu-002"], "facts": rows})
    given = item(document)
    plain = [{**row, "attrs": {name: value for name, value in row["attrs"].items() if name != "told"}} for row in given.data["told"]]
    talk = Talk.over(build_case_run(case_of(), controller="slurm-controller"))
    report = await talk._turn(given.model_copy(update={"data": {**given.data, "told": plain}}))
    assert report.root_causes != ()


async def test_our_own_look_decides() -> None:
    document = TicketDocument.model_validate({**SAID.model_dump(), "hosts": ["gpu-003"]})
    talk = Talk.over(build_case_run(case_of({"id": "G07", "node": "gpu-003", "gpu": 5, "t": -420}), controller="slurm-controller"))
    report = await talk._turn(item(document))
    assert [row.label for row in report.root_causes] == ["GPU.BUS.Fallen_Off_Bus"]
    assert all(row.host for row in report.root_causes[0].evidence[:1])
