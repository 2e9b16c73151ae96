"""Choose the next checks: all passive ones, a depth-first search of the taxonomy, then one exclusive check at a time by gain. Pure."""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from graph.engine.assessment import Assessment
from graph.engine.belief import Belief, has_only_old_events
from graph.engine.reference_data import ReferenceData
from graph.engine.verdict import MIN_HOSTS_BY_SCOPE, LabelVerdict
from kb.fact_keys import find_key
from tools.checks.check_types import Check

# Depth-first search of the taxonomy: likeliest child first, with pruning and backtracking. Pure.
#
# Algorithm 1 of AidAI with the posterior in place of the model. Unlike there, facts persist between siblings, so most
# leaves are decided by earlier observations. The state is plain JSON and may pause at any leaf.

MIN_RELEVANT_POSTERIOR = 0.015  # below this an unsupported leaf is not visited
MAX_LOG_ENTRIES = 40  # log entries
MAX_REASON_CHARS = 60  # characters per reason: the state is stored at every step


@dataclass(frozen=True, slots=True)
class LeafVisit:
    """A leaf whose (host, check) pairs must be observed before the search continues."""

    label: str
    asks: tuple[tuple[str, str], ...]


@dataclass(slots=True)
class TaxonomySearch:
    """State of a search. `stack` holds a path and its unvisited children; cards draw the log."""

    stack: list[tuple[str, list[str]]] = field(default_factory=list)
    started: bool = False
    found: list[str] = field(default_factory=list)
    exhausted: list[str] = field(default_factory=list)
    log: list[tuple[str, str, str]] = field(default_factory=list)  # (path, action, reason)

    @classmethod
    def from_json(cls, state: Mapping[str, Any]) -> "TaxonomySearch":
        return cls(
            stack=[(path, list(todo)) for path, todo in state.get("stack", ())],
            started=bool(state.get("started")),
            found=list(state.get("found", ())),
            exhausted=list(state.get("exhausted", ())),
            log=[(path, did, reason) for path, did, reason in state.get("log", ())],
        )

    def to_json(self) -> dict[str, Any]:
        return {
            "stack": [[path, list(todo)] for path, todo in self.stack],
            "started": self.started,
            "found": self.found,
            "exhausted": self.exhausted,
            "log": [list(entry) for entry in self.log],
        }

    def log_step(self, path: str, did: str, why: str = "") -> None:
        if len(self.log) < MAX_LOG_ENTRIES:
            self.log.append((path, did, why[:MAX_REASON_CHARS]))


def advance_search(search: TaxonomySearch, assessment: Assessment) -> tuple[TaxonomySearch, LeafVisit | None]:
    """Advance the search until a leaf needs observation, or return None when all relevant branches are explored."""
    search = TaxonomySearch.from_json(search.to_json())
    if not search.started:
        search.started = True
        search.stack.append(("", _select_children(search, "", assessment)))
    while search.stack:
        path, todo = search.stack[-1]
        if not todo:
            _leave_branch(search, path)
            continue
        child = todo[0]
        if child in assessment.label_verdicts:
            visit = _visit_leaf(search, child, assessment)
            if visit:
                return search, visit
        else:
            search.stack.append((child, _select_children(search, child, assessment)))
        todo.pop(0)
    return search, None


def _select_children(search: TaxonomySearch, path: str, assessment: Assessment) -> list[str]:
    """Return relevant children, likeliest best leaf first; an empty list stops early."""
    children = assessment.reference.taxonomy.list_children(path)
    worth = {child: _compute_interest(_list_verdicts_below(child, assessment)) for child in children}
    kept_children = sorted((child for child in children if worth[child] > 0), key=lambda child: (-worth[child], child))
    pruned = [child for child in children if worth[child] <= 0]
    if not kept_children and path:
        search.log_step(path, "stopped early", _format_prune_reason(_list_verdicts_below(path, assessment)))
    elif pruned and not path:
        for child in pruned:
            search.log_step(child, "pruned", _format_prune_reason(_list_verdicts_below(child, assessment)))
    return kept_children


def _list_verdicts_below(path: str, assessment: Assessment) -> list[LabelVerdict]:
    labels: Iterable[str] = (label for label in assessment.label_verdicts if label == path or label.startswith(f"{path}."))
    return [assessment.label_verdicts[label] for label in labels]


def _compute_interest(standings: Sequence[LabelVerdict]) -> float:
    return max((_compute_leaf_interest(verdict) for verdict in standings), default=0.0)


def _compute_leaf_interest(standing: LabelVerdict) -> float:
    if standing.verdict == "confirmed":
        return 1 + standing.confidence
    if standing.verdict == "rejected" and not standing.best.support:
        return 0.0
    return standing.confidence if standing.confidence >= MIN_RELEVANT_POSTERIOR or standing.best.support else 0.0


