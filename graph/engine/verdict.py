"""Beliefs to verdicts: set consequences aside, compare rivals, keep unobserved causes open. Pure.

`rejected` means that the deciding checks were observed and say no; if they were not, the verdict is `inconclusive`,
never "healthy".
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from graph.engine.belief import CONFIRMED_POSTERIOR, Belief, has_only_old_events
from graph.engine.coverage import Coverage
from graph.engine.derived_facts import REPEATING_XIDS
from graph.engine.fact_history import EVENT_KEY_PREFIXES, get_last_seen
from graph.engine.reference_data import ReferenceData, is_tenant_writable
from graph.state import Verdict
from kb.taxonomy.taxonomy import Leaf
from tools.checks.check_types import Check
from tools.fact import Fact
from tools.inventory.host_ranges import fold_host_names

RIVAL_LOG_ODDS_MARGIN = 0.5  # labels decided by the same facts are indistinguishable below this difference
MAX_CLOCK_SKEW = timedelta(seconds=120)  # an event earlier by more is no consequence; less may be clock skew
MIN_SUSPICION_POSTERIOR = 0.5  # posterior from which an unproven label is a suspicion
# highest stated confidence; on three fresh benchmark seeds 631 of 647 answers with posterior ≥ 0.995 were right
MAX_CONFIDENCE = 0.975


@dataclass(frozen=True, slots=True)
class SetAsideBelief:
    """A proven belief that is no root cause, its label's verdict, and the reason."""

    belief: Belief
    verdict: Verdict
    because: str


@dataclass(frozen=True, slots=True)
class RootCauseSelection:
    """Root causes, beliefs set aside, and disagreements in words."""

    roots: tuple[Belief, ...] = ()
    aside: tuple[SetAsideBelief, ...] = ()
    contradictions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LabelVerdict:
    """The verdict on one label. `unobserved_checks`: failed deciding checks in words; `unasked_checks`: (host, check) pairs not run."""

    label: str
    verdict: Verdict
    confidence: float
    because: str
    best: Belief
    unobserved_checks: tuple[str, ...] = ()
    unasked_checks: tuple[tuple[str, str], ...] = ()
    unobserved_hosts: tuple[str, ...] = ()  # hosts that alone keep it undecided
    showing_hosts: tuple[str, ...] = ()  # hosts that show a cause of many hosts without proving it
    # rejected for lack of support, without contradiction; checks that cannot show every case may have missed it
    absent: bool = False


# machine-only keys; while one is unexplained, log text is not accepted as the cause
MACHINE_KEY_PREFIXES = ("kernel.xid", "kernel.sxid", "kernel.nvlink5", "kernel.mce", "kernel.inforom", "gpu.", "smi.", "pcie.")
SETTING_KEY_PREFIXES = ("gpu.clock.", "gpu.power.", "gpu.throttle.", "gpu.mig", "gpu.compute_mode", "gpu.fabric.", "pcie.acs")


def select_root_causes(rows: Sequence[Belief], odd: Sequence[Fact] = ()) -> RootCauseSelection:
    """Select root causes among the proven beliefs. `odd`: facts abnormal in themselves."""
    proven = [row for row in rows if row.proven]
    aside = _find_consequences(proven)
    remaining_beliefs = [row for row in proven if id(row) not in aside]
    rivals, contradictions = _find_rivals(remaining_beliefs)
    aside |= rivals
    contradictions += [_format_disagreement(row) for row in rows if _is_contradicted(row)]
    roots = tuple(row for row in remaining_beliefs if id(row) not in aside)
    machine = _find_unexplained_fact(roots, odd)
    if machine:
        reason = f"cannot be the whole cause: {machine.host} says {machine.format_sentence()}"[:200]
        aside |= {id(row): _build_undecided(row, reason) for row in roots}
        contradictions.append(f"{roots[0].leaf.title} {reason}")
        roots = ()
    return RootCauseSelection(roots, tuple(aside.values()), tuple(dict.fromkeys(contradictions)))


def _find_consequences(proven: Sequence[Belief]) -> dict[int, SetAsideBelief]:
    aside: dict[int, SetAsideBelief] = {}
    causes = _index_by_consequence(proven)
    for row in proven:
        cause = next((other for other in _find_candidate_causes(row, causes) if _explains_belief(other, row)), None)
        if cause:
            aside[id(row)] = SetAsideBelief(row, "rejected", f"a consequence of {cause.leaf.title}{_format_place(cause)}")
    return aside


