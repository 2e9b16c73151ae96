"""Deterministic diagnosis: turn facts into ranked causes, verdicts and an outcome, each with its evidence.

Without a proven cause the outcome is `no_fault` only if every host was observed and nothing is abnormal. Otherwise it is
`abstained`.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from itertools import zip_longest
from typing import Literal

from graph.engine.abnormal_facts import SETTING_KEYS, can_be_abnormal, is_abnormal, was_abnormal
from graph.engine.belief import (
    LINK_KEYS,
    MIN_MAJORITY_OBSERVATIONS,
    Belief,
    ClueMatch,
    ClueMatcher,
    compute_beliefs,
    format_event_history,
)
from graph.engine.coverage import Coverage
from graph.engine.expected_devices import ELSEWHERE_ATTRIBUTE, drop_absence_of_gpus, list_uncounted_events
from graph.engine.fact_history import is_old
from graph.engine.fact_preparation import prepare_facts
from graph.engine.hidden_causes import HiddenCause, find_hidden_causes
from graph.engine.peer_differences import DIFFERENCE_KEYS
from graph.engine.reference_data import PlaceKind, ReferenceData, is_tenant_writable
from graph.engine.verdict import MIN_SUSPICION_POSTERIOR, LabelVerdict, RootCauseSelection, judge_label, select_root_causes
from graph.state import Evidence, FileSource, Hypothesis, Tier, UnobservedCheck
from kb.taxonomy.taxonomy import Leaf, Taxonomy
from tools.fact import Fact, Status
from tools.inventory.host_ranges import fold_host_names

AssessmentOutcome = Literal["diagnosed", "no_fault", "abstained"]
MAX_EVIDENCE = 4
MAX_CITED_SUBJECTS = 8  # up to this many subjects are all cited
MAX_EVIDENCE_LINE_CHARS = 200
SURE_POSTERIOR = 0.96  # posterior from which a proven cause needs no further confirmation
# cap on the confidence of a proven cause while an unobserved cause could explain it or its symptoms
MAX_CONTESTED_CONFIDENCE = 0.85


@dataclass(frozen=True)
class Assessment:
    """The diagnosis so far. Beliefs are sorted with the most likely first."""

    reference: ReferenceData
    hosts: tuple[str, ...]
    beliefs: tuple[Belief, ...]
    selection: RootCauseSelection
    coverage: Coverage
    abnormal_facts: tuple[Fact, ...]
    symptoms: tuple[str, ...] = ()  # symptoms that the report complains of
    reported_hosts: tuple[str, ...] = ()  # hosts that the report names; their findings sort first
    # exclusive checks that measure exactly the complaint, each with its alternatives for fewer hosts
    complaint_checks: tuple[tuple[str, ...], ...] = ()
    # key on which all links contradict their profile → sentence that says so
    doubted_profiles: Mapping[str, str] = field(default_factory=dict)
    # (host, check, reason) of log events about devices that the host does not have
    uncounted: tuple[tuple[str, str, str], ...] = ()
    differing: tuple[Fact, ...] = ()  # differences of hosts from their peers or their own past
    old: tuple[Fact, ...] = ()  # abnormal machine events last seen long before the report; they decide nothing
    uploaded_facts: tuple[Fact, ...] = ()  # uploaded or imported facts that are abnormal or decisive, at any age

    @property
    def roots(self) -> tuple[Belief, ...]:
        return self.selection.roots

    @property
    def unexplained(self) -> tuple[Fact, ...]:
        return () if self.roots else self.abnormal_facts

    @cached_property
    def by_label(self) -> Mapping[str, list[Belief]]:
        beliefs_by_label: dict[str, list[Belief]] = defaultdict(list)
        for belief in self.beliefs:
            beliefs_by_label[belief.label].append(belief)
        return beliefs_by_label

    @cached_property
    def label_verdicts(self) -> Mapping[str, LabelVerdict]:
        """The verdict on each label, most likely first."""
        leaves = self.reference.taxonomy.leaves
        return {label: judge_label(leaves[label], beliefs, self.selection, self.coverage) for label, beliefs in self.by_label.items()}

    def precompute_verdicts(self) -> "Assessment":
        """Compute the slow cached properties and return self."""
        _ = self.label_verdicts, self.suspects, self.why_unsure
        return self

    @cached_property
    def suspects(self) -> tuple[Belief, ...]:
        """Likely beliefs, neither proven nor set aside."""
        set_aside_ids = {id(set_aside.belief) for set_aside in self.selection.aside}
        likely = [belief for belief in self.beliefs if belief.posterior >= MIN_SUSPICION_POSTERIOR and belief.support]
        return tuple(belief for belief in likely if not belief.proven and id(belief) not in set_aside_ids)

    @cached_property
    def open_hidden_causes(self) -> tuple[HiddenCause, ...]:
        """Likely causes that only an unobserved exclusive check can show; empty once a cause is proven."""
        return () if self.roots else self._find_hidden_causes(self.complaint_checks)

    @cached_property
    def rival_hidden_causes(self) -> tuple[HiddenCause, ...]:
        """Likely causes that only an unobserved exclusive check can show, and that may explain a proven cause's symptoms."""
        return self._find_hidden_causes() if self.roots else ()

    def _find_hidden_causes(self, measured: Sequence[tuple[str, ...]] = ()) -> tuple[HiddenCause, ...]:
        reported_hosts = tuple(host for host in self.reported_hosts if host in self.hosts)
        coverage = replace(self.coverage, hosts=reported_hosts) if reported_hosts else self.coverage
        return find_hidden_causes(self.label_verdicts.values(), self.symptoms, self.reference, coverage, measured)

    @property
    def is_narrow(self) -> bool:
        """Whether a proven cause is unsure, has a suspect on the same host, or is contradicted."""
        if not self.roots:
            return False
        root_hosts = {host for belief in self.roots for host in belief.subject.hosts}
        shares_host = any(not root_hosts.isdisjoint(belief.subject.hosts) for belief in self.suspects)
        is_unsure = min(belief.posterior for belief in self.roots) < SURE_POSTERIOR
        return is_unsure or shares_host or bool(self.selection.contradictions)

    @property
    def finding(self) -> AssessmentOutcome:
        if self.roots:
            return "diagnosed"
        if self.why_unsure:
            return "abstained"
        return "no_fault"

    @cached_property
    def why_unsure(self) -> tuple[str, ...]:
        """Why neither a cause nor its absence can be stated; empty if it can."""
        reasons = list(self.selection.contradictions)
        abnormal_facts = sorted(self.abnormal_facts, key=lambda fact: fact.key in self.fleetwide_keys)[:3]
        findings = [(belief.subject.hosts, f"{belief.leaf.title} is likely and unproven") for belief in self.suspects[:3]]
        findings += [((fact.host,), self._describe_abnormality(fact)[:MAX_EVIDENCE_LINE_CHARS]) for fact in abnormal_facts]
        # Findings on the reported hosts come first.
        reasons += [sentence for hosts, sentence in findings if not self._is_elsewhere(hosts)]
        reasons += [sentence for hosts, sentence in findings if self._is_elsewhere(hosts)]
        reasons += [sentence[:MAX_EVIDENCE_LINE_CHARS] for sentence in self.doubted_profiles.values()]
        reasons += [hidden_cause.says[:MAX_EVIDENCE_LINE_CHARS] for hidden_cause in self.open_hidden_causes]
        reasons += [f"what was handed in: {unread_text}"[:MAX_EVIDENCE_LINE_CHARS] for unread_text in self.coverage.list_unread_texts()]
        unobserved_checks = self.coverage.list_unobserved_checks()
        if unobserved_checks:
            host, check, reason = unobserved_checks[0]
            reasons.append(f"{len(unobserved_checks)} looks failed, first {check} on {host}: {reason}")
        if not self.hosts or self.coverage.has_unasked_check():
            reasons.append("not every machine was looked at")
        return tuple(reasons)

    @cached_property
    def fleetwide_keys(self) -> frozenset[str]:
        """Keys abnormal on every observed host, so no single host is at fault."""
        hosts_by_key: dict[str, set[str]] = defaultdict(set)
        for fact in self.abnormal_facts:
            hosts_by_key[fact.key].add(fact.host)
        all_hosts = set(self.hosts)
        if len(all_hosts) < MIN_MAJORITY_OBSERVATIONS:
            return frozenset()
        return frozenset(key for key, hosts in hosts_by_key.items() if hosts >= all_hosts)

    def _describe_abnormality(self, fact: Fact) -> str:
        if fact.key in self.fleetwide_keys:
            return f"unexplained on all {len(self.hosts)} hosts that were looked at: {fact.format_sentence()}"
        if fact.key == "sched.state" and fact.host:
            return f"{fact.host} is {fact.format_sentence()}"
        location = f" on {fact.host}" if fact.host else ""
        event_history = format_event_history(fact)
        history_note = f" ({event_history})" if event_history else ""
        return f"unexplained{location}: {fact.format_sentence()}{history_note}"

    def _is_elsewhere(self, hosts: Sequence[str]) -> bool:
        return bool(self.reported_hosts) and any(hosts) and not set(hosts) & set(self.reported_hosts)

    def build_hypothesis(self, label: str, tier: Tier = "taxonomy") -> Hypothesis:
        """Build the hypothesis of a label for display.

        It names the guilty hosts and devices, or the hosts that alone keep the label undecided.
        """
        verdict = self.label_verdicts[label]
        beliefs = [belief for belief in self.roots if belief.label == label] or [verdict.best]
        confirmed = verdict.verdict == "confirmed"
        hides = confirmed and self.list_unobserved_rivals(label)
        rival_hidden_causes = self.rival_hidden_causes if confirmed else ()
        explained = set(self.reference.taxonomy.leaves[label].symptoms) & set(self.symptoms)
        rivals = any(explained & set(hidden_cause.leaf.symptoms) for hidden_cause in rival_hidden_causes)
        return Hypothesis(
            label=label,
            hosts=verdict.unobserved_hosts
            or verdict.showing_hosts
            or tuple(sorted({host for belief in beliefs for host in belief.accused})),
            devices=()
            if verdict.unobserved_hosts or verdict.showing_hosts
            else tuple(sorted({name for belief in beliefs for name in belief.subject.named_devices})),
            tier=tier,
            verdict=verdict.verdict,
            confidence=min(verdict.confidence, MAX_CONTESTED_CONFIDENCE) if hides or rivals else verdict.confidence,
            because=f"{verdict.because}{_format_unobserved_cause(hides, self.reference.taxonomy) if hides else _format_possible_cause(rival_hidden_causes)}"[
                :MAX_EVIDENCE_LINE_CHARS
            ],
            evidence=tuple(cite_evidence(beliefs)),
            checks=tuple(dict.fromkeys(match.fact.check for belief in beliefs for match in belief.support)),
        )

    def list_unobserved_rivals(self, label: str) -> tuple[str, ...]:
        """Return unobserved causes that would explain a confirmed one away."""
        hosts = {host for belief in self.roots if belief.label == label for host in (*belief.subject.hosts, *belief.shown)}
        above = (self.label_verdicts[leaf.label] for leaf in self.reference.taxonomy.leaves.values() if label in leaf.suppresses)
        return tuple(
            verdict.label
            for verdict in above
            if verdict.unobserved_checks and verdict.verdict == "inconclusive" and self._is_unobserved_on(verdict.label, hosts)
        )

    def _is_unobserved_on(self, label: str, hosts: set[str]) -> bool:
        unseen = set(self.coverage.list_unobserved_hosts(self.reference.taxonomy.leaves[label]))
        return bool(unseen & hosts) if hosts else bool(unseen)

    @cached_property
    def hosts_by_cause(self) -> Mapping[str, frozenset[str]]:
        """Confirmed label → every host that shows it, cited or not."""
        hosts_by_label: dict[str, frozenset[str]] = defaultdict(frozenset)
        for belief in self.roots:
            hosts_by_label[belief.label] |= belief.shown
        return hosts_by_label

    def is_cluster_cause(self, label: str) -> bool:
        """Return whether all hosts depend on what fails. Jobs may run without an outside service."""
        leaf = self.reference.taxonomy.leaves[label]
        return leaf.scope == "cluster" and leaf.category != "OTHER"

    def list_common_causes(self, hosts: Iterable[str]) -> frozenset[str]:
        """Return the confirmed labels that concern the whole cluster, or a switch or rack of these hosts."""
        kinds: dict[str, PlaceKind] = {"switch": "leaf", "rack": "rack"}
        places = {f"{kind}:{self.reference.place(host, kind)}" for host in hosts for kind in kinds.values()}
        return frozenset(
            belief.label
            for belief in self.roots
            if self.is_cluster_cause(belief.label) or (belief.leaf.scope in kinds and belief.subject.device in places)
        )

    def list_root_causes(self) -> tuple[Hypothesis, ...]:
        """Return one hypothesis per confirmed label, most certain first."""
        return tuple(self.build_hypothesis(label) for label in dict.fromkeys(belief.label for belief in self.roots))

    def list_ruled_out(self, limit: int = 5, suspected: Sequence[str] = ()) -> tuple[Hypothesis, ...]:
        """Return rejected labels that had support or that the report suggested.

        The reporter's suspicions come first, then rivals of the proven causes, then their consequences.
        """
        suspicion_rank = {label: rank for rank, label in enumerate(suspected)}
        consequences = {label for belief in self.roots for label in belief.leaf.suppresses}
        verdicts = [
            verdict
            for verdict in self.label_verdicts.values()
            if verdict.verdict == "rejected"
            and (verdict.label in suspicion_rank or verdict.best.support or verdict.best.log_odds > verdict.best.leaf.prior)
        ]
        verdicts.sort(key=lambda verdict: (suspicion_rank.get(verdict.label, len(suspicion_rank)), verdict.label in consequences))
        return tuple(self.build_hypothesis(verdict.label) for verdict in verdicts[:limit])

    def list_unobserved(self) -> tuple[UnobservedCheck, ...]:
        """Return the failed checks.

        A host on which all checks failed is one entry with its two most frequent reasons.
        """
        reasons_by_check: dict[str, dict[str, str]] = defaultdict(dict)
        for (host, check), reason in self.coverage.unobserved.items():
            if host:
                reasons_by_check[host][check] = reason
        unobserved_checks: list[UnobservedCheck] = []
        for host, checks in sorted(reasons_by_check.items()):
            if len(checks) > 2 and {check for asked_host, check in self.coverage.asked if asked_host == host} <= {*checks, "ssh"}:
                reasons = [reason for reason, _ in Counter(checks.values()).most_common(2)]
                unobserved_checks.append(UnobservedCheck(host=host, check="all", why="; ".join(reasons)[:MAX_EVIDENCE_LINE_CHARS]))
            else:
                unobserved_checks += [
                    UnobservedCheck(host=host, check=check, why=reason[:MAX_EVIDENCE_LINE_CHARS])
                    for check, reason in sorted(checks.items())
                ]
        unobserved_checks += [
            UnobservedCheck(host=host, check=check, why=reason[:MAX_EVIDENCE_LINE_CHARS]) for host, check, reason in self.uncounted
        ]
        return (*unobserved_checks, *self._list_unprofiled(), *(self._list_untargeted() if not self.roots else ()))

    def _list_untargeted(self) -> list[UnobservedCheck]:
        hosts_by_skip: dict[tuple[str, str], list[str]] = defaultdict(list)
        for (host, check), reason in self.coverage.untargeted.items():
            if host:
                hosts_by_skip[check, reason].append(host)
        return [UnobservedCheck(host=fold_host_names(hosts), check=check, why=reason) for (check, reason), hosts in hosts_by_skip.items()]

    def _list_unprofiled(self) -> list[UnobservedCheck]:
        models = {host: model for host in self.hosts if (model := self.reference.stranger(host))}
        reason = "no profile of {} with so many GPUs: compared with most of its peers only, not with what a healthy one shows"
        return [UnobservedCheck(host=host, check="profile", why=reason.format(model[:60])) for host, model in models.items()]


