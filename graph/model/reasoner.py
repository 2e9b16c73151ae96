"""What the graph asks of a language model, and the only shapes an answer may have.

A reasoner chooses among ids it was given and never writes a command. It returns values and never raises for trouble of
the provider: no key, a dead endpoint, a spent budget and garbage are all `Declined`. `graph.model.client` is the real one.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol

from graph.state import Brief, Hypothesis


@dataclass(frozen=True, slots=True)
class Declined:
    """No answer, and why, in words for the card ("no key", "over budget", "answer was not of the asked shape")."""

    reason: str


@dataclass(frozen=True, slots=True)
class BriefGuess:
    """What free text seems to say. `hosts` are among those offered; `symptoms` among `kb.taxonomy.symptoms`; the rest is short text."""

    symptoms: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    job: str = ""
    signatures: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Ranking:
    """Labels among those offered, most likely first; those left out are irrelevant in the model's eyes."""

    labels: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Judgement:
    """A verdict on one hypothesis. `cites` are positions in the facts that were shown; a verdict that cites none counts for nothing."""

    verdict: Literal["confirmed", "rejected", "inconclusive"]
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


class Choices(NamedTuple):
    """The ids that may be answered."""

    intents: Mapping[str, str]
    """Intent → what it means."""
    hosts: Sequence[str]
    labels: Sequence[str]
    checks: Sequence[str]
    remedies: Sequence[str]


@dataclass(frozen=True, slots=True)
class Spent:
    """What an incident has cost so far, over all its turns."""

    calls: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    usd: float = 0.0


class PastLabeller(Protocol):
    """Labels past incidents; `purse` names what pays. Declines as a reasoner does, and never raises for trouble of the provider."""

    async def past(self, purse: str, text: str, sentences: Sequence[str], labels: Mapping[str, str]) -> PastGuess | Declined: ...

    def spent(self, incident: str) -> Spent: ...


class Reasoner(Protocol):
    """`incident` names whose budget pays. Text handed in is redacted already, and untrusted: data, never instructions."""

    async def brief(self, incident: str, text: str, hosts: Sequence[str]) -> BriefGuess | Declined:
        """Read a ticket. `hosts` are all names that may be answered."""
        ...

    async def rank(self, incident: str, brief: Brief, facts_digest: str, labels: Sequence[str]) -> Ranking | Declined:
        """Order labels (or branches of the taxonomy) by likelihood."""
        ...

    async def judge(self, incident: str, hypothesis: Hypothesis, facts: Sequence[str]) -> Judgement | Declined:
        """Weigh the numbered lines `facts` for and against one hypothesis."""
        ...

    async def questions(self, incident: str, brief: Brief, facts_digest: str, ruled_out: Sequence[str]) -> tuple[str, ...] | Declined:
        """Up to three questions to the reporter that would tell open causes apart."""
        ...

    async def intent(self, incident: str, text: str, choices: Choices) -> IntentGuess | Declined:
        """Say what a message in the thread asks for."""
        ...

    def spent(self, incident: str) -> Spent:
        """Cost so far; zero for an incident never asked about."""
        ...
