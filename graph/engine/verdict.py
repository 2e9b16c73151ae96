"""Beliefs to verdicts: consequences are set aside, rivals for the same evidence compared, and what nobody could look at stays open. Pure.

Rejected means that what would decide was looked at and says no. Where it could not be looked at the answer is inconclusive, never "healthy".
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from graph.engine.belief import CONFIRMED_POSTERIOR, Belief, has_only_old_events
from graph.engine.coverage import Coverage
from graph.engine.derived_facts import REPEATING_XIDS
from graph.engine.event_age import EVENT_KEY_PREFIXES, get_last_seen
from graph.engine.reference_data import is_tenant_writable
from graph.state import Verdict
from kb.taxonomy.taxonomy import Leaf
from tools.fact import Fact
from tools.inventory.host_ranges import fold_host_names

RIVAL_LOG_ODDS_MARGIN = 0.5
"""Two labels that the same facts decide and whose log-odds differ by less cannot be told apart."""

MAX_CLOCK_SKEW = timedelta(seconds=120)
"""What happened this much earlier is no consequence; less may be the clocks."""

MIN_SUSPICION_POSTERIOR = 0.5
"""Posterior from which an unproven label counts as a suspicion."""


MAX_CONFIDENCE = 0.975
"""Highest confidence stated. Measured on three fresh seeds of the benchmark: of 647 answers with a posterior of 0.995 or more 631 were right."""


@dataclass(frozen=True, slots=True)
class SetAsideBelief:
    """A proven belief that is no root cause, what that makes of its label, and why in words."""

    belief: Belief
    verdict: Verdict
    because: str


@dataclass(frozen=True, slots=True)
class RootCauseSelection:
    """Proven beliefs that stand, those set aside, and disagreements in words."""

    roots: tuple[Belief, ...] = ()
    aside: tuple[SetAsideBelief, ...] = ()
    contradictions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LabelVerdict:
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


MACHINE_KEY_PREFIXES = ("kernel.xid", "kernel.sxid", "kernel.nvlink5", "kernel.mce", "kernel.inforom", "gpu.", "smi.", "pcie.")
"""Keys of what only a machine can say of itself. While such a fact is unexplained, a log's word is not taken for the cause."""


SETTING_KEY_PREFIXES = ("gpu.clock.", "gpu.power.", "gpu.throttle.", "gpu.mig", "gpu.compute_mode", "gpu.fabric.", "pcie.acs")


def select_root_causes(rows: Sequence[Belief], odd: Sequence[Fact] = ()) -> RootCauseSelection:
    """Who is guilty, of all that is proven. `odd`: what is abnormal by itself."""
    proven = [row for row in rows if row.proven]
    aside = _find_consequences(proven)
    left = [row for row in proven if id(row) not in aside]
    rivals, contradictions = _find_rivals(left)
    aside |= rivals
    contradictions += [_format_disagreement(row) for row in rows if _is_contradicted(row)]
    roots = tuple(row for row in left if id(row) not in aside)
    machine = _find_unexplained_fact(roots, odd)
    if machine:
        why = f"cannot be the whole cause: {machine.host} says {machine.format_sentence()}"[:200]
        aside |= {id(row): _build_undecided(row, why) for row in roots}
        contradictions.append(f"{roots[0].leaf.title} {why}")
        roots = ()
    return RootCauseSelection(roots, tuple(aside.values()), tuple(dict.fromkeys(contradictions)))


def _find_consequences(proven: Sequence[Belief]) -> dict[int, SetAsideBelief]:
    """By identity, what another proven belief explains away."""
    aside: dict[int, SetAsideBelief] = {}
    causes = _index_by_consequence(proven)
    for row in proven:
        cause = next((other for other in _find_candidate_causes(row, causes) if _explains_belief(other, row)), None)
        if cause:
            aside[id(row)] = SetAsideBelief(row, "rejected", f"a consequence of {cause.leaf.title}{_format_place(cause)}")
    return aside


CausesByConsequence = Mapping[tuple[str, str], Sequence[tuple[int, Belief]]]
"""By the label that they explain away and a host of theirs ("" of none, "*" of any), numbered in their order: of hundreds of hosts each has its own."""


