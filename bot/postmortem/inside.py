"""The page for our own people: first what fits one sheet: what happened, the cause and what decided it, what
was tried and who approved it and why, what is held, what is left, when what happened; then an appendix (`appendix`). Pure."""

from collections.abc import Iterator, Sequence

from bot.cards.approvals import words
from bot.cards.incidents import rows as shown
from bot.cards.incidents.home import WORDS as LIFECYCLES
from bot.postmortem import appendix
from bot.postmortem.material import IncidentMaterial, own_words
from bot.postmortem.moments import timeline
from bot.postmortem.page import BulletList, Page, PagePart, PageSection, PageTable, Paragraph, QuotedLines
from graph.ladders.held import held
from graph.reading import counts
from graph.report import Report
from graph.state import Hypothesis
from tools.inventory.ranges import fold
from tools.ledger.record import Record, targets_of
from tools.ledger.states import State

CAUSES, LINES, DOUBTS, ACTIONS, HELD, LEFT = 2, 3, 3, 5, 4, 4
"""How many of each stand on the first page."""
MOST_CAUSES, MOST_ACTIONS, MOST_HELD = 8, 40, 60
"""And in the appendix; the rest is counted."""
CELL, REPORTED = 160, 240
"""Characters of a cell and of what was reported, on the first page."""
TAKE = "Take the ticket."
WAITS = "Waits for a decision"
"""Where a card asks whether to approve it, a page tells that nobody has said."""
OUTCOMES = {
    "diagnosed": "a fault was found",
    "no_fault": "nothing wrong was found",
    "abstained": "no cause was proven",
    "handed_off": "no cause was proven; left to people",
}


def page_for_operators(of: IncidentMaterial) -> Page:
    """The page, not yet clean: `finished` makes it so."""
    report = of.rows.report
    causes, line = report.root_causes if report else (), timeline(of)
    tried, still = _tried(of), _held(of)
    first = (
        PageSection("At a glance", [PageTable((), list(_glance(of)))]),
        PageSection("Root cause", _causes(of, report)),
        PageSection("What was tried", _at_most(tried, ACTIONS)),
        PageSection("Still held", _at_most(still, HELD)),
        PageSection("Left to people", [BulletList(_left(of)[:LEFT])] if _left(of) else []),
        PageSection("Timeline in short" if line.whole else "Timeline", line.short),
    )
    text = of.rows.brief.text.strip()
    beyond = (
        ("What was reported", [QuotedLines(text.split("\n"))] if len(text) > REPORTED or "\n" in text else []),
        ("All causes", _beyond(of, causes)),
        ("All evidence", list(appendix.all_evidence(of, causes[:MOST_CAUSES])) if _longer(causes) else []),
        ("Timeline", line.whole),
        ("All that was tried", tried if len(_rows(tried)) > ACTIONS else []),
        ("Who decided what", appendix.decided(of)),
        ("Commands that ran", [QuotedLines(ran)] if (ran := list(appendix.commands(of.records or ()))) else []),
        ("Fixes", appendix.fixes(of.rows.ladders, of)),
        ("All that is held", still if len(_rows(still)) > HELD else []),
        ("All that is left to people", [BulletList(_left(of))] if len(_left(of)) > LEFT else []),
        ("Pictures", of.figures),
        ("Ruled out", appendix.ruled_out(of, report)),
        ("Not decided", appendix.undecided(of)),
        ("Could not look", appendix.could_not_look(report)),
    )
    headline = (report.headline if report else "").partition(";")[0].strip(" .") or "Not diagnosed yet"
    sections = (*first, *(PageSection(title, parts, appendix=True) for title, parts in beyond))
    return Page(of.rows.id, "operators", f"Incident {of.rows.id}: {headline}", _lead(of), of.made, sections, _notes(of))


def _rows(parts: Sequence[PagePart]) -> list[Sequence[str]]:
    return [row for part in parts if isinstance(part, PageTable) for row in part.rows]


def _at_most(parts: Sequence[PagePart], most: int) -> list[PagePart]:
    """The same with a table's first rows, as much of each as the first page has room for."""
    short: list[PagePart] = []
    for part in parts:
        if isinstance(part, PageTable):
            short.append(PageTable(part.head, [[_clipped(cell) for cell in row] for row in part.rows[:most]]))
            left = len(part.rows) - most
            short += [Paragraph(f"… and {left} more, in the appendix.")] if left > 0 else []
        else:
            short.append(part)
    return short


def _clipped(text: str, most: int = CELL) -> str:
    return text if len(text) <= most else f"{text[:most]}…"


def _longer(causes: Sequence[Hypothesis]) -> bool:
    """Whether there is more evidence than the first page shows."""
    return any(list(appendix.evidence(cause)) != list(appendix.evidence(cause, LINES)) for cause in causes)


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
    yield "Hosts", appendix.hosts(rows.brief.hosts or tuple(sorted({host for one in causes for host in one.hosts})))
    if rows.brief.job:
        yield "Job", rows.brief.job
    by = of.name(origin.user) if origin and origin.user else "not known"
    said = " ".join(rows.brief.text.split())
    yield "Reported by", f"{by}: “{_clipped(said, REPORTED)}”" if said else by
    if origin and origin.tenant:
        yield "Customer", origin.tenant
    yield "On it", of.name(rows.owner or (ticket.taken_by if ticket else "")) if rows.owner or (ticket and ticket.taken_by) else "nobody"
    yield "To the diagnosis", _after(of, of.course.diagnosed if of.course else None)
    yield "To recovery", _after(of, of.course.recovered if of.course else None)
    if rows.stats.checks:
        yield "Looked at", _cost(of)


