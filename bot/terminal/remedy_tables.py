"""The remedy catalogue as rows for people and for scripts. Every cell comes from the catalogue, so nothing here can go stale."""

from collections.abc import Sequence
from typing import Any

from tools.acting.build import DRAINED
from tools.action import Condition
from tools.remedies import REMEDIES
from tools.remedies.row import KINDS, Remedy


def remedy_rows() -> Sequence[dict[str, Any]]:
    """One object a remedy."""
    return [_row(remedy) for remedy in REMEDIES.values()]


def _row(remedy: Remedy) -> dict[str, Any]:
    return {
        "id": remedy.id,
        "does": remedy.does,
        "risk": remedy.risk,
        "at": remedy.at,
        "args": [f"{name}: {KINDS[kind].says}" for name, kind in remedy.args.items()],
        "command": " ".join(remedy.command),
        "conditions": [_said(condition) for condition in (*remedy.conditions, *([DRAINED] if "drained" in remedy.needs else []))],
        "completion": _completion(remedy),
        "proof": list(remedy.proof),
        "undo": remedy.undo,
        "back": remedy.back,
        "then": remedy.then,
        "heavier": remedy.heavier,
        "harder": dict(remedy.harder),
        "covers": list(remedy.covers),
        "blast": remedy.blast,
        "refusals": [f"{words}: {meaning}" for words, meaning in remedy.refusals.items()],
    }


def _said(condition: Condition) -> str:
    where = "" if condition.kind == "node" else " (asked of the scheduler, where there is one)"
    return condition.says + where


def _completion(remedy: Remedy) -> str:
    if remedy.completion.kind == "new_boot":
        return f"the host is back with another boot id within {remedy.completion.seconds} s"
    return f"the command ends with status 0 within {remedy.limit_seconds} s"
