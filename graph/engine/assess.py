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

from graph.engine.abnormal import OF_SETTINGS, is_odd, may_be_odd, was_odd
from graph.engine.age import is_old
from graph.engine.belief import DIFFERENCES, ENOUGH_TO_COUNT, OF_LINKS, Belief, Match, Matcher, beliefs, course_in_words
from graph.engine.coverage import Coverage
from graph.engine.gpuless import drop_absence_of_gpus
from graph.engine.hidden import Hidden, hidden_causes
from graph.engine.nowhere import ELSEWHERE, notes
from graph.engine.prepare import gather
from graph.engine.reference import Lens, Place, is_text
from graph.engine.verdict import WORTH_SAYING, Standing, Verdicts, settle, stand
from graph.state import Blind, Evidence, FileSource, Hypothesis, Tier
from kb.taxonomy.labels import Leaf, Taxonomy
from tools.fact import Fact, Status
from tools.inventory.ranges import fold

Finding = Literal["diagnosed", "no_fault", "abstained"]
MOST_EVIDENCE, LONGEST_LINE = 4, 200
SURE = 0.96
"""Posterior from which a proven cause stands by itself."""
BEHIND = 0.85
"""How sure a proven cause is called at most while another, of which it would be the consequence or which would explain the same symptoms,
could not be looked at."""


