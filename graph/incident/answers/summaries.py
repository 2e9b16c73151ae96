"""Summaries of the incident, help, what RackMedic is and sees, and small talk. Pure."""

from collections.abc import Sequence
from dataclasses import replace

from graph.dialogue.intents import INTENTS, Intent, describe_intent
from graph.extraction import report_texts
from graph.incident.answers.answer_context import (
    AnswerContext,
    build_answer,
    format_age,
    format_confidence,
    format_location,
    get_read_time,
    render_basis,
    render_citation,
    render_counter_evidence,
    render_evidence,
    render_recheck_offer,
)
from graph.incident.answers.next_steps import list_pending_approvals
from graph.incident.answers.people import get_owner, render_pending_approvals, render_step_summary
from graph.incident.answers.reasons import list_doubts
from graph.incident.turn_result import TurnResult
from graph.remediation.drained_nodes import list_drained_nodes
from graph.remediation.outcomes import describe_remediation
from graph.state import Remediation
from tools.inventory.host_ranges import fold_host_names

WORDS_APPROVE_NOTHING = "Use the Approve button"

# intents listed by help in a thread; the documentation has the rest
HELP_INTENTS = (
    Intent.HOST_STATE, Intent.SHOW_OUTPUT, Intent.SHOW_PICTURE, Intent.EXPLAIN, Intent.WHY_NOT, Intent.COMPARE, Intent.WHAT_NOW, Intent.ON_APPROVE,
    Intent.SUMMARY, Intent.RECHECK, Intent.RUN_CHECK, Intent.WISH_REMEDY, Intent.HAND_OFF, Intent.CLOSE,
)  # fmt: skip


async def answer_summary(context: AnswerContext) -> TurnResult:
    """Answer with a ticket summary, or by default five plain lines for a manager."""
    return _summarize_for_ticket(context) if context.message.audience == "ticket" else _summarize_for_manager(context)


async def answer_report(context: AnswerContext) -> TurnResult:
    """Answer that the post-incident report follows as a file; the bot writes it."""
    answer = build_answer(context, ["The post-incident report: first the page, then its appendix, as a file."])
    return replace(answer, report=answer.report.model_copy(update={"page": True}))


def _summarize_for_manager(context: AnswerContext) -> TurnResult:
    case, roots, taxonomy = context.case, context.root_causes, context.now.reference.taxonomy
    if roots:
        machines = fold_host_names(context.faulty_hosts) if context.faulty_hosts else "not a host fault"
        cause_line = f"What: {taxonomy.get_leaf(roots[0].label).customer_words or context.get_title(roots[0].label)}"
        more = (
            f" Also: {', '.join(f'{context.get_title(row.label)}{render_citation(row)}' for row in roots[1:3])}." if len(roots) > 1 else ""
        )
        lines = [
            cause_line + more,
            f"Where: {machines}; {len(context.observed_hosts)} machines looked at, {format_confidence(roots[0])}{render_citation(roots[0])}.",
        ]
    elif mended := _list_proven_remediations(context):
        labels = list(dict.fromkeys(row.label for row in mended))
        cause_text = "; ".join(taxonomy.get_leaf(label).customer_words or context.get_title(label) for label in labels[:3])
        lines = [f"What: {cause_text}", f"Where: {_format_targets(mended)}; fixed and verified."]
    elif case.report and case.report.outcome == "no_fault":
        lines = [f"What: no fault was found on {fold_host_names(context.observed_hosts)} ({report_texts.format_coverage(case.stats)})."]
    else:
        lines = [f"What: the cause is not known yet; {len(context.observed_hosts)} machines were looked at."]
    owner = get_owner(context)
    return build_answer(
        context,
        [
            *lines,
            f"Since: reported {case.opened:%H:%M} UTC, {format_age(case.opened, context.current_time)}.",
            f"State: {_render_open_work(context)}",
            f"Who: {owner or 'nobody'} is on it.",
        ],
    )


def _list_proven_remediations(context: AnswerContext) -> list[Remediation]:
    """Return proven remediations: their causes no longer show, but were the incident."""
    return [row for row in context.case.remediations if row.proven and row.label in context.now.reference.taxonomy.leaves]


