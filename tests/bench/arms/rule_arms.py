"""Arms without a model: prior, retrieval, all checks with rules, taxonomy alone, product, oracle."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

from langgraph.checkpoint.memory import InMemorySaver

from graph.context import GraphContext
from graph.engine.assessment import Assessment, assess_facts
from graph.engine.priors import compute_word_priors
from graph.engine.reference_data import ReferenceData, build_profile_lookup
from graph.engine.taxonomy_search import TaxonomySearch, advance_search
from graph.extraction.reports import parse_report
from graph.incident.incident_graph import build_incident_graph, run_turn
from graph.model.reasoner import Reasoner
from graph.report import Report
from graph.state import Attachment, Hypothesis, InboxItem, IncidentBrief, IncidentCosts
from kb.history.index import PastIncidentIndex
from kb.history.label_ranking import LabelRanker
from kb.taxonomy.taxonomy import Taxonomy
from tests.bench.arms.arm import Account, Answer, Cost, Knowledge, NotRun, Stage
from tests.bench.arms.left_out import Partly
from tests.bench.case_files.truth import ABSTAIN, NO_FAULT, culprit
from tests.bench.run.cache import Kept
from tools.fact import Fact, Status, Value
from tools.fleet.answers import CheckRequest, FleetAnswers
from tools.fleet.fleet import Fleet


class Prior:
    """B0: always the commonest cause."""

    async def solve(self, stage: Stage) -> Answer:
        leaf = max(stage.knowledge.taxonomy.leaves.values(), key=lambda leaf: (leaf.share, leaf.label))
        return Answer((leaf.label,), confidence=leaf.share)


class Retrieval:
    """B1: the label nearest to the ticket's words. Runs no check."""

    def __init__(self) -> None:
        self._nearest: tuple[Knowledge, LabelRanker] | None = None

    async def solve(self, stage: Stage) -> Answer:
        said = parse_report(stage.text, tuple(stage.inventory.hosts), stage.now)
        if self._nearest is None or self._nearest[0] is not stage.knowledge:
            self._nearest = stage.knowledge, LabelRanker.build(stage.knowledge.taxonomy, stage.knowledge.past)
        ranked = self._nearest[1].rank_labels(stage.text, said.symptoms)
        if not ranked:
            return Answer((ABSTAIN,))
        label, p = ranked[0]
        machine = stage.knowledge.taxonomy.get_leaf(label).scope not in ("job", "cluster", "switch")
        return Answer((label,), said.hosts if machine else (), confidence=p)


class RunEverything:
    """B4r: every check on every machine in sequence, then the rules once, like a runbook without a bot."""

    async def solve(self, stage: Stage) -> Answer:
        bench = Bench(stage)
        await bench.everything()
        return bench.answer()


class TaxonomyOnly:
    """B5: down the taxonomy, likeliest branch by the ticket's words first, one check at a time until a cause is proven."""

    async def solve(self, stage: Stage) -> Answer:
        bench = Bench(stage)
        said = parse_report(stage.text, bench.hosts, stage.now)
        bench.priors = compute_word_priors(
            stage.knowledge.taxonomy, IncidentBrief(text=stage.text, symptoms=said.symptoms, signatures=said.signatures)
        )
        walk = TaxonomySearch()
        while not bench.assessed.roots:
            walk, visit = advance_search(walk, bench.assessed)
            if visit is None:
                break
            for check in dict.fromkeys(check for _, check in visit.asks):
                await bench.look([(host, asked) for host, asked in visit.asks if asked == check])
        return bench.answer()


