"""Answer how hosts are, with coverage and age of the reading; unobserved hosts are named."""

from collections.abc import Sequence

from graph.incident.answers.answer_context import (
    AnswerContext,
    HostKnowledge,
    build_answer,
    build_host_knowledge,
    clean_text,
    format_age,
    format_confidence,
    format_location,
    render_basis,
    render_citation,
    render_coverage,
    render_evidence,
    render_fact,
    render_recheck_offer,
    render_unknown_names,
    resolve_target_hosts,
)
from graph.incident.answers.unproven import CLEARED, format_unproven
from graph.incident.turn_result import TurnResult
from tools.inventory.host_ranges import fold_host_names

MAX_QUOTES = 3
MAX_SEPARATE_HOSTS = 5
NOTHING_READ = "nothing abnormal in what I read"
PARTLY_CHECKED_TEXT = "nothing abnormal in the checks that ran, but some could not run"


async def answer_host_state(context: AnswerContext) -> TurnResult:
    """Answer one host in detail, several in a line each."""
    hosts = resolve_target_hosts(context).hosts
    if len(hosts) != 1:
        return _answer_hosts(context, hosts)
    host_knowledge = build_host_knowledge(context, hosts[0])
    if host_knowledge.is_unobserved:
        against = format_unproven((*host_knowledge.unproven, *host_knowledge.unplaced))
        return build_answer(
            context,
            [
                *render_unknown_names(context),
                render_not_checked(context, host_knowledge),
                f"{host_knowledge.host}: {against}." if against else "",
            ],
        )
    return build_answer(
        context, [*render_unknown_names(context), *_render_host_details(context, host_knowledge), render_recheck_offer(context, hosts)]
    )


async def answer_group_state(context: AnswerContext) -> TurnResult:
    """Answer for several hosts, those with findings first."""
    return _answer_hosts(context, resolve_target_hosts(context).hosts)


def render_not_checked(context: AnswerContext, knowledge: HostKnowledge) -> str:
    """Return why nothing is known of a host, with the offer to check."""
    if knowledge.blind:
        reason = knowledge.blind[0][1]
        causes = next((f"{context.get_title(cause.label)}, {format_confidence(cause)}; " for cause in knowledge.causes), "")
        attempt = f"tried {format_age(knowledge.read, context.current_time)}"
        return f"{knowledge.host}: {causes}could not be looked at ({clean_text(reason, 80)}), {attempt}. Say `recheck {knowledge.host}` to try again."
    return f"{knowledge.host}: not looked at. Say `recheck {knowledge.host}` and I look."


def _render_host_details(context: AnswerContext, knowledge: HostKnowledge) -> list[str]:
    lines = [f"{knowledge.host}: {render_host_summary(context, knowledge, quoted_below=True)}."]
    against = (*knowledge.unproven, *knowledge.unplaced)
    if knowledge.causes or knowledge.shows:
        lines += [f"Also {format_unproven(against)}."] if against else []
    if any(claim.reported for claim in against):
        lines.append(CLEARED)
    device = context.message.device
    for cause in (*knowledge.causes, *knowledge.shows)[:2]:
        own_evidence = [line for line in cause.evidence if line.host in (knowledge.host, "")]
        lines += [render_evidence(context, line) for line in own_evidence[:MAX_QUOTES]]
    if not knowledge.causes and not knowledge.shows:
        abnormal_facts = [fact for fact in knowledge.odd if not device or fact.device in (device, None, "")] or list(knowledge.odd)
        lines += [render_fact(context, fact) for fact in abnormal_facts[:MAX_QUOTES]]
    if knowledge.blind:
        lines.append(
            f"Could not look with {', '.join(check for check, _ in knowledge.blind[:6])}: {clean_text(knowledge.blind[0][1], 80)}."
        )
    return lines


