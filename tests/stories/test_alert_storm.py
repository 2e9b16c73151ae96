"""Five hundred alerts at once through a real bot's port: one thread per cause and channel, nothing lost, each closes
with its alerts.
"""

import asyncio
import contextlib
import json
import os
import random
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import monotonic
from typing import Any

import pytest
import yaml
from aiohttp import ClientConnectionError, ClientSession

from deploy.sandbox.demo import Sandbox, run_bot, run_sandbox
from tests.support.fixtures_sshd import free_port

OPS, FABRIC, TOKEN, AT_ONCE = "C0GPUINC", "C0RANDOM", "a-token-of-some-length", 150
Alert = dict[str, Any]


def alert(n: int, name: str, host: str, summary: str = "", **labels: str) -> Alert:
    """Return an Alertmanager alert with its own fingerprint."""
    where = {"alertname": name, "Hostname": host, "gpu": str(n % 8), **labels}
    return {"status": "firing", "labels": where, "annotations": {"summary": summary}, "fingerprint": f"{name.lower()}{n:04}"}


CAUSES: dict[str, list[Alert]] = {
    "leaf sw-1": [alert(n, ("LinkDown", "LinkFlaps", "HighBER")[n % 3], f"gpu-00{1 + n % 2}", leaf="sw-1") for n in range(200)],
    "Xid 79": [alert(n, "XidError", "gpu-003", f"Xid 79 on GPU {n % 8}", mig=str(n)) for n in range(50)],
    "FanSlow": [alert(n, "FanSlow", "gpu-004", f"fan {n} slow") for n in range(100)],
    "rack r7": [alert(n, f"Inlet{n % 4}", "gpu-005", rack="r7") for n in range(100)],
    "DiskSlow": [alert(n, "DiskSlow", "gpu-006", f"disk {n}") for n in range(50)],
}
# routed to their own channel, for the same hosts
ROUTED: dict[str, list[Alert]] = {
    "leaf sw-1": [alert(n, "PortDown", f"gpu-00{1 + n % 2}", leaf="sw-1", team="fabric") for n in range(60)],
    "Xid 79": [alert(n, "XidSeen", "gpu-003", f"Xid 79 on GPU {n % 8}", team="fabric", mig=str(n)) for n in range(20)],
}
GROUPED, LEFT = ("FanSlow", "rack r7"), 25  # sent in groups of fifty with a truncation count; all others one by one


def over(rows: Sequence[Alert]) -> list[Alert]:
    return [{**row, "status": "resolved"} for row in rows]


def message(rows: Sequence[Alert], group: str, left: int = 0) -> bytes:
    return json.dumps({"version": "4", "groupKey": group, "receiver": "rackmedic", "alerts": rows, "truncatedAlerts": left}).encode()


def messages(cause: str, rows: Sequence[Alert], left: int = 0) -> list[bytes]:
    if cause not in GROUPED:
        return [message([row], f"{cause} {row['fingerprint']}") for row in rows]
    return [message(rows[n : n + 50], f"{cause} {n}", left) for n in range(0, len(rows), 50)]


@dataclass
class Sender:
    """Send until accepted, as Alertmanager does, and count the answers."""

    url: str
    session: ClientSession
    statuses: Counter[int] = field(default_factory=Counter)
    room: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(AT_ONCE))

    async def send(self, *bodies: bytes) -> None:
        await asyncio.gather(*map(self._one, bodies))

    async def _one(self, body: bytes) -> None:
        async with self.room:
            while True:
                if await self._status(body) == 200:
                    return
                await asyncio.sleep(0.05)

    async def _status(self, body: bytes) -> int:
        with contextlib.suppress(ClientConnectionError):
            async with self.session.post(self.url, data=body, headers={"Authorization": f"Bearer {TOKEN}"}) as answer:
                self.statuses[answer.status] += 1
                return answer.status
        return 0


def roots(world: Sandbox, channel: str = OPS) -> dict[str, Any]:
    """Return the first messages by cause; fail if a cause has two."""
    rows = [row for row in world.slack.messages(channel) if row.get("bot_id") and "Alerts of" in str(row["text"])]
    found = {str(row["text"]).partition("Alerts of ")[2].partition(":")[0]: row for row in rows}
    assert len(found) == len(rows), [row["text"] for row in rows]
    return found


