"""Questions to a language model, and the only shapes of its answers.

A reasoner chooses among given ids and never writes a command. Provider trouble (no key, dead endpoint, spent budget,
garbage) is a `DeclinedAnswer`, never an exception. `graph.model.client` implements it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol


@dataclass(frozen=True, slots=True)
class DeclinedAnswer:
    """No answer, with a reason for the card ("no key", "over budget", "answer was not of the asked shape")."""

    reason: str


class PromptMaterial(NamedTuple):
    """Redacted report, texts handed in with it, log templates, similar past incidents with causes, site pages, and findings."""

    report: str
    handed_in: str = ""
    logs: str = ""
    past: Sequence[str] = ()
    pages: Sequence[str] = ()
    findings: str = ""


class RequestedCheck(NamedTuple):
    """A check that a model asks for. Empty `hosts` means all; `repeat`: also where it has run already."""

    check: str
    hosts: tuple[str, ...] = ()
    repeat: bool = False


class ReadingChoices(NamedTuple):
    """Choices for a reading: hosts, causes (label → title, likeliest first), contradicted causes as lines, and checks (id → question)."""

    hosts: Sequence[str]
    causes: Mapping[str, str]
    ruled_out: Sequence[str] = ()
    checks: Mapping[str, str] = {}


@dataclass(frozen=True, slots=True)
class ReportExtraction:
    """A reading of the material. Ids are among those offered; `job`, `times` and `signatures` occur in it.

    `causes`: at most three with probabilities, likeliest first. `outside`: the cause in a sentence where no label is
    near. `checks`: what would tell more.
    """

    symptoms: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    job: str = ""
    times: tuple[str, ...] = ()
    signatures: tuple[str, ...] = ()
    category: str = ""
    causes: tuple[tuple[str, float], ...] = ()
    outside: str = ""
    checks: tuple[RequestedCheck, ...] = ()


IdeaStatus = Literal["open", "supported", "refuted"]


@dataclass(frozen=True, slots=True)
class Idea:
    """A model's cause without a label.

    It rests on cited findings (positions) and on `quotes` of the report; `hosts`, `looks` and `branch` are among those
    offered. Its text is for people and never run.
    """

    title: str
    cause: str
    branch: str = ""
    cites: tuple[int, ...] = ()
    quotes: tuple[str, ...] = ()
    confirms: str = ""
    refutes: str = ""
    hosts: tuple[str, ...] = ()
    looks: tuple[str, ...] = ()
    suggestions: tuple[str, ...] = ()
    standing: IdeaStatus = "open"


@dataclass(frozen=True, slots=True)
class Ideas:
    """At most three ideas, likeliest first, and at most three questions to the reporter."""

    ideas: tuple[Idea, ...] = ()
    questions: tuple[str, ...] = ()


class IdeaChoices(NamedTuple):
    """Choices for ideas: hosts, checks (id → question), branches (id → title), and earlier ideas as lines."""

    hosts: Sequence[str]
    looks: Mapping[str, str]
    branches: Mapping[str, str]
    ruled_out: Sequence[str] = ()
    earlier: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Objection:
    """An objection to a claim. Any but `holds` must cite shown findings by position, or it does not count."""

    verdict: Literal["holds", "doubtful", "contradicted"]
    because: str = ""
    cites: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class IntentGuess:
    """A message's likely intent: offered ids, empty where it names none."""

    intent: str
    hosts: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    check: str = ""
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class PastGuess:
    """A past incident's likely cause: an offered label or none, and the sentences that say so (-1 for none)."""

    relevant: bool
    label: str = ""
    cause: int = -1
    fix: int = -1
    summary: str = ""
    branch: str = ""  # Where a cause without a label belongs.
    title: str = ""  # Title of a cause without a label.
    lasting: tuple[int, ...] = ()  # Sentences about the machines that stay true.


class IntentChoices(NamedTuple):
    intents: Mapping[str, str]  # Intent → meaning.
    hosts: Sequence[str]
    labels: Sequence[str]
    checks: Sequence[str]
    remedies: Sequence[str]


@dataclass(frozen=True, slots=True)
class ModelSpend:
    """An incident's cost so far, over all turns."""

    calls: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    usd: float = 0.0


class PastLabeller(Protocol):
    """Labels past incidents; `purse` names the budget. Declines as a reasoner does and never raises for provider
    trouble.
    """

    async def label_past_incident(
        self, purse: str, text: str, sentences: Sequence[str], labels: Mapping[str, str]
    ) -> PastGuess | DeclinedAnswer: ...

    def get_spend(self, incident: str) -> ModelSpend: ...


class Reasoner(Protocol):
    """`incident` names the budget. Texts are redacted by the caller, and untrusted: data, never instructions."""

    async def extract_report(self, incident: str, material: PromptMaterial, choices: ReadingChoices) -> ReportExtraction | DeclinedAnswer:
        """Read the material. Only what `choices` offers may be answered."""
        ...

    async def propose_ideas(
        self, incident: str, material: PromptMaterial, findings: Sequence[str], choices: IdeaChoices
    ) -> Ideas | DeclinedAnswer:
        """Propose causes without a label, resting on the numbered `findings` and the report."""
        ...

    async def critique_claims(
        self, incident: str, claims: Sequence[str], findings: Sequence[str]
    ) -> tuple[Objection, ...] | DeclinedAnswer:
        """Return what the numbered `findings` say against each claim, in order."""
        ...

    async def classify_intent(self, incident: str, text: str, choices: IntentChoices) -> IntentGuess | DeclinedAnswer:
        """Return what a thread message asks for."""
        ...

    def get_spend(self, incident: str) -> ModelSpend:
        """Return zero for an unknown incident."""
        ...
