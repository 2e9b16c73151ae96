"""Answer what comes next, what an approval would do, and what a remedy does to the running job. Pure."""

import re
from collections.abc import Sequence

from graph.dialogue.said import ParsedMessage
from graph.dialogue.things import REMEDY_WORDS
from graph.incident.answers.answer_context import (
    AnswerContext,
    build_answer,
    clean_text,
    get_check_name,
    render_recheck_offer,
    render_unknown_names,
    resolve_target_hosts,
)
from graph.incident.answers.people import render_approval_status, render_step_summary
from graph.incident.answers.safety import describe_running_jobs
from graph.incident.remediations import build_plan_context
from graph.incident.turn_result import TurnResult
from graph.remediation.drained_nodes import will_return_node
from graph.remediation.outcomes import describe_remediation, format_current_step
from graph.remediation.proposals import build_planned_action
from graph.state import Remediation
from tools.remedies import REMEDIES
from tools.remedies.remedy import Remedy

# Answer what comes next, and what an approval would do.

NOTHING_RUNS_TEXT = "Nothing runs until an approver presses Approve."


def list_pending_approvals(context: AnswerContext) -> list[Remediation]:
    return [row for row in context.case.remediations if row.is_open and row.waiting_for == "approval"]


async def answer_next_step(context: AnswerContext) -> TurnResult:
    """Answer with pending approvals, else running work, else the cause's next step."""
    case, report = context.case, context.case.report
    if case.lifecycle == "closed":
        return build_answer(context, ["Nothing: this incident is closed. Say “reopen” if it is not over."])
    if approvals := list_pending_approvals(context):
        lines = [
            f"Approve or reject on its card: {render_step_summary(row)}. Ask “what happens if I approve?” for details."
            for row in approvals[:2]
        ]
        lines += [f"… and {len(approvals) - 2} more cards."] if len(approvals) > 2 else []
        return build_answer(context, [*lines, *(report.by_hand[:2] if report else ())])
    if going := [row for row in case.remediations if row.is_open]:
        return build_answer(
            context, ["Nothing to do for you now.", *(f"• {describe_remediation(row, context.get_title(row.label))}" for row in going[:3])]
        )
    if report and report.questions:
        return build_answer(context, ["Answer what I asked:", *(f"• {question}" for question in report.questions)])
    if report and report.by_hand:
        return build_answer(context, ["A person must do this:", *(f"• {row}" for row in report.by_hand[:4])])
    if report and report.next_step:
        return build_answer(context, [report.next_step, render_recheck_offer(context, context.faulty_hosts)])
    return build_answer(context, ["Nothing is open. Tell me anything new, or say `recheck`."])


async def answer_on_approve(context: AnswerContext) -> TurnResult:
    """Answer what runs where, its preconditions, its proof and what follows."""
    approvals = [
        row for row in list_pending_approvals(context) if not context.message.hosts or row.target in context.message.hosts
    ] or list_pending_approvals(context)
    if not approvals:
        going = [row for row in context.case.remediations if row.is_open]
        later = f" {describe_remediation(going[0], context.get_title(going[0].label))}." if going else ""
        return build_answer(context, [f"Nothing is waiting for approval.{later}"])
    row = approvals[0]
    action, remedy = (
        build_planned_action(row, build_plan_context(context.case, context.ports)),
        REMEDIES[row.current_step.remedy] if row.current_step else None,
    )
    if action is None or remedy is None:
        return build_answer(context, [f"{render_step_summary(row)}; see its card."])
    via = "" if action.via == action.target else f", run via {action.via}"
    holds = [one.says for one in action.conditions] + (
        [f"the fault is still there: {clean_text(action.fault.says, 80)}"] if action.fault else []
    )
    lines = [
        f"If approved: {render_step_summary(row)}{via}. It affects {remedy.blast}.",
        f"Required before running: {'; '.join(holds)}." if holds else "",
        f"Afterwards I check again with {', '.join(get_check_name(check) for check in action.proof)}; only that result counts as fixed."
        if action.proof
        else "",
        f"Then: {_render_following_step(row)}.",
        _render_undo(remedy),
        f"{len(approvals) - 1} more card{'s' * (len(approvals) > 2)} wait{'s' * (len(approvals) == 2)}; ask with a host's name."
        if len(approvals) > 1
        else "",
    ]
    live = await context.ports.decisions(context.case.id)
    lines += [line for one in live or () if one.open and one.approval == row.approval for line in render_approval_status(one)]
    return build_answer(context, [*lines, NOTHING_RUNS_TEXT])


def _render_following_step(row: Remediation) -> str:
    later = [
        step for step in row.rungs[row.rung + 1 :] if row.current_step and step.plan == row.current_step.plan and step.part != "restore"
    ]
    if later:
        return f"{format_current_step(row.model_copy(update={'rung': row.rungs.index(later[0], row.rung + 1)}))}, on a separate card"
    if row.current_step and row.current_step.remedy == "run_check":
        return "the diagnosis is repeated with its result"
    back = "I propose the node's return to service, and " if will_return_node(row) else ""
    return f"if that helps, {back}I check again later; if not, a heavier fix is proposed or people take over"