def render_host_summary(context: AnswerContext, knowledge: HostKnowledge, *, quoted_below: bool = False) -> str:
    """Summarize a host in a clause; cite evidence unless it is quoted below."""
    coverage, cite = render_coverage(context, knowledge), (lambda row: "") if quoted_below else render_citation
    if knowledge.causes:
        causes = "; ".join(
            f"{context.get_title(cause.label)} ({format_location(cause)}), {format_confidence(cause)}{cite(cause)}"
            for cause in knowledge.causes[:2]
        )
        return f"{causes}; {coverage}"
    if knowledge.shows:
        cause = knowledge.shows[0]
        shown_cause = f"{context.get_title(cause.label)}, {format_confidence(cause)}{cite(cause)}"
        return f"{coverage}, nothing wrong with the machine itself; it shows {shown_cause}"
    against = (*knowledge.unproven, *knowledge.unplaced)
    but = f"; but {format_unproven(against)}" if against else ""
    if knowledge.odd:
        return (
            f"{coverage}: something is abnormal and no cause is proven {'' if quoted_below else f' ({render_basis(knowledge.odd)})'}{but}"
        )
    if not knowledge.whole:
        return f"{coverage}: {PARTLY_CHECKED_TEXT}{but}"
    return f"{coverage}, {NOTHING_READ}{but}" if but else f"{coverage}, nothing abnormal"


def _count_well_hosts(well: Sequence[HostKnowledge]) -> str:
    return f"{len(well)} {'without a finding of their own' if well[0].unplaced else 'well'}"


def _answer_hosts(context: AnswerContext, hosts: Sequence[str]) -> TurnResult:
    if not hosts:
        nothing = "" if context.message.unknown_hosts else "I have checked no host yet. Name hosts, for example `recheck gpu-[001-004]`."
        return build_answer(context, [*render_unknown_names(context), nothing or "I looked at nothing."])
    host_knowledge = [build_host_knowledge(context, host) for host in hosts]
    sick = [knowledge for knowledge in host_knowledge if knowledge.causes and not knowledge.is_unobserved]
    odd = [
        knowledge
        for knowledge in host_knowledge
        if not knowledge.causes and (knowledge.odd or knowledge.shows or knowledge.unproven) and not knowledge.is_unobserved
    ]
    rest = [knowledge for knowledge in host_knowledge if knowledge not in sick and knowledge not in odd and not knowledge.is_unobserved]
    partly, well = [knowledge for knowledge in rest if not knowledge.whole], [knowledge for knowledge in rest if knowledge.whole]
    dark = [knowledge for knowledge in host_knowledge if knowledge.is_unobserved]
    head = f"{len(hosts)} hosts: " if len(hosts) > 1 else ""
    parts = [
        f"{len(sick)} with a fault" if sick else "",
        f"{len(odd)} with something to say" if odd else "",
        _count_well_hosts(well) if well else "",
    ]
    shut, dark = [knowledge for knowledge in dark if knowledge.blind], [knowledge for knowledge in dark if not knowledge.blind]
    parts += [f"{len(partly)} not wholly looked at" if partly else ""]
    parts += [f"{len(shut)} that could not be looked at" if shut else "", f"{len(dark)} not looked at" if dark else ""]
    lines = [f"{head}{', '.join(filter(None, parts))}."] if len(list(filter(None, parts))) > 1 else []
    lines += [f"{knowledge.host}: {render_host_summary(context, knowledge)}." for knowledge in (*sick, *odd)[:MAX_SEPARATE_HOSTS]]
    lines += [render_not_checked(context, knowledge) for knowledge in shut[:MAX_SEPARATE_HOSTS]]
    lines += (
        [f"{fold_host_names([knowledge.host for knowledge in shut[MAX_SEPARATE_HOSTS:]])}: could not be looked at either."]
        if len(shut) > MAX_SEPARATE_HOSTS
        else []
    )
    lines += [f"… and {len(sick) + len(odd) - MAX_SEPARATE_HOSTS} more."] if len(sick) + len(odd) > MAX_SEPARATE_HOSTS else []
    lines += [f"{fold_host_names([knowledge.host for knowledge in well])}: {render_host_summary(context, well[0])}."] if well else []
    lines += [f"{fold_host_names([knowledge.host for knowledge in partly])}: {render_host_summary(context, partly[0])}."] if partly else []
    lines += (
        [
            f"{fold_host_names([knowledge.host for knowledge in dark])}: not looked at. Say `recheck {fold_host_names([knowledge.host for knowledge in dark])}`."
        ]
        if dark
        else []
    )
    lines += [f"{knowledge.host}: {format_unproven(knowledge.unproven)}." for knowledge in dark if knowledge.unproven][:MAX_SEPARATE_HOSTS]
    return build_answer(
        context,
        [
            *render_unknown_names(context),
            *lines,
            render_recheck_offer(context, [knowledge.host for knowledge in host_knowledge if not knowledge.is_unobserved]),
        ],
    )
