"""A remedy's row and checked values → an action. Pure: the words that will run, the conditions and the digest follow from the arguments alone."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace

from tools.action import Action, Condition, new_approval_id
from tools.inventory import Host
from tools.remedies import REMEDIES
from tools.remedy import KINDS, BadArgument, Remedy, check_args, fill

DRAINED = Condition("controller", "the node is drained and runs no job", ("sinfo", "-h", "-N", "-n", "{target}", "-o", "%T"), "drained")
STALLED = Condition("controller", "the job still runs", ("squeue", "-h", "-j", "{job}", "-o", "%T"), "RUNNING|COMPLETING")


class NoController(BadArgument):
    """The remedy runs via a scheduler's controller, and the inventory names none for that group."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What is known of the host an action would run on, at the time of proposing: it is part of the digest."""

    boot_id: str
    host_key: str = ""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is to be done: by which incident, for which label, to whom. `requested_by` is empty when RackMedic itself proposes."""

    remedy: str
    args: Mapping[str, str]
    incident: str
    label: str = ""
    devices: tuple[str, ...] = ()
    requested_by: str = ""
    needs_drained: bool = False
    """The quorum was relaxed because the target is drained: then it must still be when the action starts."""


def via_of(remedy: Remedy, target: Host, hosts: Mapping[str, Host]) -> Host:
    """The host on which the kit runs. NoController where there is none to run it on."""
    if remedy.at != "controller":
        return target
    controller = hosts.get(target.controller)
    if controller is None:
        raise NoController(f"{remedy.id} runs via a Slurm controller; set `controller:` for group {target.group!r} in the inventory")
    return controller


def build(wanted: Wanted, target: Host, via: Host, seen: Seen, *, policy: str, catalogue: str, approval: str = "") -> Action:
    """The action, whole. BadArgument for values that do not fit; KeyError for an unknown remedy is a bug of the caller."""
    remedy = REMEDIES[wanted.remedy]
    approval = approval or new_approval_id()
    given = dict(wanted.args) | ({"approval": approval} if "approval" in remedy.args else {})
    args = check_args(remedy, given)
    values = args | {"target": target.name}
    conditions = tuple(_filled(row, values) for row in conditions_of(remedy, target, needs_drained=wanted.needs_drained))
    return Action(
        approval=approval,
        incident=wanted.incident,
        remedy=remedy.id,
        args=args,
        argv=(remedy.id, *args.values()),
        command=tuple(fill(word, values) for word in remedy.command),
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
    )


def build_check(wanted: Wanted, targets: Sequence[str], *, policy: str, catalogue: str) -> Action:
    """An exclusive check on a set of hosts: it runs through the fleet under the claim, so it has no boot id and no kit call."""
    remedy = REMEDIES["run_check"]
    args = check_args(remedy, wanted.args)
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


def conditions_of(remedy: Remedy, target: Host, *, needs_drained: bool = False) -> tuple[Condition, ...]:
    """The row's own conditions, and that the node is drained where the remedy needs it and there is a controller to ask."""
    drained = ("drained" in remedy.needs or needs_drained) and bool(target.controller)
    return (*remedy.conditions, *((DRAINED,) if drained else ()))


def _filled(row: Condition, values: Mapping[str, str]) -> Condition:
    return replace(row, argv=tuple(fill(word, values) for word in row.argv), expects=fill(row.expects, values))


def catalogue_hash() -> str:
    """Changes when any row or kind of argument does: an action approved under another catalogue does not run."""
    rows = [asdict(remedy) for remedy in REMEDIES.values()] + [asdict(kind) for kind in KINDS.values()]
    return hashlib.sha256(json.dumps(rows, sort_keys=True, default=str).encode()).hexdigest()[:16]
