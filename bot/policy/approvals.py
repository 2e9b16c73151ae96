"""Quorum and approvers of an action: tables, pure functions, and one object that asks Slack.

A quorum is relaxed only together with the condition that relaxed it, and that condition is part of the digest.
"""

import hashlib
import json
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Annotated, ClassVar, Final, Protocol

import structlog
from pydantic import Field

from bot.policy.channels import NOT_FULL_MEMBER_TEXT, NotAllowed, Person, find_tenant_channel, require_colleague
from bot.policy.roles import NamedPeople
from bot.refusal import Refusal
from graph.state import Origin
from kb.schema import StrictModel
from tools.action import Action, Condition, Risk
from tools.execution.drain_status import SLURM_DRAINED
from tools.inventory.inventory import ChannelRow, Inventory
from tools.ledger.record import ActionRecord, ApprovalTerms, list_requesters
from tools.ledger.states import State
from tools.remedies import REMEDIES

# Which approver sets decide about which hosts and risks. Tables and pure functions.
#
# The first matching rule replaces the channel's own approvers. An empty set stays empty: there is no fallback.

# The approvers without a policy: the user group of the incident's channel, and RACKMEDIC_APPROVERS.
CHANNEL_SET: Final = "channel"
NOBODY_SET: Final = "nobody"  # Used if the rules of an action's host groups have no set in common.
USE_USER_GROUP_HINT: Final = "use a Slack user group, named as `approvers` of the channel in the inventory, and change its members in Slack"
HOURS_REMOVED_HINT: Final = f"rules apply at all hours; {USE_USER_GROUP_HINT}, or name an on_call source in a set"


class OnCallSource(StrictModel):
    """Where it stands who is on call: a Slack user group, a JSON file, or what a schedule answers at a URL. One of them."""

    user_group: str = ""
    file: Path | None = None
    webhook: str = ""

    @property
    def problem(self) -> str:
        sources = [bool(self.user_group), self.file is not None, bool(self.webhook)]
        if sum(sources) != 1:
            return "name one of user_group, file and webhook"
        return "" if not self.webhook or self.webhook.startswith("https://") else "a webhook must begin with https://"


class ApproverSet(NamedPeople):
    """Who is in it: users, user groups, and whoever is on call by a source of `on_call`."""

    on_call: tuple[str, ...] = ()


class SetRule(StrictModel):
    """Which sets decide: about hosts of these groups (none: of all), with these risks (none: with all)."""

    removed_fields: ClassVar[Mapping[str, str]] = {"when": HOURS_REMOVED_HINT}

    groups: tuple[str, ...] = ()
    risks: tuple[Risk, ...] = ()
    sets: Annotated[tuple[str, ...], Field(min_length=1)]


class ApproverTable(StrictModel):
    """What a site says of who approves. Without it every channel has its own approvers, about everything."""

    removed_fields: ClassVar[Mapping[str, str]] = {
        "hours": HOURS_REMOVED_HINT,
        "break_glass": f"name everybody who may approve; {USE_USER_GROUP_HINT}",
        "delegation_hours": f"an approver cannot lend the right to approve; {USE_USER_GROUP_HINT}",
    }

    sets: Mapping[str, ApproverSet] = Field(default_factory=dict)
    rules: tuple[SetRule, ...] = ()
    on_call: Mapping[str, OnCallSource] = Field(default_factory=dict)

    def find_sets(self, groups: Iterable[str], risk: Risk) -> tuple[str, ...]:
        """Return the sets that decide about each of these groups."""
        rows = [self._find_first_sets(group, risk) for group in dict.fromkeys(groups)] or [(CHANNEL_SET,)]
        return tuple(name for name in rows[0] if all(name in row for row in rows[1:])) or (NOBODY_SET,)

    def _find_first_sets(self, group: str, risk: Risk) -> tuple[str, ...]:
        for rule in self.rules:
            if (not rule.groups or group in rule.groups) and (not rule.risks or risk in rule.risks):
                return rule.sets
        return (CHANNEL_SET,)

    def list_problems(self, groups: Iterable[str] | None = None) -> list[tuple[tuple[str | int, ...], str]]:
        """Return (position, problem) of every undefined name. `groups`: those of the inventory, if known."""
        known_sets, hosts = {*self.sets, CHANNEL_SET}, None if groups is None else set(groups)
        problems: list[tuple[tuple[str | int, ...], str]] = []
        for at, rule in enumerate(self.rules):
            problems += [(("rules", at, "sets"), f"there is no set {name!r}") for name in rule.sets if name not in known_sets]
            problems += [
                (("rules", at, "groups"), f"the inventory has no group {g!r}") for g in rule.groups if hosts is not None and g not in hosts
            ]
        for name, row in self.sets.items():
            problems += [(("sets", name), f"{name!r} is taken; choose another name")] if name in (CHANNEL_SET, NOBODY_SET) else []
            problems += [
                (("sets", name), f"there is no source {source!r} under on_call") for source in row.on_call if source not in self.on_call
            ]
            problems += [] if row or row.on_call else [(("sets", name), "it has no members")]
        return problems + [(("on_call", name), source.problem) for name, source in self.on_call.items() if source.problem]


