"""Judge whether a host still shows a cause. Proofs use it after a remedy, and the action graph before a claim."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from graph.engine.assessment import Assessment
from graph.engine.belief import Belief
from graph.engine.reference_data import is_tenant_writable
from graph.engine.verdict import MIN_SUSPICION_POSTERIOR
from kb.taxonomy.taxonomy import Leaf


@dataclass(frozen=True, slots=True)
class CausePresence:
    """The answer and its reason in words.

    `shown`: a fact proves the cause. `likely`: facts support it. `gone`: the host was observed, and nothing shows it.
    `unseen`: what could decide was not observed.
    """

    answer: Literal["shown", "likely", "gone", "unseen"]
    says: str


def assess_presence(leaf: Leaf, devices: Sequence[str], assessment: Assessment) -> CausePresence:
    """Return the presence on the given devices (`host/gpuN`) of one host; without devices, on the whole host."""
    beliefs = [belief for belief in assessment.by_label.get(leaf.label, ()) if can_concern_devices(devices, belief.subject.named_devices)]
    root_beliefs = [belief for belief in beliefs if belief in assessment.roots]
    shown_beliefs = root_beliefs or [belief for belief in beliefs if belief.proven or is_stated_by_host(belief)]
    if shown_beliefs:
        return CausePresence("shown", shown_beliefs[0].deciding[0].says)
    unobserved, _ = assessment.coverage.find_gaps(leaf)
    if unobserved:
        return CausePresence("unseen", unobserved[0])
    if not assessment.coverage.is_decidable(leaf):
        return CausePresence("unseen", "no check that was run can decide it")
    for belief in beliefs:
        if belief.posterior >= MIN_SUSPICION_POSTERIOR and belief.support:
            return CausePresence("likely", f"still likely: {belief.support[0].says}")
    return CausePresence("gone", f"{leaf.title} no longer shows on {', '.join(devices) or ', '.join(assessment.hosts)}")


def is_stated_by_host(belief: Belief) -> bool:
    """Return whether the host itself reports a deciding fact.

    Such a fact counts whatever the posterior, because a single host has no peers to compare with.
    """
    return any(not is_tenant_writable(match.fact.key) for match in belief.deciding)


def can_concern_devices(devices: Sequence[str], named: Sequence[str]) -> bool:
    """Return whether two sets of devices overlap; an empty set is the whole host."""
    return not devices or not named or bool(set(named) & set(devices))