def _format_targets(rows: Sequence[Remediation]) -> str:
    return fold_host_names(tuple(dict.fromkeys(host for row in rows for host in row.target.split(","))))


def _render_status(context: AnswerContext) -> str:
    life = context.case.lifecycle
    return "closed." if life == "closed" else f"{life.replace('_', ' ')}; {_render_open_work(context)}"


def _render_open_work(context: AnswerContext) -> str:
    case = context.case
    if case.lifecycle == "closed":
        return "closed."
    if approvals := list_pending_approvals(context):
        return f"a fix waits for approval ({render_step_summary(approvals[0])})."
    going = [row for row in case.remediations if row.is_open]
    if going:
        return f"{describe_remediation(going[0], context.get_title(going[0].label))}."
    if case.report and case.report.questions:
        return "waiting for an answer to my questions."
    step = case.report.next_step if case.report else ""
    return f"next: {step}" if step else "nothing is open."


def _summarize_for_ticket(context: AnswerContext) -> TurnResult:
    case, now, report = context.case, context.now, context.case.report
    lines = [f"Incident {case.id}, opened {case.opened:%Y-%m-%d %H:%M} UTC, {case.lifecycle.replace('_', ' ')}"]
    report_text = " ".join(case.brief.text.split())
    lines.append(f"Reported: {report_text[:240]}{'…' if len(report_text) > 240 else ''}" if report_text else "Reported: (no words)")
    lines.append(
        f"Hosts looked at: {fold_host_names(context.observed_hosts) or 'none'}" + (f"; job {case.brief.job}" if case.brief.job else "")
    )
    for row in context.root_causes[:3]:
        lines.append(f"Cause: {context.get_title(row.label)} ({format_location(row)}), {format_confidence(row)}")
        lines += [render_evidence(context, line) for line in row.evidence[:2]]
    mended = [] if context.root_causes else _list_proven_remediations(context)
    lines += [f"Cause: {context.get_title(row.label)} ({row.target}), fixed" for row in mended[:3]]
    if not context.root_causes and not mended:
        lines.append("Cause: none proven" + (f"; {list_doubts(context)[0][:160]}" if now.why_unsure else ""))
    out = [f"{context.get_title(row.label)} ({render_counter_evidence(context, row.label)})" for row in now.list_ruled_out(3)]
    lines += [f"Ruled out: {', '.join(out)}"] if out else []
    unobserved = now.list_unobserved()
    lines += [f"Could not look: {', '.join(f'{row.check} on {row.host}' for row in unobserved[:4])}"] if unobserved else []
    lines += [f"Fix: {describe_remediation(row, context.get_title(row.label))}" for row in case.remediations[:3]]
    lines += [f"Next: {report.next_step}"] if report and report.next_step else []
    return build_answer(context, [*lines, f"On it: {get_owner(context) or 'nobody'}"], most=20)


async def answer_status(context: AnswerContext) -> TurnResult:
    """Answer with findings, pending work and coverage."""
    case, causes, title = context.case, context.root_causes, context.get_title
    mended = [] if causes else [f"{title(row.label)} ({row.target}) is fixed" for row in _list_proven_remediations(context)[:3]]
    cause_text = "; ".join(
        mended or [f"{title(row.label)} ({format_location(row)}), {format_confidence(row)}{render_citation(row)}" for row in causes[:3]]
    ) or ("I found no fault" if case.report and case.report.outcome == "no_fault" else "I have proven no cause so far")
    likely = [] if causes else context.now.suspects[:2]
    suspects = [f"{row.leaf.title} is likely and unproven ({render_basis(match.fact for match in row.support)})" for row in likely]
    lines = [f"{'; '.join([cause_text, *suspects])}.", f"State: {_render_status(context)}"]
    lines += [f"• {describe_remediation(row, title(row.label))}" for row in case.remediations if row.is_open][:3]
    lines += [f"Held: {line.render_line(title(line.label))}" for line in list_drained_nodes(case.remediations)[:3]]
    ticket, owner = case.ticket, get_owner(context)
    lines += [f"Ticket: {ticket.state}{f', taken by {ticket.taken_by}' if ticket.taken_by else ''}."] if ticket and ticket.handed else []
    lines += [f"{owner} is on it."] if owner and not (ticket and ticket.handed) else []
    latest = max((at for host in context.observed_hosts if (at := get_read_time(context, host))), default=None)
    age_note = f", last {format_age(latest, context.current_time)}" if latest else ""
    return build_answer(
        context,
        [*lines, f"{report_texts.format_coverage(case.stats)}{age_note}. {render_recheck_offer(context, context.faulty_hosts)}".strip()],
        most=12,
    )


