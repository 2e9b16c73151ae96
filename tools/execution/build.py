"""A remedy's row and checked values → an action. Pure: the words that will run, the conditions and the digest follow from the arguments alone."""

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
    """What is known of the host an action would run on, at the time of proposing: it is part of the digest."""

    boot_id: str
    host_key: str = ""


@dataclass(frozen=True, slots=True)
class ActionRequest:
    """What is to be done: by which incident, for which label, to whom. `requested_by` is empty when RackMedic itself proposes."""

    remedy: str
    args: Mapping[str, str]
    incident: str
    label: str = ""
    devices: tuple[str, ...] = ()
    requested_by: str = ""
    needs_drained: bool = False
    """The quorum was relaxed because the target is drained: then it must still be when the action starts."""
    fault: FaultCondition | None = None
    """What it is for, where that must still be there when the action starts."""


def find_execution_host(remedy: Remedy, target: Host, hosts: Mapping[str, Host]) -> Host:
    """The host on which the kit runs. NoController where there is none to run it on."""
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
    wanted: ActionRequest, target: Host, via: Host, seen: HostIdentity, *, policy: str, catalogue: str, approval: str = ""
) -> Action:
    """The action, whole. BadArgument for values that do not fit; KeyError for an unknown remedy is a bug of the caller."""
    row = REMEDIES[wanted.remedy]
    remedy = get_scheduler_variant(row, target.scheduler)
    approval = approval or new_approval_id()
    args = check_args(remedy, dict(wanted.args) | _build_implied_args(remedy, wanted, target, approval))
    values = {"node": target.node_name, **args, "target": target.node_name}
    conditions = tuple(fill_condition(row, values) for row in build_conditions(remedy, target, needs_drained=wanted.needs_drained))
    return Action(
        approval=approval,
        incident=wanted.incident,
        remedy=row.id,
        args=args,
        argv=(remedy.id, *args.values()),
        command=tuple(fill_slots(word, values) for word in remedy.command),
        limit_seconds=remedy.limit_seconds,
        risk=remedy.risk,
        target=target.name,
        via=via.name,
        devices=wanted.devices,
        host_key=seen.host_key,
        boot_id=seen.boot_id,
        conditions=conditions,
        proof=remedy.proof,
        proves=wanted.label,
        undo=remedy.undo,
        policy=policy,
        catalogue=catalogue,
        requested_by=wanted.requested_by,
        fault=wanted.fault,
    )


def _build_implied_args(remedy: Remedy, wanted: ActionRequest, target: Host, approval: str) -> dict[str, str]:
    """Arguments that follow from the action itself. BadArgument when `node` is asked for but is not the target: one would approve another host."""
    node = wanted.args.get("node", target.name)
    if "node" in remedy.args and node not in (target.name, target.node_name):
        raise BadArgument(f"node={node[:80]!r}: must be the target, {target.name}")
    return {name: value for name, value in (("node", target.node_name), ("approval", approval)) if name in remedy.args}


def build_check_action(wanted: ActionRequest, targets: Sequence[str], *, policy: str, catalogue: str) -> Action:
    """An exclusive check on a set of hosts: it runs through the fleet under the claim, so it has no boot id and no kit call."""
    remedy = REMEDIES["run_check"]
    args = check_args(remedy, wanted.args)
    if args["check"] not in CHECKS or not CHECKS[args["check"]].exclusive:
        raise BadArgument(f"check={args['check']!r}: must be an exclusive check, such as {_format_exclusive_checks()}")
    names = ",".join(sorted(targets))
    return Action(
        approval=new_approval_id(),
        incident=wanted.incident,
        remedy=remedy.id,
        args=args,
        argv=(remedy.id, *args.values()),
        command=(args["check"],),
        limit_seconds=remedy.limit_seconds,
        risk=remedy.risk,
        target=names,
        via=names,
        proves=wanted.label,
        policy=policy,
        catalogue=catalogue,
        requested_by=wanted.requested_by,
    )


def build_conditions(remedy: Remedy, target: Host, *, needs_drained: bool = False) -> tuple[Condition, ...]:
    """The row's own conditions, and that the node is drained where the remedy needs it and there is a controller to ask."""
    if needs_drained and not target.controller:
        raise NoController(f"nobody can say that {target.name} is drained; set `controller:` for group {target.group!r} in the inventory")
    drained = needs_drained or ("drained" in remedy.needs and bool(target.controller))
    return (*remedy.conditions, *(get_drain_conditions(target).drained if drained else ()))


def _format_exclusive_checks() -> str:
    return ", ".join(check.id for check in CHECKS.values() if check.exclusive)


@cache
def compute_catalogue_hash() -> str:
    """Changes when any row, any kind of argument or the kit's script does: an action approved under another catalogue does not run.
    Hashed once a process: the tables are constants, and a plan of sixty actions asks sixty times."""
    return hash_catalogue(REMEDIES, ARGUMENT_KINDS)


def hash_catalogue(remedies: Mapping[str, Remedy], kinds: Mapping[str, ArgumentKind]) -> str:
    """The same of any tables."""
    tables = {
        "remedies": [asdict(remedy) for remedy in remedies.values()],
        "kinds": {name: asdict(kind) for name, kind in kinds.items()},
        "kit": read_template("act.sh"),
    }
    return hashlib.sha256(json.dumps(tables, sort_keys=True).encode()).hexdigest()[:16]
