"""Choose the next checks: all passive ones, then one exclusive check at a time by gain per second."""

import math
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from graph.engine.assessment import Assessment
from graph.engine.belief import Belief, has_only_old_events
from graph.engine.hidden_causes import MIN_HOSTS_BY_SCOPE
from graph.engine.reference_data import ReferenceData
from kb.fact_keys import find_key
from tools.checks.check_types import Check

MIN_TEST_POSTERIOR = 0.1  # posterior from which a cause justifies an exclusive check
MIN_SUSPECTED_POSTERIOR = 0.5  # the same once a cause is proven: only strong suspicions are tested
DEVICE_SCOPES = ("gpu", "hca")  # scopes whose device must be known before a remediation


@dataclass(frozen=True, slots=True)
class CheckOffer:
    """A check on some hosts, and its expected gain in bits per second."""

    check: str
    hosts: tuple[str, ...]
    gain: float


def list_first_wave(reference: ReferenceData, hosts: Iterable[str]) -> list[tuple[str, str]]:
    """Return every passive check on every host."""
    return [(host, check.id) for host in hosts for check in reference.list_passive_checks()]


def rank_exclusive_offers(assessment: Assessment) -> list[CheckOffer]:
    """Return exclusive checks that could decide something, best gain first; then those that locate a device."""
    checks = [check for check in assessment.reference.checks.values() if check.exclusive]
    offers = [offer for check in checks if (offer := _build_offer(check, assessment))]
    placing = [offer for check in checks if (offer := _build_locating_offer(check, assessment))]
    return sorted(offers, key=lambda offer: (-offer.gain, offer.check)) + sorted(placing, key=lambda offer: (-offer.gain, offer.check))


def _build_offer(check: Check, assessment: Assessment) -> CheckOffer | None:
    open_rows = [belief for belief in _list_unsettled(assessment) if list_hosts_to_test(belief, check, assessment)]
    hosts = dict.fromkeys(host for belief in open_rows for host in list_hosts_to_test(belief, check, assessment))
    unasked = tuple(host for host in hosts if (host, check.id) not in assessment.coverage.asked)
    if check.scope != "host":
        unasked = select_comparison_hosts(check, hosts, assessment) if len(unasked) == len(hosts) else ()
    gain = sum(_compute_entropy(belief.posterior) for belief in open_rows) / max(check.seconds, 1.0)
    return CheckOffer(check.id, unasked, gain) if unasked and gain else None


def _build_locating_offer(check: Check, assessment: Assessment) -> CheckOffer | None:
    """Offer a check that finds the device of a proven device fault."""
    beliefs = [
        belief
        for belief in assessment.roots
        if belief.leaf.scope in DEVICE_SCOPES and not belief.subject.device and check.id in belief.leaf.confirms
    ]
    beliefs = [
        belief
        for belief in beliefs
        if any(_can_locate_device(belief.leaf.scope, key, check) for key in assessment.reference.list_decisive_keys(belief.leaf))
    ]
    hosts = tuple(dict.fromkeys(h for belief in beliefs for h in belief.subject.hosts if (h, check.id) not in assessment.coverage.asked))
    return CheckOffer(check.id, hosts, len(beliefs) / max(check.seconds, 1.0)) if hosts and check.scope == "host" else None


def _can_locate_device(scope: str, key: str, check: Check) -> bool:
    fact_key = find_key(key)
    return fact_key is not None and fact_key.scope == scope and key in check.establishes


def _list_unsettled(assessment: Assessment) -> list[Belief]:
    aside = {id(set_aside.belief) for set_aside in assessment.selection.aside}
    return [belief for belief in assessment.beliefs if not belief.proven and id(belief) not in aside]


def list_hosts_to_test(belief: Belief, check: Check, assessment: Assessment) -> tuple[str, ...]:
    """Return the hosts on which a belief justifies an exclusive check.

    It takes an observed fact, a fitting complaint about named hosts, or a fitting cause that only this check can show.
    Old events justify none.
    """
    if check.id not in belief.leaf.confirms:
        return ()
    if hidden := [
        hidden_cause
        for hidden_cause in assessment.open_hidden_causes
        if hidden_cause.leaf.label == belief.label and check in hidden_cause.checks
    ]:
        return hidden[0].hosts
    if belief.posterior < (MIN_SUSPECTED_POSTERIOR if assessment.roots else MIN_TEST_POSTERIOR) or has_only_old_events(
        match.fact for match in belief.support
    ):
        return ()
    if belief.subject.hosts or belief.shown:
        return belief.subject.hosts or assessment.hosts
    complains = not set(belief.leaf.symptoms).isdisjoint(assessment.symptoms)
    return tuple(host for host in assessment.reported_hosts if host in assessment.hosts) if complains else ()


def select_comparison_hosts(check: Check, hosts: Collection[str], assessment: Assessment) -> tuple[str, ...]:
    """Return the hosts of the complaint, else all of the incident: a multi-host check needs good hosts too."""
    complained = any(
        check in hidden_cause.checks and set(hidden_cause.hosts) == set(hosts) for hidden_cause in assessment.open_hidden_causes
    )
    candidate_hosts = tuple(hosts) if complained else tuple(assessment.hosts)
    return candidate_hosts if len(candidate_hosts) >= MIN_HOSTS_BY_SCOPE[check.scope] else ()


def _compute_entropy(p: float) -> float:
    return 0.0 if p <= 0 or p >= 1 else -(p * math.log2(p) + (1 - p) * math.log2(1 - p))
