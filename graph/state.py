"""One incident as stored: plain JSON at rest, typed rows in and out.

A checkpoint stays under 8.5 KB for an ordinary incident: facts and outputs live in the evidence store, the state holds
their digests.
"""

from datetime import UTC, datetime
from typing import Any, Literal, TypedDict

from pydantic import BaseModel, ConfigDict, Field

from tools.action import FaultCondition
from tools.fact import FROM_FILE, Fact

# Bump when a node is renamed or a channel changes meaning: stored incidents are then re-planned from their summary and
# facts.
GRAPH_VERSION = 1

Lifecycle = Literal["open", "waiting", "watching", "handed_off", "closed"]
Verdict = Literal["open", "confirmed", "rejected", "inconclusive"]
Tier = Literal["history", "taxonomy", "exploration", "done"]
DiagnosisOutcome = Literal["diagnosed", "no_fault", "abstained", "handed_off"]
InboxItemKind = Literal[
    "mention", "reply", "attach", "hand_off", "take", "wait", "close", "stop", "status", "why", "recheck", "ask", "timer", "action_result"
]
NO_FAULT = "NO_FAULT"
ABSTAIN = "ABSTAIN"
ALERTS_USER = "alerts"  # The user of an inbox item that alerts created.
COUNTERS_RECHECK = "counters"  # Why a timer rechecks: to read error counters once more
FULL_RECHECK = "look_again"  # or to look at everything again
# Why a timer wakes an incident: it still waits for an answer; a reminded tenant stayed silent, or withdrew the report;
# its alerts are resolved, or fire again.
REMINDER_DUE = "remind"
REMINDER_UNANSWERED = "unanswered"
REPORT_WITHDRAWN = "withdrawn"
ALERTS_RESOLVED = "alerts_over"
ALERTS_REFIRED = "alerts_again"
SIDE_KEY = "side"  # In an item's `data`: the speaker is on the tenant's side
TENANT_SIDE = "customer"  # in an incident of the tenant


class StoredModel(BaseModel):
    """A frozen row; `.model_dump(mode="json")` is what the state holds."""

    model_config = ConfigDict(frozen=True, extra="forbid")


# Why an attached file was not read; empty where it was.
UnreadReason = Literal[
    "", "image", "document", "archive", "binary", "broken", "too_large", "too_much", "elsewhere", "refused", "gone", "too_long", "empty"
]


class Attachment(StoredModel):
    """A file that came with a message; its redacted text lies in the evidence store."""

    name: str
    sha256: str = ""
    text: str = ""  # Set on the way in (terminal, tests); `summarise` moves it to the evidence store.
    size: int = 0  # Bytes of the file; 0 for text pasted into a message.
    unread: UnreadReason = ""


class InboxItem(StoredModel):
    """An event of an incident, as the inbox holds it. `id` de-duplicates (Slack: team.channel.ts or the click's id)."""

    id: str
    kind: InboxItemKind
    incident: str
    at: datetime
    user: str = ""
    text: str = ""
    attachments: tuple[Attachment, ...] = ()
    # Kind-specific. close: {label, root_cause, hosts}; action_result: {event, approval, ladder, outcome, says, facts,
    # since}; timer: {why}. Messages: said → what was understood (`graph.dialogue.said.ParsedMessage`). Tickets: told →
    # facts (`graph.ticket_export.received_ticket`).
    data: dict[str, Any] = {}


class TenantThread(StoredModel):
    """The thread in a tenant's channel from which an incident came, and where its answers go."""

    team: str
    channel: str
    thread_ts: str
    user: str = ""
    user_team: str = ""  # The user's workspace.


class Origin(StoredModel):
    """The incident's thread and who opened it.

    An incident that a tenant reported has its thread in the operators' channel; `thread_ts` is empty until it starts.
    """

    kind: Literal["slack", "terminal", "alert"] = "terminal"
    team: str = ""
    channel: str = ""
    thread_ts: str = ""
    user: str = ""
    tenant: str = ""
    customer: TenantThread | None = None
    ticket: str = ""  # The ticket of a tenant's own RackMedic that opened it, as `TENANT/INCIDENT`.
    alert: str = ""  # The alert episode that opened it.

    @property
    def source_key(self) -> tuple[str, str, str]:
        """Team, channel and thread of the report; tickets and alert episodes have keys of their own."""
        if self.ticket:
            return ("ticket", self.tenant, self.ticket)
        if self.alert:
            return ("alerts", self.channel, self.alert)
        customer = self.customer
        return (customer.team, customer.channel, customer.thread_ts) if customer else (self.team, self.channel, self.thread_ts)


class UnjudgedReport(StoredModel):
    """A report, or an uploaded `file`, that no check can judge. `hosts`: those it names; empty if it may concern any."""

    text: str
    file: bool = False
    hosts: tuple[str, ...] = ()


