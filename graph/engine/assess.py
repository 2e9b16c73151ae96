"""The deterministic reasoner: typed facts to ranked causes, verdicts and an outcome, each with the evidence that says so. Pure.

It always runs, needs no network, and decides alone when it is sure. When it is not sure it says that: NO_FAULT needs every
machine looked at and nothing abnormal, anything less is ABSTAIN.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Literal

from graph.engine.abnormal import is_odd, may_be_odd
from graph.engine.belief import DIFFERENCES, OF_LINKS, Belief, Match, alike_against_profile, beliefs
from graph.engine.coverage import Coverage
from graph.engine.hidden import Hidden, hidden_causes
from graph.engine.nowhere import notes
from graph.engine.prepare import gather
from graph.engine.reference import Lens, is_text
from graph.engine.verdict import WORTH_SAYING, Standing, Verdicts, settle, stand
from graph.state import Blind, Evidence, Hypothesis, Tier
from kb.taxonomy.labels import Taxonomy
from tools.fact import Fact
from tools.inventory.ranges import fold

Finding = Literal["diagnosed", "no_fault", "abstained"]
MOST_EVIDENCE, LONGEST_LINE = 4, 200
SURE = 0.96
"""Posterior from which a proven cause stands by itself."""
BEHIND = 0.85
"""How sure a proven cause is called at most while another, of which it would be the consequence, could not be looked at."""


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
    questioned: Mapping[str, str] = field(default_factory=dict)
    """Keys of which all hosts say the same and their profile something else: what is in question then, in a sentence."""
    uncounted: tuple[tuple[str, str, str], ...] = ()
    """(host, check, why) of what logs say of devices that a host does not have."""
    differing: tuple[Fact, ...] = ()
    """What hosts have otherwise than their peers, or than they had."""

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
        return () if self.roots else hidden_causes(self.standings.values(), self.symptoms, self.lens, self.coverage)

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
        reasons += [f"{row.leaf.title} is likely and unproven" for row in self.suspects[:3]]
        reasons += [says[:LONGEST_LINE] for says in self.questioned.values()]
        odd = [fact for fact in self.odd if fact.key not in self.questioned]
        reasons += [f"unexplained{_on(fact)}: {fact.in_words()}"[:LONGEST_LINE] for fact in odd[:3]]
        reasons += [row.says[:LONGEST_LINE] for row in self.hidden]
        blind = self.coverage.blind_spots()
        reasons += [f"{len(blind)} looks failed, first {blind[0][1]} on {blind[0][0]}: {blind[0][2]}"] if blind else []
        if not self.hosts or self.coverage.never_asked():
            reasons.append("not every machine was looked at")
        return tuple(reasons)

    def hypothesis(self, label: str, tier: Tier = "taxonomy") -> Hypothesis:
        """A label as people read it. A confirmed one names every host and device that is guilty of it; one that is undecided only because
        hosts could not be looked at names those."""
        standing = self.standings[label]
        rows = [row for row in self.roots if row.label == label] or [standing.best]
        hides = standing.verdict == "confirmed" and self.hidden_behind(label)
        return Hypothesis(
            label=label,
            hosts=standing.unseen or tuple(sorted({host for row in rows for host in row.accused})),
            devices=() if standing.unseen else tuple(sorted({name for row in rows for name in row.subject.named})),
            tier=tier,
            verdict=standing.verdict,
            confidence=min(standing.confidence, BEHIND) if hides else standing.confidence,
            because=f"{standing.because}{_hidden_words(hides, self.lens.taxonomy) if hides else ''}"[:LONGEST_LINE],
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

    def root_causes(self) -> tuple[Hypothesis, ...]:
        """Confirmed labels, each once, most certain first."""
        return tuple(self.hypothesis(label) for label in dict.fromkeys(row.label for row in self.roots))

    def ruled_out(self, most: int = 5) -> tuple[Hypothesis, ...]:
        """Labels that something spoke for, or that the ticket suggested, and that the facts reject; most likely first, but rivals of the causes
        before what would only be their consequence."""
        said = [s for s in self.standings.values() if s.verdict == "rejected" and (s.best.support or s.best.log_odds > s.best.leaf.prior)]
        follows = {label for row in self.roots for label in row.leaf.suppresses}
        said.sort(key=lambda standing: standing.label in follows)
        return tuple(self.hypothesis(standing.label) for standing in said[:most])

    def could_not_look(self) -> tuple[Blind, ...]:
        """Every look that failed; a host on which all failed alike is one row."""
        why: dict[str, dict[str, str]] = defaultdict(dict)
        for (host, check), reason in self.coverage.blind.items():
            if host:
                why[host][check] = reason
        rows: list[Blind] = []
        for host, checks in sorted(why.items()):
            everything = len(checks) > 2 and {check for h, check in self.coverage.asked if h == host} <= {*checks, "ssh"}
            if everything and len(set(checks.values())) == 1:
                rows.append(Blind(host=host, check="all", why=next(iter(checks.values()))[:LONGEST_LINE]))
            else:
                rows += [Blind(host=host, check=check, why=reason[:LONGEST_LINE]) for check, reason in sorted(checks.items())]
        rows += [Blind(host=host, check=check, why=why[:LONGEST_LINE]) for host, check, why in self.uncounted]
        return (*rows, *self._strangers(), *(self._untargeted() if not self.roots else ()))

    def _untargeted(self) -> list[Blind]:
        """Questions that the site's settings left out, once a check: worth saying where no cause was found."""
        hosts: dict[tuple[str, str], list[str]] = defaultdict(list)
        for (host, check), why in self.coverage.untargeted.items():
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
) -> Assessment:
    """Weigh everything. `hosts` are those of the incident, looked at or not; `priors` what words suggest, in log-odds; `symptoms`
    what people complain of.
    """
    ready = gather(facts, opened, lens.bus, lambda host: lens.expected(host, "ib.count", None), lens.kind)
    rows = tuple(beliefs(ready, lens, priors or {}))
    odd = worst_first([f for f in ready if may_be_odd(f.key) and is_odd(f, lens.expected(f.host, f.key, f.device) if f.host else None)])
    settled, coverage = settle(rows, odd), Coverage.of(ready, lens, hosts)
    differing = tuple(fact for fact in ready if fact.key in DIFFERENCES)
    return Assessment(
        lens, tuple(hosts), rows, settled, coverage, odd, tuple(symptoms), _questioned(ready, lens), tuple(notes(ready)), differing
    )


