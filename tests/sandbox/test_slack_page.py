"""The Slack page in a real browser: a mention, a card, clicks, a modal, and each person's view."""

import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from playwright.async_api import Page, async_playwright, expect
from slack_bolt.async_app import AsyncAck, AsyncSay
from slack_sdk.web.async_client import AsyncWebClient

from deploy.sandbox.slack import SlackSandbox
from tests.support.fixtures_slack import Bolt, bolt_bot

CHROMIUM = "/usr/bin/chromium"
ARGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
pytestmark = [
    pytest.mark.tier2,
    pytest.mark.skipif(not Path(CHROMIUM).exists(), reason=f"NOT CHECKED: the page needs a browser, and {CHROMIUM} is not installed"),
]


def plain(text: str) -> dict[str, Any]:
    return {"type": "plain_text", "text": text}


def mrkdwn(text: str) -> dict[str, Any]:
    return {"type": "mrkdwn", "text": text}


CONFIRM = {
    "title": plain("Reset GPU 5?"),
    "text": mrkdwn("It runs on `gpu-017` once."),
    "confirm": plain("Run it"),
    "deny": plain("Not yet"),
}
COMMAND = "```nvidia-smi --gpu-reset -i 5```"
CARD: list[dict[str, Any]] = [
    {"type": "header", "text": plain("Reset GPU 5 on gpu-017")},
    {"type": "section", "text": mrkdwn(f"*Xid 79* on `gpu-017/gpu5` <script>alert(1)</script> &lt;b&gt; :warning:\n{COMMAND}")},
    {"type": "section", "fields": [mrkdwn("*Risk*\ndisruptive"), mrkdwn("*Needs*\n1 approval of <!subteam^S0GPUAPPR>")]},
    {"type": "divider"},
    {
        "type": "actions",
        "elements": [
            {"type": "button", "action_id": "approve", "text": plain("Approve"), "style": "primary", "value": "seal", "confirm": CONFIRM},
            {"type": "button", "action_id": "reject", "text": plain("Reject"), "style": "danger", "value": "seal"},
        ],
    },
    {"type": "context", "elements": [mrkdwn("Expires in 10 minutes · digest `3fa9c1`")]},
]
MODAL = {
    "type": "modal",
    "callback_id": "why",
    "title": plain("Reject this action"),
    "submit": plain("Reject"),
    "blocks": [
        {
            "type": "input",
            "block_id": "reason",
            "label": plain("Why?"),
            "element": {"type": "plain_text_input", "action_id": "text", "multiline": True},
        }
    ],
}


def teach(bolt: Bolt) -> None:
    """Add a small bot: a card for a mention, a modal for Reject, an edit for Approve."""

    @bolt.app.event("message")
    @bolt.app.event("file_shared")
    @bolt.app.event("member_joined_channel")
    async def hear() -> None: ...

    @bolt.app.event("app_mention")
    async def answer(event: dict[str, Any], say: AsyncSay) -> None:
        await say(text="card", blocks=CARD, thread_ts=event["ts"])

    @bolt.app.action("approve")
    async def approve(ack: AsyncAck, body: dict[str, Any], client: AsyncWebClient) -> None:
        await ack()
        done = f"Approved by <@{body['user']['id']}>, ran once."
        where = {"channel": body["channel"]["id"], "ts": body["message"]["ts"]}
        await client.chat_update(**where, text=done, blocks=[{"type": "section", "text": mrkdwn(done)}])

    @bolt.app.action("reject")
    async def reject(ack: AsyncAck, body: dict[str, Any], client: AsyncWebClient) -> None:
        await ack()
        await client.views_open(trigger_id=body["trigger_id"], view=MODAL | {"private_metadata": body["message"]["ts"]})

    @bolt.app.view("why")
    async def why(ack: AsyncAck, view: dict[str, Any], body: dict[str, Any], client: AsyncWebClient) -> None:
        text = view["state"]["values"]["reason"]["text"]["value"]
        if len(text) < 5:
            await ack(response_action="errors", errors={"reason": "Say a little more."})
            return
        await ack()
        await client.chat_postEphemeral(channel="C0GPUINC", user=body["user"]["id"], text=f"Noted: {text}")


async def faults(_request: web.Request) -> web.Response:
    return web.json_response({"faults": [{"id": "xid79", "title": "GPU falls off the bus", "category": "GPU"}]})


async def state(request: web.Request) -> web.Response:
    return web.json_response({"nodes": [{"name": "gpu-017", "faults": request.app[BROKEN]}, {"name": "gpu-018", "faults": []}]})


async def break_(request: web.Request) -> web.Response:
    request.app[BROKEN].append(await request.json())
    return web.json_response({"ok": True})


BROKEN: web.AppKey[list[Any]] = web.AppKey("broken", list)


