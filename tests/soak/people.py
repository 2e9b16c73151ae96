"""Simulated people: each reports a fault, approves actions, closes when it is repaired, and asks again when nothing
happens.
"""

import asyncio
import itertools
import re
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from time import monotonic
from typing import Any

from deploy.sandbox.demo import Sandbox

ASKER, APPROVERS = "U0OLGA", ("U0PRIYA", "U0ANTON")
# used in turn; the last is a healthy host
FAULTS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("S08", {}),
    ("G17", {"gpu": 5}),
    ("S19", {}),
    ("G01", {"gpu": 1}),
    ("S18", {"gpu": 2}),
    ("", {}),
)
APPROVE = "approval.approve"
MENDED = ("re-check at", "Fixed:", "No fault found")
UNFOUND = ("No cause proven", "No fault found")
"""What is read of a host that is well."""


@dataclass(frozen=True, slots=True)
class Patience:
    """Seconds: until a person clicks or writes again when nothing changes, between first and second approver, between
    looks.
    """

    press_again: float = 20.0
    say_again: float = 45.0
    second: float = 5.0
    look: float = 0.5


@dataclass
class SoakIncident:
    """One report, from the first message to its end."""

    number: int
    node: str
    fault: str
    ts: str = ""
    began: float = 0.0
    reported: float = 0.0
    ended: float = 0.0
    pressed: dict[tuple[str, str], float] = field(default_factory=dict)
    presses: int = 0
    wrote: float = 0.0
    asked_close: int = 0
    cured: bool = False  # was read as repaired or healthy at any time; later edits may replace that text
    name: str = ""
    moved: str = ""  # the thread's latest text; `since`: when it changed
    since: float = 0.0

    @property
    def channel(self) -> str:
        return channel_of(self.node)

    @property
    def over(self) -> bool:
        return bool(self.ended)


@dataclass
class People:
    """`open_ones` lists open incident ids; `incident_at` returns the incident of a thread."""

    world: Sandbox
    nodes: list[str]
    incident_at: Callable[[str, str], Awaitable[str]]
    open_ones: Callable[[], Awaitable[set[str]]]
    patience: Patience = field(default_factory=Patience)
    all: list[SoakIncident] = field(default_factory=list)

    async def report(self, number: int, node: str, fault: str, how: dict[str, Any]) -> SoakIncident:
        self.world.cluster.heal(node)
        if fault:
            self.world.cluster.break_(fault, node, **how)
        one = SoakIncident(number, node, fault, began=monotonic(), since=monotonic())
        one.ts = await self.world.slack.say(ASKER, one.channel, f"<@U0RACKMED> training has trouble on {node} (report {number})")
        self.all.append(one)
        return one

    async def run(self, incidents: int, at_once: int) -> None:
        """Run until all incidents have ended, at most `at_once` open, each on its own node."""
        ahead: Iterator[tuple[int, tuple[str, dict[str, Any]]]] = iter(zip(range(incidents), itertools.cycle(FAULTS), strict=False))
        free, going = list(self.nodes), list[SoakIncident]()
        more = True
        while more or going:
            while more and len(going) < at_once and free:
                row = next(ahead, None)
                if row is None:
                    more = False
                    break
                number, (fault, how) = row
                going.append(await self.report(number, free.pop(0), fault, how))
            opened = await self.open_ones()
            await asyncio.gather(*(self.look(one, opened) for one in going))
            for one in [one for one in going if one.over]:
                self.world.cluster.heal(one.node)
                free.append(one.node)
                going.remove(one)
            await asyncio.sleep(self.patience.look)

    async def look(self, one: SoakIncident, opened: set[str]) -> None:
        """Do what this person does next."""
        now, thread = monotonic(), self.world.slack.thread(one.channel, one.ts)
        one.name = one.name or await self.incident_at(one.channel, one.ts)
        if one.name and one.asked_close and one.name not in opened:
            one.ended = now
            return
        said = "\n".join(text_on(message) for message in thread if message.get("bot_id"))
        if said != one.moved:
            one.moved, one.since = said, now
        if not one.reported and any((m.get("metadata") or {}).get("event_type") == "rackmedic_report" for m in thread):
            one.reported = now
        if await self._approve(one, thread, now):
            return
        one.cured = over = one.cured or any(word in said for word in (MENDED if one.fault else UNFOUND))
        waits = self.patience.say_again if one.asked_close or not over else 0.0
        if now - max(one.since, one.wrote) < waits or (not over and not one.reported):
            return
        one.wrote, one.since = now, now
        one.asked_close += over or one.asked_close > 0
        await self.world.slack.say(ASKER, one.channel, "<@U0RACKMED> close" if over else "<@U0RACKMED> recheck", one.ts)

    async def _approve(self, one: SoakIncident, thread: list[dict[str, Any]], now: float) -> bool:
        """Click pending approvals; return whether any action waits for approval."""
        asks = [(message["ts"], asked) for message in thread for asked in approves(message)]
        for ts, asked in asks:
            for number, who in enumerate(APPROVERS):
                last = one.pressed.get((asked, who))
                first = number == 0 or (
                    (asked, APPROVERS[0]) in one.pressed and now - one.pressed[asked, APPROVERS[0]] > self.patience.second
                )
                if first and (last is None or now - last > self.patience.press_again):
                    one.pressed[asked, who] = now
                    one.presses += 1
                    await self.world.slack.click(who, ts, APPROVE, value=asked)
                    return True
        return bool(asks)


def channel_of(node: str) -> str:
    return f"C0{node.upper().replace('-', '')}"


def approves(message: dict[str, Any]) -> list[str]:
    """Return the values of a message's Approve buttons."""
    rows = [block["elements"] for block in message.get("blocks", ()) if block["type"] == "actions"]
    return [element["value"] for row in rows for element in row if element.get("action_id") == APPROVE]


def text_on(message: dict[str, Any]) -> str:
    return str(message.get("text", "")) + " " + " ".join(re.findall(r"'text': '([^']*)'", str(message.get("blocks", ""))))
