"""The ticket of an incident, with all that a person needs to take over."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from bot.refusal import Refusal
from graph.extraction.log_digests import format_log_digest
from graph.extraction.report_texts import format_confidence_percent
from graph.incident_view import IncidentView
from graph.remediation.drained_nodes import DrainedNode, list_drained_nodes
from graph.remediation.outcomes import format_current_step
from graph.state import Evidence, HandoffTicket, Hypothesis, IncidentState, LogDigest, Remediation, UnobservedCheck, Verdict
from tools.fact import Fact
from tools.inventory.host_ranges import fold_host_names

VERDICT_ORDER: tuple[Verdict, ...] = ("confirmed", "inconclusive", "open", "rejected")  # the order of display


class InvalidTicketChange(Refusal):
    """The ticket is not in a state from which this can be done."""


@dataclass(frozen=True, slots=True)
class TimelineEntry:
    at: datetime
    what: str


@dataclass(frozen=True, slots=True)
class Handoff:
    """Everything that a ticket, its details and its file show."""

    incident: str
    ticket: HandoffTicket  # `taken_by` and `closed_by` are Slack ids until the publisher replaces them with names
    headline: str
    reported: str = ""
    hosts: tuple[str, ...] = ()
    hypotheses: tuple[Hypothesis, ...] = ()
    could_not_look: tuple[UnobservedCheck, ...] = ()
    timeline: tuple[TimelineEntry, ...] = ()
    logs: tuple[LogDigest, ...] = ()  # all stored logs; a card shows a few
    drained_nodes: tuple[DrainedNode, ...] = ()  # nodes that RackMedic drained and that are not back
    # Remediations that changed a host, oldest first: the proven ones, and those whose result is unknown.
    done: tuple[Remediation, ...] = ()
    item: str = ""  # the report of the hand-off; empty where there is none


def build_handoff(state: IncidentState) -> Handoff:
    view = IncidentView(state)
    report, hypotheses = view.report, _list_hypotheses(view)
    return Handoff(
        incident=view.id,
        ticket=view.ticket or HandoffTicket(),
        headline=(report.headline if report else "") or "Not diagnosed.",
        reported=view.brief.text,
        hosts=view.brief.hosts or tuple(sorted({host for hypothesis in hypotheses for host in hypothesis.hosts})),
        hypotheses=hypotheses,
        could_not_look=report.could_not_look if report else (),
        timeline=_build_timeline_entries(view, hypotheses),
        logs=_list_logs(view),
        drained_nodes=tuple(list_drained_nodes(view.remediations)),
        done=tuple(remediation for remediation in view.remediations if remediation.proven or remediation.since),
        item=report.item if report else "",
    )


def format_done_action(remediation: Remediation, title: str) -> str:
    """Return for example `Clock skew on gpu-002: start chrony … by an approved action at 02:13 UTC; verified`."""
    steps_done = remediation.rungs[: remediation.rung + 1]
    fix_numbers = [number for number, step in enumerate(steps_done) if step.part == "fix"]
    fix_texts = [format_current_step(remediation.model_copy(update={"rung": number})) for number in fix_numbers[-2:]]
    description = "; ".join(dict.fromkeys(fix_texts)) or "changed"
    hosts = fold_host_names(remediation.target.split(","))
    when = f" at {remediation.since:%H:%M} UTC" if remediation.since else ""
    verified = "verified" if remediation.proven else "not verified"
    return f"{title} on {hosts}: {description}, by an approved action{when}; {verified}"


def build_timeline(incident_view: IncidentView) -> tuple[TimelineEntry, ...]:
    """Return people's messages and timed evidence, oldest first."""
    return _build_timeline_entries(incident_view, _list_hypotheses(incident_view))


def _list_hypotheses(incident_view: IncidentView) -> tuple[Hypothesis, ...]:
    """Return one hypothesis for each label. Those of the report win, because they carry the cited evidence."""
    report = incident_view.report
    ruled_out, root_causes = (report.ruled_out, report.root_causes) if report else ((), ())
    hypothesis_by_label = {hypothesis.label: hypothesis for hypothesis in (*ruled_out, *incident_view.hypotheses, *root_causes)}

    def get_sort_key(hypothesis: Hypothesis) -> tuple[int, float, str]:
        return VERDICT_ORDER.index(hypothesis.verdict), -hypothesis.confidence, hypothesis.label

    return tuple(sorted(hypothesis_by_label.values(), key=get_sort_key))