@pytest.fixture
async def cluster() -> AsyncIterator[str]:
    """Serve the routes of the simulated cluster's control API that the page uses."""
    app = web.Application()
    app[BROKEN] = []
    app.add_routes([web.get("/faults", faults), web.get("/state", state), web.post("/break", break_)])
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    await runner.cleanup()


@pytest.fixture
async def slack(cluster: str) -> AsyncIterator[SlackSandbox]:
    async with SlackSandbox(cluster_url=cluster) as slack, bolt_bot(slack) as bolt:
        teach(bolt)
        yield slack


@pytest.fixture
async def page(slack: SlackSandbox) -> AsyncIterator[Page]:
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=ARGS)
        page = await browser.new_page(viewport={"width": 1360, "height": 860})
        errors: list[str] = []
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
        await page.goto(slack.url)
        await page.wait_for_selector("body[data-ready]")
        yield page
        await browser.close()
        assert errors == []


async def photograph(page: Page, name: str, tmp_path: Path) -> None:
    """Save a screenshot; set RACKMEDIC_SHOTS to a folder that outlives the test."""
    await page.screenshot(path=Path(os.environ.get("RACKMEDIC_SHOTS", str(tmp_path))) / f"{name}.png")


async def test_olga_asks_and_the_people_concerned_click(page: Page, slack: SlackSandbox, tmp_path: Path) -> None:
    await page.get_by_test_id("composer").fill("@rackmedic job 4711 hangs, NCCL timeout on gpu-[017-020]")
    await page.get_by_test_id("send").click()
    thread = page.get_by_test_id("thread")
    card = thread.get_by_test_id("message").last
    await expect(card.get_by_text("Reset GPU 5 on gpu-017")).to_be_visible()
    await expect(card).to_contain_text("<script>alert(1)</script> <b> ⚠️")
    await expect(card.locator("pre")).to_have_text("nvidia-smi --gpu-reset -i 5")
    await expect(card).to_contain_text("@gpu-approvers")
    await photograph(page, "card", tmp_path)

    await page.get_by_test_id("user-switch").select_option("U0PRIYA")
    await expect(page.locator("#user-switch")).to_have_value("U0PRIYA")
    await page.get_by_test_id("open-thread").click()
    await thread.get_by_test_id("button-reject").click()
    modal = page.get_by_test_id("modal")
    await modal.get_by_test_id("input-text").fill("no")
    await modal.get_by_test_id("modal-submit").click()
    await expect(modal.get_by_test_id("error-reason")).to_have_text("Say a little more.")
    await photograph(page, "modal", tmp_path)
    await modal.get_by_test_id("input-text").fill("the node is wanted tonight")
    await modal.get_by_test_id("modal-submit").click()
    await expect(modal).to_be_hidden()
    await expect(page.get_by_test_id("ephemeral")).to_contain_text("Noted: the node is wanted tonight")

    await thread.get_by_test_id("button-approve").click()
    await page.get_by_test_id("confirm-no").click()
    await expect(thread.get_by_test_id("button-approve")).to_be_visible()
    await thread.get_by_test_id("button-approve").click()
    await page.get_by_test_id("confirm-yes").click()
    await expect(thread).to_contain_text("Approved by @priya, ran once.")
    await photograph(page, "approved", tmp_path)

    await page.get_by_test_id("user-switch").select_option("U0CARLA")
    await expect(page.get_by_test_id("channel-cust-acme")).to_be_visible()
    await expect(page.get_by_test_id("channel-gpu-incidents")).to_have_count(0)
    assert [envelope["type"] for envelope in slack.hub.sent].count("interactive") == 4  # Reject, two submissions, Approve


async def test_a_node_is_broken_from_the_menu(page: Page, tmp_path: Path) -> None:
    await expect(page.get_by_test_id("node-gpu-017")).to_have_attribute("data-state", "well")
    await page.get_by_test_id("break-menu").click()
    await page.get_by_test_id("break-fault").select_option("xid79")
    await page.get_by_test_id("break-gpu").select_option("5")
    await photograph(page, "break", tmp_path)
    await page.get_by_test_id("break-go").click()
    await expect(page.get_by_test_id("node-gpu-017")).to_have_attribute("data-state", "broken")


async def test_a_file_is_attached_and_shown(page: Page, slack: SlackSandbox) -> None:
    await page.get_by_test_id("composer-file").set_input_files(
        {"name": "nccl.log", "mimeType": "text/plain", "buffer": b"Watchdog timeout"}
    )
    await page.get_by_test_id("composer").fill("@rackmedic see the log")
    await page.get_by_test_id("composer").press("Enter")
    await expect(page.get_by_test_id("file").first).to_contain_text("nccl.log")
    [file] = slack.messages("C0GPUINC")[0]["files"]
    assert slack.workspace.files.get(file["id"]).content == b"Watchdog timeout"
