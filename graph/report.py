"""What a turn concluded, as rows: the diagnosis, what stands beside it, and what people are answered."""

from collections.abc import Mapping
from datetime import datetime
from typing import Literal

from pydantic import Field

from graph.state import Conjecture, DiagnosisOutcome, Hypothesis, LogDigest, StoredModel, UnobservedCheck, UnreadReason
from tools.inventory.job_lookup import NoHostsReason
from tools.inventory.name_suggestions import UnknownName


class PlannedAction(StoredModel):
    """A rung as it would be proposed now. What is read live (process start times) may still change its digest."""

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
    """What is known of the hosts that somebody asked about. `nothing` abnormal is said only where all of them were looked at whole."""

    hosts: tuple[str, ...]
    found: HostFinding
    checks: int = 0
    """Different ones that could look."""
    read: datetime | None = None
    blind: tuple[str, ...] = ()
    """Checks that could not look."""
    line: str = ""
    """The first abnormal line."""
    differs: str = ""
    """The first difference to their peers, or to what they were."""
    kept_out: tuple[str, ...] = ()
    """Those of the hosts that do not answer or do not let us in; all else here is said of the others."""
    why_kept_out: str = ""
    """What keeps us out of the first of them."""


class FileReadResult(StoredModel):
    """A file that came with the item: how many `kinds` of errors it shows, the first of them in words and when; or why it was not read."""

    name: str
    size: int = 0
    kinds: int = 0
    line: str = ""
    at: datetime | None = None
    unread: UnreadReason = ""
    left_out: int = 0
    """Things that it says and that were not kept: events of devices that no host has, and more of anything than machines have."""
    not_understood: int = 0
    """Lines of it that may tell of trouble and that no reader knows; `line` is the first of them where no error was found."""
    foreign: str = ""
    """Events of GPUs that no host of the incident has, in words."""
    recognised: bool = True
    """Whether some reader knows this kind of output. Of any other nothing can be said, least of all that it is clean."""
    not_run: str = ""
    """The test that the file is of was not run, or only in part, and why."""


class CauseOwnedElsewhere(StoredModel):
    """A cause that another incident found too, and which keeps it: its fix is put up for decision there. `hosts` are those it is kept for."""

    label: str
    incident: str
    hosts: tuple[str, ...] = ()
    waits: bool = True
    """Whether this incident looks again when the other one lets go; not for what nobody asked this one about."""


class AttachedOutput(StoredModel):
    """An output that somebody wants whole, by its digest in the evidence store."""

    name: str
    sha256: str


class AttachedChart(StoredModel):
    """A picture that somebody wants: of these hosts a number of every GPU by its key (`heat`) or the bandwidth; or of the incident itself.
    `asked`: for nobody's asking it is shown once, and again where it shows anything else."""

    key: str = ""
    hosts: tuple[str, ...] = ()
    kind: Literal["heat", "bandwidth", "walk", "timeline"] = "heat"
    asked: bool = True


class ReturnableNode(StoredModel):
    """A node that we hold and whose return may be asked for: its ladder, and its name."""

    ladder: str
    host: str


class ClosedIncidentLink(StoredModel):
    """A closed incident that an answer tells of, and the day it was opened."""

    incident: str
    opened: datetime


class MatchedLesson(StoredModel):
    """What an earlier incident of this site taught, and that this one sounds like. It says where to look first, and proves nothing."""

    lesson: str
    label: str
    incident: str
    on: str
    title: str = ""
    score: float = 0.0
    """How much alike, 0 to 1, by what it is trusted."""


class SiteNote(StoredModel):
    """What a page of this site says about it: lines that somebody wrote there, for our own people alone."""

    page: str
    title: str
    says: tuple[str, ...] = ()
    source: str = ""


class GuideStepRow(StoredModel):
    """One step of a guide's run: what it is about, how it stands, and what was seen or why not."""

    id: str
    mark: Literal["done", "skipped", "unsure", "waiting", "next", "later", "people"]
    does: str = ""
    says: str = ""


class GuideRun(StoredModel):
    """Where a troubleshooting guide stands. `called`: somebody asked for it; else it fits what was reported, and is only held against what is
    known. `due`: when the wait that it is in is over."""

    id: str
    title: str
    called: bool = False
    steps: tuple[GuideStepRow, ...] = ()
    due: datetime | None = None

    @property
    def is_open(self) -> bool:
        """Whether something of it is still to come."""
        return any(row.mark in ("next", "waiting", "later") for row in self.steps)


