"""Another thread sees that a host was repaired: old kernel lines do not count again, and it shows who drained the node."""

from collections.abc import AsyncIterator

import pytest
from fakeredis import FakeAsyncRedis
from redis.asyncio import Redis

from graph.incident_view import IncidentView
from tests.support.fakes_actions import HUNG, Office, Site, hung, well
from tests.support.fakes_graph import fact
from tools.fact import Fact

pytestmark = pytest.mark.slow


HOSTS = ("n1", "n2", "n3", "n4", "m1", "m2", "ctl")


@pytest.fixture
async def store() -> AsyncIterator[Redis]:
    async with FakeAsyncRedis() as redis:
        yield redis


def boot(host: str) -> Fact:
    return fact(host, "dmesg", "host.boot_id", f"boot-of-{host}-0")


def site(*sick: Fact) -> Site:
    made = Site(facts=[*well(*HOSTS), *(boot(host) for host in HOSTS)])
    made.sick(*(sick or (hung("n1"),)))
    return made


async def found(office: Office, incident: str) -> list[str]:
    report = IncidentView(await office.turns.load_state(incident)).report
    assert report
    return [cause.label for cause in report.root_causes]


async def mended(office: Office, *remedies: str) -> str:
    incident = await office.mention()
    for remedy in remedies:
        await office.approve(incident, remedy)
    return incident


async def test_what_one_thread_has_mended_the_next_does_not_find_again(store: Redis) -> None:
    office = Office(store, site(), alone=True)
    await mended(office, "drain_node", "gpu_reset", "resume_node")
    second = await office.mention("n1 hangs, what is it?", thread="2.0")
    assert await found(office, second) == []
    assert await office.pending(second) == []
    assert office.site.counts() == {"drain_node": 1, "gpu_reset": 1, "resume_node": 1}


async def test_a_line_from_after_the_repair_is_a_fault_again(store: Redis) -> None:
    office = Office(store, site(), alone=True)
    await mended(office, "drain_node", "gpu_reset", "resume_node")
    office.site.sick(hung("n1", minutes=+60))
    office.clock.go(hours=2)
    second = await office.mention("n1 hangs again", thread="2.0")
    assert await found(office, second) == [HUNG]


async def test_the_repair_of_one_gpu_says_nothing_of_another(store: Redis) -> None:
    office = Office(store, site(), alone=True)
    await mended(office, "drain_node", "gpu_reset", "resume_node")
    office.site.sick(hung("n1"), hung("n1", "gpu5"))
    second = await office.mention("n1 hangs, what is it?", thread="2.0")
    state = IncidentView(await office.turns.load_state(second))
    assert state.report
    assert [cause.devices for cause in state.report.root_causes] == [("n1/gpu5",)]


async def test_what_did_not_help_leaves_the_fault_where_it_was(store: Redis) -> None:
    made = site(hung("n1"), fact("n1", "smi", "gpu.throttle.applications_clocks", True, "gpu3"))
    made.mends.clear()
    office = Office(store, made, alone=True)
    await mended(office, "reset_clocks")
    second = await office.mention("n1 hangs, what is it?", thread="2.0")
    assert HUNG in await found(office, second)


async def test_a_remedy_that_does_not_touch_what_the_log_tells_of_leaves_its_lines_standing(store: Redis) -> None:
    office = Office(store, site(hung("n1"), fact("n1", "smi", "gpu.throttle.applications_clocks", True, "gpu3")), alone=True)
    await mended(office, "reset_clocks")
    second = await office.mention("n1 hangs, what is it?", thread="2.0")
    assert await found(office, second) == [HUNG]


async def test_a_remedy_of_the_host_that_is_no_reboot_mends_none_of_its_gpus(store: Redis) -> None:
    office = Office(store, site(hung("n1"), fact("n1", "sysd", "service.state", "failed", "nvidia-fabricmanager")), alone=True)
    await mended(office, "drain_node", "restart_fabricmanager")
    second = await office.mention("n1 hangs, what is it?", thread="2.0")
    assert HUNG in await found(office, second)


async def test_a_card_from_before_the_repair_runs_nothing_when_it_is_approved_after_it(store: Redis) -> None:
    office = Office(store, site(), alone=True)
    office.site.slurm["n1"] = "drained"
    office.site.reasons["n1"] = "ops: moving racks"
    first, second = [await office.mention("n1 hangs", thread) for thread in ("1.0", "2.0")]
    (row,) = await office.pending(first)
    await office.approve(first, row.action.remedy)
    office.clock.go(seconds=30)
    await office.settle(second)
    assert office.site.counts() == {"gpu_reset": 1}
    assert await office.pending(second) == []


async def test_a_report_on_a_drained_node_says_why_we_drained_it(store: Redis) -> None:
    office = Office(store, site(hung("n1")), alone=True)
    await mended(office, "drain_node")
    office.site.sick(fact("n1", "sysd", "service.state", "failed", "nvidia-fabricmanager"))
    second = await office.mention("fabric manager of n1 is down", thread="2.0")
    (ladder,) = [row for row in await office.ladders(second) if row["label"] != HUNG]
    assert ladder["held_elsewhere"].startswith("n1 is out of service already: RackMedic drained it in another thread for ")
    assert ladder.get("drained", False) is False


async def test_a_reason_that_names_the_drain_of_another_node_tells_nothing_of_it(store: Redis) -> None:
    office = Office(store, site(hung("n1"), hung("n2")), alone=True)
    first = await mended(office)
    (drain,) = [row for row in await office.pending(first) if row.action.target == "n2"]
    office.site.slurm["n1"] = "drained"
    office.site.reasons["n1"] = f"rackmedic:{drain.approval}"
    second = await office.mention("n1 hangs", thread="2.0")
    (ladder,) = [row for row in await office.ladders(second) if row["target"] == "n1"]
    assert "RackMedic" not in str(ladder.get("held_elsewhere"))
