"""A case as frozen values: the simulated machines, the ticket, and the ground truth."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from deploy.sandbox.cluster.plan import InjectedFault, Modifier

T0 = datetime(2026, 5, 20, 3, 10, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class CaseAttachment:
    """A text file attached to the ticket."""

    name: str
    text: str = ""


@dataclass(frozen=True, slots=True)
class CaseTicket:
    """The user's text, its channel, and the suspected culprit."""

    channel: str = "slack"
    author: str = ""
    text: str = ""
    attachments: tuple[CaseAttachment, ...] = ()
    blames: str = ""


@dataclass(frozen=True, slots=True)
class Output:
    """A fixed answer of a node to every command of a check, independent of its state."""

    stdout: str = ""
    stderr: str = ""
    status: int = 0


@dataclass(frozen=True, slots=True)
class SimulatedCase:
    """One case. Only the scorer reads `truth`."""

    id: str
    profile: str
    nodes: tuple[str, ...]
    t0: datetime = T0
    faults: tuple[InjectedFault, ...] = ()
    modifiers: tuple[Modifier, ...] = ()
    ticket: CaseTicket = CaseTicket()
    outputs: Mapping[str, Mapping[str, Output]] = field(default_factory=dict)
    truth: Mapping[str, Any] = field(default_factory=dict)
    layer: str = ""
    split: str = ""
    budget: Mapping[str, Any] = field(default_factory=dict)
