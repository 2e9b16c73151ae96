"""Answer what a fix runs, touches, ends, takes and risks: from its row, the planned action and the jobs that were read."""

import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from graph.dialogue.things import REMEDY_WORDS
from graph.incident.answers.answer_context import (
    AnswerContext,
    build_answer,
    clean_text,
    format_read_at,
    get_check_name,
    get_read_time,
    render_unknown_names,
    resolve_target_hosts,
)
from graph.incident.answers.people import render_step_summary
from graph.incident.answers.safety import describe_running_jobs
from graph.incident.remediations import build_plan_context
from graph.incident.turn_result import TurnResult
from graph.remediation.outcomes import describe_remediation
from graph.remediation.proposals import build_planned_action
from graph.state import Remediation
from tools.action import Action
from tools.inventory.host_ranges import fold_host_names
from tools.remedies import REMEDIES, get_scheduler_variant
from tools.remedies.remedy import Remedy, fill_slots

MAX_SEARCHED_CHARS = 400  # searched at the start of a message
MAX_USERS = 6
NOTHING_RUNS_TEXT = "Nothing runs until an approver presses Approve."
NO_ACTION_TEXT = "No fix is planned here, so I cannot say. Name the one that you mean, for example “how long does a reboot take?”."
_VERBS_BY_GERUND = {
    "fixing": "fix", "stepping": "step", "syncing": "sync", "correcting": "correct", "draining": "drain", "cordoning": "cordon",
    "rebooting": "reboot", "restarting": "restart", "resetting": "reset", "reloading": "reload", "rebuilding": "rebuild", "cleaning": "clean",
    "loading": "load", "unlocking": "unlock", "enabling": "enable", "disabling": "disable", "turning": "turn",
}  # fmt: skip
_REMEDY_PHRASES = sorted(
    ((phrase.strip(), remedy) for remedy, words in REMEDY_WORDS.items() if remedy != "cancel_job" for phrase in words.split(",")),
    key=lambda phrase_and_remedy: -len(phrase_and_remedy[0]),  # the longest phrase wins
)


@dataclass(frozen=True, slots=True)
class ActionSubject:
    """The fix that a question is about. `action` is None where it is not planned or cannot be built."""

    remedy: Remedy
    hosts: tuple[str, ...]
    args: Mapping[str, str]
    remediation: Remediation | None = None
    action: Action | None = None

    def fill(self, text: str) -> str:
        """Put the action's values into a row's text; a value that is not known yet stays its name."""
        return fill_slots(text, {name: f"<{name}>" for name in self.remedy.args} | dict(self.args))


async def answer_action_detail(context: AnswerContext) -> TurnResult:
    """Answer one detail of the fix that is named or waits, or all of them."""
    subject = find_action_subject(context)
    if subject is None:
        return build_answer(context, [*render_unknown_names(context), _render_running(context) or NO_ACTION_TEXT])
    lines = render_action_detail(context, subject, context.message.detail)
    return build_answer(context, [*render_unknown_names(context), *lines, _render_status(context, subject)])


def find_action_subject(context: AnswerContext) -> ActionSubject | None:
    """Return the fix that the message names, or the first that waits for approval."""
    named_remedy = _find_named_remedy(context)
    remediation, index = _select_step(context, named_remedy)
    if remediation is None and not named_remedy:
        return None
    if remediation is None:
        hosts = tuple(host for host in resolve_target_hosts(context).hosts if host in context.incident.visible)
        return ActionSubject(_get_variant(context, REMEDIES[named_remedy], hosts), hosts, {})
    step = remediation.model_copy(update={"rung": index})
    hosts, current = tuple(remediation.target.split(",")), step.current_step
    action = build_planned_action(step, build_plan_context(context.incident, context.graph_context))
    remedy = _get_variant(context, REMEDIES[remediation.rungs[index].remedy], hosts)
    return ActionSubject(remedy, hosts, dict(action.args if action else current.args if current else {}), remediation, action)


def _find_named_remedy(context: AnswerContext) -> str:
    """Return the remedy named. “Does it kill the job?” names none: the job is what the question asks about."""
    text = " ".join(context.message.text[:MAX_SEARCHED_CHARS].split())
    plain_words = f" {' '.join(_VERBS_BY_GERUND.get(word, word) for word in re.findall(r'[a-z]+', text.lower()))} "
    if named := next((remedy for phrase, remedy in _REMEDY_PHRASES if f" {phrase} " in plain_words), ""):
        return named
    remedy = context.message.remedy if context.message.remedy in REMEDIES else ""
    return "" if remedy == "cancel_job" and list_pending_approvals(context) else remedy


def list_pending_approvals(context: AnswerContext) -> list[Remediation]:
    return [remediation for remediation in context.incident.remediations if remediation.is_open and remediation.waiting_for == "approval"]


def _select_step(context: AnswerContext, remedy: str) -> tuple[Remediation | None, int]:
    """Return the pending remediation and its step that the message is about: by remedy, cause or host, or the first."""
    message = context.message
    steps = [
        (remediation, index)
        for remediation in list_pending_approvals(context)
        for index in range(remediation.rung, len(remediation.rungs))
        if (remediation.rungs[index].remedy == remedy if remedy else index == remediation.rung)
    ]
    named_steps = [
        (remediation, index)
        for remediation, index in steps
        if remediation.label in message.labels or set(remediation.target.split(",")) & set(message.hosts)
    ]
    if message.hosts and remedy and not named_steps:
        return None, 0  # the remedy is pending on other hosts only
    return next(iter(named_steps or steps), (None, 0))


