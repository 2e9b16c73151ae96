"""The deterministic reasoner: typed facts to ranked causes, verdicts and an outcome, each with the evidence that says so. Pure.

It always runs, needs no network, and decides alone when it is sure. When it is not sure it says that: NO_FAULT needs every
machine looked at and nothing abnormal, anything less is ABSTAIN.
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
from graph.engine.event_age import is_old
from graph.engine.fact_preparation import prepare_facts
from graph.engine.hidden_causes import HiddenCause, find_hidden_causes
from graph.engine.hosts_without_gpus import drop_absence_of_gpus
from graph.engine.reference_data import PlaceKind, ReferenceData, is_tenant_writable
from graph.engine.unlisted_devices import ELSEWHERE_ATTRIBUTE, list_uncounted_events
from graph.engine.verdict import MIN_SUSPICION_POSTERIOR, LabelVerdict, RootCauseSelection, judge_label, select_root_causes
from graph.state import Evidence, FileSource, Hypothesis, Tier, UnobservedCheck
from kb.taxonomy.taxonomy import Leaf, Taxonomy
from tools.fact import Fact, Status
from tools.inventory.host_ranges import fold_host_names

AssessmentOutcome = Literal["diagnosed", "no_fault", "abstained"]
MAX_EVIDENCE, MAX_EVIDENCE_LINE_CHARS = 4, 200
SURE_POSTERIOR = 0.96
"""Posterior from which a proven cause stands by itself."""
MAX_CONTESTED_CONFIDENCE = 0.85
"""How sure a proven cause is called at most while another, of which it would be the consequence or which would explain the same symptoms,
could not be looked at."""


@dataclass(frozen=True)
class Assessment:
    """What the facts say so far. `rows` are all beliefs, most likely first; `unexplained` what is abnormal and nobody's doing."""

    lens: ReferenceData
    hosts: tuple[str, ...]
    rows: tuple[Belief, ...]
    settled: RootCauseSelection
    coverage: Coverage
    odd: tuple[Fact, ...]
    symptoms: tuple[str, ...] = ()
    """What people complain of."""
    asked: tuple[str, ...] = ()
    """Hosts that people named; what is on them comes first."""
    measured: tuple[tuple[str, ...], ...] = ()
    """Exclusive checks that measure exactly what people complain of, each with its alternatives for fewer hosts."""
    questioned: Mapping[str, str] = field(default_factory=dict)
    """Keys of which all hosts say the same and their profile something else: what is in question then, in a sentence."""
    uncounted: tuple[tuple[str, str, str], ...] = ()
    """(host, check, why) of what logs say of devices that a host does not have."""
    differing: tuple[Fact, ...] = ()
    """What hosts have otherwise than their peers, or than they had."""
    old: tuple[Fact, ...] = ()
    """Abnormal events of machines that came last long before the report and decide nothing."""
    handed_in: tuple[Fact, ...] = ()
    """What people handed in that is abnormal or would decide for a cause, of whatever age."""

    @property
    def roots(self) -> tuple[Belief, ...]:
        return self.settled.roots

    @property
    def unexplained(self) -> tuple[Fact, ...]:
        return () if self.roots else self.odd

    @cached_property
    def by_label(self) -> Mapping[str, list[Belief]]:
        found: dict[str, list[Belief]] = defaultdict(list)
        for row in self.rows:
            found[row.label].append(row)
        return found

    @cached_property
    def label_verdicts(self) -> Mapping[str, LabelVerdict]:
        """Every label, most likely first."""
        leaves = self.lens.taxonomy.leaves
        return {label: judge_label(leaves[label], rows, self.settled, self.coverage) for label, rows in self.by_label.items()}

    def precompute_verdicts(self) -> "Assessment":
        """The same, with what takes time worked out already."""
        _ = self.label_verdicts, self.suspects, self.why_unsure
        return self

    @cached_property
    def suspects(self) -> tuple[Belief, ...]:
        """Likely, but neither proven nor set aside."""
        aside = {id(row.belief) for row in self.settled.aside}
        return tuple(r for r in self.rows if r.posterior >= MIN_SUSPICION_POSTERIOR and not r.proven and r.support and id(r) not in aside)

    @cached_property
    def open_hidden_causes(self) -> tuple[HiddenCause, ...]:
        """Likely causes of the symptoms that an exclusive check alone can show, where none has looked; none once a cause stands."""
        return () if self.roots else self._find_hidden_causes(self.measured)

    @cached_property
    def rival_hidden_causes(self) -> tuple[HiddenCause, ...]:
        """The same beside proven causes: they may explain the symptoms, and only an exclusive check can tell whether these do."""
        return self._find_hidden_causes() if self.roots else ()

    def _find_hidden_causes(self, measured: Sequence[tuple[str, ...]] = ()) -> tuple[HiddenCause, ...]:
        named = tuple(host for host in self.asked if host in self.hosts)
        coverage = replace(self.coverage, hosts=named) if named else self.coverage
        return find_hidden_causes(self.label_verdicts.values(), self.symptoms, self.lens, coverage, measured)

    @property
    def is_narrow(self) -> bool:
        """Whether causes stand by little: one is not sure, something else is likely at the same place, or facts disagree."""
        places = {host for row in self.roots for host in row.subject.hosts}
        beside = any(row.subject.hosts and places & set(row.subject.hosts) for row in self.suspects)
        return bool(self.roots) and (
            min(row.posterior for row in self.roots) < SURE_POSTERIOR or beside or bool(self.settled.contradictions)
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
        """Why neither a cause nor its absence can be stated; empty when it can."""
        reasons = list(self.settled.contradictions)
        likely = [(self._is_elsewhere(row.subject.hosts), f"{row.leaf.title} is likely and unproven") for row in self.suspects[:3]]
        told = sorted(self.odd, key=lambda fact: fact.key in self.fleetwide_keys)[:3]
        odd = [(self._is_elsewhere((fact.host,)), self._describe_abnormality(fact)[:MAX_EVIDENCE_LINE_CHARS]) for fact in told]
        reasons += [says for _, says in sorted([*likely, *odd], key=lambda row: row[0])]
        reasons += [says[:MAX_EVIDENCE_LINE_CHARS] for says in self.questioned.values()]
        reasons += [row.says[:MAX_EVIDENCE_LINE_CHARS] for row in self.open_hidden_causes]
        reasons += [f"what was handed in: {why}"[:MAX_EVIDENCE_LINE_CHARS] for why in self.coverage.list_unread_texts()]
        blind = self.coverage.list_unobserved_checks()
        reasons += [f"{len(blind)} looks failed, first {blind[0][1]} on {blind[0][0]}: {blind[0][2]}"] if blind else []
        if not self.hosts or self.coverage.has_unasked_check():
            reasons.append("not every machine was looked at")
        return tuple(reasons)

    @cached_property
    def fleetwide_keys(self) -> frozenset[str]:
        """Keys of which every host that was looked at shows something abnormal: that is no host's own abnormality."""
        where: dict[str, set[str]] = defaultdict(set)
        for fact in self.odd:
            where[fact.key].add(fact.host)
        hosts = set(self.hosts)
        return frozenset(key for key, shows in where.items() if len(hosts) >= MIN_MAJORITY_OBSERVATIONS and shows >= hosts)

    def _describe_abnormality(self, fact: Fact) -> str:
        """Describe an abnormality. A node that an operator took out of service is described as such."""
        if fact.key in self.fleetwide_keys:
            return f"unexplained on all {len(self.hosts)} hosts that were looked at: {fact.format_sentence()}"
        if fact.key == "sched.state" and fact.host:
            return f"{fact.host} is {fact.format_sentence()}"
        course = format_event_history(fact)
        return f"unexplained{f' on {fact.host}' if fact.host else ''}: {fact.format_sentence()}{f' ({course})' if course else ''}"

    def _is_elsewhere(self, hosts: Sequence[str]) -> bool:
        """Whether it is on other hosts than those asked about."""
        return bool(self.asked) and any(hosts) and not set(hosts) & set(self.asked)

    def build_hypothesis(self, label: str, tier: Tier = "taxonomy") -> Hypothesis:
        """A label as people read it. A confirmed one names every host and device that is guilty of it; one that is undecided only because
        hosts could not be looked at, or because few hosts show it, names those."""
        standing = self.label_verdicts[label]
        rows = [row for row in self.roots if row.label == label] or [standing.best]
        confirmed = standing.verdict == "confirmed"
        hides = confirmed and self.list_unobserved_rivals(label)
        beside = self.rival_hidden_causes if confirmed else ()
        explained = set(self.lens.taxonomy.leaves[label].symptoms) & set(self.symptoms)
        rivals = any(explained & set(row.leaf.symptoms) for row in beside)
        return Hypothesis(
            label=label,
            hosts=standing.unseen or standing.few or tuple(sorted({host for row in rows for host in row.accused})),
            devices=() if standing.unseen or standing.few else tuple(sorted({name for row in rows for name in row.subject.named_devices})),
            tier=tier,
            verdict=standing.verdict,
            confidence=min(standing.confidence, MAX_CONTESTED_CONFIDENCE) if hides or rivals else standing.confidence,
            because=f"{standing.because}{_format_unobserved_cause(hides, self.lens.taxonomy) if hides else _format_possible_cause(beside)}"[
                :MAX_EVIDENCE_LINE_CHARS
            ],
            evidence=tuple(cite_evidence(rows)),
            checks=tuple(dict.fromkeys(match.fact.check for row in rows for match in row.support)),
        )

    def list_unobserved_rivals(self, label: str) -> tuple[str, ...]:
        """Causes that would explain a confirmed one away, and that could not be looked at where it was found."""
        hosts = {host for row in self.roots if row.label == label for host in (*row.subject.hosts, *row.shown)}
        above = (self.label_verdicts[leaf.label] for leaf in self.lens.taxonomy.leaves.values() if label in leaf.suppresses)
        return tuple(one.label for one in above if one.blind and one.verdict == "inconclusive" and self._is_unobserved_on(one.label, hosts))

    def _is_unobserved_on(self, label: str, hosts: set[str]) -> bool:
        unseen = set(self.coverage.list_unobserved_hosts(self.lens.taxonomy.leaves[label]))
        return bool(unseen & hosts) if hosts else bool(unseen)

    @cached_property
    def hosts_by_cause(self) -> Mapping[str, frozenset[str]]:
        """Confirmed label → every host that shows it, cited or not."""
        found: dict[str, frozenset[str]] = defaultdict(frozenset)
        for row in self.roots:
            found[row.label] |= row.shown
        return found

    def is_cluster_cause(self, label: str) -> bool:
        """Whether a cause is of what all hosts depend on. An outside service is not: jobs may do without it."""
        leaf = self.lens.taxonomy.leaves[label]
        return leaf.scope == "cluster" and leaf.category != "OTHER"

    def list_common_causes(self, hosts: Iterable[str]) -> frozenset[str]:
        """Return the labels of confirmed causes of the cluster, and of switches and racks that these hosts hang on too."""
        kinds: dict[str, PlaceKind] = {"switch": "leaf", "rack": "rack"}
        places = {f"{kind}:{self.lens.place(host, kind)}" for host in hosts for kind in kinds.values()}
        return frozenset(
            row.label
            for row in self.roots
            if self.is_cluster_cause(row.label) or (row.leaf.scope in kinds and row.subject.device in places)
        )

    def list_root_causes(self) -> tuple[Hypothesis, ...]:
        """Confirmed labels, each once, most certain first."""
        return tuple(self.build_hypothesis(label) for label in dict.fromkeys(row.label for row in self.roots))

    def list_ruled_out(self, most: int = 5, suspected: Sequence[str] = ()) -> tuple[Hypothesis, ...]:
        """Labels that something spoke for, or that the ticket suggested, and that the facts reject; most likely first, but rivals of the causes
        before what would only be their consequence. Labels that the reporter suspects come before all, in their order."""
        rank = {label: place for place, label in enumerate(suspected)}
        rejected = (standing for standing in self.label_verdicts.values() if standing.verdict == "rejected")
        said = [s for s in rejected if s.label in rank or s.best.support or s.best.log_odds > s.best.leaf.prior]
        follows = {label for row in self.roots for label in row.leaf.suppresses}
        said.sort(key=lambda standing: (rank.get(standing.label, len(rank)), standing.label in follows))
        return tuple(self.build_hypothesis(standing.label) for standing in said[:most])

    def list_unobserved(self) -> tuple[UnobservedCheck, ...]:
        """Every look that failed; a host on which all failed is one row, with the two most frequent reasons."""
        why: dict[str, dict[str, str]] = defaultdict(dict)
        for (host, check), reason in self.coverage.blind.items():
            if host:
                why[host][check] = reason
        rows: list[UnobservedCheck] = []
        for host, checks in sorted(why.items()):
            if len(checks) > 2 and {check for h, check in self.coverage.asked if h == host} <= {*checks, "ssh"}:
                reasons = [reason for reason, _ in Counter(checks.values()).most_common(2)]
                rows.append(UnobservedCheck(host=host, check="all", why="; ".join(reasons)[:MAX_EVIDENCE_LINE_CHARS]))
            else:
                rows += [
                    UnobservedCheck(host=host, check=check, why=reason[:MAX_EVIDENCE_LINE_CHARS])
                    for check, reason in sorted(checks.items())
                ]
        rows += [UnobservedCheck(host=host, check=check, why=why[:MAX_EVIDENCE_LINE_CHARS]) for host, check, why in self.uncounted]
        return (*rows, *self._list_unprofiled(), *(self._list_untargeted() if not self.roots else ()))

    def _list_untargeted(self) -> list[UnobservedCheck]:
        """Questions that the site's settings left out, once a check: worth saying where no cause was found."""
        hosts: dict[tuple[str, str], list[str]] = defaultdict(list)
        for (host, check), why in self.coverage.untargeted.items():
            if host:
                hosts[check, why].append(host)
        return [UnobservedCheck(host=fold_host_names(names), check=check, why=why) for (check, why), names in hosts.items()]

    def _list_unprofiled(self) -> list[UnobservedCheck]:
        """Machines of which nobody wrote down what a healthy one shows."""
        models = {host: model for host in self.hosts if (model := self.lens.stranger(host))}
        why = "no profile of {} with so many GPUs: compared with most of its peers only, not with what a healthy one shows"
        return [UnobservedCheck(host=host, check="profile", why=why.format(model[:60])) for host, model in models.items()]


def assess_facts(
    facts: Sequence[Fact],
    lens: ReferenceData,
    hosts: Sequence[str],
    priors: Mapping[str, float] | None = None,
    opened: datetime | None = None,
    symptoms: Sequence[str] = (),
    asked: Sequence[str] = (),
    measured: Sequence[tuple[str, ...]] = (),
) -> Assessment:
    """Weigh everything. `hosts` are those of the incident, looked at or not; `priors` what words suggest, in log-odds; `symptoms`
    what people complain of; `asked` the hosts that they named; `measured` the exclusive checks that measure what they complain of.
    """
    known = drop_absence_of_gpus(facts, lambda host: lens.expected(host, "gpu.count", None), lens.runs_jobs, lens.kind)
    ready = prepare_facts(known, opened, lens.bus, lambda host: lens.expected(host, "ib.count", None), lens.kind)
    matcher = ClueMatcher.from_facts(ready, lens)
    rows = tuple(compute_beliefs(ready, matcher, priors or {}))
    strange = [fact for fact in ready if can_be_abnormal(fact.key) and is_abnormal(fact, matcher.get_expected(fact))]
    fits = ReportFit(lens.taxonomy, priors or {})
    odd = sort_worst_first(
        [fact for fact in strange if fits.score_fact(fact) or not _is_on_all_hosts(fact, matcher)], asked, fits.score_fact
    )
    settled, coverage = select_root_causes(rows, odd), Coverage.from_facts(ready, lens, hosts)
    return Assessment(
        *(lens, tuple(hosts), rows, settled, coverage, odd),
        symptoms=tuple(symptoms),
        asked=tuple(asked),
        measured=tuple(measured),
        questioned=_find_questioned_profiles(matcher),
        uncounted=tuple(list_uncounted_events(ready)),
        differing=tuple(fact for fact in ready if fact.key in DIFFERENCE_KEYS),
        old=sort_worst_first(_find_old_events(ready, rows, matcher), asked, fits.score_fact),
        handed_in=_handed_in(ready, rows, matcher),
    )


def _handed_in(facts: Sequence[Fact], rows: Sequence[Belief], matcher: ClueMatcher) -> tuple[Fact, ...]:
    """Return what people handed in that speaks against a machine or a job, old or not."""
    given = [fact for fact in facts if not fact.host and fact.status is Status.OK and (fact.sha256 or fact.attrs.get("told"))]
    if not given:
        return ()
    decisive = {id(match.fact) for row in rows for match in row.support if match.clue.decisive}
    return tuple(fact for fact in given if id(fact) in decisive or was_abnormal(_anywhere(fact), matcher.get_expected(fact)))


def _anywhere(fact: Fact) -> Fact:
    """The fact as if its device were one of ours: that nobody here has it is for people to judge."""
    return (
        replace(fact, attrs={key: value for key, value in fact.attrs.items() if key != ELSEWHERE_ATTRIBUTE})
        if ELSEWHERE_ATTRIBUTE in fact.attrs
        else fact
    )


def _find_old_events(facts: Sequence[Fact], rows: Sequence[Belief], matcher: ClueMatcher) -> list[Fact]:
    """Return old events that were abnormal, or that would have decided for a cause."""
    decisive = {id(match.fact) for row in rows for match in row.support if match.clue.decisive}
    return [fact for fact in facts if is_old(fact) and (id(fact) in decisive or was_abnormal(fact, matcher.get_expected(fact)))]


@dataclass(slots=True)
class ReportFit:
    """How well facts fit what people said: by the likeliest cause that their words suggest and that a fact would speak for, or whose checks
    showed it."""

    taxonomy: Taxonomy
    priors: Mapping[str, float]
    _known: dict[tuple[str, str], float] = field(default_factory=dict)

    def score_fact(self, fact: Fact) -> float:
        """0 where nothing that people said has to do with it."""
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
    """Whether every host that was looked at is set up like this: then it is how the site is, and no finding."""
    if not (fact.key in SETTING_KEYS or fact.key.startswith("env.")):
        return False
    rows = [row for row in matcher.by_key.get(fact.key, ()) if row.host and row.status is Status.OK]
    hosts = {row.host for row in rows}
    return len(hosts) >= MIN_MAJORITY_OBSERVATIONS and hosts == {row.host for row in rows if repr(row.value) == repr(fact.value)}


def _find_questioned_profiles(matcher: ClueMatcher) -> dict[str, str]:
    """What the profile says otherwise of all links."""
    found: dict[str, str] = {}
    for key in LINK_KEYS:
        for doubt in matcher.find_doubts(key)[:1]:
            found[key] = (
                f"most links of all hosts are alike ({doubt.fact.format_sentence()}), and none is what their profile expects ({doubt.expected}): "
                "check the sku in the inventory or what they all hang on, not single cables"
            )
    return found


def _format_unobserved_cause(labels: Sequence[str], taxonomy: Taxonomy) -> str:
    return f"; it would follow from {taxonomy.get_title(labels[0])}, which could not be looked at"


def _format_possible_cause(beside: Sequence[HiddenCause]) -> str:
    return f"; possible too: {beside[0].says}" if beside else ""


def sort_worst_first(odd: Sequence[Fact], asked: Sequence[str] = (), fits: Callable[[Fact], float] = lambda fact: 0.0) -> tuple[Fact, ...]:
    """What is on the hosts asked about before what is elsewhere; then what a machine says before what a log says, what fits the words before
    what does not, a job's first error before its echoes; each kind once a host."""
    named = set(asked)

    def place(f: Fact) -> tuple[bool, bool, bool, float, bool, bool, float, str]:
        elsewhere = bool(named and f.host and f.host not in named)
        when = f.time.timestamp() if f.time else 0.0
        return elsewhere, not f.host, is_tenant_writable(f.key), -fits(f), f.key in SETTING_KEYS, not f.attrs.get("first"), when, f.host

    order = sorted(odd, key=place)
    return tuple({(f.host, f.key, f.device if not is_tenant_writable(f.key) else "", repr(f.value)): f for f in reversed(order)}.values())[
        ::-1
    ]


def _sort_expected_next(support: Sequence[ClueMatch]) -> tuple[ClueMatch, ...]:
    """What decides, then what stays below the expected: it says in numbers what the cause costs."""
    below = [match for match in support[1:] if match.clue.key.startswith("expect.")]
    return (*support[:1], *below, *(match for match in support[1:] if match not in below))


def cite_evidence(rows: Sequence[Belief], most: int = MAX_EVIDENCE) -> list[Evidence]:
    """The lines that show it, decisive ones first, every guilty subject represented before any is cited twice."""
    found: dict[tuple[str, str, str], Evidence] = {}
    shows = [_sort_expected_next(row.support) for row in rows]
    depth = max(map(len, shows), default=0)
    for match in (support[n] for n in range(depth) for support in shows if n < len(support)):
        fact = match.fact
        found.setdefault(
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
    return list(found.values())[: max(most, len({row.subject for row in rows}) if len(rows) <= 8 else most)]