class UnprovenCause(StoredModel):
    """What the cause may well be where none is proven: by a model's `reading` of words and findings, or by `facts` that speak for it and do not
    decide. `p` as whoever says it gives it, 0 to 1; `because`: why it is not proven."""

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
    crossing: tuple[Hypothesis, ...] | None = None
    """The root causes as what the customer may be told of shows them by itself; None where nothing that was read is withheld from them."""
    ruled_out: tuple[Hypothesis, ...] = ()
    could_not_look: tuple[UnobservedCheck, ...] = ()
    questions: tuple[str, ...] = ()
    suggestions: tuple[str, ...] = ()
    likely: UnprovenCause | None = None
    """Of the causes of the taxonomy the likeliest, where none is proven: nothing is proposed for it."""
    differs: tuple[str, ...] = ()
    """What the hosts asked about have otherwise than most of their kind, or than they had: both values, what fits the report first."""
    old: tuple[str, ...] = ()
    """Abnormal events that came last long before the report and decided nothing: host, what, and how long ago."""
    outside: str = ""
    """What a model's reading takes for the cause where no label is it and no ideas were made; nothing was found on machines."""
    ideas: tuple[Conjecture, ...] = ()
    """Causes beyond the taxonomy that a model thought of, where none was proven: for our own people alone."""
    guide: GuideRun | None = None
    """The guide that was called, or fits what was reported."""
    doubts: tuple[str, ...] = ()
    """What a second reading of the findings holds against root causes that the facts leave narrow."""
    broken: tuple[str, ...] = ()
    """Promises of its own reasoning that did not hold: then it claims nothing."""
    changed: str = ""
    """What was believed before news changed it; said first."""
    reply: str = ""
    """A direct answer to a thread reply (status, why …), when the turn was one."""
    without_model: str = ""
    """Why no model helped (no key, dead, over budget …); empty when it did."""
    unkept: str = ""
    """Why the evidence behind it is not kept (disk full, folder gone); empty where it is."""
    next_step: str = ""
    look_again: str = ""
    """When I look again by myself, in a sentence."""
    actions: tuple[PlannedAction, ...] = ()
    """What would be put up for decision: the rungs of each ladder's present plan, in order."""
    by_hand: tuple[str, ...] = ()
    """What people must do, because no remedy can or because a value that it needs is not known."""
    logs: tuple[LogDigest, ...] = ()
    """A handful of the most telling templates of the logs."""
    about: HostsSummary | None = None
    """The hosts that somebody asked about, where what was found is not the whole answer."""
    also_seen: tuple[str, ...] = ()
    """Labels of the root causes that are on other hosts than those asked about."""
    unknown_hosts: tuple[UnknownName, ...] = ()
    """What was named as a host and is none that may be spoken of, with those that may be meant."""
    read_as: Mapping[str, str] = Field(default_factory=dict)
    """Names as they were written → the hosts that they were taken for."""
    unknown_job: str = ""
    """A job that was named and that no scheduler could place: it replaced nothing."""
    why_nowhere: NoHostsReason = ""
    """Why no scheduler could."""
    shared: tuple[CauseOwnedElsewhere, ...] = ()
    """Root causes that another incident keeps: this one has no fix of its own for them."""
    shown: tuple[AttachedOutput, ...] = ()
    """Outputs that belong to the reply."""
    pictures: tuple[AttachedChart, ...] = ()
    """Numbers that the reply is about, to be drawn from the incident's facts."""
    page: bool = False
    """The incident as a page to keep belongs to the reply."""
    held: tuple[ReturnableNode, ...] = ()
    """Nodes that an answer offers to ask back."""
    files: tuple[FileReadResult, ...] = ()
    """The files that came with the item, acknowledged."""
    recalled: tuple[MatchedLesson, ...] = ()
    """Lessons of the same cause, or, where no cause was found, those that it sounds like."""
    notes: tuple[SiteNote, ...] = ()
    """What the site's own pages say about the cause and its hosts."""
    threads: tuple[ClosedIncidentLink, ...] = ()
    """Closed incidents that the reply tells of: their threads are linked for whoever may follow them."""

    @property
    def tenant_root_causes(self) -> tuple[Hypothesis, ...]:
        """The root causes that a customer may be told of."""
        if self.crossing is None:
            return self.root_causes
        found = {cause.label for cause in self.root_causes}
        return tuple(cause for cause in self.crossing if cause.label in found)

    @property
    def hides_all_causes_from_tenant(self) -> bool:
        """Whether causes were found and a customer may be told of none of them."""
        return bool(self.root_causes) and not self.tenant_root_causes