@dataclass(frozen=True)
class Assessment:
    """What the facts say so far. `rows` are all beliefs, most likely first; `unexplained` what is abnormal and nobody's doing."""

    lens: Lens
    hosts: tuple[str, ...]
    rows: tuple[Belief, ...]
    settled: Verdicts
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
    def standings(self) -> Mapping[str, Standing]:
        """Every label, most likely first."""
        leaves = self.lens.taxonomy.leaves
        return {label: stand(leaves[label], rows, self.settled, self.coverage) for label, rows in self.by_label.items()}

    def judged(self) -> "Assessment":
        """The same, with what takes time worked out already."""
        _ = self.standings, self.suspects, self.why_unsure
        return self

    @cached_property
    def suspects(self) -> tuple[Belief, ...]:
        """Likely, but neither proven nor set aside."""
        aside = {id(row.belief) for row in self.settled.aside}
        return tuple(r for r in self.rows if r.posterior >= WORTH_SAYING and not r.proven and r.support and id(r) not in aside)

    @cached_property
    def hidden(self) -> tuple[Hidden, ...]:
        """Likely causes of the symptoms that an exclusive check alone can show, where none has looked; none once a cause stands."""
        return () if self.roots else self._hidden(self.measured)

    @cached_property
    def possible(self) -> tuple[Hidden, ...]:
        """The same beside proven causes: they may explain the symptoms, and only an exclusive check can tell whether these do."""
        return self._hidden() if self.roots else ()

    def _hidden(self, measured: Sequence[tuple[str, ...]] = ()) -> tuple[Hidden, ...]:
        named = tuple(host for host in self.asked if host in self.hosts)
        coverage = replace(self.coverage, hosts=named) if named else self.coverage
        return hidden_causes(self.standings.values(), self.symptoms, self.lens, coverage, measured)

    @property
    def narrow(self) -> bool:
        """Whether causes stand by little: one is not sure, something else is likely at the same place, or facts disagree."""
        places = {host for row in self.roots for host in row.subject.hosts}
        beside = any(row.subject.hosts and places & set(row.subject.hosts) for row in self.suspects)
        return bool(self.roots) and (min(row.posterior for row in self.roots) < SURE or beside or bool(self.settled.contradictions))

    @property
    def finding(self) -> Finding:
        if self.roots:
            return "diagnosed"
        if self.why_unsure:
            return "abstained"
        return "no_fault"

    @cached_property
    def why_unsure(self) -> tuple[str, ...]:
        """Why neither a cause nor its absence can be stated; empty when it can."""
        reasons = list(self.settled.contradictions)
        likely = [(self._elsewhere(row.subject.hosts), f"{row.leaf.title} is likely and unproven") for row in self.suspects[:3]]
        told = sorted(self.odd, key=lambda fact: fact.key in self.shared_by_all)[:3]
        odd = [(self._elsewhere((fact.host,)), self._unexplained(fact)[:LONGEST_LINE]) for fact in told]
        reasons += [says for _, says in sorted([*likely, *odd], key=lambda row: row[0])]
        reasons += [says[:LONGEST_LINE] for says in self.questioned.values()]
        reasons += [row.says[:LONGEST_LINE] for row in self.hidden]
        reasons += [f"what was handed in: {why}"[:LONGEST_LINE] for why in self.coverage.unread_texts()]
        blind = self.coverage.blind_spots()
        reasons += [f"{len(blind)} looks failed, first {blind[0][1]} on {blind[0][0]}: {blind[0][2]}"] if blind else []
        if not self.hosts or self.coverage.never_asked():
            reasons.append("not every machine was looked at")
        return tuple(reasons)

    @cached_property
    def shared_by_all(self) -> frozenset[str]:
        """Keys of which every host that was looked at shows something abnormal: that is no host's own abnormality."""
        where: dict[str, set[str]] = defaultdict(set)
        for fact in self.odd:
            where[fact.key].add(fact.host)
        hosts = set(self.hosts)
        return frozenset(key for key, shows in where.items() if len(hosts) >= ENOUGH_TO_COUNT and shows >= hosts)

    def _unexplained(self, fact: Fact) -> str:
        """Describe an abnormality. A node that an operator took out of service is described as such."""
        if fact.key in self.shared_by_all:
            return f"unexplained on all {len(self.hosts)} hosts that were looked at: {fact.in_words()}"
        if fact.key == "sched.state" and fact.host:
            return f"{fact.host} is {fact.in_words()}"
        course = course_in_words(fact)
        return f"unexplained{f' on {fact.host}' if fact.host else ''}: {fact.in_words()}{f' ({course})' if course else ''}"

    def _elsewhere(self, hosts: Sequence[str]) -> bool:
        """Whether it is on other hosts than those asked about."""
        return bool(self.asked) and any(hosts) and not set(hosts) & set(self.asked)

    def hypothesis(self, label: str, tier: Tier = "taxonomy") -> Hypothesis:
        """A label as people read it. A confirmed one names every host and device that is guilty of it; one that is undecided only because
        hosts could not be looked at, or because few hosts show it, names those."""
        standing = self.standings[label]
        rows = [row for row in self.roots if row.label == label] or [standing.best]
        confirmed = standing.verdict == "confirmed"
        hides = confirmed and self.hidden_behind(label)
        beside = self.possible if confirmed else ()
        explained = set(self.lens.taxonomy.leaves[label].symptoms) & set(self.symptoms)
        rivals = any(explained & set(row.leaf.symptoms) for row in beside)
        return Hypothesis(
            label=label,
            hosts=standing.unseen or standing.few or tuple(sorted({host for row in rows for host in row.accused})),
            devices=() if standing.unseen or standing.few else tuple(sorted({name for row in rows for name in row.subject.named})),
            tier=tier,
            verdict=standing.verdict,
            confidence=min(standing.confidence, BEHIND) if hides or rivals else standing.confidence,
            because=f"{standing.because}{_hidden_words(hides, self.lens.taxonomy) if hides else _possible_words(beside)}"[:LONGEST_LINE],
            evidence=tuple(cite(rows)),
            checks=tuple(dict.fromkeys(match.fact.check for row in rows for match in row.support)),
        )

    def hidden_behind(self, label: str) -> tuple[str, ...]:
        """Causes that would explain a confirmed one away, and that could not be looked at where it was found."""
        hosts = {host for row in self.roots if row.label == label for host in (*row.subject.hosts, *row.shown)}
        above = (self.standings[leaf.label] for leaf in self.lens.taxonomy.leaves.values() if label in leaf.suppresses)
        return tuple(one.label for one in above if one.blind and one.verdict == "inconclusive" and self._blind_on(one.label, hosts))

    def _blind_on(self, label: str, hosts: set[str]) -> bool:
        unseen = set(self.coverage.unseen(self.lens.taxonomy.leaves[label]))
        return bool(unseen & hosts) if hosts else bool(unseen)

    @cached_property
    def shown(self) -> Mapping[str, frozenset[str]]:
        """Confirmed label → every host that shows it, cited or not."""
        found: dict[str, frozenset[str]] = defaultdict(frozenset)
        for row in self.roots:
            found[row.label] |= row.shown
        return found

    def is_of_cluster(self, label: str) -> bool:
        """Whether a cause is of what all hosts depend on. An outside service is not: jobs may do without it."""
        leaf = self.lens.taxonomy.leaves[label]
        return leaf.scope == "cluster" and leaf.category != "OTHER"

    def shared_with(self, hosts: Iterable[str]) -> frozenset[str]:
        """Return the labels of confirmed causes of the cluster, and of switches and racks that these hosts hang on too."""
        kinds: dict[str, Place] = {"switch": "leaf", "rack": "rack"}
        places = {f"{kind}:{self.lens.place(host, kind)}" for host in hosts for kind in kinds.values()}
        return frozenset(
            row.label for row in self.roots if self.is_of_cluster(row.label) or (row.leaf.scope in kinds and row.subject.device in places)
        )

    def root_causes(self) -> tuple[Hypothesis, ...]:
        """Confirmed labels, each once, most certain first."""
        return tuple(self.hypothesis(label) for label in dict.fromkeys(row.label for row in self.roots))

    def ruled_out(self, most: int = 5, suspected: Sequence[str] = ()) -> tuple[Hypothesis, ...]:
        """Labels that something spoke for, or that the ticket suggested, and that the facts reject; most likely first, but rivals of the causes
        before what would only be their consequence. Labels that the reporter suspects come before all, in their order."""
        rank = {label: place for place, label in enumerate(suspected)}
        rejected = (standing for standing in self.standings.values() if standing.verdict == "rejected")
        said = [s for s in rejected if s.label in rank or s.best.support or s.best.log_odds > s.best.leaf.prior]
        follows = {label for row in self.roots for label in row.leaf.suppresses}
        said.sort(key=lambda standing: (rank.get(standing.label, len(rank)), standing.label in follows))
        return tuple(self.hypothesis(standing.label) for standing in said[:most])

    def could_not_look(self) -> tuple[Blind, ...]:
        """Every look that failed; a host on which all failed is one row, with the two most frequent reasons."""
        why: dict[str, dict[str, str]] = defaultdict(dict)
        for (host, check), reason in self.coverage.blind.items():
            if host:
                why[host][check] = reason
        rows: list[Blind] = []
        for host, checks in sorted(why.items()):
            if len(checks) > 2 and {check for h, check in self.coverage.asked if h == host} <= {*checks, "ssh"}:
                reasons = [reason for reason, _ in Counter(checks.values()).most_common(2)]
                rows.append(Blind(host=host, check="all", why="; ".join(reasons)[:LONGEST_LINE]))
            else:
                rows += [Blind(host=host, check=check, why=reason[:LONGEST_LINE]) for check, reason in sorted(checks.items())]
        rows += [Blind(host=host, check=check, why=why[:LONGEST_LINE]) for host, check, why in self.uncounted]
        return (*rows, *self._strangers(), *(self._untargeted() if not self.roots else ()))

    def _untargeted(self) -> list[Blind]:
        """Questions that the site's settings left out, once a check: worth saying where no cause was found."""
        hosts: dict[tuple[str, str], list[str]] = defaultdict(list)
        for (host, check), why in self.coverage.untargeted.items():
            if host:
                hosts[check, why].append(host)
        return [Blind(host=fold(names), check=check, why=why) for (check, why), names in hosts.items()]

    def _strangers(self) -> list[Blind]:
        """Machines of which nobody wrote down what a healthy one shows."""
        models = {host: model for host in self.hosts if (model := self.lens.stranger(host))}
        why = "no profile of {} with so many GPUs: compared with most of its peers only, not with what a healthy one shows"
        return [Blind(host=host, check="profile", why=why.format(model[:60])) for host, model in models.items()]


