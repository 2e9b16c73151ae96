"""Beliefs to verdicts: consequences are set aside, rivals for the same evidence compared, and what nobody could look at stays open. Pure.

Rejected means that what would decide was looked at and says no. Where it could not be looked at the answer is inconclusive, never "healthy".
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from graph.engine.belief import Belief
from graph.engine.derive import REPEATING
from graph.engine.prepare import EVENTS
from graph.engine.reference import Lens, is_text
from graph.state import Verdict
from kb.taxonomy.labels import Leaf
from tools.fact import Fact, Status

RIVALRY = 0.5
"""Two labels that the same facts decide and whose log-odds differ by less cannot be told apart."""

SKEW = timedelta(seconds=120)
"""What happened this much earlier is no consequence; less may be the clocks."""

WORTH_SAYING = 0.5
"""Posterior from which an unproven label counts as a suspicion."""


@dataclass(frozen=True, slots=True)
class SetAside:
    """A proven belief that is no root cause, what that makes of its label, and why in words."""

    belief: Belief
    verdict: Verdict
    because: str


@dataclass(frozen=True, slots=True)
class Verdicts:
    """Proven beliefs that stand, those set aside, and disagreements in words."""

    roots: tuple[Belief, ...] = ()
    aside: tuple[SetAside, ...] = ()
    contradictions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Standing:
    """How one label stands. `blind` says in words where it could not be looked at; `unasked` are checks that would tell and were not run."""

    label: str
    verdict: Verdict
    confidence: float
    because: str
    best: Belief
    blind: tuple[str, ...] = ()
    unasked: tuple[tuple[str, str], ...] = ()


HARD = ("kernel.xid", "kernel.sxid", "kernel.nvlink5", "kernel.mce", "kernel.inforom", "gpu.", "smi.", "pcie.")
"""Keys of what only a machine can say of itself. While such a fact is unexplained, a log's word is not taken for the cause."""


SETTINGS = ("gpu.clock.", "gpu.power.", "gpu.throttle.", "gpu.mig", "gpu.compute_mode", "gpu.fabric.", "pcie.acs")


def settle(rows: Sequence[Belief], odd: Sequence[Fact] = ()) -> Verdicts:
    """Who is guilty, of all that is proven. `odd`: what is abnormal by itself."""
    proven = [row for row in rows if row.proven]
    aside: dict[int, SetAside] = {}
    for row in proven:
        cause = next((other for other in proven if _explains(other, row)), None)
        if cause:
            aside[id(row)] = SetAside(row, "rejected", f"a consequence of {cause.leaf.title}{_where(cause)}")
    left = [row for row in proven if id(row) not in aside]
    contradictions: list[str] = []
    for n, row in enumerate(left):
        rival = next((other for other in left[:n] if id(other) not in aside and _same_evidence(other, row)), None)
        if rival and rival.log_odds - row.log_odds >= RIVALRY:
            aside[id(row)] = SetAside(row, "rejected", f"the same evidence is better explained by {rival.leaf.title}")
        elif rival:
            contradictions.append(f"the evidence fits {rival.leaf.title} and {row.leaf.title} equally")
            aside |= {id(b): _undecided(b, f"cannot be told apart from {o.leaf.title}") for b, o in ((row, rival), (rival, row))}
    contradictions += [_disagreement(row) for row in rows if _torn(row)]
    roots = tuple(row for row in left if id(row) not in aside)
    machine = _unexplained_machine(roots, odd)
    if machine:
        why = f"cannot be the whole cause: {machine.host} says {machine.line or machine.key}"[:200]
        aside |= {id(row): _undecided(row, why) for row in roots}
        contradictions.append(f"{roots[0].leaf.title} {why}")
        roots = ()
    return Verdicts(roots, tuple(aside.values()), tuple(dict.fromkeys(contradictions)))


def _undecided(row: Belief, because: str) -> SetAside:
    return SetAside(row, "inconclusive", because)


def _unexplained_machine(roots: Sequence[Belief], odd: Sequence[Fact]) -> Fact | None:
    """What a machine says of itself beside causes that rest on a job's words alone."""
    if not roots or not all(_only_words(row) for row in roots):
        return None
    explained = frozenset().union(*(row.explains for row in roots))
    return next((fact for fact in odd if fact.host and _hard(fact) and id(fact) not in explained), None)


def _hard(fact: Fact) -> bool:
    """What a program cannot cause by itself. How somebody set a machine up breaks no program that ran on it."""
    return fact.key.startswith(HARD) and not fact.key.startswith(SETTINGS) and not (fact.key == "kernel.xid" and fact.value in REPEATING)


