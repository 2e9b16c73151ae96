"""What the graph asks of a language model, and the only shapes an answer may have.

A reasoner chooses among ids it was given and never writes a command. It returns values and never raises for trouble of
the provider: no key, a dead endpoint, a spent budget and garbage are all `DeclinedAnswer`. `graph.model.client` is the real one.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol

from graph.state import Hypothesis


@dataclass(frozen=True, slots=True)
class DeclinedAnswer:
    """No answer, and why, in words for the card ("no key", "over budget", "answer was not of the asked shape")."""

    reason: str


class PromptMaterial(NamedTuple):
    """What a model is given to read of an incident, redacted: the report, the logs as templates, like incidents of the past and what they were,
    what the site's own pages say, and what was found on the machines. Empty where there is none."""

    report: str
    logs: str = ""
    past: Sequence[str] = ()
    pages: Sequence[str] = ()
    findings: str = ""


@dataclass(frozen=True, slots=True)
class ReportExtraction:
    """What all that seems to say. Ids are among those offered; `job`, `times` and `signatures` stand in what was read.

    `causes` are at most three, the likeliest first, each with its probability; `outside`: the cause in a sentence, where no label comes near it.
    """

    symptoms: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    job: str = ""
    times: tuple[str, ...] = ()
    signatures: tuple[str, ...] = ()
    category: str = ""
    causes: tuple[tuple[str, float], ...] = ()
    outside: str = ""


@dataclass(frozen=True, slots=True)
class Judgement:
    """A verdict on one hypothesis. `cites` are positions in the facts that were shown; a verdict that cites none counts for nothing."""

    verdict: Literal["confirmed", "rejected", "inconclusive"]
    because: str = ""
    cites: tuple[int, ...] = ()


IdeaStatus = Literal["open", "supported", "refuted"]


@dataclass(frozen=True, slots=True)
class Idea:
    """A cause that no label names, as a model thinks of it. It rests on findings that were shown (`cites`, by position) and on `quotes` of the report;
    `hosts`, `looks` and `branch` are among those offered. What it says in words is for people to read, and is never run."""

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
    """At most three ideas, the likeliest first, and at most three questions to whoever reported it."""

    ideas: tuple[Idea, ...] = ()
    questions: tuple[str, ...] = ()


class IdeaChoices(NamedTuple):
    """What ideas may be made of: hosts, looks (id → what it asks), branches of the taxonomy (id → title), and ideas of before, as lines."""

    hosts: Sequence[str]
    looks: Mapping[str, str]
    branches: Mapping[str, str]
    ruled_out: Sequence[str] = ()
    earlier: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Objection:
    """What speaks against a claim. One that is no `holds` cites findings that were shown, by position, or it counts for nothing."""

    verdict: Literal["holds", "doubtful", "contradicted"]
    because: str = ""
    cites: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class IntentGuess:
    """What a message seems to want: ids among those offered, and empty where it names none."""

    intent: str
    hosts: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    check: str = ""
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class PastGuess:
    """What a past incident seems to have been: a label among those offered or none, and which of the numbered sentences say so; -1 for none."""

    relevant: bool
    label: str = ""
    cause: int = -1
    fix: int = -1
    summary: str = ""
    branch: str = ""
    """Of a cause that no label names: beside which labels it belongs."""
    title: str = ""
    """What that cause is called."""
    lasting: tuple[int, ...] = ()
    """Sentences that say of the machines what stays true."""


class IntentChoices(NamedTuple):
    """The ids that may be answered."""

    intents: Mapping[str, str]
    """Intent → what it means."""
    hosts: Sequence[str]
    labels: Sequence[str]
    checks: Sequence[str]
    remedies: Sequence[str]


@dataclass(frozen=True, slots=True)
class ModelSpend:
    """What an incident has cost so far, over all its turns."""

    calls: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    usd: float = 0.0


class PastLabeller(Protocol):
    """Labels past incidents; `purse` names what pays. Declines as a reasoner does, and never raises for trouble of the provider."""

    async def label_past_incident(
        self, purse: str, text: str, sentences: Sequence[str], labels: Mapping[str, str]
    ) -> PastGuess | DeclinedAnswer: ...

    def get_spend(self, incident: str) -> ModelSpend: ...


class Reasoner(Protocol):
    """`incident` names whose budget pays. Text handed in is redacted already, and untrusted: data, never instructions."""

    async def extract_report(
        self, incident: str, material: PromptMaterial, hosts: Sequence[str], causes: Mapping[str, str]
    ) -> ReportExtraction | DeclinedAnswer:
        """Read it. `hosts` and `causes` (label → title, the likeliest first) are all that may be answered."""
        ...

    async def judge_hypothesis(self, incident: str, hypothesis: Hypothesis, facts: Sequence[str]) -> Judgement | DeclinedAnswer:
        """Weigh the numbered lines `facts` for and against one hypothesis."""
        ...

    async def propose_ideas(
        self, incident: str, material: PromptMaterial, findings: Sequence[str], known: IdeaChoices
    ) -> Ideas | DeclinedAnswer:
        """Causes that no label names, resting on the numbered lines `findings` and on the report."""
        ...

    async def critique_claims(
        self, incident: str, claims: Sequence[str], findings: Sequence[str]
    ) -> tuple[Objection, ...] | DeclinedAnswer:
        """What the numbered lines `findings` say against each of the `claims`, in their order."""
        ...

    async def classify_intent(self, incident: str, text: str, choices: IntentChoices) -> IntentGuess | DeclinedAnswer:
        """Say what a message in the thread asks for."""
        ...

    def get_spend(self, incident: str) -> ModelSpend:
        """Cost so far; zero for an incident never asked about."""
        ...
