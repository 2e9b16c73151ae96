"""The questions of `rackmedic bench questions`: metrics A, B and C of arXiv 2411.05349 on own questions.

A: what a message says (machines, port, job, whether to act). B: the check and arguments for a described need, and a
site check drafted from a sentence and tested on hidden outputs. C: the cause of a report, among four and openly. The
paper's questions are not public; these use facts of published incidents in the tools' formats.
"""

import hashlib
from collections.abc import Mapping, Sequence
from functools import cache, cached_property
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import yaml
from pydantic import Field, StrictBool, StrictFloat, StrictInt, StrictStr

from kb.schema import StrictModel
from tools.inventory.host_ranges import expand_host_range
from tools.inventory.inventory import Inventory, parse_inventory

HERE: Final = Path(__file__).parents[1] / "questions"
Id = Annotated[str, Field(pattern=r"[abc]\d\d")]
Source = Annotated[str, Field(pattern=r"own|https://\S+")]  # source of the facts; the wording is ours


class SaidIn(StrictModel):
    """Whether a message opens a thread or is said in one."""

    place: Literal["mention", "thread"] = Field(alias="in")


class SaidTruth(StrictModel):
    """What a message says; empty where it names none."""

    hosts: tuple[str, ...] = ()
    port: str = ""
    job: str = ""
    act: bool

    @property
    def names(self) -> frozenset[str]:
        return each(self.hosts)


class Extraction(StrictModel):
    """A question of metric A."""

    id: Id
    text: str
    given: SaidIn
    truth: SaidTruth
    source: Source


class LookGiven(StrictModel):
    kind: Literal["look"]


class LookTruth(StrictModel):
    """Which checks answer the need, where, and of which device where that is named."""

    checks: tuple[str, ...] = Field(min_length=1)
    hosts: tuple[str, ...] = Field(min_length=1)
    device: str = ""

    @property
    def names(self) -> frozenset[str]:
        return each(self.hosts)


class Need(StrictModel):
    """A question of metric B: a described need."""

    id: Id
    text: str
    given: LookGiven
    truth: LookTruth
    source: Source


class DraftGiven(StrictModel):
    """What a prompt shows beside the sentence: the command, one output of it, and what the fact is called."""

    kind: Literal["draft"]
    command: tuple[str, ...]
    key: str
    fact: Literal["bool", "int", "float", "str"]
    shown: str


class Value(StrictModel):
    """A fact that an output holds."""

    value: StrictBool | StrictInt | StrictFloat | StrictStr
    device: str = ""
    wrong: bool = False


class Hidden(StrictModel):
    """An output that no prompt shows, and what it says. No fact: it is not there."""

    output: str
    facts: tuple[Value, ...]


class DraftTruth(StrictModel):
    """`reference` is the facts' part of a check that does it."""

    hidden: tuple[Hidden, ...] = Field(min_length=2)
    reference: Mapping[str, Any]


class Sentence(StrictModel):
    """A question of metric B: a check to be drafted."""

    id: Id
    text: str
    given: DraftGiven
    truth: DraftTruth
    source: Source

    def whole(self, facts: Mapping[str, Any]) -> dict[str, Any]:
        """Return a site checks file with these facts."""
        check = {
            "id": f"{self.id}_draft",
            "asks": "what the sentence asks",
            "command": list(self.given.command),
            "timeout": 10,
            "cap_bytes": 65536,
        }
        return {"checks": [{**check, **facts}]}


class CauseGiven(StrictModel):
    """Four causes to choose from. `quotes`: what machines printed stands in the text; else it is told in plain words."""

    options: tuple[str, str, str, str]
    quotes: bool = True


class CauseTruth(StrictModel):
    """`also`: other causes that an open answer may name as rightly; none of them is among the options."""

    label: str
    also: tuple[str, ...] = ()


class Attribution(StrictModel):
    """A question of metric C."""

    id: Id
    text: str
    given: CauseGiven
    truth: CauseTruth
    source: Source


class Questions(StrictModel):
    """All of them."""

    extractions: tuple[Extraction, ...]
    needs: tuple[Need, ...]
    sentences: tuple[Sentence, ...]
    attributions: tuple[Attribution, ...]

    @cached_property
    def counts(self) -> Mapping[str, int]:
        return {"A": len(self.extractions), "B": len(self.needs) + len(self.sentences), "C": len(self.attributions)}


@cache
def load_questions(folder: Path = HERE) -> Questions:
    """Return the tables. Raises pydantic's ValidationError."""
    a, b, c = (_rows(folder / f"{name}.yaml") for name in "abc")
    looks, drafts = ([row for row in b if row["given"]["kind"] == kind] for kind in ("look", "draft"))
    return Questions.model_validate({"extractions": a, "needs": looks, "sentences": drafts, "attributions": c})


@cache
def load_site(folder: Path = HERE) -> Inventory:
    """Return the machines that questions may name."""
    return parse_inventory(yaml.safe_load((folder / "site.yaml").read_text()), "site.yaml")


def each(hosts: Sequence[str]) -> frozenset[str]:
    return frozenset(name for one in hosts for name in expand_host_range(one))


def options_of(question: Attribution) -> list[str]:
    """Return the four causes in an uninformative order."""
    return sorted(question.given.options, key=lambda label: hashlib.sha256(f"{question.id} {label}".encode()).hexdigest())


def _rows(path: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = yaml.safe_load(path.read_text())["questions"]
    return rows
