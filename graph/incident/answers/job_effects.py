"""Answer how a remedy affects the running job: its outage and its reach."""

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

MAX_SEARCHED_CHARS = 400  # searched at the start of a message
_JOB_WORDS = r"(?:jobs?|runs?|training|workloads?|ranks?)"
_HARM_WORDS = r"(?:kill|hurt|harm|affect|interrupt|disturb|disrupt|stop|break|end|crash|cancel|abort|terminate|cost|lose)\w{0,3}"
_HARMS_PATTERN = re.compile(
    rf"\b(?:will|would|does|do|could|can|might|may|is|are) (?P<fix>[^?!\n]{{2,80}}?)\b(?:going to )?{_HARM_WORDS}\b[^?!\n]{{0,24}}\b{_JOB_WORDS}\b",
    re.IGNORECASE,
)
_SURVIVES_PATTERN = re.compile(
    rf"\b(?:will|would|does|can|could) [^?!\n]{{0,20}}\b{_JOB_WORDS}\b[^?!\n]{{0,12}}"
    r"\b(?:survive|outlive|die|crash|stop|continue|go on)\w{0,2} (?P<fix>[^?!\n]{3,80})",
    re.IGNORECASE,
)
_SAFE_FOR_PATTERN = re.compile(
    rf"\bis (?P<fix>[^?!\n]{{2,60}}?) (?:safe|ok|okay|harmless|dangerous) for [^?!\n]{{0,12}}\b{_JOB_WORDS}\b", re.IGNORECASE
)
_REMEDY_WORD_PATTERN = re.compile(r"\b(?:fix\w*|repair\w*|card|action|remedy|approv\w*|mend\w*)\b|^(?:it|that|this)$", re.IGNORECASE)
# what people do themselves: "is it safe to …", "we restart …"
_HUMAN_ACTION_PATTERN = re.compile(r"\b(?:safe|ok|okay|fine) to\b|^(?:i|we|you|they)\b", re.IGNORECASE)
_VERBS_BY_GERUND = {
    "fixing": "fix", "stepping": "step", "syncing": "sync", "correcting": "correct", "draining": "drain", "cordoning": "cordon",
    "rebooting": "reboot", "restarting": "restart", "resetting": "reset", "reloading": "reload", "rebuilding": "rebuild", "cleaning": "clean",
    "loading": "load", "unlocking": "unlock", "enabling": "enable", "disabling": "disable", "turning": "turn",
}  # fmt: skip
_REMEDY_PHRASES = sorted(
    ((phrase.strip(), remedy) for remedy, words in REMEDY_WORDS.items() if remedy != "cancel_job" for phrase in words.split(",")),
    key=lambda phrase_and_remedy: -len(phrase_and_remedy[0]),  # the longest phrase wins
)


def asks_about_effect_on_job(message: ParsedMessage) -> bool:
    """Return whether a question is about a remedy's effect on the job."""
    return bool(_find_remedy_words(message.text))


def _find_remedy_words(text: str) -> str:
    """Return the words that name the remedy in a question about its effect on the job, or an empty string."""
    line = " ".join(text[:MAX_SEARCHED_CHARS].split())
    match = _HARMS_PATTERN.search(line) or _SURVIVES_PATTERN.search(line) or _SAFE_FOR_PATTERN.search(line)
    words = match["fix"].strip() if match else ""
    if not words or _HUMAN_ACTION_PATTERN.search(words):
        return ""
    return words if _REMEDY_WORD_PATTERN.search(words) or _find_remedy(words) else ""


def _find_remedy(words: str) -> str:
    """Return the id of the remedy that the words name, or an empty string."""
    plain_words = f" {' '.join(_VERBS_BY_GERUND.get(word, word) for word in re.findall(r'[a-z]+', words.lower()))} "
    return next((remedy for phrase, remedy in _REMEDY_PHRASES if f" {phrase} " in plain_words), "")


async def answer_effect_on_job(context: AnswerContext) -> TurnResult:
    """Answer with the remedy's outage and reach, and the jobs on its hosts."""
    named_remedy = _find_remedy(_find_remedy_words(context.message.text))
    remediation = _select_remediation(context, named_remedy)
    current_step = remediation.current_step if remediation else None
    remedy = REMEDIES.get(named_remedy or (current_step.remedy if current_step else ""))
    if remedy is None:
        text = "No fix is waiting for approval, so none affects the job. Name the fix that you mean."
        return build_answer(context, [*render_unknown_names(context), text])
    hosts = tuple(remediation.target.split(",")) if remediation else resolve_target_hosts(context).hosts
    if remediation is None:
        status = "Nothing found needs it"
    elif current_step and current_step.remedy == remedy.id:
        status = f"{render_step_summary(remediation)} is waiting for approval"
    else:
        status = "It is a later step of the fix that waits"
    lines = [
        f"Outage: {remedy.outage}. Reach: {remedy.blast}.",
        describe_running_jobs(context, hosts) if hosts else "",
        f"{status}. {NOTHING_RUNS_TEXT}",
    ]
    return build_answer(context, [*render_unknown_names(context), *lines])


def _select_remediation(context: AnswerContext, remedy: str) -> Remediation | None:
    """Return the pending remediation that the message is about: the one it names by cause, host or remedy, or the first."""
    remediations: Sequence[Remediation] = list_pending_approvals(context)
    if remedy:
        remediations = [remediation for remediation in remediations if any(step.remedy == remedy for step in remediation.rungs)]
    message = context.message
    named_remediations = [
        remediation
        for remediation in remediations
        if remediation.label in message.labels or set(remediation.target.split(",")) & set(message.hosts)
    ]
    if named_remediations:
        return named_remediations[0]
    if message.hosts and remedy:
        return None  # the remedy is pending on other hosts only
    return remediations[0] if remediations else None