def assess_facts(
    facts: Sequence[Fact],
    reference: ReferenceData,
    hosts: Sequence[str],
    priors: Mapping[str, float] | None = None,
    opened: datetime | None = None,
    symptoms: Sequence[str] = (),
    reported_hosts: Sequence[str] = (),
    complaint_checks: Sequence[tuple[str, ...]] = (),
) -> Assessment:
    """Assess all facts.

    Args:
        hosts: Hosts of the incident, observed or not.
        priors: Log-odds from the report's words.
        reported_hosts: Hosts that the report names.
        complaint_checks: Exclusive checks that measure the complaint, each with its alternatives for fewer hosts.
    """
    facts = drop_absence_of_gpus(facts, lambda host: reference.expected(host, "gpu.count", None), reference.runs_jobs, reference.kind)
    facts = prepare_facts(facts, opened, reference.bus, lambda host: reference.expected(host, "ib.count", None), reference.kind)
    matcher = ClueMatcher.from_facts(facts, reference)
    beliefs = tuple(compute_beliefs(facts, matcher, priors or {}))
    report_fit = ReportFit(reference.taxonomy, priors or {})
    abnormal_facts = [fact for fact in facts if can_be_abnormal(fact.key) and is_abnormal(fact, matcher.get_expected(fact))]
    # A setting that all hosts share is intended, unless the report complains of what it causes.
    abnormal_facts = [fact for fact in abnormal_facts if report_fit.score_fact(fact) or not _is_on_all_hosts(fact, matcher)]
    sorted_abnormal_facts = sort_worst_first(abnormal_facts, reported_hosts, report_fit.score_fact)
    return Assessment(
        reference=reference,
        hosts=tuple(hosts),
        beliefs=beliefs,
        selection=select_root_causes(beliefs, sorted_abnormal_facts),
        coverage=Coverage.from_facts(facts, reference, hosts),
        abnormal_facts=sorted_abnormal_facts,
        symptoms=tuple(symptoms),
        reported_hosts=tuple(reported_hosts),
        complaint_checks=tuple(complaint_checks),
        doubted_profiles=_find_questioned_profiles(matcher),
        uncounted=tuple(list_uncounted_events(facts)),
        differing=tuple(fact for fact in facts if fact.key in DIFFERENCE_KEYS),
        old=sort_worst_first(_find_old_events(facts, beliefs, matcher), reported_hosts, report_fit.score_fact),
        uploaded_facts=_select_uploaded(facts, beliefs, matcher),
    )