def _only_words(row: Belief) -> bool:
    """Whether all that decides could have been written by a tenant."""
    return all(is_text(match.fact.key) or not match.fact.host for match in row.deciding)


def _explains(cause: Belief, row: Belief) -> bool:
    """Whether `cause` explains `row` away. When each names the other the likelier one stands.

    What a tenant wrote never explains away what a machine says of itself.
    """
    if cause is row or row.label not in cause.leaf.suppresses or not _same_place(cause, row):
        return False
    if _long_before(row, cause) or (_only_words(cause) and not _only_words(row)):
        return False
    mutual = cause.label in row.leaf.suppresses
    return not mutual or (cause.log_odds, row.label) > (row.log_odds, cause.label)


def _long_before(row: Belief, cause: Belief) -> bool:
    """Whether all that decides for `row` happened well before anything that decides for `cause`. What has no time of its own does not count."""
    mine, its = _times(row), _times(cause)
    return bool(mine and its) and min(mine) < min(its) - SKEW


def _times(row: Belief) -> list[datetime]:
    return [match.fact.time for match in row.deciding if match.fact.time and match.fact.key.startswith(EVENTS)]


def _same_place(one: Belief, other: Belief) -> bool:
    return not one.subject.hosts or not other.subject.hosts or bool(set(one.subject.hosts) & set(other.subject.hosts))


def _same_evidence(rival: Belief, row: Belief) -> bool:
    """Whether everything that decides for `row` also decides for `rival`, of the same place."""
    mine = {id(match.fact) for match in row.deciding}
    return rival.label != row.label and _same_place(rival, row) and mine <= {id(match.fact) for match in rival.deciding}


def _torn(row: Belief) -> bool:
    """Decisive evidence for, heavy evidence against, and neither wins."""
    return not row.proven and bool(row.deciding) and sum(m.weight for m in row.against) <= -3 and row.posterior >= 0.3


def _disagreement(row: Belief) -> str:
    return f"facts disagree about {row.leaf.title}{_where(row)}: {row.deciding[0].says}, but {row.against[0].says}"


def _where(row: Belief) -> str:
    names = row.subject.named or row.subject.hosts
    return f" on {', '.join(names[:3])}" if names else ""


UNASKED = frozenset({"check.no_target", "check.left_out"})
"""Keys whose facts say that a part of a look was left out."""
NO_TARGET = UNASKED | {"fabric.sm", "job.log"}
"""Keys whose facts may say that there was nothing to look at."""


