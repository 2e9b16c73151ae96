"""One incident as stored: plain JSON types at rest, typed rows on the way in and out.

Small by rule (a checkpoint stays under 8.5 KB for an ordinary incident): facts and outputs live in the evidence store
and the state holds their digests only.
"""

from datetime import UTC, datetime
from typing import Any, Literal, TypedDict

from pydantic import BaseModel, ConfigDict, Field

from tools.action import FaultCondition
from tools.fact import FROM_FILE, Fact

GRAPH_VERSION = 1
"""Bump when a node is renamed or a channel changes meaning: stored incidents are then re-planned from their summary and facts."""

Lifecycle = Literal["open", "waiting", "watching", "handed_off", "closed"]
Verdict = Literal["open", "confirmed", "rejected", "inconclusive"]
Tier = Literal["history", "taxonomy", "exploration", "done"]
DiagnosisOutcome = Literal["diagnosed", "no_fault", "abstained", "handed_off"]
InboxItemKind = Literal[
    "mention", "reply", "attach", "hand_off", "take", "wait", "close", "stop", "status", "why", "recheck", "ask", "timer", "action_result"
]
NO_FAULT, ABSTAIN = "NO_FAULT", "ABSTAIN"
ALERTS_USER = "alerts"
"""Who speaks in an item that alerts made."""
COUNTERS_RECHECK, FULL_RECHECK = "counters", "look_again"
"""Why a timer makes a second look: to read error counters once more, or to look at everything again."""
REMINDER_DUE, REMINDER_UNANSWERED, REPORT_WITHDRAWN, ALERTS_RESOLVED, ALERTS_REFIRED = (
    "remind",
    "unanswered",
    "withdrawn",
    "alerts_over",
    "alerts_again",
)
"""Why an incident is looked at: it still waits for an answer; a customer was reminded and said nothing, or needs it no more; the alerts that
it hears of are over, or were and fire again."""


class StoredModel(BaseModel):
    """A frozen row; `.model_dump(mode="json")` is what the state holds."""

    model_config = ConfigDict(frozen=True, extra="forbid")


UnreadReason = Literal[
    "", "image", "document", "archive", "binary", "broken", "too_large", "too_much", "elsewhere", "refused", "gone", "too_long", "empty"
]
"""Why a file that somebody handed in was not read; empty where it was."""


SIDE_KEY, TENANT_SIDE = "side", "customer"
"""Of an item's data: that a customer said it, in an incident of theirs."""


class Attachment(StoredModel):
    """A file that came with a message; its redacted text lies in the evidence store."""

    name: str
    sha256: str = ""
    text: str = ""
    """Set on the way in (terminal, tests); moved to the evidence store by `summarise`."""
    size: int = 0
    """Bytes of the file; 0 for what was pasted into a message."""
    unread: UnreadReason = ""


class InboxItem(StoredModel):
    """One thing that happened to an incident: what the inbox holds. `id` de-duplicates (Slack: team.channel.ts or the click's id)."""

    id: str
    kind: InboxItemKind
    incident: str
    at: datetime
    user: str = ""
    text: str = ""
    attachments: tuple[Attachment, ...] = ()
    data: dict[str, Any] = {}
    """Kind-specific: close → {label, root_cause, hosts}; action_result → {event, approval, ladder, outcome, says, facts, since}; timer → {why}.
    Messages of people: said → what was understood (`graph.dialogue.said.ParsedMessage`). Tickets: told → facts (`graph.ticket_export.imported_evidence`)."""


class TenantThread(StoredModel):
    """The thread in a customer's channel from which an incident came: what they said, and what they are told."""

    team: str
    channel: str
    thread_ts: str
    user: str = ""
    user_team: str = ""
    """Whose workspace the user is of."""


class Origin(StoredModel):
    """Where the incident lives and who opened it. One that a customer reported lives in the operators' thread; `thread_ts` is empty until
    that thread is begun."""

    kind: Literal["slack", "terminal", "alert"] = "terminal"
    team: str = ""
    channel: str = ""
    thread_ts: str = ""
    user: str = ""
    tenant: str = ""
    customer: TenantThread | None = None
    ticket: str = ""
    """The ticket of a customer's own RackMedic from which it was opened, as `TENANT/INCIDENT`."""
    alert: str = ""
    """The episode of alerts that opened it."""

    @property
    def source_key(self) -> tuple[str, str, str]:
        """Team, channel and thread where it was reported; a ticket of a customer's own RackMedic and an episode of
        alerts are doors of their own."""
        if self.ticket:
            return ("ticket", self.tenant, self.ticket)
        if self.alert:
            return ("alerts", self.channel, self.alert)
        came = self.customer
        return (came.team, came.channel, came.thread_ts) if came else (self.team, self.channel, self.thread_ts)


class UnjudgedReport(StoredModel):
    """Something that people reported, or a `file` that they handed in, and that nothing can judge. `hosts`: those that it names; none where it may
    be about any."""

    text: str
    file: bool = False
    hosts: tuple[str, ...] = ()