def _select_uploaded(facts: Sequence[Fact], beliefs: Sequence[Belief], matcher: ClueMatcher) -> tuple[Fact, ...]:
    """Return uploaded or imported facts that are abnormal or decisive, at any age."""
    uploaded_facts = [fact for fact in facts if not fact.host and fact.status is Status.OK and (fact.sha256 or fact.attrs.get("told"))]
    if not uploaded_facts:
        return ()
    decisive_ids = {id(match.fact) for belief in beliefs for match in belief.support if match.clue.decisive}
    return tuple(
        fact for fact in uploaded_facts if id(fact) in decisive_ids or was_abnormal(_ignore_location(fact), matcher.get_expected(fact))
    )


def _ignore_location(fact: Fact) -> Fact:
    """Treat the device as listed: people judge an upload about a device that no host here has."""
    if ELSEWHERE_ATTRIBUTE not in fact.attrs:
        return fact
    return replace(fact, attrs={key: value for key, value in fact.attrs.items() if key != ELSEWHERE_ATTRIBUTE})


def _find_old_events(facts: Sequence[Fact], beliefs: Sequence[Belief], matcher: ClueMatcher) -> list[Fact]:
    decisive_ids = {id(match.fact) for belief in beliefs for match in belief.support if match.clue.decisive}
    return [fact for fact in facts if is_old(fact) and (id(fact) in decisive_ids or was_abnormal(fact, matcher.get_expected(fact)))]