log = structlog.get_logger()
RULES_VERSION = 2  # Bump when a rule below changes its meaning: open actions are then proposed anew.
QUORUM_BY_RISK: Mapping[Risk, int] = {"intrusive": 1, "disruptive": 1, "destructive": 2}
UNGUARDED_QUORUM = 2
RELAXED_QUORUM = 1
DECIDE_SECONDS = 900
START_SECONDS = 300
# Relaxes the quorum for cancelling an incident's own stalled job.
STALLED_JOB_CONDITION = Condition(
    "controller", "the stalled job is still there", ("squeue", "-h", "-j", "{job}", "-o", "%T"), "RUNNING|COMPLETING", id="stalled"
)


def get_quorum(action: Action, *, drained: bool, job_stalled: bool) -> int:
    """Return the quorum. Without a scheduler it is two where the node should be drained."""
    conditions = {condition.id for condition in action.conditions if condition.kind == "controller"}
    if action.risk == "destructive":
        relaxed = (drained and SLURM_DRAINED.id in conditions) or (
            job_stalled and action.remedy == "cancel_job" and STALLED_JOB_CONDITION.id in conditions
        )
        return RELAXED_QUORUM if relaxed else QUORUM_BY_RISK[action.risk]
    unguarded = "drained" in REMEDIES[action.remedy].needs and SLURM_DRAINED.id not in conditions
    return UNGUARDED_QUORUM if unguarded else QUORUM_BY_RISK[action.risk]


def build_terms(
    action: Action, group: str, group_size: int, *, drained: bool, job_stalled: bool, approvers: frozenset[str]
) -> ApprovalTerms:
    """Return the terms, frozen when the action is proposed."""
    return ApprovalTerms(
        approvers=approvers,
        quorum=get_quorum(action, drained=drained, job_stalled=job_stalled),
        group=group,
        group_size=max(1, group_size),
        decide_seconds=DECIDE_SECONDS,
        start_seconds=START_SECONDS,
        covers=REMEDIES[action.remedy].covers,
        changes=action.remedy != "run_check",
    )


def compute_policy_hash(channels: Iterable[ChannelRow], fallback: Iterable[str], table: ApproverTable | None = None) -> str:
    """Hash everything that decides who may approve. An action approved under another policy does not run."""
    rows = sorted((row.channel, row.kind, row.approvers, row.internal, sorted(row.groups), row.tenant) for row in channels)
    numbers = [RULES_VERSION, dict(QUORUM_BY_RISK), UNGUARDED_QUORUM, RELAXED_QUORUM, DECIDE_SECONDS, START_SECONDS]
    sets = (table or ApproverTable()).model_dump(mode="json")
    return hashlib.sha256(json.dumps([rows, sorted(fallback), numbers, sets], sort_keys=True).encode()).hexdigest()[:16]


def can_still_approve(record: ActionRecord, voter: str) -> bool:
    """Return whether the voter is an approver, no requester, and has not voted."""
    return voter in record.terms.approvers - list_requesters(record.action) - {vote.voter for vote in record.votes}


def can_still_be_decided(record: ActionRecord, now: datetime) -> bool:
    """Return whether enough approvers are left, in time; otherwise a reminder is pointless."""
    remaining_votes = sum(can_still_approve(record, voter) for voter in record.terms.approvers)
    return record.state is State.PENDING and now < record.decide_by and record.approvals + remaining_votes >= record.terms.quorum


class Directory(Protocol):
    """People as Slack knows them. Raises a Refusal when Slack does not answer."""

    async def get_person(self, user: str) -> Person: ...

    async def list_approvers(self, group: str, team: str) -> frozenset[str]: ...

    async def list_members(self, group: str) -> frozenset[str]: ...

    def refresh(self, *about: str) -> None:
        """Drop answers about these that are older than some seconds."""
        ...


class OnCallSchedule(Protocol):
    """Returns the Slack user ids on call by a source of the policy. Raises a Refusal if the source cannot be read."""

    async def list_on_call(self, name: str) -> frozenset[str]: ...


class EmptyOnCallSchedule:
    async def list_on_call(self, name: str) -> frozenset[str]:
        return frozenset()