def _index_by_consequence(proven: Sequence[Belief]) -> CausesByConsequence:
    found: dict[tuple[str, str], list[tuple[int, Belief]]] = defaultdict(list)
    for place, cause in enumerate(proven):
        for label in cause.leaf.suppresses:
            for host in ("*", *(cause.subject.hosts or ("",))):
                found[label, host].append((place, cause))
    return found


def _find_candidate_causes(row: Belief, causes: CausesByConsequence) -> Sequence[Belief]:
    """Those that may explain a belief away, the likeliest first."""
    hosts = ("", *row.subject.hosts) if row.subject.hosts else ("*",)
    found = dict(one for host in hosts for one in causes.get((row.label, host), ()))
    return [found[place] for place in sorted(found)]


def _find_rivals(left: Sequence[Belief]) -> tuple[dict[int, SetAsideBelief], list[str]]:
    """Of those that the same evidence decides for, all but the clearly likeliest, and where none is, that it fits them equally."""
    aside: dict[int, SetAsideBelief] = {}
    contradictions: list[str] = []
    by_fact: dict[int, list[Belief]] = defaultdict(list)
    for row in left:
        mine = {id(match.fact) for match in row.deciding}
        likelier = by_fact[min(mine)] if mine else ()
        rival = next((other for other in likelier if id(other) not in aside and _has_same_evidence(other, row)), None)
        if rival and rival.log_odds - row.log_odds >= RIVAL_LOG_ODDS_MARGIN:
            aside[id(row)] = SetAsideBelief(row, "rejected", f"the same evidence is better explained by {rival.leaf.title}")
        elif rival:
            contradictions.append(f"the evidence fits {rival.leaf.title} and {row.leaf.title} equally")
            aside |= {id(b): _build_undecided(b, f"cannot be told apart from {o.leaf.title}") for b, o in ((row, rival), (rival, row))}
        for fact in mine:
            by_fact[fact].append(row)
    return aside, contradictions


def _build_undecided(row: Belief, because: str) -> SetAsideBelief:
    return SetAsideBelief(row, "inconclusive", because)


def _find_unexplained_fact(roots: Sequence[Belief], odd: Sequence[Fact]) -> Fact | None:
    """What a machine says of itself beside causes that rest on a job's words alone; where all causes name their hosts, a machine of those."""
    if not roots or not all(_has_only_text(row) for row in roots):
        return None
    explained = frozenset().union(*(row.explains for row in roots))
    hosts = {host for row in roots for host in row.subject.hosts} if all(row.subject.hosts for row in roots) else None
    concerned = (fact for fact in odd if fact.host and (hosts is None or fact.host in hosts))
    return next((fact for fact in concerned if _is_machine_fact(fact) and id(fact) not in explained), None)


def _is_machine_fact(fact: Fact) -> bool:
    """What a program cannot cause by itself. How somebody set a machine up breaks no program that ran on it."""
    return (
        fact.key.startswith(MACHINE_KEY_PREFIXES)
        and not fact.key.startswith(SETTING_KEY_PREFIXES)
        and not (fact.key == "kernel.xid" and fact.value in REPEATING_XIDS)
    )


def _has_only_text(row: Belief) -> bool:
    """Whether all that decides could have been written by a tenant."""
    return all(is_tenant_writable(match.fact.key) or not match.fact.host for match in row.deciding)


def _explains_belief(cause: Belief, row: Belief) -> bool:
    """Whether `cause` explains `row` away. When each names the other the likelier one stands.

    What a tenant wrote never explains away what a machine says of itself.
    """
    if cause is row or row.label not in cause.leaf.suppresses or not _is_same_place(cause, row):
        return False
    if _is_long_before(row, cause) or (_has_only_text(cause) and not _has_only_text(row)):
        return False
    mutual = cause.label in row.leaf.suppresses
    return not mutual or (cause.log_odds, row.label) > (row.log_odds, cause.label)


def _is_long_before(row: Belief, cause: Belief) -> bool:
    """Whether all that decides for `row` happened well before anything that decides for `cause`. What has no time of its own does not count."""
    mine, its = _list_event_times(row), _list_event_times(cause)
    return bool(mine and its) and min(mine) < min(its) - MAX_CLOCK_SKEW


def _list_event_times(row: Belief) -> list[datetime]:
    return [match.fact.time for match in row.deciding if match.fact.time and match.fact.key.startswith(EVENT_KEY_PREFIXES)]


