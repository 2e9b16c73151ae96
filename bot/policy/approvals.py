"""Who must agree to an action, and who may: tables and pure functions, and one small object that asks Slack who the people are.

A quorum is relaxed only together with the condition that relaxed it, and that condition is part of the digest.
"""

import hashlib
import json
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from bot.policy.channels import NOT_OURS, NotAllowed, Person, colleague
from bot.refusal import Refusal
from graph.state import Origin
from tools.acting.scheduled import DRAINED
from tools.action import Action, Condition, Risk
from tools.inventory.hosts import ChannelRow, Inventory
from tools.ledger.record import Record, Terms, requesters_of
from tools.ledger.states import State
from tools.remedies import REMEDIES

RULES = 1
"""Bump when a rule below changes its meaning: cards shown before are then proposed anew."""
QUORUM: Mapping[Risk, int] = {"intrusive": 1, "disruptive": 1, "destructive": 2}
BY_HAND, RELAXED = 2, 1
DECIDE_SECONDS, START_SECONDS = 900, 300

STALLED = Condition(
    "controller", "the stalled job is still there", ("squeue", "-h", "-j", "{job}", "-o", "%T"), "RUNNING|COMPLETING", id="stalled"
)
"""What relaxes the quorum of cancelling an incident's own stalled job."""


def quorum(action: Action, *, drained: bool, job_stalled: bool) -> int:
    """How many must approve. A node that should be drained and about which no scheduler can be asked needs two."""
    conditions = {condition.id for condition in action.conditions if condition.kind == "controller"}
    if action.risk == "destructive":
        relaxed = (drained and DRAINED.id in conditions) or (job_stalled and action.remedy == "cancel_job" and STALLED.id in conditions)
        return RELAXED if relaxed else QUORUM[action.risk]
    unguarded = "drained" in REMEDIES[action.remedy].needs and DRAINED.id not in conditions
    return BY_HAND if unguarded else QUORUM[action.risk]


def terms(action: Action, group: str, group_size: int, *, drained: bool, job_stalled: bool, approvers: frozenset[str]) -> Terms:
    """The request's terms, frozen when it is proposed."""
    return Terms(
        approvers=approvers,
        quorum=quorum(action, drained=drained, job_stalled=job_stalled),
        group=group,
        group_size=max(1, group_size),
        decide_seconds=DECIDE_SECONDS,
        start_seconds=START_SECONDS,
        covers=REMEDIES[action.remedy].covers,
        changes=action.remedy != "run_check",
    )


def policy_hash(channels: Iterable[ChannelRow], fallback: Iterable[str]) -> str:
    """Changes when anything does that decides who may approve what: an action approved under another policy does not run."""
    rows = sorted((row.channel, row.kind, row.approvers, row.internal, sorted(row.groups)) for row in channels)
    numbers = [RULES, dict(QUORUM), BY_HAND, RELAXED, DECIDE_SECONDS, START_SECONDS]
    return hashlib.sha256(json.dumps([rows, sorted(fallback), numbers], sort_keys=True).encode()).hexdigest()[:16]


def may_still_approve(record: Record, voter: str) -> bool:
    """Among the approvers, nobody who asked for it, and not heard yet."""
    heard = {vote.voter for vote in record.votes}
    return voter in record.terms.approvers and voter not in requesters_of(record.action) | heard


def can_still_be_decided(record: Record, now: datetime) -> bool:
    """Whether enough approvers are left who have not spoken, in time: nobody else is worth calling."""
    left = sum(may_still_approve(record, voter) for voter in record.terms.approvers)
    return record.state is State.PENDING and now < record.decide_by and record.approvals + left >= record.terms.quorum


class Directory(Protocol):
    """People as Slack knows them (`bot.slack.people`). Raises a Refusal where Slack does not say."""

    async def person(self, user: str) -> Person: ...

    async def approvers(self, group: str, team: str) -> frozenset[str]: ...

    def refresh(self, *about: str) -> None:
        """What is known of these for longer than some seconds is asked anew."""
        ...


@dataclass(frozen=True, slots=True)
class Rights:
    """Who may approve what an incident proposes: the user group of its channel, and the people named in the settings."""

    directory: Directory
    inventory: Inventory
    fallback: tuple[str, ...]
    origin_of: Callable[[str], Awaitable[Origin | None]]

    def policy(self) -> str:
        """The hash of the policy as it is now."""
        return policy_hash(self.inventory.channels, self.fallback)

    def group_of(self, origin: Origin) -> str:
        """The user group that cards of this place mention; empty without one."""
        rows = {row.channel: row for row in self.inventory.channels}
        row = rows.get(origin.channel)
        return (row.approvers or (rows[row.internal].approvers if row.internal in rows else "")) if row else ""

    async def approvers(self, incident: str, *, fresh: bool = False) -> frozenset[str]:
        """As `TEAM:USER`. `fresh`: a decision hangs on it. An unknown incident, or nobody to be found, is nobody."""
        origin = await self.origin_of(incident)
        if origin is None or not origin.team:
            return frozenset()
        group = self.group_of(origin)
        if fresh:
            self.directory.refresh(group, *self.fallback)
        named = [await self.directory.person(user) for user in self.fallback]
        found = await self.directory.approvers(group, origin.team)
        return found | {f"{who.team}:{who.id}" for who in named if who.human and who.team == origin.team}

    async def name(self, who: str) -> str:
        """What people call `TEAM:USER`, for what they read; the user's id alone where nobody says."""
        user = who.rpartition(":")[2]
        try:
            return (await self.directory.person(user)).name or user
        except Refusal:
            return user

    async def admit(self, voter: str) -> None:
        """Refuses everybody but an active human full member of the team that their click names."""
        team, _, user = voter.partition(":")
        self.directory.refresh(user)
        who = await self.directory.person(user)
        if not user or who.id != user:
            raise NotAllowed(NOT_OURS)
        colleague(who, team)