@dataclass(slots=True)
class ReportFit:
    """Scores how well facts fit the causes that the report's words suggest."""

    taxonomy: Taxonomy
    priors: Mapping[str, float]
    _score_cache: dict[tuple[str, str], float] = field(default_factory=dict)

    def score_fact(self, fact: Fact) -> float:
        """Return the fit in log-odds; 0 if nothing in the report concerns the fact."""
        key = (fact.key, fact.check)
        if key not in self._score_cache:
            leaf_priors = [(self.taxonomy.leaves.get(label), prior) for label, prior in self.priors.items() if prior > 0]
            scores = [prior * _score_leaf_fact(leaf, fact) for leaf, prior in leaf_priors if leaf]
            self._score_cache[key] = max(scores, default=0.0)
        return self._score_cache[key]


def _score_leaf_fact(leaf: Leaf, fact: Fact) -> float:
    if any(clue.key == fact.key and clue.weight > 0 for clue in leaf.evidence):
        return 1.0
    return 0.5 if fact.check in leaf.checks and fact.key not in SETTING_KEYS else 0.0


def _is_on_all_hosts(fact: Fact, matcher: ClueMatcher) -> bool:
    """Return whether all observed hosts share this setting."""
    if not (fact.key in SETTING_KEYS or fact.key.startswith("env.")):
        return False
    observed_facts = [other for other in matcher.facts_by_key.get(fact.key, ()) if other.host and other.status is Status.OK]
    hosts = {other.host for other in observed_facts}
    sharing_hosts = {other.host for other in observed_facts if repr(other.value) == repr(fact.value)}
    return len(hosts) >= MIN_MAJORITY_OBSERVATIONS and hosts == sharing_hosts