def _get_variant(context: AnswerContext, remedy: Remedy, hosts: Sequence[str]) -> Remedy:
    host = next((host for name in hosts if (host := context.graph_context.inventory.hosts.get(name))), None)
    return get_scheduler_variant(remedy, host.scheduler) if host else remedy


def render_action_detail(context: AnswerContext, subject: ActionSubject, detail: str) -> list[str]:
    """Return the lines of a detail, or those of all."""
    if detail in _LINES_BY_DETAIL:
        return [line for render in _LINES_BY_DETAIL[detail] if (line := render(context, subject))]
    return [
        render_command(context, subject),
        _render_files(context, subject),
        _render_outage(context, subject),
        _render_undo(context, subject),
    ]


def render_command(context: AnswerContext, subject: ActionSubject) -> str:
    """Return the command as it would run, with the host that runs it."""
    if subject.action:
        via, command = (f" on {subject.action.via}" if subject.action.via else ""), shlex.join(subject.action.command)
    else:
        words = [subject.fill(word) for word in subject.remedy.command]
        via, command = "", " ".join(word if word.startswith("<") else shlex.quote(word) for word in words)
    return f"Command{via}:\n```\n{command}\n```" if "\n" in command else f"Command{via}: `{command}`"


def _render_files(context: AnswerContext, subject: ActionSubject) -> str:
    return f"Files: {subject.fill(subject.remedy.files)}."


def _render_ends(context: AnswerContext, subject: ActionSubject) -> str:
    return f"Ends: {subject.fill(subject.remedy.ends)}."


def _render_outage(context: AnswerContext, subject: ActionSubject) -> str:
    return f"Outage: {subject.remedy.outage}. Reach: {subject.remedy.blast}."


def _render_time_limit(context: AnswerContext, subject: ActionSubject) -> str:
    return f"The command itself may take {subject.remedy.limit_seconds} s at most."


def _render_hosts(context: AnswerContext, subject: ActionSubject) -> str:
    return f"Hosts: {fold_host_names(subject.hosts)}." if subject.hosts else ""


def _render_jobs(context: AnswerContext, subject: ActionSubject) -> str:
    return describe_running_jobs(context, subject.hosts, with_time=True) if subject.hosts else ""


def _render_users(context: AnswerContext, subject: ActionSubject) -> str:
    """Return whose processes hold GPUs on the hosts, with when that was read."""
    facts = [
        fact
        for fact in context.incident.facts
        if fact.host in subject.hosts and fact.key in ("proc.gpu_memory", "proc.orphan") and not fact.stale
    ]
    users = list(dict.fromkeys(clean_text(str(fact.attrs["user"]), 40) for fact in facts if fact.attrs.get("user")))
    if not users:
        return ""
    read_time = max((time for host in subject.hosts if (time := get_read_time(context, host, facts[0].check))), default=None)
    return f"Users with processes on their GPUs: {', '.join(users[:MAX_USERS])} ({facts[0].check}, {format_read_at(read_time, context.current_time)})."


def _render_risk(context: AnswerContext, subject: ActionSubject) -> str:
    return f"Risk: {subject.remedy.risk}. Reach: {subject.remedy.blast}."


def _render_conditions(context: AnswerContext, subject: ActionSubject) -> str:
    conditions = subject.action.conditions if subject.action else subject.remedy.conditions
    says = [condition.says for condition in conditions] + (["the node is drained"] if "drained" in subject.remedy.needs else [])
    if subject.action and subject.action.fault:
        says.append(f"the fault is still there: {clean_text(subject.action.fault.says, 80)}")
    return f"Required before running: {'; '.join(dict.fromkeys(says))}." if says else ""


def _render_proof(context: AnswerContext, subject: ActionSubject) -> str:
    return f"Verified by: {', '.join(map(get_check_name, subject.remedy.proof))}." if subject.remedy.proof else ""


def _render_undo(context: AnswerContext, subject: ActionSubject) -> str:
    remedy = subject.remedy
    if remedy.undo:
        return f"Undo: {REMEDIES[remedy.undo].does.replace('{node}', 'the node')} ({remedy.undo}), on a separate card; say “undo that”."
    return f"Undo: {remedy.back}." if remedy.back else "Undo: no way back is listed for it."


def _render_status(context: AnswerContext, subject: ActionSubject) -> str:
    remediation = subject.remediation
    if remediation is None:
        hosts = f" on {fold_host_names(subject.hosts)}" if subject.hosts else ""
        return f"Nothing found{hosts} needs {subject.remedy.id}. {NOTHING_RUNS_TEXT}"
    current = remediation.current_step
    if current and _get_variant(context, REMEDIES[current.remedy], subject.hosts).id == subject.remedy.id:
        return f"{render_step_summary(remediation)} is waiting for approval. {NOTHING_RUNS_TEXT}"
    return f"{subject.remedy.id} is a later step of the fix that waits: {render_step_summary(remediation)}. {NOTHING_RUNS_TEXT}"


def _render_running(context: AnswerContext) -> str:
    going = [remediation for remediation in context.incident.remediations if remediation.is_open]
    return f"Nothing is waiting for approval. {describe_remediation(going[0], context.get_title(going[0].label))}." if going else ""


_LINES_BY_DETAIL: Final[Mapping[str, Sequence[Callable[[AnswerContext, ActionSubject], str]]]] = {
    "files": (_render_files, _render_ends),
    "undo": (_render_undo,),
    "duration": (_render_outage, _render_time_limit),
    "jobs": (_render_outage, _render_ends, _render_jobs),
    "reach": (_render_hosts, _render_outage, _render_jobs, _render_users),
    "risk": (_render_risk, _render_files, _render_ends, _render_conditions, _render_undo),
    "command": (render_command, _render_conditions, _render_proof),
}
