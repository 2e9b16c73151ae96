"""The page for our own people: what was wrong and what shows it, what was tried, who decided what and why, what is held, what is left. Pure."""

import shlex
from collections.abc import Iterator, Sequence
from datetime import datetime

from bot.cards.approvals import words
from bot.cards.incidents import rows as shown
from bot.cards.incidents.handoff import VERDICTS
from bot.cards.incidents.home import WORDS as LIFECYCLES
from bot.postmortem.material import IncidentMaterial
from bot.postmortem.moments import doing, timeline
from bot.postmortem.page import BulletList, Page, PagePart, PageSection, PageTable, Paragraph, QuotedLines
from graph.ladders.held import held
from graph.reading import counts
from graph.report import Report
from graph.state import Blind, Evidence, Hypothesis, Ladder
from kb.scan import zeroed
from tools.inventory.ranges import fold
from tools.ledger.record import Record, requesters_of
from tools.ledger.states import State

CAUSES, LINES, RULED_OUT, BLIND, ACTIONS, VOTES, HELD = 8, 12, 15, 12, 40, 60, 60
"""How many of each are shown; the rest is counted."""
HOSTS = 600
"""Characters of a list of hosts."""
WAITS = "Waits for a decision"
"""Where a card asks whether to approve it, a page tells that nobody has said."""
OUTCOMES = {
    "diagnosed": "a fault was found",
    "no_fault": "nothing wrong was found",
    "abstained": "no cause was proven",
    "handed_off": "left to people",
}


def page_for_operators(of: IncidentMaterial) -> Page:
    """The page, not yet clean: `finished` makes it so."""
    report = of.rows.report
    sections = (
        PageSection("At a glance", [PageTable((), list(_glance(of)))]),
        PageSection("What was reported", [QuotedLines(of.rows.brief.text.split("\n"))] if of.rows.brief.text.strip() else []),
        PageSection("Root cause", _causes(of, report)),
        PageSection("Timeline", timeline(of)),
        PageSection("What was tried", _tried(of)),
        PageSection("Who decided what", _decided(of)),
        PageSection("Still held", _held(of)),
        PageSection("Left to people", _left(report)),
        PageSection("Pictures", of.figures),
        PageSection("Ruled out", _ruled_out(of, report)),
        PageSection("Could not look", _blind(report)),
    )
    headline = (report.headline if report else "") or "Not diagnosed yet"
    return Page(of.rows.id, "operators", f"Incident {of.rows.id}: {headline}", _lead(of), of.made, sections, _notes(of))


def _lead(of: IncidentMaterial) -> str:
    opened = f"opened {of.rows.opened_at:%Y-%m-%d %H:%M} UTC, " if of.rows.opened_at else ""
    return f"{opened}{LIFECYCLES[of.rows.lifecycle]}"


def _glance(of: IncidentMaterial) -> Iterator[tuple[str, str]]:
    rows, report, ticket = of.rows, of.rows.report, of.rows.ticket
    origin, causes = rows.origin, report.root_causes if report else ()
    yield "State", LIFECYCLES[rows.lifecycle]
    yield "Found", "; ".join(shown.title(one.label, of.titles) for one in causes) or (OUTCOMES[report.outcome] if report else "nothing yet")
    if ticket and ticket.true_label:
        yield (
            "It really was",
            " · ".join(filter(None, (shown.title(ticket.true_label, of.titles), ticket.true_cause, _by(of, ticket.closed_by)))),
        )
    if rows.correction:
        word = rows.correction
        yield "It really was", " · ".join(filter(None, (shown.title(word.label, of.titles), word.words, _by(of, word.by))))
    yield "Hosts", _hosts(rows.brief.hosts or tuple(sorted({host for one in causes for host in one.hosts})))
    if rows.brief.job:
        yield "Job", rows.brief.job
    yield "Reported by", of.name(origin.user) if origin and origin.user else "not known"
    if origin and origin.tenant:
        yield "Customer", origin.tenant
    yield "On it", of.name(rows.owner or (ticket.taken_by if ticket else "")) if rows.owner or (ticket and ticket.taken_by) else "nobody"
    yield "To the diagnosis", _after(of, of.course.diagnosed if of.course else None)
    yield "To recovery", _after(of, of.course.recovered if of.course else None)
    if rows.stats.checks:
        yield "Looked at", _cost(of)