def _find_questioned_profiles(matcher: ClueMatcher) -> dict[str, str]:
    doubts_by_profile: dict[str, str] = {}
    for key in LINK_KEYS:
        for doubt in matcher.find_doubts(key)[:1]:
            doubts_by_profile[key] = (
                f"most links of all hosts are alike ({doubt.fact.format_sentence()}), and none is what their profile expects ({doubt.expected}): "
                "check the sku in the inventory or what they all hang on, not single cables"
            )
    return doubts_by_profile


def _format_unobserved_cause(labels: Sequence[str], taxonomy: Taxonomy) -> str:
    return f"; it would follow from {taxonomy.get_title(labels[0])}, which could not be looked at"


def _format_possible_cause(other_causes: Sequence[HiddenCause]) -> str:
    return f"; possible too: {other_causes[0].says}" if other_causes else ""


def sort_worst_first(
    abnormal_facts: Sequence[Fact], reported_hosts: Sequence[str] = (), score_fact: Callable[[Fact], float] = lambda fact: 0.0
) -> tuple[Fact, ...]:
    """Sort abnormal facts and keep one of each kind per host.

    Facts of reported hosts come first, then those of machines before log text, then those that fit the report best, then
    a job's first error before the errors that follow from it.
    """

    def build_sort_key(fact: Fact) -> tuple[bool, bool, bool, float, bool, bool, float, str]:
        return (
            bool(reported_hosts and fact.host and fact.host not in reported_hosts),
            not fact.host,
            is_tenant_writable(fact.key),
            -score_fact(fact),
            fact.key in SETTING_KEYS,
            not fact.attrs.get("first"),
            fact.time.timestamp() if fact.time else 0.0,
            fact.host,
        )

    # The worst fact of a kind stays, at the position of the mildest.
    fact_by_kind: dict[tuple[object, ...], Fact] = {}
    for fact in sorted(abnormal_facts, key=build_sort_key)[::-1]:
        device = "" if is_tenant_writable(fact.key) else fact.device
        fact_by_kind[fact.host, fact.key, device, repr(fact.value)] = fact
    return tuple(fact_by_kind.values())[::-1]