class IncidentBrief(StoredModel):
    """What `summarise` understood. `hosts` are inventory names; other names are in `unknown_hosts` until clarified."""

    text: str = ""
    symptoms: tuple[str, ...] = ()
    signatures: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    unknown_hosts: tuple[str, ...] = ()
    job: str = ""
    since: datetime | None = None
    until: datetime | None = None
    unjudged: tuple[UnjudgedReport, ...] = ()  # Counts against the hosts until people say that it is over.


class FileSource(StoredModel):
    """The file that a fact was read in: its owner, its job, and the job's nodes by the scheduler, as far as known.

    `by`: who uploaded it; empty if a check found it.
    """

    path: str = ""
    uid: int | None = None
    job: str = ""
    nodes: str = ""
    by: Literal["", "customer"] = ""

    @classmethod
    def from_fact(cls, fact: Fact) -> "FileSource | None":
        source = fact.attrs.get(FROM_FILE)
        return cls.model_validate(source) if source else None


class Evidence(StoredModel):
    """A fact as cited: the line that shows it, where, when, and the digest of the stored output."""

    host: str = ""
    check: str
    key: str = ""
    device: str = ""
    line: str
    says: str = ""  # The line in words.
    time: datetime | None = None
    sha256: str = ""
    source: FileSource | None = None  # The file that the fact was read in, if any.


class Hypothesis(StoredModel):
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


class Conjecture(StoredModel):
    """A cause beyond the taxonomy, in a model's words.

    `rests`: findings and quotes it is based on; `looks`: checks run for it; `doubt`: the objection to it.
    """

    title: str
    cause: str
    branch: str = ""
    rests: tuple[str, ...] = ()
    confirms: str = ""
    refutes: str = ""
    looks: tuple[str, ...] = ()
    suggestions: tuple[str, ...] = ()
    standing: Literal["open", "supported", "refuted"] = "open"
    doubt: str = ""


class Exploration(StoredModel):
    """A model's causes beyond the taxonomy, and the number of rounds (turns) spent on them."""

    rounds: int = 0
    ideas: tuple[Conjecture, ...] = ()


class UnobservedCheck(StoredModel):
    """A check that could not run, and why."""

    host: str
    check: str
    why: str


class IncidentCosts(StoredModel):
    """Cost of an incident so far, summed over its turns. Seconds are the transport's (virtual in the in-process sandbox)."""

    hosts: int = 0  # Hosts asked; `silent` of them answered nothing.
    silent: int = 0
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


class HandoffTicket(StoredModel):
    """An incident handed to a human."""

    state: Literal["open", "taken", "waiting", "resolved"] = "open"
    summary: str = ""
    owner: str = ""  # Who should act: customer, provider or vendor.
    taken_by: str = ""  # Who took it, also while it waits for a third party or a part.
    true_label: str = ""
    true_cause: str = ""
    closed_by: str = ""
    handed: bool = True  # False where only closing the incident recorded its cause here.


class RemediationStep(StoredModel):
    """One step of a fix: a remedy of the catalogue with its arguments. Values read live when it is proposed are left out."""

    remedy: str
    args: dict[str, str] = {}
    devices: tuple[str, ...] = ()
    plan: int = 0  # Index of the leaf's plan that it belongs to.
    part: Literal["prepare", "fix", "restore"] = "fix"


RemediationWait = Literal["approval", "idle", "proof", "node_back", "none"]
# How a remediation ended; empty while open. Only `cured` is a success (proved twice). `looked`: an exclusive check
# answered. `recurred`: a following remediation starts with the next plan. `ticket`: left to people.
RemediationOutcome = Literal["", "cured", "recurred", "looked", "ticket", "denied", "undecided", "unknown", "stopped", "withdrawn"]


class Remediation(StoredModel):
    """The ordered steps of one fix on one host, and its status."""

    id: str
    label: str
    target: str
    devices: tuple[str, ...] = ()
    rungs: tuple[RemediationStep, ...] = ()
    words: tuple[str, ...] = ()  # Per plan, what people must do after its steps; empty where nothing.
    rung: int = 0
    attempt: int = 1  # How often this step was proposed.
    waiting_for: RemediationWait = "approval"
    due: datetime | None = None
    approval: str = ""  # The present step's action id, set before the ledger has it.
    drained: bool = False  # RackMedic drained the node and has not returned it: since when, and the approver's name.
    drained_at: datetime | None = None
    drained_by: str = ""
    # Since when the scheduler cannot be asked whether the node is still out of service.
    unasked: datetime | None = None
    held_elsewhere: str = ""  # Who else holds the node out of service, as a sentence; that holder returns it.
    proven: str = ""  # The action after which the proof passed; `tried`: its plan.
    tried: int = 0
    # When the last remedy that changes the host was claimed: older observations no longer count.
    since: datetime | None = None
    # The fault of the latest diagnosis; every step that changes something requires that it is still present.
    fault: FaultCondition | None = None
    outcome: RemediationOutcome = ""
    says: str = ""  # Its status in one sentence.
    # Needs a decision but others go first, so no approver is asked yet. Computed each turn, never stored.
    late: bool = Field(default=False, exclude=True)
    asked_by: str = ""  # The requester as `TEAM:USER`: a requester may not approve their own request.

    @property
    def is_open(self) -> bool:
        return not self.outcome

    @property
    def current_step(self) -> RemediationStep | None:
        return self.rungs[self.rung] if self.rung < len(self.rungs) else None


