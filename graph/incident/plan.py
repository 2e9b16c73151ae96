"""Second node: choose the next checks in three tiers: similar incidents, the taxonomy, exploration.

The first round runs all passive checks; the taxonomy search then asks for missing ones, exclusive checks come last, and
finally the reporter is asked.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from langgraph.runtime import Runtime

from graph.context import GraphContext, Progress
from graph.engine.assessment import Assessment
from graph.engine.check_selection import CheckOffer, TaxonomySearch, advance_search, list_first_wave, rank_exclusive_offers
from graph.engine.priors import compute_model_priors, compute_past_priors, compute_word_priors, select_telling_incidents, sum_priors
from graph.extraction.hosts import find_hosts
from graph.incident.context import (
    MAX_UNNAMED_HOSTS,
    IncidentContext,
    TurnState,
    assess_incident,
    build_kind_lookup,
    build_reference_data,
    fold_asks,
    load_incident_context,
)
from graph.incident.followup_turns import (
    brings_new_facts,
    get_due_recheck,
    is_narrow_recheck,
    list_checks_for_news,
    list_counter_checks,
    list_deciding_checks,
)
from graph.incident.guides import get_unknown_guide, plan_guided_checks
from graph.incident.model_hypotheses import build_material, explore_causes, list_corrections, list_offered_labels
from graph.incident.questions import build_hosts_question, list_logs, render_findings
from graph.learning.lessons import merge_recalled_lessons
from graph.learning.site_notes import find_page_hints
from graph.model.reasoner import DeclinedAnswer
from graph.provenance.reason_graph import ShiftSource, build_shifts, parse_shifts, serialize_shifts
from graph.state import COUNTERS_RECHECK, Exploration, IncidentState, Tier
from kb.history.lessons import compute_note_weights
from tools.inventory.host_ranges import expand_host_range, fold_host_names

MAX_ROUNDS = 10
MAX_PRIORS = 12
MAX_EXTRA_HOSTS = 16  # hosts added once a cause is known
MAX_JOBS = 2  # jobs that are located
MAX_PEERS = 3  # peers for comparison in a large fleet
MAX_PAST_INCIDENTS = 60  # similar incidents requested
MAX_CLOSEST_INCIDENTS = 2  # of them the closest kept regardless of label

# causes of a possibly fabric-wide kind, which one host cannot settle
FABRIC_LABEL_PREFIXES = ("INTERCONNECT.IB.", "INTERCONNECT.ROCE.", "INTERCONNECT.ETH.", "INTERCONNECT.SWITCH.")
FINDINGS_QUESTION = "read what was found"  # marks in `asked_model` that a model read the findings
MAX_OUTSIDE_CHARS = 240
MAX_REPEATED_LOOKS = 2  # a fault visible in one of three observations is found in three; only then "no fault"


@dataclass(frozen=True, slots=True)
class PlanResult:
    """The next checks, if any, and the turn and search state."""

    turn: TurnState
    walk: TaxonomySearch
    tier: Tier
    asks: Sequence[tuple[str, str]] = ()
    explored: Exploration | None = None  # set if a model proposed causes beyond the taxonomy


async def plan(state: IncidentState, runtime: Runtime[GraphContext]) -> dict[str, Any]:
    """Choose checks for `execute`; none if nothing useful is left."""
    ports = runtime.context
    case = await load_incident_context(state, ports)
    chosen = await (_plan_next_round(case, ports, case.rounds) if case.rounds else _plan_first_round(case, ports))
    await ports.progress(_build_progress(case, chosen, ports))
    return {
        "turn": chosen.turn.to_json(),
        "walk": chosen.walk.to_json(),
        "tier": chosen.tier,
        "to_look": fold_asks(chosen.asks),
        "rounds": case.rounds + 1,
        **({"explored": chosen.explored.model_dump(mode="json", exclude_defaults=True)} if chosen.explored else {}),
    }


async def _plan_first_round(context: IncidentContext, ports: GraphContext) -> PlanResult:
    """Set priors from words and history and plan the first wave; no checks for unknown hosts or jobs."""
    if get_unknown_guide(context, ports):
        return PlanResult(context.turn, TaxonomySearch(), "done")
    if (context.turn.unknown or context.turn.unknown_job) and not context.brief.hosts:
        return PlanResult(
            replace(context.turn, hosts="", named=True, questions=(build_hosts_question(context.turn),)), TaxonomySearch(), "done"
        )
    has_new_facts = brings_new_facts(context)
    hosts = (
        context.hosts
        if context.turn.only
        else tuple(dict.fromkeys((*context.hosts_in_question, *context.hosts)))
        if has_new_facts
        else context.hosts_in_question
    )
    similar_incidents = (
        await ports.history.find_similar(context.brief.text, MAX_PAST_INCIDENTS, context.audience_tenant) if context.brief.text else []
    )
    similar = select_telling_incidents(similar_incidents, compute_word_priors(ports.taxonomy, context.brief))
    past_labels = [(past.label, past.score) for past in similar if past.label in ports.taxonomy.decidable.leaves]
    noted = [
        (label, score) for label, score in find_page_hints(ports.pages, context.brief.text) if label in ports.taxonomy.decidable.leaves
    ]
    parts: dict[ShiftSource, Mapping[str, float]] = {
        "words": compute_word_priors(ports.taxonomy.decidable, context.brief),
        "history": compute_past_priors([*past_labels, *noted]),
        "read": compute_model_priors(context.turn.reading),
    }
    suggested = sum_priors(*parts.values())
    parts["mistakes"] = compute_note_weights(suggested, ports.mistakes(context.audience_tenant), ports.taxonomy.decidable.leaves)
    priors = _trim_priors(sum_priors(*parts.values()))
    moves = serialize_shifts([move for by, weights in parts.items() for move in build_shifts(by, weights)], priors)
    turn = replace(
        context.turn,
        hosts=fold_host_names(hosts),
        named=bool(context.brief.hosts),
        past=tuple(label for label, _ in past_labels),
        priors=priors,
    )
    turn = replace(turn, moves=moves)
    turn = replace(turn, recalled=merge_recalled_lessons(turn.recalled, [*similar_incidents[:MAX_CLOSEST_INCIDENTS], *similar]))
    context = replace(context, turn=turn)
    if guided := plan_guided_checks(context, None, ports):
        return PlanResult(guided.turn, TaxonomySearch(), "taxonomy", guided.asks)
    if get_due_recheck(context) == COUNTERS_RECHECK:
        checks = list_counter_checks(context, await assess_incident(context, ports))
        return PlanResult(context.turn, TaxonomySearch(), "history" if checks else "done", checks)
    if is_narrow_recheck(context):
        return _plan_narrow_recheck(replace(context, turn=replace(turn, narrow=True)), await assess_incident(context, ports))
    if has_new_facts:
        context = replace(context, turn=replace(turn, news=True))
        pointed_at = list_checks_for_news(context, await assess_incident(context, ports))
        return (
            PlanResult(context.turn, TaxonomySearch(), "history", pointed_at)
            if pointed_at
            else await _plan_next_round(context, ports, rounds=1)
        )
    checks = list_first_wave(build_reference_data(ports, context.facts), hosts)
    return PlanResult(turn, TaxonomySearch(), "history", checks) if checks else await _plan_next_round(context, ports, rounds=1)


def _plan_narrow_recheck(context: IncidentContext, assessment: Assessment) -> PlanResult:
    checks = list_deciding_checks(context, assessment)
    return PlanResult(context.turn, TaxonomySearch(), "history" if checks else "done", checks)


async def _plan_next_round(context: IncidentContext, ports: GraphContext, rounds: int) -> PlanResult:
    """Plan the running guide's checks, else the cheapest useful ones."""
    if get_due_recheck(context) == COUNTERS_RECHECK:
        return PlanResult(context.turn, context.walk, "done")
    if rounds < MAX_ROUNDS and (guided := plan_guided_checks(context, await assess_incident(context, ports), ports)):
        return PlanResult(guided.turn, context.walk, "taxonomy", guided.asks)
    return await _plan_cheapest_look(context, ports, rounds)


