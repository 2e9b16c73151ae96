"""Third node: run checks and store the facts. "Stop" ends the wave, news ends the turn after it."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import structlog
from langgraph.runtime import Runtime

from graph.context import GraphContext, LikelyDiagnosis, PendingHosts, Progress
from graph.engine.assessment import assess_facts
from graph.engine.fact_history import find_repair_cursors, mark_stale_after_remedies, mark_stale_after_repairs
from graph.engine.peer_differences import BASELINE_ROWS_KEY, PAST_DIFFERS_KEY, PEER_DIFFERS_KEY, find_past_differences
from graph.extraction.report_texts import count_unobserved_hosts
from graph.incident.context import IncidentContext, build_kind_lookup, build_reference_data, load_incident_context, merge_facts
from graph.provenance.reason_graph import Receipts
from graph.state import InboxItemKind, IncidentCosts, IncidentState
from tools.fact import Fact, Status
from tools.fleet.answers import CheckAnswer, CheckRequest, FleetAnswers
from tools.inventory.host_ranges import fold_host_names

log = structlog.get_logger()
TURN_ENDING_KINDS: frozenset[InboxItemKind] = frozenset({"stop", "hand_off", "close"})
NEWS_KINDS: frozenset[InboxItemKind] = frozenset({"reply", "attach", "recheck"})
MAX_PEERS = 16  # hosts of a group recalled at once to compare a single host with
ANSWERS_PER_INBOX_POLL = 8  # answers between two inbox polls
# commands that do not say what a check reads; its own name is shown
GENERIC_COMMANDS = frozenset({"rackmedic-look", "python3"})


async def execute(state: IncidentState, runtime: Runtime[GraphContext]) -> dict[str, Any]:
    """Run one wave."""
    ports = runtime.context
    case = await load_incident_context(state, ports)
    requests = [CheckRequest(host, check) for host, check in case.planned_asks]
    cut = await find_interrupting_kind(case, ports)
    if cut in TURN_ENDING_KINDS or not requests:
        return {"turn": replace(case.turn, cut=cut).to_json(), "to_look": []}
    ports.fleet.invalidate_before({ask.host for ask in requests}, case.item.at)
    live = LiveWave(case, ports, total=len(requests))
    wave = await live.collect_answers(
        requests, fresh=bool(case.turn.again) or ((case.kind == "recheck" or case.turn.news) and case.rounds <= 1)
    )
    cut = live.cut or await find_interrupting_kind(case, ports)
    facts = await add_baseline_differences(await merge_current_facts(case, list_wave_facts(wave), ports), ports)
    return {
        "facts": await ports.evidence.put_facts(case.id, facts),
        "receipts": await _store_receipts(case, wave, ports),
        "stats": _add_wave_costs(case.stats, wave, ports, facts).model_dump(mode="json", exclude_defaults=True),
        "turn": replace(case.turn, cut=cut).to_json(),
        "to_look": [],
    }


async def _store_receipts(context: IncidentContext, answers: FleetAnswers, ports: GraphContext) -> str:
    """Store all raw answers so far and return their digest."""
    before = await ports.evidence.get_text(sha256) if (sha256 := context.stored.get("receipts", "")) else None
    return await ports.evidence.put_text(context.id, Receipts.parse(before or "").with_wave(answers).serialize())


async def merge_current_facts(context: IncidentContext, new: Sequence[Fact], ports: GraphContext) -> list[Fact]:
    """Merge new facts; mark those of faults remediated since, here or in another incident, as stale."""
    facts = mark_stale_after_repairs(merge_facts(context.facts, new), find_repair_cursors(context.remediations))
    return mark_stale_after_remedies(facts, await ports.treated({fact.host for fact in facts if fact.host}))


async def add_baseline_differences(facts: list[Fact], ports: GraphContext) -> list[Fact]:
    """Add differences from earlier baselines of the hosts and their peers."""
    rows, hosts_with_baseline = ports.inventory.hosts, {fact.host for fact in facts if fact.key == BASELINE_ROWS_KEY}
    groups = {rows[host].group for host in hosts_with_baseline if host in rows}
    peers = [name for name, row in rows.items() if row.group in groups and name not in hosts_with_baseline][:MAX_PEERS]
    remembered = await ports.remembered([*hosts_with_baseline, *peers]) if hosts_with_baseline else {}
    if not remembered:
        return facts
    own_facts = [
        fact for fact in facts if fact.key != PAST_DIFFERS_KEY and not (fact.key == PEER_DIFFERS_KEY and fact.host in hosts_with_baseline)
    ]
    return [*own_facts, *find_past_differences(own_facts, remembered, build_kind_lookup(ports.inventory))]


def list_wave_facts(answers: FleetAnswers) -> list[Fact]:
    """Return a wave's facts; an answer without any becomes an ABSENT fact."""
    silent = [Fact(answer.check, "", status=Status.ABSENT, host=answer.host) for answer in answers.answers if not answer.facts]
    return [*answers.facts, *silent]


async def find_interrupting_kind(context: IncidentContext, ports: GraphContext) -> str:
    """Return the kind of a waiting inbox item that ends this turn early, or an empty string."""
    done_ids = {context.item.id, *context.done_items}
    kinds = [item.kind for item in await ports.peek(context.id) if item.id not in done_ids]
    return next((kind for kind in kinds if kind in TURN_ENDING_KINDS), next((kind for kind in kinds if kind in NEWS_KINDS), ""))