def _by(of: IncidentMaterial, user: str) -> str:
    return f"by {of.name(user)}" if user else ""


def _hosts(names: Sequence[str]) -> str:
    said = fold(names)
    return "none named" if not said else said if len(said) <= HOSTS else f"{said[:HOSTS]}… ({len(set(names))} hosts)"


def _after(of: IncidentMaterial, seconds: float | None) -> str:
    if of.course is None:
        return "not known"
    return "not yet" if seconds is None else f"{duration(seconds)} after it was opened"


def duration(seconds: float) -> str:
    """`42 s`, `12 min`, `3 h 5 min`, `2 d 4 h`."""
    whole = round(seconds)
    for unit, length, lower, part in (("d", 86_400, "h", 3600), ("h", 3600, "min", 60), ("min", 60, "", 1)):
        if whole >= 2 * length or (unit != "min" and whole >= length):
            rest = whole % length // part
            return f"{whole // length} {unit}" + (f" {rest} {lower}" if lower and rest else "")
    return f"{whole} s"


def _cost(of: IncidentMaterial) -> str:
    stats = of.rows.stats
    model = f"; {stats.model_calls} questions to a model, ${stats.usd:.3f}" if stats.model_calls else "; without a model"
    return f"{counts.cost(stats)}{model}"


def _causes(of: IncidentMaterial, report: Report | None) -> list[PagePart]:
    found = report.root_causes if report else ()
    if report is None or not found:
        return [Paragraph(_nothing(report), strong=True), *_undecided(of)]
    parts = [part for cause in found[:CAUSES] for part in _cause(of, cause)]
    rest = len(found) - CAUSES
    return [*parts, *([Paragraph(f"… and {rest} more causes.")] if rest > 0 else [])]


def _nothing(report: Report | None) -> str:
    if report is None:
        return "Nothing was concluded yet."
    return "Nothing wrong was found." if report.outcome == "no_fault" else "No cause was proven."


def _cause(of: IncidentMaterial, cause: Hypothesis) -> Iterator[PagePart]:
    where = ", ".join(cause.devices) if 0 < len(cause.devices) <= 8 else fold(cause.hosts) or "no machine at fault"
    yield Paragraph(f"{shown.title(cause.label, of.titles)} · {where} · {counts.sure(cause.confidence)} sure", strong=True)
    yield Paragraph(f"{cause.label}{f': {cause.because}' if cause.because else ''}")
    if lines := list(_evidence(cause.evidence)):
        yield QuotedLines(lines)


def _evidence(rows: Sequence[Evidence]) -> Iterator[str]:
    """As it was printed: where, then the line; lines that differ in their numbers alone are shown once, with all their hosts."""
    alike: dict[tuple[str, str], list[Evidence]] = {}
    for row in rows:
        alike.setdefault((row.check, zeroed(row.line.strip())), []).append(row)
    for (check, _), many in list(alike.items())[:LINES]:
        times = [row.time for row in many if row.time]
        yield f"{fold({row.host for row in many if row.host}) or 'ticket'} · {check}{f' · {min(times):%Y-%m-%d %H:%M:%S}' if times else ''}"
        yield f"  {many[0].line.strip()}{f'   (and {len(many) - 1} alike)' if len(many) > 1 else ''}"
    yield from _more(len(alike) - LINES)