def told(world: Sandbox, cause: str, channel: str = OPS) -> str:
    first = roots(world, channel)
    rows = world.slack.thread(channel, first[cause]["ts"]) if cause in first else []
    return json.dumps([[row["text"], row.get("blocks")] for row in rows])


@contextlib.asynccontextmanager
async def storm(folder: Path) -> AsyncIterator[tuple[Sandbox, Sender]]:
    """Run a bot with alert intake and a sender."""
    port, file = free_port(), folder / "alerts.yaml"
    file.write_text(f"channel: {OPS}\ntoken: {TOKEN}\nroutes: [{{channel: {FABRIC}, matchers: ['team=~\"fab.*\"']}}]\n")
    async with run_sandbox(folder, nodes=6) as made, ClientSession() as session:
        inventory = Path(made.settings["RACKMEDIC_INVENTORY"])
        site = yaml.safe_load(inventory.read_text())
        inventory.write_text(yaml.safe_dump({**site, "channels": [*site["channels"], {"channel": FABRIC, "kind": "operators"}]}))
        world = replace(made, settings={**made.settings, "RACKMEDIC_HTTP_PORT": str(port), "RACKMEDIC_ALERTS": str(file)})
        async with run_bot(world, dict(os.environ), folder / "bot.log"):
            await world.slack.connected()
            yield world, Sender(f"http://127.0.0.1:{port}/alerts/alertmanager", session)


@pytest.mark.tier3
async def test_five_hundred_alerts_are_five_threads_that_end_with_them(tmp_path: Path) -> None:
    shuffled = random.Random(500)
    async with storm(tmp_path) as (world, sender):
        all_of_them = [body for cause, rows in CAUSES.items() for body in messages(cause, rows, LEFT)]
        all_of_them += [message([row], f"routed {row['fingerprint']}") for rows in ROUTED.values() for row in rows]
        flapping = CAUSES["leaf sw-1"][:40]
        shuffled.shuffle(all_of_them)
        began = monotonic()
        await sender.send(*all_of_them)
        await sender.send(*messages("leaf sw-1", over(flapping)), *all_of_them[::3])
        await sender.send(*messages("leaf sw-1", flapping))
        took = monotonic() - began
        await world.slack.wait_for(lambda: all(f"Alerts of {cause}" in str(roots(world)) for cause in CAUSES))
        await world.slack.wait_for(lambda: set(roots(world, FABRIC)) == set(ROUTED))
        await world.slack.wait_for(lambda: all("No fault found" in told(world, cause) for cause in CAUSES))
        await world.slack.wait_for(lambda: all("No fault found" in told(world, cause, FABRIC) for cause in ROUTED))
        await world.slack.say("priya", OPS, "DiskSlow was me, I copy a data set", roots(world)["DiskSlow"]["ts"])
        await world.slack.quiet()  # wait until her message is processed before the alerts end
        assert f"counts {2 * LEFT} more" in told(world, "FanSlow")
        ends = [body for cause, rows in CAUSES.items() for body in messages(cause, over(rows))]
        ends += [message([row], f"routed {row['fingerprint']}") for rows in ROUTED.values() for row in over(rows)]
        shuffled.shuffle(ends)
        await sender.send(*ends)
        await world.slack.wait_for(lambda: all("The alerts are over" in told(world, cause) for cause in CAUSES))
        for cause, rows in CAUSES.items():
            assert f"0 firing, {len(rows)} resolved" in str(roots(world)[cause]["text"])
            assert ("closed" if cause != "DiskSlow" else "I leave this open: people wrote") in told(world, cause)
        await world.slack.wait_for(lambda: all("The alerts are over" in told(world, cause, FABRIC) for cause in ROUTED))
        assert [set(roots(world)), set(roots(world, FABRIC))] == [set(CAUSES), set(ROUTED)]
        for cause, rows in ROUTED.items():
            assert f"0 firing, {len(rows)} resolved" in str(roots(world, FABRIC)[cause]["text"])
        assert set(sender.statuses) <= {200, 503}
        print(
            f"{sum(map(len, CAUSES.values()))} alerts in {len(all_of_them)} messages, a third of them twice, and {len(flapping)} that flapped: "
            f"{took:.1f} s; answers in all {dict(sender.statuses)}; {len(roots(world))} first messages, "
            f"{sum(len(world.slack.thread(OPS, row['ts'])) for row in roots(world).values())} messages in their threads"
        )
