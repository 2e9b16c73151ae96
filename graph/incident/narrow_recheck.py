"""After "works again" or "still broken", repeat only the checks that decided."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from graph.context import GraphContext
from graph.dialogue.intents import Intent
from graph.engine.assessment import Assessment, assess_facts
from graph.incident.context import IncidentContext, build_reference_data
from graph.incident.lifecycle import TurnEvent, get_next_lifecycle
from graph.incident.turn_result import TurnResult
from graph.remediation.cause_presence import CausePresence, assess_presence
from graph.state import Hypothesis
from tools.inventory.host_ranges import fold_host_names

RECHECK_INTENTS = frozenset({Intent.FIXED, Intent.STILL_BROKEN})


def is_narrow_recheck(context: IncidentContext) -> bool:
    """Return whether only deciding checks run again. "Still broken" without a known cause needs a full turn."""
    if context.kind != "recheck" or context.message.intent not in RECHECK_INTENTS or context.report is None:
        return False
    return bool(context.report.root_causes) or context.message.intent is Intent.FIXED


def list_deciding_checks(context: IncidentContext, assessment: Assessment) -> list[tuple[str, str]]:
    """Return the passive (host, check) pairs behind the last report's causes."""
    causes = _list_reported_causes(context)
    cited_checks = [(line.host, line.check) for cause in causes for line in cause.evidence if line.host]
    cause_checks = [(host, check) for cause in causes for host in cause.hosts for check in cause.checks]
    passive = {check.id for check in assessment.reference.list_passive_checks()}
    return [pair for pair in dict.fromkeys((*cited_checks, *cause_checks)) if pair[1] in passive and pair[0] in context.visible]


def _list_reported_causes(context: IncidentContext) -> Sequence[Hypothesis]:
    causes, hosts = context.report.root_causes if context.report else (), set(context.message.hosts)
    return [cause for cause in causes if not hosts or hosts & {*cause.hosts, *(line.host for line in cause.evidence)}]


@dataclass(frozen=True, slots=True)
class CauseRecheck:
    """A cause of the last report and its presence now."""

    cause: Hypothesis
    title: str
    presence: CausePresence


def answer_narrow_recheck(result: TurnResult, context: IncidentContext, assessment: Assessment, graph_context: GraphContext) -> TurnResult:
    """Answer what is still there, unobserved, or gone; the incident may close."""
    rechecks = [
        recheck for cause in _list_reported_causes(context) for recheck in _recheck_cause(cause, context, assessment, graph_context)
    ]
    lines = [_render_recheck(recheck) for recheck in rechecks[:4]]
    fixed = context.message.intent is Intent.FIXED
    is_gone = all(recheck.presence.answer == "gone" for recheck in rechecks)
    drained_hosts = [remediation.target for remediation in context.remediations if remediation.drained]
    busy = [
        remediation
        for remediation in context.remediations
        if remediation.is_open and (remediation.drained or remediation.since is not None)
    ]
    event: TurnEvent | None = None
    if not rechecks:
        lines = ["Good to hear. I had found no cause, so there was nothing to check again. Say “close” to close it."]
    elif is_gone and fixed and not (drained_hosts or busy):
        lines, event = [*lines, "Closed. Say “reopen” if it comes back."], TurnEvent.CLOSED
    elif is_gone and fixed:
        lines.append(
            f"{fold_host_names(drained_hosts or [remediation.target for remediation in busy])}: its fix is still in progress, so I do not close yet."
        )
    elif is_gone:
        lines.append("What do you see now? Send me the error, or say `recheck` and I look at everything.")
    elif any(recheck.presence.answer == "unseen" for recheck in rechecks):
        lines.append("What could not be checked is not called fixed.")
    elif result.report.next_step:
        lines.append(f"Next: {result.report.next_step}")
    report = result.report.model_copy(update={"reply": "\n".join(lines), "questions": () if fixed else result.report.questions})
    return replace(result, report=report, lifecycle=get_next_lifecycle(context.lifecycle, event) if event else result.lifecycle)


def _recheck_cause(cause: Hypothesis, context: IncidentContext, assessment: Assessment, graph_context: GraphContext) -> list[CauseRecheck]:
    """Recheck a cause on each of its hosts; one without hosts by all facts."""
    leaf = graph_context.taxonomy.leaves.get(cause.label)
    if leaf is None:
        return []
    if not cause.hosts:
        return [CauseRecheck(cause, leaf.title, assess_presence(leaf, cause.devices, assessment))]
    reference = build_reference_data(graph_context, context.facts)
    assessments = {host: assess_facts([fact for fact in context.facts if fact.host == host], reference, [host]) for host in cause.hosts[:8]}
    rechecks = [
        CauseRecheck(cause, leaf.title, assess_presence(leaf, _list_devices_on_host(cause, host), alone))
        for host, alone in assessments.items()
    ]
    order = {"shown": 0, "likely": 1, "unseen": 2, "gone": 3}
    return sorted(rechecks, key=lambda recheck: order[recheck.presence.answer])[:4]


def _list_devices_on_host(cause: Hypothesis, host: str) -> tuple[str, ...]:
    return tuple(name for name in cause.devices if name.partition("/")[0] == host)


def _render_recheck(recheck: CauseRecheck) -> str:
    location = ", ".join(recheck.cause.devices[:4]) or fold_host_names(recheck.cause.hosts) or "the job"
    presence_texts = {
        "shown": f"Still there: {recheck.title} ({location}): {recheck.presence.says}.",
        "likely": f"Not sure: {recheck.title} ({location}): {recheck.presence.says}.",
        "unseen": f"Could not look whether {recheck.title} ({location}) is gone: {recheck.presence.says}.",
        "gone": f"Checked again: {recheck.title} ({location}) no longer shows.",
    }
    return presence_texts[recheck.presence.answer]