def _render_undo(remedy: Remedy) -> str:
    if remedy.undo:
        return f"Undo: {REMEDIES[remedy.undo].does.replace('{node}', 'the node')}, on a separate card."
    return f"Undo: {remedy.back}." if remedy.back else ""


# Answer what a remedy does to the running job: outage and reach.

MAX_CHARACTERS = 400  # characters of a message that are searched
_JOB = r"(?:jobs?|runs?|training|workloads?|ranks?)"
_HARM = r"(?:kill|hurt|harm|affect|interrupt|disturb|disrupt|stop|break|end|crash|cancel|abort|terminate|cost|lose)\w{0,3}"
_HARMS = re.compile(
    rf"\b(?:will|would|does|do|could|can|might|may|is|are) (?P<fix>[^?!\n]{{2,80}}?)\b(?:going to )?{_HARM}\b[^?!\n]{{0,24}}\b{_JOB}\b",
    re.IGNORECASE,
)
_SURVIVES = re.compile(
    rf"\b(?:will|would|does|can|could) [^?!\n]{{0,20}}\b{_JOB}\b[^?!\n]{{0,12}}"
    r"\b(?:survive|outlive|die|crash|stop|continue|go on)\w{0,2} (?P<fix>[^?!\n]{3,80})",
    re.IGNORECASE,
)
_SAFE_FOR = re.compile(rf"\bis (?P<fix>[^?!\n]{{2,60}}?) (?:safe|ok|okay|harmless|dangerous) for [^?!\n]{{0,12}}\b{_JOB}\b", re.IGNORECASE)
_FIX = re.compile(r"\b(?:fix\w*|repair\w*|card|action|remedy|approv\w*|mend\w*)\b|^(?:it|that|this)$", re.IGNORECASE)
# phrases before a verb that people carry out themselves
_OF_PEOPLE = re.compile(r"\b(?:safe|ok|okay|fine) to\b|^(?:i|we|you|they)\b", re.IGNORECASE)
_STEMS = {
    "fixing": "fix", "stepping": "step", "syncing": "sync", "correcting": "correct", "draining": "drain", "cordoning": "cordon",
    "rebooting": "reboot", "restarting": "restart", "resetting": "reset", "reloading": "reload", "rebuilding": "rebuild", "cleaning": "clean",
    "loading": "load", "unlocking": "unlock", "enabling": "enable", "disabling": "disable", "turning": "turn",
}  # fmt: skip
_PHRASES = sorted(
    ((phrase.strip(), remedy) for remedy, words in REMEDY_WORDS.items() if remedy != "cancel_job" for phrase in words.split(",")),
    key=lambda row: -len(row[0]),
)


def asks_about_effect_on_job(message: ParsedMessage) -> bool:
    """Return whether a question is about a remedy's effect on the job."""
    return bool(_fix_in(message.text))


def _fix_in(text: str) -> str:
    """Return what the question says may harm the job, or an empty string."""
    line = " ".join(text[:MAX_CHARACTERS].split())
    match = _HARMS.search(line) or _SURVIVES.search(line) or _SAFE_FOR.search(line)
    words = match["fix"].strip() if match else ""
    return words if words and not _OF_PEOPLE.search(words) and (_FIX.search(words) or _find_remedy(words)) else ""


def _find_remedy(words: str) -> str:
    plain = f" {' '.join(_STEMS.get(word, word) for word in re.findall(r'[a-z]+', words.lower()))} "
    return next((remedy for phrase, remedy in _PHRASES if f" {phrase} " in plain), "")


async def answer_effect_on_job(context: AnswerContext) -> TurnResult:
    """Answer with the outage, the reach and the jobs on the hosts."""
    row = _fix_meant(context, named_remedy := _find_remedy(_fix_in(context.message.text)))
    remedy = REMEDIES.get(named_remedy or (row.current_step.remedy if row and row.current_step else ""))
    if remedy is None:
        return build_answer(
            context,
            [
                *render_unknown_names(context),
                "No fix is waiting for approval, so none affects the job. Name the fix that you mean.",
            ],
        )
    hosts = tuple(row.target.split(",")) if row else resolve_target_hosts(context).hosts
    waiting_action = (
        f"{render_step_summary(row)} is waiting for approval" if row and row.current_step and row.current_step.remedy == remedy.id else ""
    )
    waiting_action = waiting_action or ("It is a later step of the fix that waits" if row else "Nothing found needs it")
    lines = [
        f"Outage: {remedy.outage}. Reach: {remedy.blast}.",
        describe_running_jobs(context, hosts) if hosts else "",
        f"{waiting_action}. {NOTHING_RUNS_TEXT}",
    ]
    return build_answer(context, [*render_unknown_names(context), *lines])


def _fix_meant(context: AnswerContext, remedy: str) -> Remediation | None:
    """Return the pending remediation of the named cause, host or remedy, else the first."""
    rows: Sequence[Remediation] = list_pending_approvals(context)
    if remedy:
        rows = [row for row in rows if any(step.remedy == remedy for step in row.rungs)]
    message = context.message
    own = [row for row in rows if row.label in message.labels or set(row.target.split(",")) & set(message.hosts)]
    return next(iter(own or ([] if message.hosts and remedy else rows)), None)
