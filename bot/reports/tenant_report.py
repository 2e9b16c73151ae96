"""The page for a tenant, built only from the tenant's card (`bot.tenants.cards.view`). Pure.

It has no names, commands, machines of others, confidence, or words of the operators' thread.
"""

from collections.abc import Iterator
from datetime import datetime

from bot.reports.page import BulletList, Page, PagePart, PageSection, PageTable, Paragraph, QuotedLines
from bot.tenants.cards.phrases import get_phrase
from bot.tenants.cards.view import TenantCause, TenantView
from tools.inventory.host_ranges import fold_host_names

MAX_HOSTS_CHARS = 300  # length of a list of hosts


def render_tenant_page(view: TenantView, reported: datetime | None, made: datetime) -> Page:
    """Return the page, unsanitized: pass it to `sanitize_page`."""
    language = view.language
    sections = (
        PageSection(get_phrase("report_glance", language), [PageTable((), list(_list_glance_rows(view, reported)))]),
        PageSection(get_phrase("report_causes", language), [part for cause in view.causes for part in _build_cause_parts(cause, language)]),
        PageSection(get_phrase("report_machines", language), _build_machine_parts(view)),
        PageSection(
            get_phrase("report_questions", language),
            [BulletList([get_phrase(id_, language) for id_ in view.questions])] if view.questions else [],
        ),
    )
    title = f"{get_phrase('ticket', language)} {view.incident}: {_format_headline(view)}"
    note = get_phrase("report_made", language, when=f"{made:%Y-%m-%d %H:%M:%S}")
    return Page(view.incident, "customer", title, _format_status(view), made, sections, (note,), language)


def _format_headline(view: TenantView) -> str:
    return view.causes[0].said.title if view.stage == "yours" and len(view.causes) == 1 else get_phrase(view.stage, view.language)


def _format_status(view: TenantView) -> str:
    return get_phrase(f"state_{view.state}", view.language) if view.state else get_phrase(view.stage, view.language)


def _list_glance_rows(view: TenantView, reported: datetime | None) -> Iterator[tuple[str, str]]:
    language = view.language
    yield get_phrase("report_stands", language), _format_status(view)
    if reported:
        yield get_phrase("report_reported", language), f"{reported:%Y-%m-%d %H:%M} UTC"
    if view.hosts:
        yield get_phrase("report_yours", language), _format_host_names(view.hosts)
    if view.withdrawn:
        yield get_phrase("report_note", language), get_phrase("withdrawn", language)
    if view.stage in ("healthy", "people"):
        yield get_phrase("report_note", language), get_phrase(f"{view.stage}_next", language)


def _build_cause_parts(cause: TenantCause, said: str) -> Iterator[PagePart]:
    location = f" ({_format_host_names(cause.hosts)})" if cause.hosts else ""
    if cause.ours:
        yield Paragraph(f"{cause.said.words}{location}")
        return
    yield Paragraph(f"{cause.said.title}{location}", strong=True)
    yield Paragraph(cause.said.words)
    if cause.shows:
        yield Paragraph(get_phrase("shows", said))
        yield QuotedLines(cause.shows)
    if cause.said.fix:
        yield Paragraph(f"{get_phrase('change', said)} {cause.said.fix.change}")
        yield QuotedLines(cause.block.split("\n"))
        yield Paragraph(f"{get_phrase('works', said)} {cause.said.fix.works}")


def _build_machine_parts(view: TenantView) -> list[PagePart]:
    language, over = view.language, view.state in ("proved", "closed")
    parts: list[PagePart] = []
    if view.avoid and not over:
        parts += [Paragraph(get_phrase("avoid", language)), QuotedLines([f"--exclude={fold_host_names(view.avoid)}"])]
    rows = (("could_not_look", view.silent), ("unknown_hosts", view.unknown_hosts), ("unknown_job", (view.unknown_job,)))
    lines = [get_phrase(id_, language, names=_format_host_names(names)) for id_, names in rows if any(names)]
    return [*parts, *([BulletList(lines)] if lines else [])]


def _format_host_names(names: tuple[str, ...]) -> str:
    return fold_host_names(names)[:MAX_HOSTS_CHARS]
