"""The closed loop's people: a reporter, and approvers who read cards and click. They know only the cards, except
`careful`, which knows the right steps. They act only through Slack; reading takes minutes of the virtual clock.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from bot.remediation.cards import approval_card as approval
from bot.remediation.cards import modals
from deploy.sandbox.cluster.cases.case import SimulatedCase
from deploy.sandbox.cluster.seeded_random import make_random
from deploy.sandbox.slack import SlackSandbox
from tests.bench.case_files.steps import names_of, plan_steps
from tests.bench.case_files.truth import Plans

Policy = Literal["yes", "careful", "nobody"]
POLICIES: tuple[Policy, ...] = get_args(Policy)
APPROVERS = ("U0PRIYA", "U0ANTON")
READS = (20.0, 240.0)  # seconds from a card to a click

LOOKS = "run_check"
AROUND = frozenset({"resume_node", "cancel_job"})  # steps around a drain; right wherever draining is

NOT_SO = "this is not what this fault needs"


@dataclass(frozen=True, slots=True)
class Button:
    """An Approve button. `carries`: its actions by id and displayed digest."""

    ts: str
    action_id: str
    value: str
    carries: tuple[tuple[str, str], ...]

    @property
    def approvals(self) -> tuple[str, ...]:
        return tuple(approval for approval, _ in self.carries)

    @classmethod
    def of(cls, ts: str, element: Mapping[str, Any]) -> "Button":
        told = json.loads(element["value"])
        rows = told["each"] if "each" in told else [[told["approval"], told["digest"]]]
        return cls(ts, element["action_id"], element["value"], tuple((str(name), str(digest)) for name, digest in rows))


def right(remedy: str, target: str, done: Sequence[tuple[str, str]], plans: Plans, involved: frozenset[str]) -> bool:
    """Return whether a correct plan has this step and all earlier ones were done on that machine."""
    if remedy == LOOKS:
        return True
    if target not in involved:
        return False
    before = {step for name, host in done if host == target for step in names_of(name)}
    good = [plan_steps(plan) for plan in (*plans.correct, *plans.acceptable)]
    if remedy in AROUND:
        return "drain_node" in before and any("drain_node" in plan for plan in good)
    return any(step in names_of(remedy) and before >= set(plan[:at]) for plan in good for at, step in enumerate(plan))


def involved_of(case: SimulatedCase) -> frozenset[str]:
    """Return the machines with a fault."""
    return frozenset(node for row in case.faults for node in row.nodes)


@dataclass
class Approvers:
    """`good`: whether an approval is right for the case, used only by `careful`. `at_once`: all click at the same time,
    twice.
    """

    slack: SlackSandbox
    channel: str
    thread: str
    policy: Policy
    seed: str
    good: Callable[[str], Awaitable[bool]]
    at_once: bool = False
    approved: dict[str, set[str]] = field(default_factory=dict)  # digest and who approved it
    rejected: set[str] = field(default_factory=set)
    read: int = 0
    waited: float = 0.0
    _passed_by: set[tuple[Button, str]] = field(default_factory=set)

    def wanted(self) -> tuple[Button, str] | None:
        """Return an undecided button and its approver, or None."""
        if self.policy == "nobody":
            return None
        rows = sorted(self.buttons(), key=lambda row: -len(row.approvals))
        return next(((row, who) for row in rows for who in APPROVERS if self._open_to(row, who)), None)

    def buttons(self) -> Iterator[Button]:
        """Yield every Approve button in the thread."""
        for message in self.slack.thread(self.channel, self.thread):
            for block in message.get("blocks", []):
                for element in block["elements"] if block["type"] == "actions" else ():
                    if element["action_id"] in (approval.APPROVE_ACTION_ID, approval.APPROVE_ALL_ACTION_ID):
                        yield Button.of(message["ts"], element)

    async def decide(self, button: Button, who: str) -> None:
        """Read the card, then click."""
        self.read += 1
        seconds = make_random(0, "approver", self.seed, self.read).uniform(*READS)
        await asyncio.sleep(seconds)
        self.waited += seconds
        if button not in self.buttons():
            self._passed_by.add((button, who))
            return  # another approver or a timeout was quicker
        if self.policy == "careful" and not all([await self.good(name) for name in button.approvals]):
            await self._refuse(button, who)
        elif self.at_once:
            await asyncio.gather(*(self._approve(button, other) for other in (*APPROVERS, *APPROVERS)))
        else:
            await self._approve(button, who)
        await self.slack.quiet(600)

    def _open_to(self, button: Button, who: str) -> bool:
        fresh = [digest for name, digest in button.carries if name not in self.rejected and who not in self.approved.get(digest, ())]
        return bool(fresh) and (button, who) not in self._passed_by

    async def _approve(self, button: Button, who: str) -> None:
        for _, digest in button.carries:
            self.approved.setdefault(digest, set()).add(who)
        await self.slack.click(who, button.ts, button.action_id, value=button.value)

    async def _refuse(self, button: Button, who: str) -> None:
        """Reject through the form. A button for several actions is skipped; each has its own."""
        if len(button.approvals) > 1:
            self._passed_by |= {(button, other) for other in APPROVERS}
            return
        self.rejected |= set(button.approvals)
        await self.slack.click(who, button.ts, approval.REJECT_ACTION_ID, value=button.value)
        view = await self.slack.wait_for(lambda: self.slack.view(who), 60)
        await self.slack.submit(who, view["id"], {modals.REASON_BLOCK_ID: NOT_SO})