def _undecided(of: IncidentMaterial) -> list[PagePart]:
    doubts = [row for row in of.rows.hypotheses if row.verdict in ("open", "inconclusive")]
    ordered = sorted(doubts, key=lambda row: (VERDICTS.index(row.verdict), -row.confidence, row.label))
    named = [f"{shown.title(row.label, of.titles)}: {row.because or 'nothing decides it'}" for row in ordered[:RULED_OUT]]
    return [Paragraph("Not decided:"), BulletList(named)] if named else []


def _ruled_out(of: IncidentMaterial, report: Report | None) -> list[PagePart]:
    found = report.ruled_out if report else ()
    rows = [f"{shown.title(row.label, of.titles)}: {row.because or 'nothing shows it'}" for row in found[:RULED_OUT]]
    return [BulletList([*rows, *_more(len(found) - RULED_OUT)])] if rows else []


def _blind(report: Report | None) -> list[PagePart]:
    grouped: dict[tuple[str, str], list[Blind]] = {}
    for row in report.could_not_look if report else ():
        grouped.setdefault((row.check, row.why), []).append(row)
    rows = [f"{_hosts([one.host for one in many])} · {check}: {why}" for (check, why), many in list(grouped.items())[:BLIND]]
    return [BulletList([*rows, *_more(len(grouped) - BLIND)])] if rows else []


def _more(rest: int) -> list[str]:
    return [f"… and {rest} more"] if rest > 0 else []


def _tried(of: IncidentMaterial) -> list[PagePart]:
    """Actions that are alike and ended alike share a row."""
    if of.records is None:
        return [Paragraph("Not known: the ledger could not be read.")]
    alike: dict[tuple[str, str, str, str, str], list[Record]] = {}
    for row in of.records:
        key = (row.action.remedy, words.standing(row)[1], str(row.exit_status), _deciders(of, row), row.says if _own_words(row) else "")
        alike.setdefault(key, []).append(row)
    rows = [_action(many, decided) for (_, _, _, decided, _), many in list(alike.items())[:ACTIONS]]
    parts: list[PagePart] = [PageTable(("What", "Where", "What became of it", "Approved by"), rows)] if rows else []
    parts += [QuotedLines(commands)] if (commands := [*_commands(of.records)]) else []
    return [*parts, *_ladders(of.rows.ladders, of)] or [Paragraph("Nothing was put up for decision.")]


def _own_words(row: Record) -> bool:
    return bool(row.ended_by) and ":" in row.ended_by


def _action(alike: Sequence[Record], decided: str) -> tuple[str, str, str, str]:
    first = alike[0]
    stands = WAITS if first.state is State.PENDING else words.state_of(first)[1].removesuffix(":")
    came = ". ".join(filter(None, (stands, _exit(first), words.proved(first))))
    where = words.folded(sorted({row.action.target for row in alike}))
    return words.does_each([row.action for row in alike]), where, came, decided


def _exit(row: Record) -> str:
    return f"exit {row.exit_status}" if row.exit_status else ""


def _deciders(of: IncidentMaterial, row: Record) -> str:
    """Who approved it, whoever stood for whom; what nobody did is told by its state."""
    named = [_voice(of, row, vote.voter) for vote in row.votes if vote.verdict == "approve"]
    return ", ".join(named) or ("nobody yet" if row.state is State.PENDING else "nobody")


def _voice(of: IncidentMaterial, row: Record, voter: str) -> str:
    right = row.terms.right_of(voter)
    return of.name(voter) if right == voter else f"{of.name(voter)} for {of.name(right)}"


def _commands(records: Sequence[Record]) -> Iterator[str]:
    """Each command once, and on how many machines; what was never run is none."""
    ran: dict[str, set[str]] = {}
    for row in records:
        if row.start_by is not None:
            ran.setdefault(shlex.join(row.action.command), set()).add(row.action.via)
    for command, hosts in list(ran.items())[:LINES]:
        yield f"{fold(hosts)}: {command}"
    yield from _more(len(ran) - LINES)