@dataclass(frozen=True, slots=True)
class ApprovalRights:
    """Who may approve: the channel's user group and the people from the settings, or the policy's sets."""

    directory: Directory
    inventory: Inventory
    fallback: tuple[str, ...]
    origin_of: Callable[[str], Awaitable[Origin | None]]
    table: ApproverTable = field(default_factory=ApproverTable)
    schedule: OnCallSchedule = field(default_factory=EmptyOnCallSchedule)

    def get_policy_hash(self) -> str:
        return compute_policy_hash(self.inventory.channels, self.fallback, self.table)

    def find_sets(self, hosts: Iterable[str], risk: Risk) -> tuple[str, ...]:
        """Return the sets that decide about an action on these hosts."""
        known_hosts = self.inventory.hosts
        return self.table.find_sets([known_hosts[host].group if host in known_hosts else "" for host in hosts], risk)

    async def list_record_approvers(self, record: ActionRecord) -> frozenset[str]:
        """Return the current members of the sets in the action's terms, asked anew: a decision depends on it."""
        return await self.list_set_members(record.action.incident, record.terms.sets or (CHANNEL_SET,), fresh=True)

    async def list_set_members(self, incident: str, sets: Sequence[str], *, fresh: bool = False) -> frozenset[str]:
        """Return the members of these sets; none for an unknown incident.

        Raise a Refusal if Slack does not answer. An unreadable on-call source counts as empty.
        """
        origin = await self.origin_of(incident)
        if origin is None or not origin.team:
            return frozenset()
        return frozenset[str]().union(*[await self._list_named_set_members(name, incident, origin.team, fresh) for name in sets])

    async def _list_named_set_members(self, name: str, incident: str, team: str, fresh: bool) -> frozenset[str]:
        if name == CHANNEL_SET:
            return await self.list_channel_approvers(incident, fresh=fresh)
        row = self.table.sets.get(name)
        return await self._list_people_in_set(row, team, fresh) if row else frozenset()

    async def _list_people_in_set(self, row: ApproverSet, team: str, fresh: bool) -> frozenset[str]:
        if fresh:
            self.directory.refresh(*row.groups, *row.users)
        groups = [await self.directory.list_approvers(group, team) for group in row.groups]
        called = [await self._list_on_call(source) for source in row.on_call]
        users = sorted(frozenset(row.users).union(*called))
        people = [f"{team}:{user}" for user in users if await self._is_active_human(f"{team}:{user}", team, fresh)]
        return frozenset(people).union(*groups)

    async def _list_on_call(self, source: str) -> frozenset[str]:
        try:
            return await self.schedule.list_on_call(source)
        except Refusal as error:
            log.warning("approvals.on_call_unknown", source=source, why=str(error)[:200])
            return frozenset()

    async def _is_active_human(self, who: str, team: str, fresh: bool) -> bool:
        user = who.rpartition(":")[2]
        if fresh:
            self.directory.refresh(user)
        person = await self.directory.get_person(user)
        return person.human and person.id == user and f"{person.team}:{person.id}" == who and person.team == team

    def get_mention_group(self, origin: Origin, sets: Sequence[str] = ()) -> str:
        """Return the user group to mention: of the deciding sets, else of the channel; empty if there is none.

        A tenant's incident uses the group of the tenant's channel, if that has one.
        """
        if sets and CHANNEL_SET not in sets:
            return next((group for name in sets if name in self.table.sets for group in self.table.sets[name].groups), "")
        rows = {row.channel: row for row in self.inventory.channels}
        tenant_channel = find_tenant_channel(origin, rows)
        if tenant_channel and tenant_channel.approvers:
            return tenant_channel.approvers
        row = rows.get(origin.channel)
        return (row.approvers or (rows[row.internal].approvers if row.internal in rows else "")) if row else ""

    async def list_channel_approvers(self, incident: str, *, fresh: bool = False) -> frozenset[str]:
        """Return the channel's approvers as `TEAM:USER`; none for an unknown incident. `fresh`: ask Slack anew."""
        origin = await self.origin_of(incident)
        return await self._find_channel_approvers(origin, fresh) if origin and origin.team else frozenset()

    async def _find_channel_approvers(self, origin: Origin, fresh: bool) -> frozenset[str]:
        group = self.get_mention_group(origin)
        if fresh:
            self.directory.refresh(group, *self.fallback)
        named_people = [await self.directory.get_person(user) for user in self.fallback]
        approvers = await self.directory.list_approvers(group, origin.team)
        return approvers | {f"{person.team}:{person.id}" for person in named_people if person.human and person.team == origin.team}

    async def get_person_name(self, who: str) -> str:
        """Return the display name of `TEAM:USER`, or the user id if Slack does not answer."""
        user = who.rpartition(":")[2]
        try:
            return (await self.directory.get_person(user)).name or user
        except Refusal:
            return user

    async def require_full_member(self, voter: str) -> None:
        """Refuse everyone but an active human full member of the click's own team."""
        team, _, user = voter.partition(":")
        self.directory.refresh(user)
        person = await self.directory.get_person(user)
        if not user or person.id != user:
            raise NotAllowed(NOT_FULL_MEMBER_TEXT)
        require_colleague(person, team)