class IncidentBrief(StoredModel):
    """What `summarise` understood. Hosts are inventory names only; what else was named and is not cleared up yet is in `unknown_hosts`."""

    text: str = ""
    symptoms: tuple[str, ...] = ()
    signatures: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    unknown_hosts: tuple[str, ...] = ()
    job: str = ""
    since: datetime | None = None
    until: datetime | None = None
    unjudged: tuple[UnjudgedReport, ...] = ()
    """What stands against the hosts until people say that it is over."""


class FileSource(StoredModel):
    """The file that a fact was read in, as far as it is known: its owner, the job that it is of, and the nodes that the scheduler gave that job. `by`:
    who handed it in, where no look of ours found it."""

    path: str = ""
    uid: int | None = None
    job: str = ""
    nodes: str = ""
    by: Literal["", "customer"] = ""

    @classmethod
    def from_fact(cls, fact: Fact) -> "FileSource | None":
        """Return where a fact says that it was read; None where it says nothing."""
        said = fact.attrs.get(FROM_FILE)
        return cls.model_validate(said) if said else None


class Evidence(StoredModel):
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
    source: FileSource | None = None
    """The file that it was read in, for a fact that was read in one."""


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
    """A cause beyond the taxonomy, in a model's words. `rests`: what was shown to it; `looks`: those taken for it; `doubt`: what speaks against it."""

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
    """What is thought beyond the taxonomy by now, after so many rounds, each a turn."""

    rounds: int = 0
    ideas: tuple[Conjecture, ...] = ()


class UnobservedCheck(StoredModel):
    """A check that could not look, and why."""

    host: str
    check: str
    why: str


class IncidentCosts(StoredModel):
    """Cost of an incident so far, summed over its turns. Seconds are the transport's (virtual in the in-process sandbox)."""

    hosts: int = 0
    """That were asked; `silent`: of these, that answered nothing."""
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
    owner: str = ""
    """Who should act: customer, provider or vendor."""
    taken_by: str = ""
    """Who has it, also while it waits for somebody else: a part, another company."""
    true_label: str = ""
    true_cause: str = ""
    closed_by: str = ""
    handed: bool = True
    """False where closing the incident alone noted its cause here."""


class RemediationStep(StoredModel):
    """One step of a fix: a remedy of the catalogue with its arguments. Values read live when it is proposed are not in it."""

    remedy: str
    args: dict[str, str] = {}
    devices: tuple[str, ...] = ()
    plan: int = 0
    """Which of the leaf's plans it belongs to."""
    part: Literal["prepare", "fix", "restore"] = "fix"


RemediationWait = Literal["approval", "idle", "proof", "node_back", "none"]
RemediationOutcome = Literal["", "cured", "recurred", "looked", "ticket", "denied", "undecided", "unknown", "stopped", "withdrawn"]
"""How a ladder ended; empty while it goes on. Only `cured` is a success, proved twice; `looked` is an exclusive check that answered;
a `recurred` one has a ladder after it that starts with the next plan; `ticket` leaves it to people."""


class Remediation(StoredModel):
    """The ordered actions of one fix on one host, and where it stands."""

    id: str
    label: str
    target: str
    devices: tuple[str, ...] = ()
    rungs: tuple[RemediationStep, ...] = ()
    words: tuple[str, ...] = ()
    """For each plan what is left to people after its rungs; empty where nothing is."""
    rung: int = 0
    attempt: int = 1
    """How often this rung was put up for decision."""
    waiting_for: RemediationWait = "approval"
    due: datetime | None = None
    approval: str = ""
    """The action of the present rung, also before the ledger has it."""
    drained: bool = False
    """We took the node out of service and have not returned it: since when, and approved by whom (a name)."""
    drained_at: datetime | None = None
    drained_by: str = ""
    unasked: datetime | None = None
    """Since when the scheduler could not be asked whether it still has the node out of service."""
    held_elsewhere: str = ""
    """Who has the node out of service where that is not this fix, in a sentence: whoever did it returns it."""
    proven: str = ""
    """The action after which the proof passed; `tried`: the plan that it belonged to."""
    tried: int = 0
    since: datetime | None = None
    """When the last remedy that changes the host itself was claimed: what the host said before counts no more."""
    fault: FaultCondition | None = None
    """What its rungs are for, as the last diagnosis showed it: each that changes something needs it to be there still."""
    outcome: RemediationOutcome = ""
    says: str = ""
    """Where it stands, in one sentence."""
    late: bool = Field(default=False, exclude=True)
    """It wants a decision, and others go first: nobody is asked yet. Read anew each turn, never stored."""
    asked_by: str = ""
    """Who wished for it in words, as `TEAM:USER`: whoever asks for something does not approve it."""

    @property
    def is_open(self) -> bool:
        return not self.outcome

    @property
    def current_step(self) -> RemediationStep | None:
        """The present rung."""
        return self.rungs[self.rung] if self.rung < len(self.rungs) else None