class Product:
    """B8 and B9: RackMedic without and with a model. `declines`: questions not asked (`ablations`)."""

    def __init__(self, *, model: bool = False, declines: Collection[str] = (), fleet: type[Fleet] = Fleet) -> None:
        self._with_model, self._declines, self._fleet = model, frozenset(declines), fleet
        self._histories: dict[frozenset[tuple[str, str]], PastIncidentIndex] = {}

    async def solve(self, stage: Stage) -> Answer:
        known, evidence = stage.knowledge, Kept()
        fleet = self._fleet(stage.transport, stage.inventory, known.checks, evidence, stage.clock, known.skus)
        model = self._model(stage)
        ports = GraphContext(
            fleet, stage.inventory, known.taxonomy, self._history(known), evidence, stage.clock, model=model, skus=known.skus
        )
        graph, incident = build_incident_graph(InMemorySaver()), "bench"
        attached = tuple(Attachment(name=name, text=text) for name, text in stage.attachments)
        item = InboxItem(id="bench-1", kind="mention", incident=incident, at=stage.now, text=stage.text, attachments=attached)
        report = await run_turn(graph, ports, item)
        state = (await graph.aget_state({"configurable": {"thread_id": incident}})).values
        answer = answered(report, IncidentCosts.model_validate(state.get("stats") or {}), known.taxonomy)
        return replace(answer, account=account_of(report, [Hypothesis.model_validate(row) for row in state.get("hypotheses", [])]))

    def _history(self, known: Knowledge) -> PastIncidentIndex:
        """Return the cached index; building one takes longer than many cases."""
        key = frozenset((row.id, row.label) for row in known.past)
        if key not in self._histories:
            self._histories[key] = PastIncidentIndex(known.past)
        return self._histories[key]

    def _model(self, stage: Stage) -> Reasoner | None:
        if not self._with_model:
            return None
        if stage.line is None:
            raise NotRun("no model")
        return Partly(stage.line.reasoner(), self._declines)


def answered(report: Report, stats: IncidentCosts, taxonomy: Taxonomy) -> Answer:
    """Return the product's report as an Answer."""
    cost = Cost(
        stats.makespan_seconds, stats.check_seconds, stats.exclusive_gpu_seconds, stats.checks,
        stats.model_calls, stats.tokens_in, stats.tokens_out, stats.usd,
    )  # fmt: skip
    if report.outcome == "no_fault":
        return Answer((NO_FAULT,), cost=cost)
    named = _named(report.root_causes, taxonomy, cost)
    return replace(named, likely=report.likely.label) if report.likely and not report.root_causes else named


MOST_TOLD = 6


def account_of(report: Report, suspected: Sequence[Hypothesis]) -> Account:
    """Return the product's reasons, shortened."""
    named = {row.label for row in report.root_causes}
    open_ = [row for row in suspected if row.label not in named and row.verdict != "rejected"]
    return Account(
        says=report.headline,
        saw=tuple(
            f"{line.check} on {line.host or 'what people handed in'}: {line.line}" for row in report.root_causes for line in row.evidence
        )[:MOST_TOLD],
        suspected=tuple(f"{row.label} ({row.confidence:.0%}): {row.because}" for row in open_)[:MOST_TOLD],
        could_not_look=tuple(f"{row.check} on {row.host}: {row.why}" for row in report.could_not_look)[:MOST_TOLD],
    )


def _named(causes: Sequence[Hypothesis], taxonomy: Taxonomy, cost: Cost) -> Answer:
    if not causes:
        return Answer((ABSTAIN,), cost=cost)
    return Answer(
        labels=tuple(row.label for row in causes),
        hosts=_union(row.hosts for row in causes),
        devices=_union(row.devices for row in causes),
        evidence=tuple(dict.fromkeys((line.check, line.host) for row in causes for line in row.evidence)),
        cost=cost,
        confidence=max(row.confidence for row in causes),
        plans=tuple(dict.fromkeys(plan for row in causes for plan in _first_plan(row, taxonomy))),
    )


def _first_plan(row: Hypothesis, taxonomy: Taxonomy) -> list[str]:
    leaf = taxonomy.leaves.get(row.label)
    if leaf is None or not leaf.remedies:
        return []
    return [f"{leaf.remedies[0]}@{host}" for host in row.hosts] or [leaf.remedies[0]]