@dataclass(slots=True)
class LiveWave:
    """A wave under way: reports progress and polls the inbox for "stop"."""

    case: IncidentContext
    ports: GraphContext
    total: int
    answers: list[CheckAnswer] = field(default_factory=list)
    cut: str = ""
    _likely: LikelyDiagnosis | None = None
    _weighed: int = 0
    _stopped: asyncio.Event = field(default_factory=asyncio.Event)

    async def collect_answers(self, asks: Sequence[CheckRequest], *, fresh: bool) -> FleetAnswers:
        """Return all answers, or those received before a stop."""
        started_at = self.ports.clock.now()
        looking = asyncio.ensure_future(self.ports.fleet.run_checks(self.case.id, asks, self._handle_answer, fresh=fresh))
        stopped = asyncio.ensure_future(self._stopped.wait())
        try:
            while not (await asyncio.wait({looking, stopped}, timeout=self.ports.tell_every, return_when=asyncio.FIRST_COMPLETED))[0]:
                await self._report_waiting(asks, int((self.ports.clock.now() - started_at).total_seconds()))
            if looking.done():
                return looking.result()
            return FleetAnswers(tuple(self.answers), check_seconds=sum(answer.seconds for answer in self.answers))
        finally:
            for task in (looking, stopped):
                task.cancel()
            await asyncio.wait({looking, stopped})  # awaited together: a failed task must not leave the other running

    async def _report_waiting(self, asks: Sequence[CheckRequest], seconds: int) -> None:
        """Report pending hosts and the likely cause. A failed report never fails the wave."""
        try:
            if len(self.answers) > self._weighed:
                self._weighed = len(self.answers)
                self._likely = await asyncio.to_thread(find_likely_diagnosis, self.case, self.ports, tuple(self.answers))
            awaited = list_pending_hosts(asks, self.answers, self.ports)
            progress = Progress(self.case.id, "execute", done=len(self.answers), total=self.total, awaited=awaited, seconds=seconds)
            await self.ports.progress(replace(progress, likely=self._likely))
        except Exception as error:
            log.warning("execute.not_told", error=f"{type(error).__name__}: {error}"[:200])

    async def _handle_answer(self, answer: CheckAnswer) -> None:
        self.answers.append(answer)
        answer_count = len(self.answers)
        ask_count = self.ports.fleet.checks[answer.check].asks
        line = (
            f"{answer.host} {answer.check}: could not look, {answer.could_not[:80]}" if answer.could_not else f"{answer.host}: {ask_count}"
        )
        finished_check = None if answer.cached else (answer.host, answer.check)
        await self.ports.progress(Progress(self.case.id, "execute", line, done=answer_count, total=self.total, ran=finished_check))
        if answer_count % ANSWERS_PER_INBOX_POLL == 0 and not self.cut:
            kind = await find_interrupting_kind(self.case, self.ports)
            if kind in TURN_ENDING_KINDS:
                self.cut = kind
                self._stopped.set()


def list_pending_hosts(asks: Sequence[CheckRequest], answers: Sequence[CheckAnswer], ports: GraphContext) -> tuple[PendingHosts, ...]:
    """Return unanswered hosts by tool, most hosts first."""
    answered_checks = {(answer.host, answer.check) for answer in answers}
    hosts: dict[str, list[str]] = {}
    for ask in asks:
        if (ask.host, ask.check) not in answered_checks:
            hosts.setdefault(_get_tool_name(ask.check, ports), []).append(ask.host)
    rows = sorted(hosts.items(), key=lambda row: -len(row[1]))
    return tuple(PendingHosts(fold_host_names(names), request) for request, names in rows)


def _get_tool_name(check: str, ports: GraphContext) -> str:
    tool = ports.fleet.checks[check].commands[0].argv[0].rpartition("/")[2]
    return check if tool in GENERIC_COMMANDS else tool


def find_likely_diagnosis(context: IncidentContext, ports: GraphContext, answers: Sequence[CheckAnswer]) -> LikelyDiagnosis | None:
    """Return the first cause proven so far. For display only: devices are unnamed until a host is complete."""
    facts = mark_stale_after_repairs(
        merge_facts(context.facts, list_wave_facts(FleetAnswers(tuple(answers)))), find_repair_cursors(context.remediations)
    )
    now = assess_facts(facts, build_reference_data(ports, facts), context.hosts, context.turn.priors, context.onset, context.brief.symptoms)
    causes = now.list_root_causes()
    if not causes:
        return None
    location = f" on {fold_host_names(causes[0].hosts)}" if causes[0].hosts else ""
    return LikelyDiagnosis(causes[0].label, f"{ports.taxonomy.get_title(causes[0].label)}{location}")


def _add_wave_costs(old: IncidentCosts, answers: FleetAnswers, ports: GraphContext, facts: Sequence[Fact]) -> IncidentCosts:
    return old.model_copy(
        update={
            "hosts": len({fact.host for fact in facts if fact.host}),
            "silent": count_unobserved_hosts(facts),
            "checks": old.checks + answers.checks,
            "check_seconds": round(old.check_seconds + answers.check_seconds, 3),
            "makespan_seconds": round(old.makespan_seconds + answers.makespan_seconds, 3),
            "exclusive_gpu_seconds": round(old.exclusive_gpu_seconds + answers.exclusive_gpu_seconds, 3),
            "clock": "virtual" if ports.fleet.clock == "virtual" else "real",
        }
    )
