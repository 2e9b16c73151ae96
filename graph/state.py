"""One incident as stored: plain JSON types at rest, typed rows on the way in and out.

Small by rule (a checkpoint stays under 8 KB for an ordinary incident): facts and outputs live in the evidence store
and the state holds their digests only.
"""

from datetime import datetime
from typing import Any, Literal, TypedDict

from pydantic import BaseModel, ConfigDict

GRAPH_VERSION = 1
"""Bump when a node is renamed or a channel changes meaning: stored incidents are then re-planned from their summary and facts."""

Lifecycle = Literal["open", "waiting", "watching", "handed_off", "closed"]
Verdict = Literal["open", "confirmed", "rejected", "inconclusive"]
Tier = Literal["history", "taxonomy", "exploration", "done"]
Outcome = Literal["diagnosed", "no_fault", "abstained", "handed_off"]
ItemKind = Literal["mention", "reply", "attach", "hand_off", "take", "close", "stop", "status", "why", "recheck", "timer", "action_result"]
NO_FAULT, ABSTAIN = "NO_FAULT", "ABSTAIN"


class Row(BaseModel):
    """A frozen row; `.model_dump(mode="json")` is what the state holds."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Attachment(Row):
    """A file that came with a message; its redacted text lies in the evidence store."""

    name: str
    sha256: str = ""
    text: str = ""
    """Set on the way in (terminal, tests); moved to the evidence store by `summarise`."""


class Item(Row):
    """One thing that happened to an incident: what the inbox holds. `id` de-duplicates (Slack: team.channel.ts or the click's id)."""

    id: str
    kind: ItemKind
    incident: str
    at: datetime
    user: str = ""
    text: str = ""
    attachments: tuple[Attachment, ...] = ()
    data: dict[str, Any] = {}
    """Kind-specific: close → {label, root_cause, hosts}; action_result → {approval, outcome}; timer → {why}."""


class Origin(Row):
    """Where the incident lives and who opened it."""

    kind: Literal["slack", "terminal", "alert"] = "terminal"
    team: str = ""
    channel: str = ""
    thread_ts: str = ""
    user: str = ""
    tenant: str = ""


class Brief(Row):
    """What `summarise` understood. Hosts are inventory names only; anything else the reporter named is in `unknown_hosts`."""

    text: str = ""
    symptoms: tuple[str, ...] = ()
    signatures: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    unknown_hosts: tuple[str, ...] = ()
    job: str = ""
    since: datetime | None = None
    until: datetime | None = None


class Evidence(Row):
    """A fact as cited: the line that shows it, where, when, and the digest of the stored output."""

    host: str = ""
    check: str
    key: str = ""
    device: str = ""
    line: str
    says: str = ""
    """The same in words."""
    time: datetime | None = None
    sha256: str = ""


class Hypothesis(Row):
    """A label claimed of some hosts and devices (`host/gpuN`, `host/mlx5_N`, `leaf:x`)."""

    label: str
    hosts: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()
    tier: Tier = "taxonomy"
    verdict: Verdict = "open"
    confidence: float = 0.0
    because: str = ""
    evidence: tuple[Evidence, ...] = ()
    checks: tuple[str, ...] = ()


class Blind(Row):
    """A check that could not look, and why."""

    host: str
    check: str
    why: str


class Stats(Row):
    """Cost of an incident so far, summed over its turns. Seconds are the transport's (virtual in the in-process sandbox)."""

    hosts: int = 0
    checks: int = 0
    check_seconds: float = 0.0
    makespan_seconds: float = 0.0
    exclusive_gpu_seconds: float = 0.0
    wall_seconds: float = 0.0
    clock: Literal["virtual", "real"] = "real"
    model_calls: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    usd: float = 0.0


class Ticket(Row):
    """An incident handed to a human."""

    state: Literal["open", "taken", "waiting", "resolved"] = "open"
    summary: str = ""
    owner: str = ""
    """Who should act: customer, provider or vendor."""
    taken_by: str = ""
    true_label: str = ""
    true_cause: str = ""
    closed_by: str = ""


class Report(Row):
    """What a turn concluded. `item` is the inbox item it answers: the report of one item is posted once."""

    item: str
    outcome: Outcome
    headline: str = ""
    root_causes: tuple[Hypothesis, ...] = ()
    ruled_out: tuple[Hypothesis, ...] = ()
    could_not_look: tuple[Blind, ...] = ()
    questions: tuple[str, ...] = ()
    suggestions: tuple[str, ...] = ()
    reply: str = ""
    """A direct answer to a thread reply (status, why …), when the turn was one."""
    without_model: str = ""
    """Why no model helped (no key, dead, over budget …); empty when it did."""
    next_step: str = ""


class Incident(TypedDict, total=False):
    """The LangGraph state. Values are plain JSON (dicts of the rows above); nodes read them through the rows."""

    id: str
    version: int
    opened_at: str
    lifecycle: Lifecycle
    origin: dict[str, Any]
    item: dict[str, Any]
    """The inbox item this turn answers."""
    done_items: list[str]
    said: list[dict[str, Any]]
    """What people said, redacted: {user, text, at, attachments}."""
    brief: dict[str, Any]
    tier: Tier
    walk: dict[str, Any]
    """Where the taxonomy walk stands (`graph.walk.Walk`): open branches, exhausted ones, and the log the card draws."""
    turn: dict[str, Any]
    """Where this turn stands (`graph.case.Turn`): hosts in question, what words suggest, why it was cut short."""
    hypotheses: list[dict[str, Any]]
    facts: str
    """Digest of the facts snapshot in the evidence store."""
    to_look: list[dict[str, str]]
    """Asks that `plan` chose for `execute`, folded: {hosts: "gpu-[001-004]", check}."""
    rounds: int
    report: dict[str, Any]
    ticket: dict[str, Any]
    stats: dict[str, Any]