# (explained label, host of the cause; "" none, "*" any) → numbered causes; an index for hundreds of hosts
CausesByConsequence = Mapping[tuple[str, str], Sequence[tuple[int, Belief]]]


def _index_by_consequence(proven: Sequence[Belief]) -> CausesByConsequence:
    beliefs_by_consequence: dict[tuple[str, str], list[tuple[int, Belief]]] = defaultdict(list)
    for place, cause in enumerate(proven):
        for label in cause.leaf.suppresses:
            for host in ("*", *(cause.subject.hosts or ("",))):
                beliefs_by_consequence[label, host].append((place, cause))
    return beliefs_by_consequence


def _find_candidate_causes(row: Belief, causes: CausesByConsequence) -> Sequence[Belief]:
    hosts = ("", *row.subject.hosts) if row.subject.hosts else ("*",)
    candidates = dict(one for host in hosts for one in causes.get((row.label, host), ()))
    return [candidates[place] for place in sorted(candidates)]


def _find_rivals(left: Sequence[Belief]) -> tuple[dict[int, SetAsideBelief], list[str]]:
    """Set aside all but the clearly likeliest of beliefs with the same evidence; report ties."""
    aside: dict[int, SetAsideBelief] = {}
    contradictions: list[str] = []
    by_fact: dict[int, list[Belief]] = defaultdict(list)
    for row in left:
        own_fact_ids = {id(match.fact) for match in row.deciding}
        likelier = by_fact[min(own_fact_ids)] if own_fact_ids else ()
        rival = next((other for other in likelier if id(other) not in aside and _has_same_evidence(other, row)), None)
        if rival and rival.log_odds - row.log_odds >= RIVAL_LOG_ODDS_MARGIN:
            aside[id(row)] = SetAsideBelief(row, "rejected", f"the same evidence is better explained by {rival.leaf.title}")
        elif rival:
            contradictions.append(f"the evidence fits {rival.leaf.title} and {row.leaf.title} equally")
            aside |= {id(b): _build_undecided(b, f"cannot be told apart from {o.leaf.title}") for b, o in ((row, rival), (rival, row))}
        for fact in own_fact_ids:
            by_fact[fact].append(row)
    return aside, contradictions


def _build_undecided(row: Belief, because: str) -> SetAsideBelief:
    return SetAsideBelief(row, "inconclusive", because)


def _find_unexplained_fact(roots: Sequence[Belief], odd: Sequence[Fact]) -> Fact | None:
    """Return a machine fact that text-only causes leave unexplained, on their hosts if all name some."""
    if not roots or not all(_has_only_text(row) for row in roots):
        return None
    explained = frozenset().union(*(row.explains for row in roots))
    hosts = {host for row in roots for host in row.subject.hosts} if all(row.subject.hosts for row in roots) else None
    concerned = (fact for fact in odd if fact.host and (hosts is None or fact.host in hosts))
    return next((fact for fact in concerned if _is_machine_fact(fact) and id(fact) not in explained), None)


def _is_machine_fact(fact: Fact) -> bool:
    """Return whether no program can cause the fact; settings break no running program."""
    return (
        fact.key.startswith(MACHINE_KEY_PREFIXES)
        and not fact.key.startswith(SETTING_KEY_PREFIXES)
        and not (fact.key == "kernel.xid" and fact.value in REPEATING_XIDS)
    )


def _has_only_text(row: Belief) -> bool:
    return all(is_tenant_writable(match.fact.key) or not match.fact.host for match in row.deciding)


def _explains_belief(cause: Belief, row: Belief) -> bool:
    """Return whether `cause` explains `row` away; of two that name each other the likelier stays.

    Tenant-writable text never explains away a machine's own facts.
    """
    if cause is row or row.label not in cause.leaf.suppresses or not _is_same_place(cause, row):
        return False
    if _is_long_before(row, cause) or (_has_only_text(cause) and not _has_only_text(row)):
        return False
    mutual = cause.label in row.leaf.suppresses
    return not mutual or (cause.log_odds, row.label) > (row.log_odds, cause.label)


