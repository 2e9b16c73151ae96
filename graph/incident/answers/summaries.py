"""Answer with summaries of the incident, with help, with what RackMedic is and sees, and to small talk."""

from collections.abc import Sequence
from dataclasses import replace

from graph.dialogue.addressed import is_question
from graph.dialogue.intents import INTENTS, Intent, describe_intent
from graph.extraction import report_texts
from graph.incident.answers.action_details import list_pending_approvals
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
from graph.incident.answers.nearest import find_nearest_lines
from graph.incident.answers.people import get_owner, render_pending_approvals, render_step_summary
from graph.incident.answers.reasons import list_doubts
from graph.incident.turn_result import TurnResult
from graph.remediation.drained_nodes import list_drained_nodes
from graph.remediation.outcomes import describe_remediation
from graph.state import Remediation
from tools.inventory.host_ranges import fold_host_names

MAX_REPORT_CHARS = 240
MAX_APPROVERS = 6
MAX_SUGGESTIONS = 2
USE_BUTTON_TEXT = "Use the Approve button"

# Intents that help lists in a thread. The documentation lists all.
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
    incident, roots, taxonomy = context.incident, context.root_causes, context.assessment.reference.taxonomy
    if roots:
        machines = fold_host_names(context.faulty_hosts) if context.faulty_hosts else "not a host fault"
        cause_line = f"What: {taxonomy.get_leaf(roots[0].label).customer_words or context.get_title(roots[0].label)}"
        other_causes = [f"{context.get_title(cause.label)}{render_citation(cause)}" for cause in roots[1:3]]
        if other_causes:
            cause_line += f" Also: {', '.join(other_causes)}."
        lines = [
            cause_line,
            f"Where: {machines}; {len(context.observed_hosts)} machines looked at, {format_confidence(roots[0])}{render_citation(roots[0])}.",
        ]
    elif fixed_remediations := _list_proven_remediations(context):
        labels = list(dict.fromkeys(remediation.label for remediation in fixed_remediations))
        cause_text = "; ".join(taxonomy.get_leaf(label).customer_words or context.get_title(label) for label in labels[:3])
        lines = [f"What: {cause_text}", f"Where: {_format_targets(fixed_remediations)}; fixed and verified."]
    elif incident.report and incident.report.outcome == "no_fault":
        lines = [f"What: no fault was found on {fold_host_names(context.observed_hosts)} ({report_texts.format_coverage(incident.stats)})."]
    else:
        lines = [f"What: the cause is not known yet; {len(context.observed_hosts)} machines were looked at."]
    owner = get_owner(context)
    return build_answer(
        context,
        [
            *lines,
            f"Since: reported {incident.opened:%H:%M} UTC, {format_age(incident.opened, context.current_time)}.",
            f"State: {_render_open_work(context)}",
            f"Who: {owner or 'nobody'} is on it.",
        ],
    )


def _list_proven_remediations(context: AnswerContext) -> list[Remediation]:
    """Return the proven remediations. Their causes no longer show, but they were the incident."""
    return [
        remediation
        for remediation in context.incident.remediations
        if remediation.proven and remediation.label in context.assessment.reference.taxonomy.leaves
    ]


def _format_targets(remediations: Sequence[Remediation]) -> str:
    return fold_host_names(tuple(dict.fromkeys(host for remediation in remediations for host in remediation.target.split(","))))


def _render_status(context: AnswerContext) -> str:
    lifecycle = context.incident.lifecycle
    if lifecycle == "closed":
        return "closed."
    return f"{lifecycle.replace('_', ' ')}; {_render_open_work(context)}"


def _render_open_work(context: AnswerContext) -> str:
    incident = context.incident
    if incident.lifecycle == "closed":
        return "closed."
    if approvals := list_pending_approvals(context):
        return f"a fix waits for approval ({render_step_summary(approvals[0])})."
    open_remediations = [remediation for remediation in incident.remediations if remediation.is_open]
    if open_remediations:
        remediation = open_remediations[0]
        return f"{describe_remediation(remediation, context.get_title(remediation.label))}."
    if incident.report and incident.report.questions:
        return "waiting for an answer to my questions."
    next_step = incident.report.next_step if incident.report else ""
    return f"next: {next_step}" if next_step else "nothing is open."


