"""An incident becomes a ticket: what a human needs to take it over. Pure; reads the stored incident, changes nothing."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from bot.refusal import Refusal
from graph.ladders.ends import does
from graph.ladders.held import Held, held
from graph.reading.counts import sure
from graph.reading.logs import in_words
from graph.rows import IncidentRows
from graph.state import Blind, Evidence, Hypothesis, Incident, Ladder, LogDigest, Ticket, Verdict
from tools.fact import Fact
from tools.inventory.ranges import fold

VERDICTS: tuple[Verdict, ...] = ("confirmed", "inconclusive", "open", "rejected")
"""In the order a human wants to read them."""


class BadMove(Refusal):
    """The ticket is not in a state from which this can be done."""


@dataclass(frozen=True, slots=True)
class Moment:
    """One row of the timeline."""

    at: datetime
    what: str


@dataclass(frozen=True, slots=True)
class Handoff:
    """Everything that a ticket, its details and its file show."""

    incident: str
    ticket: Ticket
    """`taken_by` and `closed_by` are Slack ids until the board puts names there."""
    headline: str
    reported: str = ""
    hosts: tuple[str, ...] = ()
    hypotheses: tuple[Hypothesis, ...] = ()
    could_not_look: tuple[Blind, ...] = ()
    timeline: tuple[Moment, ...] = ()
    logs: tuple[LogDigest, ...] = ()
    """All that is kept of the logs; a card shows a handful."""
    held: tuple[Held, ...] = ()
    """Nodes that we drained and that are not back."""
    done: tuple[Ladder, ...] = ()
    """Fixes that changed a host, oldest first: those that passed their proof, and those of which that is not known."""
    item: str = ""
    """The report that it was handed over with; empty where there is none."""


def handoff(state: Incident) -> Handoff:
    """The ticket of a stored incident."""
    rows = IncidentRows(state)
    report, hypotheses = rows.report, _hypotheses(rows)
    return Handoff(
        incident=rows.id,
        ticket=rows.ticket or Ticket(),
        headline=(report.headline if report else "") or "Not diagnosed.",
        reported=rows.brief.text,
        hosts=rows.brief.hosts or tuple(sorted({host for h in hypotheses for host in h.hosts})),
        hypotheses=hypotheses,
        could_not_look=report.could_not_look if report else (),
        timeline=_timeline(rows, hypotheses),
        logs=_logs(rows),
        held=tuple(held(rows.ladders)),
        done=tuple(row for row in rows.ladders if row.proven or row.since),
        item=report.item if report else "",
    )


def done_in_words(ladder: Ladder, title: str) -> str:
    """`Clock skew on gpu-002: start chrony … by an approved action at 02:13 UTC; its proof passed`."""
    fixes = [rung for rung in ladder.rungs[: ladder.rung + 1] if rung.part == "fix"]
    what = "; ".join(dict.fromkeys(does(ladder.model_copy(update={"rung": ladder.rungs.index(rung)})) for rung in fixes[-2:]))
    when = f" at {ladder.since:%H:%M} UTC" if ladder.since else ""
    passed = "its proof passed" if ladder.proven else "not proved"
    return f"{title} on {fold(ladder.target.split(','))}: {what or 'changed'}, by an approved action{when}; {passed}"


def timeline(rows: IncidentRows) -> tuple[Moment, ...]:
    """What happened when, oldest first: what people wrote, and what the evidence of its hypotheses says."""
    return _timeline(rows, _hypotheses(rows))


def _hypotheses(rows: IncidentRows) -> tuple[Hypothesis, ...]:
    """Each label once, with its evidence where the report cites it, in the order a human wants to read them."""
    report = rows.report
    found = {h.label: h for h in (*(report.ruled_out if report else ()), *rows.hypotheses, *(report.root_causes if report else ()))}
    return tuple(sorted(found.values(), key=lambda h: (VERDICTS.index(h.verdict), -h.confidence, h.label)))


def _logs(rows: IncidentRows) -> tuple[LogDigest, ...]:
    """Those that were handed in, whole, then the others that the report shows."""
    known = {row.name for row in rows.logs}
    return (*rows.logs, *(row for row in (rows.report.logs if rows.report else ()) if row.name not in known))


def _timeline(rows: IncidentRows, hypotheses: Sequence[Hypothesis]) -> tuple[Moment, ...]:
    moments = [Moment(rows.opened_at, "incident opened")] if rows.opened_at else []
    for said in rows.said:
        if said.get("at"):
            words = str(said.get("text", "")).strip().partition("\n")[0]
            moments.append(Moment(datetime.fromisoformat(str(said["at"])), f"someone wrote: {words[:200]}" if words else "a file came in"))
    seen = {(e.time, e.host, e.line) for h in hypotheses for e in h.evidence if e.time}
    moments += [Moment(time, f"{host}: {line}") for time, host, line in seen if time]
    return tuple(sorted(moments, key=lambda moment: (moment.at, moment.what)))


def allow(ticket: Ticket, does: str) -> None:
    """A ticket may change hands, and is closed once."""
    if ticket.state == "resolved" and does in ("take", "wait", "close", "close_form"):
        raise BadMove(f"This incident was closed already, as {ticket.true_label or 'unknown'}. Mention me again to open it anew.")


def digests(whole: Handoff, facts: Sequence[Fact]) -> tuple[str, ...]:
    """The stored outputs behind the ticket, each once: those that the conclusions cite, then whatever else was read."""
    cited = [e.sha256 for h in whole.hypotheses for e in h.evidence]
    return tuple(dict.fromkeys(sha for sha in (*cited, *(fact.sha256 for fact in facts)) if sha))


def evidence_text(whole: Handoff, outputs: Mapping[str, str], most: int = 1_000_000) -> str:
    """The file that goes with the ticket: conclusions, then the outputs behind them (digest → text), cut at `most` characters."""
    parts = [f"Incident {whole.incident}", whole.headline, f"Hosts: {fold(whole.hosts) or 'none named'}", "", "REPORTED", whole.reported]
    parts += ["", "SUMMARY", whole.ticket.summary] if whole.ticket.summary else []
    parts += ["", "DONE", *(done_in_words(row, row.label) for row in whole.done)] if whole.done else []
    parts += ["", "TIMELINE (UTC)", *(f"{moment.at:%Y-%m-%d %H:%M:%S}  {moment.what}" for moment in whole.timeline)]
    parts += ["", "HYPOTHESES", *(line for h in whole.hypotheses for line in _tried(h))]
    parts += ["", "COULD NOT LOOK", *(f"{b.host}  {b.check}: {b.why}" for b in whole.could_not_look)]
    parts += ["", "LOGS", *(line for log in whole.logs for line in in_words(log))] if whole.logs else []
    parts += ["", "OUTPUTS", *(f"--- {sha}\n{text}" for sha, text in outputs.items())]
    text = "\n".join(parts)
    return text if len(text) <= most else f"{text[:most]}\n… {len(text) - most:,} more characters are in the evidence store"


def _tried(h: Hypothesis) -> list[str]:
    cited = [f"    {_cite(e)}" for e in h.evidence]
    return [f"{h.verdict:<12} {sure(h.confidence):>4}  {h.label}  {' '.join(h.devices or h.hosts)}", f"    {h.because}", *cited]


def _cite(e: Evidence) -> str:
    return f"{e.time:%H:%M:%S} {e.host} {e.check}: {e.line}" if e.time else f"{e.host} {e.check}: {e.line}"
