"""Proposed actions: exclusive checks that could confirm a cause, and the planned actions of reports and `--json`."""

import hashlib
from collections.abc import Iterable, Sequence

from graph.engine.assessment import Assessment
from graph.engine.check_selection import list_hosts_to_test
from graph.remediation.build import PlanContext, build_approval_id, enter_step
from graph.remediation.fault_condition import get_step_precondition
from graph.report import PlannedAction
from graph.state import Remediation, RemediationStep
from tools.action import Action
from tools.checks.check_types import Check
from tools.execution.build import ActionRequest, HostIdentity, build_action, build_check_action, compute_catalogue_hash, find_execution_host
from tools.inventory.inventory import Host
from tools.remedies import REMEDIES
from tools.remedies.remedy import BadArgument

MAX_TEST_HOSTS = 16


def build_check_remediations(assessment: Assessment, plan: PlanContext, remediations: Sequence[Remediation]) -> list[Remediation]:
    """Propose the cheapest exclusive check of the likeliest cause whose hosts are busy, so that it needs an approval.

    Nothing is proposed while such a check is open, or if it was proposed before.
    """
    for remediation in remediations:
        if remediation.is_open and remediation.current_step and remediation.current_step.remedy == "run_check":
            return []
    busy_checks = {
        (fact.check, fact.host) for fact in plan.facts if fact.key == "check.skipped" and fact.value == "busy" and not fact.stale
    }
    for belief in assessment.beliefs:
        if belief.proven:
            continue
        checks = [assessment.reference.checks[name] for name in belief.leaf.confirms if name in assessment.reference.checks]
        for check in sorted(checks, key=lambda check: check.seconds):
            busy_hosts = [host for host in list_hosts_to_test(belief, check, assessment) if (check.id, host) in busy_checks]
            hosts = sorted(busy_hosts)[:MAX_TEST_HOSTS]
            if hosts and not _was_proposed(check, hosts, remediations):
                return [_build_check_remediation(belief.label, check, hosts, plan, remediations)]
    return []


def build_requested_check(
    check: Check, hosts: Sequence[str], assessment: Assessment, plan: PlanContext, remediations: Sequence[Remediation]
) -> Remediation:
    """Return the requested check for the likeliest cause that it can confirm."""
    confirmable = [belief for belief in assessment.beliefs if check.id in belief.leaf.confirms]
    # A cause on a machine comes before one of the job, which says nothing about the tested hosts.
    candidates = [belief for belief in confirmable if belief.leaf.scope != "job"] or confirmable
    label = candidates[0].label if candidates else ""
    return _build_check_remediation(label, check, sorted(hosts), plan, remediations)


def _was_proposed(check: Check, hosts: Sequence[str], remediations: Sequence[Remediation]) -> bool:
    target = ",".join(hosts)
    return any(
        remediation.target == target and any(step.args.get("check") == check.id for step in remediation.rungs)
        for remediation in remediations
    )


def _build_check_remediation(
    label: str, check: Check, hosts: Sequence[str], plan: PlanContext, remediations: Sequence[Remediation]
) -> Remediation:
    target = ",".join(hosts)
    seed = f"{plan.incident} {label} {target} {check.id} {len(remediations)}"
    remediation_id = hashlib.sha256(seed.encode()).hexdigest()[:8]
    step = RemediationStep(remedy="run_check", args={"check": check.id})
    return enter_step(Remediation(id=remediation_id, label=label, target=target, rungs=(step,)), 0, plan)


def list_planned_actions(remediations: Iterable[Remediation], plan: PlanContext) -> list[PlannedAction]:
    """Return the remaining steps in the current plan of each open remediation, without the node's return."""
    actions: list[PlannedAction] = []
    for remediation in remediations:
        if remediation.is_open:
            actions += _list_remediation_actions(remediation, plan)
    return actions


def _list_remediation_actions(remediation: Remediation, plan: PlanContext) -> list[PlannedAction]:
    current_step = remediation.current_step
    if current_step is None or current_step.part == "restore" or remediation.waiting_for == "proof":
        return []
    actions: list[PlannedAction] = []
    for index, step in enumerate(remediation.rungs):
        if index < remediation.rung or step.part == "restore" or step.plan != current_step.plan:
            continue
        action = build_planned_action(remediation.model_copy(update={"rung": index}), plan)
        if action is not None:
            actions.append(_to_planned_action(remediation, index, action))
    return actions


def build_planned_action(remediation: Remediation, plan: PlanContext) -> Action | None:
    """Return the current step's action for the boot that was last seen; None if it cannot be built."""
    step, target = remediation.current_step, plan.inventory.hosts.get(remediation.target)
    if step is None:
        return None
    action_request = ActionRequest(
        step.remedy, step.args, plan.incident, remediation.label, step.devices, fault=get_step_precondition(remediation)
    )
    if step.remedy == "run_check":
        return build_check_action(action_request, remediation.target.split(","), policy="", catalogue=compute_catalogue_hash())
    if target is None:
        return None
    try:
        via = find_execution_host(REMEDIES[step.remedy], target, plan.inventory.hosts)
        return build_action(
            action_request,
            target,
            via,
            _build_host_seen(via, plan),
            policy="",
            catalogue=compute_catalogue_hash(),
            approval=build_approval_id(plan.incident, remediation),
        )
    except BadArgument:
        return None


def _build_host_seen(via_host: Host, plan: PlanContext) -> HostIdentity:
    boot_ids = [str(fact.value) for fact in plan.get_host_facts(via_host.name) if fact.key == "host.boot_id" and fact.value]
    return HostIdentity(boot_ids[-1] if boot_ids else "")


def _to_planned_action(remediation: Remediation, step: int, action: Action) -> PlannedAction:
    return PlannedAction(
        label=remediation.label,
        rung=step,
        remedy=action.remedy,
        target=action.target,
        via=action.via,
        args=dict(action.args),
        argv=action.argv,
        command=action.command,
        risk=action.risk,
        digest=action.digest,
    )