class LogTemplate(StoredModel):
    """Lines of a log that differ only in numbers, times and names: their count, times, and first and last line numbers."""

    text: str
    count: int
    first: datetime | None = None
    last: datetime | None = None
    line: int = 0
    last_line: int = 0


class LogDigest(StoredModel):
    """A long log by templates. Of its `lines`, the `regular` (steps, metrics, start-up) and `left_out` ones have none.

    `sha256`: the stored text to which line numbers refer.
    """

    name: str
    sha256: str = ""
    lines: int = 0
    regular: int = 0
    left_out: int = 0
    templates: tuple[LogTemplate, ...] = ()


class HumanCorrection(StoredModel):
    """The cause by a person's word. `label` may be a branch of the taxonomy, or empty if only `words` were given."""

    label: str = ""
    words: str = ""
    by: str = ""
    # Labels that people ruled out: no remediation of them is proposed again unless requested.
    denied: tuple[str, ...] = ()


class TenantSilence(StoredModel):
    """How long a tenant has left questions unanswered."""

    since: datetime | None = None  # Since when the tenant owes an answer; None while none is pending.
    # When the tenant was reminded, which happens once; `handed`: when operators took over because of the silence.
    reminded: datetime | None = None
    handed: datetime | None = None
    withdrawn: bool = False  # The tenant withdrew the report and has been silent since: no reminder is sent.


class ScheduledRecheck(StoredModel):
    """A timed recheck that an incident waits for."""

    why: str = ""
    due: datetime | None = None  # None if none is due.
    done: tuple[str, ...] = ()  # Kinds already made: each at most once.
    seen: tuple[str, ...] = ()  # What was abnormal or likely when the recheck was scheduled.


MilestoneKind = Literal["found", "unsure", "well", "ran", "failed", "proved", "handed over", "closed"]


class Milestone(StoredModel):
    """A milestone of an incident. `by` is a person's id, or empty."""

    at: datetime
    kind: MilestoneKind
    says: str
    by: str = ""

    def to_row(self) -> list[Any]:
        """Return a short row, as state is written at every step."""
        return [round(self.at.timestamp()), self.kind, self.says, *([self.by] if self.by else [])]

    @classmethod
    def from_row(cls, row: list[Any]) -> "Milestone":
        """Times are exact to the second."""
        at, kind, text, *person = row
        return cls(at=datetime.fromtimestamp(at, UTC), kind=kind, says=text, by=person[0] if person else "")


class IncidentState(TypedDict, total=False):
    """The LangGraph state. Values are plain JSON (dicts of the rows above); nodes read them through the rows."""

    id: str
    version: int
    opened_at: str
    lifecycle: Lifecycle
    origin: dict[str, Any]
    item: dict[str, Any]  # The inbox item that this turn answers.
    done_items: list[str]
    turns: int  # Turns ended; an action proposed before a turn is kept or withdrawn after it.
    said: list[dict[str, Any]]  # Messages of people, redacted: {user, text, at, attachments}.
    brief: dict[str, Any]
    logs: list[dict[str, Any]]  # The newest long logs that people attached, as templates (`LogDigest`).
    tier: Tier
    # Progress of the taxonomy search (`graph.engine.taxonomy_search.TaxonomySearch`): open and exhausted branches, and
    # the card's log.
    walk: dict[str, Any]
    turn: dict[str, Any]  # Progress of this turn (`graph.incident.context.TurnState`).
    hypotheses: list[dict[str, Any]]
    explored: dict[str, Any]
    facts: str  # Digest of the facts snapshot in the evidence store.
    receipts: str  # Digest of the hosts' raw answers (`graph.provenance.receipts`).
    reasoning: str  # Digest of the latest diagnosis's graph (`graph.provenance.reason_graph`).
    to_look: list[dict[str, str]]  # Asks that `plan` chose for `execute`, folded: {hosts: "gpu-[001-004]", check}.
    rounds: int
    report: dict[str, Any]
    ladders: list[dict[str, Any]]
    ticket: dict[str, Any]
    owner: str  # User id of the owner, with or without a ticket; absent without one.
    stopped: bool  # Whether the last change was `stop`; absent in incidents never stopped.
    quiet_until: str  # Until when only a mention is answered.
    snoozed_until: str  # Until when no reminder is sent; messages are answered. Absent without a snooze.
    silence: dict[str, Any]  # How long the tenant has not answered (`TenantSilence`); absent in operators' incidents.
    second_look: dict[str, Any]  # The pending timed recheck and those made (`ScheduledRecheck`); absent without one.
    correction: dict[str, Any]  # The cause that people named (`HumanCorrection`).
    milestones: list[list[Any]]  # Oldest first (`Milestone`).
    stats: dict[str, Any]
