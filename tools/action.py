"""Action: a remedy with all arguments for one target. Approvers approve it; nothing else ever runs.

Showing, voting on, claiming or running an action requires the same digest, which covers every field.
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
    """A condition that must hold before the effect; part of the digest.

    The node kit reads `node` conditions under its lock, the controller reads `controller` conditions through `via` just
    before the claim. `argv` must print a line equal to `expects`.
    """

    kind: Literal["node", "controller"]
    says: str
    argv: tuple[str, ...]
    expects: str
    id: str = ""  # set only where a decision depends on this condition


FaultPersistence = Literal["read", "boot", "silence", "proved"]


@dataclass(frozen=True, slots=True)
class FaultCondition:
    """The fault that a remedy is for. Non-intrusive checks read it again just before the claim.

    Evidence: `keys` on `devices` (`host/gpuN`), from `checks`. `lasts` says when the fault counts as gone:

        read: after `reads` clean readings, because some faults come and go.
        boot: when the host boots again; a log line has no state.
        silence: when the host answers.
        proved: not by readings, because none without load can tell.
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
    def from_json(cls, fields: Mapping[str, Any]) -> "FaultCondition":
        values: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in fields.items()}
        return cls(**values)


@dataclass(frozen=True, slots=True)
class Action:
    """A complete action.

    `argv` is the `rackmedic-act start` call without digest and boot id: (remedy, *arguments).
    `command` is what the kit runs. `via` is the host it runs on, `target` the host it changes: a Slurm drain runs via
    the controller, a GPU reset has via == target.
    """

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
    proof: tuple[str, ...] = ()  # checks that verify it, exclusive ones included: approving the action approves them
    proves: str = ""  # label whose evidence must be gone for the verification to pass
    undo: str = ""
    policy: str = ""
    catalogue: str = ""
    requested_by: str = ""  # the user who requested or edited it; empty if RackMedic proposed it
    fault: FaultCondition | None = None  # fault that must still exist at the start; None if the action needs no fault

    def to_canonical_json(self) -> str:
        """Return one line of JSON with sorted keys: the bytes that are hashed, stored and compared."""
        return json.dumps(asdict(self), sort_keys=True, separators=(",", ":"), ensure_ascii=True)

    @property
    def digest(self) -> str:
        """SHA-256 of the canonical JSON."""
        return hashlib.sha256(self.to_canonical_json().encode()).hexdigest()

    @classmethod
    def from_canonical_json(cls, text: str) -> "Action":
        fields: dict[str, Any] = json.loads(text)
        conditions = tuple(
            Condition(row["kind"], row["says"], tuple(row["argv"]), row["expects"], row["id"]) for row in fields.pop("conditions")
        )
        fault = FaultCondition.from_json(fields["fault"]) if fields["fault"] else None
        lists = {name: tuple(value) for name, value in fields.items() if isinstance(value, list)}
        return cls(**{**fields, **lists, "conditions": conditions, "fault": fault})


def new_approval_id() -> str:
    """Return a random id, so repeating an action is a new action."""
    return f"apr-{secrets.token_hex(6)}"


def is_approval_id(text: str) -> bool:
    return re.fullmatch(r"apr-[0-9a-f]{12}", text) is not None
