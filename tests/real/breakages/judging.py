"""Judge an answer about a breakage by labels, fact keys and hosts, never by its wording."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Literal

from deploy.lab.layout import CONTROLLER
from graph.engine.assessment import Assessment
from graph.report import Report
from graph.state import Hypothesis
from tests.real.breakages.breakage import Breakage
from tools.fact import Fact
from tools.inventory.host_ranges import expand_host_range

MIN_WORDS = 40  # characters of a fact's sentence that a line must contain, because long lines are truncated
SURE = 0.6  # confidence from which a cause accuses a host


@dataclass(frozen=True, slots=True)
class Judgement:
    """The verdict on an answer. `healthy`: a faulty host was called healthy. `foreign`: accused hosts that are not at
    fault.
    """

    id: str
    verdict: Literal["right", "partly", "wrong"]
    healthy: bool
    foreign: tuple[str, ...]
    seconds: float
    headline: str
    told: tuple[str, ...] = ()

    @property
    def is_good(self) -> bool:
        return self.verdict == "right" and not self.healthy and not self.foreign

    def line(self) -> str:
        flags = f"{'healthy!' if self.healthy else '-':8} {','.join(self.foreign) or '-':24}"
        return f"{self.id:42} {self.verdict:6} {flags} {self.seconds:6.1f}  {self.headline[:150]}"


def judge(row: Breakage, report: Report, now: Assessment, facts: Sequence[Fact], seconds: float) -> Judgement:
    """Judge one answer. `now`: the engine's assessment; `facts`: everything read."""
    guilty = set(expand_host_range(row.at_fault)) if row.at_fault else set()
    leads, beside = _led(report, now, [*facts, *now.abnormal_facts, *now.differing]), _beside(report, now)
    accused = {host for cause in report.root_causes if cause.confidence >= SURE for host in cause.hosts}
    accused |= {host for host in (said.host for said in leads if isinstance(said, Fact)) if host}
    healthy = report.outcome == "no_fault" or (not row.unobserved and _calls_healthy(report, guilty))
    verdict: Literal["right", "partly", "wrong"]
    if row.is_control:
        may = all(isinstance(said, Fact) and _is_right(said, row, accused) for said in leads)
        verdict = "wrong" if report.root_causes else "right" if may else "partly"
        return Judgement(row.id, verdict, False, () if may else tuple(sorted(accused)), seconds, _headline(report), _names(leads))
    right = any(_is_right(said, row, guilty) for said in leads)
    near = right or any(_is_right(said, row, guilty) for said in beside) or _says_unobserved(row, report, guilty)
    if not right and not leads and not healthy:
        right = _says_unobserved(row, report, guilty)
    verdict = "right" if right else "partly" if near and not healthy else "wrong"
    return Judgement(row.id, verdict, healthy, tuple(sorted(accused - guilty)), seconds, _headline(report), _names(leads))


def _calls_healthy(report: Report, guilty: set[str]) -> bool:
    """Return whether the answer reports nothing abnormal on a faulty host, even with unobserved checks."""
    about = report.about
    return about is not None and bool(about.checks) and about.found in ("nothing", "blind") and bool(guilty & set(about.hosts))


def _headline(report: Report) -> str:
    return " ".join((report.headline or report.outcome).split())


def _names(said: Iterable[Hypothesis | Fact]) -> tuple[str, ...]:
    return tuple(one.label if isinstance(one, Hypothesis) else f"{one.key}={one.value!r}@{one.host}" for one in said)


def _led(report: Report, now: Assessment, facts: Sequence[Fact]) -> list[Hypothesis | Fact]:
    """Return the headline's claims: its first cause, or likely causes and abnormal facts it names."""
    here = [cause for cause in report.root_causes if cause.label not in report.also_seen]
    if here:
        return [here[0]]
    line = report.headline
    said: list[Hypothesis | Fact] = [now.build_hypothesis(row.label) for row in now.suspects if row.leaf.title in line]
    named = set(report.about.hosts) if report.about else {fact.host for fact in facts if fact.host and fact.host in line}
    return [*said, *(fact for fact in facts if fact.key and fact.host in named and _tells(line, fact))]


def _tells(line: str, fact: Fact) -> bool:
    words = fact.format_sentence()
    return bool(words) and (words in line or (len(words) >= MIN_WORDS and words[:MIN_WORDS] in line))


def _beside(report: Report, now: Assessment) -> list[Hypothesis | Fact]:
    """Return the answer's further claims: other causes, likely ones, and abnormal facts."""
    labels = {row.label for row in now.suspects} | ({report.likely.label} if report.likely else set())
    return [
        *report.root_causes,
        *(now.build_hypothesis(label) for label in labels if label in now.label_verdicts),
        *now.abnormal_facts,
        *now.differing,
    ]


def _is_right(said: Hypothesis | Fact, row: Breakage, guilty: set[str]) -> bool:
    if isinstance(said, Fact):
        name = f"{said.key}:{said.device or ''}"
        return said.host in guilty and any(fnmatchcase(name, right if ":" in right else f"{right}:*") for right in row.right)
    where = set(said.hosts) or {cited.host for cited in said.evidence}
    if not said.hosts and CONTROLLER.name in guilty:  # a cause of the whole cluster, seen on its hosts
        where |= guilty
    return bool(where & guilty) and said.label.partition(".")[2] in row.right


def _says_unobserved(row: Breakage, report: Report, guilty: set[str]) -> bool:
    return any(blind.host in guilty and any(fnmatchcase(blind.check, check) for check in row.unobserved) for blind in report.could_not_look)