async def _plan_cheapest_look(context: IncidentContext, ports: GraphContext, rounds: int) -> PlanResult:
    if context.turn.narrow:
        now = await assess_incident(context, ports)
        over = context.turn.cut or context.turn.again >= MAX_REPEATED_LOOKS or now.finding == "diagnosed"
        next_context = replace(context, turn=replace(context.turn, again=context.turn.again + 1))
        return PlanResult(context.turn, context.walk, "done") if over else _plan_narrow_recheck(next_context, now)
    context, now = await _read_findings(context, await assess_incident(context, ports), ports)
    turn = context.turn
    if turn.cut or rounds >= MAX_ROUNDS or (turn.news and now.finding != "abstained"):
        return PlanResult(turn, context.walk, "done")
    walk, visit = advance_search(context.walk, now)
    if visit:
        return PlanResult(turn, walk, "taxonomy", visit.asks)
    if more := await _find_wider_hosts(context, now, ports):
        return PlanResult(
            replace(turn, hosts=fold_host_names((*context.hosts, *more))), walk, "taxonomy", list_first_wave(now.reference, more)
        )
    is_open_question = not (
        turn.news and context.report and context.report.outcome == "abstained"
    )  # else the earlier turn repeated its checks as often
    if is_open_question and now.finding != "diagnosed" and turn.again < MAX_REPEATED_LOOKS and (answering := list_answering_hosts(now)):
        return PlanResult(replace(turn, again=turn.again + 1), walk, "taxonomy", list_first_wave(now.reference, answering))
    if offers := _list_exclusive_offers(context, now):
        return PlanResult(turn, walk, "taxonomy", [(host, offers[0].check) for host in offers[0].hosts])
    if now.finding == "abstained":
        step = await explore_causes(context, now, ports)
        return PlanResult(step.turn, walk, "exploration", step.asks, step.explored)
    return PlanResult(turn, walk, "done")


