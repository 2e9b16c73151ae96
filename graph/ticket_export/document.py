"""The document `rackmedic-ticket/1`: fields, bounds and meanings. `docs/provider-link.md` is generated from it.

A field added within a version has a default, so that older writers stay readable; a changed meaning needs a new
version.
"""

from datetime import datetime
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, Strict

from graph.state import DiagnosisOutcome, Verdict

DOCUMENT_FORMAT = "rackmedic-ticket/1"
MAX_DOCUMENT_BYTES = 256 << 10  # On every way in.
MAX_HOST_RANGES = 256
MAX_FACTS = 120
MAX_LOGS = 4
MAX_TEMPLATES = 60
MAX_HOST_CHARS = 253

Word = Annotated[str, Field(max_length=80)]
Sentence = Annotated[str, Field(max_length=400)]
HostName = Annotated[str, Field(max_length=MAX_HOST_CHARS)]
# A name or a folded range: `gpu-[001-128]`.
HostRange = Annotated[str, Field(max_length=MAX_HOST_CHARS, pattern=r"^[A-Za-z0-9][A-Za-z0-9._,\[\]-]*$")]
HostRanges = Annotated[tuple[HostRange, ...], Field(max_length=MAX_HOST_RANGES)]
DeviceNames = Annotated[tuple[Annotated[str, Field(max_length=300)], ...], Field(max_length=64)]
Int64 = Annotated[int, Field(ge=-(1 << 63), lt=1 << 63), Strict()]
Scalar = Annotated[bool, Strict()] | Int64 | Annotated[float, Strict()] | Sentence
AttemptOutcome = Literal["", "cured", "recurred", "looked", "ticket", "denied", "undecided", "unknown", "stopped", "withdrawn"]
FactStatus = Literal["ok", "absent", "timeout", "denied", "unreadable", "unreachable"]
PseudonymKind = Literal["model", "data", "code", "other"]


class ExportedRow(BaseModel):
    """A row of the document. What a newer writer added is passed over, and said (`graph.ticket_export.received_ticket`)."""

    model_config = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=False)


class ExportedHypothesis(ExportedRow):
    """A cause that was tried."""

    label: Word = Field(description="label of the taxonomy; a site's own label is a signature")
    verdict: Verdict = Field(description="confirmed, rejected, inconclusive or open")
    confidence: float = Field(0.0, ge=0, le=1, description="0 to 1")
    because: Sentence = Field("", description="what settled it, in words")
    hosts: HostRanges = Field((), description="hosts that it accuses")
    devices: DeviceNames = Field((), description="devices that it accuses, as `host/gpu5`")


class ExportedFact(ExportedRow):
    """One thing that a look established."""

    host: HostName = Field("", description="empty for what somebody handed in")
    check: Word = Field(description="id of the check")
    key: Word = Field(description="key of the fact")
    device: Word = Field("", description="gpu5, mlx5_1, a mount")
    status: FactStatus = Field("ok", description="ok, absent, or why it could not be looked at")
    value: Scalar | Annotated[tuple[Sentence, ...], Field(max_length=40)] | None = Field(None, description="the value")
    unit: Word = Field("", description="of the value")
    line: Sentence = Field("", description="the line that shows it")
    time: datetime | None = Field(None, description="when it happened, or was seen")
    attrs: Annotated[dict[Word, Scalar], Field(max_length=16)] = Field(default_factory=dict, description="what belongs to the value")


class ExportedUnobservedCheck(ExportedRow):
    """A check that could not look."""

    host: HostName = Field(description="where")
    check: Word = Field(description="id of the check; `all` where nothing could be asked")
    why: Sentence = Field("", description="why not")


class ExportedVersion(ExportedRow):
    """Hosts that run the same version of something."""

    what: Word = Field(description="key of the fact: `driver.version`, `ib.firmware`")
    value: Word = Field(description="the version")
    hosts: HostRanges = Field(description="hosts that have it")


class ExportedTemplate(ExportedRow):
    """Lines of a log that differ in numbers and names alone."""

    text: Sentence = Field(description="the line, its numbers and names masked")
    count: Int64 = Field(description="how many lines")
    first: datetime | None = Field(None, description="time of the first")
    last: datetime | None = Field(None, description="time of the last")


class ExportedLog(ExportedRow):
    """A long log that was handed in."""

    name: Word = Field("", description="its name; a name of the workload is a signature")
    lines: Int64 = Field(0, description="how many lines it has")
    templates: tuple[ExportedTemplate, ...] = Field((), max_length=MAX_TEMPLATES, description="its most telling lines")


class ExportedAttempt(ExportedRow):
    """A remedy that was proposed or run."""

    remedy: Word = Field(description="id of the remedy")
    target: HostName = Field(description="host")
    outcome: AttemptOutcome = Field("", description="how it ended; empty while it goes on")


class ExportedMessage(ExportedRow):
    """What a person said."""

    at: datetime | None = Field(None, description="when")
    text: Sentence = Field(description="the words, names of the workload as signatures")


class ExportedSignature(ExportedRow):
    """A name that did not leave: the same name has the same signature in every ticket of that site, and nobody else can compute it."""

    kind: PseudonymKind = Field(description="what it looks like a name of: model, data, code, other")
    signature: Word = Field(description="~ and twelve hexadecimal digits of HMAC-SHA256 under a salt that stays at the site")


class TicketDocument(ExportedRow):
    """A ticket with the investigation already done."""

    format: Word = Field(default=DOCUMENT_FORMAT, description="`rackmedic-ticket/1`; another number is refused")
    incident: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")] = Field(
        description="the incident's id at the site that writes it"
    )
    made: datetime = Field(description="when the document was made")
    opened: datetime | None = Field(None, description="when the incident was opened")
    outcome: DiagnosisOutcome | Literal[""] = Field("", description="what the investigation came to")
    hosts: HostRanges = Field((), description="hosts in question, as the site calls them, many as ranges: `gpu-[001-128]`")
    job: Word = Field("", description="the scheduler's id of the job")
    symptoms: Annotated[tuple[Word, ...], Field(max_length=24)] = Field((), description="what was understood")
    since: datetime | None = Field(None, description="since when, as people say")
    said: tuple[ExportedMessage, ...] = Field((), max_length=8, description="what people said")
    hypotheses: tuple[ExportedHypothesis, ...] = Field((), max_length=40, description="causes that were tried, with their verdicts")
    facts: tuple[ExportedFact, ...] = Field((), max_length=MAX_FACTS, description="what was seen: what decided, then what is abnormal")
    could_not_look: tuple[ExportedUnobservedCheck, ...] = Field(
        (), max_length=60, description="where nobody could look, which is neither found nor not found"
    )
    versions: tuple[ExportedVersion, ...] = Field((), max_length=60, description="versions, hosts alike together")
    logs: tuple[ExportedLog, ...] = Field((), max_length=MAX_LOGS, description="logs as templates")
    tried: tuple[ExportedAttempt, ...] = Field((), max_length=40, description="remedies and how they ended")
    signatures: tuple[ExportedSignature, ...] = Field((), max_length=120, description="names that did not leave, by what they look like")
    left_out: Int64 = Field(0, ge=0, description="rows that had no room")

    def to_canonical_bytes(self) -> bytes:
        """Return the bytes that are shown, kept and sent."""
        return self.model_dump_json(exclude_defaults=False, exclude_none=True).encode()
