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


def render_not_checked(context: AnswerContext, known: HostKnowledge) -> str:
    """Return why nothing is known of a host, with the offer to check."""
    if known.blind:
        reason, causes = (
            known.blind[0][1],
            "".join(f"{context.get_title(row.label)}, {format_confidence(row)}; " for row in known.causes[:1]),
        )
        attempt = f"tried {format_age(known.read, context.current_time)}"
        return (
            f"{known.host}: {causes}could not be looked at ({clean_text(reason, 80)}), {attempt}. Say `recheck {known.host}` to try again."
        )
    return f"{known.host}: not looked at. Say `recheck {known.host}` and I look."


def _render_host_details(context: AnswerContext, known: HostKnowledge) -> list[str]:
    lines = [f"{known.host}: {render_host_summary(context, known, quoted_below=True)}."]
    if known.causes or known.shows:
        lines += [f"Also {format_unproven(against)}."] if (against := (*known.unproven, *known.unplaced)) else []
    if any(row.reported for row in (*known.unproven, *known.unplaced)):
        lines.append(CLEARED)
    device = context.message.device
    for row in (*known.causes, *known.shows)[:2]:
        own = [line for line in row.evidence if line.host in (known.host, "")]
        lines += [render_evidence(context, line) for line in own[:MAX_QUOTES]]
    if not known.causes and not known.shows:
        odd = [fact for fact in known.odd if not device or fact.device in (device, None, "")] or list(known.odd)
        lines += [render_fact(context, fact) for fact in odd[:MAX_QUOTES]]
    if known.blind:
        lines.append(f"Could not look with {', '.join(check for check, _ in known.blind[:6])}: {clean_text(known.blind[0][1], 80)}.")
    return lines


def render_host_summary(context: AnswerContext, known: HostKnowledge, *, quoted_below: bool = False) -> str:
    """Summarize a host in a clause; cite evidence unless it is quoted below."""
    coverage, cite = render_coverage(context, known), (lambda row: "") if quoted_below else render_citation
    if known.causes:
        causes = "; ".join(
            f"{context.get_title(row.label)} ({format_location(row)}), {format_confidence(row)}{cite(row)}" for row in known.causes[:2]
        )
        return f"{causes}; {coverage}"
    if known.shows:
        return f"{coverage}, nothing wrong with the machine itself; it shows {context.get_title(known.shows[0].label)}, {format_confidence(known.shows[0])}{cite(known.shows[0])}"
    but = f"; but {format_unproven(against)}" if (against := (*known.unproven, *known.unplaced)) else ""
    if known.odd:
        return f"{coverage}: something is abnormal and no cause is proven {'' if quoted_below else f' ({render_basis(known.odd)})'}{but}"
    if not known.whole:
        return f"{coverage}: {PARTLY_CHECKED_TEXT}{but}"
    return f"{coverage}, {NOTHING_READ}{but}" if but else f"{coverage}, nothing abnormal"


def _answer_hosts(context: AnswerContext, hosts: Sequence[str]) -> TurnResult:
    if not hosts:
        nothing = "" if context.message.unknown_hosts else "I have checked no host yet. Name hosts, for example `recheck gpu-[001-004]`."
        return build_answer(context, [*render_unknown_names(context), nothing or "I looked at nothing."])
    host_knowledge = [build_host_knowledge(context, host) for host in hosts]
    sick = [row for row in host_knowledge if row.causes and not row.is_unobserved]
    odd = [row for row in host_knowledge if not row.causes and (row.odd or row.shows or row.unproven) and not row.is_unobserved]
    rest = [row for row in host_knowledge if row not in sick and row not in odd and not row.is_unobserved]
    partly, well = [row for row in rest if not row.whole], [row for row in rest if row.whole]
    dark = [row for row in host_knowledge if row.is_unobserved]
    head = f"{len(hosts)} hosts: " if len(hosts) > 1 else ""
    parts = [
        f"{len(sick)} with a fault" if sick else "",
        f"{len(odd)} with something to say" if odd else "",
        f"{len(well)} {'without a finding of their own' if well[0].unplaced else 'well'}" if well else "",
    ]
    shut, dark = [row for row in dark if row.blind], [row for row in dark if not row.blind]
    parts += [f"{len(partly)} not wholly looked at" if partly else ""]
    parts += [f"{len(shut)} that could not be looked at" if shut else "", f"{len(dark)} not looked at" if dark else ""]
    lines = [f"{head}{', '.join(filter(None, parts))}."] if len(list(filter(None, parts))) > 1 else []
    lines += [f"{row.host}: {render_host_summary(context, row)}." for row in (*sick, *odd)[:MAX_SEPARATE_HOSTS]]
    lines += [render_not_checked(context, row) for row in shut[:MAX_SEPARATE_HOSTS]]
    lines += (
        [f"{fold_host_names([row.host for row in shut[MAX_SEPARATE_HOSTS:]])}: could not be looked at either."]
        if len(shut) > MAX_SEPARATE_HOSTS
        else []
    )
    lines += [f"… and {len(sick) + len(odd) - MAX_SEPARATE_HOSTS} more."] if len(sick) + len(odd) > MAX_SEPARATE_HOSTS else []
    lines += [f"{fold_host_names([row.host for row in well])}: {render_host_summary(context, well[0])}."] if well else []
    lines += [f"{fold_host_names([row.host for row in partly])}: {render_host_summary(context, partly[0])}."] if partly else []
    lines += (
        [f"{fold_host_names([row.host for row in dark])}: not looked at. Say `recheck {fold_host_names([row.host for row in dark])}`."]
        if dark
        else []
    )
    lines += [f"{row.host}: {format_unproven(row.unproven)}." for row in dark if row.unproven][:MAX_SEPARATE_HOSTS]
    return build_answer(
        context,
        [
            *render_unknown_names(context),
            *lines,
            render_recheck_offer(context, [row.host for row in host_knowledge if not row.is_unobserved]),
        ],
    )