def _list_exclusive_offers(context: IncidentContext, assessment: Assessment) -> list[CheckOffer]:
    """Return exclusive checks that could still decide; none in a scheduled recheck."""
    return [] if get_due_recheck(context) else rank_exclusive_offers(assessment)


async def _find_wider_hosts(context: IncidentContext, assessment: Assessment, ports: GraphContext) -> tuple[str, ...]:
    """Return further hosts to check; none if the report names only unknown hosts.

    In a small fleet all, as people may blame the wrong host. In a larger one the hosts named are the subject: add those
    that their errors or job name, and a few peers. `--hosts` names the subject in any fleet; a command's hosts are
    final.
    """
    if context.brief.unknown_hosts:
        return ()
    compares = assessment.finding != "diagnosed" or any(
        not row.accused or row.label.startswith(FABRIC_LABEL_PREFIXES) for row in assessment.roots
    )
    if context.turn.only and (context.item.kind != "mention" or not compares):
        return ()
    if (
        not context.turn.only
        and context.hosts
        and len(context.visible) <= (MAX_EXTRA_HOSTS if context.turn.named or assessment.finding == "diagnosed" else MAX_UNNAMED_HOSTS)
    ):
        related_hosts = _find_group_hosts(context, ports)
    elif context.turn.only or (context.turn.named and not context.brief.job):
        related_hosts = await _find_related_hosts(context, ports)
        new = [host for host in related_hosts if host not in context.hosts]
        related_hosts = _find_peer_hosts(context, ports) if compares and not new else related_hosts
    else:
        related_hosts = await _find_related_hosts(context, ports, mates=True)
    return tuple(host for host in related_hosts if host not in context.hosts)


def _find_group_hosts(context: IncidentContext, ports: GraphContext) -> tuple[str, ...]:
    """Return the visible hosts; if people named some, those of the same groups."""
    if not context.turn.named:
        return context.visible
    rows = ports.inventory.hosts
    groups = {rows[name].group for name in context.hosts if name in rows}
    return tuple(name for name in context.visible if rows[name].group in groups)


def _find_peer_hosts(context: IncidentContext, ports: GraphContext) -> tuple[str, ...]:
    """Return a few visible hosts of the same kind, next in the inventory first; hosts already checked count."""
    kind = build_kind_lookup(ports.inventory)
    kinds = {kind(host) for host in context.hosts_in_question}
    own = set(context.hosts_in_question)
    peer_hosts = [host for host in context.visible if kind(host) in kinds]
    last = max((at for at, host in enumerate(peer_hosts) if host in own), default=-1)
    room = MAX_PEERS - len(set(context.hosts) - own)
    return tuple(host for host in (*peer_hosts[last + 1 :], *peer_hosts[: last + 1]) if host not in context.hosts)[: max(0, room)]


