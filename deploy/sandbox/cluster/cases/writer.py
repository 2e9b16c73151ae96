"""Write a cluster's faults as a case file for `reader`. What a case cannot express is listed in `left_out`."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import yaml

from deploy.sandbox.cluster.cases.case import CaseTicket
from deploy.sandbox.cluster.chance import dice
from deploy.sandbox.cluster.faults import FAULTS
from deploy.sandbox.cluster.plan import Happening, Modifier

HEAD = """# What was broken and what was asked, to be diagnosed again:  rackmedic diagnose --sandbox {name}.yaml
# As a question of the benchmark:  rackmedic bench run --cases {name}.yaml   (truth.remediation is for you to add)
"""
_ACCUSES = ("gpu", "node", "rack")  # scopes in which a machine is to blame


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The content of a case. Fault times are seconds from `t0`; `left_out` describes what a case cannot express."""

    name: str
    profile: str
    nodes: tuple[str, ...]
    t0: datetime
    seed: int
    faults: tuple[Happening, ...]
    modifiers: tuple[Modifier, ...]
    ticket: CaseTicket
    left_out: tuple[str, ...] = ()


def written(of: Snapshot) -> str:
    """Return the case file."""
    rows = [pinned for row in of.faults for pinned in _name_gpus(row, of.seed)]
    case: dict[str, Any] = {
        "id": of.name,
        "profile": of.profile,
        "nodes": list(of.nodes),
        "t0": of.t0.isoformat().replace("+00:00", "Z"),
        "layer": _classify_layer(of.faults, of.modifiers),
        "ticket": _write_ticket(of.ticket),
        "faults": [_write_fault(row) for row in rows],
        "modifiers": [text_of(modifier) for modifier in of.modifiers],
        "truth": _write_truth(rows),
    }
    case |= {"left_out": list(of.left_out)} if of.left_out else {}
    return HEAD.format(name=of.name) + yaml.safe_dump(case, sort_keys=False, allow_unicode=True, width=140)


def text_of(modifier: Modifier) -> str:
    args = ", ".join(f"{name}={_value(value)}" for name, value in modifier.args.items())
    return modifier.id + (f"({args})" if args else "") + (f"@{modifier.host}" if modifier.host else "")


def _value(value: str) -> str:
    if not any(char in value for char in ",()@'\"") and value == value.strip():
        return value
    return f"'{value}'" if '"' in value else f'"{value}"'


def _name_gpus(happening: Happening, seed: int) -> Iterable[Happening]:
    """Return one row per GPU, with a randomly chosen GPU made explicit: another process would draw differently."""
    if FAULTS[happening.fault].scope != "gpu":
        return [happening]
    return [
        Happening(happening.fault, (node,), happening.at, (gpu,), happening.args)
        for node in happening.nodes
        for gpu in happening.gpus or (dice(seed, happening.fault, happening.key, node).randrange(8),)
    ]


def _write_fault(happening: Happening) -> dict[str, Any]:
    found: dict[str, Any] = {
        "id": happening.fault,
        "node": happening.nodes[0] if len(happening.nodes) == 1 else list(happening.nodes),
        "t": round(happening.at),
    }
    found |= {"gpu": happening.gpus[0]} if happening.gpus else {}
    return found | ({"args": dict(happening.args)} if happening.args else {})


def _write_ticket(ticket: CaseTicket) -> dict[str, Any]:
    files = [{"name": row.name, "text": row.text} for row in ticket.attachments]
    row: dict[str, Any] = {"channel": ticket.channel, "author": ticket.author, "text": ticket.text, "blames": ticket.blames}
    return row | ({"attachments": files} if files else {})


def _classify_layer(faults: Sequence[Happening], modifiers: Sequence[Modifier]) -> str:
    labels = {FAULTS[happening.fault].label for happening in faults}
    if len(labels) > 1:
        return "composite"
    if not labels:
        return "control"
    return "hard" if modifiers else "easy"


def _write_truth(happenings: Sequence[Happening]) -> Mapping[str, Any]:
    if not happenings:
        return {"primary": {"label": "NO_FAULT", "hosts": [], "devices": []}}
    found: dict[str, dict[str, Any]] = {}
    for happening in happenings:
        fault = FAULTS[happening.fault]
        cause = found.setdefault(fault.label, {"label": fault.label, "hosts": [], "devices": []})
        cause["hosts"] += [node for node in happening.nodes if fault.scope in _ACCUSES and node not in cause["hosts"]]
        cause["devices"] += [f"{node}/gpu{gpu}" for node in happening.nodes for gpu in happening.gpus if fault.scope == "gpu"]
        cause["devices"] += [
            f"{node}/{happening.args['hca']}" for node in happening.nodes if fault.scope == "node" and "hca" in happening.args
        ]
        cause["devices"] += [f"{kind}:{happening.args[kind]}" for kind in ("leaf", "rack") if kind in happening.args]
    primary, *also = found.values()
    return {"primary": primary} | ({"also": also} if also else {})