def _ladders(ladders: Sequence[Ladder], of: IncidentMaterial) -> list[PagePart]:
    """Where the fixes stand, in sentences; those that stand alike together."""
    alike: dict[tuple[str, str], set[str]] = {}
    for row in ladders:
        said = row.says.replace(row.target, "the host") if row.says else row.outcome or "goes on"
        alike.setdefault((shown.title(row.label, of.titles), said), set()).add(row.target)
    rows = [(f"{title} on {fold(hosts)}", said) for (title, said), hosts in list(alike.items())[:ACTIONS]]
    return [PageTable(("Fix", "Where it stands"), rows)] if rows else []


def _decided(of: IncidentMaterial) -> list[PagePart]:
    """Each word of a person about what, and why; one press about several is one row."""
    alike: dict[tuple[datetime, str, str, str, str], list[Record]] = {}
    for row in of.records or ():
        for at, who, what, why in _words_of(of, row):
            alike.setdefault((at, who, what, why, row.action.remedy), []).append(row)
    ordered = sorted(alike.items(), key=lambda one: one[0])
    rows = [(f"{at:%Y-%m-%d %H:%M:%S}", who, f"{what}: {doing(many)}", why) for (at, who, what, why, _), many in ordered[:VOTES]]
    more = [Paragraph(f"… and {len(ordered) - VOTES} more decisions.")] if len(ordered) > VOTES else []
    return [PageTable(("Time (UTC)", "Who", "Decision", "Why"), rows), *more] if rows else []


def _words_of(of: IncidentMaterial, row: Record) -> Iterator[tuple[datetime, str, str, str]]:
    for requester in sorted(requesters_of(row.action)):
        yield row.proposed_at.replace(microsecond=0), of.name(requester), "asked for it", row.terms.break_glass
    for vote in row.votes:
        at = datetime.fromisoformat(vote.at).replace(microsecond=0)
        yield at, _voice(of, row, vote.voter), "approved" if vote.verdict == "approve" else "rejected", vote.reason
    if _own_words(row) and not any(vote.verdict == "deny" for vote in row.votes):
        ended = next((one.at for one in reversed(of.history.events) if one.approval == row.approval), row.decide_by)
        yield ended.replace(microsecond=0), of.name(row.ended_by), words.WORDS[row.state], row.says


def _held(of: IncidentMaterial) -> list[PagePart]:
    alike: dict[tuple[str, str, str], list[str]] = {}
    for one in held(of.rows.ladders):
        since = f"{one.since:%Y-%m-%d %H:%M}" if one.since else "not known"
        alike.setdefault((since, one.by or "not noted", (one.no_return or one.why).replace(one.host, "the host")), []).append(one.host)
    rows = [(fold(hosts), *row) for row, hosts in list(alike.items())[:HELD]]
    locked = [f"{row.target} is locked: nobody knows whether {row.approval} ran" for row in of.rows.ladders if row.outcome == "unknown"]
    parts: list[PagePart] = [PageTable(("Out of service", "Since (UTC)", "Approved by", "Where it stands"), rows)] if rows else []
    parts += [Paragraph(f"… and {len(alike) - HELD} more.")] if len(alike) > HELD else []
    return [*parts, *([BulletList(locked)] if locked else [])] or [Paragraph("Nothing.")]


def _left(report: Report | None) -> list[PagePart]:
    rows = [report.next_step, *report.by_hand, *report.questions] if report else []
    return [BulletList(list(dict.fromkeys(row for row in rows if row)))] if any(rows) else []


def _notes(of: IncidentMaterial) -> list[str]:
    made = f"Made by RackMedic on {of.made:%Y-%m-%d %H:%M:%S} UTC; all times are UTC. Quoted lines are as machines and people wrote them."
    past = (
        [] if of.history.whole else ["The audit log was not read back to where this incident began: moments of its actions may be missing."]
    )
    open_now = [] if of.rows.lifecycle == "closed" else ["The incident is not closed: this is how it stood then."]
    return [made, *open_now, *past, *of.unread]