def _list_logs(incident_view: IncidentView) -> tuple[LogDigest, ...]:
    """Return the uploaded logs, then the other logs of the report."""
    uploaded_logs = incident_view.logs
    uploaded_names = {log.name for log in uploaded_logs}
    report_logs = incident_view.report.logs if incident_view.report else ()
    return (*uploaded_logs, *(log for log in report_logs if log.name not in uploaded_names))


def _build_timeline_entries(incident_view: IncidentView, hypotheses: Sequence[Hypothesis]) -> tuple[TimelineEntry, ...]:
    entries = [TimelineEntry(incident_view.opened_at, "incident opened")] if incident_view.opened_at else []
    for message in incident_view.messages:
        if message.get("at"):
            first_line = str(message.get("text", "")).strip().partition("\n")[0]
            event = f"someone wrote: {first_line[:200]}" if first_line else "a file came in"
            entries.append(TimelineEntry(datetime.fromisoformat(str(message["at"])), event))
    timed_lines = {
        (evidence.time, evidence.host, evidence.line) for hypothesis in hypotheses for evidence in hypothesis.evidence if evidence.time
    }
    entries += [TimelineEntry(time, f"{host}: {line}") for time, host, line in timed_lines if time]
    return tuple(sorted(entries, key=lambda entry: (entry.at, entry.what)))


def require_unresolved_ticket(ticket: HandoffTicket, click: str) -> None:
    """Raise InvalidTicketChange if the click would change a resolved ticket."""
    if ticket.state == "resolved" and click in ("take", "wait", "close", "close_form"):
        raise InvalidTicketChange(f"This incident was closed already, as {ticket.true_label or 'unknown'}. Mention me to open it again.")


def list_output_digests(handoff: Handoff, facts: Sequence[Fact]) -> tuple[str, ...]:
    """Return the digests of stored outputs, cited ones first."""
    cited = [evidence.sha256 for hypothesis in handoff.hypotheses for evidence in hypothesis.evidence]
    digests = dict.fromkeys([*cited, *(fact.sha256 for fact in facts)])
    return tuple(digest for digest in digests if digest)


def format_evidence_file(handoff: Handoff, outputs: Mapping[str, str], max_chars: int = 1_000_000) -> str:
    """Return the conclusions and then the outputs (digest → text), cut at `max_chars`."""
    parts = [
        f"Incident {handoff.incident}",
        handoff.headline,
        f"Hosts: {fold_host_names(handoff.hosts) or 'none named'}",
        "",
        "REPORTED",
        handoff.reported,
    ]
    parts += ["", "SUMMARY", handoff.ticket.summary] if handoff.ticket.summary else []
    parts += ["", "DONE", *(format_done_action(remediation, remediation.label) for remediation in handoff.done)] if handoff.done else []
    parts += ["", "TIMELINE (UTC)", *(f"{entry.at:%Y-%m-%d %H:%M:%S}  {entry.what}" for entry in handoff.timeline)]
    parts += ["", "HYPOTHESES", *(line for hypothesis in handoff.hypotheses for line in _format_hypothesis(hypothesis))]
    parts += ["", "COULD NOT LOOK", *(f"{check.host}  {check.check}: {check.why}" for check in handoff.could_not_look)]
    parts += ["", "LOGS", *(line for log in handoff.logs for line in format_log_digest(log))] if handoff.logs else []
    parts += ["", "OUTPUTS", *(f"--- {digest}\n{output}" for digest, output in outputs.items())]
    text = "\n".join(parts)
    omitted = len(text) - max_chars
    return f"{text[:max_chars]}\n… {omitted:,} more characters are in the evidence store" if omitted > 0 else text


def _format_hypothesis(hypothesis: Hypothesis) -> list[str]:
    confidence = format_confidence_percent(hypothesis.confidence)
    places = " ".join(hypothesis.devices or hypothesis.hosts)
    return [
        f"{hypothesis.verdict:<12} {confidence:>4}  {hypothesis.label}  {places}",
        f"    {hypothesis.because}",
        *(f"    {_format_evidence(evidence)}" for evidence in hypothesis.evidence),
    ]


def _format_evidence(evidence: Evidence) -> str:
    text = f"{evidence.host} {evidence.check}: {evidence.line}"
    return f"{evidence.time:%H:%M:%S} {text}" if evidence.time else text
