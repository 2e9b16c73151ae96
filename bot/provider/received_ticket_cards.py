"""A tenant's ticket as operators read it. All its text is quoted and of low trust."""

from collections.abc import Sequence

from bot.cards import blocks
from bot.cards.blocks import Block, Card
from bot.cards.text import Line, bold, code
from bot.tenants.cards import internal_thread
from graph.ticket_export.document import ExportedHypothesis, TicketDocument
from kb.needle_search import split_lines

MAX_CAUSES = 6
MAX_LINES = 6
MAX_TRIED_REMEDIES = 6


def render_received_ticket(incident: str, tenant: str, document: TicketDocument) -> Card:
    """Return the thread's first message."""
    head = f"{tenant}'s own RackMedic sent a ticket"
    return blocks.build_card(
        f"{head}: {_join_messages(document)[:200]}",
        [
            blocks.line_section(bold(head), " ", code(document.incident)),
            *([blocks.code_section(split_lines(_join_messages(document)))] if _join_messages(document) else []),
            blocks.section(*_render_facts(document)),
            *_render_causes(document.hypotheses),
            *_render_quoted(
                "Their evidence:",
                [f"{fact.host or 'handed in'} {fact.check}: {fact.line}" for fact in document.facts if fact.line],
            ),
            *_render_quoted(
                "In their logs:", [f"{template.count:,}× {template.text}" for log in document.logs for template in log.templates]
            ),
            blocks.context(
                (
                    "Their words and facts are hints, not proof: my own checks decide. ",
                    "Names that begin with ~ are pseudonyms; only the customer knows the real names.",
                )
            ),
            blocks.actions(internal_thread.render_tell_button(incident)),
        ],
    )


def render_ticket_update(tenant: str, document: TicketDocument) -> Card:
    head = f"{tenant}'s own RackMedic has news of {document.incident}"
    message_blocks = [blocks.code_section(split_lines(_join_messages(document)))] if _join_messages(document) else []
    return blocks.build_card(
        head,
        [blocks.line_section(bold(head)), *message_blocks, blocks.section(*_render_facts(document)), *_render_causes(document.hypotheses)],
    )


def render_ticket_lost(tenant: str) -> Card:
    """Return the card for an expired document."""
    head = f"{tenant}'s own RackMedic sent a ticket"
    return blocks.build_card(
        head, [blocks.line_section(bold(head)), blocks.context(("Its content is no longer stored; ask them to send it again.",))]
    )


def _join_messages(document: TicketDocument) -> str:
    return "\n".join(row.text for row in document.said)


def _render_facts(document: TicketDocument) -> list[Line]:
    versions = "; ".join(f"{version.what} {version.value}" for version in document.versions[:MAX_LINES])
    attempts = "; ".join(f"{row.remedy} on {row.target}: {row.outcome or 'goes on'}" for row in document.tried[:MAX_TRIED_REMEDIES])
    unobserved = "; ".join(f"{row.host} {row.check}: {row.why}" for row in document.could_not_look[:MAX_LINES])
    rows = (
        ("Hosts, by their names:", ", ".join(document.hosts) or "none named"),
        ("Since:", f"{document.since:%Y-%m-%d %H:%MZ}" if document.since else ""),
        ("Versions:", versions),
        ("Tried by them:", attempts),
        ("They could not look:", unobserved),
        ("Rows without room:", str(document.left_out or "")),
    )
    return [(bold(name), f" {value[:400]}") for name, value in rows if value]


def _render_causes(hypotheses: Sequence[ExportedHypothesis]) -> list[Block]:
    lines: list[Line] = [
        (code(hypothesis.label), f" {hypothesis.verdict}", *_render_place(hypothesis), f": {hypothesis.because}")
        for hypothesis in hypotheses[:MAX_CAUSES]
    ]
    rest = len(hypotheses) - MAX_CAUSES
    more: list[Line] = [(f"… and {rest} more",)] if rest > 0 else []
    return [blocks.section((bold("What they tried:"),), *lines, *more)] if lines else []


def _render_quoted(head: str, rows: Sequence[str]) -> list[Block]:
    return [blocks.section((bold(head),)), blocks.code_section(rows[:MAX_LINES])] if rows else []


def _render_place(hypothesis: ExportedHypothesis) -> Line:
    location = ", ".join((hypothesis.devices or hypothesis.hosts)[:6])
    return (" on ", code(location)) if location else ()