def assess(
    facts: Sequence[Fact],
    lens: Lens,
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
    ready = gather(known, opened, lens.bus, lambda host: lens.expected(host, "ib.count", None), lens.kind)
    matcher = Matcher.of(ready, lens)
    rows = tuple(beliefs(ready, matcher, priors or {}))
    strange = [fact for fact in ready if may_be_odd(fact.key) and is_odd(fact, matcher.expected(fact))]
    fits = Fitting(lens.taxonomy, priors or {})
    odd = worst_first([fact for fact in strange if fits.of(fact) or not _of_all(fact, matcher)], asked, fits.of)
    settled, coverage = settle(rows, odd), Coverage.of(ready, lens, hosts)
    return Assessment(
        *(lens, tuple(hosts), rows, settled, coverage, odd),
        symptoms=tuple(symptoms),
        asked=tuple(asked),
        measured=tuple(measured),
        questioned=_questioned(matcher),
        uncounted=tuple(notes(ready)),
        differing=tuple(fact for fact in ready if fact.key in DIFFERENCES),
        old=worst_first(_old(ready, rows, matcher), asked, fits.of),
        handed_in=_handed_in(ready, rows, matcher),
    )


def _handed_in(facts: Sequence[Fact], rows: Sequence[Belief], matcher: Matcher) -> tuple[Fact, ...]:
    """Return what people handed in that speaks against a machine or a job, old or not."""
    given = [fact for fact in facts if not fact.host and fact.status is Status.OK and (fact.sha256 or fact.attrs.get("told"))]
    if not given:
        return ()
    decisive = {id(match.fact) for row in rows for match in row.support if match.clue.decisive}
    return tuple(fact for fact in given if id(fact) in decisive or was_odd(_anywhere(fact), matcher.expected(fact)))


def _anywhere(fact: Fact) -> Fact:
    """The fact as if its device were one of ours: that nobody here has it is for people to judge."""
    return replace(fact, attrs={key: value for key, value in fact.attrs.items() if key != ELSEWHERE}) if ELSEWHERE in fact.attrs else fact


def _old(facts: Sequence[Fact], rows: Sequence[Belief], matcher: Matcher) -> list[Fact]:
    """Return old events that were abnormal, or that would have decided for a cause."""
    decisive = {id(match.fact) for row in rows for match in row.support if match.clue.decisive}
    return [fact for fact in facts if is_old(fact) and (id(fact) in decisive or was_odd(fact, matcher.expected(fact)))]


@dataclass(slots=True)
class Fitting:
    """How well facts fit what people said: by the likeliest cause that their words suggest and that a fact would speak for, or whose checks
    showed it."""

    taxonomy: Taxonomy
    priors: Mapping[str, float]
    _known: dict[tuple[str, str], float] = field(default_factory=dict)

    def of(self, fact: Fact) -> float:
        """0 where nothing that people said has to do with it."""
        name = (fact.key, fact.check)
        if name not in self._known:
            rows = ((self.taxonomy.leaves.get(label), prior) for label, prior in self.priors.items() if prior > 0)
            self._known[name] = max((prior * _share(leaf, fact) for leaf, prior in rows if leaf), default=0.0)
        return self._known[name]


def _share(leaf: Leaf, fact: Fact) -> float:
    if any(clue.key == fact.key and clue.weight > 0 for clue in leaf.evidence):
        return 1.0
    return 0.5 if fact.check in leaf.checks and fact.key not in OF_SETTINGS else 0.0


def _of_all(fact: Fact, matcher: Matcher) -> bool:
    """Whether every host that was looked at is set up like this: then it is how the site is, and no finding."""
    if not (fact.key in OF_SETTINGS or fact.key.startswith("env.")):
        return False
    rows = [row for row in matcher.by_key.get(fact.key, ()) if row.host and row.status is Status.OK]
    hosts = {row.host for row in rows}
    return len(hosts) >= ENOUGH_TO_COUNT and hosts == {row.host for row in rows if repr(row.value) == repr(fact.value)}


def _questioned(matcher: Matcher) -> dict[str, str]:
    """What the profile says otherwise of all links."""
    found: dict[str, str] = {}
    for key in OF_LINKS:
        for doubt in matcher.doubts(key)[:1]:
            found[key] = (
                f"most links of all hosts are alike ({doubt.fact.in_words()}), and none is what their profile expects ({doubt.expected}): "
                "check the sku in the inventory or what they all hang on, not single cables"
            )
    return found


def _hidden_words(labels: Sequence[str], taxonomy: Taxonomy) -> str:
    return f"; it would follow from {taxonomy.title(labels[0])}, which could not be looked at"


def _possible_words(beside: Sequence[Hidden]) -> str:
    return f"; possible too: {beside[0].says}" if beside else ""


def worst_first(odd: Sequence[Fact], asked: Sequence[str] = (), fits: Callable[[Fact], float] = lambda fact: 0.0) -> tuple[Fact, ...]:
    """What is on the hosts asked about before what is elsewhere; then what a machine says before what a log says, what fits the words before
    what does not, a job's first error before its echoes; each kind once a host."""
    named = set(asked)

    def place(f: Fact) -> tuple[bool, bool, bool, float, bool, bool, float, str]:
        elsewhere = bool(named and f.host and f.host not in named)
        when = f.time.timestamp() if f.time else 0.0
        return elsewhere, not f.host, is_text(f.key), -fits(f), f.key in OF_SETTINGS, not f.attrs.get("first"), when, f.host

    order = sorted(odd, key=place)
    return tuple({(f.host, f.key, f.device if not is_text(f.key) else "", repr(f.value)): f for f in reversed(order)}.values())[::-1]


def _with_expected_next(support: Sequence[Match]) -> tuple[Match, ...]:
    """What decides, then what stays below the expected: it says in numbers what the cause costs."""
    below = [match for match in support[1:] if match.clue.key.startswith("expect.")]
    return (*support[:1], *below, *(match for match in support[1:] if match not in below))


def cite(rows: Sequence[Belief], most: int = MOST_EVIDENCE) -> list[Evidence]:
    """The lines that show it, decisive ones first, every guilty subject represented before any is cited twice."""
    found: dict[tuple[str, str, str], Evidence] = {}
    shows = [_with_expected_next(row.support) for row in rows]
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
                line=(fact.line or match.says)[:LONGEST_LINE],
                says=match.says[:LONGEST_LINE],
                time=fact.time,
                sha256=fact.sha256,
                source=FileSource.of(fact),
            ),
        )
    return list(found.values())[: max(most, len({row.subject for row in rows}) if len(rows) <= 8 else most)]
