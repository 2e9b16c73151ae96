"""An incident becomes a ticket: what a human needs to take it over. Pure; reads the stored incident, changes nothing."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from bot.refusal import Refusal
from graph.state import Blind, Brief, Evidence, Hypothesis, Incident, Item, Report, Ticket, Verdict
from tools.hostlist import fold

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
    """Everything a ticket shows. `ticket.taken_by` and `closed_by` are Slack ids until the board puts names there."""

    incident: str
    ticket: Ticket
    summary: str
    hosts: tuple[str, ...] = ()
    hypotheses: tuple[Hypothesis, ...] = ()
    could_not_look: tuple[Blind, ...] = ()
    timeline: tuple[Moment, ...] = ()


def handoff(state: Incident) -> Handoff:
    """The ticket of a stored incident."""
    ticket = Ticket.model_validate(state.get("ticket") or {})
    brief = Brief.model_validate(state.get("brief") or {})
    report = Report.model_validate(state["report"]) if state.get("report") else None
    hypotheses = _in_order([Hypothesis.model_validate(row) for row in state.get("hypotheses", [])])
    return Handoff(
        incident=state.get("id", ""),
        ticket=ticket,
        summary=ticket.summary or (report.headline if report else "") or brief.text[:500] or "No summary was written.",
        hosts=brief.hosts or tuple(sorted({host for h in hypotheses for host in h.hosts})),
        hypotheses=hypotheses,
        could_not_look=report.could_not_look if report else (),
        timeline=_timeline(state, hypotheses),
    )


def _in_order(hypotheses: Sequence[Hypothesis]) -> tuple[Hypothesis, ...]:
    return tuple(sorted(hypotheses, key=lambda h: (VERDICTS.index(h.verdict), -h.confidence, h.label)))


def _timeline(state: Incident, hypotheses: Sequence[Hypothesis]) -> tuple[Moment, ...]:
    moments = [Moment(datetime.fromisoformat(state["opened_at"]), "incident opened")] if state.get("opened_at") else []
    for said in state.get("said", []):
        if said.get("at"):
            words = str(said.get("text", "")).strip().partition("\n")[0]
            moments.append(Moment(datetime.fromisoformat(str(said["at"])), f"someone wrote: {words[:200]}" if words else "a file came in"))
    seen = {(e.time, e.host, e.line) for h in hypotheses if h.verdict != "rejected" for e in h.evidence if e.time}
    moments += [Moment(time, f"{host}: {line}") for time, host, line in seen if time]
    return tuple(sorted(moments, key=lambda moment: (moment.at, moment.what)))


def move(ticket: Ticket, item: Item) -> Ticket:
    """The ticket after somebody took or closed it; a ticket may change hands, and is closed once."""
    if ticket.state == "resolved":
        raise BadMove(f"This incident was closed already, as {ticket.true_label or 'unknown'}. Mention me again to open a new one.")
    if item.kind == "take":
        return ticket.model_copy(update={"state": "taken", "taken_by": item.user})
    if item.kind == "close":
        cause = {"true_label": str(item.data.get("label", "")), "true_cause": str(item.data.get("root_cause", ""))}
        return ticket.model_copy(update={"state": "resolved", "closed_by": item.user, **cause})
    raise BadMove(f"A ticket can be taken or closed, not {item.kind}.")


def evidence_digests(whole: Handoff) -> tuple[str, ...]:
    """The stored outputs that the ticket cites, each once, most telling hypothesis first."""
    return tuple(dict.fromkeys(e.sha256 for h in whole.hypotheses for e in h.evidence if e.sha256))


def evidence_text(whole: Handoff, outputs: Mapping[str, str], most: int = 1_000_000) -> str:
    """The file that goes with the ticket: conclusions, then the outputs behind them, cut at `most` characters."""
    parts = [f"Incident {whole.incident}", whole.summary, f"Hosts: {fold(whole.hosts) or 'none named'}", "", "TIMELINE (UTC)"]
    parts += [f"{moment.at:%Y-%m-%d %H:%M:%S}  {moment.what}" for moment in whole.timeline]
    parts += ["", "HYPOTHESES"]
    for h in whole.hypotheses:
        parts += [f"{h.verdict:<12} {h.confidence:4.0%}  {h.label}  {' '.join(h.devices or h.hosts)}", f"    {h.because}"]
        parts += [f"    {_cite(e)}" for e in h.evidence]
    parts += ["", "COULD NOT LOOK", *(f"{b.host}  {b.check}: {b.why}" for b in whole.could_not_look)]
    parts += [
        "",
        "OUTPUTS",
        *(f"--- {sha}\n{outputs[sha]}" if sha in outputs else f"--- {sha}\n(no longer kept)" for sha in evidence_digests(whole)),
    ]
    text = "\n".join(parts)
    return text if len(text) <= most else f"{text[:most]}\n… {len(text) - most:,} more characters are in the evidence store"


def _cite(e: Evidence) -> str:
    return f"{e.time:%H:%M:%S} {e.host} {e.check}: {e.line}" if e.time else f"{e.host} {e.check}: {e.line}"
