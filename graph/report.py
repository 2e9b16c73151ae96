"""What a turn concluded, as rows: the diagnosis, its context, and the reply."""

from collections.abc import Mapping
from datetime import datetime
from typing import Literal

from pydantic import Field

from graph.state import Conjecture, DiagnosisOutcome, Hypothesis, LogDigest, StoredModel, UnobservedCheck, UnreadReason
from tools.inventory.job_lookup import NoHostsReason
from tools.inventory.name_suggestions import UnknownName


class PlannedAction(StoredModel):
    """A remediation step as it would be proposed now. Values read live (process start times) may change its digest."""

    label: str
    rung: int
    remedy: str
    target: str
    via: str
    args: dict[str, str] = Field(default_factory=dict)
    argv: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    risk: str = ""
    digest: str = ""


HostFinding = Literal["fault", "odd", "blind", "nothing"]


class HostsSummary(StoredModel):
    """What is known of the hosts asked about. `found` is `nothing` only if every check ran on every host."""

    hosts: tuple[str, ...]
    found: HostFinding
    checks: int = 0  # Number of different checks that ran.
    read: datetime | None = None
    blind: tuple[str, ...] = ()  # Checks that could not run.
    line: str = ""  # The first abnormal line.
    differs: str = ""  # The first difference to peers, or to the host's own baseline.
    # Hosts that do not answer or refuse login; all other fields are about the remaining ones.
    kept_out: tuple[str, ...] = ()
    why_kept_out: str = ""  # Why the first of them could not be reached.


class FileReadResult(StoredModel):
    """A file of the item: `kinds` of errors, the first in words with its time; or why it was not read."""

    name: str
    size: int = 0
    kinds: int = 0
    line: str = ""
    at: datetime | None = None
    unread: UnreadReason = ""
    left_out: int = 0  # Entries not kept: events of devices that no host has, and more entries than machines have.
    # Lines that may report trouble and that no reader knows; `line` is the first of them where no error was found.
    not_understood: int = 0
    foreign: str = ""  # Events of GPUs that no host of the incident has, in words.
    # Whether a reader knows this kind of output. Any other must not be called clean.
    recognised: bool = True
    not_run: str = ""  # Why the test that the file reports did not run, or ran only in part.


class CauseOwnedElsewhere(StoredModel):
    """A cause that another incident owns: its fix is proposed there, for `hosts`."""

    label: str
    incident: str
    hosts: tuple[str, ...] = ()
    # Whether this incident checks again when the other one releases the cause; not for causes that it was not asked
    # about.
    waits: bool = True


class AttachedOutput(StoredModel):
    """An output to attach as a file, by its digest in the evidence store."""

    name: str
    sha256: str


class AttachedChart(StoredModel):
    """A chart to attach: a metric of every GPU of the hosts (`heat`, by key), their bandwidth, or the incident itself.

    One that was not `asked` for is shown once, and again if it changed.
    """

    key: str = ""
    hosts: tuple[str, ...] = ()
    kind: Literal["heat", "bandwidth", "walk", "timeline"] = "heat"
    asked: bool = True


class ReturnableNode(StoredModel):
    """A drained node whose return can be requested: its remediation and its name."""

    ladder: str
    host: str


class ClosedIncidentLink(StoredModel):
    """A closed incident that an answer mentions, and when it was opened."""

    incident: str
    opened: datetime


class MatchedLesson(StoredModel):
    """A lesson of an earlier, similar incident of this site. It orders checks and proves nothing."""

    lesson: str
    label: str
    incident: str
    on: str
    title: str = ""
    score: float = 0.0  # Similarity, 0 to 1.


class SiteNote(StoredModel):
    """Lines of a page of this site that fit the incident; for operators only."""

    page: str
    title: str
    says: tuple[str, ...] = ()
    source: str = ""


class GuideStepRow(StoredModel):
    """One step of a guide's run: what it does, its status, and its findings or why there are none."""

    id: str
    mark: Literal["done", "skipped", "unsure", "waiting", "next", "later", "people"]
    does: str = ""
    says: str = ""


class GuideRun(StoredModel):
    """The status of a troubleshooting guide.

    `called`: it was requested; else it fits the report and is only compared with the known facts. `due`: when its
    current wait ends.
    """

    id: str
    title: str
    called: bool = False
    steps: tuple[GuideStepRow, ...] = ()
    due: datetime | None = None

    @property
    def is_open(self) -> bool:
        return any(step_row.mark in ("next", "waiting", "later") for step_row in self.steps)


