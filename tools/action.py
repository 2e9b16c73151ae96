"""An action: a remedy with every argument filled in, for one target. It is the value that people approve, and nothing else ever runs.

The digest covers every field; whoever shows, votes on, claims or runs an action holds the same digest or is refused.
"""

import hashlib
import json
import re
import secrets
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

Risk = Literal["intrusive", "disruptive", "destructive"]


@dataclass(frozen=True, slots=True)
class Condition:
    """Something that must be true before the effect. It is part of the digest: other conditions, another action.

    `node` conditions are read by the node kit under its lock (`argv` must print a line equal to `expects`),
    `controller` conditions through `via` just before the claim (`argv` there, same rule).
    """

    kind: Literal["node", "controller"]
    says: str
    argv: tuple[str, ...]
    expects: str
    id: str = ""
    """What it is known by where something is decided by it; empty for the others."""


FaultPersistence = Literal["read", "boot", "silence", "proved"]


@dataclass(frozen=True, slots=True)
class FaultCondition:
    """What the remedy is for, as a condition of its own: it is read again just before the claim, by checks that disturb nobody.

    `keys` and `devices` (`host/gpuN`) are what decided, `checks` what told it. `lasts` says how one knows that it is still there: `read`, by
    what the host says now; `boot`, a line of the log that has no state of its own stands until the host boots again; `silence`, until the
    host answers; `proved`, no reading without load can tell, so it stands as it was proved. One that is read is gone after
    `reads` clean readings, for some come and go.
    """

    label: str
    host: str
    says: str
    keys: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()
    checks: tuple[str, ...] = ()
    boot_id: str = ""
    lasts: FaultPersistence = "read"
    reads: int = 3

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> "FaultCondition":
        """From plain JSON."""
        values: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in row.items()}
        return cls(**values)


@dataclass(frozen=True, slots=True)
class Action:
    """Canonical and complete. `argv` is the `rackmedic-act start` call without digest and boot id: (remedy, *arguments);
    `command` is what the kit runs for it, word by word. `via` is where it runs, `target` what it changes
    (a Slurm drain runs via the controller on a target; a node's own reset has via == target)."""

    approval: str
    incident: str
    remedy: str
    args: Mapping[str, str]
    argv: tuple[str, ...]
    command: tuple[str, ...]
    limit_seconds: int
    risk: Risk
    target: str
    via: str
    devices: tuple[str, ...] = ()
    host_key: str = ""
    boot_id: str = ""
    conditions: tuple[Condition, ...] = ()
    proof: tuple[str, ...] = ()
    """Checks that prove it, exclusive ones included: approving the action approves them."""
    proves: str = ""
    """The label whose evidence must be gone for the proof to pass."""
    undo: str = ""
    policy: str = ""
    catalogue: str = ""
    requested_by: str = ""
    """Who asked for it in words or edited it; empty when RackMedic itself proposed it."""
    fault: FaultCondition | None = None
    """What must still be there for it to start; None for what is right without a fault."""

    def to_canonical_json(self) -> str:
        """One line of JSON, keys sorted, no blanks: the bytes that are hashed, stored and compared."""
        return json.dumps(asdict(self), sort_keys=True, separators=(",", ":"), ensure_ascii=True)

    @property
    def digest(self) -> str:
        """SHA-256 of `canonical`."""
        return hashlib.sha256(self.to_canonical_json().encode()).hexdigest()

    @classmethod
    def from_canonical_json(cls, text: str) -> "Action":
        """The inverse of `canonical`."""
        row: dict[str, Any] = json.loads(text)
        conditions = tuple(Condition(c["kind"], c["says"], tuple(c["argv"]), c["expects"], c["id"]) for c in row.pop("conditions"))
        fault = FaultCondition.from_json(row["fault"]) if row["fault"] else None
        lists = {k: tuple(v) for k, v in row.items() if isinstance(v, list)}
        return cls(**{**row, **lists, "conditions": conditions, "fault": fault})


def new_approval_id() -> str:
    """Random: doing the same thing again is a new action."""
    return f"apr-{secrets.token_hex(6)}"


def is_approval_id(text: str) -> bool:
    """Whether it is one, whole."""
    return re.fullmatch(r"apr-[0-9a-f]{12}", text) is not None
