"""A tenant's own RackMedic and its provider's, each a real bot with Slack and cluster: a confirmed hand-off survives
kill -9 and an absent provider, opens one incident there, and the tenant's thread follows the repair until it is
proven.
"""

import asyncio
import json
import os
import socket
from dataclasses import replace
from pathlib import Path
from typing import Any

from bot.provider import cards
from bot.remediation.cards.approval_card import APPROVE_ACTION_ID
from bot.tenants.cards import internal_thread
from deploy.sandbox.demo import Sandbox, run_bot, run_sandbox
from graph.ticket_export.received_ticket import parse_ticket
from tests.support.terminal import rackmedic_process

OPS, KEY = "C0GPUINC", "whsec_" + "QUJD" * 12
REPORT = "@rackmedic training on gpu-[003-004] is half as fast as yesterday"


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def button(world: Sandbox, action: str, thread: str = "") -> str:
    """Return the latest operators' message with this button, or ""."""
    rows: list[Any] = world.slack.thread(OPS, thread) if thread else world.slack.messages(OPS)
    found = [
        str(row["ts"])
        for row in rows
        for block in row.get("blocks") or []
        for one in block.get("elements", [])
        if one.get("action_id") == action
    ]
    return found[-1] if found else ""


def said(world: Sandbox, thread: str = "") -> str:
    """Return what the bot shows in the channel or thread."""
    rows = world.slack.thread(OPS, thread) if thread else world.slack.messages(OPS)
    return json.dumps([[row["text"], row.get("blocks")] for row in rows if row.get("bot_id")], ensure_ascii=False)


async def test_what_was_clicked_reaches_the_provider_and_their_repair_reaches_the_thread(tmp_path: Path) -> None:
    port, keys = free_port(), tmp_path / "keys.yaml"
    keys.write_text(json.dumps({"acme": [KEY]}))
    async with run_sandbox(tmp_path / "customer") as customer, run_sandbox(tmp_path / "provider", language="en") as provider:
        link = {
            "RACKMEDIC_PROVIDER_URL": f"http://127.0.0.1:{port}/intake/acme",
            "RACKMEDIC_PROVIDER_KEY": KEY,
            "RACKMEDIC_PROVIDER_POLL_SECONDS": "1",
            "RACKMEDIC_OUTBOX_LEASE_SECONDS": "6",
        }
        customer = replace(customer, settings={**customer.settings, **link})
        intake = {"RACKMEDIC_HTTP_PORT": str(port), "RACKMEDIC_INTAKE_KEYS": str(keys)}
        provider = replace(provider, settings={**provider.settings, **intake})
        for world in (customer, provider):
            world.cluster.break_("G17", "gpu-003")

        async with run_bot(customer, dict(os.environ), tmp_path / "customer.log") as first:
            await customer.slack.connected()
            thread = await customer.slack.say("priya", OPS, REPORT)
            await customer.slack.wait_for(lambda: button(customer, cards.SHOW_ACTION_ID, thread))
            await customer.slack.click("priya", button(customer, cards.SHOW_ACTION_ID, thread), cards.SHOW_ACTION_ID)
            await customer.slack.wait_for(lambda: button(customer, cards.SEND_ACTION_ID, thread))
            await customer.slack.click("priya", button(customer, cards.SEND_ACTION_ID, thread), cards.SEND_ACTION_ID)
            first.kill()
            await first.wait()

        async with (
            run_bot(provider, dict(os.environ), tmp_path / "provider.log"),
            run_bot(customer, dict(os.environ), tmp_path / "customer.log"),
        ):
            await provider.slack.wait_for(lambda: "acme's own RackMedic sent a ticket" in said(provider))
            await customer.slack.wait_for(lambda: "not taken yet" in said(customer, thread))
            await tell(provider, "Please leave gpu-003 alone until noon.")
            card = await provider.slack.wait_for(lambda: button(provider, APPROVE_ACTION_ID))
            await provider.slack.click("priya", card, APPROVE_ACTION_ID)
            await customer.slack.wait_for(lambda: "proved by a test" in said(customer, thread))
            assert said(customer, thread).count("Your provider writes: Please leave gpu-003 alone") == 1
            assert said(provider).count("own RackMedic sent a ticket") >= 1
            assert len([row for row in provider.slack.messages(OPS) if "own RackMedic sent a ticket" in str(row["text"])]) == 1
            await exported(customer, thread)
        assert set(provider.cluster.executions.values()) == {1}
        assert not customer.cluster.executions


async def tell(provider: Sandbox, words: str) -> None:
    """Write, preview and send a message to the tenant as the provider."""
    await provider.slack.click("priya", button(provider, internal_thread.TELL_ACTION_ID), internal_thread.TELL_ACTION_ID)
    form = await provider.slack.wait_for(lambda: view(provider, internal_thread.TELL_FORM_CALLBACK_ID))
    await provider.slack.submit("priya", form, {internal_thread.WORDS_BLOCK_ID: {internal_thread.WORDS_BLOCK_ID: words}})
    await provider.slack.submit("priya", await provider.slack.wait_for(lambda: view(provider, internal_thread.TELL_SEND_CALLBACK_ID)), {})


def view(world: Sandbox, callback: str) -> str:
    """Return Priya's open form of this kind, or ""."""
    shown = world.slack.view("priya")
    return str(shown["id"]) if shown and shown["callback_id"] == callback else ""


async def exported(customer: Sandbox, thread: str) -> None:
    """Export the incident from the running bot's store as a file."""
    found = [
        word for word in said(customer, thread).replace('"', " ").replace("\\", " ").replace("_", " ").split() if word.startswith("inc-")
    ]
    ran = await asyncio.to_thread(
        rackmedic_process, "ticket", "export", found[0], "-", environ=dict(customer.settings) | {"PATH": os.environ["PATH"]}
    )
    assert ran.returncode == 0, ran.stderr
    document = parse_ticket(ran.stdout.encode()).document
    assert document.hosts == ("gpu-[003-004]",)
    assert document.facts
