"""Beliefs to verdicts: consequences are set aside, rivals for the same evidence compared, and what nobody could look at stays open. Pure.

Rejected means that what would decide was looked at and says no. Where it could not be looked at the answer is inconclusive, never "healthy".
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from graph.engine.age import EVENTS, last_seen
from graph.engine.belief import CERTAIN, Belief, only_old
from graph.engine.coverage import Coverage
from graph.engine.derive import REPEATING
from graph.engine.reference import is_text
from graph.state import Verdict
from kb.taxonomy.labels import Leaf
from tools.fact import Fact
from tools.inventory.ranges import fold

RIVALRY = 0.5
"""Two labels that the same facts decide and whose log-odds differ by less cannot be told apart."""

SKEW = timedelta(seconds=120)
"""What happened this much earlier is no consequence; less may be the clocks."""

WORTH_SAYING = 0.5
"""Posterior from which an unproven label counts as a suspicion."""


SUREST = 0.975
"""Highest confidence stated. Measured on three fresh seeds of the benchmark: of 647 answers with a posterior of 0.995 or more 631 were right."""


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
    unseen: tuple[str, ...] = ()
    """The hosts that keep it undecided, where nothing else does."""
    few: tuple[str, ...] = ()
    """The hosts that show a cause of many hosts, where that does not prove it."""
    absent: bool = False
    """Rejected because what would show it does not, and nothing contradicts it: where looks cannot show every such cause, it may be all the same."""


HARD = ("kernel.xid", "kernel.sxid", "kernel.nvlink5", "kernel.mce", "kernel.inforom", "gpu.", "smi.", "pcie.")
"""Keys of what only a machine can say of itself. While such a fact is unexplained, a log's word is not taken for the cause."""


SETTINGS = ("gpu.clock.", "gpu.power.", "gpu.throttle.", "gpu.mig", "gpu.compute_mode", "gpu.fabric.", "pcie.acs")


def settle(rows: Sequence[Belief], odd: Sequence[Fact] = ()) -> Verdicts:
    """Who is guilty, of all that is proven. `odd`: what is abnormal by itself."""
    proven = [row for row in rows if row.proven]
    aside = _consequences(proven)
    left = [row for row in proven if id(row) not in aside]
    rivals, contradictions = _rivals(left)
    aside |= rivals
    contradictions += [_disagreement(row) for row in rows if _torn(row)]
    roots = tuple(row for row in left if id(row) not in aside)
    machine = _unexplained_machine(roots, odd)
    if machine:
        why = f"cannot be the whole cause: {machine.host} says {machine.in_words()}"[:200]
        aside |= {id(row): _undecided(row, why) for row in roots}
        contradictions.append(f"{roots[0].leaf.title} {why}")
        roots = ()
    return Verdicts(roots, tuple(aside.values()), tuple(dict.fromkeys(contradictions)))


def _consequences(proven: Sequence[Belief]) -> dict[int, SetAside]:
    """By identity, what another proven belief explains away."""
    aside: dict[int, SetAside] = {}
    causes = _by_consequence(proven)
    for row in proven:
        cause = next((other for other in _where_it_may_be(row, causes) if _explains(other, row)), None)
        if cause:
            aside[id(row)] = SetAside(row, "rejected", f"a consequence of {cause.leaf.title}{_where(cause)}")
    return aside


Causes = Mapping[tuple[str, str], Sequence[tuple[int, Belief]]]
"""By the label that they explain away and a host of theirs ("" of none, "*" of any), numbered in their order: of hundreds of hosts each has its own."""


def _by_consequence(proven: Sequence[Belief]) -> Causes:
    found: dict[tuple[str, str], list[tuple[int, Belief]]] = defaultdict(list)
    for place, cause in enumerate(proven):
        for label in cause.leaf.suppresses:
            for host in ("*", *(cause.subject.hosts or ("",))):
                found[label, host].append((place, cause))
    return found


def _where_it_may_be(row: Belief, causes: Causes) -> Sequence[Belief]:
    """Those that may explain a belief away, the likeliest first."""
    hosts = ("", *row.subject.hosts) if row.subject.hosts else ("*",)
    found = dict(one for host in hosts for one in causes.get((row.label, host), ()))
    return [found[place] for place in sorted(found)]


