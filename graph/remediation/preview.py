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


def list_planned_actions(ladders: Iterable[Remediation], yard: PlanContext) -> list[PlannedAction]:
    """Return present and later steps of each open remediation's present plan, without returns."""
    return [row for ladder in ladders if ladder.is_open for row in _list_for_remediation(ladder, yard)]


def _list_for_remediation(ladder: Remediation, yard: PlanContext) -> list[PlannedAction]:
    present = ladder.current_step
    if present is None or present.part == "restore" or ladder.waiting_for == "proof":
        return []
    ahead = [n for n, rung in enumerate(ladder.rungs) if n >= ladder.rung and rung.part != "restore" and rung.plan == present.plan]
    rows = [(n, build_planned_action(ladder.model_copy(update={"rung": n}), yard)) for n in sorted({ladder.rung, *ahead})]
    return [_to_planned_action(ladder, n, action) for n, action in rows if action is not None]


def build_planned_action(ladder: Remediation, yard: PlanContext) -> Action | None:
    """Return the present step's action, with the boot id last seen; None if it cannot be built."""
    rung, target = ladder.current_step, yard.inventory.hosts.get(ladder.target)
    if rung is None:
        return None
    wanted = ActionRequest(rung.remedy, rung.args, yard.incident, ladder.label, rung.devices, fault=get_step_precondition(ladder))
    if rung.remedy == "run_check":
        return build_check_action(wanted, ladder.target.split(","), policy="", catalogue=compute_catalogue_hash())
    if target is None:
        return None
    try:
        via = find_execution_host(REMEDIES[rung.remedy], target, yard.inventory.hosts)
        return build_action(
            wanted,
            target,
            via,
            _build_host_seen(via, yard),
            policy="",
            catalogue=compute_catalogue_hash(),
            approval=build_approval_id(yard.incident, ladder),
        )
    except BadArgument:
        return None


def _build_host_seen(via: Host, yard: PlanContext) -> HostIdentity:
    boots = [str(fact.value) for fact in yard.get_host_facts(via.name) if fact.key == "host.boot_id" and fact.value]
    return HostIdentity(boots[-1] if boots else "")


def _to_planned_action(ladder: Remediation, rung: int, action: Action) -> PlannedAction:
    return PlannedAction(
        label=ladder.label,
        rung=rung,
        remedy=action.remedy,
        target=action.target,
        via=action.via,
        args=dict(action.args),
        argv=action.argv,
        command=action.command,
        risk=action.risk,
        digest=action.digest,
    )