class UnprovenCause(StoredModel):
    """A likely but unproven cause, by a model's `reading` or by `facts` that support it and do not decide.

    `p`: the model's or the engine's probability, 0 to 1; `because`: why it is not proven.
    """

    label: str
    p: float
    by: Literal["reading", "facts"]
    because: str = ""


class Report(StoredModel):
    """What a turn concluded. `item` is the inbox item it answers: the report of one item is posted once."""

    item: str
    outcome: DiagnosisOutcome
    headline: str = ""
    root_causes: tuple[Hypothesis, ...] = ()
    # The root causes as the evidence that the tenant may see shows them alone; None where nothing is withheld from the
    # tenant.
    crossing: tuple[Hypothesis, ...] | None = None
    ruled_out: tuple[Hypothesis, ...] = ()
    could_not_look: tuple[UnobservedCheck, ...] = ()
    questions: tuple[str, ...] = ()
    suggestions: tuple[str, ...] = ()
    # The likeliest cause of the taxonomy if none is proven; no remediation is proposed for it.
    likely: UnprovenCause | None = None
    # What differs on the hosts asked about from most of their kind or from their baseline: both values, those that fit
    # the report first.
    differs: tuple[str, ...] = ()
    # Abnormal events from long before the report, which decided nothing: host, what, and how long ago.
    old: tuple[str, ...] = ()
    # What a model reads as the cause where no label fits and no ideas were made; no machine evidence shows it.
    outside: str = ""
    # A model's causes beyond the taxonomy, if none was proven; for operators only.
    ideas: tuple[Conjecture, ...] = ()
    guide: GuideRun | None = None  # The guide that was requested, or that fits the report.
    doubts: tuple[str, ...] = ()  # Objections of a second reading to root causes that the facts decide narrowly.
    broken: tuple[str, ...] = ()  # Violated invariants of the reasoning; the report then claims nothing.
    changed: str = ""  # What was believed before new evidence changed it; shown first.
    reply: str = ""  # A direct answer to a thread reply (status, why …), where the turn was one.
    without_model: str = ""  # Why no model helped (no key, dead, over budget …); empty when one did.
    unkept: str = ""  # Why the evidence is not stored (disk full, folder gone); empty where it is.
    next_step: str = ""
    look_again: str = ""  # When the incident rechecks on its own, as a sentence.
    # What would be proposed: the steps of each remediation's present plan, in order.
    actions: tuple[PlannedAction, ...] = ()
    # What people must do, because no remedy can or because a value that it needs is unknown.
    by_hand: tuple[str, ...] = ()
    logs: tuple[LogDigest, ...] = ()  # The few most telling templates of the logs.
    about: HostsSummary | None = None  # The hosts that were asked about, where the findings alone do not answer.
    also_seen: tuple[str, ...] = ()  # Labels of root causes on other hosts than those asked about.
    # Names given as hosts that are not visible hosts, with likely candidates.
    unknown_hosts: tuple[UnknownName, ...] = ()
    read_as: Mapping[str, str] = Field(default_factory=dict)  # Names as written → the hosts they were read as.
    unknown_job: str = ""  # A job that no scheduler could place; it replaced nothing.
    why_nowhere: NoHostsReason = ""  # Why no scheduler could.
    # Root causes that another incident owns; this one has no remediation for them.
    shared: tuple[CauseOwnedElsewhere, ...] = ()
    shown: tuple[AttachedOutput, ...] = ()  # Outputs attached to the reply.
    pictures: tuple[AttachedChart, ...] = ()  # Charts for the reply, drawn from the incident's facts.
    meant: tuple[str, ...] = ()  # Intents that the reply offers as buttons.
    page: bool = False  # Attach the incident as a page to the reply.
    held: tuple[ReturnableNode, ...] = ()  # Drained nodes whose return the reply offers.
    files: tuple[FileReadResult, ...] = ()  # The files that came with the item.
    # Lessons of the same cause, or, where no cause was found, of similar incidents.
    recalled: tuple[MatchedLesson, ...] = ()
    notes: tuple[SiteNote, ...] = ()  # What the site's own pages say about the cause and its hosts.
    # Closed incidents named in the reply; each thread is linked for readers who may open it.
    threads: tuple[ClosedIncidentLink, ...] = ()

    @property
    def tenant_root_causes(self) -> tuple[Hypothesis, ...]:
        """The root causes that the tenant may see."""
        if self.crossing is None:
            return self.root_causes
        labels = {cause.label for cause in self.root_causes}
        return tuple(cause for cause in self.crossing if cause.label in labels)

    @property
    def hides_all_causes_from_tenant(self) -> bool:
        return bool(self.root_causes) and not self.tenant_root_causes
