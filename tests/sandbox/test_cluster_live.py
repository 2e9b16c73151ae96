"""A live cluster is broken and healed while it runs, from code and over its control API."""

from datetime import UTC, datetime, timedelta

import aiohttp
import pytest

from deploy.sandbox.cluster.access.cluster import Cluster, SimulationRefusal
from deploy.sandbox.cluster.access.control import ControlServer
from tests.support.clock import SetClock
from tests.support.fakes_cluster import argv, facts
from tests.support.fakes_repairs import START


def _cluster(clock: SetClock) -> Cluster:
    return Cluster.of("dgx-h100-8", nodes=["gpu-001", "gpu-002"], job="4711", clock=clock.now)


async def test_breaking_and_healing_show_at_once() -> None:
    of = _cluster(SetClock(START))
    healthy = of.state_hash()
    of.break_("G07", "gpu-002", gpu=3)
    found = await facts(of, ["smi", "dmesg"])
    assert {(f.host, f.device) for f in found if f.key == "gpu.lost" and f.value} == {("gpu-002", "gpu3")}
    assert [f.time for f in found if f.key == "kernel.xid" and f.value == 79] == [of.t0 - timedelta(seconds=640)]
    of.heal("gpu-001")
    assert of.state_hash() != healthy
    of.heal("gpu-002")
    assert of.state_hash() == healthy


def test_a_live_cluster_grows_older_with_its_clock() -> None:
    clock = SetClock(START)
    of = _cluster(clock)
    boot, first = of.world().nodes["gpu-001"].booted, of.answer("gpu-001", argv("joblog.tail")).stdout
    of.break_("G17", "gpu-001", gpu=0)
    clock.go(minutes=30)
    assert of.t0 == datetime(2026, 6, 1, 12, 30, tzinfo=UTC)
    assert of.world().nodes["gpu-001"].booted == boot - 1800
    assert of.answer("gpu-001", argv("joblog.tail")).stdout != first
    assert of.world().nodes["gpu-001"].gpus[0].reasons.app_clocks
    assert b"/var/log/jobs/4711/rank_00.log" in first


@pytest.mark.parametrize(
    ("fault", "node", "gpu"), [("G77", "gpu-001", None), ("G07", "gpu-009", None), ("G07", [], None), ("G07", "gpu-001", 8)]
)
def test_what_cannot_be_broken_is_refused(fault: str, node: str | list[str], gpu: int | None) -> None:
    of = _cluster(SetClock(START))
    with pytest.raises(SimulationRefusal, match="there is no"):
        of.break_(fault, node, gpu=gpu)
    assert of.state_summary()["nodes"][0]["faults"] == []


def test_what_concerns_the_whole_cluster_happens_to_all() -> None:
    of = _cluster(SetClock(START))
    of.break_("N08", "gpu-001")
    assert {hca.state for node in of.world().nodes.values() for hca in node.hcas} == {"Initializing"}


def test_the_catalogue_is_a_menu() -> None:
    rows = _cluster(SetClock(START)).faults_catalogue()
    assert len(rows) == 80
    assert rows[0].keys() == {"id", "label", "title", "scope"}


async def test_a_page_in_another_process_can_drive_it() -> None:
    of = _cluster(SetClock(START))
    async with ControlServer(of) as control, aiohttp.ClientSession(control.url) as page:

        async def post(path: str, body: object) -> tuple[int, dict[str, object]]:
            async with page.post(path, json=body) as reply:
                return reply.status, await reply.json()

        async with page.get("/faults") as reply:
            assert len((await reply.json())["faults"]) == 80
        status, said = await post("/break", {"fault": "G07", "node": "gpu-002", "gpu": 5})
        assert (status, said["ok"]) == (200, True)
        async with page.get("/state") as reply:
            nodes = {row["name"]: row for row in (await reply.json())["nodes"]}
        assert [(row["id"], row["gpu"]) for row in nodes["gpu-002"]["faults"]] == [("G07", 5)]
        assert (nodes["gpu-001"]["faults"], nodes["gpu-002"]["gpus_answering"]) == ([], 7)
        wrong: list[object] = [{"fault": "G07", "node": "nowhere"}, {"fault": 7}, {"fault": "G07", "gpu": "5"}, {}, []]
        for body in wrong:
            status, said = await post("/break", body)
            assert (status, said["ok"]) == (400, False)
        assert (await post("/heal", {"node": "nowhere"}))[0] == 400
        assert (await post("/heal", {}))[0] == 200
        assert of.state_summary()["nodes"][1]["faults"] == []