def _shorten_report(text: str) -> str:
    return f"{text[:MAX_REPORT_CHARS]}…" if len(text) > MAX_REPORT_CHARS else text


def _summarize_for_ticket(context: AnswerContext) -> TurnResult:
    incident, assessment, report = context.incident, context.assessment, context.incident.report
    lines = [f"Incident {incident.id}, opened {incident.opened:%Y-%m-%d %H:%M} UTC, {incident.lifecycle.replace('_', ' ')}"]
    report_text = " ".join(incident.brief.text.split())
    lines.append(f"Reported: {_shorten_report(report_text) or '(no words)'}")
    job_note = f"; job {incident.brief.job}" if incident.brief.job else ""
    lines.append(f"Hosts looked at: {fold_host_names(context.observed_hosts) or 'none'}{job_note}")
    for cause in context.root_causes[:3]:
        lines.append(f"Cause: {context.get_title(cause.label)} ({format_location(cause)}), {format_confidence(cause)}")
        lines += [render_evidence(context, line) for line in cause.evidence[:2]]
    fixed_remediations = [] if context.root_causes else _list_proven_remediations(context)
    lines += [f"Cause: {context.get_title(remediation.label)} ({remediation.target}), fixed" for remediation in fixed_remediations[:3]]
    if not context.root_causes and not fixed_remediations:
        lines.append("Cause: none proven" + (f"; {list_doubts(context)[0][:160]}" if assessment.why_unsure else ""))
    ruled_out = [
        f"{context.get_title(hypothesis.label)} ({render_counter_evidence(context, hypothesis.label)})"
        for hypothesis in assessment.list_ruled_out(3)
    ]
    if ruled_out:
        lines.append(f"Ruled out: {', '.join(ruled_out)}")
    unobserved_checks = [f"{unobserved.check} on {unobserved.host}" for unobserved in assessment.list_unobserved()[:4]]
    if unobserved_checks:
        lines.append(f"Could not look: {', '.join(unobserved_checks)}")
    lines += [
        f"Fix: {describe_remediation(remediation, context.get_title(remediation.label))}" for remediation in incident.remediations[:3]
    ]
    if report and report.next_step:
        lines.append(f"Next: {report.next_step}")
    return build_answer(context, [*lines, f"On it: {get_owner(context) or 'nobody'}"], max_lines=20)


async def answer_status(context: AnswerContext) -> TurnResult:
    """Answer with findings, pending work and coverage."""
    incident, causes, get_title = context.incident, context.root_causes, context.get_title
    if causes:
        findings = [
            f"{get_title(cause.label)} ({format_location(cause)}), {format_confidence(cause)}{render_citation(cause)}"
            for cause in causes[:3]
        ]
    else:
        fixed_remediations = _list_proven_remediations(context)[:3]
        findings = [f"{get_title(remediation.label)} ({remediation.target}) is fixed" for remediation in fixed_remediations]
        if not findings and incident.report and incident.report.outcome == "no_fault":
            findings = ["I found no fault"]
        elif not findings:
            findings = ["I have proven no cause so far"]
        for belief in context.assessment.suspects[:2]:
            basis = render_basis([match.fact for match in belief.support])
            findings.append(f"{belief.leaf.title} is likely and unproven ({basis})")
    lines = [f"{'; '.join(findings)}.", f"State: {_render_status(context)}"]
    open_remediations = [remediation for remediation in incident.remediations if remediation.is_open]
    lines += [f"• {describe_remediation(remediation, get_title(remediation.label))}" for remediation in open_remediations[:3]]
    lines += [f"Held: {node.render_line(get_title(node.label))}" for node in list_drained_nodes(incident.remediations)[:3]]
    ticket, owner = incident.ticket, get_owner(context)
    if ticket and ticket.handed:
        lines.append(f"Ticket: {ticket.state}{f', taken by {ticket.taken_by}' if ticket.taken_by else ''}.")
    elif owner:
        lines.append(f"{owner} is on it.")
    read_times = [read_time for host in context.observed_hosts if (read_time := get_read_time(context, host))]
    age_note = f", last {format_age(max(read_times), context.current_time)}" if read_times else ""
    coverage = f"{report_texts.format_coverage(incident.stats)}{age_note}."
    return build_answer(context, [*lines, f"{coverage} {render_recheck_offer(context, context.faulty_hosts)}".strip()], max_lines=12)