def _rivals(left: Sequence[Belief]) -> tuple[dict[int, SetAside], list[str]]:
    """Of those that the same evidence decides for, all but the clearly likeliest, and where none is, that it fits them equally."""
    aside: dict[int, SetAside] = {}
    contradictions: list[str] = []
    by_fact: dict[int, list[Belief]] = defaultdict(list)
    for row in left:
        mine = {id(match.fact) for match in row.deciding}
        likelier = by_fact[min(mine)] if mine else ()
        rival = next((other for other in likelier if id(other) not in aside and _same_evidence(other, row)), None)
        if rival and rival.log_odds - row.log_odds >= RIVALRY:
            aside[id(row)] = SetAside(row, "rejected", f"the same evidence is better explained by {rival.leaf.title}")
        elif rival:
            contradictions.append(f"the evidence fits {rival.leaf.title} and {row.leaf.title} equally")
            aside |= {id(b): _undecided(b, f"cannot be told apart from {o.leaf.title}") for b, o in ((row, rival), (rival, row))}
        for fact in mine:
            by_fact[fact].append(row)
    return aside, contradictions


def _undecided(row: Belief, because: str) -> SetAside:
    return SetAside(row, "inconclusive", because)


def _unexplained_machine(roots: Sequence[Belief], odd: Sequence[Fact]) -> Fact | None:
    """What a machine says of itself beside causes that rest on a job's words alone; where all causes name their hosts, a machine of those."""
    if not roots or not all(_only_words(row) for row in roots):
        return None
    explained = frozenset().union(*(row.explains for row in roots))
    hosts = {host for row in roots for host in row.subject.hosts} if all(row.subject.hosts for row in roots) else None
    concerned = (fact for fact in odd if fact.host and (hosts is None or fact.host in hosts))
    return next((fact for fact in concerned if _hard(fact) and id(fact) not in explained), None)


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
        unproven = standing("open" if unasked else "inconclusive", f"{_seen(best)}, but nothing that proves it")
        return replace(unproven, few=tuple(sorted(best.few)))
    if unasked:
        return standing("open", f"not looked at yet: {', '.join(dict.fromkeys(check for _, check in unasked))}")
    if blind:
        return replace(standing("inconclusive", f"could not look: {blind[0]}"), unseen=coverage.unseen(leaf))
    if undecided := _undecidable(best, coverage):
        return replace(standing("inconclusive", undecided), few=tuple(sorted(best.few)))
    return replace(standing("rejected", _says_no(best, coverage)), absent=not best.against)


def _undecidable(row: Belief, coverage: Coverage) -> str:
    """Why nobody can say no to a cause that was looked at; empty where one can."""
    if not coverage.decidable(row.leaf):
        return "no check that was run can decide it"
    return f"shows on {fold(row.few)} alone, not on most of the hosts" if row.few else ""


def _seen(row: Belief) -> str:
    return "; ".join(match.says for match in row.support[:2]) or "the words of the ticket fit"


def _says_no(row: Belief, coverage: Coverage) -> str:
    if row.against:
        return row.against[0].says
    if only_old(match.fact for match in row.support):
        fact = row.support[0].fact
        return f"{row.support[0].says}, last {last_seen(fact):%Y-%m-%d %H:%M} UTC, and not since"
    by_check = {
        check.id: {host for host in coverage.hosts if coverage.looked(host, check.id)} for check in coverage.lens.deciding(row.leaf)
    }
    checks = ", ".join(check for check, hosts in by_check.items() if hosts)
    if not checks:
        return "nothing that could be looked at shows it"
    hosts = len(set().union(*by_check.values()))
    return f"{checks} looked at on {hosts} host{'s' * (hosts != 1)}, nothing shows it"


def _confidence(row: Belief) -> float:
    """Return the confidence to state: the posterior, but above CERTAIN no more than answers so sure have been right."""
    above = max(0.0, row.posterior - CERTAIN) / (1 - CERTAIN)
    return round(min(row.posterior, CERTAIN) + above * (SUREST - CERTAIN), 3)
