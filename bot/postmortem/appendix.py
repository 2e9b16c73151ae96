"""What does not fit the first page: all evidence, all that was tried and decided, what was ruled out and why, what nobody could look at. Pure."""

import shlex
from collections.abc import Iterator, Sequence
from datetime import datetime

from bot.cards.approvals import words
from bot.cards.incidents import rows as shown
from bot.cards.incidents.handoff import VERDICTS
from bot.postmortem.material import IncidentMaterial, own_words
from bot.postmortem.moments import doing
from bot.postmortem.page import BulletList, PagePart, PageTable, Paragraph, QuotedLines
from graph.report import Report
from graph.state import Blind, Evidence, Hypothesis, Ladder
from kb.scan import zeroed
from tools.inventory.ranges import fold
from tools.ledger.record import Record, requesters_of

LINES, RULED_OUT, BLIND, LADDERS, VOTES = 12, 15, 12, 40, 60
"""How many of each are shown; the rest is counted."""
HOSTS = 600
"""Characters of a list of hosts."""


def more(rest: int) -> list[str]:
    """That there are more."""
    return [f"… and {rest} more"] if rest > 0 else []


def hosts(names: Sequence[str]) -> str:
    """Folded, and bounded."""
    said = fold(names)
    return "none named" if not said else said if len(said) <= HOSTS else f"{said[:HOSTS]}… ({len(set(names))} hosts)"


def evidence(cause: Hypothesis, most: int = LINES) -> Iterator[str]:
    """As it was printed, what decided first: where, then the line; lines that differ in their numbers alone are shown once, with all their hosts."""
    alike: dict[tuple[str, str], list[Evidence]] = {}
    for row in sorted(cause.evidence, key=lambda one: one.says != cause.because):
        alike.setdefault((row.check, zeroed(row.line.strip())), []).append(row)
    for (check, _), many in list(alike.items())[:most]:
        times = [row.time for row in many if row.time]
        yield f"{fold({row.host for row in many if row.host}) or 'ticket'} · {check}{f' · {min(times):%Y-%m-%d %H:%M:%S}' if times else ''}"
        yield f"  {many[0].line.strip()}{f'   (and {len(many) - 1} alike)' if len(many) > 1 else ''}"
    yield from more(len(alike) - most)


def all_evidence(of: IncidentMaterial, causes: Sequence[Hypothesis]) -> Iterator[PagePart]:
    """Every line that proves a cause."""
    for cause in causes:
        if lines := list(evidence(cause)):
            yield Paragraph(shown.title(cause.label, of.titles), strong=True)
            yield QuotedLines(lines)


def undecided(of: IncidentMaterial, most: int = RULED_OUT) -> list[PagePart]:
    """What nothing proves and nothing rules out."""
    doubts = [row for row in of.rows.hypotheses if row.verdict in ("open", "inconclusive")]
    ordered = sorted(doubts, key=lambda row: (VERDICTS.index(row.verdict), -row.confidence, row.label))
    named = [f"{shown.title(row.label, of.titles)}: {row.because or 'nothing decides it'}" for row in ordered[:most]]
    return [BulletList([*named, *more(len(ordered) - most)])] if named else []


def ruled_out(of: IncidentMaterial, report: Report | None) -> list[PagePart]:
    found = report.ruled_out if report else ()
    rows = [f"{shown.title(row.label, of.titles)}: {row.because or 'nothing shows it'}" for row in found[:RULED_OUT]]
    return [BulletList([*rows, *more(len(found) - RULED_OUT)])] if rows else []


def could_not_look(report: Report | None) -> list[PagePart]:
    grouped: dict[tuple[str, str], list[Blind]] = {}
    for row in report.could_not_look if report else ():
        grouped.setdefault((row.check, row.why), []).append(row)
    rows = [f"{hosts([one.host for one in many])} · {check}: {why}" for (check, why), many in list(grouped.items())[:BLIND]]
    return [BulletList([*rows, *more(len(grouped) - BLIND)])] if rows else []


def commands(records: Sequence[Record]) -> Iterator[str]:
    """Each command once, and on how many machines; what was never run is none."""
    ran: dict[str, set[str]] = {}
    for row in records:
        if row.start_by is not None:
            ran.setdefault(shlex.join(row.action.command), set()).add(row.action.via)
    for command, hosts in list(ran.items())[:LINES]:
        yield f"{fold(hosts)}: {command}"
    yield from more(len(ran) - LINES)


def fixes(ladders: Sequence[Ladder], of: IncidentMaterial) -> list[PagePart]:
    """Where the fixes stand, in sentences; those that stand alike together."""
    alike: dict[tuple[str, str], set[str]] = {}
    for row in ladders:
        said = row.says.replace(row.target, "the host") if row.says else row.outcome or "goes on"
        alike.setdefault((shown.title(row.label, of.titles), said), set()).update(row.target.split(","))
    rows = [(f"{title} on {fold(hosts)}", said) for (title, said), hosts in list(alike.items())[:LADDERS]]
    return [PageTable(("Fix", "Where it stands"), rows)] if rows else []


def decided(of: IncidentMaterial) -> list[PagePart]:
    """Each word of a person about what, and why; one press about several is one row."""
    alike: dict[tuple[datetime, str, str, str, str], list[Record]] = {}
    for row in of.records or ():
        for at, who, what, why in _words_of(of, row):
            alike.setdefault((at, who, what, why, row.action.remedy), []).append(row)
    ordered = sorted(alike.items(), key=lambda one: one[0])
    rows = [(f"{at:%Y-%m-%d %H:%M:%S}", who, f"{what}: {doing(many)}", why) for (at, who, what, why, _), many in ordered[:VOTES]]
    left = [Paragraph(f"… and {len(ordered) - VOTES} more decisions.")] if len(ordered) > VOTES else []
    return [PageTable(("Time (UTC)", "Who", "Decision", "Why"), rows), *left] if rows else []


def _words_of(of: IncidentMaterial, row: Record) -> Iterator[tuple[datetime, str, str, str]]:
    for requester in sorted(requesters_of(row.action)):
        yield row.proposed_at.replace(microsecond=0), of.name(requester), "asked for it", ""
    for vote in row.votes:
        at = datetime.fromisoformat(vote.at).replace(microsecond=0)
        yield at, of.name(vote.voter), "approved" if vote.verdict == "approve" else "rejected", vote.reason
    if own_words(row) and not any(vote.verdict == "deny" for vote in row.votes):
        ended = next((one.at for one in reversed(of.history.events) if one.approval == row.approval), row.decide_by)
        yield ended.replace(microsecond=0), of.name(row.ended_by), words.WORDS[row.state], row.says
