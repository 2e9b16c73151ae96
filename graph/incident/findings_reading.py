"""Let a model read what the checks found where rules leave something open, and run the checks that it asks for.

The causes that it names only shift priors and may be shown as likely; they never prove anything.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, cast

from graph.context import GraphContext
from graph.engine.assessment import Assessment
from graph.engine.check_selection import list_first_wave
from graph.engine.priors import compute_model_priors, sum_priors
from graph.incident.context import IncidentContext, TurnState, assess_incident
from graph.incident.likely_causes import list_offered_labels, list_ruled_out
from graph.incident.prompt_material import build_material, list_corrections, list_finding_lines
from graph.incident.questions import list_logs
from graph.incident.scheduled_recheck import get_due_recheck
from graph.model.reasoner import DeclinedAnswer, ReadingChoices, ReportExtraction, RequestedCheck
from graph.provenance.belief_shifts import build_shifts, parse_shifts, serialize_shifts
from graph.state import IncidentBrief, IncidentState
from tools.inventory.host_ranges import fold_host_names

MAX_READINGS = 3  # readings of a turn; after each but the last the checks that it asks for run
MAX_REQUESTS = 24  # (host, check) pairs of one reading
MAX_NEW_HOSTS = 16  # hosts that one reading may add
MAX_PRIORS = 12
MAX_OUTSIDE_CHARS = 240
FINDINGS_QUESTION = "read what was found"  # marks in `asked_model` that a model read the findings
VAGUE_SYMPTOM = "vague"


class FindingsReading(NamedTuple):
    """The context and assessment after a reading, and the (host, check) pairs to run next."""

    context: IncidentContext
    assessment: Assessment
    asks: Sequence[tuple[str, str]] = ()


async def read_findings(context: IncidentContext, assessment: Assessment, graph_context: GraphContext) -> FindingsReading:
    """Ask the model where no cause is proven or one leaves symptoms unexplained, and again after the checks it asked for."""
    turn = context.turn
    readings = turn.asked_model.count(FINDINGS_QUESTION)
    is_due = not readings or (turn.rereads and readings < MAX_READINGS)
    is_explained = bool(assessment.roots) and not list_unexplained_symptoms(context.brief, assessment)
    if graph_context.model is None or turn.news or turn.cut or not is_due or is_explained or not context.hosts:
        return FindingsReading(replace(context, turn=replace(turn, rereads=False)), assessment)
    labels = list_offered_labels(context, assessment, graph_context.taxonomy)
    findings = list_finding_lines(assessment, list_corrections(context, list(labels), graph_context))
    material = await build_material(context.brief, list_logs(context), context, graph_context, assessment, "\n".join(findings))
    checks = {check.id: f"{check.asks}{' (needs idle GPUs)' if check.exclusive else ''}" for check in assessment.reference.checks.values()}
    choices = ReadingChoices(context.visible, labels, list_ruled_out(assessment), checks)
    answer = await graph_context.model.extract_report(context.id, material, choices)
    turn = replace(turn, asked_model=(*turn.asked_model, FINDINGS_QUESTION), rereads=False)
    if isinstance(answer, DeclinedAnswer):
        return FindingsReading(replace(context, turn=turn.with_model_declined(answer.reason)), assessment)
    asks = [] if readings + 1 == MAX_READINGS else list_requested_checks(answer, context, assessment)
    turn = _shift_priors(turn, answer, assessment)
    if asks:
        hosts = fold_host_names(dict.fromkeys((*context.hosts, *(host for host, _ in asks))))
        turn = replace(turn, rereads=True, hosts=hosts, again=max(turn.again, 1))
    brief = _add_symptoms(context.brief, answer)
    stored = cast(IncidentState, {**context.stored, "brief": brief.model_dump(mode="json")})
    context = replace(context, turn=turn, stored=stored)
    return FindingsReading(context, await assess_incident(context, graph_context), asks)


def list_unexplained_symptoms(brief: IncidentBrief, assessment: Assessment) -> tuple[str, ...]:
    """Return the reported symptoms that no proven cause has."""
    explained = {symptom for belief in assessment.roots for symptom in belief.leaf.symptoms}
    return tuple(symptom for symptom in brief.symptoms if symptom != VAGUE_SYMPTOM and symptom not in explained)


def list_requested_checks(answer: ReportExtraction, context: IncidentContext, assessment: Assessment) -> list[tuple[str, str]]:
    """Return the (host, check) pairs that a reading asks for, on allowed hosts only.

    A pair that ran already is left out unless the reading asks to repeat it. Hosts that the reading finds and that nobody
    looked at get all passive checks. A check that needs idle GPUs runs on the incident's own hosts only, and in no scheduled
    recheck.
    """
    allowed_hosts = context.hosts if context.turn.only else tuple(dict.fromkeys((*context.hosts, *context.visible)))
    new_hosts = [host for host in answer.hosts if host in allowed_hosts and host not in context.hosts]
    new_host_checks = list_first_wave(assessment.reference, new_hosts[:MAX_NEW_HOSTS])
    exclusive_hosts = () if get_due_recheck(context) else context.hosts
    requests: list[tuple[str, str]] = []
    for look in answer.checks:
        check = assessment.reference.checks.get(look.check)
        checked_hosts = exclusive_hosts if check and check.exclusive else allowed_hosts
        hosts = [host for host in look.hosts or context.hosts if host in checked_hosts]
        requests += [(host, look.check) for host in hosts if _is_worth_asking(look, host, assessment)]
    return list(dict.fromkeys((*new_host_checks, *requests[:MAX_REQUESTS])))


def _is_worth_asking(look: RequestedCheck, host: str, assessment: Assessment) -> bool:
    return look.check in assessment.reference.checks and (look.repeat or (host, look.check) not in assessment.coverage.asked)


def _shift_priors(turn: TurnState, answer: ReportExtraction, assessment: Assessment) -> TurnState:
    """Store the reading and let its causes shift priors, in place of an earlier reading's."""
    verdicts = assessment.label_verdicts
    probabilities = dict(answer.causes)
    open_causes = {label: p for label, p in probabilities.items() if label in verdicts and verdicts[label].verdict != "rejected"}
    model_priors = compute_model_priors(open_causes)
    earlier_shifts = parse_shifts(turn.moves, turn.priors)
    earlier_reading = sum_priors(*({shift.label: -shift.weight} for shift in earlier_shifts if shift.source == "read"))
    priors = trim_priors(sum_priors(turn.priors, earlier_reading, model_priors))
    shifts = [*(shift for shift in earlier_shifts if shift.source != "read"), *build_shifts("read", model_priors)]
    return replace(
        turn,
        reading=probabilities,
        outside=answer.outside[:MAX_OUTSIDE_CHARS],
        priors=priors,
        moves=serialize_shifts(shifts, priors),
    )


def trim_priors(priors: Mapping[str, float]) -> dict[str, float]:
    """Keep the strongest priors, rounded, so that the stored state stays small."""
    strongest_labels = sorted(priors, key=lambda label: (-priors[label], label))[:MAX_PRIORS]
    return {label: round(priors[label], 2) for label in strongest_labels}


def _add_symptoms(brief: IncidentBrief, answer: ReportExtraction) -> IncidentBrief:
    """Add the symptoms of the reading where the report's own words name none."""
    named = [symptom for symptom in brief.symptoms if symptom != VAGUE_SYMPTOM]
    return brief if named or not answer.symptoms else brief.model_copy(update={"symptoms": answer.symptoms})


def get_brief_update(context: IncidentContext, earlier: IncidentBrief) -> dict[str, Any]:
    """Return the state update of a brief that a reading changed."""
    return {} if context.brief == earlier else {"brief": context.brief.model_dump(mode="json")}