class Oracle:
    """B10: reads the injected faults from the cluster. If it is not right, the case is wrong."""

    async def solve(self, stage: Stage) -> Answer:
        assert stage.cluster is not None  # the runner passes it to this arm only
        causes = [culprit(row) for row in stage.cluster.injected_faults]
        known = [row for row in causes if row.label in stage.knowledge.taxonomy.leaves]
        if not causes:
            return Answer((NO_FAULT,), confidence=1.0)
        if not known:
            return Answer((ABSTAIN,), confidence=1.0)
        return Answer(
            _union([row.label] for row in known), _union(r.hosts for r in known), _union(r.devices for r in known), confidence=1.0
        )


class Bench:
    """One case under the rules: checks in sequence, their cost, and the engine's assessment."""

    def __init__(self, stage: Stage) -> None:
        self.stage, self.hosts = stage, tuple(stage.inventory.hosts)
        known = stage.knowledge
        self._fleet = Fleet(stage.transport, stage.inventory, known.checks, Kept(), stage.clock, known.skus)
        self.facts: list[Fact] = []
        self.cost = Cost()
        self.priors: dict[str, float] = {}
        self._last: tuple[int, Assessment] | None = None

    async def look(self, asks: Sequence[tuple[str, str]]) -> None:
        """Run checks and wait for the slowest host."""
        wave = await self._fleet.run_checks("bench", [CheckRequest(host, check) for host, check in asks])
        self.facts += _told(wave)
        self.cost += Cost(wave.makespan_seconds, wave.check_seconds, wave.exclusive_gpu_seconds, wave.checks)

    async def everything(self) -> None:
        """Run every check on every host, one check after another."""
        for check in sorted(self.stage.knowledge.checks.values(), key=lambda c: (c.exclusive, c.seconds, c.id)):
            await self.look([(host, check.id) for host in self.hosts])

    def forget(self) -> None:
        """Forget all facts and the fleet's cache."""
        self.facts, self._last = [], None
        for host in self.hosts:
            self._fleet.forget_host(host)

    def telling(self, label: str, most: int = 40) -> list[Fact]:
        """Return facts for or against a label, and abnormal facts."""
        rows = self.assessed.by_label.get(label, [])
        facts = [match.fact for row in rows for match in (*row.support, *row.against)] + list(self.assessed.abnormal_facts)
        return list({id(fact): fact for fact in facts}.values())[:most]

    @property
    def assessed(self) -> Assessment:
        """Return the rules' assessment so far."""
        if self._last is None or self._last[0] != len(self.facts):
            self._last = len(self.facts), assess_facts(self.facts, self._lens(), self.hosts, self.priors, self.stage.now)
        return self._last[1]

    def answer(self) -> Answer:
        now = self.assessed
        if now.finding == "no_fault":
            return Answer((NO_FAULT,), cost=self.cost)
        return _named(now.list_root_causes(), self.stage.knowledge.taxonomy, self.cost)

    def _lens(self) -> ReferenceData:
        known = self.stage.knowledge
        profile = build_profile_lookup(self.stage.inventory, known.skus, self.facts)

        def expected(host: str, key: str, device: str | None) -> Value:
            sku = profile(host)
            return sku.get_expected(key, device) if sku else None

        def bus(host: str) -> tuple[str, ...]:
            sku = profile(host)
            return sku.bus if sku else ()

        return ReferenceData(known.taxonomy, known.checks, expected, bus=bus)


def _told(wave: FleetAnswers) -> list[Fact]:
    """Return a wave's facts; an answer without facts still counts as observed."""
    return [*wave.facts, *(Fact(a.check, "", status=Status.ABSENT, host=a.host) for a in wave.answers if not a.facts)]


def _union(parts: Iterable[Sequence[str]]) -> tuple[str, ...]:
    return tuple(sorted({one for part in parts for one in part}))
