"""A clock whose only time server is wrong: the offset in chrony's own output."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from deploy.lab.gpus import RackGpus
from deploy.lab.layout import Rack
from deploy.lab.readiness import wait_until
from tests.real.clocks import lying_clock
from tests.real.looking import fact, look
from tests.real.nodes import on
from tests.real.team import team

AHEAD = 600.0
CONFIG = "/etc/chrony/conf.d/lab.conf"


@pytest.fixture
async def misled(rack: Rack) -> AsyncIterator[str]:
    """Yield a node whose only time server is ten minutes ahead."""
    honest = on(rack, "gpu-003", "cat", CONFIG)
    async with lying_clock(rack, AHEAD) as server:
        await asyncio.to_thread(_follow, rack, f"server {server} iburst minpoll 0 maxpoll 2\n")
        await asyncio.to_thread(
            wait_until, lambda: "Not synchronised" not in on(rack, "gpu-003", "chronyc", "tracking"), "chrony did not believe it"
        )
        yield "gpu-003"
    _follow(rack, honest + "\n")


def _follow(rack: Rack, config: str) -> None:
    on(rack, "gpu-003", "sh", "-c", f"cat > {CONFIG} && systemctl restart chrony", stdin=config)


async def test_the_offset_is_read_from_chronys_own_words(rack: Rack, misled: str) -> None:
    answers = await look(rack, (misled, "gpu-001"), ("time",))
    assert abs(float(str(fact(answers[misled, "time"], "time.offset").value))) == pytest.approx(AHEAD, abs=5)
    assert abs(float(str(fact(answers["gpu-001", "time"], "time.offset").value))) < 1


async def test_a_wrong_clock_is_found_and_a_step_that_the_rack_does_not_take_changes_nothing(
    rack: Rack, misled: str, tmp_path: Path
) -> None:
    async with RackGpus.healthy(rack), team(rack, tmp_path) as people:
        await people.report(f"jobs do not start on {misled}")
        await people.reads("🔴 Clock skew", f"*{misled}* · ", "the clock is off by 600")
        await people.approve_until(lambda: "Ticket:" in people.said)
        await people.reads("❌ Failed, unchanged: ", "exit status 1. The fault is still there.", "chronyd may not set the clock")
    answers = await look(rack, (misled,), ("time",))
    assert abs(float(str(fact(answers[misled, "time"], "time.offset").value))) == pytest.approx(AHEAD, abs=5)
