"""The page for a customer, made of what their card is made of and of nothing else (`bot.cards.customers.view`): no person, no command, no machine of
anybody else's, no confidence, no word of our own thread. Pure."""

from collections.abc import Iterator
from datetime import datetime

from bot.cards.customers.phrases import phrase
from bot.cards.customers.view import CustomerView, TheirCause
from bot.postmortem.page import BulletList, Page, PagePart, PageSection, PageTable, Paragraph, QuotedLines
from tools.inventory.ranges import fold

HOSTS = 300
"""Characters of a list of hosts."""


def page_for_customer(view: CustomerView, reported: datetime | None, made: datetime) -> Page:
    """The page, not yet clean. `reported`: when their report came in."""
    said = view.language
    sections = (
        PageSection(phrase("report_glance", said), [PageTable((), list(_glance(view, reported)))]),
        PageSection(phrase("report_causes", said), [part for cause in view.causes for part in _cause(cause, said)]),
        PageSection(phrase("report_machines", said), _machines(view)),
        PageSection(
            phrase("report_questions", said), [BulletList([phrase(id_, said) for id_ in view.questions])] if view.questions else []
        ),
    )
    title = f"{phrase('ticket', said)} {view.incident}: {_head(view)}"
    note = phrase("report_made", said, when=f"{made:%Y-%m-%d %H:%M:%S}")
    return Page(view.incident, "customer", title, _stands(view), made, sections, (note,), said)


def _head(view: CustomerView) -> str:
    return view.causes[0].said.title if view.stage == "yours" and len(view.causes) == 1 else phrase(view.stage, view.language)


def _stands(view: CustomerView) -> str:
    return phrase(f"state_{view.state}", view.language) if view.state else phrase(view.stage, view.language)


def _glance(view: CustomerView, reported: datetime | None) -> Iterator[tuple[str, str]]:
    said = view.language
    yield phrase("report_stands", said), _stands(view)
    if reported:
        yield phrase("report_reported", said), f"{reported:%Y-%m-%d %H:%M} UTC"
    if view.hosts:
        yield phrase("report_yours", said), _names(view.hosts)
    if view.withdrawn:
        yield phrase("report_note", said), phrase("withdrawn", said)
    if view.stage in ("healthy", "people"):
        yield phrase("report_note", said), phrase(f"{view.stage}_next", said)


def _cause(cause: TheirCause, said: str) -> Iterator[PagePart]:
    where = f" ({_names(cause.hosts)})" if cause.hosts else ""
    if cause.ours:
        yield Paragraph(f"{cause.said.words}{where}")
        return
    yield Paragraph(f"{cause.said.title}{where}", strong=True)
    yield Paragraph(cause.said.words)
    if cause.shows:
        yield Paragraph(phrase("shows", said))
        yield QuotedLines(cause.shows)
    if cause.said.fix:
        yield Paragraph(f"{phrase('change', said)} {cause.said.fix.change}")
        yield QuotedLines(cause.block.split("\n"))
        yield Paragraph(f"{phrase('works', said)} {cause.said.fix.works}")


def _machines(view: CustomerView) -> list[PagePart]:
    said, over = view.language, view.state in ("proved", "closed")
    parts: list[PagePart] = []
    if view.avoid and not over:
        parts += [Paragraph(phrase("avoid", said)), QuotedLines([f"--exclude={fold(view.avoid)}"])]
    rows = (("could_not_look", view.silent), ("unknown_hosts", view.unknown_hosts), ("unknown_job", (view.unknown_job,)))
    lines = [phrase(id_, said, names=_names(names)) for id_, names in rows if any(names)]
    return [*parts, *([BulletList(lines)] if lines else [])]


def _names(names: tuple[str, ...]) -> str:
    return fold(names)[:HOSTS]
