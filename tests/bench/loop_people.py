"""The people of the closed loop: one who mentions the bot, and approvers who read cards in the thread and click in them, or do not.

They know what people know: what is on the cards. `careful` alone is told what is right for the case. All they can do is what Slack lets them:
press a button, fill a form. Reading takes them minutes, by the clock that leaps.
"""

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Literal, get_args

from bot.views import reject_modal
from deploy.sandbox.cluster.case import Case
from deploy.sandbox.cluster.chance import dice
from deploy.sandbox.slack import SlackSandbox
from graph.steps import REMEDY_OF
from tests.bench.score import bare_plan
from tests.bench.truth import Plans

Policy = Literal["yes", "careful", "nobody"]
POLICIES: tuple[Policy, ...] = get_args(Policy)
REPORTER = "U0OLGA"
APPROVERS = ("U0PRIYA", "U0ANTON")
READS = (20.0, 240.0)
"""Seconds from a card to a click."""

LOOKS = "run_check"
AROUND = frozenset({"resume_node", "cancel_job"})
"""What goes with taking a machine out of service: right wherever the draining is."""

APPROVE = re.compile(r"\w+\.approve(_\w+)?")
NOT_SO = "this is not what this fault needs"


@dataclass(frozen=True, slots=True)
class Button:
    """An Approve in the thread, and which actions it is about."""

    ts: str
    action_id: str
    value: str
    approvals: tuple[str, ...]


def steps_of(remedy: str) -> frozenset[str]:
    """What a remedy is called in plans."""
    return _names().get(remedy, frozenset({remedy}))


@cache
def _names() -> Mapping[str, frozenset[str]]:
    found: dict[str, set[str]] = {}
    for step, remedy in REMEDY_OF.items():
        found.setdefault(remedy, {remedy}).add(bare_plan(step))
    return {remedy: frozenset(names) for remedy, names in found.items()}


def right(remedy: str, target: str, done: Sequence[tuple[str, str]], plans: Plans, involved: frozenset[str]) -> bool:
    """Whether a plan that mends the case has this step, and everything before it was done on that machine."""
    if remedy == LOOKS:
        return True
    if target not in involved:
        return False
    before = {step for name, host in done if host == target for step in steps_of(name)}
    good = [bare_plan(plan).split(" > ") for plan in (*plans.correct, *plans.acceptable)]
    if remedy in AROUND:
        return "drain_node" in before and any("drain_node" in plan for plan in good)
    return any(step in steps_of(remedy) and before >= set(plan[:at]) for plan in good for at, step in enumerate(plan))


def involved_of(case: Case) -> frozenset[str]:
    """The machines that something happens to."""
    return frozenset(node for row in case.faults for node in row.nodes)


@dataclass
class Approvers:
    """`good`: whether an approval is right for the case; only `careful` asks."""

    slack: SlackSandbox
    channel: str
    thread: str
    policy: Policy
    seed: str
    good: Callable[[str], Awaitable[bool]]
    at_once: bool = False
    """Several click at the same time, and more than once."""
    approved: dict[str, set[str]] = field(default_factory=dict)
    """Approval → whose Approve Slack delivered."""
    rejected: set[str] = field(default_factory=set)
    waited: float = 0.0
    _clicked: set[tuple[Button, str]] = field(default_factory=set)

    def wanted(self) -> tuple[Button, str] | None:
        """A button that somebody may still press; None while everybody waits."""
        if self.policy == "nobody":
            return None
        return next(((row, who) for row in self.buttons() for who in APPROVERS if (row, who) not in self._clicked), None)

    def buttons(self) -> Iterator[Button]:
        """Every Approve that stands in the thread."""
        for message in self.slack.thread(self.channel, self.thread):
            for block in message.get("blocks", []):
                for element in block["elements"] if block["type"] == "actions" else ():
                    if APPROVE.fullmatch(element["action_id"]):
                        value = str(element.get("value", ""))
                        yield Button(message["ts"], element["action_id"], value, _approvals(value))

    async def decide(self, button: Button, who: str) -> None:
        """Read the card, then press one of its buttons."""
        seconds = dice(0, "approver", self.seed, button.value, who).uniform(*READS)
        await asyncio.sleep(seconds)
        self.waited += seconds
        self._clicked.add((button, who))
        if button not in self.buttons():
            return  # somebody, or the clock, was quicker
        if self.policy == "careful" and not all([await self.good(name) for name in button.approvals]):
            await self._reject(button, who)
            return
        if self.at_once:
            self._clicked |= {(button, other) for other in APPROVERS}
            await asyncio.gather(*(self._approve(button, other) for other in (*APPROVERS, *APPROVERS)))
        else:
            await self._approve(button, who)
        await self.slack.quiet(600)

    async def _approve(self, button: Button, who: str) -> None:
        for name in button.approvals:
            self.approved.setdefault(name, set()).add(who)
        await self.slack.click(who, button.ts, button.action_id, value=button.value)

    async def _reject(self, button: Button, who: str) -> None:
        """The Reject beside it, and the form that it opens."""
        self._clicked |= {(button, other) for other in APPROVERS}
        self.rejected |= set(button.approvals)
        reject = button.action_id.replace("approve", "reject", 1)
        await self.slack.click(who, button.ts, reject, value=button.value)
        view = await self.slack.wait_for(lambda: self.slack.view(who), 60)
        await self.slack.submit(who, view["id"], {reject_modal.REASON: NOT_SO})
        await self.slack.quiet(600)


def _approvals(value: str) -> tuple[str, ...]:
    """The actions that a button carries, however many."""
    try:
        text = json.dumps(json.loads(value))
    except ValueError:
        text = value
    return tuple(dict.fromkeys(re.findall(r"apr-[0-9a-f]{12}", text)))
