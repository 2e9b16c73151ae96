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
from graph.engine.check_selection import CheckOffer, list_first_wave, rank_exclusive_offers
from graph.engine.priors import compute_model_priors, compute_past_priors, compute_word_priors, select_telling_incidents, sum_priors
from graph.engine.taxonomy_search import TaxonomySearch, advance_search
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
from graph.incident.exploration import explore_causes
from graph.incident.guides import lacks_requested_guide, plan_guided_checks
from graph.incident.likely_causes import list_offered_labels
from graph.incident.narrow_recheck import is_narrow_recheck, list_deciding_checks
from graph.incident.news_turns import brings_new_facts, list_checks_for_news
from graph.incident.prompt_material import build_material, list_corrections
from graph.incident.questions import build_hosts_question, list_logs, render_findings
from graph.incident.scheduled_recheck import get_due_recheck, list_counter_checks
from graph.learning.lesson_recall import merge_recalled_lessons
from graph.learning.site_notes import find_page_hints
from graph.model.reasoner import DeclinedAnswer
from graph.provenance.belief_shifts import ShiftSource, build_shifts, parse_shifts, serialize_shifts
from graph.state import COUNTERS_RECHECK, Exploration, IncidentState, Tier
from kb.history.mistakes import compute_note_weights
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
    graph_context = runtime.context
    context = await load_incident_context(state, graph_context)
    chosen = await (
        _plan_next_round(context, graph_context, context.rounds) if context.rounds else _plan_first_round(context, graph_context)
    )
    await graph_context.progress(_build_progress(context, chosen, graph_context))
    update: dict[str, Any] = {
        "turn": chosen.turn.to_json(),
        "walk": chosen.walk.to_json(),
        "tier": chosen.tier,
        "to_look": fold_asks(chosen.asks),
        "rounds": context.rounds + 1,
    }
    if chosen.explored:
        update["explored"] = chosen.explored.model_dump(mode="json", exclude_defaults=True)
    return update


async def _plan_first_round(context: IncidentContext, graph_context: GraphContext) -> PlanResult:
    """Set priors from words and history and plan the first wave; no checks for unknown hosts or jobs."""
    if lacks_requested_guide(context, graph_context):
        return PlanResult(context.turn, TaxonomySearch(), "done")
    if (context.turn.unknown or context.turn.unknown_job) and not context.brief.hosts:
        return PlanResult(
            replace(context.turn, hosts="", named=True, questions=(build_hosts_question(context.turn),)), TaxonomySearch(), "done"
        )
    has_new_facts = brings_new_facts(context)
    hosts = _choose_first_hosts(context, has_new_facts=has_new_facts)
    similar_incidents = (
        await graph_context.history.find_similar(context.brief.text, MAX_PAST_INCIDENTS, context.audience_tenant)
        if context.brief.text
        else []
    )
    similar = select_telling_incidents(similar_incidents, compute_word_priors(graph_context.taxonomy, context.brief))
    past_labels = [(past.label, past.score) for past in similar if past.label in graph_context.taxonomy.decidable.leaves]
    noted = [
        (label, score)
        for label, score in find_page_hints(graph_context.pages, context.brief.text)
        if label in graph_context.taxonomy.decidable.leaves
    ]
    parts: dict[ShiftSource, Mapping[str, float]] = {
        "words": compute_word_priors(graph_context.taxonomy.decidable, context.brief),
        "history": compute_past_priors([*past_labels, *noted]),
        "read": compute_model_priors(context.turn.reading),
    }
    suggested = sum_priors(*parts.values())
    parts["mistakes"] = compute_note_weights(
        suggested, graph_context.mistakes(context.audience_tenant), graph_context.taxonomy.decidable.leaves
    )
    priors = _trim_priors(sum_priors(*parts.values()))
    moves = serialize_shifts([move for by, weights in parts.items() for move in build_shifts(by, weights)], priors)
    turn = replace(
        context.turn,
        hosts=fold_host_names(hosts),
        named=bool(context.brief.hosts),
        past=tuple(label for label, _ in past_labels),
        priors=priors,
        moves=moves,
        recalled=merge_recalled_lessons(context.turn.recalled, [*similar_incidents[:MAX_CLOSEST_INCIDENTS], *similar]),
    )
    return await _choose_first_wave(replace(context, turn=turn), graph_context, hosts, has_new_facts=has_new_facts)


def _choose_first_hosts(context: IncidentContext, *, has_new_facts: bool) -> tuple[str, ...]:
    if context.turn.only:
        return context.hosts
    if has_new_facts:
        return tuple(dict.fromkeys((*context.hosts_in_question, *context.hosts)))
    return context.hosts_in_question