def _is_long_before(row: Belief, cause: Belief) -> bool:
    """Return whether `row` began well before `cause`; facts without event time do not count."""
    own_times, cause_times = _list_event_times(row), _list_event_times(cause)
    return bool(own_times and cause_times) and min(own_times) < min(cause_times) - MAX_CLOCK_SKEW


def _list_event_times(row: Belief) -> list[datetime]:
    return [match.fact.time for match in row.deciding if match.fact.time and match.fact.key.startswith(EVENT_KEY_PREFIXES)]


def _is_same_place(one: Belief, other: Belief) -> bool:
    return not one.subject.hosts or not other.subject.hosts or bool(set(one.subject.hosts) & set(other.subject.hosts))


def _has_same_evidence(rival: Belief, row: Belief) -> bool:
    """Return whether all that decides for `row` decides for `rival` too, at the same place."""
    own_fact_ids = {id(match.fact) for match in row.deciding}
    return rival.label != row.label and _is_same_place(rival, row) and own_fact_ids <= {id(match.fact) for match in rival.deciding}


def _is_contradicted(row: Belief) -> bool:
    """Return whether decisive support meets heavy contradiction and neither wins."""
    return not row.proven and bool(row.deciding) and sum(m.weight for m in row.against) <= -3 and row.posterior >= 0.3


def _format_disagreement(row: Belief) -> str:
    return f"facts disagree about {row.leaf.title}{_format_place(row)}: {row.deciding[0].says}, but {row.against[0].says}"


def _format_place(row: Belief) -> str:
    names = row.subject.named_devices or row.subject.hosts
    return f" on {', '.join(names[:3])}" if names else ""


def judge_label(leaf: Leaf, rows: Sequence[Belief], settled: RootCauseSelection, coverage: Coverage) -> LabelVerdict:
    """Return the verdict on one label from its beliefs (best first)."""
    best = rows[0]
    unobserved, unasked = coverage.find_gaps(leaf)

    def build_verdict(verdict: Verdict, because: str, row: Belief = best) -> LabelVerdict:
        return LabelVerdict(leaf.label, verdict, _compute_confidence(row), because, row, tuple(unobserved), tuple(unasked))

    roots = [row for row in settled.roots if row.label == leaf.label]
    if roots:
        return build_verdict("confirmed", roots[0].deciding[0].says, roots[0])
    aside = next((row for row in settled.aside if row.belief.label == leaf.label), None)
    if aside:
        return build_verdict(aside.verdict, aside.because)
    if best.posterior >= MIN_SUSPICION_POSTERIOR:
        unproven = build_verdict("open" if unasked else "inconclusive", f"{_format_support(best)}, but nothing that proves it")
        return replace(unproven, showing_hosts=tuple(sorted(best.showing_hosts)))
    if unasked:
        return build_verdict("open", f"not looked at yet: {', '.join(dict.fromkeys(check for _, check in unasked))}")
    if unobserved:
        return replace(
            build_verdict("inconclusive", f"could not look: {unobserved[0]}"), unobserved_hosts=coverage.list_unobserved_hosts(leaf)
        )
    if undecided := _explain_undecidable(best, coverage):
        return replace(build_verdict("inconclusive", undecided), showing_hosts=tuple(sorted(best.showing_hosts)))
    return replace(build_verdict("rejected", _format_rejection(best, coverage)), absent=not best.against)


def _explain_undecidable(row: Belief, coverage: Coverage) -> str:
    if not coverage.is_decidable(row.leaf):
        return "no check that was run can decide it"
    return f"shows on {fold_host_names(row.showing_hosts)} alone, not on most of the hosts" if row.showing_hosts else ""


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
        for check in coverage.reference.list_deciding_checks(row.leaf)
    }
    checks = ", ".join(check for check, hosts in by_check.items() if hosts)
    if not checks:
        return "nothing that could be looked at shows it"
    hosts = len(set().union(*by_check.values()))
    return f"{checks} looked at on {hosts} host{'s' * (hosts != 1)}, nothing shows it"


def _compute_confidence(row: Belief) -> float:
    """Scale posteriors above CONFIRMED_POSTERIOR to the measured accuracy."""
    above = max(0.0, row.posterior - CONFIRMED_POSTERIOR) / (1 - CONFIRMED_POSTERIOR)
    return round(min(row.posterior, CONFIRMED_POSTERIOR) + above * (MAX_CONFIDENCE - CONFIRMED_POSTERIOR), 3)