async def _find_related_hosts(context: IncidentContext, ports: GraphContext, *, mates: bool = False) -> tuple[str, ...]:
    """Return hosts that errors name, and a few or (`mates`) all of a job that runs there."""
    error_lines = "\n".join(fact.line for fact in context.facts if fact.key == "job.error" and fact.line)
    job_ids = {str(fact.attrs["job"]) for fact in context.facts if fact.host and fact.key == "proc.gpu_memory" and fact.attrs.get("job")}
    queued = {job for fact in context.facts if fact.key == "sched.running" and isinstance(fact.value, list) for job in fact.value}
    jobs = sorted(job_ids or queued)
    places = [host for job in jobs[:MAX_JOBS] for host in (await ports.job_place(job)).hosts]
    neighbour_hosts = [host for host in find_hosts(" ".join(places), context.visible).hosts if mates or host not in context.hosts]
    room = MAX_UNNAMED_HOSTS if mates else max(0, MAX_PEERS - len(set(context.hosts) - set(context.hosts_in_question)))
    return tuple(dict.fromkeys((*find_hosts(error_lines, context.names).hosts[:MAX_EXTRA_HOSTS], *neighbour_hosts[:room])))


def list_answering_hosts(assessment: Assessment) -> list[str]:
    answering_hosts = {
        host for host, check in assessment.coverage.asked if (host, check) not in assessment.coverage.unobserved and check != "ssh"
    }
    return [host for host in assessment.hosts if host in answering_hosts]


async def _read_findings(context: IncidentContext, assessment: Assessment, ports: GraphContext) -> tuple[IncidentContext, Assessment]:
    """Let a model read the findings once a turn if unsure; its causes become priors only."""
    if ports.model is None or assessment.roots or context.turn.news or FINDINGS_QUESTION in context.turn.asked_model:
        return context, assessment
    labels = list_offered_labels(context, assessment, ports.taxonomy)
    if len(labels) < 2:
        return context, assessment
    findings = render_findings(assessment, (), list_corrections(context, list(labels), ports))
    material = await build_material(context.brief, list_logs(context), context, ports, findings)
    answer = await ports.model.extract_report(context.id, material, context.visible, labels)
    turn = replace(context.turn, asked_model=(*context.turn.asked_model, FINDINGS_QUESTION))
    if isinstance(answer, DeclinedAnswer):
        return replace(context, turn=turn.with_model_declined(answer.reason)), assessment
    reading = {label: p for label, p in answer.causes if label in labels}
    open_ = {
        label: p
        for label, p in reading.items()
        if label in assessment.label_verdicts and assessment.label_verdicts[label].verdict != "rejected"
    }
    priors = _trim_priors(sum_priors(turn.priors, compute_model_priors(open_)))
    moves = serialize_shifts([*parse_shifts(turn.moves, turn.priors), *build_shifts("read", compute_model_priors(open_))], priors)
    turn = replace(turn, reading=reading, outside=answer.outside[:MAX_OUTSIDE_CHARS], priors=priors, moves=moves)
    context = replace(context, turn=turn)
    return context, await assess_incident(context, ports)


def _trim_priors(priors: Mapping[str, float]) -> dict[str, float]:
    """Keep the strongest, rounded: the state stays small."""
    top = sorted(priors.items(), key=lambda row: (-row[1], row[0]))[:MAX_PRIORS]
    return {label: round(weight, 2) for label, weight in top}


def _build_progress(context: IncidentContext, chosen: PlanResult, ports: GraphContext) -> Progress:
    if context.rounds:
        return Progress(context.id, "plan", f"{len(chosen.asks)} more looks" if chosen.asks else "nothing left to look at")
    host_count = len(expand_host_range(chosen.turn.hosts))
    return Progress(context.id, "plan", f"looking at {host_count} hosts", hypotheses=_list_titles(chosen.turn.past, ports))


def _list_titles(labels: Sequence[str], ports: GraphContext) -> tuple[str, ...]:
    return tuple(ports.taxonomy.get_title(label) for label in labels)


def route_after_plan(state: IncidentState) -> str:
    return "execute" if state["to_look"] else "conclude"
