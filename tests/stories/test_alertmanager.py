"""A real Alertmanager and a real bot: an alert opens an incident, another of its cause joins, and it closes with them;
or a confirmed ticket is opened elsewhere and its closing is reported in the thread.
"""

import asyncio
import contextlib
import json
import os
import shutil
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import ClientConnectionError, ClientSession

from bot.trackers import cards
from deploy.sandbox.demo import Sandbox, run_bot, run_sandbox
from tests.stories.test_provider_link import button, said, view
from tests.support.clock import WallClock
from tests.support.fixtures_sshd import free_port
from tests.support.trackers import StandInTracker, config_of, stand_in

PROGRAM = shutil.which("prometheus-alertmanager") or shutil.which("alertmanager") or ""
OPS, TOKEN = "C0GPUINC", "a-token-of-some-length"
CONFIG = """\
route: {receiver: rackmedic, group_wait: 0s, group_interval: 1s, repeat_interval: 1h, group_by: ['...']}
receivers:
  - name: rackmedic
    webhook_configs:
      - url: http://127.0.0.1:@PORT@/alerts/alertmanager
        send_resolved: true
        http_config: {authorization: {type: Bearer, credentials: @TOKEN@}}
"""


@contextlib.asynccontextmanager
async def alertmanager(folder: Path, ours: int) -> AsyncIterator[str]:
    """Run Alertmanager, configured for our port, and yield its URL."""
    port, config = free_port(), folder / "alertmanager.yml"
    config.write_text(CONFIG.replace("@PORT@", str(ours)).replace("@TOKEN@", TOKEN))
    words = (
        f"--config.file={config}",
        f"--storage.path={folder / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
        "--cluster.listen-address=",
    )
    with (folder / "alertmanager.log").open("wb") as sink:
        child = await asyncio.create_subprocess_exec(PROGRAM, *words, stdin=asyncio.subprocess.DEVNULL, stdout=sink, stderr=sink)
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        child.terminate()
        await child.wait()


async def tell(url: str, host: str, name: str = "GPUFanSlow", summary: str = "a fan is slow", *, over: bool = False) -> None:
    """Send an alert as Prometheus does, until Alertmanager is up."""
    now = datetime.now(UTC)
    ends = now - timedelta(seconds=1) if over else now + timedelta(hours=1)
    labels = {"alertname": name, "instance": f"{host}:9400", "severity": "warning"}
    row: dict[str, Any] = {"labels": labels, "annotations": {"summary": summary}}
    row |= {"startsAt": (now - timedelta(minutes=1)).isoformat(), "endsAt": ends.isoformat()}
    async with ClientSession() as session:
        while True:
            with contextlib.suppress(ClientConnectionError):
                async with session.post(f"{url}/api/v2/alerts", json=[row]) as answer:
                    assert answer.status == 200, await answer.text()
                    return
            await asyncio.sleep(0.1)


def roots(world: Sandbox) -> list[Any]:
    return [row for row in world.slack.messages(OPS) if row.get("bot_id") and "Alerts of" in str(row["text"])]


def shown(world: Sandbox) -> str:
    rows = [row for root in roots(world) for row in world.slack.thread(OPS, root["ts"])]
    return json.dumps([[row["text"], row.get("blocks")] for row in rows], ensure_ascii=False)


@contextlib.asynccontextmanager
async def watched(folder: Path, *, jira: str = "") -> AsyncIterator[tuple[Sandbox, str]]:
    """Run the bot and an Alertmanager; `jira`: tracker URL."""
    port, file, trackers = free_port(), folder / "alerts.yaml", folder / "trackers.yaml"
    file.write_text(f"channel: {OPS}\ntoken: {TOKEN}\n")
    trackers.write_text(yaml.safe_dump({"jira": config_of("jira", jira)}))
    async with run_sandbox(folder) as made, alertmanager(folder, port) as url:
        more = {"RACKMEDIC_HTTP_PORT": str(port), "RACKMEDIC_ALERTS": str(file)}
        more |= {"RACKMEDIC_TRACKERS": str(trackers), "RACKMEDIC_TRACKER_POLL_SECONDS": "1"} if jira else {}
        world = replace(made, settings={**made.settings, **more})
        async with run_bot(world, dict(os.environ), folder / "bot.log"):
            await world.slack.connected()
            yield world, url


needs_alertmanager = pytest.mark.skipif(not PROGRAM, reason="no prometheus-alertmanager: make setup-system installs it")


@needs_alertmanager
async def test_an_alert_opens_another_joins_and_both_end_it(tmp_path: Path) -> None:
    async with watched(tmp_path) as (world, url):
        await tell(url, "gpu-001")
        await world.slack.wait_for(lambda: "No fault found" in shown(world))
        await tell(url, "gpu-002")
        await world.slack.wait_for(lambda: "2 firing" in str(roots(world)))
        for host in ("gpu-001", "gpu-002"):
            await tell(url, host, over=True)
        await world.slack.wait_for(lambda: "nothing was done: closed" in shown(world))
        [root] = roots(world)
        assert "0 firing, 2 resolved" in str(root["text"])


@needs_alertmanager
async def test_an_alert_becomes_a_ticket_elsewhere_and_the_thread_knows_when_it_is_closed_there(tmp_path: Path) -> None:
    async with stand_in(WallClock()) as theirs, watched(tmp_path, jira=theirs.url) as (world, url):
        world.cluster.break_("G07", "gpu-003", gpu=5)
        await tell(url, "gpu-003", "XidError", "Xid 79 on GPU 5")
        await world.slack.wait_for(lambda: "fell off the PCIe bus" in shown(world))
        [root] = roots(world)
        await world.slack.say("priya", OPS, "@rackmedic hand off", root["ts"])
        ticket = await confirmed(world, theirs, root["ts"])
        assert [word for word in ("gpu-003", "Alerts of Xid 79") if word not in ticket["body"]] == []
        await world.slack.wait_for(lambda: f"{theirs.url}/browse/{ticket['key']}" in shown(world))
        ticket |= {"state": "Done", "done": True}
        await world.slack.wait_for(lambda: "I verified nothing" in shown(world))
        await tell(url, "gpu-003", "XidError", "Xid 79 on GPU 5", over=True)
        await world.slack.wait_for(lambda: "I leave this open: " in shown(world))
        assert (len(roots(world)), theirs.made) == (1, 1)


async def confirmed(world: Sandbox, theirs: StandInTracker, thread: str) -> dict[str, Any]:
    """Return the ticket after Priya has reviewed and sent it; none exists before."""
    await world.slack.wait_for(lambda: button(world, cards.OPEN_ACTION_ID, thread))
    await world.slack.click("priya", button(world, cards.OPEN_ACTION_ID, thread), cards.OPEN_ACTION_ID)
    form = await world.slack.wait_for(lambda: view(world, cards.CALLBACK_ID))
    assert theirs.made == 0
    assert await world.slack.submit("priya", form, {}) == {}
    await world.slack.wait_for(lambda: "/browse/" in said(world, thread))
    [ticket] = theirs.tickets.values()
    return ticket