def _questioned(facts: Sequence[Fact], lens: Lens) -> dict[str, str]:
    """What the profile says otherwise of every link of every host."""
    found: dict[str, str] = {}
    for key in OF_LINKS:
        one = alike_against_profile([fact for fact in facts if fact.key == key], lens)
        if one is not None:
            expected = lens.expected(one.host, key, one.device)
            found[key] = (
                f"every link of all hosts is alike ({one.in_words()}), and their profile expects {expected}: "
                "check the sku in the inventory or what they all hang on, not single cables"
            )
    return found


def _hidden_words(labels: Sequence[str], taxonomy: Taxonomy) -> str:
    return f"; it would follow from {taxonomy.title(labels[0])}, which could not be looked at"


def _on(fact: Fact) -> str:
    return f" on {fact.host}" if fact.host else ""


def worst_first(odd: Sequence[Fact]) -> tuple[Fact, ...]:
    """What a machine says before what a log says, a job's first error before its echoes; each kind once a host."""
    order = sorted(odd, key=lambda f: (not f.host, is_text(f.key), not f.attrs.get("first"), f.time.timestamp() if f.time else 0.0, f.host))
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
            ),
        )
    return list(found.values())[: max(most, len({row.subject for row in rows}) if len(rows) <= 8 else most)]
