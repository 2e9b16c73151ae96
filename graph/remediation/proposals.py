"""Proposed actions: exclusive checks that could decide, and all proposals as rows for reports and `--json`. Pure."""

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

# Propose exclusive checks that could decide but were skipped because the GPUs are in use, one at a time.

MAX_TEST_HOSTS = 16


def build_check_remediations(assessment: Assessment, plan: PlanContext, remediations: Sequence[Remediation]) -> list[Remediation]:
    """Return the cheapest check of the likeliest cause that waits for busy hosts; none while one is open or was
    proposed.
    """
    if any(row.is_open and row.current_step and row.current_step.remedy == "run_check" for row in remediations):
        return []
    busy = {(fact.check, fact.host) for fact in plan.facts if fact.key == "check.skipped" and fact.value == "busy" and not fact.stale}
    for row in assessment.beliefs:
        if row.proven:
            continue
        checks = [assessment.reference.checks[name] for name in row.leaf.confirms if name in assessment.reference.checks]
        for check in sorted(checks, key=lambda check: check.seconds):
            hosts = sorted(host for host in list_hosts_to_test(row, check, assessment) if (check.id, host) in busy)[:MAX_TEST_HOSTS]
            if hosts and not _was_proposed(check, hosts, remediations):
                return [_build_check_remediation(row.label, check, hosts, plan, remediations)]
    return []


def build_requested_check(
    check: Check, hosts: Sequence[str], assessment: Assessment, plan: PlanContext, remediations: Sequence[Remediation]
) -> Remediation:
    """Return the requested check for the likeliest cause that it can confirm."""
    able = [row for row in assessment.beliefs if check.id in row.leaf.confirms]
    label = next((row.label for row in able if row.leaf.scope != "job"), able[0].label if able else "")
    return _build_check_remediation(label, check, sorted(hosts), plan, remediations)


def _was_proposed(check: Check, hosts: Sequence[str], remediations: Sequence[Remediation]) -> bool:
    target = ",".join(hosts)
    return any(row.target == target and any(step.args.get("check") == check.id for step in row.rungs) for row in remediations)


def _build_check_remediation(
    label: str, check: Check, hosts: Sequence[str], plan: PlanContext, remediations: Sequence[Remediation]
) -> Remediation:
    target = ",".join(hosts)
    name = hashlib.sha256(f"{plan.incident} {label} {target} {check.id} {len(remediations)}".encode()).hexdigest()[:8]
    return enter_step(
        Remediation(id=name, label=label, target=target, rungs=(RemediationStep(remedy="run_check", args={"check": check.id}),)), 0, plan
    )


# Proposed actions as rows for reports and `--json`, built as the real ones are but without asking a host.


def list_planned_actions(remediations: Iterable[Remediation], plan: PlanContext) -> list[PlannedAction]:
    """Return present and later steps of each open remediation's present plan, without returns."""
    return [row for remediation in remediations if remediation.is_open for row in _list_for_remediation(remediation, plan)]


def _list_for_remediation(remediation: Remediation, plan: PlanContext) -> list[PlannedAction]:
    present = remediation.current_step
    if present is None or present.part == "restore" or remediation.waiting_for == "proof":
        return []
    ahead = [
        n for n, step in enumerate(remediation.rungs) if n >= remediation.rung and step.part != "restore" and step.plan == present.plan
    ]
    rows = [(n, build_planned_action(remediation.model_copy(update={"rung": n}), plan)) for n in sorted({remediation.rung, *ahead})]
    return [_to_planned_action(remediation, n, action) for n, action in rows if action is not None]


def build_planned_action(remediation: Remediation, plan: PlanContext) -> Action | None:
    """Return the present step's action, with the boot id last seen; None if it cannot be built."""
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


def _build_host_seen(via: Host, plan: PlanContext) -> HostIdentity:
    boots = [str(fact.value) for fact in plan.get_host_facts(via.name) if fact.key == "host.boot_id" and fact.value]
    return HostIdentity(boots[-1] if boots else "")


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
