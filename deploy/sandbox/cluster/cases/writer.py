"""Write a cluster's faults as a case file for `reader`. What a case cannot express is listed in `left_out`."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import yaml

from deploy.sandbox.cluster.cases.case import CaseTicket
from deploy.sandbox.cluster.faults import FAULTS
from deploy.sandbox.cluster.plan import InjectedFault, Modifier
from deploy.sandbox.cluster.seeded_random import make_random

CASE_HEADER = """# What was broken and what was asked, to be diagnosed again:  rackmedic diagnose --sandbox {name}.yaml
# As a question of the benchmark:  rackmedic bench run --cases {name}.yaml   (truth.remediation is for you to add)
"""
_BLAMED_SCOPES = ("gpu", "node", "rack")  # scopes in which a machine is to blame


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The content of a case. Fault times are seconds from `t0`; `left_out` describes what a case cannot express."""

    name: str
    profile: str
    nodes: tuple[str, ...]
    t0: datetime
    seed: int
    faults: tuple[InjectedFault, ...]
    modifiers: tuple[Modifier, ...]
    ticket: CaseTicket
    left_out: tuple[str, ...] = ()


def write_case(of: Snapshot) -> str:
    """Return the case file."""
    rows = [pinned for row in of.faults for pinned in _pin_gpus(row, of.seed)]
    case: dict[str, Any] = {
        "id": of.name,
        "profile": of.profile,
        "nodes": list(of.nodes),
        "t0": of.t0.isoformat().replace("+00:00", "Z"),
        "layer": _classify_layer(of.faults, of.modifiers),
        "ticket": _write_ticket(of.ticket),
        "faults": [_write_fault(row) for row in rows],
        "modifiers": [format_modifier(modifier) for modifier in of.modifiers],
        "truth": _write_truth(rows),
    }
    case |= {"left_out": list(of.left_out)} if of.left_out else {}
    return CASE_HEADER.format(name=of.name) + yaml.safe_dump(case, sort_keys=False, allow_unicode=True, width=140)


def format_modifier(modifier: Modifier) -> str:
    args = ", ".join(f"{name}={_quote_value(value)}" for name, value in modifier.args.items())
    return modifier.id + (f"({args})" if args else "") + (f"@{modifier.host}" if modifier.host else "")


def _quote_value(value: str) -> str:
    if not any(char in value for char in ",()@'\"") and value == value.strip():
        return value
    return f"'{value}'" if '"' in value else f'"{value}"'


def _pin_gpus(injected_fault: InjectedFault, seed: int) -> Iterable[InjectedFault]:
    """Return one row per GPU, with a randomly chosen GPU made explicit: another process would draw differently."""
    if FAULTS[injected_fault.fault].scope != "gpu":
        return [injected_fault]
    return [
        InjectedFault(injected_fault.fault, (node,), injected_fault.at, (gpu,), injected_fault.args)
        for node in injected_fault.nodes
        for gpu in injected_fault.gpus or (make_random(seed, injected_fault.fault, injected_fault.key, node).randrange(8),)
    ]


def _write_fault(injected_fault: InjectedFault) -> dict[str, Any]:
    found: dict[str, Any] = {
        "id": injected_fault.fault,
        "node": injected_fault.nodes[0] if len(injected_fault.nodes) == 1 else list(injected_fault.nodes),
        "t": round(injected_fault.at),
    }
    found |= {"gpu": injected_fault.gpus[0]} if injected_fault.gpus else {}
    return found | ({"args": dict(injected_fault.args)} if injected_fault.args else {})


def _write_ticket(ticket: CaseTicket) -> dict[str, Any]:
    files = [{"name": row.name, "text": row.text} for row in ticket.attachments]
    row: dict[str, Any] = {"channel": ticket.channel, "author": ticket.author, "text": ticket.text, "blames": ticket.blames}
    return row | ({"attachments": files} if files else {})


def _classify_layer(faults: Sequence[InjectedFault], modifiers: Sequence[Modifier]) -> str:
    labels = {FAULTS[injected_fault.fault].label for injected_fault in faults}
    if len(labels) > 1:
        return "composite"
    if not labels:
        return "control"
    return "hard" if modifiers else "easy"


def _write_truth(injected_faults: Sequence[InjectedFault]) -> Mapping[str, Any]:
    if not injected_faults:
        return {"primary": {"label": "NO_FAULT", "hosts": [], "devices": []}}
    causes: dict[str, dict[str, Any]] = {}
    for injected_fault in injected_faults:
        fault = FAULTS[injected_fault.fault]
        cause = causes.setdefault(fault.label, {"label": fault.label, "hosts": [], "devices": []})
        cause["hosts"] += [node for node in injected_fault.nodes if fault.scope in _BLAMED_SCOPES and node not in cause["hosts"]]
        cause["devices"] += [f"{node}/gpu{gpu}" for node in injected_fault.nodes for gpu in injected_fault.gpus if fault.scope == "gpu"]
        cause["devices"] += [
            f"{node}/{injected_fault.args['hca']}"
            for node in injected_fault.nodes
            if fault.scope == "node" and "hca" in injected_fault.args
        ]
        cause["devices"] += [f"{kind}:{injected_fault.args[kind]}" for kind in ("leaf", "rack") if kind in injected_fault.args]
    primary, *other_causes = causes.values()
    return {"primary": primary} | ({"also": other_causes} if other_causes else {})
