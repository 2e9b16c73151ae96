"""A rung → an action as it is put up for decision: boot id, host key and process start are read now, and the terms follow from what is seen.

Nothing is proposed that could not run: a condition that does not hold yet sends the ladder back to its wait instead.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from bot.policy.approvals import STALLED, Rights, terms
from bot.policy.approver_sets import CHANNEL
from graph.ladders.fault import guard_of
from graph.state import Ladder, Rung
from kb.scan import lines_in
from tools.acting.build import ActionWanted, HostSeen, build, build_check, via_of
from tools.acting.conditions import ConditionSeen, filled, job_forgotten, process_start, unmet
from tools.acting.identity import boot_id, fingerprint
from tools.acting.scheduled import DRAINED, drained, standing
from tools.action import Action, Risk
from tools.clock import Clock
from tools.fact import Fact, Status, Value
from tools.inventory.hosts import Host, Inventory
from tools.inventory.jobs import JobPlace
from tools.ledger.record import Terms
from tools.remedies import REMEDIES
from tools.remedies.row import BadArgument
from tools.transport import Transport, Unreachable

OURS = "rackmedic:"
"""How the reasons of our drains begin; the approval follows."""
FactsOf = Callable[[str], Awaitable[list[Fact]]]
PlaceOf = Callable[[str], Awaitable[JobPlace]]
MEASURED = timedelta(minutes=30)
"""How long ago a measurement may be that says what a job does now."""


class Withheld(Exception):
    """Not proposed. `event` is what the ladder hears, the text why."""

    def __init__(self, event: str, says: str) -> None:
        super().__init__(says)
        self.event = event


@dataclass(frozen=True, slots=True)
class Proposal:
    """What people decide on."""

    action: Action
    terms: Terms


@dataclass(frozen=True, slots=True)
class Deciders:
    """Who decides, and by which sets of the policy (none: the channel's own)."""

    who: frozenset[str]
    sets: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Proposer:
    """Asks hosts harmless questions, and Slack who may approve."""

    transport: Transport
    inventory: Inventory
    rights: Rights
    catalogue: str
    facts_of: FactsOf
    place: PlaceOf
    clock: Clock

    async def make(self, incident: str, ladder: Ladder, approval: str, *, requested_by: str = "") -> Proposal:
        """The present rung of a ladder. Withheld where it cannot be proposed now."""
        rung = ladder.now
        if rung is None:
            raise Withheld("cannot", "no rung is left")
        wanted = ActionWanted(rung.remedy, rung.args, incident, ladder.label, rung.devices, requested_by, fault=guard_of(ladder))
        approvers = await self._deciders(incident, ladder.target.split(","), REMEDIES[rung.remedy].risk)
        try:
            if rung.remedy == "run_check":
                return self._check(wanted, ladder, approval, approvers)
            return await self._change(wanted, ladder, rung, approval, approvers)
        except BadArgument as why:
            raise Withheld("cannot", str(why)) from why
        except Unreachable as why:
            raise Withheld("unreachable", str(why)) from why

    def _check(self, wanted: ActionWanted, ladder: Ladder, approval: str, approvers: Deciders) -> Proposal:
        hosts = ladder.target.split(",")
        made = build_check(wanted, hosts, policy=self.rights.policy(), catalogue=self.catalogue)
        action = replace(made, approval=approval)
        group = self.inventory.hosts[hosts[0]].group if hosts[0] in self.inventory.hosts else ""
        return Proposal(action, self._terms(action, group, drained=False, stalled=False, approvers=approvers))

    async def _change(self, wanted: ActionWanted, ladder: Ladder, rung: Rung, approval: str, approvers: Deciders) -> Proposal:
        target = self.inventory.hosts.get(ladder.target)
        if target is None:
            raise Withheld("cannot", f"{ladder.target} is not in the inventory")
        via = via_of(REMEDIES[rung.remedy], target, self.inventory.hosts)
        seen = HostSeen(await boot_id(via.name, self.transport), await fingerprint(via.name, self.transport))
        drained = await self._drained(target)
        relaxing = drained and REMEDIES[rung.remedy].risk == "destructive"
        wanted = replace(wanted, args=await self._live(rung, target), needs_drained=relaxing)
        action = build(wanted, target, via, seen, policy=self.rights.policy(), catalogue=self.catalogue, approval=approval)
        stalled = rung.remedy == "cancel_job" and await self._stalled(wanted.incident, rung.args["job"], target)
        if stalled:
            action = replace(action, conditions=(*action.conditions, filled(STALLED, action.args)))
        self._stands(action, await unmet(action, self.transport, controller=target.controller))
        return Proposal(action, self._terms(action, target.group, drained=drained, stalled=stalled, approvers=approvers))

    async def _stalled(self, incident: str, job: str, target: Host) -> bool:
        hosts = (await self.place(job)).hosts
        return target.name in hosts and is_stalled(await self.facts_of(incident), hosts, self.clock.now())

    async def _drained(self, target: Host) -> bool:
        return bool(target.controller) and (await drained(target, self.transport)).ok is True

    async def _live(self, rung: Rung, target: Host) -> Mapping[str, str]:
        """The arguments, with the process's start as it is now: another process of that number is not the one that was looked at."""
        if rung.remedy != "kill_gpu_process":
            return rung.args
        started = await process_start(rung.args["pid"], target.name, self.transport)
        if started.ok is None:
            raise Unreachable(target.name, started.saw)
        if started.saw == "gone":
            raise Withheld("needless", f"process {rung.args['pid']} ended by itself")
        return {**rung.args, "ticks": started.saw}

    def _stands(self, action: Action, missing: Sequence[ConditionSeen]) -> None:
        """Withheld unless every condition of the controller holds."""
        for one in missing:
            if action.remedy == "cancel_job" and (one.ok is False or job_forgotten(one)):
                raise Withheld("over", f"job {action.args['job']} has ended by itself")
            if one.ok is None:
                raise Withheld("unreachable", f"could not see whether {one.says}: {one.saw}")
            if one.id == DRAINED.id:
                raise Withheld("not_idle", f"{action.target} is {standing(one) or 'not drained'}")
            if action.remedy == "drain_node" and one.saw.startswith(("drain", "inval", "cordoned")):
                raise Withheld("held", f"{action.target} is out of service already ({lines_in(one.saw)[0]})")
            raise Withheld("cannot", f"not so: {one.says} (it says {one.saw[:80]!r})")

    def _terms(self, action: Action, group: str, *, drained: bool, stalled: bool, approvers: Deciders) -> Terms:
        size = len(self.inventory.groups.get(group, ()))
        plain = terms(action, group, size, drained=drained, job_stalled=stalled, approvers=approvers.who)
        return replace(plain, sets=approvers.sets)

    async def _deciders(self, incident: str, hosts: Sequence[str], risk: Risk) -> Deciders:
        named = self.rights.sets_for(hosts, risk)
        who = await self.rights.members_of_sets(incident, named)
        return Deciders(who, () if named == (CHANNEL,) else named)


def is_stalled(facts: Sequence[Fact], hosts: Sequence[str], now: datetime) -> bool:
    """Whether a job on these hosts verifiably does nothing: lately no GPU of any of them worked. What a log says counts for nothing here, as
    any tenant can write one; where a host was not measured nobody knows."""
    used: dict[str, list[Value]] = {host: [] for host in hosts}
    for fact in facts:
        if fact.key == "gpu.util" and fact.host in used:
            recent = fact.status is Status.OK and not fact.stale and fact.time is not None and fact.time >= now - MEASURED
            used[fact.host].append(fact.value if recent else None)
    return bool(used) and all(values and all(value == 0 and value is not False for value in values) for values in used.values())
