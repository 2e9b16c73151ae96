"""Build an action from a remedy row and checked values. Pure."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache

from tools.action import Action, Condition, FaultCondition, new_approval_id
from tools.checks import CHECKS
from tools.execution.conditions import fill_condition
from tools.execution.drain_status import get_drain_conditions
from tools.inventory.inventory import Host
from tools.nodekit.generate import read_template
from tools.remedies import REMEDIES, get_scheduler_variant
from tools.remedies.remedy import ARGUMENT_KINDS, ArgumentKind, BadArgument, Remedy, check_args, fill_slots


class NoController(BadArgument):
    """The remedy runs via a scheduler's controller, and the inventory names none for that group, or another scheduler's."""


@dataclass(frozen=True, slots=True)
class HostIdentity:
    """The host's identity at proposal time, part of the digest."""

    boot_id: str
    host_key: str = ""


@dataclass(frozen=True, slots=True)
class ActionRequest:
    """One requested change. `requested_by` is empty if RackMedic proposes it."""

    remedy: str
    args: Mapping[str, str]
    incident: str
    label: str = ""
    devices: tuple[str, ...] = ()
    requested_by: str = ""
    # the quorum was relaxed because the target is drained, so it must still be drained at the start
    needs_drained: bool = False
    fault: FaultCondition | None = None  # the fault that must still be present at the start


def find_execution_host(remedy: Remedy, target: Host, hosts: Mapping[str, Host]) -> Host:
    """Return the host on which the node kit runs. Raises NoController."""
    if remedy.at != "controller":
        return target
    controller = hosts.get(target.controller)
    if controller is None:
        raise NoController(f"{remedy.id} runs via a scheduler's controller; set `controller:` for group {target.group!r} in the inventory")
    if remedy.only and remedy.only != target.scheduler:
        raise NoController(
            f"{remedy.id} is {remedy.only.capitalize()}'s, and {target.name} is scheduled by {target.scheduler.capitalize()}"
        )
    return controller


def build_action(
    request: ActionRequest, target: Host, via: Host, seen: HostIdentity, *, policy: str, catalogue: str, approval: str = ""
) -> Action:
    """Return the complete action. Raises BadArgument; KeyError for an unknown remedy is the caller's bug."""
    row = REMEDIES[request.remedy]
    remedy = get_scheduler_variant(row, target.scheduler)
    approval = approval or new_approval_id()
    args = check_args(remedy, dict(request.args) | _build_implied_args(remedy, request, target, approval))
    values = {"node": target.node_name, **args, "target": target.node_name}
    conditions = tuple(fill_condition(row, values) for row in build_conditions(remedy, target, needs_drained=request.needs_drained))
    return Action(
        approval=approval,
        incident=request.incident,
        remedy=row.id,
        args=args,
        argv=(remedy.id, *args.values()),
        command=tuple(fill_slots(word, values) for word in remedy.command),
        limit_seconds=remedy.limit_seconds,
        risk=remedy.risk,
        target=target.name,
        via=via.name,
        devices=request.devices,
        host_key=seen.host_key,
        boot_id=seen.boot_id,
        conditions=conditions,
        proof=remedy.proof,
        proves=request.label,
        undo=remedy.undo,
        policy=policy,
        catalogue=catalogue,
        requested_by=request.requested_by,
        fault=request.fault,
    )


def _build_implied_args(remedy: Remedy, request: ActionRequest, target: Host, approval: str) -> dict[str, str]:
    """Refuse a `node` other than the target: the approver would approve another host."""
    node = request.args.get("node", target.name)
    if "node" in remedy.args and node not in (target.name, target.node_name):
        raise BadArgument(f"node={node[:80]!r}: must be the target, {target.name}")
    return {name: value for name, value in (("node", target.node_name), ("approval", approval)) if name in remedy.args}


def build_check_action(request: ActionRequest, targets: Sequence[str], *, policy: str, catalogue: str) -> Action:
    """Return the action for an exclusive check on several hosts.

    It runs through the fleet, without boot id and kit call.
    """
    remedy = REMEDIES["run_check"]
    args = check_args(remedy, request.args)
    if args["check"] not in CHECKS or not CHECKS[args["check"]].exclusive:
        raise BadArgument(f"check={args['check']!r}: must be an exclusive check, such as {_format_exclusive_checks()}")
    names = ",".join(sorted(targets))
    return Action(
        approval=new_approval_id(),
        incident=request.incident,
        remedy=remedy.id,
        args=args,
        argv=(remedy.id, *args.values()),
        command=(args["check"],),
        limit_seconds=remedy.limit_seconds,
        risk=remedy.risk,
        target=names,
        via=names,
        proves=request.label,
        policy=policy,
        catalogue=catalogue,
        requested_by=request.requested_by,
    )


def build_conditions(remedy: Remedy, target: Host, *, needs_drained: bool = False) -> tuple[Condition, ...]:
    """Return the row's conditions, and the drain conditions where needed. Raises NoController."""
    if needs_drained and not target.controller:
        raise NoController(f"it is unknown whether {target.name} is drained; set `controller:` for group {target.group!r} in the inventory")
    drained = needs_drained or ("drained" in remedy.needs and bool(target.controller))
    return (*remedy.conditions, *(get_drain_conditions(target).drained if drained else ()))


def _format_exclusive_checks() -> str:
    return ", ".join(check.id for check in CHECKS.values() if check.exclusive)


@cache
def compute_catalogue_hash() -> str:
    """Return a hash of remedy rows, argument kinds and kit script.

    An action approved under another catalogue does not run.
    """
    return hash_catalogue(REMEDIES, ARGUMENT_KINDS)


def hash_catalogue(remedies: Mapping[str, Remedy], kinds: Mapping[str, ArgumentKind]) -> str:
    """Hash the given tables and the kit script."""
    tables = {
        "remedies": [asdict(remedy) for remedy in remedies.values()],
        "kinds": {name: asdict(kind) for name, kind in kinds.items()},
        "kit": read_template("act.sh"),
    }
    return hashlib.sha256(json.dumps(tables, sort_keys=True).encode()).hexdigest()[:16]