def _is_same_place(one: Belief, other: Belief) -> bool:
    return not one.subject.hosts or not other.subject.hosts or bool(set(one.subject.hosts) & set(other.subject.hosts))


def _has_same_evidence(rival: Belief, row: Belief) -> bool:
    """Whether everything that decides for `row` also decides for `rival`, of the same place."""
    mine = {id(match.fact) for match in row.deciding}
    return rival.label != row.label and _is_same_place(rival, row) and mine <= {id(match.fact) for match in rival.deciding}


def _is_contradicted(row: Belief) -> bool:
    """Decisive evidence for, heavy evidence against, and neither wins."""
    return not row.proven and bool(row.deciding) and sum(m.weight for m in row.against) <= -3 and row.posterior >= 0.3


def _format_disagreement(row: Belief) -> str:
    return f"facts disagree about {row.leaf.title}{_format_place(row)}: {row.deciding[0].says}, but {row.against[0].says}"


def _format_place(row: Belief) -> str:
    names = row.subject.named_devices or row.subject.hosts
    return f" on {', '.join(names[:3])}" if names else ""


def judge_label(leaf: Leaf, rows: Sequence[Belief], settled: RootCauseSelection, coverage: Coverage) -> LabelVerdict:
    """The verdict on one label, from its beliefs (best first)."""
    best = rows[0]
    blind, unasked = coverage.find_gaps(leaf)

    def standing(verdict: Verdict, because: str, row: Belief = best) -> LabelVerdict:
        return LabelVerdict(leaf.label, verdict, _compute_confidence(row), because, row, tuple(blind), tuple(unasked))

    roots = [row for row in settled.roots if row.label == leaf.label]
    if roots:
        return standing("confirmed", roots[0].deciding[0].says, roots[0])
    aside = next((row for row in settled.aside if row.belief.label == leaf.label), None)
    if aside:
        return standing(aside.verdict, aside.because)
    if best.posterior >= MIN_SUSPICION_POSTERIOR:
        unproven = standing("open" if unasked else "inconclusive", f"{_format_support(best)}, but nothing that proves it")
        return replace(unproven, few=tuple(sorted(best.few)))
    if unasked:
        return standing("open", f"not looked at yet: {', '.join(dict.fromkeys(check for _, check in unasked))}")
    if blind:
        return replace(standing("inconclusive", f"could not look: {blind[0]}"), unseen=coverage.list_unobserved_hosts(leaf))
    if undecided := _explain_undecidable(best, coverage):
        return replace(standing("inconclusive", undecided), few=tuple(sorted(best.few)))
    return replace(standing("rejected", _format_rejection(best, coverage)), absent=not best.against)


def _explain_undecidable(row: Belief, coverage: Coverage) -> str:
    """Why nobody can say no to a cause that was looked at; empty where one can."""
    if not coverage.is_decidable(row.leaf):
        return "no check that was run can decide it"
    return f"shows on {fold_host_names(row.few)} alone, not on most of the hosts" if row.few else ""


def _format_support(row: Belief) -> str:
    return "; ".join(match.says for match in row.support[:2]) or "the words of the ticket fit"


def _format_rejection(row: Belief, coverage: Coverage) -> str:
    if row.against:
        return row.against[0].says
    if has_only_old_events(match.fact for match in row.support):
        fact = row.support[0].fact
        return f"{row.support[0].says}, last {get_last_seen(fact):%Y-%m-%d %H:%M} UTC, and not since"
    by_check = {
        check.id: {host for host in coverage.hosts if coverage.has_observed(host, check.id)}
        for check in coverage.lens.list_deciding_checks(row.leaf)
    }
    checks = ", ".join(check for check, hosts in by_check.items() if hosts)
    if not checks:
        return "nothing that could be looked at shows it"
    hosts = len(set().union(*by_check.values()))
    return f"{checks} looked at on {hosts} host{'s' * (hosts != 1)}, nothing shows it"


def _compute_confidence(row: Belief) -> float:
    """Return the confidence to state: the posterior, but above CERTAIN no more than answers so sure have been right."""
    above = max(0.0, row.posterior - CONFIRMED_POSTERIOR) / (1 - CONFIRMED_POSTERIOR)
    return round(min(row.posterior, CONFIRMED_POSTERIOR) + above * (MAX_CONFIDENCE - CONFIRMED_POSTERIOR), 3)
