"""Second node: choose the next checks in three tiers: similar incidents, the taxonomy, exploration.

The first round runs all passive checks; the taxonomy search then asks for missing ones, exclusive checks come last, and
finally the reporter is asked.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from langgraph.runtime import Runtime

from graph.context import GraphContext, Progress, SimilarIncident
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
from graph.incident.findings_reading import get_brief_update, read_findings, trim_priors
from graph.incident.guides import lacks_requested_guide, plan_guided_checks
from graph.incident.narrow_recheck import is_narrow_recheck, list_deciding_checks
from graph.incident.news_turns import brings_new_facts, list_checks_for_news
from graph.incident.questions import build_hosts_question
from graph.incident.scheduled_recheck import get_due_recheck, list_counter_checks
from graph.learning.lesson_recall import merge_recalled_lessons
from graph.learning.site_notes import find_page_hints
from graph.provenance.belief_shifts import BeliefShift, ShiftSource, build_shifts, serialize_shifts
from graph.state import COUNTERS_RECHECK, IncidentState, Tier
from kb.history.mistakes import compute_note_weights
from tools.inventory.host_ranges import expand_host_range, fold_host_names

MAX_ROUNDS = 10
MAX_EXTRA_HOSTS = 16  # hosts added once a cause is known
MAX_JOBS = 2  # jobs that are located
MAX_PEERS = 3  # peers for comparison in a large fleet
MAX_PAST_INCIDENTS = 60  # similar incidents requested
MAX_CLOSEST_INCIDENTS = 2  # closest incidents whose lessons are recalled regardless of their label

# causes of a possibly fabric-wide kind, which one host cannot settle
FABRIC_LABEL_PREFIXES = ("INTERCONNECT.IB.", "INTERCONNECT.ROCE.", "INTERCONNECT.ETH.", "INTERCONNECT.SWITCH.")
MAX_REPEATED_LOOKS = 2  # a fault visible in one of three observations is found in three; only then "no fault"


@dataclass(frozen=True, slots=True)
class PlanResult:
    """The next checks, if any, and the turn and search state."""

    turn: TurnState
    walk: TaxonomySearch
    tier: Tier
    asks: Sequence[tuple[str, str]] = ()
    update: Mapping[str, Any] = field(default_factory=dict)  # of the stored state: a model's symptoms and ideas


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
    return {**update, **chosen.update}


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
    similar_incidents: Sequence[SimilarIncident] = []
    if context.brief.text:
        similar_incidents = await graph_context.history.find_similar(context.brief.text, MAX_PAST_INCIDENTS, context.audience_tenant)
    telling_incidents = select_telling_incidents(similar_incidents, compute_word_priors(graph_context.taxonomy, context.brief))
    decidable_labels = graph_context.taxonomy.decidable.leaves
    past_labels = [(past.label, past.score) for past in telling_incidents if past.label in decidable_labels]
    source_weights = _compute_source_weights(context, graph_context, past_labels)
    priors = trim_priors(sum_priors(*source_weights.values()))
    shifts: list[BeliefShift] = []
    for source, weights in source_weights.items():
        shifts += build_shifts(source, weights)
    turn = replace(
        context.turn,
        hosts=fold_host_names(hosts),
        named=bool(context.brief.hosts),
        past=tuple(label for label, _ in past_labels),
        priors=priors,
        moves=serialize_shifts(shifts, priors),
        recalled=merge_recalled_lessons(context.turn.recalled, [*similar_incidents[:MAX_CLOSEST_INCIDENTS], *telling_incidents]),
    )
    return await _choose_first_wave(replace(context, turn=turn), graph_context, hosts, has_new_facts=has_new_facts)


def _compute_source_weights(
    context: IncidentContext, graph_context: GraphContext, past_labels: Sequence[tuple[str, float]]
) -> dict[ShiftSource, Mapping[str, float]]:
    """Return each source's log-odds by label, before any check has run."""
    decidable_taxonomy = graph_context.taxonomy.decidable
    page_hints = [
        (label, score) for label, score in find_page_hints(graph_context.pages, context.brief.text) if label in decidable_taxonomy.leaves
    ]
    source_weights: dict[ShiftSource, Mapping[str, float]] = {
        "words": compute_word_priors(decidable_taxonomy, context.brief),
        "history": compute_past_priors([*past_labels, *page_hints]),
        "read": compute_model_priors(context.turn.reading),
    }
    suggested_causes = sum_priors(*source_weights.values())
    mistakes = graph_context.mistakes(context.audience_tenant)
    source_weights["mistakes"] = compute_note_weights(suggested_causes, mistakes, decidable_taxonomy.leaves)
    return source_weights


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


