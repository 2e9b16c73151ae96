"""A ticket of a customer's own RackMedic as our people read it: the first message of its thread, and what was news later. Every word of it is
the customer's, quoted, and evidence of low trust."""

from collections.abc import Sequence

from bot.cards import blocks
from bot.cards.blocks import Block, Card
from bot.cards.customers import inside
from bot.cards.text import Line, bold, code
from graph.exchange.document import TicketDocument, ToldHypothesis
from kb.scan import lines_in

MOST_CAUSES, MOST_LINES, MOST_TRIED = 6, 6, 6


def render(incident: str, tenant: str, document: TicketDocument) -> Card:
    """All of it in a page; the rest is in the document (`rackmedic ticket export` at their side wrote it)."""
    head = f"{tenant}'s own RackMedic sent a ticket"
    return blocks.card(
        f"{head}: {_words(document)[:200]}",
        [
            blocks.say(bold(head), " ", code(document.incident)),
            *([blocks.quote(lines_in(_words(document)))] if _words(document) else []),
            blocks.section(*_facts(document)),
            *_causes(document.hypotheses),
            *_lines(
                "What shows it, as they saw it:",
                [f"{row.host or 'handed in'} {row.check}: {row.line}" for row in document.facts if row.line],
            ),
            *_lines("In their logs:", [f"{row.count:,}× {row.text}" for log in document.logs for row in log.templates]),
            blocks.context(
                (
                    "Their words and facts suggest and prove nothing: I look myself. ",
                    "Names that begin with ~ are signatures of names they keep.",
                )
            ),
            blocks.actions(inside.tell_button(incident)),
        ],
    )


def news(tenant: str, document: TicketDocument) -> Card:
    """A newer document of the same ticket."""
    head = f"{tenant}'s own RackMedic has news of {document.incident}"
    shown = [blocks.quote(lines_in(_words(document)))] if _words(document) else []
    return blocks.card(head, [blocks.say(bold(head)), *shown, blocks.section(*_facts(document)), *_causes(document.hypotheses)])


def lost(tenant: str) -> Card:
    """The document is gone; the incident is not."""
    head = f"{tenant}'s own RackMedic sent a ticket"
    return blocks.card(head, [blocks.say(bold(head)), blocks.context(("What it said is not kept any more; ask them to send it again.",))])


def _words(document: TicketDocument) -> str:
    return "\n".join(row.text for row in document.said)


def _facts(document: TicketDocument) -> list[Line]:
    """Where, since when, what runs, what was tried, where nobody could look: a line each."""
    versions = "; ".join(f"{row.what} {row.value}" for row in document.versions[:MOST_LINES])
    tried = "; ".join(f"{row.remedy} on {row.target}: {row.outcome or 'goes on'}" for row in document.tried[:MOST_TRIED])
    blind = "; ".join(f"{row.host} {row.check}: {row.why}" for row in document.could_not_look[:MOST_LINES])
    rows = (
        ("Hosts, as they call them:", ", ".join(document.hosts) or "none named"),
        ("Since:", f"{document.since:%Y-%m-%d %H:%MZ}" if document.since else ""),
        ("Versions:", versions),
        ("Tried by them:", tried),
        ("They could not look:", blind),
        ("Rows without room:", str(document.left_out or "")),
    )
    return [(bold(name), f" {said[:400]}") for name, said in rows if said]


def _causes(rows: Sequence[ToldHypothesis]) -> list[Block]:
    lines: list[Line] = [(code(row.label), f" {row.verdict}", *_place(row), f": {row.because}") for row in rows[:MOST_CAUSES]]
    rest = len(rows) - MOST_CAUSES
    more: list[Line] = [(f"… and {rest} more",)] if rest > 0 else []
    return [blocks.section((bold("What they tried:"),), *lines, *more)] if lines else []


def _lines(head: str, rows: Sequence[str]) -> list[Block]:
    return [blocks.section((bold(head),)), blocks.quote(rows[:MOST_LINES])] if rows else []


def _place(row: ToldHypothesis) -> Line:
    where = ", ".join((row.devices or row.hosts)[:6])
    return (" on ", code(where)) if where else ()