async def answer_about_bot(context: AnswerContext) -> TurnResult:
    """Answer what RackMedic is and which hosts it may see here."""
    incident, checks = context.incident, context.assessment.reference.list_passive_checks()
    hosts = incident.visible
    visible_hosts = "no hosts; ask an operator to bind this channel in the inventory"
    if hosts:
        visible_hosts = f"{len(hosts)} hosts: {fold_host_names(hosts)[:160]}"
    coverage_note = "I have looked at nothing yet."
    if context.observed_hosts:
        read_times = [read_time for host in context.observed_hosts if (read_time := get_read_time(context, host))]
        age = format_age(max(read_times, default=None), context.current_time)
        coverage_note = f"In this thread I have looked at {fold_host_names(context.observed_hosts)[:120]}, last {age}."
    model_note = "No language model is used: rules over what the machines print decide."
    if context.graph_context.model:
        model_note = "A language model helps me to understand words; what is wrong is decided by rules over what the machines print."
    return build_answer(
        context,
        [
            "I am RackMedic, a bot that finds out why GPU training broke.",
            f"From here I can see {visible_hosts}.",
            f"I read them with {len(checks)} checks that change nothing; tests that need idle GPUs and every fix wait for Approve on a card.",
            coverage_note,
            model_note,
        ],
    )


async def answer_small_talk(context: AnswerContext) -> TurnResult:
    open_work = _render_open_work(context)
    return build_answer(context, [f"Hello. {open_work[0].upper()}{open_work[1:]}"])


async def answer_thanks(context: AnswerContext) -> TurnResult:
    return build_answer(context, ["You are welcome."])


async def answer_help(context: AnswerContext) -> TurnResult:
    """Answer with examples of what can be said here."""
    lines = [f"• {INTENTS[intent].form}: {describe_intent(intent)}" for intent in HELP_INTENTS]
    return build_answer(context, ["In your own words, for example:", *lines, "Only the Approve button approves."], max_lines=len(lines) + 2)


async def answer_typed_approval(context: AnswerContext) -> TurnResult:
    """Refuse a typed approval: only the button approves."""
    approvals = list_pending_approvals(context)
    if not approvals:
        return build_answer(context, [f"{USE_BUTTON_TEXT}: a typed word does not count. Nothing is waiting for approval now."])
    approval_statuses = await context.graph_context.decisions(context.incident.id)
    approvals_text = render_pending_approvals(approvals)
    if approval_statuses is None:
        text = f"{USE_BUTTON_TEXT} on the card in Slack; a typed word does not count. Waiting for approval: {approvals_text}."
        return build_answer(context, [text])
    names = list(dict.fromkeys(name for status in approval_statuses if status.open for name in status.approvers))
    lines = [f"{USE_BUTTON_TEXT} on the card; a typed word does not count. Waiting for approval: {approvals_text}."]
    if names:
        lines.append(f"Approvers: {', '.join(names[:MAX_APPROVERS])}{' …' if len(names) > MAX_APPROVERS else ''}.")
    return build_answer(context, lines)


async def answer_not_understood(context: AnswerContext) -> TurnResult:
    """Say that nothing was done, show the nearest facts, and suggest what may be meant, as text and as buttons."""
    meant = [intent for intent in context.message.suggestions if INTENTS[intent].form][:MAX_SUGGESTIONS]
    forms = [f"“{INTENTS[intent].form}”" for intent in meant]
    hint = f" Did you mean {' or '.join(forms)}?" if forms else " Try “what about gpu-001?” or “help”."
    lines = [f"I did not understand that, so I did nothing.{hint}"]
    if nearest := await find_nearest_lines(context):
        lines += ["Closest to your question:" if is_question(context.message.text) else "Closest to your words:", *nearest]
    answer = build_answer(context, lines)
    return replace(answer, report=answer.report.model_copy(update={"meant": tuple(intent.value for intent in meant)}))