def _repeat_narrow_recheck(context: IncidentContext, assessment: Assessment) -> PlanResult:
    if context.turn.cut or context.turn.again >= MAX_REPEATED_LOOKS or assessment.finding == "diagnosed":
        return PlanResult(context.turn, context.walk, "done")
    next_turn = replace(context.turn, again=context.turn.again + 1)
    return _plan_narrow_recheck(replace(context, turn=next_turn), assessment)


async def _plan_next_round(context: IncidentContext, graph_context: GraphContext, rounds: int) -> PlanResult:
    """Plan the running guide's checks, else the cheapest useful ones."""
    if get_due_recheck(context) == COUNTERS_RECHECK:
        return PlanResult(context.turn, context.walk, "done")
    if rounds < MAX_ROUNDS and (guided := plan_guided_checks(context, await assess_incident(context, graph_context), graph_context)):
        return PlanResult(guided.turn, context.walk, "taxonomy", guided.asks)
    return await _plan_cheapest_check(context, graph_context, rounds)


async def _plan_cheapest_check(context: IncidentContext, graph_context: GraphContext, rounds: int) -> PlanResult:
    """Plan the first that applies: taxonomy search, further hosts, a repetition, and what else may decide."""
    assessment = await assess_incident(context, graph_context)
    if context.turn.narrow:
        return _repeat_narrow_recheck(context, assessment)
    turn = context.turn
    if turn.cut or rounds >= MAX_ROUNDS or (turn.news and assessment.finding != "abstained"):
        return PlanResult(turn, context.walk, "done")
    walk, visit = advance_search(context.walk, assessment)
    if visit:
        return PlanResult(turn, walk, "taxonomy", visit.asks)
    if wider_hosts := await _find_wider_hosts(context, assessment, graph_context):
        turn = replace(turn, hosts=fold_host_names((*context.hosts, *wider_hosts)))
        return PlanResult(turn, walk, "taxonomy", list_first_wave(assessment.reference, wider_hosts))
    answering_hosts = list_answering_hosts(assessment)
    if answering_hosts and _may_repeat_checks(context, assessment):
        return PlanResult(replace(turn, again=turn.again + 1), walk, "taxonomy", list_first_wave(assessment.reference, answering_hosts))
    return await _plan_undecided(context, assessment, walk, graph_context)


async def _plan_undecided(
    context: IncidentContext, assessment: Assessment, walk: TaxonomySearch, graph_context: GraphContext
) -> PlanResult:
    """Plan what may decide where all passive checks have run: a model's checks, exclusive checks, exploration."""
    earlier_brief = context.brief
    context, assessment, asks = await read_findings(context, assessment, graph_context)
    turn, update = context.turn, get_brief_update(context, earlier_brief)
    if asks:
        return PlanResult(turn, walk, "exploration", asks, update=update)
    if offers := _list_exclusive_offers(context, assessment):
        return PlanResult(turn, walk, "taxonomy", [(host, offers[0].check) for host in offers[0].hosts], update=update)
    if assessment.finding == "abstained":
        step = await explore_causes(context, assessment, graph_context)
        if step.explored != context.exploration:
            update |= {"explored": step.explored.model_dump(mode="json", exclude_defaults=True)}
        return PlanResult(step.turn, walk, "exploration", step.asks, update)
    return PlanResult(turn, walk, "done", update=update)


def _may_repeat_checks(context: IncidentContext, assessment: Assessment) -> bool:
    """Return whether a repetition may show an intermittent fault."""
    if assessment.finding == "diagnosed" or context.turn.again >= MAX_REPEATED_LOOKS:
        return False
    # After an abstention the earlier turn has already repeated its checks this often.
    return not (context.turn.news and context.report and context.report.outcome == "abstained")


def _list_exclusive_offers(context: IncidentContext, assessment: Assessment) -> list[CheckOffer]:
    """Return exclusive checks that could still decide; none in a scheduled recheck."""
    return [] if get_due_recheck(context) else rank_exclusive_offers(assessment)


async def _find_wider_hosts(context: IncidentContext, assessment: Assessment, graph_context: GraphContext) -> tuple[str, ...]:
    """Return further hosts to check; none if the report names only unknown hosts.

    In a small fleet these are all hosts, as people may blame the wrong one. In a larger one the hosts named are the subject:
    add those that their errors or job name, and a few peers. `--hosts` names the subject in any fleet; a command's hosts
    are final.
    """
    if context.brief.unknown_hosts:
        return ()
    needs_peers = assessment.finding != "diagnosed" or any(
        not belief.accused or belief.label.startswith(FABRIC_LABEL_PREFIXES) for belief in assessment.roots
    )
    if context.turn.only and (context.item.kind != "mention" or not needs_peers):
        return ()
    is_subject_known = context.turn.named or assessment.finding == "diagnosed"
    max_fleet_hosts = MAX_EXTRA_HOSTS if is_subject_known else MAX_UNNAMED_HOSTS
    if not context.turn.only and context.hosts and len(context.visible) <= max_fleet_hosts:
        related_hosts = _find_group_hosts(context, graph_context)
    elif context.turn.only or (context.turn.named and not context.brief.job):
        related_hosts = await _find_related_hosts(context, graph_context)
        if needs_peers and all(host in context.hosts for host in related_hosts):
            related_hosts = _find_peer_hosts(context, graph_context)
    else:
        related_hosts = await _find_related_hosts(context, graph_context, whole_job=True)
    return tuple(host for host in related_hosts if host not in context.hosts)


