"""A real Prometheus scrapes the bot, and the Slack message of a real Alertmanager is parsed into an incident."""

import asyncio
import contextlib
import json
import os
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientConnectionError, ClientSession, web
from fakeredis import FakeAsyncRedis

from bot.app.health import Health, run_health_server
from bot.slack.payloads import parse_message
from deploy.lab.image import get_cache_folder, get_image_folder
from deploy.lab.layout import Rack
from graph.extraction.hosts import find_hosts
from tests.real.looking import GPU_NODES
from tests.support.clock import PATIENCE
from tests.support.fixtures_sshd import free_port

BOT, ALERTS = "U0RACKMED", "B0ALERTS"
ROUTES = """\
route: {receiver: slack, group_wait: 0s, group_interval: 1s, repeat_interval: 1h, group_by: [alertname]}
receivers:
  - name: slack
    slack_configs:
      - api_url: @URL@
        channel: '#gpu-incidents'
        send_resolved: false
        title: '{{ .CommonLabels.alertname }} ({{ .Alerts.Firing | len }} firing)'
        text: "{{ range .Alerts }}{{ .Annotations.summary }} on {{ .Labels.instance }}\\n{{ end }}"
"""
SCRAPES = """\
global: {scrape_interval: 1s}
scrape_configs: [{job_name: rackmedic, static_configs: [{targets: ['127.0.0.1:@PORT@']}]}]
"""


@pytest.fixture
def programs(rack: Rack) -> Path:
    """Return the image's program folder; the image has this system's release, so they run here."""
    return get_image_folder(get_cache_folder(os.environ)) / "usr/bin"


@contextlib.asynccontextmanager
async def running(log: Path, *argv: str | Path) -> AsyncIterator[None]:
    """Run a daemon while the block runs."""
    with log.open("wb") as sink:
        child = await asyncio.create_subprocess_exec(*map(str, argv), stdin=asyncio.subprocess.DEVNULL, stdout=sink, stderr=sink)
        try:
            yield
        finally:
            with contextlib.suppress(ProcessLookupError):
                child.terminate()
            await child.wait()


async def answered(url: str, wanted: str = "", **asked: Any) -> str:
    """Poll until the answer contains `wanted`."""
    async with asyncio.timeout(PATIENCE), ClientSession() as session:
        while True:
            with contextlib.suppress(ClientConnectionError):
                async with session.request("POST" if asked else "GET", url, **asked) as response:
                    text = await response.text()
                    if response.status == 200 and wanted in text:
                        return text
            await asyncio.sleep(0.1)


async def test_prometheus_scrapes_us_and_has_nothing_against_our_metrics(programs: Path, tmp_path: Path) -> None:
    ours, theirs = free_port(), free_port()
    config = tmp_path / "prometheus.yml"
    config.write_text(SCRAPES.replace("@PORT@", str(ours)))
    words = (
        "--log.level=warn",
        f"--config.file={config}",
        f"--storage.tsdb.path={tmp_path / 'data'}",
        f"--web.listen-address=127.0.0.1:{theirs}",
    )
    async with (
        run_health_server("127.0.0.1", ours, Health(ready=True, redis=FakeAsyncRedis())),
        running(tmp_path / "log", programs / "prometheus", *words),
    ):
        told = await answered(f"http://127.0.0.1:{ours}/metrics")
        lint = await asyncio.create_subprocess_exec(
            programs / "promtool", "check", "metrics", stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
        )  # fmt: skip
        said, _ = await lint.communicate(told.encode())
        assert (lint.returncode, said) == (0, b"")
        up = f"http://127.0.0.1:{theirs}/api/v1/query?query=up"
        value = json.loads(await answered(up, '"1"'))["data"]["result"][0]
    assert value["metric"]["job"] == "rackmedic"


async def alert(programs: Path, tmp_path: Path, *instances: str) -> Mapping[str, Any]:
    """Return what Alertmanager posts to Slack when these hosts' alert fires."""
    heard: asyncio.Future[Mapping[str, Any]] = asyncio.get_running_loop().create_future()

    async def hook(request: web.Request) -> web.Response:
        if not heard.done():
            heard.set_result(await request.json())
        return web.Response(text="ok")

    app = web.Application()
    app.add_routes([web.post("/services/T/B/x", hook)])
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    slack, port = free_port(), free_port()
    await web.TCPSite(runner, "127.0.0.1", slack).start()
    config = tmp_path / "alertmanager.yml"
    config.write_text(ROUTES.replace("@URL@", f"http://127.0.0.1:{slack}/services/T/B/x"))
    words = (f"--config.file={config}", f"--storage.path={tmp_path / 'data'}", f"--web.listen-address=127.0.0.1:{port}")
    rows = [
        {
            "labels": {"alertname": "GPUFellOffTheBus", "instance": name, "severity": "critical"},
            "annotations": {"summary": "Xid 79: a GPU fell off the bus"},
        }
        for name in instances
    ]
    try:
        async with running(tmp_path / "log", programs / "prometheus-alertmanager", *words, "--cluster.listen-address="):
            await answered(f"http://127.0.0.1:{port}/-/ready")
            await answered(f"http://127.0.0.1:{port}/api/v2/alerts", json=rows)
            return await asyncio.wait_for(heard, PATIENCE)
    finally:
        await runner.cleanup()


async def test_an_alert_of_alertmanager_is_a_message_about_its_hosts(programs: Path, tmp_path: Path) -> None:
    posted = await alert(programs, tmp_path, "gpu-002:9400", "gpu-003:9400")
    event = {"type": "message", "subtype": "bot_message", "bot_id": ALERTS, "channel": "C0GPUINC", "ts": "1779246600.000100", **posted}
    event["channel"], event["channel_type"] = "C0GPUINC", "channel"  # Slack replaces the posted name by its id
    assert parse_message({"team_id": "T1", "event": event}, BOT) is None, "other bots open nothing"
    arrival = parse_message({"team_id": "T1", "event": event}, BOT, (ALERTS,))
    assert arrival
    assert (arrival.alert, arrival.mention) == (True, True)
    assert "GPUFellOffTheBus (2 firing)" in arrival.raw
    assert sorted(find_hosts(arrival.raw, GPU_NODES).hosts) == ["gpu-002", "gpu-003"]
