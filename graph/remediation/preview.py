"""Proposed actions as rows for reports and `--json`, built as the real ones are but without asking a host. Pure."""

from collections.abc import Iterable

from graph.remediation.build import PlanContext, build_approval_id
from graph.remediation.fault_condition import get_step_precondition
from graph.report import PlannedAction
from graph.state import Remediation
from tools.action import Action
from tools.execution.build import ActionRequest, HostIdentity, build_action, build_check_action, compute_catalogue_hash, find_execution_host
from tools.inventory.inventory import Host
from tools.remedies import REMEDIES
from tools.remedies.remedy import BadArgument


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