def _format_prune_reason(standings: Sequence[LabelVerdict]) -> str:
    rejected = [verdict for verdict in standings if verdict.verdict == "rejected"]
    return f"{len(rejected)} of {len(standings)} rejected, the rest unlikely"


def _visit_leaf(search: TaxonomySearch, label: str, assessment: Assessment) -> LeafVisit | None:
    """Judge a leaf, or return a LeafVisit if checks are missing."""
    verdict = assessment.label_verdicts[label]
    if verdict.verdict == "open" and verdict.unasked_checks:
        return LeafVisit(label, verdict.unasked_checks)
    if verdict.verdict == "confirmed":
        search.found.append(label)
    did = "could not look" if verdict.unobserved_hosts else verdict.verdict
    search.log_step(label, did, "" if verdict.verdict == "rejected" else verdict.because)
    return None


def _leave_branch(search: TaxonomySearch, path: str) -> None:
    search.stack.pop()
    if path:
        search.exhausted.append(path)
        if not any(label.startswith(f"{path}.") for label in search.found):
            search.log_step(path, "backtracked")


# Choose the next checks: all passive ones, then one exclusive check at a time by gain per second.

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
    open_rows = [row for row in _list_unsettled(assessment) if list_hosts_to_test(row, check, assessment)]
    hosts = dict.fromkeys(host for row in open_rows for host in list_hosts_to_test(row, check, assessment))
    unasked = tuple(host for host in hosts if (host, check.id) not in assessment.coverage.asked)
    if check.scope != "host":
        unasked = select_comparison_hosts(check, hosts, assessment) if len(unasked) == len(hosts) else ()
    gain = sum(_compute_entropy(row.posterior) for row in open_rows) / max(check.seconds, 1.0)
    return CheckOffer(check.id, unasked, gain) if unasked and gain else None


def _build_locating_offer(check: Check, assessment: Assessment) -> CheckOffer | None:
    """Offer a check that finds the device of a proven device fault."""
    rows = [row for row in assessment.roots if row.leaf.scope in DEVICE_SCOPES and not row.subject.device and check.id in row.leaf.confirms]
    rows = [
        row
        for row in rows
        if any(_can_locate_device(row.leaf.scope, key, check) for key in assessment.reference.list_decisive_keys(row.leaf))
    ]
    hosts = tuple(dict.fromkeys(h for row in rows for h in row.subject.hosts if (h, check.id) not in assessment.coverage.asked))
    return CheckOffer(check.id, hosts, len(rows) / max(check.seconds, 1.0)) if hosts and check.scope == "host" else None


def _can_locate_device(scope: str, key: str, check: Check) -> bool:
    row = find_key(key)
    return row is not None and row.scope == scope and key in check.establishes


def _list_unsettled(assessment: Assessment) -> list[Belief]:
    aside = {id(row.belief) for row in assessment.selection.aside}
    return [row for row in assessment.beliefs if not row.proven and id(row) not in aside]


def list_hosts_to_test(row: Belief, check: Check, assessment: Assessment) -> tuple[str, ...]:
    """Return the hosts on which a belief justifies an exclusive check.

    It takes an observed fact, a fitting complaint about named hosts, or a fitting cause that only this check can show.
    Old events justify none.
    """
    if check.id not in row.leaf.confirms:
        return ()
    if hidden := [one for one in assessment.open_hidden_causes if one.leaf.label == row.label and check in one.checks]:
        return hidden[0].hosts
    if row.posterior < (MIN_SUSPECTED_POSTERIOR if assessment.roots else MIN_TEST_POSTERIOR) or has_only_old_events(
        match.fact for match in row.support
    ):
        return ()
    if row.subject.hosts or row.shown:
        return row.subject.hosts or assessment.hosts
    complains = not set(row.leaf.symptoms).isdisjoint(assessment.symptoms)
    return tuple(host for host in assessment.reported_hosts if host in assessment.hosts) if complains else ()


def select_comparison_hosts(check: Check, hosts: Collection[str], assessment: Assessment) -> tuple[str, ...]:
    """Return the hosts of the complaint, else all of the incident: a multi-host check needs good hosts too."""
    complained = any(check in one.checks and set(one.hosts) == set(hosts) for one in assessment.open_hidden_causes)
    candidate_hosts = tuple(hosts) if complained else tuple(assessment.hosts)
    return candidate_hosts if len(candidate_hosts) >= MIN_HOSTS_BY_SCOPE[check.scope] else ()


def _compute_entropy(p: float) -> float:
    return 0.0 if p <= 0 or p >= 1 else -(p * math.log2(p) + (1 - p) * math.log2(1 - p))