async def _choose_first_wave(
    context: IncidentContext, graph_context: GraphContext, hosts: Sequence[str], *, has_new_facts: bool
) -> PlanResult:
    """Return the checks of a guide, a recheck or news; else all passive ones."""
    if guided := plan_guided_checks(context, None, graph_context):
        return PlanResult(guided.turn, TaxonomySearch(), "taxonomy", guided.asks)
    if get_due_recheck(context) == COUNTERS_RECHECK:
        checks = list_counter_checks(context, await assess_incident(context, graph_context))
        return PlanResult(context.turn, TaxonomySearch(), "history" if checks else "done", checks)
    if is_narrow_recheck(context):
        narrow_context = replace(context, turn=replace(context.turn, narrow=True))
        return _plan_narrow_recheck(narrow_context, await assess_incident(context, graph_context))
    if has_new_facts:
        context = replace(context, turn=replace(context.turn, news=True))
        checks = list_checks_for_news(context, await assess_incident(context, graph_context))
    else:
        checks = list_first_wave(build_reference_data(graph_context, context.facts), hosts)
    if not checks:
        return await _plan_next_round(context, graph_context, rounds=1)
    return PlanResult(context.turn, TaxonomySearch(), "history", checks)


def _plan_narrow_recheck(context: IncidentContext, assessment: Assessment) -> PlanResult:
    checks = list_deciding_checks(context, assessment)
    return PlanResult(context.turn, TaxonomySearch(), "history" if checks else "done", checks)


async def _plan_next_round(context: IncidentContext, graph_context: GraphContext, rounds: int) -> PlanResult:
    """Plan the running guide's checks, else the cheapest useful ones."""
    if get_due_recheck(context) == COUNTERS_RECHECK:
        return PlanResult(context.turn, context.walk, "done")
    if rounds < MAX_ROUNDS and (guided := plan_guided_checks(context, await assess_incident(context, graph_context), graph_context)):
        return PlanResult(guided.turn, context.walk, "taxonomy", guided.asks)
    return await _plan_cheapest_look(context, graph_context, rounds)


async def _plan_cheapest_look(context: IncidentContext, graph_context: GraphContext, rounds: int) -> PlanResult:
    if context.turn.narrow:
        assessment = await assess_incident(context, graph_context)
        is_over = context.turn.cut or context.turn.again >= MAX_REPEATED_LOOKS or assessment.finding == "diagnosed"
        next_context = replace(context, turn=replace(context.turn, again=context.turn.again + 1))
        return PlanResult(context.turn, context.walk, "done") if is_over else _plan_narrow_recheck(next_context, assessment)
    context, assessment = await _read_findings(context, await assess_incident(context, graph_context), graph_context)
    turn = context.turn
    if turn.cut or rounds >= MAX_ROUNDS or (turn.news and assessment.finding != "abstained"):
        return PlanResult(turn, context.walk, "done")
    walk, visit = advance_search(context.walk, assessment)
    if visit:
        return PlanResult(turn, walk, "taxonomy", visit.asks)
    if wider_hosts := await _find_wider_hosts(context, assessment, graph_context):
        return PlanResult(
            replace(turn, hosts=fold_host_names((*context.hosts, *wider_hosts))),
            walk,
            "taxonomy",
            list_first_wave(assessment.reference, wider_hosts),
        )
    is_open_question = not (
        turn.news and context.report and context.report.outcome == "abstained"
    )  # else the earlier turn repeated its checks as often
    if (
        is_open_question
        and assessment.finding != "diagnosed"
        and turn.again < MAX_REPEATED_LOOKS
        and (answering := list_answering_hosts(assessment))
    ):
        return PlanResult(replace(turn, again=turn.again + 1), walk, "taxonomy", list_first_wave(assessment.reference, answering))
    if offers := _list_exclusive_offers(context, assessment):
        return PlanResult(turn, walk, "taxonomy", [(host, offers[0].check) for host in offers[0].hosts])
    if assessment.finding == "abstained":
        step = await explore_causes(context, assessment, graph_context)
        return PlanResult(step.turn, walk, "exploration", step.asks, step.explored)
    return PlanResult(turn, walk, "done")


def _list_exclusive_offers(context: IncidentContext, assessment: Assessment) -> list[CheckOffer]:
    """Return exclusive checks that could still decide; none in a scheduled recheck."""
    return [] if get_due_recheck(context) else rank_exclusive_offers(assessment)


async def _find_wider_hosts(context: IncidentContext, assessment: Assessment, graph_context: GraphContext) -> tuple[str, ...]:
    """Return further hosts to check; none if the report names only unknown hosts.

    In a small fleet all, as people may blame the wrong host. In a larger one the hosts named are the subject: add those
    that their errors or job name, and a few peers. `--hosts` names the subject in any fleet; a command's hosts are
    final.
    """
    if context.brief.unknown_hosts:
        return ()
    compares = assessment.finding != "diagnosed" or any(
        not belief.accused or belief.label.startswith(FABRIC_LABEL_PREFIXES) for belief in assessment.roots
    )
    if context.turn.only and (context.item.kind != "mention" or not compares):
        return ()
    if (
        not context.turn.only
        and context.hosts
        and len(context.visible) <= (MAX_EXTRA_HOSTS if context.turn.named or assessment.finding == "diagnosed" else MAX_UNNAMED_HOSTS)
    ):
        related_hosts = _find_group_hosts(context, graph_context)
    elif context.turn.only or (context.turn.named and not context.brief.job):
        related_hosts = await _find_related_hosts(context, graph_context)
        new_hosts = [host for host in related_hosts if host not in context.hosts]
        related_hosts = _find_peer_hosts(context, graph_context) if compares and not new_hosts else related_hosts
    else:
        related_hosts = await _find_related_hosts(context, graph_context, mates=True)
    return tuple(host for host in related_hosts if host not in context.hosts)


