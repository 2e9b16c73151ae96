"""Beliefs to verdicts: set consequences aside, compare rivals, keep unobserved causes open.

`rejected` means that the deciding checks were observed and say no; if they were not, the verdict is `inconclusive`,
never "healthy".
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from graph.engine.belief import CONFIRMED_POSTERIOR, Belief, has_only_old_events
from graph.engine.coverage import Coverage
from graph.engine.derived_facts import REPEATING_XIDS
from graph.engine.fact_history import EVENT_KEY_PREFIXES, get_last_seen
from graph.engine.reference_data import is_tenant_writable
from graph.state import Verdict
from kb.taxonomy.taxonomy import Leaf
from tools.fact import Fact
from tools.inventory.host_ranges import fold_host_names

RIVAL_LOG_ODDS_MARGIN = 0.5  # labels decided by the same facts are indistinguishable below this difference
MAX_CLOCK_SKEW = timedelta(seconds=120)  # an event earlier by more is not a consequence; less may be clock skew
MIN_SUSPICION_POSTERIOR = 0.5  # posterior from which an unproven label is a suspicion
# highest stated confidence; on three fresh benchmark seeds 631 of 647 answers with posterior ≥ 0.995 were right
MAX_CONFIDENCE = 0.975
# machine-only keys; while one is unexplained, log text is not accepted as the cause
MACHINE_KEY_PREFIXES = ("kernel.xid", "kernel.sxid", "kernel.nvlink5", "kernel.mce", "kernel.inforom", "gpu.", "smi.", "pcie.")
SETTING_KEY_PREFIXES = ("gpu.clock.", "gpu.power.", "gpu.throttle.", "gpu.mig", "gpu.compute_mode", "gpu.fabric.", "pcie.acs")


@dataclass(frozen=True, slots=True)
class SetAsideBelief:
    """A proven belief that is not a root cause, its label's verdict, and the reason."""

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


def select_root_causes(beliefs: Sequence[Belief], abnormal_facts: Sequence[Fact] = ()) -> RootCauseSelection:
    """Select root causes among the proven beliefs. `abnormal_facts`: facts abnormal in themselves."""
    proven = [belief for belief in beliefs if belief.proven]
    aside = _find_consequences(proven)
    remaining_beliefs = [belief for belief in proven if id(belief) not in aside]
    rivals, contradictions = _find_rivals(remaining_beliefs)
    aside |= rivals
    contradictions += [_format_disagreement(belief) for belief in beliefs if _is_contradicted(belief)]
    roots = tuple(belief for belief in remaining_beliefs if id(belief) not in aside)
    machine = _find_unexplained_fact(roots, abnormal_facts)
    if machine:
        reason = f"cannot be the whole cause: {machine.host} says {machine.format_sentence()}"[:200]
        aside |= {id(belief): _build_undecided(belief, reason) for belief in roots}
        contradictions.append(f"{roots[0].leaf.title} {reason}")
        roots = ()
    return RootCauseSelection(roots, tuple(aside.values()), tuple(dict.fromkeys(contradictions)))


def _find_consequences(proven: Sequence[Belief]) -> dict[int, SetAsideBelief]:
    aside: dict[int, SetAsideBelief] = {}
    causes = _index_by_consequence(proven)
    for belief in proven:
        cause = next(
            (other_belief for other_belief in _find_candidate_causes(belief, causes) if _explains_belief(other_belief, belief)), None
        )
        if cause:
            aside[id(belief)] = SetAsideBelief(belief, "rejected", f"a consequence of {cause.leaf.title}{_format_place(cause)}")
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


def _find_candidate_causes(belief: Belief, causes: CausesByConsequence) -> Sequence[Belief]:
    hosts = ("", *belief.subject.hosts) if belief.subject.hosts else ("*",)
    candidates = dict(cause for host in hosts for cause in causes.get((belief.label, host), ()))
    return [candidates[place] for place in sorted(candidates)]


def _find_rivals(remaining_beliefs: Sequence[Belief]) -> tuple[dict[int, SetAsideBelief], list[str]]:
    """Set aside all but the clearly likeliest of beliefs with the same evidence; report ties."""
    aside: dict[int, SetAsideBelief] = {}
    contradictions: list[str] = []
    by_fact: dict[int, list[Belief]] = defaultdict(list)
    for belief in remaining_beliefs:
        own_fact_ids = {id(match.fact) for match in belief.deciding}
        likelier = by_fact[min(own_fact_ids)] if own_fact_ids else ()
        rival = next(
            (other_belief for other_belief in likelier if id(other_belief) not in aside and _has_same_evidence(other_belief, belief)), None
        )
        if rival and rival.log_odds - belief.log_odds >= RIVAL_LOG_ODDS_MARGIN:
            aside[id(belief)] = SetAsideBelief(belief, "rejected", f"the same evidence is better explained by {rival.leaf.title}")
        elif rival:
            contradictions.append(f"the evidence fits {rival.leaf.title} and {belief.leaf.title} equally")
            aside |= {
                id(b): _build_undecided(b, f"cannot be told apart from {o.leaf.title}") for b, o in ((belief, rival), (rival, belief))
            }
        for fact in own_fact_ids:
            by_fact[fact].append(belief)
    return aside, contradictions


def _build_undecided(belief: Belief, because: str) -> SetAsideBelief:
    return SetAsideBelief(belief, "inconclusive", because)


