"""What a report says of causes that another incident keeps: where they are worked on, with a link for those who may follow it. Pure."""

from collections.abc import Mapping

from bot.cards import blocks
from bot.cards.blocks import Block
from bot.cards.text import Part, bold
from graph.report import Report
from tools.inventory.host_ranges import fold_host_names

OTHER_THREAD_TEXT = "another thread"


def render_shared_causes(report: Report, links: Mapping[str, Part]) -> list[Block]:
    """One line for each incident that keeps any. `links`: incident → its thread, of those that the reader may follow."""
    return [
        _render_shared_cause(report, incident, links.get(incident, OTHER_THREAD_TEXT))
        for incident in dict.fromkeys(row.incident for row in report.shared)
    ]


def render_thread_links(report: Report, links: Mapping[str, Part]) -> list[Block]:
    """The threads of earlier incidents that an answer tells of, for whoever may follow them."""
    named = [links[row.incident] for row in report.threads if row.incident in links]
    return [blocks.line_section("↪ Threads: ", *[part for link in named for part in (link, " · ")][:-1])] if named else []


def _render_shared_cause(report: Report, incident: str, where: Part) -> Block:
    rows = [row for row in report.shared if row.incident == incident]
    hosts = fold_host_names(host for row in rows for host in row.hosts)
    whole = {row.label for row in rows} == {row.label for row in report.root_causes}
    what: tuple[Part, ...] = (bold(hosts), " is") if hosts and not whole else ("This is",)
    later = " I look again here when that is over." if any(row.waits for row in rows) else ""
    return blocks.line_section("↪ ", *what, " worked on in ", where, f", and decided there.{later}")
