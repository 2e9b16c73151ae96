"""Deterministic diagnosis: facts to ranked causes, verdicts and an outcome, each with its evidence. Pure, no network.

`no_fault` requires that every host was observed and nothing is abnormal; otherwise the outcome is `abstained`.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from typing import Literal

from graph.engine.abnormal_facts import SETTING_KEYS, can_be_abnormal, is_abnormal, was_abnormal
from graph.engine.belief import (
    DIFFERENCE_KEYS,
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
from graph.engine.reference_data import PlaceKind, ReferenceData, is_tenant_writable
from graph.engine.verdict import (
    MIN_SUSPICION_POSTERIOR,
    HiddenCause,
    LabelVerdict,
    RootCauseSelection,
    find_hidden_causes,
    judge_label,
    select_root_causes,
)
from graph.state import Evidence, FileSource, Hypothesis, Tier, UnobservedCheck
from kb.taxonomy.taxonomy import Leaf, Taxonomy
from tools.fact import Fact, Status
from tools.inventory.host_ranges import fold_host_names

AssessmentOutcome = Literal["diagnosed", "no_fault", "abstained"]
MAX_EVIDENCE = 4
MAX_EVIDENCE_LINE_CHARS = 200
SURE_POSTERIOR = 0.96  # posterior from which a proven cause needs no further confirmation
# cap on the confidence of a proven cause while an unobserved cause could explain it or its symptoms
MAX_CONTESTED_CONFIDENCE = 0.85


@dataclass(frozen=True)
class Assessment:
    """The diagnosis so far. `beliefs`: most likely first."""

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
        for row in self.beliefs:
            beliefs_by_label[row.label].append(row)
        return beliefs_by_label

    @cached_property
    def label_verdicts(self) -> Mapping[str, LabelVerdict]:
        """Label → verdict, most likely first."""
        leaves = self.reference.taxonomy.leaves
        return {label: judge_label(leaves[label], rows, self.selection, self.coverage) for label, rows in self.by_label.items()}

    def precompute_verdicts(self) -> "Assessment":
        """Compute the slow cached properties and return self."""
        _ = self.label_verdicts, self.suspects, self.why_unsure
        return self

    @cached_property
    def suspects(self) -> tuple[Belief, ...]:
        """Likely beliefs, neither proven nor set aside."""
        aside = {id(row.belief) for row in self.selection.aside}
        return tuple(
            r for r in self.beliefs if r.posterior >= MIN_SUSPICION_POSTERIOR and not r.proven and r.support and id(r) not in aside
        )

    @cached_property
    def open_hidden_causes(self) -> tuple[HiddenCause, ...]:
        """Likely causes that only an unobserved exclusive check can show; empty once a cause is proven."""
        return () if self.roots else self._find_hidden_causes(self.complaint_checks)

    @cached_property
    def rival_hidden_causes(self) -> tuple[HiddenCause, ...]:
        """The same beside proven causes, whose symptoms they may explain."""
        return self._find_hidden_causes() if self.roots else ()

    def _find_hidden_causes(self, measured: Sequence[tuple[str, ...]] = ()) -> tuple[HiddenCause, ...]:
        reported_hosts = tuple(host for host in self.reported_hosts if host in self.hosts)
        coverage = replace(self.coverage, hosts=reported_hosts) if reported_hosts else self.coverage
        return find_hidden_causes(self.label_verdicts.values(), self.symptoms, self.reference, coverage, measured)

    @property
    def is_narrow(self) -> bool:
        """Whether a proven cause is unsure, has a suspect on the same host, or is contradicted."""
        places = {host for row in self.roots for host in row.subject.hosts}
        shares_place = any(row.subject.hosts and places & set(row.subject.hosts) for row in self.suspects)
        return bool(self.roots) and (
            min(row.posterior for row in self.roots) < SURE_POSTERIOR or shares_place or bool(self.selection.contradictions)
        )

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
        likely = [(self._is_elsewhere(row.subject.hosts), f"{row.leaf.title} is likely and unproven") for row in self.suspects[:3]]
        abnormal_facts = sorted(self.abnormal_facts, key=lambda fact: fact.key in self.fleetwide_keys)[:3]
        odd = [(self._is_elsewhere((fact.host,)), self._describe_abnormality(fact)[:MAX_EVIDENCE_LINE_CHARS]) for fact in abnormal_facts]
        reasons += [sentence for _, sentence in sorted([*likely, *odd], key=lambda row: row[0])]
        reasons += [sentence[:MAX_EVIDENCE_LINE_CHARS] for sentence in self.doubted_profiles.values()]
        reasons += [row.says[:MAX_EVIDENCE_LINE_CHARS] for row in self.open_hidden_causes]
        reasons += [f"what was handed in: {unread_text}"[:MAX_EVIDENCE_LINE_CHARS] for unread_text in self.coverage.list_unread_texts()]
        unobserved_checks = self.coverage.list_unobserved_checks()
        reasons += (
            [
                f"{len(unobserved_checks)} looks failed, first {unobserved_checks[0][1]} on {unobserved_checks[0][0]}: {unobserved_checks[0][2]}"
            ]
            if unobserved_checks
            else []
        )
        if not self.hosts or self.coverage.has_unasked_check():
            reasons.append("not every machine was looked at")
        return tuple(reasons)

    @cached_property
    def fleetwide_keys(self) -> frozenset[str]:
        """Keys abnormal on every observed host, so no single host is at fault."""
        hosts_by_key: dict[str, set[str]] = defaultdict(set)
        for fact in self.abnormal_facts:
            hosts_by_key[fact.key].add(fact.host)
        hosts = set(self.hosts)
        return frozenset(key for key, shows in hosts_by_key.items() if len(hosts) >= MIN_MAJORITY_OBSERVATIONS and shows >= hosts)

    def _describe_abnormality(self, fact: Fact) -> str:
        if fact.key in self.fleetwide_keys:
            return f"unexplained on all {len(self.hosts)} hosts that were looked at: {fact.format_sentence()}"
        if fact.key == "sched.state" and fact.host:
            return f"{fact.host} is {fact.format_sentence()}"
        course = format_event_history(fact)
        return f"unexplained{f' on {fact.host}' if fact.host else ''}: {fact.format_sentence()}{f' ({course})' if course else ''}"

    def _is_elsewhere(self, hosts: Sequence[str]) -> bool:
        return bool(self.reported_hosts) and any(hosts) and not set(hosts) & set(self.reported_hosts)

    def build_hypothesis(self, label: str, tier: Tier = "taxonomy") -> Hypothesis:
        """Build the hypothesis of a label for display.

        It names the guilty hosts and devices, or the hosts that alone keep the label undecided.
        """
        verdict = self.label_verdicts[label]
        rows = [row for row in self.roots if row.label == label] or [verdict.best]
        confirmed = verdict.verdict == "confirmed"
        hides = confirmed and self.list_unobserved_rivals(label)
        rival_hidden_causes = self.rival_hidden_causes if confirmed else ()
        explained = set(self.reference.taxonomy.leaves[label].symptoms) & set(self.symptoms)
        rivals = any(explained & set(row.leaf.symptoms) for row in rival_hidden_causes)
        return Hypothesis(
            label=label,
            hosts=verdict.unobserved_hosts or verdict.showing_hosts or tuple(sorted({host for row in rows for host in row.accused})),
            devices=()
            if verdict.unobserved_hosts or verdict.showing_hosts
            else tuple(sorted({name for row in rows for name in row.subject.named_devices})),
            tier=tier,
            verdict=verdict.verdict,
            confidence=min(verdict.confidence, MAX_CONTESTED_CONFIDENCE) if hides or rivals else verdict.confidence,
            because=f"{verdict.because}{_format_unobserved_cause(hides, self.reference.taxonomy) if hides else _format_possible_cause(rival_hidden_causes)}"[
                :MAX_EVIDENCE_LINE_CHARS
            ],
            evidence=tuple(cite_evidence(rows)),
            checks=tuple(dict.fromkeys(match.fact.check for row in rows for match in row.support)),
        )

    def list_unobserved_rivals(self, label: str) -> tuple[str, ...]:
        """Return unobserved causes that would explain a confirmed one away."""
        hosts = {host for row in self.roots if row.label == label for host in (*row.subject.hosts, *row.shown)}
        above = (self.label_verdicts[leaf.label] for leaf in self.reference.taxonomy.leaves.values() if label in leaf.suppresses)
        return tuple(
            one.label
            for one in above
            if one.unobserved_checks and one.verdict == "inconclusive" and self._is_unobserved_on(one.label, hosts)
        )

    def _is_unobserved_on(self, label: str, hosts: set[str]) -> bool:
        unseen = set(self.coverage.list_unobserved_hosts(self.reference.taxonomy.leaves[label]))
        return bool(unseen & hosts) if hosts else bool(unseen)

    @cached_property
    def hosts_by_cause(self) -> Mapping[str, frozenset[str]]:
        """Confirmed label → every host that shows it, cited or not."""
        hosts_by_label: dict[str, frozenset[str]] = defaultdict(frozenset)
        for row in self.roots:
            hosts_by_label[row.label] |= row.shown
        return hosts_by_label

    def is_cluster_cause(self, label: str) -> bool:
        """Return whether all hosts depend on it. Jobs may run without an outside service."""
        leaf = self.reference.taxonomy.leaves[label]
        return leaf.scope == "cluster" and leaf.category != "OTHER"

    def list_common_causes(self, hosts: Iterable[str]) -> frozenset[str]:
        """Return confirmed labels of the cluster and of the switches and racks of these hosts."""
        kinds: dict[str, PlaceKind] = {"switch": "leaf", "rack": "rack"}
        places = {f"{kind}:{self.reference.place(host, kind)}" for host in hosts for kind in kinds.values()}
        return frozenset(
            row.label
            for row in self.roots
            if self.is_cluster_cause(row.label) or (row.leaf.scope in kinds and row.subject.device in places)
        )

    def list_root_causes(self) -> tuple[Hypothesis, ...]:
        """Return one hypothesis per confirmed label, most certain first."""
        return tuple(self.build_hypothesis(label) for label in dict.fromkeys(row.label for row in self.roots))

    def list_ruled_out(self, most: int = 5, suspected: Sequence[str] = ()) -> tuple[Hypothesis, ...]:
        """Return rejected labels that had support or that the report suggested.

        The reporter's suspicions come first; then rivals of the proven causes, then their consequences.
        """
        rank = {label: place for place, label in enumerate(suspected)}
        rejected = (verdict for verdict in self.label_verdicts.values() if verdict.verdict == "rejected")
        rejected_verdicts = [s for s in rejected if s.label in rank or s.best.support or s.best.log_odds > s.best.leaf.prior]
        follows = {label for row in self.roots for label in row.leaf.suppresses}
        rejected_verdicts.sort(key=lambda standing: (rank.get(standing.label, len(rank)), standing.label in follows))
        return tuple(self.build_hypothesis(verdict.label) for verdict in rejected_verdicts[:most])

    def list_unobserved(self) -> tuple[UnobservedCheck, ...]:
        """Return failed checks; a host on which all failed is one row with its two most frequent reasons."""
        reasons_by_check: dict[str, dict[str, str]] = defaultdict(dict)
        for (host, check), reason in self.coverage.unobserved.items():
            if host:
                reasons_by_check[host][check] = reason
        rows: list[UnobservedCheck] = []
        for host, checks in sorted(reasons_by_check.items()):
            if len(checks) > 2 and {check for h, check in self.coverage.asked if h == host} <= {*checks, "ssh"}:
                reasons = [reason for reason, _ in Counter(checks.values()).most_common(2)]
                rows.append(UnobservedCheck(host=host, check="all", why="; ".join(reasons)[:MAX_EVIDENCE_LINE_CHARS]))
            else:
                rows += [
                    UnobservedCheck(host=host, check=check, why=reason[:MAX_EVIDENCE_LINE_CHARS])
                    for check, reason in sorted(checks.items())
                ]
        rows += [UnobservedCheck(host=host, check=check, why=reason[:MAX_EVIDENCE_LINE_CHARS]) for host, check, reason in self.uncounted]
        return (*rows, *self._list_unprofiled(), *(self._list_untargeted() if not self.roots else ()))

    def _list_untargeted(self) -> list[UnobservedCheck]:
        hosts: dict[tuple[str, str], list[str]] = defaultdict(list)
        for (host, check), skip_reason in self.coverage.untargeted.items():
            if host:
                hosts[check, skip_reason].append(host)
        return [UnobservedCheck(host=fold_host_names(names), check=check, why=reason) for (check, reason), names in hosts.items()]

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
    asked: Sequence[str] = (),
    measured: Sequence[tuple[str, ...]] = (),
) -> Assessment:
    """Assess all facts.

    Args:
        hosts: Hosts of the incident, observed or not.
        priors: Log-odds from the report's words.
        asked: Hosts that the report names.
        measured: Exclusive checks that measure the complaint, each with its alternatives for fewer hosts.
    """
    absence = drop_absence_of_gpus(facts, lambda host: reference.expected(host, "gpu.count", None), reference.runs_jobs, reference.kind)
    ready = prepare_facts(absence, opened, reference.bus, lambda host: reference.expected(host, "ib.count", None), reference.kind)
    matcher = ClueMatcher.from_facts(ready, reference)
    rows = tuple(compute_beliefs(ready, matcher, priors or {}))
    strange = [fact for fact in ready if can_be_abnormal(fact.key) and is_abnormal(fact, matcher.get_expected(fact))]
    fits = ReportFit(reference.taxonomy, priors or {})
    odd = sort_worst_first(
        [fact for fact in strange if fits.score_fact(fact) or not _is_on_all_hosts(fact, matcher)], asked, fits.score_fact
    )
    selection, coverage = select_root_causes(rows, odd), Coverage.from_facts(ready, reference, hosts)
    return Assessment(
        *(reference, tuple(hosts), rows, selection, coverage, odd),
        symptoms=tuple(symptoms),
        reported_hosts=tuple(asked),
        complaint_checks=tuple(measured),
        doubted_profiles=_find_questioned_profiles(matcher),
        uncounted=tuple(list_uncounted_events(ready)),
        differing=tuple(fact for fact in ready if fact.key in DIFFERENCE_KEYS),
        old=sort_worst_first(_find_old_events(ready, rows, matcher), asked, fits.score_fact),
        uploaded_facts=_select_uploaded(ready, rows, matcher),
    )


def _select_uploaded(facts: Sequence[Fact], rows: Sequence[Belief], matcher: ClueMatcher) -> tuple[Fact, ...]:
    """Return uploaded or imported facts that are abnormal or decisive, at any age."""
    uploaded_facts = [fact for fact in facts if not fact.host and fact.status is Status.OK and (fact.sha256 or fact.attrs.get("told"))]
    if not uploaded_facts:
        return ()
    decisive = {id(match.fact) for row in rows for match in row.support if match.clue.decisive}
    return tuple(
        fact for fact in uploaded_facts if id(fact) in decisive or was_abnormal(_ignore_location(fact), matcher.get_expected(fact))
    )


def _ignore_location(fact: Fact) -> Fact:
    """Treat the device as listed: the reader judges a device that no host here has."""
    return (
        replace(fact, attrs={key: value for key, value in fact.attrs.items() if key != ELSEWHERE_ATTRIBUTE})
        if ELSEWHERE_ATTRIBUTE in fact.attrs
        else fact
    )


def _find_old_events(facts: Sequence[Fact], rows: Sequence[Belief], matcher: ClueMatcher) -> list[Fact]:
    decisive = {id(match.fact) for row in rows for match in row.support if match.clue.decisive}
    return [fact for fact in facts if is_old(fact) and (id(fact) in decisive or was_abnormal(fact, matcher.get_expected(fact)))]


@dataclass(slots=True)
class ReportFit:
    """Scores how well facts fit the causes that the report's words suggest."""

    taxonomy: Taxonomy
    priors: Mapping[str, float]
    _known: dict[tuple[str, str], float] = field(default_factory=dict)

    def score_fact(self, fact: Fact) -> float:
        """Return the fit in log-odds; 0 if nothing in the report concerns the fact."""
        name = (fact.key, fact.check)
        if name not in self._known:
            rows = ((self.taxonomy.leaves.get(label), prior) for label, prior in self.priors.items() if prior > 0)
            self._known[name] = max((prior * _score_leaf_fact(leaf, fact) for leaf, prior in rows if leaf), default=0.0)
        return self._known[name]


