"""The real bot in HTTP mode behind a proxy: signed events, clicks, forms and commands, redelivered after a lost answer,
handled once.
"""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from bot.incidents.cards import close_form, handoff_card
from deploy.sandbox.demo import HttpEndpoint, Sandbox, run_bot, run_sandbox
from deploy.sandbox.slack.app.http_mode import HttpHub
from tests.stories.test_provider_link import button, said, view
from tests.support.fixtures_sshd import free_port
from tests.support.proxy import proxy

OPS = "C0GPUINC"
REPORT = "@rackmedic job 4711 hangs with NCCL timeout on gpu-[001-004]"


@asynccontextmanager
async def over_http(folder: Path) -> AsyncIterator[tuple[Sandbox, HttpHub]]:
    """Run a bot without an app token, reached at the proxy's address."""
    port = free_port()
    async with proxy(port) as before, run_sandbox(folder, http=HttpEndpoint(port, f"http://127.0.0.1:{before}/slack/events")) as world:
        assert world.slack.http
        world.slack.http.patience.retries = (0.0, 0.0)
        async with run_bot(world, dict(os.environ), folder / "bot.log"):
            await world.slack.connected()
            yield world, world.slack.http


async def test_from_the_mention_to_the_form_over_http(tmp_path: Path) -> None:
    async with over_http(tmp_path) as (world, http):
        slack = world.slack
        world.cluster.break_("G07", "gpu-003", gpu=5)
        http.drop = 1  # lose the mention's answer, so Slack sends it again
        ts = await slack.say("priya", OPS, REPORT)
        await slack.wait_for(lambda: "fell off the PCIe bus" in said(world, ts))
        assert {("events_api 0", 200), ("events_api 1", 200)} <= set(http.statuses)
        asked = await slack.command("priya", OPS, "/rackmedic", "status")
        assert asked.acked
        await slack.say("priya", OPS, "@rackmedic hand off", ts)
        await slack.wait_for(lambda: button(world, handoff_card.TAKE_ACTION_ID, ts))
        assert (await slack.click("priya", button(world, handoff_card.TAKE_ACTION_ID, ts), handoff_card.TAKE_ACTION_ID)).acked
        assert (await slack.click("priya", button(world, handoff_card.CLOSE_ACTION_ID, ts), handoff_card.CLOSE_ACTION_ID)).acked
        form = await slack.wait_for(lambda: view(world, close_form.CLOSE_CALLBACK_ID))
        refused = await slack.submit(
            "priya",
            form,
            {
                close_form.CAUSE_BLOCK_ID: {close_form.CAUSE_BLOCK_ID: "a loose riser"},
                close_form.HOSTS_BLOCK_ID: {close_form.HOSTS_BLOCK_ID: "gpu-["},
            },
        )
        assert "errors" in refused
        assert await slack.submit("priya", form, {close_form.HOSTS_BLOCK_ID: {close_form.HOSTS_BLOCK_ID: "gpu-003"}}) == {}
        await slack.wait_for(lambda: "Closed: " in said(world, ts))
        reports = [row for row in slack.messages(OPS) if (row.get("metadata") or {}).get("event_type") == "rackmedic_report"]
        assert len({str(row["metadata"]["event_payload"]["item"]) for row in reports}) == len(reports)


async def test_what_slack_sends_from_another_time_has_no_effect(tmp_path: Path) -> None:
    async with over_http(tmp_path) as (world, http):
        for off in (400.0, -400.0):
            http.clock_error, http.statuses[:] = off, []
            await world.slack.say("priya", OPS, "@rackmedic gpu-001 is slow")
            await world.slack.quiet()
            assert {status for _, status in http.statuses} == {401}
            assert {kind for kind, _ in http.statuses} == {"events_api 0", "events_api 1", "events_api 2"}
        assert said(world) == "[]"
        http.clock_error = 0.0
        ts = await world.slack.say("priya", OPS, "@rackmedic gpu-001 is slow")
        await world.slack.wait_for(lambda: "No fault found" in said(world, ts))