def _find_group_hosts(context: IncidentContext, graph_context: GraphContext) -> tuple[str, ...]:
    """Return the visible hosts, limited to the groups of the hosts that people named, if any."""
    if not context.turn.named:
        return context.visible
    inventory_hosts = graph_context.inventory.hosts
    groups = {inventory_hosts[name].group for name in context.hosts if name in inventory_hosts}
    return tuple(name for name in context.visible if inventory_hosts[name].group in groups)


def _find_peer_hosts(context: IncidentContext, graph_context: GraphContext) -> tuple[str, ...]:
    """Return up to `MAX_PEERS` visible hosts of the same kind, less the peers already checked.

    Hosts that follow the hosts in question in the inventory come first.
    """
    get_kind = build_kind_lookup(graph_context.inventory)
    kinds = {get_kind(host) for host in context.hosts_in_question}
    hosts_in_question = set(context.hosts_in_question)
    hosts_of_kind = [host for host in context.visible if get_kind(host) in kinds]
    start = max((index + 1 for index, host in enumerate(hosts_of_kind) if host in hosts_in_question), default=0)
    rotated_hosts = (*hosts_of_kind[start:], *hosts_of_kind[:start])
    unchecked_hosts = [host for host in rotated_hosts if host not in context.hosts]
    return tuple(unchecked_hosts[: _count_missing_peers(context)])


def _count_missing_peers(context: IncidentContext) -> int:
    checked_peers = set(context.hosts) - set(context.hosts_in_question)
    return max(0, MAX_PEERS - len(checked_peers))


async def _find_related_hosts(context: IncidentContext, graph_context: GraphContext, *, whole_job: bool = False) -> tuple[str, ...]:
    """Return hosts that errors name, and a few hosts of the job that runs there, or all of them with `whole_job`."""
    error_lines = "\n".join(fact.line for fact in context.facts if fact.key == "job.error" and fact.line)
    hosts_in_errors = find_hosts(error_lines, context.names).hosts[:MAX_EXTRA_HOSTS]
    placed_hosts: list[str] = []
    for job in _list_running_jobs(context)[:MAX_JOBS]:
        placed_hosts += (await graph_context.job_place(job)).hosts
    job_hosts = find_hosts(" ".join(placed_hosts), context.visible).hosts
    if whole_job:
        return tuple(dict.fromkeys((*hosts_in_errors, *job_hosts[:MAX_UNNAMED_HOSTS])))
    new_job_hosts = [host for host in job_hosts if host not in context.hosts]
    return tuple(dict.fromkeys((*hosts_in_errors, *new_job_hosts[: _count_missing_peers(context)])))


def _list_running_jobs(context: IncidentContext) -> list[str]:
    """Return the jobs whose processes hold GPU memory, else those that the scheduler reports as running."""
    jobs_on_gpus: set[str] = set()
    scheduled_jobs: set[str] = set()
    for fact in context.facts:
        if fact.key == "proc.gpu_memory" and fact.host and fact.attrs.get("job"):
            jobs_on_gpus.add(str(fact.attrs["job"]))
        elif fact.key == "sched.running" and isinstance(fact.value, list):
            scheduled_jobs.update(fact.value)
    return sorted(jobs_on_gpus or scheduled_jobs)


def list_answering_hosts(assessment: Assessment) -> list[str]:
    """Return the hosts on which at least one check besides `ssh` could look."""
    answering_hosts = {
        host for host, check in assessment.coverage.asked if (host, check) not in assessment.coverage.unobserved and check != "ssh"
    }
    return [host for host in assessment.hosts if host in answering_hosts]


def _build_progress(context: IncidentContext, plan_result: PlanResult, graph_context: GraphContext) -> Progress:
    if context.rounds:
        return Progress(context.id, "plan", f"{len(plan_result.asks)} more looks" if plan_result.asks else "nothing left to look at")
    host_count = len(expand_host_range(plan_result.turn.hosts))
    return Progress(context.id, "plan", f"looking at {host_count} hosts", hypotheses=_list_titles(plan_result.turn.past, graph_context))


def _list_titles(labels: Sequence[str], graph_context: GraphContext) -> tuple[str, ...]:
    return tuple(graph_context.taxonomy.get_title(label) for label in labels)


def route_after_plan(state: IncidentState) -> str:
    return "execute" if state["to_look"] else "conclude"
