"""Turn a remediation step into an action for approval, with the boot id, host key and process start read now.

A step that could not run is not proposed: an unmet condition sends the remediation back to its wait.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from bot.policy.approvals import CHANNEL_SET, STALLED_JOB_CONDITION, ApprovalRights, build_terms
from graph.remediation.fault_condition import get_step_precondition
from graph.state import Remediation, RemediationStep
from kb.needle_search import split_lines
from tools.action import Action, Risk
from tools.clock import Clock
from tools.execution.build import ActionRequest, HostIdentity, build_action, build_check_action, find_execution_host
from tools.execution.conditions import ConditionResult, fill_condition, find_unmet_conditions, is_job_forgotten, read_process_start
from tools.execution.drain_status import SLURM_DRAINED, format_drain_status, read_drain_status
from tools.execution.identity import read_boot_id, read_host_key_fingerprint
from tools.fact import Fact, Status, Value
from tools.inventory.inventory import Host, Inventory
from tools.inventory.job_lookup import JobHosts
from tools.ledger.record import ApprovalTerms
from tools.remedies import REMEDIES
from tools.remedies.remedy import BadArgument
from tools.transport import Transport, Unreachable

DRAIN_REASON_PREFIX = "rackmedic:"  # Begins the scheduler's reason of our drains; the approval id follows.
FactsLoader = Callable[[str], Awaitable[list[Fact]]]
JobPlaceLookup = Callable[[str], Awaitable[JobHosts]]
MAX_MEASUREMENT_AGE = timedelta(minutes=30)  # Older measurements do not say what a job does now.


class ProposalDeferred(Exception):
    """Not proposed. `event` is what the ladder hears, the text why."""

    def __init__(self, event: str, says: str) -> None:
        super().__init__(says)
        self.event = event


@dataclass(frozen=True, slots=True)
class Proposal:
    action: Action
    terms: ApprovalTerms


@dataclass(frozen=True, slots=True)
class Deciders:
    """The approvers, and the policy sets they come from (none: the channel's own)."""

    who: frozenset[str]
    sets: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Proposer:
    """Builds proposals from read-only questions to hosts and to Slack."""

    transport: Transport
    inventory: Inventory
    rights: ApprovalRights
    catalogue: str
    facts_of: FactsLoader
    place: JobPlaceLookup
    clock: Clock

    async def build_proposal(self, incident: str, remediation: Remediation, approval: str, *, requested_by: str = "") -> Proposal:
        """Build the current step's proposal. Raise ProposalDeferred if it cannot be proposed now."""
        step = remediation.current_step
        if step is None:
            raise ProposalDeferred("cannot", "no rung is left")
        request = ActionRequest(
            step.remedy, step.args, incident, remediation.label, step.devices, requested_by, fault=get_step_precondition(remediation)
        )
        approvers = await self._find_deciders(incident, remediation.target.split(","), REMEDIES[step.remedy].risk)
        try:
            if step.remedy == "run_check":
                return self._build_check_proposal(request, remediation, approval, approvers)
            return await self._build_change_proposal(request, remediation, step, approval, approvers)
        except BadArgument as error:
            raise ProposalDeferred("cannot", str(error)) from error
        except Unreachable as error:
            raise ProposalDeferred("unreachable", str(error)) from error

    def _build_check_proposal(self, request: ActionRequest, remediation: Remediation, approval: str, approvers: Deciders) -> Proposal:
        hosts = remediation.target.split(",")
        check_action = build_check_action(request, hosts, policy=self.rights.get_policy_hash(), catalogue=self.catalogue)
        action = replace(check_action, approval=approval)
        group = self.inventory.hosts[hosts[0]].group if hosts[0] in self.inventory.hosts else ""
        return Proposal(action, self._build_terms(action, group, drained=False, stalled=False, approvers=approvers))

    async def _build_change_proposal(
        self, request: ActionRequest, remediation: Remediation, step: RemediationStep, approval: str, approvers: Deciders
    ) -> Proposal:
        target = self.inventory.hosts.get(remediation.target)
        if target is None:
            raise ProposalDeferred("cannot", f"{remediation.target} is not in the inventory")
        via = find_execution_host(REMEDIES[step.remedy], target, self.inventory.hosts)
        identity = HostIdentity(await read_boot_id(via.name, self.transport), await read_host_key_fingerprint(via.name, self.transport))
        drained = await self._is_drained(target)
        relaxing = drained and REMEDIES[step.remedy].risk == "destructive"
        request = replace(request, args=await self._resolve_live_args(step, target), needs_drained=relaxing)
        action = build_action(
            request, target, via, identity, policy=self.rights.get_policy_hash(), catalogue=self.catalogue, approval=approval
        )
        stalled = step.remedy == "cancel_job" and await self._is_job_stalled(request.incident, step.args["job"], target)
        if stalled:
            action = replace(action, conditions=(*action.conditions, fill_condition(STALLED_JOB_CONDITION, action.args)))
        self._require_conditions(action, await find_unmet_conditions(action, self.transport, controller=target.controller))
        return Proposal(action, self._build_terms(action, target.group, drained=drained, stalled=stalled, approvers=approvers))

    async def _is_job_stalled(self, incident: str, job: str, target: Host) -> bool:
        hosts = (await self.place(job)).hosts
        return target.name in hosts and is_job_stalled(await self.facts_of(incident), hosts, self.clock.now())

    async def _is_drained(self, target: Host) -> bool:
        return bool(target.controller) and (await read_drain_status(target, self.transport)).ok is True

    async def _resolve_live_args(self, step: RemediationStep, target: Host) -> Mapping[str, str]:
        """Add the process's start time: a later process with the same pid is another one."""
        if step.remedy != "kill_gpu_process":
            return step.args
        started = await read_process_start(step.args["pid"], target.name, self.transport)
        if started.ok is None:
            raise Unreachable(target.name, started.saw)
        if started.saw == "gone":
            raise ProposalDeferred("needless", f"process {step.args['pid']} ended by itself")
        return {**step.args, "ticks": started.saw}

    def _require_conditions(self, action: Action, missing: Sequence[ConditionResult]) -> None:
        """Raise ProposalDeferred unless every controller condition holds."""
        for condition in missing:
            if action.remedy == "cancel_job" and (condition.ok is False or is_job_forgotten(condition)):
                raise ProposalDeferred("over", f"job {action.args['job']} has ended by itself")
            if condition.ok is None:
                raise ProposalDeferred("unreachable", f"could not see whether {condition.says}: {condition.saw}")
            if condition.id == SLURM_DRAINED.id:
                raise ProposalDeferred("not_idle", f"{action.target} is {format_drain_status(condition) or 'not drained'}")
            if action.remedy == "drain_node" and condition.saw.startswith(("drain", "inval", "cordoned")):
                raise ProposalDeferred("held", f"{action.target} is out of service already ({split_lines(condition.saw)[0]})")
            raise ProposalDeferred("cannot", f"not so: {condition.says} (it says {condition.saw[:80]!r})")

    def _build_terms(self, action: Action, group: str, *, drained: bool, stalled: bool, approvers: Deciders) -> ApprovalTerms:
        size = len(self.inventory.groups.get(group, ()))
        plain = build_terms(action, group, size, drained=drained, job_stalled=stalled, approvers=approvers.who)
        return replace(plain, sets=approvers.sets)

    async def _find_deciders(self, incident: str, hosts: Sequence[str], risk: Risk) -> Deciders:
        sets = self.rights.find_sets(hosts, risk)
        members = await self.rights.list_set_members(incident, sets)
        return Deciders(members, () if sets == (CHANNEL_SET,) else sets)


def is_job_stalled(facts: Sequence[Fact], hosts: Sequence[str], now: datetime) -> bool:
    """Return whether a job verifiably does nothing: every GPU of these hosts was recently measured idle.

    Logs do not count, because any tenant can write them. An unmeasured host counts as not stalled.
    """
    used: dict[str, list[Value]] = {host: [] for host in hosts}
    for fact in facts:
        if fact.key == "gpu.util" and fact.host in used:
            recent = fact.status is Status.OK and not fact.stale and fact.time is not None and fact.time >= now - MAX_MEASUREMENT_AGE
            used[fact.host].append(fact.value if recent else None)
    return bool(used) and all(values and all(value == 0 and value is not False for value in values) for values in used.values())