@dataclass(slots=True)
class Coverage:
    """What was looked at where, and where not and why."""

    lens: Lens
    hosts: Sequence[str]
    blind: Mapping[tuple[str, str], str] = field(default_factory=dict)
    asked: frozenset[tuple[str, str]] = frozenset()
    observed: frozenset[tuple[str, str]] = frozenset()
    skipped: Mapping[tuple[str, str], str] = field(default_factory=dict)
    """Exclusive checks that were asked and not run, and why: busy, or no tool."""
    untargeted: Mapping[tuple[str, str], str] = field(default_factory=dict)
    """Checks of which a part was left out: the site names nobody to ask, or the answer was too long."""

    @classmethod
    def of(cls, facts: Iterable[Fact], lens: Lens, hosts: Sequence[str]) -> "Coverage":
        blind: dict[tuple[str, str], str] = {}
        asked: set[tuple[str, str]] = set()
        observed: set[tuple[str, str]] = set()
        skipped: dict[tuple[str, str], str] = {}
        untargeted: dict[tuple[str, str], str] = {}
        for fact in facts:
            asked.add((fact.host, fact.check))
            if fact.key == "check.skipped":
                skipped[fact.host, fact.check] = fact.line
            elif fact.key in NO_TARGET and (fact.key in UNASKED or _nothing_to_look_at(fact, lens)):
                untargeted[fact.host, fact.check] = fact.line
            elif fact.status.blind:
                blind.setdefault((fact.host, fact.check), fact.line or fact.status.value)
            elif fact.status is Status.OK and not is_text(fact.key):
                observed.add((fact.host, fact.key))
        return cls(lens, hosts, blind, frozenset(asked), frozenset(observed), skipped, untargeted)

    def gaps(self, leaf: Leaf) -> tuple[list[str], list[tuple[str, str]]]:
        """For a leaf: where what would decide could not be looked at, in words, and (host, check) pairs nobody asked yet."""
        deciding, keys = self.lens.deciding(leaf), self.lens.decisive_keys(leaf)
        blind: dict[str, list[str]] = defaultdict(list)
        unasked: list[tuple[str, str]] = []
        for host in self.hosts:
            unasked += [(host, check.id) for check in deciding if (host, check.id) not in self.asked]
            if any((host, key) in self.observed for key in keys):
                continue
            for check in deciding:
                if (host, check.id) in self.blind and not self._pointless(host, check.id):
                    blind[f"{check.id}: {self.blind[host, check.id]}"].append(host)
        return [f"{', '.join(hosts[:4])}{' …' if len(hosts) > 4 else ''}: {why}" for why, hosts in blind.items()], unasked

    def decidable(self, leaf: Leaf) -> bool:
        """Whether some check that was run, passive or exclusive, could have shown what decides."""
        checks = {check.id for key in self.lens.decisive_keys(leaf) for check in self.lens.establishing(key)}
        return any((host, check) in self.asked and (host, check) not in self.skipped for check in checks for host in self.hosts)

    def looked(self, host: str, check: str) -> bool:
        """Whether a check was run on a host and could look."""
        return (host, check) in self.asked and (host, check) not in self.skipped and (host, check) not in self.blind

    def blind_spots(self) -> list[tuple[str, str, str]]:
        """(host, check, why) of every passive look that failed and could have shown a fault of the machine; of a job's log where no
        host's could be read."""
        return [
            (host, check, why)
            for (host, check), why in sorted(self.blind.items())
            if check in self.lens.checks and not self._pointless(host, check) and (not self._of_jobs(check) or self._unread(check))
        ]

    def _of_jobs(self, check: str) -> bool:
        return all(map(is_text, self.lens.checks[check].establishes))

    def _unread(self, check: str) -> bool:
        return "job.error" in self.lens.checks[check].establishes and all((host, check) in self.blind for host in self.hosts)

    def never_asked(self) -> bool:
        """Whether some passive check of the machine was not asked of some host: then nothing may be called healthy."""
        checks = [c.id for c in self.lens.passive() if not self._of_jobs(c.id)]
        return any((host, check) not in self.asked for host in self.hosts for check in checks)

    def _pointless(self, host: str, check: str) -> bool:
        """A machine whose SKU has no InfiniBand is not blind for lack of ibstat."""
        return check == "ibstat" and self.lens.expected(host, "ib.count", None) == 0


def _nothing_to_look_at(fact: Fact, lens: Lens) -> bool:
    """No log of a job, or no tool for the fabric: the host is well for all that, and part of the truth is not seen."""
    if fact.key == "fabric.sm":
        return fact.status is Status.ABSENT and lens.expected(fact.host, "ib.count", None) != 0
    return fact.key == "job.log" and fact.value is False


def stand(leaf: Leaf, rows: Sequence[Belief], settled: Verdicts, coverage: Coverage) -> Standing:
    """The verdict on one label, from its beliefs (best first)."""
    best = rows[0]
    blind, unasked = coverage.gaps(leaf)

    def standing(verdict: Verdict, because: str, row: Belief = best) -> Standing:
        return Standing(leaf.label, verdict, _confidence(row), because, row, tuple(blind), tuple(unasked))

    roots = [row for row in settled.roots if row.label == leaf.label]
    if roots:
        return standing("confirmed", roots[0].deciding[0].says, roots[0])
    aside = next((row for row in settled.aside if row.belief.label == leaf.label), None)
    if aside:
        return standing(aside.verdict, aside.because)
    if best.posterior >= WORTH_SAYING:
        return standing("open" if unasked else "inconclusive", f"{_seen(best)}, but nothing that proves it")
    if unasked:
        return standing("open", f"not looked at yet: {', '.join(dict.fromkeys(check for _, check in unasked))}")
    if blind:
        return standing("inconclusive", f"could not look: {blind[0]}")
    if not coverage.decidable(leaf):
        return standing("inconclusive", "no check that was run can decide it")
    return standing("rejected", _says_no(best, coverage))


def _seen(row: Belief) -> str:
    return "; ".join(match.says for match in row.support[:2]) or "the words of the ticket fit"


def _says_no(row: Belief, coverage: Coverage) -> str:
    if row.against:
        return row.against[0].says
    checks = ", ".join(check.id for check in coverage.lens.deciding(row.leaf)) or "no check of the catalogue"
    where = f"{len(coverage.hosts)} host{'s' * (len(coverage.hosts) != 1)}"
    return f"{checks} looked at on {where}, nothing shows it"


def _confidence(row: Belief) -> float:
    return round(min(row.posterior, 0.999), 3)