# Causes that no passive check shows: they fit the complaint, and only an exclusive check can tell. Pure.
#
# Example: a GPU that computes wrong numbers while every health check is green.

MIN_HOSTS_BY_SCOPE = {"pair": 2, "group": 3}  # hosts a multi-host check needs to find the guilty one by comparison
MAX_LIKELY_CAUSES = 3  # possible causes per report that justify an exclusive check


@dataclass(frozen=True, slots=True)
class HiddenCause:
    """A cause, its exclusive checks (each can tell, cheapest first), the hosts none observed, and why if one was asked."""

    leaf: Leaf
    checks: tuple[Check, ...]
    hosts: tuple[str, ...]
    why: str = ""
    measured: bool = False  # the report complains of exactly what the check measures

    @property
    def check_names(self) -> str:
        return " or ".join(check.id for check in self.checks)

    @property
    def says(self) -> str:
        host_names = fold_host_names(self.hosts)
        if self.measured:
            return f"what is reported as slow is measured by {self.check_names}, which did not look at {host_names}{f' ({self.why})' if self.why else ''}"
        return f"{self.leaf.title} would show in {self.check_names} alone, which did not look at {host_names}{f' ({self.why})' if self.why else ''}"


def find_hidden_causes(
    standings: Iterable[LabelVerdict],
    symptoms: Collection[str],
    reference: ReferenceData,
    coverage: Coverage,
    measured: Iterable[Sequence[str]] = (),
) -> tuple[HiddenCause, ...]:
    """Return the hidden ones among the likeliest causes of the symptoms.

    Args:
        standings: Most likely first.
        coverage: Of the hosts complained of.
        measured: Checks that measure the complaint, each with its alternatives for fewer hosts.
    """
    fitting = [row for row in standings if not set(symptoms).isdisjoint(row.best.leaf.symptoms)]
    rows = [
        (row, _build_hidden_cause(row.best.leaf, _list_exclusive_checks(row.best.leaf, reference), coverage))
        for row in fitting
        if row.verdict != "confirmed"
    ]
    possible = [hidden for row, hidden in rows if hidden is not None or row.verdict != "rejected"]
    hidden_causes = tuple(hidden for hidden in possible[:MAX_LIKELY_CAUSES] if hidden is not None)
    measured_causes = (_find_measured_cause(names, fitting, reference, coverage) for names in measured)
    return (*hidden_causes, *(row for row in measured_causes if row is not None))


def _find_measured_cause(
    names: Sequence[str], fitting: Sequence[LabelVerdict], reference: ReferenceData, coverage: Coverage
) -> HiddenCause | None:
    """Return the first alternative that can run on this many hosts, with the likeliest cause it can confirm."""
    able = (reference.checks[name] for name in names if name in reference.checks)
    check = next((one for one in able if len(coverage.hosts) >= MIN_HOSTS_BY_SCOPE.get(one.scope, 1)), None)
    leaf = next((row.best.leaf for row in fitting if check and check.id in row.best.leaf.confirms), None)
    hidden = _build_hidden_cause(leaf, [check], coverage) if check and leaf else None
    return replace(hidden, measured=True) if hidden else None


def _build_hidden_cause(leaf: Leaf, checks: Sequence[Check], coverage: Coverage) -> HiddenCause | None:
    hosts = tuple(host for host in coverage.hosts if not any(coverage.has_observed(host, check.id) for check in checks))
    skip_reason = next((coverage.skipped[host, check.id] for check in checks for host in hosts if (host, check.id) in coverage.skipped), "")
    return HiddenCause(leaf, tuple(checks), hosts, skip_reason) if checks and hosts else None


def _list_exclusive_checks(leaf: Leaf, reference: ReferenceData) -> Sequence[Check]:
    """Return the exclusive checks that decide a leaf; empty if a passive one can."""
    if reference.list_deciding_checks(leaf):
        return ()
    able = {check.id for key in reference.list_decisive_keys(leaf) for check in reference.list_establishing_checks(key) if check.exclusive}
    return sorted((reference.checks[name] for name in leaf.confirms if name in able), key=lambda check: (check.seconds, check.id))