async def answer_about_bot(context: AnswerContext) -> TurnResult:
    """Answer what RackMedic is and which hosts it may see here."""
    case, checks = context.case, context.now.reference.list_passive_checks()
    hosts = case.visible
    where_to = (
        f"{len(hosts)} hosts: {fold_host_names(hosts)[:160]}"
        if hosts
        else "no hosts; ask an operator to bind this channel in the inventory"
    )
    latest = max((at for host in context.observed_hosts if (at := get_read_time(context, host))), default=None)
    coverage_note = (
        f"In this thread I have looked at {fold_host_names(context.observed_hosts)[:120]}, last {format_age(latest, context.current_time)}."
        if context.observed_hosts
        else "I have looked at nothing yet."
    )
    model = (
        "a language model helps me to understand words; what is wrong is decided by rules over what the machines print"
        if context.ports.model
        else "no language model is used: rules over what the machines print decide"
    )
    return build_answer(
        context,
        [
            "I am RackMedic, a bot that finds out why GPU training broke.",
            f"From here I can see {where_to}.",
            f"I read them with {len(checks)} checks that change nothing; tests that need idle GPUs and every fix wait for Approve on a card.",
            coverage_note,
            f"{model[0].upper()}{model[1:]}.",
        ],
    )


async def answer_small_talk(context: AnswerContext) -> TurnResult:
    return build_answer(context, [f"Hello. {_render_open_work(context)[0].upper()}{_render_open_work(context)[1:]}"])


async def answer_thanks(context: AnswerContext) -> TurnResult:
    return build_answer(context, ["You are welcome."])


async def answer_help(context: AnswerContext) -> TurnResult:
    """Answer with examples of what can be said here."""
    rows = [f"• {INTENTS[one].form}: {describe_intent(one)}" for one in HELP_INTENTS]
    return build_answer(context, ["In your own words, for example:", *rows, "Only the Approve button approves."], most=len(rows) + 2)


async def answer_typed_approval(context: AnswerContext) -> TurnResult:
    """Refuse a typed approval: only the button approves."""
    approvals = list_pending_approvals(context)
    if not approvals:
        return build_answer(context, [f"{WORDS_APPROVE_NOTHING}: a typed word does not count. Nothing is waiting for approval now."])
    live = await context.ports.decisions(context.case.id)
    approvals_text = render_pending_approvals(approvals)
    if live is None:
        return build_answer(
            context, [f"{WORDS_APPROVE_NOTHING} on the card in Slack; a typed word does not count. Waiting for approval: {approvals_text}."]
        )
    names = list(dict.fromkeys(name for row in live if row.open for name in row.approvers))
    may = f"Approvers: {', '.join(names[:6])}{' …' if len(names) > 6 else ''}." if names else ""
    return build_answer(
        context, [f"{WORDS_APPROVE_NOTHING} on the card; a typed word does not count. Waiting for approval: {approvals_text}.", may]
    )


async def answer_not_understood(context: AnswerContext) -> TurnResult:
    """Say that nothing was done, and suggest what may be meant."""
    forms = [f"“{INTENTS[one].form}”" for one in context.message.suggestions if INTENTS[one].form][:2]
    hint = f" Did you mean {' or '.join(forms)}?" if forms else " Try “what about gpu-001?” or “help”."
    return build_answer(context, [f"I did not understand that, so I did nothing.{hint}"])