def _find_unexplained_fact(roots: Sequence[Belief], abnormal_facts: Sequence[Fact]) -> Fact | None:
    """Return a machine fact that text-only causes leave unexplained, on their hosts if all name some."""
    if not roots or not all(_has_only_text(belief) for belief in roots):
        return None
    explained = frozenset().union(*(belief.explains for belief in roots))
    hosts = {host for belief in roots for host in belief.subject.hosts} if all(belief.subject.hosts for belief in roots) else None
    concerned = (fact for fact in abnormal_facts if fact.host and (hosts is None or fact.host in hosts))
    return next((fact for fact in concerned if _is_machine_fact(fact) and id(fact) not in explained), None)


def _is_machine_fact(fact: Fact) -> bool:
    """Return whether no program can cause the fact; settings break no running program."""
    return (
        fact.key.startswith(MACHINE_KEY_PREFIXES)
        and not fact.key.startswith(SETTING_KEY_PREFIXES)
        and not (fact.key == "kernel.xid" and fact.value in REPEATING_XIDS)
    )


def _has_only_text(belief: Belief) -> bool:
    return all(is_tenant_writable(match.fact.key) or not match.fact.host for match in belief.deciding)


def _explains_belief(cause: Belief, belief: Belief) -> bool:
    """Return whether `cause` explains `belief` away; of two that name each other the likelier stays.

    Tenant-writable text never explains away a machine's own facts.
    """
    if cause is belief or belief.label not in cause.leaf.suppresses or not _is_same_place(cause, belief):
        return False
    if _is_long_before(belief, cause) or (_has_only_text(cause) and not _has_only_text(belief)):
        return False
    mutual = cause.label in belief.leaf.suppresses
    return not mutual or (cause.log_odds, belief.label) > (belief.log_odds, cause.label)


def _is_long_before(belief: Belief, cause: Belief) -> bool:
    """Return whether `belief` began well before `cause`; facts without event time do not count."""
    own_times, cause_times = _list_event_times(belief), _list_event_times(cause)
    return bool(own_times and cause_times) and min(own_times) < min(cause_times) - MAX_CLOCK_SKEW


def _list_event_times(belief: Belief) -> list[datetime]:
    return [match.fact.time for match in belief.deciding if match.fact.time and match.fact.key.startswith(EVENT_KEY_PREFIXES)]


def _is_same_place(belief: Belief, other_belief: Belief) -> bool:
    return not belief.subject.hosts or not other_belief.subject.hosts or bool(set(belief.subject.hosts) & set(other_belief.subject.hosts))


def _has_same_evidence(rival: Belief, belief: Belief) -> bool:
    """Return whether all that decides for `belief` decides for `rival` too, at the same place."""
    own_fact_ids = {id(match.fact) for match in belief.deciding}
    return rival.label != belief.label and _is_same_place(rival, belief) and own_fact_ids <= {id(match.fact) for match in rival.deciding}


def _is_contradicted(belief: Belief) -> bool:
    """Return whether decisive support meets heavy contradiction and neither wins."""
    return not belief.proven and bool(belief.deciding) and sum(m.weight for m in belief.against) <= -3 and belief.posterior >= 0.3


def _format_disagreement(belief: Belief) -> str:
    return f"facts disagree about {belief.leaf.title}{_format_place(belief)}: {belief.deciding[0].says}, but {belief.against[0].says}"


def _format_place(belief: Belief) -> str:
    names = belief.subject.named_devices or belief.subject.hosts
    return f" on {', '.join(names[:3])}" if names else ""


def judge_label(leaf: Leaf, beliefs: Sequence[Belief], selection: RootCauseSelection, coverage: Coverage) -> LabelVerdict:
    """Return the verdict on one label from its beliefs (best first)."""
    best = beliefs[0]
    unobserved, unasked = coverage.find_gaps(leaf)

    def build_verdict(verdict: Verdict, because: str, belief: Belief = best) -> LabelVerdict:
        return LabelVerdict(leaf.label, verdict, _compute_confidence(belief), because, belief, tuple(unobserved), tuple(unasked))

    roots = [belief for belief in selection.roots if belief.label == leaf.label]
    if roots:
        return build_verdict("confirmed", roots[0].deciding[0].says, roots[0])
    aside = next((set_aside for set_aside in selection.aside if set_aside.belief.label == leaf.label), None)
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


def _explain_undecidable(belief: Belief, coverage: Coverage) -> str:
    if not coverage.is_decidable(belief.leaf):
        return "no check that was run can decide it"
    return f"shows on {fold_host_names(belief.showing_hosts)} alone, not on most of the hosts" if belief.showing_hosts else ""


def _format_support(belief: Belief) -> str:
    return "; ".join(match.says for match in belief.support[:2]) or "the words of the ticket fit"


def _format_rejection(belief: Belief, coverage: Coverage) -> str:
    if belief.against:
        return belief.against[0].says
    if has_only_old_events(match.fact for match in belief.support):
        fact = belief.support[0].fact
        return f"{belief.support[0].says}, last {get_last_seen(fact):%Y-%m-%d %H:%M} UTC, and not since"
    by_check = {
        check.id: {host for host in coverage.hosts if coverage.has_observed(host, check.id)}
        for check in coverage.reference.list_deciding_checks(belief.leaf)
    }
    checks = ", ".join(check for check, hosts in by_check.items() if hosts)
    if not checks:
        return "nothing that could be looked at shows it"
    hosts = len(set().union(*by_check.values()))
    return f"{checks} looked at on {hosts} host{'s' * (hosts != 1)}, nothing shows it"


def _compute_confidence(belief: Belief) -> float:
    """Scale posteriors above CONFIRMED_POSTERIOR to the measured accuracy."""
    above = max(0.0, belief.posterior - CONFIRMED_POSTERIOR) / (1 - CONFIRMED_POSTERIOR)
    return round(min(belief.posterior, CONFIRMED_POSTERIOR) + above * (MAX_CONFIDENCE - CONFIRMED_POSTERIOR), 3)