def _find_group_hosts(context: IncidentContext, graph_context: GraphContext) -> tuple[str, ...]:
    """Return the visible hosts; if people named some, those of the same groups."""
    if not context.turn.named:
        return context.visible
    inventory_hosts = graph_context.inventory.hosts
    groups = {inventory_hosts[name].group for name in context.hosts if name in inventory_hosts}
    return tuple(name for name in context.visible if inventory_hosts[name].group in groups)


def _find_peer_hosts(context: IncidentContext, graph_context: GraphContext) -> tuple[str, ...]:
    """Return a few visible hosts of the same kind, next in the inventory first; hosts already checked count."""
    kind = build_kind_lookup(graph_context.inventory)
    kinds = {kind(host) for host in context.hosts_in_question}
    hosts_in_question = set(context.hosts_in_question)
    peer_hosts = [host for host in context.visible if kind(host) in kinds]
    last = max((at for at, host in enumerate(peer_hosts) if host in hosts_in_question), default=-1)
    room = MAX_PEERS - len(set(context.hosts) - hosts_in_question)
    return tuple(host for host in (*peer_hosts[last + 1 :], *peer_hosts[: last + 1]) if host not in context.hosts)[: max(0, room)]


async def _find_related_hosts(context: IncidentContext, graph_context: GraphContext, *, mates: bool = False) -> tuple[str, ...]:
    """Return hosts that errors name, and a few or (`mates`) all of a job that runs there."""
    error_lines = "\n".join(fact.line for fact in context.facts if fact.key == "job.error" and fact.line)
    job_ids = {str(fact.attrs["job"]) for fact in context.facts if fact.host and fact.key == "proc.gpu_memory" and fact.attrs.get("job")}
    queued = {job for fact in context.facts if fact.key == "sched.running" and isinstance(fact.value, list) for job in fact.value}
    jobs = sorted(job_ids or queued)
    places = [host for job in jobs[:MAX_JOBS] for host in (await graph_context.job_place(job)).hosts]
    neighbour_hosts = [host for host in find_hosts(" ".join(places), context.visible).hosts if mates or host not in context.hosts]
    room = MAX_UNNAMED_HOSTS if mates else max(0, MAX_PEERS - len(set(context.hosts) - set(context.hosts_in_question)))
    return tuple(dict.fromkeys((*find_hosts(error_lines, context.names).hosts[:MAX_EXTRA_HOSTS], *neighbour_hosts[:room])))


def list_answering_hosts(assessment: Assessment) -> list[str]:
    answering_hosts = {
        host for host, check in assessment.coverage.asked if (host, check) not in assessment.coverage.unobserved and check != "ssh"
    }
    return [host for host in assessment.hosts if host in answering_hosts]


async def _read_findings(
    context: IncidentContext, assessment: Assessment, graph_context: GraphContext
) -> tuple[IncidentContext, Assessment]:
    """Let a model read the findings once a turn if unsure; its causes become priors only."""
    if graph_context.model is None or assessment.roots or context.turn.news or FINDINGS_QUESTION in context.turn.asked_model:
        return context, assessment
    labels = list_offered_labels(context, assessment, graph_context.taxonomy)
    if len(labels) < 2:
        return context, assessment
    findings = render_findings(assessment, (), list_corrections(context, list(labels), graph_context))
    material = await build_material(context.brief, list_logs(context), context, graph_context, findings)
    answer = await graph_context.model.extract_report(context.id, material, context.visible, labels)
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
    return context, await assess_incident(context, graph_context)


def _trim_priors(priors: Mapping[str, float]) -> dict[str, float]:
    """Keep the strongest, rounded: the state stays small."""
    top = sorted(priors.items(), key=lambda row: (-row[1], row[0]))[:MAX_PRIORS]
    return {label: round(weight, 2) for label, weight in top}


def _build_progress(context: IncidentContext, plan_result: PlanResult, graph_context: GraphContext) -> Progress:
    if context.rounds:
        return Progress(context.id, "plan", f"{len(plan_result.asks)} more looks" if plan_result.asks else "nothing left to look at")
    host_count = len(expand_host_range(plan_result.turn.hosts))
    return Progress(context.id, "plan", f"looking at {host_count} hosts", hypotheses=_list_titles(plan_result.turn.past, graph_context))


def _list_titles(labels: Sequence[str], graph_context: GraphContext) -> tuple[str, ...]:
    return tuple(graph_context.taxonomy.get_title(label) for label in labels)


def route_after_plan(state: IncidentState) -> str:
    return "execute" if state["to_look"] else "conclude"
