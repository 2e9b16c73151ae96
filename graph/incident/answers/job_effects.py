"""Answer what a remedy does to the running job: outage and reach."""

import re
from collections.abc import Sequence

from graph.dialogue.said import ParsedMessage
from graph.dialogue.things import REMEDY_WORDS
from graph.incident.answers.answer_context import (
    AnswerContext,
    build_answer,
    render_unknown_names,
    resolve_target_hosts,
)
from graph.incident.answers.next_steps import NOTHING_RUNS_TEXT, list_pending_approvals
from graph.incident.answers.people import render_step_summary
from graph.incident.answers.safety import describe_running_jobs
from graph.incident.turn_result import TurnResult
from graph.state import Remediation
from tools.remedies import REMEDIES

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
    named_remedy = _find_remedy(_fix_in(context.message.text))
    remediation = _fix_meant(context, named_remedy)
    remedy = REMEDIES.get(named_remedy or (remediation.current_step.remedy if remediation and remediation.current_step else ""))
    if remedy is None:
        return build_answer(
            context,
            [
                *render_unknown_names(context),
                "No fix is waiting for approval, so none affects the job. Name the fix that you mean.",
            ],
        )
    hosts = tuple(remediation.target.split(",")) if remediation else resolve_target_hosts(context).hosts
    waiting_action = (
        f"{render_step_summary(remediation)} is waiting for approval"
        if remediation and remediation.current_step and remediation.current_step.remedy == remedy.id
        else ""
    )
    waiting_action = waiting_action or ("It is a later step of the fix that waits" if remediation else "Nothing found needs it")
    lines = [
        f"Outage: {remedy.outage}. Reach: {remedy.blast}.",
        describe_running_jobs(context, hosts) if hosts else "",
        f"{waiting_action}. {NOTHING_RUNS_TEXT}",
    ]
    return build_answer(context, [*render_unknown_names(context), *lines])


def _fix_meant(context: AnswerContext, remedy: str) -> Remediation | None:
    """Return the pending remediation of the named cause, host or remedy, else the first."""
    remediations: Sequence[Remediation] = list_pending_approvals(context)
    if remedy:
        remediations = [remediation for remediation in remediations if any(step.remedy == remedy for step in remediation.rungs)]
    message = context.message
    own_remediations = [
        remediation
        for remediation in remediations
        if remediation.label in message.labels or set(remediation.target.split(",")) & set(message.hosts)
    ]
    return next(iter(own_remediations or ([] if message.hosts and remedy else remediations)), None)