def _by(of: IncidentMaterial, user: str) -> str:
    return f"by {of.name(user)}" if user else ""


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
        said = [Paragraph(report.headline)] if report and report.headline else []
        return [Paragraph(_nothing(report), strong=True), *said, *appendix.undecided(of, DOUBTS)]
    parts = [part for cause in found[:CAUSES] for part in _cause(of, cause)]
    rest = len(found) - CAUSES
    return [*parts, *([Paragraph(f"… and {rest} more, in the appendix.")] if rest > 0 else [])]


def _beyond(of: IncidentMaterial, causes: Sequence[Hypothesis]) -> list[PagePart]:
    """The causes for which the first page has no room."""
    if len(causes) <= CAUSES:
        return []
    parts = [part for cause in causes[CAUSES:MOST_CAUSES] for part in _cause(of, cause)]
    rest = len(causes) - MOST_CAUSES
    return [*parts, *([Paragraph(f"… and {rest} more.")] if rest > 0 else [])]


def _nothing(report: Report | None) -> str:
    if report is None:
        return "Nothing was concluded yet."
    return "Nothing wrong was found." if report.outcome == "no_fault" else "No cause was proven."


def _cause(of: IncidentMaterial, cause: Hypothesis) -> Iterator[PagePart]:
    where = ", ".join(cause.devices) if 0 < len(cause.devices) <= 8 else fold(cause.hosts) or "no machine at fault"
    yield Paragraph(f"{shown.title(cause.label, of.titles)} · {where} · {counts.sure(cause.confidence)} sure", strong=True)
    yield Paragraph(f"{cause.label}{f': {cause.because}' if cause.because else ''}")
    if lines := list(appendix.evidence(cause, LINES)):
        yield QuotedLines(lines)


def _tried(of: IncidentMaterial) -> list[PagePart]:
    """Actions that are alike and ended alike share a row."""
    if of.records is None:
        return [Paragraph("Not known: the ledger could not be read.")]
    alike: dict[tuple[str, str, str, str], list[Record]] = {}
    for row in of.records:
        key = (row.action.remedy, words.standing(row)[1], str(row.exit_status), _deciders(of, row))
        alike.setdefault(key, []).append(row)
    rows = [_action(many, decided) for (_, _, _, decided), many in list(alike.items())[:MOST_ACTIONS]]
    head = ("What", "Where", "What became of it", "Who approved it, and why")
    return [PageTable(head, rows)] if rows else [Paragraph("Nothing was put up for decision.")]


def _action(alike: Sequence[Record], decided: str) -> tuple[str, str, str, str]:
    first = alike[0]
    stands = WAITS if first.state is State.PENDING else words.state_of(first)[1].removesuffix(":")
    came = ". ".join(filter(None, (stands, _exit(first), words.proved(first))))
    where = words.folded(sorted({host for row in alike for host in targets_of(row.action)}))
    return words.does_each([row.action for row in alike]), where, came, decided


def _exit(row: Record) -> str:
    return f"exit {row.exit_status}" if row.exit_status else ""


def _deciders(of: IncidentMaterial, row: Record) -> str:
    """Who approved or rejected it, and why; what nobody did is told by its state."""
    approved = [f"{of.name(vote.voter)}{_why(vote.reason)}" for vote in row.votes if vote.verdict == "approve"]
    against = [f"rejected by {of.name(vote.voter)}{_why(vote.reason)}" for vote in row.votes if vote.verdict == "deny"]
    ended = [f"{words.WORDS[row.state]} by {of.name(row.ended_by)}{_why(row.says)}"] if own_words(row) and not against else []
    return "; ".join((*approved, *against, *ended)) or ("nobody yet" if row.state is State.PENDING else "nobody")


def _why(reason: str) -> str:
    return f": “{' '.join(reason.split())}”" if reason.strip() else ""


def _held(of: IncidentMaterial) -> list[PagePart]:
    alike: dict[tuple[str, str, str], list[str]] = {}
    for one in held(of.rows.ladders):
        since = f"{one.since:%Y-%m-%d %H:%M}" if one.since else "not known"
        alike.setdefault((since, one.by or "not noted", (one.no_return or one.why).replace(one.host, "the host")), []).append(one.host)
    rows = [(fold(hosts), *row) for row, hosts in list(alike.items())[:MOST_HELD]]
    locked = [f"{row.target} is locked: nobody knows whether {row.approval} ran" for row in of.rows.ladders if row.outcome == "unknown"]
    parts: list[PagePart] = [PageTable(("Out of service", "Since (UTC)", "Approved by", "Where it stands"), rows)] if rows else []
    parts += [Paragraph(f"… and {len(alike) - MOST_HELD} more.")] if len(alike) > MOST_HELD else []
    return [*parts, *([BulletList(locked)] if locked else [])] or [Paragraph("Nothing.")]


def _left(of: IncidentMaterial) -> list[str]:
    """What is still to do: no step that was taken, and no ticket that somebody has."""
    report, ticket = of.rows.report, of.rows.ticket
    over = of.rows.lifecycle in ("watching", "closed")
    rows = ["" if over else report.next_step, *report.by_hand, *report.questions] if report else []
    done = {TAKE} if ticket and ticket.taken_by else set[str]()
    return list(dict.fromkeys(row for row in rows if row and row not in done))


def _notes(of: IncidentMaterial) -> list[str]:
    made = f"Made by RackMedic on {of.made:%Y-%m-%d %H:%M:%S} UTC; all times are UTC. Quoted lines are as machines and people wrote them."
    past = (
        [] if of.history.whole else ["The audit log was not read back to where this incident began: moments of its actions may be missing."]
    )
    open_now = [] if of.rows.lifecycle == "closed" else ["The incident is not closed: this is how it stood then."]
    return [made, *open_now, *past, *of.unread]
