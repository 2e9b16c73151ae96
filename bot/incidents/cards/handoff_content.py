"""The ticket of an incident, with all that a person needs to take over. Pure."""

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
    logs: tuple[LogDigest, ...] = ()  # all that are kept; a card shows a few
    held: tuple[DrainedNode, ...] = ()  # nodes that RackMedic drained and that are not back
    # Remediations that changed a host, oldest first: proven ones, and those with unknown result.
    done: tuple[Remediation, ...] = ()
    item: str = ""  # the report of the hand-off; empty where there is none


def build_handoff(state: IncidentState) -> Handoff:
    rows = IncidentView(state)
    report, hypotheses = rows.report, _list_hypotheses(rows)
    return Handoff(
        incident=rows.id,
        ticket=rows.ticket or HandoffTicket(),
        headline=(report.headline if report else "") or "Not diagnosed.",
        reported=rows.brief.text,
        hosts=rows.brief.hosts or tuple(sorted({host for h in hypotheses for host in h.hosts})),
        hypotheses=hypotheses,
        could_not_look=report.could_not_look if report else (),
        timeline=_build_timeline_entries(rows, hypotheses),
        logs=_list_logs(rows),
        held=tuple(list_drained_nodes(rows.remediations)),
        done=tuple(row for row in rows.remediations if row.proven or row.since),
        item=report.item if report else "",
    )


def format_done_action(remediation: Remediation, title: str) -> str:
    """Return for example `Clock skew on gpu-002: start chrony … by an approved action at 02:13 UTC; verified`."""
    fixes = [step for step in remediation.rungs[: remediation.rung + 1] if step.part == "fix"]
    description = "; ".join(
        dict.fromkeys(format_current_step(remediation.model_copy(update={"rung": remediation.rungs.index(step)})) for step in fixes[-2:])
    )
    when = f" at {remediation.since:%H:%M} UTC" if remediation.since else ""
    passed = "verified" if remediation.proven else "not verified"
    return f"{title} on {fold_host_names(remediation.target.split(','))}: {description or 'changed'}, by an approved action{when}; {passed}"


def build_timeline(incident_view: IncidentView) -> tuple[TimelineEntry, ...]:
    """Return people's messages and timed evidence, oldest first."""
    return _build_timeline_entries(incident_view, _list_hypotheses(incident_view))


def _list_hypotheses(incident_view: IncidentView) -> tuple[Hypothesis, ...]:
    """Return each label once, with the report's evidence where cited."""
    report = incident_view.report
    hypothesis_by_label = {
        h.label: h for h in (*(report.ruled_out if report else ()), *incident_view.hypotheses, *(report.root_causes if report else ()))
    }
    return tuple(sorted(hypothesis_by_label.values(), key=lambda h: (VERDICT_ORDER.index(h.verdict), -h.confidence, h.label)))


def _list_logs(incident_view: IncidentView) -> tuple[LogDigest, ...]:
    """Return uploaded logs, then those of the report."""
    log_names = {row.name for row in incident_view.logs}
    return (*incident_view.logs, *(row for row in (incident_view.report.logs if incident_view.report else ()) if row.name not in log_names))


def _build_timeline_entries(incident_view: IncidentView, hypotheses: Sequence[Hypothesis]) -> tuple[TimelineEntry, ...]:
    moments = [TimelineEntry(incident_view.opened_at, "incident opened")] if incident_view.opened_at else []
    for message in incident_view.messages:
        if message.get("at"):
            words = str(message.get("text", "")).strip().partition("\n")[0]
            moments.append(
                TimelineEntry(datetime.fromisoformat(str(message["at"])), f"someone wrote: {words[:200]}" if words else "a file came in")
            )
    shown_evidence = {(e.time, e.host, e.line) for h in hypotheses for e in h.evidence if e.time}
    moments += [TimelineEntry(time, f"{host}: {line}") for time, host, line in shown_evidence if time]
    return tuple(sorted(moments, key=lambda moment: (moment.at, moment.what)))


def require_unresolved_ticket(ticket: HandoffTicket, does: str) -> None:
    """Raise InvalidTicketChange for a resolved ticket."""
    if ticket.state == "resolved" and does in ("take", "wait", "close", "close_form"):
        raise InvalidTicketChange(f"This incident was closed already, as {ticket.true_label or 'unknown'}. Mention me to open it again.")


def list_output_digests(handoff: Handoff, facts: Sequence[Fact]) -> tuple[str, ...]:
    """Return the digests of stored outputs, cited ones first."""
    digests = [e.sha256 for h in handoff.hypotheses for e in h.evidence]
    return tuple(dict.fromkeys(sha for sha in (*digests, *(fact.sha256 for fact in facts)) if sha))


def format_evidence_file(handoff: Handoff, outputs: Mapping[str, str], most: int = 1_000_000) -> str:
    """Return conclusions, then outputs (digest → text), cut at `most` characters."""
    parts = [
        f"Incident {handoff.incident}",
        handoff.headline,
        f"Hosts: {fold_host_names(handoff.hosts) or 'none named'}",
        "",
        "REPORTED",
        handoff.reported,
    ]
    parts += ["", "SUMMARY", handoff.ticket.summary] if handoff.ticket.summary else []
    parts += ["", "DONE", *(format_done_action(row, row.label) for row in handoff.done)] if handoff.done else []
    parts += ["", "TIMELINE (UTC)", *(f"{moment.at:%Y-%m-%d %H:%M:%S}  {moment.what}" for moment in handoff.timeline)]
    parts += ["", "HYPOTHESES", *(line for h in handoff.hypotheses for line in _format_hypothesis(h))]
    parts += ["", "COULD NOT LOOK", *(f"{b.host}  {b.check}: {b.why}" for b in handoff.could_not_look)]
    parts += ["", "LOGS", *(line for log in handoff.logs for line in format_log_digest(log))] if handoff.logs else []
    parts += ["", "OUTPUTS", *(f"--- {sha}\n{text}" for sha, text in outputs.items())]
    text = "\n".join(parts)
    return text if len(text) <= most else f"{text[:most]}\n… {len(text) - most:,} more characters are in the evidence store"


def _format_hypothesis(hypothesis: Hypothesis) -> list[str]:
    citations = [f"    {_format_evidence(e)}" for e in hypothesis.evidence]
    return [
        f"{hypothesis.verdict:<12} {format_confidence_percent(hypothesis.confidence):>4}  {hypothesis.label}  {' '.join(hypothesis.devices or hypothesis.hosts)}",
        f"    {hypothesis.because}",
        *citations,
    ]


def _format_evidence(e: Evidence) -> str:
    return f"{e.time:%H:%M:%S} {e.host} {e.check}: {e.line}" if e.time else f"{e.host} {e.check}: {e.line}"