class LogTemplate(StoredModel):
    """Lines of a log that differ in nothing but numbers, times and names: how many, when, and the numbers of the first and last of them."""

    text: str
    count: int
    first: datetime | None = None
    last: datetime | None = None
    line: int = 0
    last_line: int = 0


class LogDigest(StoredModel):
    """A long log as people read it: `lines` in all, of which `regular` ones (steps, metrics, start-up) and the `left_out` need no template.
    `sha256` is the stored text that the numbers of lines count in."""

    name: str
    sha256: str = ""
    lines: int = 0
    regular: int = 0
    left_out: int = 0
    templates: tuple[LogTemplate, ...] = ()


class HumanCorrection(StoredModel):
    """What it really was, by a person's word. `label` may be a branch of the taxonomy, or empty where only `words` were said."""

    label: str = ""
    words: str = ""
    by: str = ""
    denied: tuple[str, ...] = ()
    """Labels that had been found and that it was not: no fix of theirs is put up again unless somebody wishes for it."""


class TenantSilence(StoredModel):
    """How long a customer has left our questions unanswered."""

    since: datetime | None = None
    """Since when they owe an answer; None while they owe none."""
    reminded: datetime | None = None
    """When they were asked once more, which is done once; `handed`: when our people got it because of that."""
    handed: datetime | None = None
    withdrawn: bool = False
    """They took their report back and have said nothing since: nobody reminds them."""


class ScheduledRecheck(StoredModel):
    """The look after minutes that an incident waits for."""

    why: str = ""
    due: datetime | None = None
    """None where none is due."""
    done: tuple[str, ...] = ()
    """Which were made already: each at most once."""
    seen: tuple[str, ...] = ()
    """What was abnormal or likely when it was put off."""


MilestoneKind = Literal["found", "unsure", "well", "ran", "failed", "proved", "handed over", "closed"]


class Milestone(StoredModel):
    """Something that an incident came to, and when. `by` is a person's id, empty where it was none."""

    at: datetime
    kind: MilestoneKind
    says: str
    by: str = ""

    def to_row(self) -> list[Any]:
        """As it is stored, short: a state is written at every step."""
        return [round(self.at.timestamp()), self.kind, self.says, *([self.by] if self.by else [])]

    @classmethod
    def from_row(cls, row: list[Any]) -> "Milestone":
        """The inverse, to the second."""
        at, kind, says, *by = row
        return cls(at=datetime.fromtimestamp(at, UTC), kind=kind, says=says, by=by[0] if by else "")


class IncidentState(TypedDict, total=False):
    """The LangGraph state. Values are plain JSON (dicts of the rows above); nodes read them through the rows."""

    id: str
    version: int
    opened_at: str
    lifecycle: Lifecycle
    origin: dict[str, Any]
    item: dict[str, Any]
    """The inbox item this turn answers."""
    done_items: list[str]
    turns: int
    """How many turns have ended; what was put up for decision before a turn is wanted after it or taken back."""
    said: list[dict[str, Any]]
    """What people said, redacted: {user, text, at, attachments}."""
    brief: dict[str, Any]
    logs: list[dict[str, Any]]
    """Long logs that were handed in, the newest few, as templates (`LogDigest`)."""
    tier: Tier
    walk: dict[str, Any]
    """Where the taxonomy walk stands (`graph.engine.taxonomy_search.TaxonomySearch`): open branches, exhausted ones, and the log the card draws."""
    turn: dict[str, Any]
    """Where this turn stands (`graph.incident.context.TurnState`): hosts in question, what words suggest, why it was cut short."""
    hypotheses: list[dict[str, Any]]
    explored: dict[str, Any]
    facts: str
    """Digest of the facts snapshot in the evidence store."""
    receipts: str
    """Digest of what hosts answered, as it came (`graph.provenance.receipts`)."""
    reasoning: str
    """Digest of the latest diagnosis's graph (`graph.provenance.reason_graph`)."""
    to_look: list[dict[str, str]]
    """Asks that `plan` chose for `execute`, folded: {hosts: "gpu-[001-004]", check}."""
    rounds: int
    report: dict[str, Any]
    ladders: list[dict[str, Any]]
    ticket: dict[str, Any]
    owner: str
    """Who took the incident or was named for it, with or without a ticket: a user's id; absent while it is nobody."""
    stopped: bool
    """Whether the last word that changed anything was `stop`; absent in incidents that nobody stopped."""
    quiet_until: str
    """Until when only a mention is answered."""
    silence: dict[str, Any]
    """How long a customer has not answered (`TenantSilence`); absent in incidents of our own."""
    second_look: dict[str, Any]
    """The look after minutes that is due, and those that were made (`ScheduledRecheck`); absent while there was none."""
    correction: dict[str, Any]
    """What people say it really was (`HumanCorrection`)."""
    milestones: list[list[Any]]
    """When it came to something (`Milestone`), oldest first."""
    stats: dict[str, Any]
