"""Another bot posts alerts in a channel of the real bot: Alertmanager's own Slack template, and a storm of five
hundred. One first card per cause, each closes with its alerts.
"""

import asyncio
import json
import os
import random
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from time import monotonic
from typing import Any

import pytest
from aiohttp import web

from deploy.sandbox.demo import Sandbox, run_bot, run_sandbox
from tests.stories import test_alertmanager as real
from tests.stories.test_alert_storm import roots, told
from tests.support.fixtures_sshd import free_port

OPS, POSTER = "C0GPUINC", "B0ALERTMGR"
CONFIG = """\
route: {receiver: slack, group_wait: 0s, group_interval: 1s, repeat_interval: 1h, group_by: [alertname, instance]}
receivers:
  - name: slack
    slack_configs: [{api_url: 'http://127.0.0.1:@PORT@/hook', channel: '#gpu-incidents', send_resolved: true}]
"""


def post(world: Sandbox, body: Mapping[str, Any]) -> None:
    """Post as an incoming webhook."""
    whole = {"text": "", **body, "subtype": "bot_message", "bot_id": POSTER}
    world.slack.workspace.post(
        "U0PRIYA", world.slack.workspace.channel(OPS), {name: value for name, value in whole.items() if name != "channel"}
    )


def heard_by(world: Sandbox) -> Sandbox:
    return replace(world, settings={**world.settings, "RACKMEDIC_ALERT_BOTS": POSTER})


@pytest.mark.skipif(not real.PROGRAM, reason="prometheus-alertmanager is not installed")
async def test_a_real_alertmanager_posts_to_slack_and_its_alert_opens_an_incident_and_ends_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = free_port()
    monkeypatch.setattr(real, "CONFIG", CONFIG)
    async with run_sandbox(tmp_path, nodes=4) as made, run_bot(heard_by(made), dict(os.environ), tmp_path / "bot.log"):
        posted = list[Mapping[str, Any]]()

        async def hook(request: web.Request) -> web.Response:
            posted.append(await request.json())
            post(made, posted[-1])
            return web.Response(text="ok")

        app = web.Application()
        app.add_routes([web.post("/hook", hook)])
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", ours).start()
        await made.slack.connected()
        try:
            async with real.alertmanager(tmp_path, ours) as url:
                await real.tell(url, "gpu-003")
                await made.slack.wait_for(lambda: "No fault found" in told(made, "GPUFanSlow"))
                await real.tell(url, "gpu-003", over=True)
                await made.slack.wait_for(lambda: "The alerts have resolved and nothing was done: closed" in told(made, "GPUFanSlow"))
        finally:
            await runner.cleanup()
        assert "gpu-003" in str(roots(made)["GPUFanSlow"])
        assert [str(row["attachments"][0]["title"]).partition("]")[0] for row in posted] == ["[FIRING:1", "[RESOLVED"]


def message(cause: str, n: int, *, over: bool = False) -> dict[str, Any]:
    """Return one message of a group of a hundred in Grafana's format."""
    labels = {"alertname": f"LinkDown{n % 4}", "instance": f"gpu-00{1 + int(cause[-1])}:9400", "port": str(n), "leaf": cause}
    listed = "Labels:\n" + "".join(f" - {name} = {value}\n" for name, value in labels.items()) + "Annotations:\n - summary = down\n"
    title = f"[{'RESOLVED' if over else 'FIRING:1'}] LinkDown{n % 4} {n} {cause} (critical)"
    return {
        "attachments": [
            {"title": title, "title_link": "http://g/alerting/list", "text": f"**{'Resolved' if over else 'Firing'}**\n{listed}"}
        ]
    }


@pytest.mark.tier3
async def test_five_hundred_messages_are_a_first_card_a_cause_and_each_ends(tmp_path: Path) -> None:
    causes = [f"sw-{n}" for n in range(5)]
    async with run_sandbox(tmp_path, nodes=6) as made, run_bot(heard_by(made), dict(os.environ), tmp_path / "bot.log"):
        await made.slack.connected()
        storm = [(cause, n) for cause in causes for n in range(100)]
        random.Random(5).shuffle(storm)
        began = monotonic()
        for at, (cause, n) in enumerate(storm):
            post(made, message(cause, n))
            if at % 10 == 9:
                await asyncio.sleep(0)  # let others run between two messages, as a network does
        await made.slack.wait_for(lambda: all("100 firing" in str(roots(made).get(f"leaf {cause}")) for cause in causes))
        took = monotonic() - began
        for cause, n in storm:
            post(made, message(cause, n, over=True))
        await made.slack.wait_for(lambda: all("The alerts are over" in told(made, f"leaf {cause}") for cause in causes))
        assert set(roots(made)) == {f"leaf {cause}" for cause in causes}
        assert all("0 firing, 100 resolved" in json.dumps(row["text"]) for row in roots(made).values())
        print(f"500 messages: {took:.1f} s until {len(roots(made))} first messages count them all")