def _score_leaf_fact(leaf: Leaf, fact: Fact) -> float:
    if any(clue.key == fact.key and clue.weight > 0 for clue in leaf.evidence):
        return 1.0
    return 0.5 if fact.check in leaf.checks and fact.key not in SETTING_KEYS else 0.0


def _is_on_all_hosts(fact: Fact, matcher: ClueMatcher) -> bool:
    """Return whether all observed hosts share this setting: then it is intended."""
    if not (fact.key in SETTING_KEYS or fact.key.startswith("env.")):
        return False
    rows = [row for row in matcher.by_key.get(fact.key, ()) if row.host and row.status is Status.OK]
    hosts = {row.host for row in rows}
    return len(hosts) >= MIN_MAJORITY_OBSERVATIONS and hosts == {row.host for row in rows if repr(row.value) == repr(fact.value)}


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


def _format_possible_cause(beside: Sequence[HiddenCause]) -> str:
    return f"; possible too: {beside[0].says}" if beside else ""


def sort_worst_first(odd: Sequence[Fact], asked: Sequence[str] = (), fits: Callable[[Fact], float] = lambda fact: 0.0) -> tuple[Fact, ...]:
    """Sort abnormal facts, one of a kind per host.

    Order: `asked` hosts, machine facts before log text, best `fits`, a job's first error before its echoes.
    """
    asked_hosts = set(asked)

    def place(f: Fact) -> tuple[bool, bool, bool, float, bool, bool, float, str]:
        elsewhere = bool(asked_hosts and f.host and f.host not in asked_hosts)
        when = f.time.timestamp() if f.time else 0.0
        return elsewhere, not f.host, is_tenant_writable(f.key), -fits(f), f.key in SETTING_KEYS, not f.attrs.get("first"), when, f.host

    order = sorted(odd, key=place)
    return tuple({(f.host, f.key, f.device if not is_tenant_writable(f.key) else "", repr(f.value)): f for f in reversed(order)}.values())[
        ::-1
    ]


def _sort_expected_next(support: Sequence[ClueMatch]) -> tuple[ClueMatch, ...]:
    """Put facts below an expected value second: they give the cost of the cause in numbers."""
    below = [match for match in support[1:] if match.clue.key.startswith("expect.")]
    return (*support[:1], *below, *(match for match in support[1:] if match not in below))


def cite_evidence(rows: Sequence[Belief], most: int = MAX_EVIDENCE) -> list[Evidence]:
    """Return the evidence lines, decisive first; every guilty subject is cited once before any is cited twice."""
    evidence_by_source: dict[tuple[str, str, str], Evidence] = {}
    shows = [_sort_expected_next(row.support) for row in rows]
    depth = max(map(len, shows), default=0)
    for match in (support[n] for n in range(depth) for support in shows if n < len(support)):
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
    return list(evidence_by_source.values())[: max(most, len({row.subject for row in rows}) if len(rows) <= 8 else most)]
