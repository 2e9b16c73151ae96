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
    if against and (knowledge.causes or knowledge.shows):
        lines.append(f"Also {format_unproven(against)}.")
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
    observed = [knowledge for knowledge in host_knowledge if not knowledge.is_unobserved]
    faulty = [knowledge for knowledge in observed if knowledge.causes]
    abnormal = [knowledge for knowledge in observed if not knowledge.causes and (knowledge.odd or knowledge.shows or knowledge.unproven)]
    rest = [knowledge for knowledge in observed if knowledge not in faulty and knowledge not in abnormal]
    partly_checked = [knowledge for knowledge in rest if not knowledge.whole]
    well = [knowledge for knowledge in rest if knowledge.whole]
    failed = [knowledge for knowledge in host_knowledge if knowledge.is_unobserved and knowledge.blind]
    unasked = [knowledge for knowledge in host_knowledge if knowledge.is_unobserved and not knowledge.blind]
    counts = [
        f"{len(faulty)} with a fault" if faulty else "",
        f"{len(abnormal)} with something to say" if abnormal else "",
        _count_well_hosts(well) if well else "",
        f"{len(partly_checked)} not wholly looked at" if partly_checked else "",
        f"{len(failed)} that could not be looked at" if failed else "",
        f"{len(unasked)} not looked at" if unasked else "",
    ]
    shown_counts = [count for count in counts if count]
    lines = render_unknown_names(context)
    if len(shown_counts) > 1:
        lines.append(f"{f'{len(hosts)} hosts: ' if len(hosts) > 1 else ''}{', '.join(shown_counts)}.")
    separate = [*faulty, *abnormal]
    lines += [f"{knowledge.host}: {render_host_summary(context, knowledge)}." for knowledge in separate[:MAX_SEPARATE_HOSTS]]
    lines += [render_not_checked(context, knowledge) for knowledge in failed[:MAX_SEPARATE_HOSTS]]
    if len(failed) > MAX_SEPARATE_HOSTS:
        lines.append(f"{_fold_hosts(failed[MAX_SEPARATE_HOSTS:])}: could not be looked at either.")
    if len(separate) > MAX_SEPARATE_HOSTS:
        lines.append(f"… and {len(separate) - MAX_SEPARATE_HOSTS} more.")
    lines += [f"{_fold_hosts(group)}: {render_host_summary(context, group[0])}." for group in (well, partly_checked) if group]
    if unasked:
        lines.append(f"{_fold_hosts(unasked)}: not looked at. Say `recheck {_fold_hosts(unasked)}`.")
    lines += [f"{knowledge.host}: {format_unproven(knowledge.unproven)}." for knowledge in unasked if knowledge.unproven][
        :MAX_SEPARATE_HOSTS
    ]
    return build_answer(context, [*lines, render_recheck_offer(context, [knowledge.host for knowledge in observed])])


def _fold_hosts(host_knowledge: Sequence[HostKnowledge]) -> str:
    return fold_host_names([knowledge.host for knowledge in host_knowledge])