def _sort_expected_next(support: Sequence[ClueMatch]) -> tuple[ClueMatch, ...]:
    """Put facts about lost performance second: they give the cost of the cause in numbers."""
    performance_matches = [match for match in support[1:] if match.clue.key.startswith("expect.")]
    other_matches = [match for match in support[1:] if match not in performance_matches]
    return (*support[:1], *performance_matches, *other_matches)


def cite_evidence(beliefs: Sequence[Belief], limit: int = MAX_EVIDENCE) -> list[Evidence]:
    """Return the evidence lines, decisive ones first. Every subject is cited once before any is cited twice."""
    evidence_by_source: dict[tuple[str, str, str], Evidence] = {}
    supports = [_sort_expected_next(belief.support) for belief in beliefs]
    rounds = zip_longest(*supports)  # the first match of each belief, then the second of each
    for match in (match for round_matches in rounds for match in round_matches if match is not None):
        fact = match.fact
        evidence_by_source.setdefault(
            (fact.host, fact.check, fact.line or match.says),
            Evidence(
                host=fact.host,
                check=fact.check,
                key=fact.key,
                device=fact.device or "",
                line=(fact.line or match.says)[:MAX_EVIDENCE_LINE_CHARS],
                says=match.says[:MAX_EVIDENCE_LINE_CHARS],
                time=fact.time,
                sha256=fact.sha256,
                source=FileSource.from_fact(fact),
            ),
        )
    if len(beliefs) <= MAX_CITED_SUBJECTS:
        limit = max(limit, len({belief.subject for belief in beliefs}))
    return list(evidence_by_source.values())[:limit]
