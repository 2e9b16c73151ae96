"""People working with RackMedic on a real rack: real bot process, real rack, local Slack."""

import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import yaml

from deploy.lab.demo import build_rack_world
from deploy.lab.layout import Rack
from deploy.sandbox.demo import MANIFEST, run_bot
from deploy.sandbox.slack import SlackSandbox

T = TypeVar("T")
CHANNEL = "C0GPUINC"
APPROVERS = ("U0PRIYA", "U0ANTON")


@dataclass
class Team:
    """Olga reports and asks; Priya and Anton approve every card once each."""

    slack: SlackSandbox
    thread: str = ""
    clicked: set[tuple[str, str]] = field(default_factory=set)

    async def report(self, text: str) -> None:
        """Mention RackMedic as Olga; the resulting thread is this team's."""
        self.thread = await self.slack.say("U0OLGA", CHANNEL, f"<@U0RACKMED> {text}")

    async def say(self, text: str, user: str = "U0OLGA") -> None:
        await self.slack.say(user, CHANNEL, f"<@U0RACKMED> {text}", self.thread)

    @property
    def said(self) -> str:
        return "\n".join(str(message) for message in self.messages)

    @property
    def messages(self) -> list[dict[str, Any]]:
        return self.slack.thread(CHANNEL, self.thread) if self.thread else []

    async def reads(self, *words: str) -> None:
        """Wait until the thread contains these words, in any order."""
        await self.slack.wait_for(lambda: all(word in self.said for word in words))

    async def approve_until(self, over: Callable[[], T]) -> T:
        """Approve every card as both approvers until `over` returns a value."""
        while True:
            click, done = await self.slack.wait_for(lambda: self._next(over))
            if done:
                return done
            self.clicked.add(click)
            await self.slack.click(click[1], click[0], "approval.approve")
            await self.slack.quiet()

    def _next(self, over: Callable[[], T]) -> tuple[tuple[str, str], T | None] | None:
        if done := over():
            return ("", ""), done
        waiting = ((row["ts"], who) for row in self.messages if _asks(row) for who in APPROVERS)
        return next(((row, None) for row in waiting if row not in self.clicked), None)


def _asks(message: dict[str, Any]) -> bool:
    rows = [element for block in message.get("blocks", []) if block["type"] == "actions" for element in block["elements"]]
    return any(row["action_id"] == "approval.approve" for row in rows)


@asynccontextmanager
async def team(rack: Rack, folder: Path, **settings: str) -> AsyncIterator[Team]:
    """Run RackMedic for a local Slack and the rack, with its own data."""
    async with SlackSandbox(manifest=yaml.safe_load(MANIFEST.read_text())) as slack:
        world = build_rack_world(rack, slack, folder / "data", settings)
        async with run_bot(world, dict(os.environ), folder / "bot.log"):
            await slack.connected()
            yield Team(slack)
